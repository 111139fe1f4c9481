//! IZZ and PZZ: what belongs to a word shares its cache line.

use std::fmt::Debug;
use std::marker::PhantomData;

use super::{LINE_WORDS, Layout};
use crate::algorithm::New;
use crate::algorithms::zigzag::{Izz, Pzz};
use crate::error::MemoryError;
use crate::info::Info;
use crate::memory::Words;
use crate::options::Options;
use crate::sync::{AtomicU64, Ordering};

/// Lines of `SLOTS` words with both homes and all flags of each.
#[derive(Debug)]
pub struct InLine<O> {
    lines: Words,
    /// State words, and most of them; the lines have room for a few more.
    len: usize,
    max_len: usize,
    order: PhantomData<O>,
}

/// Words of state in a line.
const SLOTS: usize = 3;
/// The word of a line that holds the bits of `MR`, the lowest first.
const LATEST: usize = 6;

/// The order of what a line holds.
pub trait Order: Debug + Send + 'static {
    /// The registry line.
    const INFO: Info;
    /// The word of a line, and the lowest bit in it, where the bits of `MW` are.
    const TARGETS: (usize, u32);
    /// The word of a line that is home `home` of the word in `slot`.
    fn place(home: usize, slot: usize) -> usize;
}

/// IZZ: word after word, each with both homes; the flags share a word.
#[derive(Debug)]
pub struct Row;

impl Order for Row {
    const INFO: Info = Izz::REGISTERED;
    const TARGETS: (usize, u32) = (LATEST, 32);
    #[inline]
    fn place(home: usize, slot: usize) -> usize {
        2 * slot + home
    }
}

/// PZZ: column after column, as in PAX.
#[derive(Debug)]
pub struct Column;

impl Order for Column {
    const INFO: Info = Pzz::REGISTERED;
    const TARGETS: (usize, u32) = (LATEST + 1, 0);
    #[inline]
    fn place(home: usize, slot: usize) -> usize {
        SLOTS * home + slot
    }
}

impl<O: Order> InLine<O> {
    fn line_words(words: usize) -> usize {
        words.div_ceil(SLOTS) * LINE_WORDS
    }

    #[inline]
    fn line(&self, index: usize) -> &[AtomicU64; LINE_WORDS] {
        self.lines.record(index / SLOTS)
    }

    /// Sets the bits of `MW` in each line to what `target` makes of those of `MR` and `MW`.
    fn set_targets(&self, target: impl Fn(u64, u64) -> u64) {
        let (place, shift) = O::TARGETS;
        let mask = ((1 << SLOTS) - 1) << shift;
        for line in self.lines.as_slice().chunks_exact(LINE_WORDS) {
            let latest = line[LATEST].load(Ordering::Relaxed);
            let word = line[place].load(Ordering::Relaxed);
            let bits = target(latest, word >> shift) << shift & mask;
            line[place].store(word & !mask | bits, Ordering::Relaxed);
        }
    }
}

impl<O: Order> Layout for InLine<O> {
    const INFO: Info = O::INFO;

    fn create(options: &Options, _shift: u32) -> Result<Self, MemoryError> {
        let lines = Words::create(&options.resized(Self::line_words))?;
        let max_len = options.max_words.max(options.words);
        Ok(Self { lines, len: options.words, max_len, order: PhantomData })
    }

    fn len(&self) -> usize {
        self.len
    }

    fn grow(&mut self, words: usize, _shift: u32) -> Result<(), MemoryError> {
        if words > self.max_len {
            return Err(MemoryError::Reserved { words, reserved: self.max_len });
        }
        self.lines.grow(Self::line_words(words))?;
        self.len = words;
        Ok(())
    }

    fn view(&self) -> Self {
        Self { lines: self.lines.view(), order: PhantomData, ..*self }
    }

    #[inline]
    fn word(&self, home: usize, index: usize) -> &AtomicU64 {
        assert!(index < self.len, "a word out of bounds");
        &self.line(index)[O::place(home & 1, index % SLOTS)]
    }

    #[inline]
    fn prefetch(&self, index: usize, _unit: usize) {
        self.lines.prefetch(index / SLOTS * LINE_WORDS);
    }

    #[inline]
    fn latest(&self, unit: usize) -> usize {
        (self.line(unit)[LATEST].load(Ordering::Relaxed) >> (unit % SLOTS)) as usize & 1
    }

    #[inline]
    fn target(&self, unit: usize) -> usize {
        let (place, shift) = O::TARGETS;
        let word = self.line(unit)[place].load(Ordering::Relaxed);
        (word >> (shift as usize + unit % SLOTS)) as usize & 1
    }

    #[inline]
    fn set_latest(&self, unit: usize, home: usize) {
        let word = &self.line(unit)[LATEST];
        let others = word.load(Ordering::Relaxed) & !(1 << (unit % SLOTS));
        word.store(others | (home as u64) << (unit % SLOTS), Ordering::Relaxed);
    }

    /// One line, one look at each of its flags.
    #[inline(always)]
    fn replace(&self, index: usize, new: impl New) {
        assert!(index < self.len, "a word out of bounds");
        let (line, slot) = (self.line(index), index % SLOTS);
        let (place, shift) = O::TARGETS;
        let latest = line[LATEST].load(Ordering::Relaxed);
        let targets = line[place].load(Ordering::Relaxed) >> shift;
        let word = |flags: u64| &line[O::place((flags >> slot) as usize & 1, slot)];
        let old = || word(latest).load(Ordering::Relaxed);
        word(targets).store(new.of(old), Ordering::Relaxed);
        let changed = (latest ^ targets) & 1 << slot;
        line[LATEST].store(latest ^ changed, Ordering::Relaxed);
    }

    fn negate(&self) {
        self.set_targets(|latest, _| !latest);
    }

    fn flip_targets(&self) {
        self.set_targets(|_, target| !target);
    }
}
