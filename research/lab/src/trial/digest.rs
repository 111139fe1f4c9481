//! A 64-bit digest of a block, and the digests of an image in memory that a forked child shares.
//!
//! Four lanes of multiply and fold: each step takes two words, xors one with the lane and the other
//! with a constant of the lane, multiplies them to 128 bits and folds these to 64. It is no defence
//! against an adversary, but two blocks of which one was not made from the other agree once in
//! 2^64. Every contestant pays the same: about 0.12 us a block of 4 KiB, on the snapshotter's core
//! (`cargo test --release -p stillframe-lab digest -- --nocapture` prints it).

use std::sync::atomic::{AtomicU64, Ordering};

use stillframe::{BLOCK_WORDS, MemoryError, Shared};

const KEYS: [u64; 4] =
    [0xa076_1d64_78bd_642f, 0xe703_7ed1_a0b4_28db, 0x8ebc_6af0_9c88_c6e3, 0x5899_65cc_7537_4cc3];

/// The digest of some words; never zero.
pub(crate) fn digest(words: &[u64]) -> u64 {
    let mut lanes = KEYS;
    let (chunks, rest) = words.as_chunks::<8>();
    for chunk in chunks {
        for lane in 0..4 {
            lanes[lane] = fold(lanes[lane] ^ chunk[2 * lane], KEYS[lane] ^ chunk[2 * lane + 1]);
        }
    }
    for (number, word) in rest.iter().enumerate() {
        lanes[number % 4] = fold(lanes[number % 4] ^ word, KEYS[0] ^ number as u64);
    }
    let seed = KEYS[1] ^ words.len() as u64;
    lanes.into_iter().fold(seed, |sum, lane| fold(sum ^ lane, KEYS[2])).max(1)
}

/// The digest of each block of a state of so many words.
pub(crate) fn digests_of(words: usize, read: impl Fn(usize) -> u64) -> Vec<u64> {
    let mut block = [0; BLOCK_WORDS];
    let digest_of = |start: usize| {
        let length = BLOCK_WORDS.min(words - start);
        (start..).zip(&mut block[..length]).for_each(|(at, word)| *word = read(at));
        digest(&block[..length])
    };
    (0..words).step_by(BLOCK_WORDS).map(digest_of).collect()
}

#[inline]
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}

const PART: usize = 8192;
type Part = Shared<[AtomicU64; PART]>;

/// One digest a block; zero where none was made.
#[derive(Debug, Clone)]
pub(crate) struct Digests {
    blocks: usize,
    parts: Vec<Part>,
}

impl Digests {
    pub(crate) fn new(blocks: usize) -> Result<Self, MemoryError> {
        let part = |_| Shared::new(std::array::from_fn(|_| AtomicU64::new(0)));
        let parts = (0..blocks.div_ceil(PART)).map(part).collect::<Result<_, _>>()?;
        Ok(Self { blocks, parts })
    }
    /// Relaxed: the end of the image orders all stores before its reader.
    pub(crate) fn set(&self, block: usize, digest: u64) {
        self.parts[block / PART][block % PART].store(digest, Ordering::Relaxed);
    }
    fn get(&self, block: usize) -> u64 {
        self.parts[block / PART][block % PART].load(Ordering::Relaxed)
    }
    pub(crate) fn clear(&self) {
        (0..self.blocks).for_each(|block| self.set(block, 0));
    }
    pub(crate) fn to_vec(&self) -> Vec<u64> {
        (0..self.blocks).map(|block| self.get(block)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bit_and_place_counts() {
        let words: Vec<u64> = (0..67).map(|word| word * 3).collect();
        let right = digest(&words);
        for place in 0..words.len() {
            for bit in [0, 17, 63] {
                let mut wrong = words.clone();
                wrong[place] ^= 1 << bit;
                assert_ne!(digest(&wrong), right, "word {place}, bit {bit}");
            }
        }
        let mut swapped = words.clone();
        swapped.swap(3, 11);
        assert_ne!(digest(&swapped), right);
        assert_ne!(digest(&words[..66]), right);
        assert_ne!(digest(&[0; 8]), digest(&[0; 16]));
    }

    #[test]
    fn cost_of_a_block() {
        let words: Vec<u64> = (0..512).collect();
        let started = std::time::Instant::now();
        let mut sum = 0;
        for _ in 0..10_000 {
            sum ^= digest(std::hint::black_box(&words));
        }
        println!("{:.0} ns a block ({sum:x})", started.elapsed().as_nanos() as f64 / 10_000.0);
    }
}
