//! Imprint: before-images in place of a second copy. Source: ours; argued in `docs/imprint.md`,
//! modelled under loom in `crates/stillframe-loom`.
//!
//! Idea: one array `A`, written in place. While an image is captured, the writer first saves the
//! old value of a word of an uncaptured block in an undo arena; the snapshotter copies a block and
//! puts the old values back into its copy. A block written often gets one *frame*, its whole image,
//! and is then written freely.
//!
//! - Memory: 1 copy + 8 bytes a block + arena. Begin: O(1). Read: nothing added. Write: while an
//!   image is captured at most a 16-byte record, and one block copy per `LIMIT` writes. Full image.
//! - A record is two words: the old value, then `next << 16 | offset`. A frame is the block.
//! - Unit: the word. A partial write reads, patches and writes a whole word.
//! - I1: a block's head has one owner, the writer; the snapshotter only reads it.
//! - I2: a new word is visible only after the record or frame that holds its old value: Release
//!   fence before the store, Acquire fence after the copy.
//! - I3: the oldest record of a word in an image holds its image value.
//! - I4: a block's frame equals its image.
//! - I5: positions in the arena only rise, over all images. A head is of this image exactly if its
//!   position is not below `base`, so begin resets no head and no epoch can wrap onto a stale one
//!   (2^56 positions last a century at twenty million records a second).
//!
//! The cases for a word while its block is copied: not written before the copy: the live value is
//! the image. Written before, or while the block is copied: its record or frame is found (I2) and
//! restores it (I3, I4). Written after the copy: the record holds what was copied. The writer's
//! `seen` is stale: a needless record, told stale by its position in the next image (I5).

use crate::algorithm::{Algorithm, BLOCK_WORDS, OnFull, Options};
use crate::error::{BeginError, MemoryError};
use crate::handover::{Handover, Progress};
use crate::image::{Held, InProcess, Lease, View};
use crate::info::Info;
use crate::memory::Words;
use crate::mutant::Mutant;
use crate::os::Shared;
use crate::point::Point;
use crate::sink::Sink;
use crate::sync::{Backoff, Ordering, fence};

/// Records of a block before it gets a frame. A frame costs a block copy and as much arena as
/// `BLOCK_WORDS / 2` records.
const LIMIT: u64 = if BLOCK_WORDS == 512 { 128 } else { 2 };
/// Writes between two looks at how far the capture is.
const REFRESH: u32 = if BLOCK_WORDS == 512 { 64 } else { 2 };
/// Arena that stays with the process between images, in words (1 MiB).
const KEPT_WORDS: usize = 1 << 17;

/// State words with before-images.
#[derive(Debug)]
pub struct Imprint {
    words: Words,
    /// One `Head` a block.
    heads: Words,
    arena: Words,
    handover: Shared<Handover>,
    on_full: OnFull,
    /// Whether a write may have to save the old value.
    active: bool,
    /// Blocks below are captured, for all the writer knows.
    seen: usize,
    /// Blocks of the image under way; those beyond were added later.
    blocks: usize,
    /// Position of the arena's first word in this image.
    base: u64,
    /// Words of the arena in use by this image.
    used: usize,
    /// Writes until the next look.
    patience: u32,
}

/// What the writer knows of a block: `position << 8 | tag`. The tag is the number of records in the
/// chain that starts at the position, or [`FRAME`](Self::FRAME).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Head(u64);

impl Head {
    const FRAME: u64 = 255;

    fn chain(position: u64, length: u64) -> Self {
        Self(position << 8 | length)
    }
    fn frame(position: u64) -> Self {
        Self(position << 8 | Self::FRAME)
    }
    fn position(self) -> u64 {
        self.0 >> 8
    }
    fn tag(self) -> u64 {
        self.0 & 255
    }
    /// Whether the head was set in the image whose positions start at `base` (I5).
    fn is_of(self, base: u64) -> bool {
        self.position() >= base
    }
}

const _: () = assert!(LIMIT < Head::FRAME && BLOCK_WORDS <= 1 << 16);

impl Algorithm for Imprint {
    type Image<S: Sink + 'static> = InProcess<S, Before>;
    const INFO: Info = Self::REGISTERED;

    fn create(options: &Options) -> Result<Self, MemoryError> {
        let blocks = |words: usize| words.div_ceil(BLOCK_WORDS);
        let heads = Options::words(blocks(options.words))
            .max_words(blocks(options.max_words.max(options.words)))
            .huge_pages(options.huge_pages)
            .prefault(options.prefault);
        let arena = Options::words(options.budget_bytes / 8).huge_pages(options.huge_pages);
        Ok(Self {
            words: Words::create(options)?,
            heads: Words::create(&heads)?,
            arena: Words::create(&arena)?,
            handover: Shared::new(Handover::new())?,
            on_full: options.on_full,
            active: false,
            seen: 0,
            blocks: 0,
            base: 1, // heads start as 0, which is of no image
            used: 0,
            patience: 0,
        })
    }

    fn words(&self) -> usize {
        self.words.len()
    }

    fn grow(&mut self, words: usize) -> Result<(), MemoryError> {
        self.heads.grow(words.div_ceil(BLOCK_WORDS))?;
        self.words.grow(words)
    }

    #[inline]
    fn read(&self, index: usize) -> u64 {
        self.words.load(index)
    }

    #[inline]
    fn write(&mut self, index: usize, value: u64) {
        if self.active {
            self.save(index, value);
        }
        self.words.store(index, value);
    }

    fn begin<S: Sink + 'static>(
        &mut self,
        _point: Point,
        sink: S,
    ) -> Result<InProcess<S, Before>, BeginError> {
        self.handover.check_idle()?;
        self.base += self.used as u64;
        self.used = 0;
        self.seen = 0;
        self.blocks = self.words.len().div_ceil(BLOCK_WORDS);
        self.patience = REFRESH;
        self.active = true;
        let before = Before {
            words: self.words.view(),
            heads: self.heads.view(),
            arena: self.arena.view(),
            base: self.base,
            handover: self.handover.clone(),
        };
        let lease = Lease::publish(&self.handover, self.words.len());
        Ok(InProcess::new(before, Held::new(sink, lease)))
    }

    fn progress(&self) -> Progress {
        Progress::new(&self.handover)
    }
}

impl Imprint {
    /// Makes sure that the image keeps the value of word `index`, which is about to become `new`.
    ///
    /// What bounds the speed is how many of these the processor overlaps, each waiting for its word
    /// and its head to come from memory. So the path is short, what is rare is elsewhere, and no
    /// branch depends on whether the block was touched before: that is as good as random.
    #[inline(never)]
    fn save(&mut self, index: usize, new: u64) {
        let block = index / BLOCK_WORDS;
        if self.is_captured(block) {
            return;
        }
        self.patience -= 1;
        if self.patience == 0 {
            self.refresh();
            if !self.active || self.is_captured(block) {
                return;
            }
        }
        let old = self.words.load(index);
        if self.handover.is(Mutant::ImprintNeverLogs) {
            return;
        }
        if self.handover.is(Mutant::ImprintStoresBeforeLog) {
            self.words.store(index, new);
        }
        let head = Head(self.heads.load(block));
        let is_current = head.is_of(self.base)
            || self.handover.is(Mutant::ImprintTrustsStaleHead) && head.tag() == Head::FRAME;
        let records = if is_current { head.tag() } else { 0 };
        if records >= LIMIT {
            if records < Head::FRAME {
                self.frame(block, head, index, new);
            }
            return;
        }
        let Some([first, second]) = self.arena.pair(self.used) else {
            return self.give_way(block);
        };
        // Relative to `base` and plus one, so that zero ends the chain.
        let next = if is_current { head.position() - self.base + 1 } else { 0 };
        let half = self.handover.is(Mutant::ImprintSavesHalfWord);
        first.store(if half { old & u64::from(u32::MAX) } else { old }, Ordering::Relaxed);
        second.store(next << 16 | (index % BLOCK_WORDS) as u64, Ordering::Relaxed);
        let position = self.base + self.used as u64;
        self.used += 2;
        self.set_head(block, Head::chain(position, records + 1));
    }

    /// Whether the image needs nothing more of a block: captured, or added after begin.
    #[inline]
    fn is_captured(&self, block: usize) -> bool {
        block.wrapping_sub(self.seen) >= self.blocks - self.seen
    }

    /// Looks how far the capture is.
    #[cold]
    fn refresh(&mut self) {
        self.patience = REFRESH;
        self.handover.note_arena(self.used);
        if self.handover.is_over() {
            self.give_up();
        } else {
            self.seen = self.handover.captured().div_ceil(BLOCK_WORDS);
        }
    }

    /// Saves nothing more for this image: it ended, or its capture was told to stop. In the latter
    /// case whoever sees a word that was not saved sees the stop: partner of the Acquire fence in
    /// [`Before::head_after_copy`], which is followed by a look at the stop.
    fn give_up(&mut self) {
        self.active = false;
        if !self.handover.is(Mutant::ImprintNoFenceOnStop) {
            fence(Ordering::Release);
        }
    }

    /// Saves the image of a whole block: its present words, with its chain put back.
    #[cold]
    fn frame(&mut self, block: usize, chain: Head, index: usize, new: u64) {
        if self.arena.len() - self.used < BLOCK_WORDS {
            return self.give_way(block);
        }
        if self.handover.is(Mutant::ImprintFrameAfterStore) {
            self.words.store(index, new);
        }
        let start = block * BLOCK_WORDS;
        let mut buffer = [0; BLOCK_WORDS];
        let buffer = &mut buffer[..BLOCK_WORDS.min(self.words.len() - start)];
        self.words.copy_to(start, buffer);
        if !self.handover.is(Mutant::ImprintFrameWithoutChain) {
            put_back(&self.arena, self.base, chain, buffer, &self.handover);
        }
        for (offset, &word) in buffer.iter().enumerate() {
            self.arena.store(self.used + offset, word);
        }
        let position = self.base + self.used as u64;
        self.used += BLOCK_WORDS;
        self.set_head(block, Head::frame(position));
    }

    /// Publishes a head, and what it leads to, before the new value that the caller stores next
    /// (I2). Partner: the Acquire fence in [`Before::block`] and [`Before::word`].
    #[inline]
    fn set_head(&self, block: usize, head: Head) {
        if self.handover.is(Mutant::ImprintNoReleaseFence) {
            return self.heads.store(block, head.0);
        }
        self.heads.word(block).store(head.0, Ordering::Release);
        fence(Ordering::Release);
    }

    /// The budget is used: waits for the capture to pass `block` or to stop, or stops it.
    #[cold]
    fn give_way(&mut self, block: usize) {
        if self.on_full == OnFull::Cancel {
            self.handover.stop_over_budget();
            return self.give_up();
        }
        self.handover.note_wait();
        let mut backoff = Backoff::default();
        while self.active && !self.is_captured(block) {
            backoff.wait();
            self.refresh();
        }
    }
}

/// The snapshotter's side: the live words and what is needed to undo their changes.
#[derive(Debug)]
pub struct Before {
    words: Words,
    heads: Words,
    arena: Words,
    base: u64,
    handover: Shared<Handover>,
}

impl Before {
    /// The head of a block as it is after the caller has copied words of it: if a copied word is
    /// newer than the image, this head leads to its old value (I2).
    fn head_after_copy(&self, block: usize) -> Head {
        if !self.handover.is(Mutant::ImprintNoAcquireFence) {
            fence(Ordering::Acquire);
        }
        Head(self.heads.word(block).load(Ordering::Acquire))
    }

    fn restore(&self, head: Head, buffer: &mut [u64]) {
        if !head.is_of(self.base) {
            // Nothing was written in this block since begin.
        } else if head.tag() == Head::FRAME {
            self.arena.copy_to((head.position() - self.base) as usize, buffer);
        } else {
            put_back(&self.arena, self.base, head, buffer, &self.handover);
        }
    }
}

impl View for Before {
    fn block(&self, block: usize, into: &mut [u64]) {
        let start = block * BLOCK_WORDS;
        if self.handover.is(Mutant::ImprintPublishesCursorEarly) {
            self.handover.advance(start + into.len());
        }
        let early = self.heads.load(block);
        self.words.copy_to(start, into);
        let head = if self.handover.is(Mutant::ImprintReadsHeadFirst) {
            Head(early)
        } else {
            self.head_after_copy(block)
        };
        self.restore(head, into);
    }

    fn word(&self, index: usize) -> u64 {
        let mut buffer = [0; BLOCK_WORDS];
        let block = index / BLOCK_WORDS;
        let offset = index % BLOCK_WORDS;
        buffer[offset] = self.words.load(index);
        self.restore(self.head_after_copy(block), &mut buffer);
        buffer[offset]
    }
}

impl Drop for Before {
    /// The image is over, so nobody reads the arena again before the next begin. The writer may
    /// still log, with a stale `seen`: a record that then reads as zero harms nobody.
    fn drop(&mut self) {
        self.arena.release(KEPT_WORDS);
    }
}

/// Puts the old values of a chain back, newest to oldest: the oldest of a word wins (I3).
fn put_back(arena: &Words, base: u64, chain: Head, buffer: &mut [u64], handover: &Handover) {
    let mut place = chain.position() - base + 1;
    let mut left = if handover.is(Mutant::ImprintAppliesNewestOnly) { 1 } else { chain.tag() };
    while place != 0 && left != 0 {
        let old = arena.load(place as usize - 1);
        let link = arena.load(place as usize);
        // An offset beyond the buffer is of a word added after begin.
        if let Some(word) = buffer.get_mut((link & 0xffff) as usize) {
            *word = old;
        }
        place = link >> 16;
        left -= 1;
    }
}
