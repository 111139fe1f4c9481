//! Each planted mistake is found by the tests that find nothing else.

use super::super::mutant::{Mutant, with_mutant};
use super::crashes::{fail_a_call, lose_power};
use super::*;
use crate::{Imprint, algorithms::calc::PartialCalc};

#[test]
fn mistakes_are_rejected() {
    let _watchdog = stillframe_peers::Watchdog::start();
    let mut random = Random::new("mutants");
    for &mutant in Mutant::ALL {
        let found = (0..2_000).find_map(|_| {
            with_mutant(mutant, || {
                let imprint = lose_power::<Imprint>(&mut random)
                    .and_then(|()| fail_a_call::<Imprint>(&mut random));
                let mut partial = || {
                    lose_power::<PartialCalc>(&mut random)
                        .and_then(|()| fail_a_call::<PartialCalc>(&mut random))
                };
                imprint.and_then(|()| partial()).err()
            })
        });
        println!("{mutant:?}: {}", found.unwrap_or_else(|| panic!("{mutant:?} was not found")));
    }
}
