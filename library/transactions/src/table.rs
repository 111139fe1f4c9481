//! Records of words, each of them present or not, that several threads look at.
//!
//! All loads and stores are relaxed: a record's lock or the protocol of the algorithm orders them.

use crate::shape::{CreateError, Parts, Shape, Split};
use crate::sync::{AtomicU8, AtomicU64, Line, Ordering};

/// Words of a cache line.
const LINE_WORDS: usize = align_of::<Line<()>>() / size_of::<u64>();

/// `make()` in `count` places, or the error that there is no room.
pub(crate) fn filled<T>(count: usize, make: impl Fn() -> T) -> Result<Box<[T]>, CreateError> {
    let mut all = Vec::new();
    all.try_reserve_exact(count)
        .map_err(|_| CreateError::Memory { bytes: count.saturating_mul(size_of::<T>()) })?;
    all.extend(std::iter::repeat_with(make).take(count));
    Ok(all.into())
}

/// Words, all of them zero at first.
pub(crate) fn words(count: usize) -> Result<Box<[AtomicU64]>, CreateError> {
    filled(count, || AtomicU64::new(0))
}

/// Bytes, all of them zero at first.
pub(crate) fn bytes(count: usize) -> Result<Box<[AtomicU8]>, CreateError> {
    filled(count, || AtomicU8::new(0))
}

/// One bit a record, packed: neighbours may change at once.
#[derive(Debug)]
pub(crate) struct Bits(Box<[AtomicU64]>);

impl Bits {
    pub(crate) fn new(records: usize) -> Result<Self, CreateError> {
        words(records.div_ceil(64)).map(Self)
    }

    fn place(&self, record: usize) -> (&AtomicU64, u64) {
        (&self.0[record / 64], 1 << (record % 64))
    }

    pub(crate) fn get(&self, record: usize) -> bool {
        let (word, bit) = self.place(record);
        word.load(Ordering::Relaxed) & bit != 0
    }

    /// Sets or clears the bit of `record`. Nobody else changes the same one at the same time.
    pub(crate) fn set(&self, record: usize, on: bool) {
        let (word, bit) = self.place(record);
        if (word.load(Ordering::Relaxed) & bit != 0) == on {
            return;
        }
        if on {
            word.fetch_or(bit, Ordering::Relaxed);
        } else {
            word.fetch_and(!bit, Ordering::Relaxed);
        }
    }

    /// Clears all bits, which nobody else changes.
    pub(crate) fn clear(&self) {
        self.0.iter().for_each(|word| word.store(0, Ordering::Relaxed));
    }
}

/// Records: words that are zero while a record is absent, and a bit that says that it is present.
#[derive(Debug)]
pub struct Table {
    width: usize,
    split: Split,
    /// Those of record 0 are the ones from `start` on, where a cache line begins: a record of 8
    /// words is one line and not half of two.
    cells: Box<[AtomicU64]>,
    start: usize,
    present: Bits,
}

impl Table {
    /// Absent records.
    ///
    /// # Errors
    /// [`CreateError::Memory`] when the memory cannot be had.
    pub fn new(shape: Shape) -> Result<Self, CreateError> {
        let count = shape.records.checked_mul(shape.words);
        let count = count.ok_or(CreateError::Memory { bytes: usize::MAX })?;
        let (cells, present) =
            (words(count.saturating_add(LINE_WORDS - 1))?, Bits::new(shape.records)?);
        let start = cells.as_ptr().align_offset(align_of::<Line<()>>()).min(LINE_WORDS - 1);
        Ok(Self { width: shape.words, split: shape.split(), cells, start, present })
    }

    /// The words of a record.
    pub(crate) fn cells(&self, record: usize) -> &[AtomicU64] {
        &self.cells[self.start + record * self.width..][..self.width]
    }

    /// Brings the first words of a record near.
    #[inline]
    pub fn prefetch(&self, record: usize) {
        stillframe::os::prefetch(self.cells(record).as_ptr());
    }

    /// Brings a record near that is read once, if there is one of that number.
    pub(crate) fn prefetch_once(&self, record: usize) {
        let words = self.cells.get(self.start + record * self.width..).unwrap_or_default();
        for line in words[..self.width.min(words.len())].chunks(LINE_WORDS) {
            stillframe::os::prefetch_once(line.as_ptr());
        }
    }

    /// One word of a record; zero if it is absent.
    #[inline]
    pub fn word(&self, record: usize, word: usize) -> u64 {
        self.cells(record)[word].load(Ordering::Relaxed)
    }

    /// Whether a record is present.
    pub fn present(&self, record: usize) -> bool {
        self.present.get(record)
    }

    /// The words of a record.
    pub(crate) fn words(&self, record: usize) -> impl Iterator<Item = u64> {
        self.cells(record).iter().map(|cell| cell.load(Ordering::Relaxed))
    }

    /// Copies a record into `into` and says whether it is present.
    pub fn load(&self, record: usize, into: &mut [u64]) -> bool {
        into.iter_mut().zip(self.words(record)).for_each(|(to, word)| *to = word);
        self.present(record)
    }

    /// Copies at most 64 records, from a multiple of 64 on, as they were when the memory was
    /// frozen, and tells which were present: the first one in the lowest bit.
    #[cfg(not(any(miri, feature = "loom", feature = "shuttle")))]
    pub(crate) fn frozen(
        &self,
        memory: &stillframe::os::Frozen,
        records: std::ops::Range<usize>,
        into: &mut [u64],
    ) -> std::io::Result<u64> {
        let width = self.width;
        let cells = &self.cells[self.start + records.start * width..];
        memory.load(&cells[..records.len() * width], into)?;
        let mut present = [0];
        memory.load(std::slice::from_ref(&self.present.0[records.start / 64]), &mut present)?;
        Ok(present[0])
    }

    /// Replaces a record; `None` makes it absent.
    pub fn store(&self, record: usize, value: Option<&[u64]>) {
        let cells = self.cells(record);
        match value {
            Some(value) => {
                cells.iter().zip(value).for_each(|(to, &from)| to.store(from, Ordering::Relaxed));
            }
            None => cells.iter().for_each(|cell| cell.store(0, Ordering::Relaxed)),
        }
        self.present.set(record, value.is_some());
    }

    /// Replaces a record that differs from the value in parts; `None` makes it absent.
    pub(crate) fn patch(&self, record: usize, parts: Parts, value: Option<&[u64]>) {
        let cells = self.cells(record);
        self.split.words_of(parts, |word| {
            cells[word].store(value.map_or(0, |value| value[word]), Ordering::Relaxed);
        });
        self.present.set(record, value.is_some());
    }

    /// Makes a record what it is in another table of the same shape.
    pub fn copy(&self, record: usize, from: &Self) {
        for (to, from) in self.cells(record).iter().zip(from.cells(record)) {
            to.store(from.load(Ordering::Relaxed), Ordering::Relaxed);
        }
        self.present.set(record, from.present(record));
    }
}
