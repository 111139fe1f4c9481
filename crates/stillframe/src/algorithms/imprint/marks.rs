//! What the log holds of each block, as far as the writer must know it.

use crate::algorithm::Options;
use crate::error::MemoryError;
use crate::memory::Words;

/// One byte a block: the number of its records, or [`FRAMED`](Self::FRAMED). A byte, so that the
/// marks of a gigabyte stay in a core's own cache; eight to an atomic word, all of one owner.
#[derive(Debug)]
pub(super) struct Marks(Words);

/// Blocks to a word.
const LANES: usize = 8;

const _: () = assert!(super::LIMIT < Marks::FRAMED);

impl Marks {
    /// The block has a frame: nothing more of it is logged.
    pub(super) const FRAMED: u64 = 255;

    /// `options` speak of blocks.
    pub(super) fn create(options: &Options) -> Result<Self, MemoryError> {
        let words = options.words.div_ceil(LANES);
        let max_words = options.max_words.div_ceil(LANES);
        Ok(Self(Words::create(&Options { words, max_words, ..options.clone() })?))
    }

    pub(super) fn grow(&mut self, blocks: usize) -> Result<(), MemoryError> {
        self.0.grow(blocks.div_ceil(LANES))
    }

    pub(super) fn view(&self) -> Self {
        Self(self.0.view())
    }

    #[inline]
    pub(super) fn get(&self, block: usize) -> u64 {
        self.0.load(block / LANES) >> Self::lane(block) & 255
    }

    #[inline]
    pub(super) fn set(&self, block: usize, mark: u64) {
        let others = self.0.load(block / LANES) & !(255 << Self::lane(block));
        self.0.store(block / LANES, others | mark << Self::lane(block));
    }

    pub(super) fn clear(&self) {
        (0..self.0.len()).for_each(|word| self.0.store(word, 0));
    }

    #[inline]
    fn lane(block: usize) -> usize {
        block % LANES * 8
    }
}
