//! Every mistake of the checker changes a verdict.

use super::brute::compare;
use super::circles;
use super::known::first_mistake;
use super::planted::{FAULTS, plant};
use super::simulated::{Shape, Simulated};
use crate::mutant::{Mutant, with_mutant};
use crate::{Budget, Verdict, check};
use stillframe_peers::Random;

/// Whether the checker is right about histories: known, tiny and simulated ones, planted faults.
fn is_right(random: &mut Random) -> bool {
    let right = |history: &[_]| matches!(check(history, Budget::default()), Verdict::Linearizable);
    first_mistake().is_none()
        && circles::first_mistake().is_none()
        && circles::compare(random, 2_000).is_ok()
        && (0..10).all(|_| {
            let shape = Shape { clients: 5, calls: 100, lost: 100 };
            right(&Simulated::run(shape, random).history)
                && FAULTS.iter().all(|&fault| {
                    let mut server = Simulated::run(Shape { calls: 20, ..shape }, random);
                    plant(fault, &mut server);
                    !right(&server.history)
                })
                && compare(random, 2_000).is_ok()
        })
}

#[test]
fn every_mistake_is_found() {
    let mut random = Random::new("mutants");
    for &mutant in Mutant::ALL {
        // Some need luck.
        let is_found = (0..20).any(|_| !with_mutant(mutant, || is_right(&mut random)));
        assert!(is_found, "{mutant:?} is not found");
    }
}
