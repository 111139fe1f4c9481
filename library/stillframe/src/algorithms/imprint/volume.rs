//! A volume: what one begin has the writer save into, and the index that snapshotters make of it.

use std::sync::OnceLock;

use super::{CLOSED, ENTRY, FRAME, LIMIT};
use crate::error::MemoryError;
use crate::handover::Handover;
use crate::memory::{Tags, Words};
use crate::mutant::Mutant;
use crate::options::Options;
use crate::os::Shared;
use crate::sink::BLOCK_WORDS;
use crate::sync::{Arc, AtomicUsize, Mutex, MutexGuard, Ordering};

/// Words of log that the process keeps between images (1 MiB).
const KEPT_WORDS: usize = 1 << 17;
/// Log that is made resident ahead of the writer, which then pays for no first touches: this part
/// of the state, at most `AHEAD_WORDS_MAX` words (4 MiB), a chunk at a time.
const AHEAD_PART: usize = 64;
const AHEAD_WORDS_MAX: usize = 1 << 19;
const CHUNK_WORDS: usize = 1 << 15;
/// Words with a bit for each word of a block.
const BIT_WORDS: usize = BLOCK_WORDS.div_ceil(64);
/// In a link: the entry is a frame.
const WHOLE: u64 = 1 << 15;
/// What a volume takes beside its words: its hand-over, and the rest of the last page of each
/// mapping. The checkers, which have no pages, count words alone.
const OVERHEAD_WORDS: usize =
    if cfg!(any(miri, feature = "loom", feature = "shuttle")) { 0 } else { 4 * 512 };

const _: () = assert!(BLOCK_WORDS <= 1 << 15 && LIMIT > 0);

/// The writer's side of a volume.
#[derive(Debug)]
pub(super) struct Volume {
    /// What the log holds of each block: its number of records, or `CLOSED`.
    pub(super) marks: Tags,
    /// Marks for the image after this one, if it finds the volume free; cleared when this one ends.
    next_marks: Tags,
    pub(super) log: Words,
    pub(super) handover: Shared<Handover>,
    heads: Words,
    /// Position of the log's first word in this image.
    base: u64,
}

impl Volume {
    /// An empty volume for a state of `options.words` words.
    pub(super) fn create(options: &Options, handover: Handover) -> Result<Self, MemoryError> {
        let by_block = options.resized(|words| words.div_ceil(BLOCK_WORDS));
        let log = options.resized(|words| options.budget_for(words) / 8).prefault(false);
        Ok(Self {
            marks: Tags::create(&by_block)?,
            next_marks: Tags::create(&by_block)?,
            log: Words::create(&log)?,
            handover: Shared::new(handover)?,
            heads: Words::create(&by_block)?,
            base: 1, // the index starts as 0, which is of no image
        })
    }

    /// The state has grown: blocks beyond those that were known are of no image.
    pub(super) fn grow(&mut self, known: usize, blocks: usize) -> Result<(), MemoryError> {
        self.heads.grow(blocks)?;
        self.marks.grow(blocks)?;
        (known..blocks).for_each(|block| self.marks.at(block).set(CLOSED, Ordering::Relaxed));
        self.next_marks.grow(blocks)
    }

    /// Words that the volume takes: its log, marks and heads. Nothing if nothing was written.
    pub(super) fn kept_words(&self) -> usize {
        let index = self.heads.len() + 2 * self.heads.len().div_ceil(8);
        match self.handover.arena_used() {
            0 => 0,
            used => used + index + OVERHEAD_WORDS,
        }
    }

    /// Makes room for the next image, with `log` words of log; all before have ended.
    pub(super) fn reuse(&mut self, log: usize) {
        if !self.handover.is(Mutant::ImprintKeepsMarks) {
            std::mem::swap(&mut self.marks, &mut self.next_marks);
        }
        if !self.handover.is(Mutant::ImprintTrustsStaleHead) {
            self.base += self.handover.arena_used() as u64;
        }
        // What the system refuses is not used: the budget is then what there was.
        let _ = self.log.grow(log);
    }
}

/// The snapshotters' side of a volume: its log, sorted by block. The images of this begin and of
/// those before share it.
///
/// A block's head is the position of its newest entry, and the second word of an indexed entry is a
/// link, `next << 16 | offset`, where `next` is the position of the block's entry before in the log
/// plus one, or 0, and `offset` that of the word in the block, or `WHOLE`.
///
/// One thread at a time indexes. A head is stored with Release when its entry is linked, and loaded
/// with Acquire: who follows it finds links and the writer's words.
#[derive(Debug)]
pub(super) struct Index {
    log: Words,
    heads: Words,
    base: u64,
    handover: Shared<Handover>,
    marks: Tags,
    next_marks: Tags,
    /// Words of the log that are indexed.
    indexed: AtomicUsize,
    indexing: Mutex<()>,
    /// Words of the log that are resident, or used.
    resident: AtomicUsize,
    /// A bit for each word of the image that has an entry, made when a word is first asked for by
    /// itself: most words have none, and the walk to an entry is long. Set before `indexed` rises.
    bits: OnceLock<Option<Words>>,
    link: Arc<Link>,
    /// The image of its begin.
    epoch: u64,
    /// Whether that image needs it no more.
    is_over: AtomicUsize,
    /// Words that it takes, once another volume is written; none if it was merged into another.
    kept_words: Arc<AtomicUsize>,
}

/// The way to a volume: from the one before, or from an image to that of its begin. The writer
/// keeps that from the newest volume to the next, and so keeps no volume.
///
/// The writer sets it once, and waits for nobody: none takes the lock before.
#[derive(Debug)]
pub(super) struct Link {
    to: Mutex<Option<Arc<Index>>>,
    is_set: AtomicUsize,
}

impl Link {
    pub(super) fn new() -> Self {
        Self { to: Mutex::new(None), is_set: AtomicUsize::new(0) }
    }

    /// The caller is the writer. If it is a way to another volume, that is written from now on, and
    /// nothing was stored since. Release: partner of [`follow`](Self::follow), for who copies no
    /// word that is newer.
    pub(super) fn set(&self, to: &Arc<Index>) {
        *self.lock() = Some(Arc::clone(to));
        self.is_set.store(1, Ordering::Release);
    }

    /// The volume there, if there is one.
    pub(super) fn follow(&self) -> Option<Arc<Index>> {
        if self.is_set.load(Ordering::Acquire) == 0 {
            return None;
        }
        self.lock().clone()
    }

    /// Leads to another volume from now on, or nowhere. What it led to is dropped behind the lock.
    fn lead(&self, to: Option<Arc<Index>>) -> Option<Arc<Index>> {
        std::mem::replace(&mut *self.lock(), to)
    }

    /// The image that starts here needs its volumes no more.
    pub(super) fn end(&self) {
        if let Some(index) = self.lead(None) {
            index.is_over.store(1, Ordering::Relaxed);
        }
    }

    /// As [`end`](Self::end), for the writer: not if it would have to wait.
    pub(super) fn try_end(&self) {
        let taken = self.to.try_lock().ok().and_then(|mut to| to.take());
        if let Some(index) = taken {
            index.is_over.store(1, Ordering::Relaxed);
        }
    }

    // A poisoned lock is taken anyway: each change is one assignment.
    fn lock(&self) -> MutexGuard<'_, Option<Arc<Index>>> {
        self.to.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl Index {
    /// The index of a volume in which the next image begins.
    pub(super) fn new(volume: &Volume) -> Self {
        Self {
            log: volume.log.view(),
            heads: volume.heads.view(),
            base: volume.base,
            handover: volume.handover.clone(),
            marks: volume.marks.view(),
            next_marks: volume.next_marks.view(),
            indexed: AtomicUsize::new(0),
            indexing: Mutex::new(()),
            resident: AtomicUsize::new(0),
            bits: OnceLock::new(),
            link: Arc::new(Link::new()),
            epoch: volume.handover.next_epoch(),
            is_over: AtomicUsize::new(0),
            kept_words: Arc::new(AtomicUsize::new(0)),
        }
    }

    pub(super) fn link(&self) -> &Arc<Link> {
        &self.link
    }

    pub(super) fn is(&self, mutant: Mutant) -> bool {
        self.handover.is(mutant)
    }

    pub(super) fn handover(&self) -> &Handover {
        &self.handover
    }

    /// The volume that was written after this one; the log here has its last end if there is one.
    /// Asked for behind the Acquire fence after a copy, partner of the writer's Release fence
    /// before it stores a word that it saved there (I2): who copied such a word finds the volume.
    pub(super) fn next(&self) -> Option<Arc<Self>> {
        self.link.follow()
    }

    /// Words that it takes, for the writer, who says so when it goes on in another volume.
    pub(super) fn kept_words(&self) -> &Arc<AtomicUsize> {
        &self.kept_words
    }

    /// Whether the image of its begin was given up or cancelled, and so reads nothing more.
    pub(super) fn is_lost(&self) -> bool {
        self.handover.check_stop(self.epoch).is_err()
    }

    /// The end of the log, as the writer has published it.
    pub(super) fn end(&self) -> usize {
        self.handover.arena_words()
    }

    /// Closes the mark of a block that is copied and handed over (I5). Release: partner of the
    /// writer's load of the mark. The copy's loads come before, so none of them reads a word that
    /// the writer stores because it saw the mark (`litmus/imprint-close`).
    pub(super) fn close(&self, block: usize) {
        self.marks.at(block).set(CLOSED, Ordering::Release);
    }

    /// Indexes the log up to `end`.
    pub(super) fn extend(&self, end: usize) {
        if self.indexed.load(Ordering::Acquire) >= end {
            return;
        }
        let _indexing = self.lock();
        let bits = self.bits.get().and_then(Option::as_ref);
        let mut at = self.indexed.load(Ordering::Relaxed);
        while at < end {
            let key = self.log.load(at + 1);
            let (block, offset, words) = if key & FRAME == 0 {
                let index = key as usize;
                (index / BLOCK_WORDS, (index % BLOCK_WORDS) as u64, ENTRY)
            } else {
                ((key & !FRAME) as usize, WHOLE, ENTRY + BLOCK_WORDS)
            };
            self.link_entry(at, block, offset, bits);
            at += words;
        }
        self.indexed.store(at, Ordering::Release);
    }

    /// Makes the entry at `at` in the log the newest of its block. The caller has the lock.
    fn link_entry(&self, at: usize, block: usize, offset: u64, bits: Option<&Words>) {
        self.log.store(at + 1, self.position(block) << 16 | offset);
        if let Some(bits) = bits {
            set_bits(bits, block, (offset != WHOLE).then_some(offset as usize));
        }
        self.heads.word(block).store(self.base + at as u64, Ordering::Release);
    }

    /// Takes over the entries of `later`, the next volume, of words that have none here: so the
    /// images of this begin and of those before need it no more, once nobody is led there. Neither
    /// is written any more, and the caller is the only one who merges. Returns whether there was
    /// room.
    ///
    /// Who reads meanwhile was led to `later` before, and finds there what it misses here: the
    /// oldest entry of a word wins, and those that are taken over are newer than all that are here.
    fn absorb(&self, later: &Self) -> bool {
        self.extend(self.end());
        later.extend(later.end());
        let most = later.indexed.load(Ordering::Relaxed);
        if most == 0 {
            return true;
        }
        let bits = self.bits.get().unwrap_or_else(|| self.make_bits()).as_ref();
        let _indexing = self.lock();
        let start = self.indexed.load(Ordering::Relaxed);
        if most > self.log.len() - start {
            return false;
        }
        let (mut end, mut entries) = (start, Vec::new());
        for block in 0..self.heads.len().min(later.heads.len()) {
            entries.clear();
            later.walk(block, |at, offset| entries.push((at, offset)));
            for &(at, offset) in entries.iter().rev() {
                if self.covers(block, offset, bits) && !self.is(Mutant::ImprintMergesAll) {
                    continue;
                }
                let words = if offset.is_some() { ENTRY } else { ENTRY + BLOCK_WORDS };
                let is_cut = self.is(Mutant::ImprintMergesNoFrames);
                self.log.copy_from(end, &later.log, at, if is_cut { ENTRY } else { words });
                let offset = offset.map_or(WHOLE, |offset| offset as u64);
                self.link_entry(end, block, offset, bits);
                end += words;
            }
        }
        self.indexed.store(end, Ordering::Release);
        self.kept_words.fetch_add(end - start, Ordering::Relaxed);
        true
    }

    /// Whether there are entries here of a word of a block, or of all of its words.
    fn covers(&self, block: usize, offset: Option<usize>, bits: Option<&Words>) -> bool {
        let Some(bits) = bits else {
            let mut is_covered = false;
            self.walk(block, |_, of| is_covered |= of.is_none() || of == offset);
            return is_covered;
        };
        let start = block * BIT_WORDS;
        match offset {
            None => (start..start + BIT_WORDS).all(|at| bits.load(at) == u64::MAX),
            Some(offset) => bits.load(start + offset / 64) >> (offset % 64) & 1 != 0,
        }
    }

    /// Merges the volumes behind `first` that no image begins in any more, each into the one
    /// before it. The newest, which is being written, is left alone. One thread at a time does so.
    pub(super) fn merge(first: Arc<Self>) {
        let mut into = first;
        while let Some(later) = into.next() {
            let Some(after) = later.next() else { return };
            let is_over = later.is_over.load(Ordering::Relaxed) != 0;
            let leads_first = is_over && into.is(Mutant::ImprintLeadsPastUnmerged);
            if leads_first {
                into.link.lead(Some(Arc::clone(&after)));
            }
            if is_over && into.absorb(&later) {
                // Who is led past `later` finds here what it had.
                into.link.lead(Some(after));
                later.kept_words.store(0, Ordering::Relaxed);
            } else {
                into = later;
            }
        }
    }

    /// Place of a block's newest indexed entry plus one, or 0 if it has none in this image. A block
    /// that was added after begin has none.
    fn position(&self, block: usize) -> u64 {
        let head = self.heads.word(block).load(Ordering::Acquire);
        if head < self.base { 0 } else { head - self.base + 1 }
    }

    /// Calls `entry` with what the index has of a block, newest to oldest: the place of the entry
    /// in the log and the offset of its word, or `None` for a frame.
    fn walk(&self, block: usize, mut entry: impl FnMut(usize, Option<usize>)) {
        let mut position = self.position(block);
        while position != 0 {
            let at = position as usize - 1;
            let link = self.log.load(at + 1);
            let offset = (link & 0xffff) as usize;
            let is_whole = link & WHOLE != 0;
            entry(at, (!is_whole).then_some(offset));
            let alone = self.is(Mutant::ImprintAppliesNewestOnly)
                || self.is(Mutant::ImprintFrameWithoutChain) && is_whole;
            // Links lead back, so this ends whatever the log holds.
            let leads_on = !alone && link >> 16 < position;
            position = if leads_on { link >> 16 } else { 0 };
        }
    }

    /// Puts back what the index has of the words of a block from offset `from` on, newest to
    /// oldest: the oldest wins (I3, I4).
    pub(super) fn restore(&self, block: usize, from: usize, into: &mut [u64]) {
        self.walk(block, |at, offset| match offset {
            None => self.log.copy_to(at + ENTRY + from, into),
            Some(offset) => {
                if let Some(word) = into.get_mut(offset.wrapping_sub(from)) {
                    *word = self.log.load(at);
                } // else a word added after begin, or not asked for
            }
        });
    }

    /// As [`restore`](Self::restore), for the words that no older volume has restored: each bit of
    /// `restored` stands for one.
    pub(super) fn restore_rest(
        &self,
        block: usize,
        from: usize,
        into: &mut [u64],
        restored: &mut Restored,
    ) {
        let older = *restored;
        let mut put = |offset: usize, value: u64| {
            if let Some(word) = into.get_mut(offset.wrapping_sub(from))
                && !older.has(offset)
            {
                *word = value;
                restored.add(offset);
            }
        };
        self.walk(block, |at, offset| match offset {
            None => (0..BLOCK_WORDS).for_each(|it| put(it, self.log.load(at + ENTRY + it))),
            Some(offset) => put(offset, self.log.load(at)),
        });
    }

    // A poisoned lock is taken anyway: each entry is linked whole.
    fn lock(&self) -> MutexGuard<'_, ()> {
        self.indexing.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Whether a word may have an entry in what is indexed.
    fn may_have(&self, block: usize, offset: usize) -> bool {
        // Without memory for it, each word is looked for.
        let Some(bits) = self.bits.get().unwrap_or_else(|| self.make_bits()) else { return true };
        let at = block * BIT_WORDS + offset / 64;
        at >= bits.len() || bits.load(at) >> (offset % 64) & 1 != 0
    }

    /// Marks what is indexed, and has [`extend`](Self::extend) mark the rest: under its lock, so
    /// that no entry comes between.
    #[cold]
    fn make_bits(&self) -> &Option<Words> {
        let _indexing = self.lock();
        self.bits.get_or_init(|| {
            let blocks = self.heads.len();
            let bits = Words::create(&Options::words(blocks * BIT_WORDS)).ok()?;
            for block in 0..blocks {
                self.walk(block, |_, offset| set_bits(&bits, block, offset));
            }
            self.kept_words.fetch_add(bits.len(), Ordering::Relaxed);
            Some(bits)
        })
    }

    /// The oldest value that the index has of a word.
    pub(super) fn find(&self, block: usize, offset: usize) -> Option<u64> {
        if !self.may_have(block, offset) {
            return None;
        }
        let mut found = None;
        self.walk(block, |at, of| match of {
            None => found = Some(self.log.load(at + ENTRY + offset)),
            Some(of) if of == offset => found = Some(self.log.load(at)),
            Some(_) => {}
        });
        found
    }

    /// The volume after this one, if nobody else may come to it from here.
    fn take_next(&mut self) -> Option<Arc<Self>> {
        Arc::get_mut(&mut self.link)?.lead(None)
    }

    /// Makes another chunk of the log resident if the writer will soon need it.
    pub(super) fn keep_ahead(&self, state_words: usize) {
        let end = self.indexed.load(Ordering::Relaxed);
        let ahead = (state_words / AHEAD_PART).min(AHEAD_WORDS_MAX);
        let resident = self.resident.load(Ordering::Relaxed).max(end);
        let until = (resident + CHUNK_WORDS).min(self.log.len());
        if until <= end + ahead && resident < until {
            self.log.populate(resident, until);
            self.resident.store(until, Ordering::Relaxed);
        }
    }
}

impl Drop for Index {
    /// The images are over: nothing reads this log again, and the writer does not look at the marks
    /// of the next image before the next begin. The writer may not know of the end yet and still
    /// append: a record that then reads as zero does no harm.
    fn drop(&mut self) {
        self.handover.end_early(Mutant::ImprintEndsBeforeClear);
        self.next_marks.clear();
        self.log.release(KEPT_WORDS);
        // One by one: a long chain would need a deep stack.
        let mut next = self.take_next();
        while let Some(mut index) = next.and_then(|next| Arc::try_unwrap(next).ok()) {
            next = index.take_next();
        }
    }
}

/// Marks a word of a block in `bits`, or all of them. One thread at a time does so.
fn set_bits(bits: &Words, block: usize, offset: Option<usize>) {
    let start = block * BIT_WORDS;
    match offset {
        None => (start..start + BIT_WORDS).for_each(|at| bits.store(at, u64::MAX)),
        Some(offset) => {
            let at = start + offset / 64;
            bits.store(at, bits.load(at) | 1 << (offset % 64));
        }
    }
}

/// Which words of a block were restored.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Restored([u64; BIT_WORDS]);

impl Restored {
    fn has(&self, offset: usize) -> bool {
        self.0[offset / 64] >> (offset % 64) & 1 != 0
    }
    fn add(&mut self, offset: usize) {
        self.0[offset / 64] |= 1 << (offset % 64);
    }
}
