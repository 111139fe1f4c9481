//! Imprint for several writers (ours): before-images in place of a second copy.
//!
//! Idea: one table. The first commit after the point of consistency that replaces a record saves
//! its old value in the arena of its worker, then stores the new one in place; `head` says where.
//! The capture copies a record, then looks whether a before-image was saved; if so, that is the
//! image's value. A commit of the image's own epoch saves nothing, whenever it is installed.
//!
//! - Memory: 1 copy, 4 bytes a record, and the before-images of what is replaced before its
//!   capture. Begin: O(1), waits for installs. Read: nothing. Write: one look between images.
//! - A commit saves all its before-images, then stores all new values: the loads of the heads do not
//!   depend on one another and miss the caches at the same time, and one fence serves all.
//!
//! Invariants: a before-image holds the value of the image: a record's lock orders its commits, and
//! epochs rise along that order, so the commit that saves is the first one after the point. A new
//! word is visible only after the before-image: a Release fence before the store, an Acquire fence
//! after the copy. Heads are never cleared: an entry names its image and its record, so one left by
//! an older image is told by its number. The bits of a head that records and workers leave over hold
//! the last bits of that number, so that most old heads are told without a look at their entry. An
//! arena is written by its worker alone, which starts over when it first saves for a new image; the
//! capture of the older one has ended by then.

use std::ops::Range;
use std::sync::OnceLock;

use crate::contract::{CaptureError, Completeness, Concurrent, Info, Records, Writes};
use crate::epochs::Epochs;
use crate::mutant::{Mutant, Mutation};
use crate::shape::{CreateError, Shape};
use crate::sync::{AtomicBool, AtomicU32, AtomicU64, Line, Ordering, fence};
use crate::table::{Table, filled, words};

/// No image is under way.
const NONE: u64 = u64::MAX;
/// Set beside an entry's record if that was present.
const PRESENT: u64 = 1 << 63;
/// Bytes of a chunk of an arena, about: a commit that needs another one waits while the chunk is
/// cleared.
const CHUNK_BYTES: usize =
    if cfg!(any(feature = "loom", feature = "shuttle")) { 1 } else { 1 << 16 };
/// The bits of an image's number that a head may hold; one in models, whose numbers are small.
const IMAGE_BITS: u64 = if cfg!(any(feature = "loom", feature = "shuttle")) { 1 } else { 0xff };
/// Words captured between two publications of the cursor.
const STRIDE_WORDS: usize = if cfg!(any(feature = "loom", feature = "shuttle")) { 1 } else { 1024 };

/// The before-images of one worker: number of the image, record, words.
#[derive(Debug)]
struct Arena {
    /// Room for every record, in chunks of so many entries as a power of two.
    chunks: Box<[OnceLock<Box<[AtomicU64]>>]>,
    chunk_bits: u32,
    /// The image for which entries are saved, and how many: for the worker alone.
    image: AtomicU64,
    used: AtomicU32,
}

impl Arena {
    fn new(shape: Shape) -> Result<Self, CreateError> {
        let entry_bytes = shape.words.saturating_add(2).saturating_mul(size_of::<u64>());
        let chunk_bits = (CHUNK_BYTES / entry_bytes).max(2).ilog2();
        Ok(Self {
            chunks: filled(shape.records.div_ceil(1 << chunk_bits), OnceLock::new)?,
            chunk_bits,
            image: AtomicU64::new(NONE),
            used: AtomicU32::new(0),
        })
    }

    /// The chunk of an entry and its number there.
    fn place(&self, entry: u32) -> (usize, usize) {
        ((entry >> self.chunk_bits) as usize, (entry & ((1 << self.chunk_bits) - 1)) as usize)
    }

    /// The words of an entry that has been saved.
    fn get(&self, entry: u32, width: usize) -> Option<&[AtomicU64]> {
        let (chunk, nth) = self.place(entry);
        self.chunks.get(chunk)?.get().map(|chunk| &chunk[nth * (width + 2)..][..width + 2])
    }

    /// Room for one more entry for `image`; `None` if there is no memory.
    fn add(&self, image: u64, width: usize) -> Option<(u32, &[AtomicU64])> {
        if self.image.load(Ordering::Relaxed) != image {
            self.image.store(image, Ordering::Relaxed);
            self.used.store(0, Ordering::Relaxed);
        }
        let entry = self.used.load(Ordering::Relaxed);
        let chunk = self.chunks.get(self.place(entry).0)?;
        if chunk.get().is_none() {
            let room = words((width + 2).checked_mul(1 << self.chunk_bits)?).ok()?;
            chunk.get_or_init(|| room);
        }
        self.used.store(entry + 1, Ordering::Relaxed);
        self.get(entry, width).map(|words| (entry, words))
    }
}

/// What the bits of a head say, from the lowest: one more than an entry, a worker, and the last bits
/// of an image's number. Zero: the record was never saved.
#[derive(Debug, Clone, Copy)]
struct Layout {
    entry_bits: u32,
    worker_bits: u32,
}

impl Layout {
    /// `None` if the entries of so many workers have no numbers.
    fn new(records: usize, workers: usize) -> Option<Self> {
        // Each record is saved once an image at most.
        let entry_bits = usize::BITS - records.leading_zeros();
        let worker_bits = usize::BITS - workers.saturating_sub(1).leading_zeros();
        (entry_bits + worker_bits <= u32::BITS).then_some(Self { entry_bits, worker_bits })
    }
    /// The most records that so many workers can have.
    fn most(workers: usize) -> usize {
        let worker_bits = usize::BITS - workers.saturating_sub(1).leading_zeros();
        (1_usize << u32::BITS.saturating_sub(worker_bits)) - 1
    }
    fn head(self, image: u64, worker: usize, entry: u32) -> u32 {
        let image = image & IMAGE_BITS;
        let above = (image << self.worker_bits | worker as u64) << self.entry_bits;
        above as u32 | (entry + 1)
    }
    /// Worker and entry, unless the head is surely not one of `image`.
    fn place(self, head: u32, image: u64) -> Option<(usize, u32)> {
        let entry = (u64::from(head) & ((1 << self.entry_bits) - 1)).checked_sub(1)? as u32;
        let above = u64::from(head) >> self.entry_bits;
        let worker = (above & ((1 << self.worker_bits) - 1)) as usize;
        (head == self.head(image, worker, entry)).then_some((worker, entry))
    }
}

/// Records with images by Imprint.
#[derive(Debug)]
pub struct Imprint {
    table: Table,
    /// Where a record's newest before-image is.
    heads: Box<[AtomicU32]>,
    layout: Layout,
    arenas: Box<[Line<Arena>]>,
    /// The image under way.
    imaging: Line<AtomicU64>,
    /// Records below have been captured.
    cursor: AtomicU64,
    /// A before-image of this image could not be saved.
    lost: AtomicBool,
    shape: Shape,
    epochs: Epochs,
    mutation: Mutation,
}

impl Imprint {
    /// The before-image of a record: its words after the first two.
    fn saved(&self, image: u64, record: usize) -> Option<&[AtomicU64]> {
        let head = self.heads[record].load(Ordering::Acquire);
        let (worker, entry) = self.layout.place(head, image)?;
        let words = self.arenas.get(worker)?.0.get(entry, self.shape.words)?;
        if self.mutation.is(Mutant::ImprintTrustsStaleHead) {
            return Some(words);
        }
        let of_image = words[0].load(Ordering::Acquire) == image;
        let same = of_image && words[1].load(Ordering::Relaxed) & !PRESENT == record as u64;
        same.then_some(words)
    }

    /// Saves the value of a record, whose lock the caller holds; a fence has to follow.
    fn save(&self, worker: usize, image: u64, record: usize) {
        if self.mutation.is(Mutant::ImprintNeverSaves) || self.saved(image, record).is_some() {
            return;
        }
        let Some((entry, words)) = self.arenas[worker].0.add(image, self.shape.words) else {
            self.lost.store(true, Ordering::Relaxed);
            return;
        };
        let present = u64::from(self.table.present(record)) * PRESENT;
        words[1].store(record as u64 | present, Ordering::Relaxed);
        for (at, word) in words[2..].iter().enumerate() {
            word.store(self.table.word(record, at), Ordering::Relaxed);
        }
        words[0].store(image, Ordering::Release);
        let head = self.layout.head(image, worker, entry);
        let relaxed = self.mutation.is(Mutant::ImprintNoReleaseFence);
        let order = if relaxed { Ordering::Relaxed } else { Ordering::Release };
        self.heads[record].store(head, order);
    }

    /// Saves what the image lacks of the records that a commit is about to replace.
    fn save_all(&self, worker: usize, image: u64, writes: &Writes<'_>) {
        // Looked at once: whatever is captured meanwhile is saved in vain.
        let cursor = self.cursor.load(Ordering::Acquire);
        for (record, _) in writes.iter().filter(|(record, _)| cursor <= *record as u64) {
            self.save(worker, image, record);
        }
        if !self.mutation.is(Mutant::ImprintNoReleaseFence) {
            // Whoever sees a newer word sees the before-images, or that one was lost.
            fence(Ordering::Release);
        }
    }

    /// Copies the image's values of some records and says which are present. Looks at all heads
    /// before it reads what they lead to: those loads miss the caches at the same time.
    fn take<'s>(&'s self, image: u64, records: Range<usize>, batch: &mut Batch<'s>) {
        let width = self.shape.words;
        let Batch { words, present, saved } = batch;
        for (at, record) in records.clone().enumerate() {
            present[at] = self.table.load(record, &mut words[at * width..][..width]);
        }
        if !self.mutation.is(Mutant::ImprintNoAcquireFence) {
            fence(Ordering::Acquire);
        }
        saved.clear();
        let found = |(at, record)| Some((at, self.saved(image, record)?));
        saved.extend(records.enumerate().filter_map(found));
        for &(at, entry) in &*saved {
            present[at] = entry[1].load(Ordering::Relaxed) & PRESENT != 0;
            for (to, from) in words[at * width..][..width].iter_mut().zip(&entry[2..]) {
                *to = from.load(Ordering::Relaxed);
            }
        }
    }
}

/// Records that are captured together.
struct Batch<'s> {
    words: Vec<u64>,
    present: Vec<bool>,
    /// Which of them have a before-image.
    saved: Vec<(usize, &'s [AtomicU64])>,
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

    fn create(shape: Shape, workers: usize) -> Result<Self, CreateError> {
        let Some(layout) = Layout::new(shape.records, workers) else {
            let most = Layout::most(workers);
            return Err(CreateError::Records { records: shape.records, workers, most });
        };
        let arenas: Result<_, _> = (0..workers).map(|_| Arena::new(shape).map(Line)).collect();
        Ok(Self {
            table: Table::new(shape)?,
            heads: filled(shape.records, || AtomicU32::new(0))?,
            arenas: arenas?,
            layout,
            imaging: Line(AtomicU64::new(NONE)),
            cursor: AtomicU64::new(0),
            lost: AtomicBool::new(false),
            shape,
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
    fn install(&self, worker: usize, epoch: u64, writes: &Writes<'_>, ordered: impl FnOnce(u64)) {
        let image = self.imaging.0.load(Ordering::Acquire);
        let own = image == epoch && self.mutation.is(Mutant::ImprintSavesOfOwnEpoch);
        let saves = image < epoch || own;
        let late = self.mutation.is(Mutant::ImprintSavesAfterStore);
        if saves && !late {
            self.save_all(worker, image, writes);
        }
        writes.iter().for_each(|(record, value)| self.table.store(record, value));
        if saves && late {
            self.save_all(worker, image, writes);
        }
        ordered(epoch);
    }
    fn begin(&self) -> u64 {
        let image = self.epochs.now();
        self.cursor.store(0, Ordering::Relaxed);
        self.lost.store(false, Ordering::Relaxed);
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
            if self.lost.load(Ordering::Acquire) {
                return Err(CaptureError::Memory);
            }
            for (at, record) in (first..end).enumerate().filter(|(at, _)| batch.present[*at]) {
                sink.record(record, Some(&batch.words[at * width..][..width]))?;
            }
        }
        Ok(())
    }
    fn settle(&self, _: u64, _: bool) {
        self.imaging.0.store(NONE, Ordering::Release);
    }
}
