//! A growing array of items, for tables and lists.
//!
//! - A directory of chunks, each twice as long as the one before it. Growth takes a chunk and moves
//!   nothing, so an item stays where it is.
//! - Item `i` lies in chunk `log2(i + F) - log2(F)`, where `F` items are in the first chunk: two
//!   shifts, and a load from the directory, which the caches hold.

use stillframe::MemoryError;

use crate::blocks;
use crate::source::{Source, Target};

/// Words in the first chunk, unless an item is longer.
const FIRST_WORDS: usize = 256;
/// The most items: an index plus the items of the first chunk fits 32 bits.
pub(crate) const ITEMS_MAX: usize = u32::MAX as usize - FIRST_WORDS;

/// Where items of `STRIDE` words lie: at the directory of their chunks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Chunks {
    directory: usize,
    stride: usize,
    /// Items in the first chunk, as a shift.
    first: u32,
}

impl Chunks {
    /// Words of the directory.
    pub(crate) const WORDS: usize = 34;

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

    /// The chunk of item `index`, and its place there. A chunk beyond the directory is one of an
    /// index that is too large.
    ///
    /// In 32 bits the sum may be 0, as far as the compiler knows. The logarithm of what cannot be 0
    /// it would take by an instruction (`bsr`) that waits for what was last in the register it
    /// writes: each access would wait for the memory of the one before.
    #[inline]
    fn chunk(self, index: usize) -> (usize, usize) {
        let index = (index as u32).wrapping_add(1 << self.first);
        let log = 31u32.wrapping_sub(index.leading_zeros());
        let place = index as usize & !(usize::MAX << (log & 31));
        (log.wrapping_sub(self.first) as usize, place)
    }

    /// The first word of item `index`, for which there is [room](Self::make_room).
    #[inline]
    pub(crate) fn at(self, source: &(impl Source + ?Sized), index: usize) -> usize {
        let (chunk, place) = self.chunk(index);
        source.read(self.directory + chunk) as usize + place * self.stride
    }

    /// As [`at`](Self::at), of any index below 2^32; `None` if its chunk was never taken.
    #[inline]
    pub(crate) fn find(self, source: &(impl Source + ?Sized), index: usize) -> Option<usize> {
        let (chunk, place) = self.chunk(index);
        if chunk >= Self::WORDS {
            return None;
        }
        let start = source.read(self.directory + chunk) as usize;
        (start != 0).then(|| start + place * self.stride)
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
        let (chunk, _) = self.chunk(index);
        if target.read(self.directory + chunk) == 0 {
            let items = 1usize << (self.first as usize + chunk);
            let at = blocks::take(target, items.saturating_mul(self.stride))?;
            target.write(self.directory + chunk, at as u64);
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
            blocks::begin_at(&mut words, blocks::HEADER + Chunks::WORDS);
            let chunks = Chunks::new(directory, stride);
            let mut ends = 0;
            for index in 0..3000 {
                chunks.make_room(&mut words, index).expect("memory");
                let at = chunks.at(&words, index);
                assert!(at >= ends, "{stride}, {index}: chunks rise, and items do not overlap");
                ends = at + stride;
                assert!(ends <= blocks::end(&words));
            }
        }
        for index in [ITEMS_MAX, u32::MAX as usize - 255, u32::MAX as usize] {
            assert_eq!(Chunks::new(0, 1).find(&vec![0; 100], index), None, "{index}");
        }
        let full = Chunks::new(0, 2).make_room(&mut vec![0; 100], ITEMS_MAX);
        assert!(matches!(full, Err(MemoryError::TooLarge { .. })));
    }
}
