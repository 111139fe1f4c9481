//! A growing array of items, for tables and lists.
//!
//! - A directory of chunks, each twice as long as the one before it. Growth takes a chunk and moves
//!   nothing, so an item stays where it is.
//! - Item `i` has the count `c = i + F`, where `F` items, a power of two, are in the first chunk. A
//!   chunk holds the items whose counts have as many leading zeros, `z` of 32 bits.
//! - For each `z` the directory says from which word on the items of that chunk are counted: item
//!   `i` begins `c` items behind that word. It may lie before the first one, so sums wrap.
//! - What the directory says has its highest bit flipped. Of a chunk that was never taken it says
//!   0, which puts the items at `2^63` and beyond: so the check of the bounds of an access shows
//!   that as well.

use stillframe::MemoryError;

use crate::blocks;
use crate::source::{Source, Target};

/// Words in the first chunk, unless an item is longer.
const FIRST_WORDS: usize = 256;
/// The most items: an index plus the items of the first chunk fits 32 bits.
pub(crate) const ITEMS_MAX: usize = u32::MAX as usize - FIRST_WORDS;

/// The bit of an entry that is flipped.
const TAKEN: usize = 1 << 63;

/// Items that lie one behind the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Run {
    /// The word of the first.
    pub start: usize,
    /// How many there are.
    pub items: usize,
    /// The number of the first in its place.
    pub first: usize,
}

/// Where items of `STRIDE` words lie: at the directory of their chunks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Chunks {
    directory: usize,
    stride: usize,
    /// Items in the first chunk, as a shift.
    first: u32,
}

impl Chunks {
    /// Words of the directory: one for each number of zeros.
    pub(crate) const WORDS: usize = 33;

    /// Items of `stride` words, at least one.
    #[inline]
    pub(crate) const fn new(directory: usize, stride: usize) -> Self {
        let first = (FIRST_WORDS / stride).checked_ilog2();
        Self { directory, stride, first: if let Some(first) = first { first } else { 0 } }
    }

    /// The same for items whose directory is there.
    #[inline]
    pub(crate) const fn with_directory(self, directory: usize) -> Self {
        Self { directory, ..self }
    }

    /// The count of item `index`, and its leading zeros, by which the directory has the chunk. The
    /// count of an index that is too large is below `F`: no chunk holds such.
    ///
    /// It may be 0, as far as the compiler knows, which would else take the logarithm by an
    /// instruction (`bsr`) that waits for what was last in the register it writes: each access
    /// would wait for the memory of the one before.
    #[inline]
    fn count(self, index: usize) -> (usize, usize) {
        let count = (index as u32).wrapping_add(1 << self.first);
        (count as usize, count.leading_zeros() as usize)
    }

    /// The first word of item `index`, below 2^32; out of all bounds if there was never
    /// [room](Self::make_room) for it.
    #[inline]
    pub(crate) fn at(self, source: &(impl Source + ?Sized), index: usize) -> usize {
        let (count, entry) = self.count(index);
        // One check, which is the same for all items.
        let directory = source.window(self.directory, Self::WORDS).expect("a place is whole");
        let start = directory(entry) as usize ^ TAKEN;
        start.wrapping_add(count * self.stride)
    }

    /// Where the first `len` items lie.
    pub(crate) fn runs(self, source: &(impl Source + ?Sized), len: usize) -> Vec<Run> {
        let mut runs = Vec::new();
        let (mut first, len) = (0, len.min(ITEMS_MAX));
        while first < len {
            let (count, _) = self.count(first);
            let items = ((count + 1).next_power_of_two() - count).min(len - first);
            runs.push(Run { start: self.at(source, first), items, first });
            first += items;
        }
        runs
    }

    /// Makes room for item `index`, which follows the last one there is room for or comes before.
    pub(crate) fn make_room(
        self,
        target: &mut impl Target,
        index: usize,
    ) -> Result<(), MemoryError> {
        if index >= ITEMS_MAX {
            return Err(MemoryError::TooLarge { words: index.saturating_mul(self.stride) });
        }
        let (_, entry) = self.count(index);
        if target.read(self.directory + entry) == 0 {
            // The number of items, and the count of the first of them.
            let words = self.stride.saturating_mul(1 << (31 - entry));
            let start = blocks::take(target, words)?.wrapping_sub(words);
            target.write(self.directory + entry, (start ^ TAKEN) as u64);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_lie_apart_in_as_many_words_as_they_need() {
        for stride in [1, 2, 3, 7, 255, 256, 257, 5000] {
            let (directory, mut words) = (blocks::HEADER, vec![0; blocks::HEADER + Chunks::WORDS]);
            blocks::begin(&mut words, blocks::HEADER + Chunks::WORDS);
            let chunks = Chunks::new(directory, stride);
            let mut ends = 0;
            for index in 0..3000 {
                chunks.make_room(&mut words, index).expect("memory");
                let at = chunks.at(&words, index);
                assert!(chunks.at(&words, 2 * index + 256) > 1 << 62, "it was never taken");
                assert!(at >= ends, "{stride}, {index}: chunks rise, and items do not overlap");
                ends = at + stride;
                assert!(ends <= blocks::end(&words));
            }
        }
        for index in [ITEMS_MAX, u32::MAX as usize - 255, u32::MAX as usize] {
            assert!(Chunks::new(0, 1).at(&vec![0; 100], index) > 1 << 62, "{index}");
        }
        let full = Chunks::new(0, 2).make_room(&mut vec![0; 100], ITEMS_MAX);
        assert!(matches!(full, Err(MemoryError::TooLarge { .. })));
    }

    #[test]
    fn a_chunk_may_lie_below_those_before_it() {
        let (directory, mut words) = (blocks::HEADER, vec![0; blocks::HEADER + Chunks::WORDS]);
        blocks::begin(&mut words, blocks::HEADER + Chunks::WORDS);
        let low = blocks::take(&mut words, 1024).expect("memory");
        let chunks = Chunks::new(directory, 1);
        let make_room = |words: &mut Vec<u64>, index| {
            chunks.make_room(words, index).expect("memory");
            chunks.at(words, index)
        };
        let before = [0, 256].map(|index| make_room(&mut words, index));
        blocks::give_back(&mut words, low, 1024);
        assert_eq!(make_room(&mut words, 768), low);
        assert!(low < 1024, "its counts begin below the first word");
        assert_eq!([0, 256].map(|index| chunks.at(&words, index)), before);
        assert_eq!(chunks.at(&words, 1791), low + 1023);
    }
}
