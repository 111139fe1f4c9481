//! Imprint for several writers (ours): before-images in place of a second copy.
//!
//! Idea: one table. The first commit after the point of consistency that replaces words of a record
//! saves their old values, then stores the new ones in place; `head` says where they are saved.
//! The capture copies a record, then looks whether words of it were saved; if so, those are the
//! image's. A commit of the image's own epoch saves nothing, whenever it is installed.
//!
//! - Memory: 1 copy, 4 bytes a record, and before-images: a word, and the words that differ, of
//!   each record that is replaced before its capture. Begin: O(1), waits for installs. Read:
//!   nothing. Write: one look between images.
//! - A record has up to 32 parts (a word each up to 32 words). Its first entry holds the parts that
//!   the first commit changes; if a later one changes others, a second entry holds all the rest. So
//!   before-images never take more than a copy and two words a record.
//! - A commit saves all its before-images, then stores all new values: the loads of the heads do
//!   not depend on one another and miss the caches at the same time, and one fence serves all.
//! - A budget: when it is used up, the image is cancelled, or each commit waits until the capture
//!   has passed the records that it replaces.
//!
//! Invariants: a before-image holds the value of the image: a record's lock orders its commits, and
//! epochs rise along that order, so the commit that saves a part is the first one after the point
//! that changes it. A new word is visible only after the before-image: a Release fence before the
//! store, an Acquire fence after the copy. Before-images lie in chunks (`room.rs`). Each chunk has
//! one worker at most, who fills it under a lock. A begin takes all chunks back: the capture of the
//! image before has ended, so a writer that still saves for that one, into a chunk that he takes
//! anew, saves in vain.
//!
//! A head holds the last bits of its image's number, and entries of other images have been written
//! over; so no head may live until its number comes again. When half of all numbers have passed,
//! the end of an image clears all heads. A writer late for that image may still write one, which
//! the next time clears: late ones end within the begin that follows.

mod room;

use std::ops::{DerefMut, Range};
use std::sync::PoisonError;

use stillframe::OnFull;

use self::room::{Arena, Full, Layout, Room};
use crate::contract::{CaptureError, Completeness, Concurrent, Info, Records, Writes};
use crate::epochs::Epochs;
use crate::mutant::{Mutant, Mutation};
use crate::settings::Settings;
use crate::shape::{CreateError, Parts, Shape, Split};
use crate::sync::{AtomicU32, AtomicU64, Backoff, Line, Mutex, Ordering, fence};
use crate::table::{Table, filled};

/// No image is under way.
const NONE: u64 = u64::MAX;
/// Set in the first word of a record's first entry if the record was present; beside it are the
/// parts that the entry holds.
const PRESENT: u64 = 1 << 62;
/// Set in the first word of a record's second entry, beside the place of the first one.
const SECOND: u64 = 1 << 63;
/// Words captured between two publications of the cursor.
const STRIDE_WORDS: usize = if cfg!(any(feature = "loom", feature = "shuttle")) { 1 } else { 1024 };

/// How far ahead the capture fetches the words that it will read, past the caches that commits use.
const AHEAD_WORDS: usize = 128;

/// Records with images by Imprint.
#[derive(Debug)]
pub struct Imprint {
    table: Table,
    /// Where a record's newest before-image is.
    heads: Box<[AtomicU32]>,
    room: Room,
    arenas: Box<[Line<Mutex<Arena>>]>,
    /// The image under way.
    imaging: Line<AtomicU64>,
    /// Records below have been captured.
    cursor: AtomicU64,
    /// The last image that lacks a before-image: twice one more than its number, and one more if
    /// the budget was the reason.
    lost: AtomicU64,
    on_full: OnFull,
    shape: Shape,
    split: Split,
    epochs: Epochs,
    mutation: Mutation,
}

impl Imprint {
    /// The place of the before-image of a record.
    fn saved(&self, image: u64, record: usize) -> Option<u32> {
        let head = self.heads[record].load(Ordering::Acquire);
        self.room.layout.place(head, image)
    }

    /// What a worker has saved.
    fn arena(&self, worker: usize) -> impl DerefMut<Target = Arena> {
        // Whatever panicked, the entries before hold.
        self.arenas[worker].0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What to save of a record of which a commit is about to change parts, whose entry is at
    /// `place`; `None` if the image lacks nothing.
    fn due(&self, place: u32, changed: Parts) -> Option<Parts> {
        let first = self.room.at(place)[0].load(Ordering::Relaxed);
        let has = if first & SECOND != 0 { self.split.all } else { Parts(first as u32) };
        let once = self.mutation.is(Mutant::ImprintSavesARecordOnce);
        let lacks = !changed.without(has).is_empty() && !once;
        lacks.then_some(self.split.all.without(has))
    }

    /// Saves parts of a record, whose lock the caller holds; a fence has to follow.
    #[inline]
    fn save(&self, arena: &mut Arena, saving: Saving, record: usize, changed: Parts) {
        let Saving { image, layout, split } = saving;
        let head = &self.heads[record];
        let earlier = layout.place(head.load(Ordering::Relaxed), image);
        let parts = match earlier.map(|place| self.due(place, changed)) {
            None if layout.whole => split.all,
            None => changed,
            Some(Some(parts)) => parts,
            Some(None) => return,
        };
        let (place, entry) = match arena.place(&self.room) {
            Ok(free) => free,
            Err(full) => return self.save_nothing(image, record, full),
        };
        let first = match earlier {
            Some(place) => SECOND | u64::from(place),
            None if self.table.present(record) => PRESENT | u64::from(parts.0),
            None => u64::from(parts.0),
        };
        entry[0].store(first, Ordering::Relaxed);
        let (cells, mut used) = (self.table.cells(record), 1);
        split.words_of(parts, |word| {
            entry[used].store(cells[word].load(Ordering::Relaxed), Ordering::Relaxed);
            used += 1;
        });
        arena.keep(used, layout);
        let relaxed = self.mutation.is(Mutant::ImprintNoReleaseFence);
        let order = if relaxed { Ordering::Relaxed } else { Ordering::Release };
        head.store(layout.head(image, place), order);
    }

    /// There is no room for the before-image of a record: waits until none is needed, or cancels
    /// the image.
    #[cold]
    fn save_nothing(&self, image: u64, record: usize, full: Full) {
        if full == Full::Budget && self.on_full == OnFull::Slow {
            self.wait_for_capture(image, record);
        } else if !self.mutation.is(Mutant::ImprintHidesLoss) {
            let reason = u64::from(full == Full::Budget);
            self.lost.fetch_max((image + 1) * 2 + reason, Ordering::Relaxed);
        }
    }

    /// Waits until the capture has passed a record, or the image has ended.
    fn wait_for_capture(&self, image: u64, record: usize) {
        let passed = || self.cursor.load(Ordering::Acquire) > record as u64;
        let mut backoff = Backoff::default();
        while !passed() && self.imaging.0.load(Ordering::Acquire) == image {
            if self.mutation.is(Mutant::ImprintWaitsNotForCapture) {
                return;
            }
            backoff.wait();
        }
    }

    /// Saves what the image lacks of the records that a commit is about to replace.
    fn save_all(&self, worker: usize, image: u64, writes: &Writes<'_>) {
        // Looked at once: whatever is captured meanwhile is saved in vain.
        let cursor = self.cursor.load(Ordering::Acquire);
        if self.lost.load(Ordering::Relaxed) / 2 <= image
            && !self.mutation.is(Mutant::ImprintNeverSaves)
        {
            let mut arena = self.arena(worker);
            arena.start(image, &self.room);
            let saving = Saving { image, layout: self.room.layout, split: self.split };
            for it in writes.written.iter().filter(|it| cursor <= it.record as u64) {
                self.save(&mut arena, saving, it.record, it.changed);
            }
        }
        if !self.mutation.is(Mutant::ImprintNoReleaseFence) {
            // A reader that sees a newer word sees the before-images, or that one was lost.
            fence(Ordering::Release);
        }
    }

    /// Copies the image's values of some records and says which are present. Looks at all heads
    /// before it reads what they lead to: those loads miss the caches at the same time.
    fn take(&self, image: u64, records: Range<usize>, batch: &mut Batch) {
        let width = self.shape.words;
        let Batch { words, present, saved } = batch;
        for (at, record) in records.clone().enumerate() {
            self.table.prefetch_once(record + (AHEAD_WORDS / width.max(1)).max(1));
            present[at] = self.table.load(record, &mut words[at * width..][..width]);
        }
        if !self.mutation.is(Mutant::ImprintNoAcquireFence) {
            fence(Ordering::Acquire);
        }
        saved.clear();
        let found = |(at, record)| Some((at, self.saved(image, record)?));
        saved.extend(records.enumerate().filter_map(found));
        for &(at, place) in &*saved {
            present[at] = self.restore(place, &mut words[at * width..][..width]);
        }
    }

    /// Puts the words that were saved of a record in the place of newer ones, and says whether it
    /// was present.
    fn restore(&self, place: u32, words: &mut [u64]) -> bool {
        let put = |words: &mut [u64], place: u32, parts: Parts| {
            let mut saved = self.room.at(place)[1..].iter();
            self.split.words_of(parts, |word| {
                words[word] = saved.next().map_or(0, |from| from.load(Ordering::Relaxed));
            });
        };
        let mut first = self.room.at(place)[0].load(Ordering::Relaxed);
        let mut first_place = place;
        if first & SECOND != 0 {
            first_place = first as u32;
            first = self.room.at(first_place)[0].load(Ordering::Relaxed);
            put(words, place, self.split.all.without(Parts(first as u32)));
            if self.mutation.is(Mutant::ImprintForgetsFirstEntry) {
                return first & PRESENT != 0;
            }
        }
        put(words, first_place, Parts(first as u32));
        first & PRESENT != 0
    }
}

/// What a commit looks up once for all records that it saves.
#[derive(Clone, Copy)]
struct Saving {
    image: u64,
    layout: Layout,
    split: Split,
}

/// Records that are captured together.
struct Batch {
    words: Vec<u64>,
    present: Vec<bool>,
    /// Which of them have a before-image, and where.
    saved: Vec<(usize, u32)>,
}

impl Concurrent for Imprint {
    const INFO: Info = Info {
        name: "imprint",
        title: "Imprint for several writers",
        citation: "Stillframe",
        memory: "1, 4 bytes a record, and before-images",
        begin: "O(1), waits for installs",
        image: Completeness::Full,
    };

    fn create(settings: &Settings) -> Result<Self, CreateError> {
        let Settings { shape, workers, on_full, .. } = *settings;
        Ok(Self {
            room: Room::new(settings)?,
            table: Table::new(shape)?,
            heads: filled(shape.records, || AtomicU32::new(0))?,
            arenas: filled(workers, || Line(Mutex::new(Arena::new())))?,
            imaging: Line(AtomicU64::new(NONE)),
            cursor: AtomicU64::new(0),
            lost: AtomicU64::new(0),
            on_full,
            shape,
            split: shape.split(),
            epochs: Epochs::new(workers),
            mutation: Mutation::current(),
        })
    }
    fn epochs(&self) -> &Epochs {
        &self.epochs
    }
    fn newest(&self, _: usize) -> &Table {
        &self.table
    }
    fn prefetch(&self, record: usize) {
        stillframe::os::prefetch(&raw const self.heads[record]);
        self.table.prefetch(record);
    }
    fn install(&self, worker: usize, epoch: u64, writes: &Writes<'_>, ordered: impl FnOnce(u64)) {
        let early = !self.mutation.is(Mutant::InstallsBeforeJournal);
        let ordered = if early {
            ordered(epoch);
            None
        } else {
            Some(ordered)
        };
        let image = self.imaging.0.load(Ordering::Acquire);
        let own = image == epoch && self.mutation.is(Mutant::ImprintSavesOfOwnEpoch);
        let saves = image < epoch || own;
        let late = self.mutation.is(Mutant::ImprintSavesAfterStore);
        if saves && !late {
            self.save_all(worker, image, writes);
        }
        writes.changes().for_each(|it| self.table.patch(it.record, it.parts, it.value));
        if saves && late {
            self.save_all(worker, image, writes);
        }
        if let Some(ordered) = ordered {
            ordered(epoch);
        }
    }
    fn begin(&self) -> u64 {
        let image = self.epochs.now();
        (0..self.arenas.len()).for_each(|worker| self.arena(worker).start(image, &self.room));
        self.cursor.store(0, Ordering::Relaxed);
        self.imaging.0.store(image, Ordering::Release);
        self.epochs.set(image + 1);
        if !self.mutation.is(Mutant::EpochDoesNotDrain) {
            self.epochs.drain(|announced| announced == image);
        }
        image
    }
    fn capture<S: Records>(&self, image: u64, sink: &mut S) -> Result<(), CaptureError<S::Error>> {
        let Shape { records, words: width } = self.shape;
        let stride = (STRIDE_WORDS / width.max(1)).clamp(1, records.max(1));
        let mut batch = Batch {
            words: vec![0; stride * width],
            present: vec![false; stride],
            saved: Vec::with_capacity(stride),
        };
        for first in (0..records).step_by(stride) {
            let end = (first + stride).min(records);
            if self.mutation.is(Mutant::ImprintPublishesCursorEarly) {
                self.cursor.store(end as u64, Ordering::Release);
            }
            self.take(image, first..end, &mut batch);
            self.cursor.store(end as u64, Ordering::Release);
            match self.lost.load(Ordering::Acquire).checked_sub((image + 1) * 2) {
                None => {}
                Some(0) => return Err(CaptureError::Memory),
                Some(_) => return Err(CaptureError::OverBudget),
            }
            for (at, record) in (first..end).enumerate().filter(|(at, _)| batch.present[*at]) {
                sink.record(record, Some(&batch.words[at * width..][..width]))?;
            }
        }
        Ok(())
    }
    fn settle(&self, image: u64, _: bool) {
        self.imaging.0.store(NONE, Ordering::Release);
        let due = (image + 1).is_multiple_of(self.room.layout.images_told_apart());
        if due && !self.mutation.is(Mutant::ImprintKeepsHeads) {
            self.heads.iter().for_each(|head| head.store(0, Ordering::Relaxed));
        }
    }
}
