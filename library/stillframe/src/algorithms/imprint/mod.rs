//! Imprint: before-images in place of a second copy. Source: ours; `docs/internals/imprint.md`
//! argues why it is right, and loom explores it in `library/stillframe/models/loom`.
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
//! - I6: several images may be held. Each begin has a *volume* of its own: log, marks, index. An
//!   image is restored from its own volume and those of the begins after it: the oldest entry of a
//!   word wins, over all of them. Only the newest volume is written. What its marks close is saved
//!   in it, and so for all images: the first write of a word after any begin is the first one after
//!   the begin before it, too, or that one was saved in its time. A block that is captured is
//!   closed only if no other image was held at begin; the writer leaves alone what all held images
//!   have captured.
//! - I7: a volume whose image is over is merged into the one before it, once another is written:
//!   entries of words that have none there are taken over, and then nobody is led to it any more.
//!   An image that was given up leads to no volume. So what is kept follows from what is held, not
//!   from how many images began since.
//!
//! The cases for a word while its block is copied: not written before the copy: the live value is
//! the image. Written before, or while the block is copied: its record or its frame is found (I2)
//! and restores it (I3, I4). Written after the copy: the entry holds what was copied. What the
//! writer knows of the capture is stale: a needless entry, of a block that is not asked for again.

mod batch;
mod before;
#[cfg(all(test, not(any(feature = "loom", feature = "shuttle"))))]
mod in_place_tests;
mod volume;

use std::collections::VecDeque;

pub use self::before::Before;
use self::volume::{Index, Link, Volume};
use crate::algorithm::{Algorithm, New, check_many, write_by_replace, write_each};
use crate::budget::OnFull;
use crate::error::{BeginError, MemoryError};
use crate::handover::{Handover, Progress, Waiting};
use crate::image::{Held, InProcess, Lease};
use crate::info::Info;
use crate::memory::{InPlace, Live, Words};
use crate::mutant::Mutant;
use crate::options::Options;
use crate::os::Shared;
use crate::point::Point;
use crate::sink::{BLOCK_WORDS, Sink};
use crate::sync::{Arc, AtomicU64, AtomicUsize, Backoff, Mutex, Ordering, fence};

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
/// Most volumes that images may need. Each takes five mappings, of which Linux gives a process
/// 65,530.
const VOLUMES_MAX: usize = 1024;

/// State words with before-images.
#[derive(Debug)]
pub struct Imprint {
    words: Words,
    /// First word that is not captured, for all the writer knows.
    open: usize,
    /// Words from there to the end of the image's last block; 0 when nothing is to be saved.
    span: usize,
    /// The log as far as it may be used before the next look at the capture: one comparison checks
    /// that and the bounds.
    reach: Words,
    /// What the last begin had the writer save into.
    volume: Volume,
    /// Words of its log that the budget leaves.
    room: usize,
    /// Images in the order of their begin, from the oldest one that is wanted, and those in between
    /// that are over but have volumes of their own.
    held: VecDeque<HeldImage>,
    /// Older images that were given up, but not dropped.
    lost: Vec<HeldImage>,
    /// Where the snapshotters look for the next volume.
    link: Arc<Link>,
    /// For threads that merge volumes.
    merging: Arc<Mutex<()>>,
    options: Options,
}

/// What the writer knows of an image.
#[derive(Debug)]
struct HeldImage {
    handover: Shared<Handover>,
    epoch: u64,
    words: usize,
    on_full: OnFull,
    /// Whether the writer gave it up.
    given_up: bool,
    /// Whether it was lost at the begin before this one.
    was_lost: bool,
    start: Arc<Link>,
    /// Words of its volume, once another one is written.
    kept_words: Arc<AtomicUsize>,
}

// SAFETY: the conformance suite proves it.
unsafe impl Algorithm for Imprint {
    type Image<S: Sink + 'static> = InProcess<S, Before>;
    const INFO: Info = Self::REGISTERED;

    fn create(options: &Options) -> Result<Self, MemoryError> {
        let volume = Volume::create(options, Handover::new())?;
        Ok(Self {
            words: Words::create(options)?,
            open: 0,
            span: 0,
            reach: volume.log.until(0),
            volume,
            room: 0,
            held: VecDeque::new(),
            lost: Vec::new(),
            link: Arc::new(Link::new()),
            merging: Arc::new(Mutex::new(())),
            options: options.clone().max_words(options.max_words.max(options.words)),
        })
    }

    fn words(&self) -> usize {
        self.words.len()
    }

    fn grow(&mut self, words: usize) -> Result<(), MemoryError> {
        let reserved = self.options.max_words;
        if words > reserved {
            return Err(MemoryError::Reserved { words, reserved });
        }
        let (known, blocks) = (self.words.len().div_ceil(BLOCK_WORDS), words.div_ceil(BLOCK_WORDS));
        self.volume.grow(known, blocks)?;
        self.words.grow(words)
    }

    #[inline]
    fn read(&self, index: usize) -> u64 {
        self.words.load(index)
    }

    #[inline]
    fn window(&self, start: usize, len: usize) -> Option<impl Fn(usize) -> u64> {
        self.words.window(start, len)
    }

    write_by_replace!();

    fn write_run(&mut self, start: usize, values: &[u64]) {
        if self.span == 0 {
            return self.words.store_run(start, values); // nothing is to be saved: a recovery
        }
        write_each(self, start, values);
    }

    fn write_many(&mut self, writes: &[(usize, u64)]) {
        check_many(self, writes);
        self.replace_many(writes);
    }

    fn in_place(&mut self) -> Option<InPlace<'_>> {
        (self.handover().epoch() == 0).then(|| InPlace::new(&self.words))
    }

    fn live(&self) -> Option<Live> {
        Some(Live::new(&self.words))
    }

    fn announce(&mut self, start: usize, len: usize) {
        let words = self.words.len();
        assert!(start <= words && len <= words - start, "{len} words at {start} of {words}");
        let (mut index, end) = (start, start + len);
        // Nothing is to be saved where the span ends, or a block is closed.
        while index < end && self.span != 0 {
            let mark = self.volume.marks.at(index / BLOCK_WORDS);
            // Acquire: as in `replace`.
            let records = mark.get(Ordering::Acquire);
            if records == CLOSED {
                index = (index + 1).next_multiple_of(BLOCK_WORDS);
                continue;
            }
            // The word is not stored again: what shares it may be written in place meanwhile.
            let old = self.words.load(index);
            let used = self.used();
            match self.reach.pair(used) {
                Some(entry) if records < LIMIT => {
                    self.append(entry, used, index, [old, old]);
                    mark.set(records + 1, Ordering::Relaxed);
                }
                _ => self.save_rarely(index, [old, old]),
            }
            index += 1;
        }
        // Comes between what was saved and what is stored in place, as in `publish`.
        fence(Ordering::Release);
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
        self.forget_over();
        let ignores = self.handover().is(Mutant::HandoverIgnoresDone);
        if !(self.has_room_for_image() || ignores) {
            return Err(BeginError::Busy { epoch: self.progress().epoch() });
        }
        let alone = self.held.is_empty() || ignores;
        let budget = self.budget_words();
        if alone && (self.lost.is_empty() || ignores) {
            self.volume.reuse(budget);
        } else {
            self.next_volume()?;
        }
        self.handover().set_arena_room(self.volume.log.len().min(budget));
        self.handover().note_kept(self.held.iter().map(HeldImage::kept_words).sum());
        (self.room, self.open) = (0, 0);
        self.reach = self.volume.log.until(0);
        self.span = self.words.len().next_multiple_of(BLOCK_WORDS);
        let index = Arc::new(Index::new(&self.volume));
        // What is saved from now on is of no use to images that were given up.
        if !alone {
            self.link.set(&index);
        }
        self.link = Arc::clone(index.link());
        let before = self.before(&index, alone);
        let on_full = sink.on_full().unwrap_or(self.options.on_full);
        let lease = Lease::publish(self.handover(), self.words.len());
        self.held.push_back(HeldImage::new(&lease, on_full, &before, &index));
        Ok(InProcess::new(before, Held::new(sink, lease)))
    }

    fn progress(&self) -> Progress {
        Progress::new(self.handover())
    }
}

impl HeldImage {
    fn new(lease: &Lease, on_full: OnFull, before: &Before, index: &Index) -> Self {
        Self {
            handover: lease.handover.clone(),
            epoch: lease.epoch,
            words: lease.words,
            on_full,
            given_up: false,
            was_lost: false,
            start: Arc::clone(&before.start),
            kept_words: Arc::clone(index.kept_words()),
        }
    }

    fn has_ended(&self) -> bool {
        self.handover.has_ended(self.epoch)
    }

    /// Whether the writer must care for it: it has not ended and shall not stop.
    fn is_wanted(&self) -> bool {
        if self.handover.is(Mutant::ImprintWaitsPastStop) && self.on_full == OnFull::Slow {
            return true;
        }
        let stops = || self.handover.check_stop(self.epoch).is_err();
        !self.given_up && !self.has_ended() && !stops()
    }

    /// The writer cares for it no more, and fences before it writes on.
    fn give_up(&mut self) {
        self.given_up = true;
        self.handover.stop_over_budget();
    }

    fn kept_words(&self) -> usize {
        self.kept_words.load(Ordering::Relaxed)
    }

    /// The first word that the image may still need.
    fn open(&self) -> usize {
        let captured = self.handover.captured();
        if captured == self.words { usize::MAX } else { captured }
    }
}

impl Imprint {
    #[inline(always)]
    fn handover(&self) -> &Shared<Handover> {
        &self.volume.handover
    }

    /// Whether an image may need the old value of a word: its block is neither captured nor added
    /// after begin. One comparison shows that, and also that there is no image.
    #[inline]
    fn is_open(&self, index: usize) -> bool {
        index.wrapping_sub(self.open) < self.span
    }

    #[inline]
    fn mark(&self, block: usize, mark: u8) {
        self.volume.marks.at(block).set(mark, Ordering::Relaxed);
    }

    /// Words of the log in use by this volume.
    #[inline(always)]
    fn used(&self) -> usize {
        self.handover().arena_used()
    }

    /// Words of log that all images may take together.
    fn budget_words(&self) -> usize {
        self.options.budget_for(self.words.len()) / 8
    }

    /// Goes on in a new volume: the one before is of images that are still held.
    fn next_volume(&mut self) -> Result<(), MemoryError> {
        let options = Options { words: self.words.len(), ..self.options.clone() };
        let volume = Volume::create(&options, self.handover().following())?;
        if let Some(newest) = self.held.back() {
            newest.kept_words.fetch_add(self.volume.kept_words(), Ordering::Relaxed);
        }
        self.volume = volume;
        Ok(())
    }

    /// The image of this instant, to be restored from a volume and those after it.
    fn before(&self, index: &Arc<Index>, alone: bool) -> Before {
        let start = Arc::new(Link::new());
        start.set(index);
        let others = self.lost.iter().chain(&self.held).filter(|image| !image.has_ended());
        let others = others.map(|image| Arc::clone(&image.start)).collect();
        let merging = Arc::clone(&self.merging);
        Before { words: self.words.view(), start, alone, others, merging }
    }

    /// Whether one more image may be held. Many volumes cost mappings: then the oldest image is
    /// given up, if it may be.
    fn has_room_for_image(&mut self) -> bool {
        while self.held.len() >= VOLUMES_MAX {
            let Some(oldest) = self.held.front_mut() else { break };
            if oldest.on_full == OnFull::Slow {
                return false;
            }
            oldest.give_up();
            self.fence_stop();
            self.forget_over();
        }
        let held = self.held.iter().filter(|image| !image.has_ended());
        held.count() + self.lost.len() < self.options.images
    }

    /// Forgets the images that are over: what only they needed is gone, or was merged into what
    /// others need. An image that was given up but is held lets go of its volumes at the end of
    /// another image, or here, if there was none since the last begin.
    fn forget_over(&mut self) {
        self.lost.retain_mut(|image| {
            if std::mem::replace(&mut image.was_lost, true) {
                image.start.try_end();
            }
            !image.has_ended()
        });
        let newest = self.volume.handover.next_epoch() - 1;
        for image in std::mem::take(&mut self.held) {
            let has_volume = image.kept_words() > 0 || image.epoch == newest;
            if image.is_wanted() || has_volume && !self.held.is_empty() {
                self.held.push_back(image);
            } else if !image.has_ended() {
                self.lost.push(image);
            }
        }
    }

    /// Replaces a word, and saves its old value first if an image needs that.
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
            let mark = self.volume.marks.at(index / BLOCK_WORDS);
            // Acquire: partner of the Release in `Before::close`. No word that is stored without
            // being saved, a closed mark having been seen, is what was copied
            // (`litmus/imprint-close`). The writer's own stores to marks order nothing: one that
            // opens a closed mark again costs needless records.
            let records = mark.get(Ordering::Acquire);
            if records != CLOSED {
                let old = word.load(Ordering::Relaxed);
                let new = new.resolve(|| old);
                let used = self.used();
                if records < LIMIT
                    && let Some(entry) = self.reach.pair(used)
                {
                    self.append(entry, used, index, [old, new]);
                    mark.set(records + 1, Ordering::Relaxed);
                    return word.store(new, Ordering::Relaxed);
                }
                self.save_rarely(index, [old, new]);
                return self.words.store(index, new);
            }
        }
        word.store(new.resolve(|| word.load(Ordering::Relaxed)), Ordering::Relaxed);
    }

    /// Appends the record of a word to the log, which is `used` words long.
    #[inline(always)]
    fn append(&self, entry: &[AtomicU64; ENTRY], used: usize, index: usize, [old, new]: [u64; 2]) {
        if self.handover().is(Mutant::ImprintNeverLogs) {
            return;
        }
        if self.handover().is(Mutant::ImprintStoresBeforeLog) {
            self.words.store(index, new);
        }
        let half = self.handover().is(Mutant::ImprintSavesHalfWord);
        let old = if half { old & u64::from(u32::MAX) } else { old };
        entry[0].store(old, Ordering::Relaxed);
        entry[1].store(index as u64, Ordering::Relaxed);
        self.publish(used + ENTRY);
    }

    /// Saves a word that is about to become `new`, in the cases that are rare: its block is not
    /// open, it is to get a frame, or it is time to look how far the captures are.
    #[cold]
    #[inline(never)]
    fn save_rarely(&mut self, index: usize, [old, new]: [u64; 2]) {
        let block = index / BLOCK_WORDS;
        if !self.is_open(index) {
            return self.mark(block, CLOSED);
        }
        let records = self.volume.marks.at(block).get(Ordering::Relaxed);
        let is_full = records >= LIMIT;
        self.refresh();
        let needed = if is_full { ENTRY + BLOCK_WORDS } else { ENTRY };
        let mut pause = None;
        while self.is_open(index) {
            let used = self.used();
            if used + needed > self.room {
                self.give_way(&mut pause);
            } else if is_full {
                return self.frame(used, block, index, new);
            } else {
                let entry = self.volume.log.record(used / ENTRY);
                self.append(entry, used, index, [old, new]);
                return self.mark(block, records + 1);
            }
        }
    }

    /// Looks how far the captures are, and how much log the budget leaves. An image that has to
    /// stop is left alone from then on.
    fn refresh(&mut self) {
        let forgets = self.handover().is(Mutant::ImprintForgetsOlderImages);
        let first = if forgets { self.held.len().saturating_sub(1) } else { 0 };
        let held = || self.held.iter().enumerate().skip(first);
        // Each is asked once: the answer may change, and who wants nothing more is given up.
        let (mut oldest, mut open) = (None, usize::MAX);
        for (number, image) in held().filter(|(_, image)| image.is_wanted()) {
            oldest = oldest.or(Some(number));
            open = open.min(image.open());
        }
        let Some(oldest) = oldest else { return self.give_up() };
        let older = self.held.range(oldest..self.held.len() - 1).map(HeldImage::kept_words);
        let kept = older.sum();
        self.handover().note_kept(kept);
        let room = self.budget_words().saturating_sub(kept).min(self.volume.log.len());
        self.room = room / ENTRY * ENTRY;
        self.reach.set_end((self.used() + REFRESH).min(self.room), &self.volume.log);
        let end = self.open + self.span;
        self.open = open.min(end).next_multiple_of(BLOCK_WORDS);
        self.span = end - self.open;
        self.fence_stop();
    }

    /// Saves nothing more: no image is held, or those that are have to stop.
    fn give_up(&mut self) {
        self.span = 0;
        self.fence_stop();
    }

    /// Comes between the stop of an image and a word that is not saved for it: a thread that sees
    /// the word sees the stop. Partner: the Acquire fence in [`Before`], which is followed by a
    /// look at the stop (`litmus/imprint-stop`).
    fn fence_stop(&self) {
        if !self.handover().is(Mutant::ImprintNoFenceOnStop) {
            fence(Ordering::Release);
        }
    }

    /// Saves a block as it is; its records, which are older, hold the rest of the images.
    fn frame(&mut self, used: usize, block: usize, index: usize, new: u64) {
        if self.handover().is(Mutant::ImprintFrameAfterStore) {
            self.words.store(index, new);
        }
        let start = block * BLOCK_WORDS;
        let log = &self.volume.log;
        log.store(used + 1, FRAME | block as u64);
        for offset in 0..BLOCK_WORDS.min(self.words.len() - start) {
            log.store(used + ENTRY + offset, self.words.load(start + offset));
        }
        self.mark(block, CLOSED);
        self.publish(used + ENTRY + BLOCK_WORDS);
    }

    /// Publishes the log up to `used` words, before the new value that the caller stores
    /// next (I2). Partner: the Acquire fence in [`Before`] (`litmus/imprint-log`).
    #[inline(always)]
    fn publish(&self, used: usize) {
        self.handover().note_arena(used);
        if !self.handover().is(Mutant::ImprintNoReleaseFence) {
            fence(Ordering::Release);
        }
    }

    /// The budget is used: gives the oldest image up, or waits a little for it. What it alone needs
    /// is then free.
    #[cold]
    fn give_way(&mut self, pause: &mut Option<(Waiting, Backoff)>) {
        let Some(oldest) = self.held.iter_mut().find(|image| image.is_wanted()) else {
            return self.give_up();
        };
        if oldest.on_full == OnFull::Cancel {
            oldest.give_up();
        } else {
            let counts = &self.volume.handover;
            let begin = || (Waiting::begin(&oldest.handover, counts), Backoff::default());
            pause.get_or_insert_with(begin).1.wait();
        }
        self.refresh();
    }
}
