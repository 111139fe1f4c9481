//! Imprint for several writers (ours): before-images in place of a second copy.
//!
//! Idea: one table. The first commit after the point of consistency that replaces a record saves
//! its old value in a chunk of its worker, then stores the new one in place; `head` says where.
//! The capture copies a record, then looks whether a before-image was saved; if so, that is the
//! image's value. A commit of the image's own epoch saves nothing, whenever it is installed.
//!
//! - Memory: 1 copy, 4 bytes a record, and the before-images of what is replaced before its
//!   capture. Begin: O(1), waits for installs. Read: nothing. Write: one look between images.
//! - A commit saves all its before-images, then stores all new values: the loads of the heads do
//!   not depend on one another and miss the caches at the same time, and one fence serves all.
//!
//! Invariants: a before-image holds the value of the image: a record's lock orders its commits, and
//! epochs rise along that order, so the commit that saves is the first one after the point. A new
//! word is visible only after the before-image: a Release fence before the store, an Acquire fence
//! after the copy. Heads are never cleared: an entry names its image and its record, so one left by
//! an older image is told by its number. The bits of a head that records and workers leave over
//! hold the last bits of that number, so that most old heads are told without a look at their
//! entry. Before-images lie in chunks. Each chunk has one worker at most, who fills it under a
//! lock. A begin takes all chunks back: the capture of the image before has ended, so whoever still
//! saves for that one, into a chunk that he takes anew, saves in vain.

use std::ops::{DerefMut, Range};
use std::sync::{OnceLock, PoisonError};

use crate::contract::{CaptureError, Completeness, Concurrent, Info, Records, Writes};
use crate::epochs::Epochs;
use crate::mutant::{Mutant, Mutation};
use crate::shape::{CreateError, Shape};
use crate::sync::{AtomicBool, AtomicU32, AtomicU64, Line, Mutex, Ordering, fence};
use crate::table::{Table, filled, words};

/// No image is under way.
const NONE: u64 = u64::MAX;
/// Set beside an entry's record if that was present.
const PRESENT: u64 = 1 << 63;
/// Bytes of a chunk, about: a commit that needs a new one waits while it is cleared.
const CHUNK_BYTES: usize =
    if cfg!(any(feature = "loom", feature = "shuttle")) { 1 } else { 1 << 16 };
/// The bits of an image's number that a head may hold; one in models, whose numbers are small.
const IMAGE_BITS: u64 = if cfg!(any(feature = "loom", feature = "shuttle")) { 1 } else { 0xff };
/// Words captured between two publications of the cursor.
const STRIDE_WORDS: usize = if cfg!(any(feature = "loom", feature = "shuttle")) { 1 } else { 1024 };

/// Room for before-images: number of the image, record, words.
#[derive(Debug)]
struct Chunks {
    /// As many entries each as a power of two.
    chunks: Box<[OnceLock<Box<[AtomicU64]>>]>,
    chunk_bits: u32,
    /// Words of an entry.
    width: usize,
    /// Those with room that nobody uses, and how many have ever been used.
    free: Mutex<(Vec<u32>, u32)>,
    mutation: Mutation,
}

impl Chunks {
    fn new(shape: Shape, workers: usize) -> Result<Self, CreateError> {
        let width = shape.words.saturating_add(2);
        let chunk_bits = (CHUNK_BYTES / width.saturating_mul(size_of::<u64>())).max(2).ilog2();
        // An image saves each record once, and each worker leaves a chunk in part. Those who were
        // late for the image before hold some as well.
        let records = shape.records.div_ceil(1 << chunk_bits);
        let count = records.saturating_add(workers).saturating_mul(2);
        if count.saturating_mul(1 << chunk_bits) > u32::MAX as usize {
            let most =
                ((u32::MAX as usize / 2) >> chunk_bits).saturating_sub(workers) << chunk_bits;
            return Err(CreateError::Records { records: shape.records, workers, most });
        }
        let free = Mutex::new((Vec::new(), 0));
        let chunks = filled(count, OnceLock::new)?;
        Ok(Self { chunks, chunk_bits, width, free, mutation: Mutation::current() })
    }

    /// The words of an entry that has been saved.
    fn get(&self, entry: u32) -> Option<&[AtomicU64]> {
        let (chunk, nth) = (entry >> self.chunk_bits, entry & ((1 << self.chunk_bits) - 1));
        let chunk = self.chunks.get(chunk as usize)?.get()?;
        chunk.get(nth as usize * self.width..)?.get(..self.width)
    }

    fn free(&self) -> impl DerefMut<Target = (Vec<u32>, u32)> {
        // A push or a pop that panicked left the list as it was.
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A chunk for one worker alone; `None` if there is no memory.
    fn take(&self) -> Option<u32> {
        let mut free = self.free();
        if let Some(chunk) = free.0.pop() {
            return Some(chunk);
        }
        let chunk = free.1;
        let room = words(self.width.checked_mul(1 << self.chunk_bits)?).ok()?;
        self.chunks.get(chunk as usize)?.get_or_init(|| room);
        free.1 += 1;
        Some(chunk)
    }
}

/// The chunks that one worker has filled, for which image.
#[derive(Debug)]
struct Arena {
    image: u64,
    chunks: Vec<u32>,
    /// Entries of the last chunk.
    used: u32,
}

impl Arena {
    /// Gives the chunks back if they are not of `image`.
    fn start(&mut self, image: u64, chunks: &Chunks) {
        if self.image != image || chunks.mutation.is(Mutant::ImprintGivesChunksBack) {
            chunks.free().0.append(&mut self.chunks);
            (self.image, self.used) = (image, 0);
        }
    }

    /// Room for one more entry; `None` if there is no memory.
    fn add<'c>(&mut self, chunks: &'c Chunks) -> Option<(u32, &'c [AtomicU64])> {
        if self.chunks.is_empty() || self.used >> chunks.chunk_bits != 0 {
            self.chunks.push(chunks.take()?);
            self.used = 0;
        }
        let entry = self.chunks.last()? << chunks.chunk_bits | self.used;
        self.used += 1;
        chunks.get(entry).map(|words| (entry, words))
    }
}

/// What the bits of a head say, from the lowest: one more than an entry, and the last bits of an
/// image's number. Zero: the record was never saved.
#[derive(Debug, Clone, Copy)]
struct Layout {
    entry_bits: u32,
}

impl Layout {
    fn head(self, image: u64, entry: u32) -> u32 {
        ((image & IMAGE_BITS) << self.entry_bits) as u32 | (entry + 1)
    }
    /// The entry, unless the head is surely not one of `image`.
    fn entry(self, head: u32, image: u64) -> Option<u32> {
        let entry = (u64::from(head) & ((1 << self.entry_bits) - 1)).checked_sub(1)? as u32;
        (head == self.head(image, entry)).then_some(entry)
    }
}

/// Records with images by Imprint.
#[derive(Debug)]
pub struct Imprint {
    table: Table,
    /// Where a record's newest before-image is.
    heads: Box<[AtomicU32]>,
    layout: Layout,
    chunks: Chunks,
    arenas: Box<[Line<Mutex<Arena>>]>,
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
        let words = self.chunks.get(self.layout.entry(head, image)?)?;
        if self.mutation.is(Mutant::ImprintTrustsStaleHead) {
            return Some(words);
        }
        let of_image = words[0].load(Ordering::Acquire) == image;
        let same = of_image && words[1].load(Ordering::Relaxed) & !PRESENT == record as u64;
        same.then_some(words)
    }

    /// What a worker has saved.
    fn arena(&self, worker: usize) -> impl DerefMut<Target = Arena> {
        // Whatever panicked, the entries before hold.
        self.arenas[worker].0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Saves the value of a record, whose lock the caller holds; a fence has to follow.
    fn save(&self, arena: &mut Arena, image: u64, record: usize) {
        if self.mutation.is(Mutant::ImprintNeverSaves) || self.saved(image, record).is_some() {
            return;
        }
        let Some((entry, words)) = arena.add(&self.chunks) else {
            self.lost.store(true, Ordering::Relaxed);
            return;
        };
        let present = u64::from(self.table.present(record)) * PRESENT;
        words[1].store(record as u64 | present, Ordering::Relaxed);
        for (at, word) in words[2..].iter().enumerate() {
            word.store(self.table.word(record, at), Ordering::Relaxed);
        }
        words[0].store(image, Ordering::Release);
        let head = self.layout.head(image, entry);
        let relaxed = self.mutation.is(Mutant::ImprintNoReleaseFence);
        let order = if relaxed { Ordering::Relaxed } else { Ordering::Release };
        self.heads[record].store(head, order);
    }

    /// Saves what the image lacks of the records that a commit is about to replace.
    fn save_all(&self, worker: usize, image: u64, writes: &Writes<'_>) {
        // Looked at once: whatever is captured meanwhile is saved in vain.
        let cursor = self.cursor.load(Ordering::Acquire);
        let mut arena = self.arena(worker);
        arena.start(image, &self.chunks);
        for (record, _) in writes.iter().filter(|(record, _)| cursor <= *record as u64) {
            self.save(&mut arena, image, record);
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
        let chunks = Chunks::new(shape, workers)?;
        let entries = (chunks.chunks.len() as u64) << chunks.chunk_bits;
        let arena = || Line(Mutex::new(Arena { image: NONE, chunks: Vec::new(), used: 0 }));
        Ok(Self {
            table: Table::new(shape)?,
            heads: filled(shape.records, || AtomicU32::new(0))?,
            layout: Layout { entry_bits: u64::BITS - entries.leading_zeros() },
            chunks,
            arenas: filled(workers, arena)?,
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
        (0..self.arenas.len()).for_each(|worker| self.arena(worker).start(image, &self.chunks));
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

#[cfg(all(test, not(feature = "loom"), not(feature = "shuttle")))]
mod tests {
    use std::convert::Infallible;

    use super::*;
    use crate::{Engine, Settings, Stop};

    /// Each worker in turn saves the whole state: chunks that idle ones held are used again.
    #[test]
    fn room_for_before_images_is_that_of_one_copy() {
        const RECORDS: usize = 10_000;
        let engine = Engine::<Imprint>::create(Settings::new(RECORDS, 8)).expect("small");
        let mut workers: Vec<_> = (0..8).map(|_| engine.worker().expect("16 in all")).collect();
        let mut write = |worker: usize, record| {
            let done = workers[worker].run(|tx| Ok::<_, Stop<Infallible>>(tx.write(record, 0, 1)?));
            done.unwrap_or_else(|never| match never {});
        };
        for turn in 0..24 {
            let _image = engine.begin().expect("none is under way");
            (0..RECORDS).for_each(|record| write(turn % 8, record));
        }
        let chunks = &engine.state().chunks;
        let needed = RECORDS.div_ceil(1 << chunks.chunk_bits);
        assert_eq!(chunks.free().1 as usize, needed, "chunks that were ever used");
        let _image = engine.begin().expect("none is under way");
        (0..RECORDS).for_each(|record| write(record % 8, record));
        assert!(chunks.free().1 as usize <= needed + 8, "one a worker in part");
    }
}
