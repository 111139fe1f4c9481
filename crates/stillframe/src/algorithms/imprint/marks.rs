//! What the log holds of each block, as far as the writer must know it.

#[cfg(any(feature = "loom", feature = "shuttle"))]
use crate::sync::AtomicU64 as Atomic;
#[cfg(not(any(feature = "loom", feature = "shuttle")))]
use std::sync::atomic::AtomicU8 as Atomic;

use crate::algorithm::Options;
use crate::error::MemoryError;
use crate::memory::Words;
use crate::sync::Ordering;

/// The number of records of a block, or [`CLOSED`](Self::CLOSED). A byte, so that the marks of a
/// gigabyte stay in a core's own cache; a word under the model checkers, whose atomics have no
/// bytes.
#[derive(Debug)]
#[repr(transparent)]
pub(super) struct Mark(Atomic);

impl Mark {
    /// Nothing more of the block is to be saved: it has a frame, is captured, or was added later.
    pub(super) const CLOSED: u8 = 255;

    /// Acquire: partner of [`close`](Self::close).
    #[inline]
    #[allow(clippy::unnecessary_cast, reason = "a mark is a word under the model checkers")]
    pub(super) fn get(&self) -> u8 {
        self.0.load(Ordering::Acquire) as u8
    }

    #[inline]
    #[allow(clippy::useless_conversion, reason = "a mark is a word under the model checkers")]
    pub(super) fn set(&self, mark: u8) {
        self.0.store(mark.into(), Ordering::Relaxed);
    }

    /// The snapshotter has copied the block. Release: no word that the writer stores without saving
    /// it, having seen this, is what was copied.
    #[allow(clippy::useless_conversion, reason = "a mark is a word under the model checkers")]
    pub(super) fn close(&self) {
        self.0.store(Self::CLOSED.into(), Ordering::Release);
    }
}

/// One mark a block.
#[derive(Debug)]
pub(super) struct Marks {
    words: Words,
    blocks: usize,
}

/// Marks to a word of memory.
const LANES: usize = if cfg!(any(feature = "loom", feature = "shuttle")) { 1 } else { 8 };

const _: () = assert!(super::LIMIT < Mark::CLOSED);

impl Marks {
    /// `options` speak of blocks.
    pub(super) fn create(options: &Options) -> Result<Self, MemoryError> {
        let blocks = options.words;
        let words = blocks.div_ceil(LANES);
        let max_words = options.max_words.div_ceil(LANES);
        let words = Words::create(&Options { words, max_words, ..options.clone() })?;
        Ok(Self { words, blocks })
    }

    /// Extends to `blocks` blocks, the new ones marked so.
    pub(super) fn grow(&mut self, blocks: usize, mark: u8) -> Result<(), MemoryError> {
        self.words.grow(blocks.div_ceil(LANES))?;
        let known = self.blocks;
        self.blocks = known.max(blocks);
        (known..self.blocks).for_each(|block| self.of(block).set(mark));
        Ok(())
    }

    pub(super) fn view(&self) -> Self {
        Self { words: self.words.view(), blocks: self.blocks }
    }

    pub(super) fn clear(&self) {
        (0..self.blocks).for_each(|block| self.of(block).set(0));
    }

    /// The mark of a block.
    #[inline]
    pub(super) fn of(&self, block: usize) -> &Mark {
        assert!(block < self.blocks, "every block has a mark");
        let marks = self.words.as_slice().as_ptr().cast::<Mark>();
        // SAFETY: the words hold `LANES` marks each, `blocks` of them or more.
        let mark = unsafe { marks.add(block) };
        // SAFETY: the words live as long as `self`, and any byte of theirs is a valid mark (which
        // is no more than its atomic), and is only ever loaded and stored as one.
        unsafe { &*mark }
    }
}
