//! Where the latest value of each unit is: a byte each, so that two threads may change neighbours.

use crate::algorithm::Options;
use crate::error::MemoryError;
use crate::memory::Words;
use crate::sync::Ordering;

#[cfg(not(any(feature = "loom", feature = "shuttle")))]
mod cell {
    pub(crate) type Value = u8;
    pub(crate) type Cell = std::sync::atomic::AtomicU8;
    pub(crate) use crate::memory::byte::byte as in_word;
}

/// The model checkers know no bytes: there each takes a word.
#[cfg(any(feature = "loom", feature = "shuttle"))]
mod cell {
    pub(crate) type Value = u64;
    pub(crate) type Cell = crate::sync::AtomicU64;
    pub(crate) fn in_word(word: &Cell, _: usize) -> &Cell {
        word
    }
}

pub(super) use cell::Value;
const PER_WORD: usize = 8 / size_of::<Value>();

/// One location a unit, [`Value`] 0 at first.
#[derive(Debug)]
pub(super) struct Locations(Words);

impl Locations {
    /// For states in units of `1 << shift` words.
    pub(super) fn create(options: &Options, shift: u32) -> Result<Self, MemoryError> {
        Words::create(&options.resized(|words| Self::size(words, shift))).map(Self)
    }

    /// Makes room for `words` words of state.
    pub(super) fn grow(&mut self, words: usize, shift: u32) -> Result<(), MemoryError> {
        self.0.grow(Self::size(words, shift))
    }

    fn size(words: usize, shift: u32) -> usize {
        words.div_ceil(1 << shift).div_ceil(PER_WORD)
    }

    /// The same locations for another thread, as many as now.
    pub(super) fn view(&self) -> Self {
        Self(self.0.view())
    }

    #[inline]
    fn cell(&self, unit: usize) -> &cell::Cell {
        cell::in_word(self.0.word(unit / PER_WORD), unit)
    }

    #[inline]
    pub(super) fn load(&self, unit: usize, order: Ordering) -> Value {
        self.cell(unit).load(order)
    }

    #[inline]
    pub(super) fn store(&self, unit: usize, location: Value, order: Ordering) {
        self.cell(unit).store(location, order);
    }

    /// Replaces `from` by `to` if the location is `from`, and tells whether it was. Orders nothing
    /// but this location.
    #[inline]
    pub(super) fn claim(&self, unit: usize, from: Value, to: Value) -> bool {
        let relaxed = Ordering::Relaxed;
        self.cell(unit).compare_exchange(from, to, relaxed, relaxed).is_ok()
    }
}
