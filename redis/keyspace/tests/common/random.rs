//! Randomness that can be had again, and sizes: for tests inside the crate and beside it.

#![allow(dead_code, reason = "each place uses its part")]

use std::hash::{BuildHasher, RandomState};

/// A small generator with a seed that a failing test prints.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn seeded(test: &str) -> Self {
        let given = std::env::var("STILLFRAME_SEED").ok().and_then(|seed| seed.parse().ok());
        let seed = given.unwrap_or_else(|| BuildHasher::hash_one(&RandomState::new(), test));
        println!("{test}: STILLFRAME_SEED={seed}");
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    pub(crate) fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    pub(crate) fn one_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }
}

/// `small` under Miri, `usual` else, ten times as much with `STILLFRAME_LONG=1`, an eighth in a
/// quick run.
pub(crate) fn sized(usual: usize, small: usize) -> usize {
    if cfg!(miri) { small } else { stillframe_peers::rounds(usual, usual * 10) }
}
