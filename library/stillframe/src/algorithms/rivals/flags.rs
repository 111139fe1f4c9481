//! One flag a unit: packed, or a byte each. Flags have one owner at a time, so changing one among
//! 64 in a word is a load and a store, no atomic change.

use std::ops::Range;

use crate::error::MemoryError;
use crate::image::{Marks, low};
use crate::info::Grain;
use crate::memory::{Records, Words};
use crate::options::Options;
use crate::sink::BLOCK_WORDS;
use crate::sync::{AtomicU64, Ordering};

/// Flags for the units of whole blocks, in groups of 64.
fn groups(words: usize, grain: Grain) -> usize {
    (words.div_ceil(BLOCK_WORDS) * grain.units(BLOCK_WORDS)).div_ceil(64)
}

/// The units of a block.
fn units(block: usize, grain: Grain) -> Range<usize> {
    let count = grain.units(BLOCK_WORDS);
    block * count..(block + 1) * count
}

/// `N` bits a unit: a word for each column of 64 units, the words of all
/// columns side by side. Columns may have different owners.
#[derive(Debug)]
pub(crate) struct Columns<const N: usize> {
    groups: Records<N, 64>,
    grain: Grain,
}

impl<const N: usize> Columns<N> {
    /// Clear flags for the state that `options` describe, which fits in memory.
    pub(crate) fn create(options: &Options, grain: Grain) -> Result<Self, MemoryError> {
        let words = Words::create(&options.resized(|words| N * groups(words, grain)))?;
        Ok(Self { groups: Records::all(&words), grain })
    }
    /// Makes room for `words` words of state.
    pub(crate) fn grow(&mut self, words: usize) -> Result<(), MemoryError> {
        let mut all = self.groups.words().view();
        all.grow(N * groups(words, self.grain))?;
        self.groups = Records::all(&all);
        Ok(())
    }
    pub(crate) fn view(&self) -> Self {
        Self { groups: Records::all(self.groups.words()), grain: self.grain }
    }
    /// The words in which the bits of a unit are, at place `unit % 64`.
    #[inline(always)]
    pub(crate) fn at(&self, unit: usize) -> &[AtomicU64; N] {
        self.groups.at(unit)
    }
    #[inline]
    pub(crate) fn get(&self, column: usize, unit: usize) -> bool {
        self.at(unit)[column].load(Ordering::Relaxed) >> (unit % 64) & 1 != 0
    }
    #[inline]
    pub(crate) fn prefetch(&self, unit: usize) {
        self.groups.words().prefetch(N * (unit / 64));
    }
    pub(crate) fn fill(&self, column: usize, units: Range<usize>, flag: bool) {
        let mut at = units.start;
        while at < units.end {
            let end = units.end.min((at / 64 + 1) * 64);
            let mask = low(end - at) << (at % 64);
            let word = &self.at(at)[column];
            let old = word.load(Ordering::Relaxed);
            let new = if flag { old | mask } else { old & !mask };
            if new != old {
                word.store(new, Ordering::Relaxed);
            }
            at = end;
        }
    }
    /// The words of which a unit is flagged, or for `whole` all of it.
    #[inline]
    pub(crate) fn marks(&self, column: usize, block: usize, whole: bool) -> Marks {
        Marks::from_flags(block, self.grain, whole, |group| {
            self.groups.at(64 * group)[column].load(Ordering::Relaxed)
        })
    }
    pub(crate) fn forget(&self, column: usize, block: usize) {
        self.fill(column, units(block, self.grain), false);
    }
}

/// A byte a unit.
#[derive(Debug)]
pub(crate) struct Bytes {
    words: Words,
    grain: Grain,
}

impl Bytes {
    /// Clear flags for the state that `options` describe, which fits in memory.
    pub(crate) fn create(options: &Options, grain: Grain) -> Result<Self, MemoryError> {
        let words = Words::create(&options.resized(|words| 8 * groups(words, grain)))?;
        Ok(Self { words, grain })
    }
    /// Makes room for `words` words of state.
    pub(crate) fn grow(&mut self, words: usize) -> Result<(), MemoryError> {
        self.words.grow(8 * groups(words, self.grain))
    }
    pub(crate) fn view(&self) -> Self {
        Self { words: self.words.view(), grain: self.grain }
    }
    #[inline]
    pub(crate) fn get(&self, unit: usize) -> bool {
        self.words.load_byte(unit) != 0
    }
    #[inline]
    pub(crate) fn prefetch(&self, unit: usize) {
        self.words.prefetch(unit / 8);
    }
    #[inline]
    pub(crate) fn set(&self, unit: usize) {
        self.words.store_byte(unit, 1);
    }
    /// Eight at a time where they lie in one word.
    pub(crate) fn fill(&self, units: Range<usize>, flag: bool) {
        let mut at = units.start;
        while at < units.end {
            if at.is_multiple_of(8) && units.end - at >= 8 {
                let new = if flag { 0x0101_0101_0101_0101 } else { 0 };
                if self.words.load(at / 8) != new {
                    self.words.store(at / 8, new);
                }
                at += 8;
            } else {
                self.words.store_byte(at, u8::from(flag));
                at += 1;
            }
        }
    }
    /// The words of which a unit is flagged, or for `whole` all of it.
    #[inline]
    pub(crate) fn marks(&self, block: usize, whole: bool) -> Marks {
        Marks::from_flags(block, self.grain, whole, |group| {
            (0..8).fold(0, |flags, i| flags | packed(self.words.load(8 * group + i)) << (8 * i))
        })
    }
    pub(crate) fn forget(&self, block: usize) {
        self.fill(units(block, self.grain), false);
    }
}

/// Eight bytes, each 0 or 1, as eight bits: the product moves byte j to bit 56 + j.
#[inline]
fn packed(bytes: u64) -> u64 {
    u64::from_le(bytes).wrapping_mul(0x0102_0408_1020_4080) >> 56
}
