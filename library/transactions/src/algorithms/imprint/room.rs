//! Where before-images lie: in chunks, each of them filled by one worker.
//!
//! A place is counted in grains, a word each unless the state is so large that 32 bits do not count
//! its words. An entry has a first word and the words of some parts, and lies in one chunk.

use std::ops::DerefMut;
use std::sync::{Arc, OnceLock, PoisonError};

use crate::mutant::{Mutant, Mutation};
use crate::settings::Settings;
use crate::shape::{CreateError, Shape};
use crate::sync::{AtomicU64, Mutex};
use crate::table::{filled, words};

/// Words of a chunk, unless entries need more: a commit that needs a new one waits while it is
/// cleared.
const CHUNK_WORDS: usize =
    if cfg!(any(feature = "loom", feature = "shuttle")) { 1 } else { 1 << 13 };
/// The most bits of an image's number that a head holds; one in models, whose numbers are small.
const IMAGE_BITS: u32 = if cfg!(any(feature = "loom", feature = "shuttle")) { 1 } else { 16 };

/// Why there is no room for another before-image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Full {
    /// The memory cannot be had.
    Memory,
    /// The budget is used up.
    Budget,
}

/// How places are counted, and how a head names one. Its bits, from the lowest: one more than a
/// place, and the last bits of an image's number. Zero: the record was not saved.
#[derive(Debug, Clone, Copy)]
pub(super) struct Layout {
    /// Words of a grain, of a chunk in grains, as powers of two.
    grain_bits: u32,
    chunk_bits: u32,
    /// Chunks that all entries of an image may need, and those that late workers hold.
    chunks: usize,
    place_bits: u32,
    image_bits: u32,
    /// Grains of the largest entry.
    largest: u32,
    /// Whether a record is saved as a whole, so that it has one entry at most.
    pub(super) whole: bool,
}

impl Layout {
    fn new(settings: &Settings) -> Result<Self, CreateError> {
        let Settings { shape, workers, .. } = *settings;
        let bytes = shape.words.checked_add(2).and_then(|it| it.checked_mul(size_of::<u64>()));
        let bytes = bytes.and_then(|it| it.checked_mul(shape.records.max(4)));
        if bytes.is_none_or(|it| it > isize::MAX as usize) {
            return Err(CreateError::Memory { bytes: bytes.unwrap_or(usize::MAX) });
        }
        let most_bits = (shape.words + 1).next_power_of_two().ilog2();
        let mut tries = [false, true].into_iter().flat_map(|whole| {
            (0..=most_bits).filter_map(move |bits| Self::with_grain(shape, workers, whole, bits))
        });
        tries.next().ok_or_else(|| {
            let chunk = Self::chunk_words(shape) >> most_bits;
            let most = ((1 << 30) / chunk).saturating_sub(workers + 1) * chunk;
            CreateError::Records { records: shape.records, workers, most }
        })
    }

    fn chunk_words(shape: Shape) -> usize {
        CHUNK_WORDS.max(2 * (shape.words + 1).next_power_of_two())
    }

    /// `None` if places do not fit into 31 bits.
    fn with_grain(shape: Shape, workers: usize, whole: bool, grain_bits: u32) -> Option<Self> {
        let grains = |words: usize| words.div_ceil(1 << grain_bits);
        let words = shape.words + 1;
        let largest = grains(words);
        // A record with two entries has two first words, and each of them ends with its grain.
        let record = if whole { largest } else { grains(words + 1) + 1 };
        let chunk = Self::chunk_words(shape) >> grain_bits;
        // What is left at the end of a chunk may be too small for an entry.
        let usable = chunk - largest + 1;
        let needed = shape.records.checked_mul(record)?.div_ceil(usable).checked_add(workers)?;
        // Those who were late for the image before hold some as well.
        let (chunks, chunk_bits) = (needed.checked_mul(2)?, chunk.ilog2());
        let places = chunks.checked_mul(chunk)? as u64;
        let place_bits = u64::BITS - places.leading_zeros();
        let image_bits = IMAGE_BITS.min(u32::BITS.saturating_sub(place_bits));
        let largest = u32::try_from(largest).ok()?;
        let layout =
            Self { grain_bits, chunk_bits, chunks, place_bits, image_bits, largest, whole };
        (place_bits < u32::BITS).then_some(layout)
    }

    /// What the head of an image's record has above the place.
    fn number(self, image: u64) -> u32 {
        image as u32 & ((1 << self.image_bits) - 1)
    }
    pub(super) fn head(self, image: u64, place: u32) -> u32 {
        (self.number(image) << self.place_bits) | (place + 1)
    }
    /// The place, if the head is one of `image`.
    pub(super) fn place(self, head: u32, image: u64) -> Option<u32> {
        let is_of_image = head >> self.place_bits == self.number(image);
        let place = head & ((1 << self.place_bits) - 1);
        (is_of_image && place != 0).then(|| place - 1)
    }
    /// After how many images at most the heads must be cleared: half of those that they tell
    /// apart, since a worker that is late for an image may write one after they were.
    pub(super) fn images_told_apart(self) -> u64 {
        1 << (self.image_bits - 1)
    }
}

/// Room for the before-images of one image.
#[derive(Debug)]
pub(super) struct Room {
    pub(super) layout: Layout,
    chunks: Box<[OnceLock<Arc<[AtomicU64]>>]>,
    /// Those that nobody uses, and how many have ever been used.
    free: Mutex<(Vec<u32>, u32)>,
    /// Chunks that the budget allows.
    most: u32,
    mutation: Mutation,
}

impl Room {
    pub(super) fn new(settings: &Settings) -> Result<Self, CreateError> {
        let layout = Layout::new(settings)?;
        let chunk_bytes = size_of::<u64>() << (layout.chunk_bits + layout.grain_bits);
        let most = (settings.budget_bytes / chunk_bytes).max(1);
        let most = u32::try_from(most).unwrap_or(u32::MAX);
        let chunks = filled(layout.chunks, OnceLock::new)?;
        let free = Mutex::new((Vec::new(), 0));
        Ok(Self { layout, chunks, free, most, mutation: Mutation::current() })
    }

    /// The words from a place to the end of its chunk; none if nothing was ever there.
    pub(super) fn at(&self, place: u32) -> &[AtomicU64] {
        let Layout { grain_bits, chunk_bits, .. } = self.layout;
        let (chunk, grain) = (place >> chunk_bits, place & ((1 << chunk_bits) - 1));
        let chunk = self.chunk(chunk).map_or(&[][..], |chunk| chunk);
        chunk.get((grain as usize) << grain_bits..).unwrap_or_default()
    }

    fn chunk(&self, chunk: u32) -> Option<&Arc<[AtomicU64]>> {
        self.chunks.get(chunk as usize)?.get()
    }

    fn free(&self) -> impl DerefMut<Target = (Vec<u32>, u32)> {
        // A push or a pop that panicked left the list as it was.
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A chunk for one worker alone.
    fn take(&self) -> Result<u32, Full> {
        let mut free = self.free();
        if let Some(chunk) = free.0.pop() {
            return Ok(chunk);
        }
        let chunk = free.1;
        if chunk >= self.most {
            return Err(Full::Budget);
        }
        let all = self.chunks.get(chunk as usize).ok_or(Full::Memory)?;
        let Layout { grain_bits, chunk_bits, .. } = self.layout;
        let room = words(1 << (chunk_bits + grain_bits)).map_err(|_| Full::Memory)?;
        all.get_or_init(|| room.into());
        free.1 += 1;
        Ok(chunk)
    }
}

/// The chunks that one worker has filled, for which image.
#[derive(Debug)]
pub(super) struct Arena {
    image: u64,
    chunks: Vec<u32>,
    /// The last chunk, its first place, and its grains that are taken.
    last: Option<Arc<[AtomicU64]>>,
    first: u32,
    used: u32,
}

impl Arena {
    pub(super) fn new() -> Self {
        Self { image: u64::MAX, chunks: Vec::new(), last: None, first: 0, used: 0 }
    }

    /// Gives the chunks back if they are not of `image`.
    pub(super) fn start(&mut self, image: u64, room: &Room) {
        if self.image != image || room.mutation.is(Mutant::ImprintGivesChunksBack) {
            room.free().0.append(&mut self.chunks);
            (self.image, self.last) = (image, None);
        }
    }

    /// A place for an entry, with room for the largest one.
    #[inline]
    pub(super) fn place(&mut self, room: &Room) -> Result<(u32, &[AtomicU64]), Full> {
        let Layout { grain_bits, chunk_bits, largest, .. } = room.layout;
        if self.last.is_none() || self.used + largest > 1 << chunk_bits {
            self.grow(room)?;
        }
        let last = self.last.as_deref().unwrap_or_default();
        let start = (self.used as usize) << grain_bits;
        Ok((self.first | self.used, &last[start..]))
    }

    #[cold]
    fn grow(&mut self, room: &Room) -> Result<(), Full> {
        let chunk = room.take()?;
        self.chunks.push(chunk);
        (self.last, self.used) = (room.chunk(chunk).cloned(), 0);
        self.first = chunk << room.layout.chunk_bits;
        Ok(())
    }

    /// Takes so many words of the place that was given last.
    #[inline]
    pub(super) fn keep(&mut self, words: usize, layout: Layout) {
        self.used += words.div_ceil(1 << layout.grain_bits) as u32;
    }
}

#[cfg(all(test, not(feature = "loom"), not(feature = "shuttle")))]
mod tests {
    use std::convert::Infallible;
    use std::ops::Range;

    use super::super::Imprint;
    use super::*;
    use crate::{Engine, Stop};

    /// Words of chunks that were ever used.
    fn used(engine: &Engine<Imprint>) -> usize {
        let room = &engine.state().room;
        (room.free().1 as usize) << (room.layout.chunk_bits + room.layout.grain_bits)
    }

    /// Each worker in turn saves the whole state, in one entry a record and in two: chunks that
    /// idle ones held are used again.
    #[test]
    fn room_for_before_images_is_that_of_one_copy() {
        const RECORDS: usize = 10_000;
        #[expect(clippy::single_range_in_vec_init, reason = "a transaction replaces a range")]
        // The words that each of some transactions replaces, and what their entries take.
        let cases: [(&[Range<usize>], usize); 3] =
            [(&[0..8], 9), (&[0..1], 2), (&[0..3, 2..5], 10)];
        for (programs, most) in cases {
            let engine = Engine::<Imprint>::create(Settings::new(RECORDS, 8)).expect("small");
            let mut workers: Vec<_> = (0..8).map(|_| engine.worker().expect("16 in all")).collect();
            let mut write = |worker: usize, record, value: u64| {
                for words in programs {
                    let done = workers[worker].run(|tx| {
                        words.clone().try_for_each(|word| tx.write(record, word, value))?;
                        Ok::<_, Stop<Infallible>>(())
                    });
                    done.unwrap_or_else(|never| match never {});
                }
            };
            for turn in 1..=24 {
                let _image = engine.begin().expect("none is under way");
                (0..RECORDS).for_each(|record| write(turn % 8, record, turn as u64));
            }
            let _image = engine.begin().expect("none is under way");
            (0..RECORDS).for_each(|record| write(record % 8, record, 77));
            // The end of a chunk may be too small, and each worker has one in part.
            let most = RECORDS * most / 100 * 101 + 9 * CHUNK_WORDS;
            assert!(used(&engine) <= most, "{} of {most}", used(&engine));
        }
    }

    #[test]
    fn places_are_counted_in_larger_grains_where_words_are_too_many() {
        let layout = |records, words| Layout::new(&Settings::new(records, words));
        let small = layout(1 << 20, 8).expect("80 MB");
        assert!(small.grain_bits == 0 && !small.whole && small.image_bits > 4);
        let large = layout(1 << 31, 512).expect_err("2^31 places are too many");
        assert!(matches!(large, CreateError::Records { most, .. } if layout(most, 512).is_ok()));
        let large = layout(1 << 28, 512).expect("two terabytes");
        assert!(large.grain_bits > 0 && large.image_bits > 0);
        assert!(layout(1 << 29, 1).expect("four gigabytes").whole);
        assert!(layout(usize::MAX, usize::MAX).is_err());
    }
}
