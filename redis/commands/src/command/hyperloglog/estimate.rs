//! From elements to registers, and from registers to a count. Bit for bit what Redis computes: both
//! must come to the same counts.

use super::layout::{REGISTER_BITS, REGISTERS};

/// Bits of a hash that are left after those that choose the register.
const RANK_BITS: usize = 64 - REGISTER_BITS as usize;
const SEED: u64 = 0xadc8_3b19;

/// How many registers hold each value.
pub(super) type Histogram = [u32; 64];

/// The register of an element, and its rank: the position, from 1, of the first one bit.
pub(super) fn register(element: &[u8]) -> (usize, u8) {
    let hash = murmur_64a(element, SEED);
    let rest = hash >> REGISTER_BITS | 1 << RANK_BITS;
    ((hash % REGISTERS as u64) as usize, rest.trailing_zeros() as u8 + 1)
}

/// A. Appleby's MurmurHash64A, in little-endian order on every machine.
fn murmur_64a(bytes: &[u8], seed: u64) -> u64 {
    const FACTOR: u64 = 0xc6a4_a793_5bd1_e995;
    const SHIFT: u32 = 47;
    let mut hash = seed ^ (bytes.len() as u64).wrapping_mul(FACTOR);
    let mut words = bytes.chunks_exact(8);
    for word in &mut words {
        let mut word = little_endian(word).wrapping_mul(FACTOR);
        word ^= word >> SHIFT;
        hash = (hash ^ word.wrapping_mul(FACTOR)).wrapping_mul(FACTOR);
    }
    if !words.remainder().is_empty() {
        hash = (hash ^ little_endian(words.remainder())).wrapping_mul(FACTOR);
    }
    hash = (hash ^ hash >> SHIFT).wrapping_mul(FACTOR);
    hash ^ hash >> SHIFT
}

fn little_endian(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte))
}

/// Ertl's estimator of the number of elements (section 2, algorithm 6 of his paper).
pub(super) fn count(histogram: &Histogram) -> u64 {
    /// 1 / (2 ln 2), as Redis writes it.
    const ALPHA: f64 = 0.721_347_520_444_481_7;
    let m = REGISTERS as f64;
    let of = |rank: usize| f64::from(histogram[rank]);
    let mut z = m * tau((m - of(RANK_BITS + 1)) / m);
    for rank in (1..=RANK_BITS).rev() {
        z = (z + of(rank)) * 0.5;
    }
    z += m * sigma(of(0) / m);
    (ALPHA * m * m / z).round() as u64
}

fn sigma(mut x: f64) -> f64 {
    if x == 1.0 {
        return f64::INFINITY;
    }
    let (mut y, mut z) = (1.0, x);
    loop {
        x *= x;
        let before = z;
        z += x * y;
        y += y;
        if before == z {
            return z;
        }
    }
}

fn tau(mut x: f64) -> f64 {
    if x == 0.0 || x == 1.0 {
        return 0.0;
    }
    let (mut y, mut z) = (1.0, 1.0 - x);
    loop {
        x = x.sqrt();
        let before = z;
        y *= 0.5;
        z -= (1.0 - x) * (1.0 - x) * y;
        if before == z {
            return z / 3.0;
        }
    }
}
