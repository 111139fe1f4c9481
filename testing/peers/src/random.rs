//! Chance by seed: a failing random test prints the seed that repeats it.

use std::time::{SystemTime, UNIX_EPOCH};

/// Multiplies the rounds of a test in a long run (`STILLFRAME_LONG`); an eighth in a quick one
/// (`STILLFRAME_QUICK`, for `scripts/mutant.sh`).
#[must_use]
pub fn rounds(short: usize, long: usize) -> usize {
    let is_set = |name| std::env::var_os(name).is_some();
    match () {
        () if is_set("STILLFRAME_LONG") => long,
        () if is_set("STILLFRAME_QUICK") => short.div_ceil(8),
        () => short,
    }
}

/// A small generator (splitmix64), the same on every machine for one seed.
pub struct Random(u64);

impl Random {
    /// Takes the seed from `STILLFRAME_SEED`, or from the clock; prints it, for a failure's sake.
    #[must_use]
    pub fn new(test: &str) -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let seed = std::env::var("STILLFRAME_SEED")
            .map_or_else(|_| now.as_millis() as u64, |text| text.parse().expect("a number"));
        println!("{test}: STILLFRAME_SEED={seed}");
        Self(seed)
    }

    /// The numbers of one seed.
    #[must_use]
    pub fn with_seed(seed: u64) -> Self {
        Self(seed)
    }

    /// The next 64 bits.
    #[expect(clippy::should_implement_trait, reason = "it has no end")]
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number under `bound`.
    pub fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    /// One of several.
    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }

    /// This number of bytes.
    pub fn bytes(&mut self, length: usize) -> Vec<u8> {
        (0..length).map(|_| self.next() as u8).collect()
    }
}
