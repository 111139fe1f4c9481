//! A small source of randomness for RANDOMKEY, sampling and identifiers; not for secrets.

use std::hash::{BuildHasher, Hasher, RandomState};

/// SplitMix64, seeded from the operating system.
pub struct Random(u64);

impl Random {
    /// A generator with a fresh seed.
    pub fn seeded() -> Self {
        Self(RandomState::new().build_hasher().finish())
    }

    /// A generator that gives the same numbers for the same seed.
    pub fn with_seed(seed: u64) -> Self {
        Self(seed)
    }

    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A generator of its own, for a caller that cannot keep a borrow of this one.
    pub fn split(&mut self) -> Self {
        Self(self.bits())
    }

    /// A number below `bound`, which is not zero; a bias below 2^-64 times `bound` is left.
    pub fn below(&mut self, bound: usize) -> usize {
        ((u128::from(self.bits()) * bound as u128) >> 64) as usize
    }

    /// Forty hexadecimal digits, as in Redis's `run_id`.
    pub fn identifier(&mut self) -> String {
        let text: String = (0..3).map(|_| format!("{:016x}", self.bits())).collect();
        text[..40].to_owned()
    }
}
