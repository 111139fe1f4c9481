//! Scans while what they walk over changes.

use stillframe_peers::scanning::misses_nothing_and_ends;
use stillframe_peers::{Random, rounds};

use crate::harness::Harness;

#[test]
fn a_scan_misses_nothing_and_ends_while_keys_are_added_and_replaced() {
    let mut random = Random::new("a_scan_misses_nothing_and_ends");
    for _ in 0..rounds(2, 50) {
        misses_nothing_and_ends(&mut Harness::with_seed(random.next()), &mut random);
    }
}
