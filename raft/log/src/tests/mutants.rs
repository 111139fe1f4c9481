//! Each planted mistake is found by the tests that find nothing else.

use super::crashes::{fail_calls, lives};
use super::*;
use crate::mutant::{Mutant, with_mutant};

#[test]
fn mistakes_are_rejected() {
    let _watchdog = stillframe_peers::Watchdog::start();
    let mut random = Random::new("mutants");
    for &mutant in Mutant::ALL {
        let found = (0..4_000).find_map(|_| {
            with_mutant(mutant, || {
                lives(&mut random, 4, 500).and_then(|()| fail_calls(&mut random, 3)).err()
            })
        });
        println!("{mutant:?}: {}", found.unwrap_or_else(|| panic!("{mutant:?} was not found")));
    }
}
