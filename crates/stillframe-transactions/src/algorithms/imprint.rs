//! Imprint for several writers (ours): before-images in place of a second copy.
//!
//! Idea: one table. The first commit after the point of consistency that replaces a record saves
//! its old value in the arena of its worker, then stores the new one in place; `head` says where.
//! The capture copies a record, then looks whether a before-image was saved; if so, that is the
//! image's value. A commit of the image's own epoch saves nothing, whenever it is installed.
//!
//! - Memory: 1 copy, 4 bytes a record, and the before-images of what is replaced before its
//!   capture. Begin: O(1), waits for installs. Read: nothing. Write: one look between images.
//!
//! Invariants: a before-image holds the value of the image: a record's lock orders its commits, and
//! epochs rise along that order, so the commit that saves is the first one after the point. A new
//! word is visible only after the before-image: a Release fence before the store, an Acquire fence
//! after the copy. Heads are never cleared: an entry names its image and its record, so one left by
//! an older image is told by its number. An arena is written by its worker alone, which starts over
//! when it first saves for a new image; the capture of the older one has ended by then.

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
/// Records captured between two publications of the cursor.
const STRIDE: usize = if cfg!(any(feature = "loom", feature = "shuttle")) { 1 } else { 64 };

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

/// Records with images by Imprint.
#[derive(Debug)]
pub struct Imprint {
    table: Table,
    /// One more than a number made of the worker and the entry that hold a record's before-image.
    heads: Box<[AtomicU32]>,
    arenas: Box<[Line<Arena>]>,
    /// How many bits of such a number are the entry's.
    entry_bits: u32,
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
        let head = self.heads[record].load(Ordering::Acquire).checked_sub(1)?;
        let (worker, entry) = (head >> self.entry_bits, head & ((1 << self.entry_bits) - 1));
        let words = self.arenas[worker as usize].0.get(entry, self.shape.words)?;
        if self.mutation.is(Mutant::ImprintTrustsStaleHead) {
            return Some(words);
        }
        let of_image = words[0].load(Ordering::Acquire) == image;
        let same = of_image && words[1].load(Ordering::Relaxed) & !PRESENT == record as u64;
        same.then_some(words)
    }

    /// Saves the value of a record, whose lock the caller holds.
    fn save(&self, worker: usize, image: u64, record: usize) {
        if self.mutation.is(Mutant::ImprintNeverSaves) || self.saved(image, record).is_some() {
            return;
        }
        let Some((entry, words)) = self.arenas[worker].0.add(image, self.shape.words) else {
            self.lost.store(true, Ordering::Relaxed);
            fence(Ordering::Release); // a capture that sees a newer word sees this, too
            return;
        };
        let present = u64::from(self.table.present(record)) * PRESENT;
        words[1].store(record as u64 | present, Ordering::Relaxed);
        for (at, word) in words[2..].iter().enumerate() {
            word.store(self.table.word(record, at), Ordering::Relaxed);
        }
        words[0].store(image, Ordering::Release);
        let head = ((worker as u32) << self.entry_bits | entry) + 1;
        let relaxed = self.mutation.is(Mutant::ImprintNoReleaseFence);
        let order = if relaxed { Ordering::Relaxed } else { Ordering::Release };
        self.heads[record].store(head, order);
        if !relaxed {
            fence(Ordering::Release);
        }
    }

    /// Copies the image's value of a record and says whether it is present.
    fn take(&self, image: u64, record: usize, into: &mut [u64]) -> bool {
        let present = self.table.load(record, into);
        if !self.mutation.is(Mutant::ImprintNoAcquireFence) {
            fence(Ordering::Acquire);
        }
        let Some(words) = self.saved(image, record) else { return present };
        for (to, from) in into.iter_mut().zip(&words[2..]) {
            *to = from.load(Ordering::Relaxed);
        }
        words[1].load(Ordering::Relaxed) & PRESENT != 0
    }
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
        let worker_bits = workers.next_power_of_two().trailing_zeros().max(1);
        let entry_bits = 32 - worker_bits.min(31);
        // Each record is saved once an image; the last number of all would have no successor.
        let most = ((1_u64 << entry_bits) - 1) as usize;
        if shape.records > most || worker_bits > 31 {
            return Err(CreateError::Records { records: shape.records, workers, most });
        }
        let arenas: Result<_, _> = (0..workers).map(|_| Arena::new(shape).map(Line)).collect();
        Ok(Self {
            table: Table::new(shape)?,
            heads: filled(shape.records, || AtomicU32::new(0))?,
            arenas: arenas?,
            entry_bits,
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
        for (record, value) in writes.iter() {
            let due = saves && self.cursor.load(Ordering::Acquire) <= record as u64;
            if due && !late {
                self.save(worker, image, record);
            }
            self.table.store(record, value);
            if due && late {
                self.save(worker, image, record);
            }
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
        let early = self.mutation.is(Mutant::ImprintPublishesCursorEarly);
        let mut words = vec![0; self.shape.words];
        for record in 0..self.shape.records {
            if early {
                self.cursor.store(record as u64 + 1, Ordering::Release);
            }
            let present = self.take(image, record, &mut words);
            if (record + 1).is_multiple_of(STRIDE) {
                self.cursor.store(record as u64 + 1, Ordering::Release);
            }
            if self.lost.load(Ordering::Acquire) {
                return Err(CaptureError::Memory);
            }
            if present {
                sink.record(record, Some(&words))?;
            }
        }
        Ok(())
    }
    fn settle(&self, _: u64, _: bool) {
        self.imaging.0.store(NONE, Ordering::Release);
    }
}
