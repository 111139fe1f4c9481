//! A small number a unit, where two threads may change neighbours at a time.

use std::ops::Range;

use super::Words;
use crate::error::MemoryError;
use crate::options::Options;
use crate::os;
use crate::sync::Ordering;

use cell::{Cell, PER_WORD};

#[cfg(not(any(feature = "loom", feature = "shuttle")))]
mod cell {
    use crate::memory::Words;

    pub(super) type Cell = std::sync::atomic::AtomicU8;
    pub(super) const PER_WORD: usize = 8;

    #[inline]
    pub(super) fn at(words: &Words, unit: usize) -> &Cell {
        words.byte(unit)
    }

    #[inline]
    pub(super) fn all(words: &Words) -> &[Cell] {
        words.bytes()
    }
}

/// The model checkers' atomics have no bytes: there each tag takes a word.
#[cfg(any(feature = "loom", feature = "shuttle"))]
mod cell {
    use crate::memory::Words;

    pub(super) type Cell = crate::sync::AtomicU64;
    pub(super) const PER_WORD: usize = 1;

    pub(super) fn at(words: &Words, unit: usize) -> &Cell {
        words.word(unit)
    }

    pub(super) fn all(words: &Words) -> &[Cell] {
        words.as_slice()
    }
}

/// One tag a unit, 0 at first: a byte each, so that the tags of a large state stay in the caches.
#[derive(Debug)]
pub(crate) struct Tags {
    words: Words,
    count: usize,
}

impl Tags {
    /// `options` speak of units.
    pub(crate) fn create(options: &Options) -> Result<Self, MemoryError> {
        let words = Words::create(&options.resized(|units| units.div_ceil(PER_WORD)))?;
        Ok(Self { words, count: options.words })
    }

    /// Extends to `count` tags; never shrinks.
    pub(crate) fn grow(&mut self, count: usize) -> Result<(), MemoryError> {
        self.words.grow(count.div_ceil(PER_WORD))?;
        self.count = self.count.max(count);
        Ok(())
    }

    /// The same tags for another thread, as many as now.
    pub(crate) fn view(&self) -> Self {
        Self { words: self.words.view(), count: self.count }
    }

    /// Makes all tags 0, one by one: the owner may be adding tags in the last one's word.
    pub(crate) fn clear(&self) {
        (0..self.count).for_each(|unit| self.at(unit).set(0, Ordering::Relaxed));
    }

    /// Makes all tags 0, as fast as memory goes if no [view](Self::view) lives. Nobody else may
    /// touch any of them.
    pub(crate) fn reset(&mut self) {
        self.words.clear();
    }

    #[inline]
    pub(crate) fn prefetch(&self, unit: usize) {
        self.words.prefetch(unit / PER_WORD);
    }

    /// Calls `found` with each of `units` whose tag is `tag`, by relaxed loads, 64 at a time where
    /// that many lie side by side: a unit that nothing is to be done for costs next to nothing.
    pub(crate) fn each(&self, units: Range<usize>, tag: u8, mut found: impl FnMut(usize)) {
        let mut at = units.start;
        while at < units.end {
            let count = (units.end - at).min(64);
            let mut equal = self.equal(at, count, tag);
            while equal != 0 {
                found(at + equal.trailing_zeros() as usize);
                equal &= equal - 1;
            }
            at += count;
        }
    }

    /// Which of the `count` tags from `first` on, 64 at most, are `tag`, as bits.
    #[inline]
    fn equal(&self, first: usize, count: usize, tag: u8) -> u64 {
        if PER_WORD == 8
            && count == 64
            && first.is_multiple_of(8)
            && let Some(equal) = os::equal_bytes(self.words.line(first / 8), tag)
        {
            return equal;
        }
        let is_equal = |at: &usize| self.at(first + at).get(Ordering::Relaxed) == tag;
        (0..count).filter(is_equal).fold(0, |equal, at| equal | 1 << at)
    }

    #[inline]
    pub(crate) fn all(&self) -> AllTags<'_> {
        AllTags(cell::all(&self.words))
    }

    /// The tag of a unit, which is below the count: the last word may have room for more.
    #[inline]
    pub(crate) fn at(&self, unit: usize) -> Tag<'_> {
        Tag(cell::at(&self.words, unit))
    }
}

/// All tags, for a loop that has them at hand in registers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AllTags<'a>(&'a [Cell]);

impl<'a> AllTags<'a> {
    /// The tag of a unit. Panics beyond the last.
    #[inline]
    pub(crate) fn at(self, unit: usize) -> Tag<'a> {
        Tag(&self.0[unit])
    }
}

/// The place of one tag.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tag<'a>(&'a Cell);

#[allow(clippy::useless_conversion, clippy::unnecessary_cast, reason = "a word under the checkers")]
impl Tag<'_> {
    #[inline]
    pub(crate) fn get(self, order: Ordering) -> u8 {
        self.0.load(order) as u8
    }

    #[inline]
    pub(crate) fn set(self, tag: u8, order: Ordering) {
        self.0.store(tag.into(), order);
    }

    /// Replaces `from` by `to` if it is `from`, and returns whether it was.
    #[inline]
    pub(crate) fn claim(self, from: u8, to: u8, order: Ordering) -> bool {
        self.0.compare_exchange(from.into(), to.into(), order, Ordering::Relaxed).is_ok()
    }
}
