//! Imprint: before-images in place of a second copy. Source: ours; argued in `docs/imprint.md`,
//! modelled under loom in `crates/stillframe-loom`.
//!
//! Idea: one array `A`, written in place. While an image is captured, the writer appends the old
//! value of a word of an uncaptured block to a log before it replaces it. It keeps no index of the
//! log: the snapshotter, which has the time, sorts the log by block, copies a block and puts the
//! old values back into its copy. A block written often gets one *frame*, a copy of it in the log,
//! and is then written freely.
//!
//! - Memory: 1 copy + 10 bytes a block + log. Begin: O(1). Read: nothing added. Write: while an
//!   image is captured at most a 16-byte record, and one block copy per `LIMIT` records. Full
//!   image.
//! - An entry of the log is a record, {old value, index}, or a frame, {-, block} and the block.
//! - Unit: the word. A partial write reads, patches and writes a whole word.
//! - I1: the log up to its published end belongs to the snapshotter, the rest to the writer; the
//!   index of the log is the snapshotter's alone.
//! - I2: a new word is visible only after the published end covers the entry that holds its old
//!   value: Release fence before the store, Acquire fence after the copy.
//! - I3: the oldest record of a word that is older than the block's frame holds its image value.
//! - I4: a word of a frame that no older record names is of the image, as is a word of the live
//!   block that no entry names.
//! - I5: a block whose mark is closed has a frame, is captured, or was added after begin, and stays
//!   so until the next begin. The snapshotter closes what it has captured; if the writer opens such
//!   a block again, having read its mark before, that costs needless records. Begin exchanges the
//!   marks for those that were cleared when the image before ended. Positions in the log only rise,
//!   over all images, so the index knows entries of older images by their position. So begin
//!   resets nothing.
//!
//! The cases for a word while its block is copied: not written before the copy: the live value is
//! the image. Written before, or while the block is copied: its record or its frame is found (I2)
//! and restores it (I3, I4). Written after the copy: the entry holds what was copied. What the
//! writer knows of the capture is stale: a needless entry, of a block that is not asked for again.

mod before;

pub use self::before::Before;
use crate::algorithm::{Algorithm, New, write_by_replace, write_each};
use crate::error::{BeginError, MemoryError};
use crate::handover::{Handover, Progress, Waiting};
use crate::image::{Held, InProcess, Lease};
use crate::info::Info;
use crate::memory::{Tags, Words};
use crate::mutant::Mutant;
use crate::options::{OnFull, Options, budget_for};
use crate::os::Shared;
use crate::point::Point;
use crate::sink::{BLOCK_WORDS, Sink};
use crate::sync::{Backoff, Ordering, fence};

/// Records of a block before it gets a frame. A frame costs a block copy and as much log as
/// `BLOCK_WORDS / 2` records.
const LIMIT: u8 = if BLOCK_WORDS == 512 { 128 } else { 2 };
/// The mark of a block with nothing more to save (I5); other marks count its records.
const CLOSED: u8 = 255;
const _: () = assert!(LIMIT < CLOSED);
/// Words of a record, and of what comes before the words of a frame.
const ENTRY: usize = 2;
/// Words of log between two looks at how far the capture is.
const REFRESH: usize = ENTRY * if BLOCK_WORDS == 512 { 64 } else { 2 };
/// In the second word of an entry: it is a frame.
const FRAME: u64 = 1 << 63;

/// State words with before-images.
#[derive(Debug)]
pub struct Imprint {
    words: Words,
    /// First word that is not captured, for all the writer knows.
    open: usize,
    /// Words from there to the end of the image's last block; 0 when nothing is to be saved.
    span: usize,
    /// What the log holds of each block: its number of records, or `CLOSED`.
    marks: Tags,
    log: Words,
    /// See [`Options::budget_bytes`].
    budget: Option<usize>,
    /// Words of the log that may be used before the next look at the capture.
    limit: usize,
    handover: Shared<Handover>,
    /// Marks for the next image; cleared when this one ends.
    next_marks: Tags,
    /// The snapshotter's index of the log.
    heads: Words,
    /// Position of the log's first word in this image.
    base: u64,
    on_full: OnFull,
    /// See [`Options::max_words`].
    max_words: usize,
}

impl Algorithm for Imprint {
    type Image<S: Sink + 'static> = InProcess<S, Before>;
    const INFO: Info = Self::REGISTERED;

    fn create(options: &Options) -> Result<Self, MemoryError> {
        let by_block = options.resized(|words| words.div_ceil(BLOCK_WORDS));
        let log = options.resized(|words| options.budget_for(words) / 8).prefault(false);
        Ok(Self {
            words: Words::create(options)?,
            open: 0,
            span: 0,
            marks: Tags::create(&by_block)?,
            log: Words::create(&log)?,
            budget: options.budget_bytes,
            limit: 0,
            handover: Shared::new(Handover::new())?,
            next_marks: Tags::create(&by_block)?,
            heads: Words::create(&by_block)?,
            base: 1, // the index starts as 0, which is of no image
            on_full: options.on_full,
            max_words: options.max_words.max(options.words),
        })
    }

    fn words(&self) -> usize {
        self.words.len()
    }

    fn grow(&mut self, words: usize) -> Result<(), MemoryError> {
        if words > self.max_words {
            return Err(MemoryError::Reserved { words, reserved: self.max_words });
        }
        let blocks = words.div_ceil(BLOCK_WORDS);
        self.heads.grow(blocks)?;
        self.marks.grow(blocks)?;
        let known = self.words.len().div_ceil(BLOCK_WORDS);
        (known..blocks).for_each(|block| self.mark(block, CLOSED));
        self.next_marks.grow(blocks)?;
        self.words.grow(words)
    }

    #[inline]
    fn read(&self, index: usize) -> u64 {
        self.words.load(index)
    }

    write_by_replace!();

    fn write_run(&mut self, start: usize, values: &[u64]) {
        if self.span == 0 {
            return self.words.store_run(start, values); // nothing is to be saved: a recovery
        }
        write_each(self, start, values);
    }

    fn in_place(&self) -> Option<Words> {
        Some(self.words.view())
    }

    #[inline]
    fn approach(&self, index: usize) {
        self.words.prefetch(index); // marks and log are near
    }

    fn begin<S: Sink + 'static>(
        &mut self,
        _point: Point,
        sink: S,
    ) -> Result<InProcess<S, Before>, BeginError> {
        self.handover.check_idle()?;
        if !self.handover.is(Mutant::ImprintKeepsMarks) {
            std::mem::swap(&mut self.marks, &mut self.next_marks);
        }
        if !self.handover.is(Mutant::ImprintTrustsStaleHead) {
            self.base += self.used() as u64;
        }
        // What the system refuses is not used: the budget is then what there was.
        let _ = self.log.grow(budget_for(self.budget, self.words.len()) / 8);
        self.handover.set_arena_room(self.log.len());
        self.limit = 0;
        self.open = 0;
        self.span = self.words.len().next_multiple_of(BLOCK_WORDS);
        let before = Before::new(self);
        let lease = Lease::publish(&self.handover, self.words.len());
        Ok(InProcess::new(before, Held::new(sink, lease)))
    }

    fn progress(&self) -> Progress {
        Progress::new(&self.handover)
    }
}

impl Imprint {
    /// Whether the image may need the old value of a word: its block is neither captured nor added
    /// after begin. One comparison shows that, and also that there is no image.
    #[inline]
    fn is_open(&self, index: usize) -> bool {
        index.wrapping_sub(self.open) < self.span
    }

    #[inline]
    fn mark(&self, block: usize, mark: u8) {
        self.marks.of(block).set(mark, Ordering::Relaxed);
    }

    /// Words of the log in use by this image.
    #[inline(always)]
    fn used(&self) -> usize {
        self.handover.arena_used()
    }

    /// Replaces a word, and saves its old value first if the image needs that.
    ///
    /// Each write waits for its word to come from memory, so the number of writes that the
    /// processor overlaps bounds the speed: the fewer instructions and stores a write takes, the
    /// better. So the word is loaded once, no branch depends on it, the mark is a byte a block,
    /// which the caches hold, and rare work is elsewhere. A block that is found to need nothing
    /// more is marked closed at once: the test of the mark is then one branch that hot words always
    /// take alike.
    #[inline(always)]
    fn replace(&mut self, index: usize, new: impl New<u64>) {
        let word = self.words.word(index);
        if self.span != 0 {
            let mark = self.marks.of(index / BLOCK_WORDS);
            // Acquire: partner of the Release in `Before::close`. No word that is stored without
            // being saved, a closed mark having been seen, is what was copied
            // (`litmus/imprint-close`). The writer's own stores to marks order nothing: one that
            // opens a closed mark again costs needless records.
            let records = mark.get(Ordering::Acquire);
            if records != CLOSED {
                let old = word.load(Ordering::Relaxed);
                let new = new.of(|| old);
                let used = self.used();
                if records < LIMIT && used < self.limit {
                    self.append(used, index, [old, new]);
                    mark.set(records + 1, Ordering::Relaxed);
                    return word.store(new, Ordering::Relaxed);
                }
                self.save_rarely(index, [old, new]);
                return self.words.store(index, new);
            }
        }
        word.store(new.of(|| word.load(Ordering::Relaxed)), Ordering::Relaxed);
    }

    /// Appends the record of a word to the log, which is `used` words long and has room.
    #[inline(always)]
    fn append(&self, used: usize, index: usize, [old, new]: [u64; 2]) {
        if self.handover.is(Mutant::ImprintNeverLogs) {
            return;
        }
        if self.handover.is(Mutant::ImprintStoresBeforeLog) {
            self.words.store(index, new);
        }
        let half = self.handover.is(Mutant::ImprintSavesHalfWord);
        let old = if half { old & u64::from(u32::MAX) } else { old };
        self.log.store_pair(used, [old, index as u64]);
        self.publish(used + ENTRY);
    }

    /// Saves a word that is about to become `new`, in the cases that are rare: its block is not
    /// open, it is to get a frame, or it is time to look how far the capture is.
    #[cold]
    #[inline(never)]
    fn save_rarely(&mut self, index: usize, [old, new]: [u64; 2]) {
        let block = index / BLOCK_WORDS;
        if !self.is_open(index) {
            return self.mark(block, CLOSED);
        }
        let records = self.marks.of(block).get(Ordering::Relaxed);
        if records >= LIMIT {
            return self.frame(block, index, new);
        }
        if self.look(block) {
            self.append(self.used(), index, [old, new]);
            self.mark(block, records + 1);
        }
    }

    /// Looks how far the capture is. Returns whether `block` is still to be saved, and there is
    /// room for a record.
    fn look(&mut self, block: usize) -> bool {
        self.refresh();
        if self.is_open(block * BLOCK_WORDS) && self.used() >= self.limit {
            self.give_way(block);
        }
        self.is_open(block * BLOCK_WORDS)
    }

    fn refresh(&mut self) {
        self.limit = (self.used() + REFRESH).min(self.log.len() / ENTRY * ENTRY);
        let waits_on =
            self.handover.is(Mutant::ImprintWaitsPastStop) && self.on_full == OnFull::Slow;
        if !waits_on && self.handover.is_over() {
            return self.give_up();
        }
        let end = self.open + self.span;
        self.open = self.handover.captured().next_multiple_of(BLOCK_WORDS);
        self.span = end - self.open;
    }

    /// Saves nothing more for this image: it ended, or its capture has to stop. In the latter
    /// case a thread that sees an unsaved word sees the stop: partner of the Acquire fence in
    /// [`Before`], which is followed by a look at the stop (`litmus/imprint-stop`).
    fn give_up(&mut self) {
        self.span = 0;
        if !self.handover.is(Mutant::ImprintNoFenceOnStop) {
            fence(Ordering::Release);
        }
    }

    /// Saves a block as it is; its records, which are older, hold the rest of its image.
    fn frame(&mut self, block: usize, index: usize, new: u64) {
        let used = self.used();
        if self.log.len() - used < ENTRY + BLOCK_WORDS {
            return self.give_way(block);
        }
        if self.handover.is(Mutant::ImprintFrameAfterStore) {
            self.words.store(index, new);
        }
        let start = block * BLOCK_WORDS;
        self.log.store(used + 1, FRAME | block as u64);
        for offset in 0..BLOCK_WORDS.min(self.words.len() - start) {
            self.log.store(used + ENTRY + offset, self.words.load(start + offset));
        }
        self.mark(block, CLOSED);
        self.publish(used + ENTRY + BLOCK_WORDS);
    }

    /// Publishes the log up to `used` words, before the new value that the caller stores
    /// next (I2). Partner: the Acquire fence in [`Before`] (`litmus/imprint-log`).
    #[inline(always)]
    fn publish(&self, used: usize) {
        self.handover.note_arena(used);
        if !self.handover.is(Mutant::ImprintNoReleaseFence) {
            fence(Ordering::Release);
        }
    }

    /// The budget is used: waits for the capture to pass `block` or to stop, or stops it.
    #[cold]
    fn give_way(&mut self, block: usize) {
        if self.on_full == OnFull::Cancel {
            self.handover.stop_over_budget();
            return self.give_up();
        }
        let _waiting = Waiting::begin(&self.handover);
        let mut backoff = Backoff::default();
        while self.is_open(block * BLOCK_WORDS) {
            backoff.wait();
            self.refresh();
        }
    }
}
