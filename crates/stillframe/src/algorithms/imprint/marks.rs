//! What the log holds of each block, as far as the writer must know it.

#[cfg(any(feature = "loom", feature = "shuttle"))]
use crate::sync::AtomicU64 as Mark;
#[cfg(not(any(feature = "loom", feature = "shuttle")))]
use std::sync::atomic::AtomicU8 as Mark;

use crate::algorithm::Options;
use crate::error::MemoryError;
use crate::memory::Words;
use crate::sync::Ordering;

/// One mark a block: the number of its records, or [`CLOSED`](Self::CLOSED). A byte, so that the
/// marks of a gigabyte stay in a core's own cache; a word under the model checkers, whose atomics
/// have no bytes.
#[derive(Debug)]
pub(super) struct Marks {
    words: Words,
    blocks: usize,
}

/// Marks to a word of memory.
const LANES: usize = if cfg!(any(feature = "loom", feature = "shuttle")) { 1 } else { 8 };

const _: () = assert!(super::LIMIT < Marks::CLOSED);

impl Marks {
    /// Nothing more of the block is to be saved: it has a frame, is captured, or was added later.
    pub(super) const CLOSED: u8 = 255;

    /// `options` speak of blocks.
    pub(super) fn create(options: &Options) -> Result<Self, MemoryError> {
        let blocks = options.words;
        let words = blocks.div_ceil(LANES);
        let max_words = options.max_words.div_ceil(LANES);
        let words = Words::create(&Options { words, max_words, ..options.clone() })?;
        Ok(Self { words, blocks })
    }

    pub(super) fn grow(&mut self, blocks: usize) -> Result<(), MemoryError> {
        self.words.grow(blocks.div_ceil(LANES))?;
        self.blocks = self.blocks.max(blocks);
        Ok(())
    }

    pub(super) fn view(&self) -> Self {
        Self { words: self.words.view(), blocks: self.blocks }
    }

    #[inline]
    #[allow(clippy::unnecessary_cast, reason = "a mark is a word under the model checkers")]
    pub(super) fn get(&self, block: usize) -> u8 {
        self.mark(block).load(Ordering::Relaxed) as u8
    }

    #[inline]
    #[allow(clippy::useless_conversion, reason = "a mark is a word under the model checkers")]
    pub(super) fn set(&self, block: usize, mark: u8) {
        self.mark(block).store(mark.into(), Ordering::Relaxed);
    }

    pub(super) fn clear(&self) {
        (0..self.blocks).for_each(|block| self.set(block, 0));
    }

    #[inline]
    fn mark(&self, block: usize) -> &Mark {
        assert!(block < self.blocks, "every block has a mark");
        let marks = self.words.as_slice().as_ptr().cast::<Mark>();
        // SAFETY: the words hold `LANES` marks each, `blocks` of them or more.
        let mark = unsafe { marks.add(block) };
        // SAFETY: the words live as long as `self`, and any byte of theirs is a valid mark, which
        // is only ever loaded and stored as one.
        unsafe { &*mark }
    }
}
