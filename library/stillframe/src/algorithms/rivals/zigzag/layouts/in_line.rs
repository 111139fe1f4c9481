//! IZZ and PZZ: what belongs to a word shares its cache line.

use std::fmt::Debug;
use std::marker::PhantomData;

use super::{LINE_WORDS, Layout};
use crate::algorithm::{New, Patched};
use crate::algorithms::zigzag::{Izz, Pzz};
use crate::error::MemoryError;
use crate::info::{Grain, Info};
use crate::memory::{Item, Records, Words, out_of_bounds, with_half};
use crate::options::Options;
use crate::sealed::Sealed;
use crate::sync::{AtomicU64, Ordering};

/// Lines of `SLOTS` words, or twice as many halves, with both homes and all flags of each.
#[derive(Debug)]
pub struct InLine<O> {
    lines: Words,
    /// The same, if items are words; else none, so that the test of bounds is that of the size.
    of_words: Records<LINE_WORDS, { slots::<u64>() }>,
    /// The same, if items are halves; else none.
    of_halves: Records<LINE_WORDS, { slots::<u32>() }>,
    /// State words, and most of them; the lines have room for a few more.
    len: usize,
    max_len: usize,
    halves: bool,
    order: PhantomData<O>,
}

/// Words of state in a line.
const SLOTS: usize = 3;
/// The word of a line that holds the bits of `MR`, the lowest first.
const LATEST: usize = 6;

/// The order of what a line holds.
pub trait Order: Sealed + Debug + Send + 'static {
    /// The registry line.
    const INFO: Info;
    /// The word of a line, and the lowest bit in it, where the bits of `MW` are.
    const TARGETS: (usize, u32);
    /// The item of a line that is home `home` of what it holds in `slot` of `slots`.
    fn position(home: usize, slot: usize, slots: usize) -> usize;
}

/// IZZ: word after word, each with both homes; the flags share a word.
#[derive(Debug)]
pub struct Row;

impl Sealed for Row {}
impl Order for Row {
    const INFO: Info = Izz::REGISTERED;
    const TARGETS: (usize, u32) = (LATEST, 32);
    #[inline]
    fn position(home: usize, slot: usize, _slots: usize) -> usize {
        2 * slot + home
    }
}

/// PZZ: column after column, as in PAX.
#[derive(Debug)]
pub struct Column;

impl Sealed for Column {}
impl Order for Column {
    const INFO: Info = Pzz::REGISTERED;
    const TARGETS: (usize, u32) = (LATEST + 1, 0);
    #[inline]
    fn position(home: usize, slot: usize, slots: usize) -> usize {
        slots * home + slot
    }
}

/// Items of state in a line: they fill six of its words with both homes.
#[inline(always)]
const fn slots<T: Item>() -> usize {
    SLOTS * T::PER_WORD
}

impl<O: Order> InLine<O> {
    fn line_words(words: usize) -> usize {
        words.div_ceil(SLOTS) * LINE_WORDS // the same in halves
    }

    /// `len` words in these lines.
    fn new(lines: Words, len: usize, max_len: usize, halves: bool) -> Self {
        let [words, items] = if halves { [0, 2 * len] } else { [len, 0] };
        let of_words = Records::new(&lines, words);
        let of_halves = Records::new(&lines, items);
        Self { lines, of_words, of_halves, len, max_len, halves, order: PhantomData }
    }

    /// The line of an item, and the item's slot in it, if items are such and it is within bounds.
    #[inline(always)]
    fn find<T: Item>(&self, item: usize) -> Option<(&[AtomicU64; LINE_WORDS], usize)> {
        if T::PER_WORD == 1 { self.of_words.find(item) } else { self.of_halves.find(item) }
    }

    /// The same. Panics if there is none.
    #[inline(always)]
    fn line<T: Item>(&self, item: usize) -> (&[AtomicU64; LINE_WORDS], usize) {
        let Some(found) = self.find::<T>(item) else {
            out_of_bounds(item / T::PER_WORD, self.len);
        };
        found
    }

    /// Home `home` of what a line holds in `slot`: its word, and its number, of which the last bit
    /// says which half.
    #[inline(always)]
    fn home<T: Item>(
        line: &[AtomicU64; LINE_WORDS],
        home: usize,
        slot: usize,
    ) -> (&AtomicU64, usize) {
        let position = O::position(home & 1, slot, slots::<T>());
        (&line[position / T::PER_WORD], position)
    }

    /// Sets the bits of `MW` in each line to what `target` makes of those of `MR` and `MW`.
    fn set_targets(&self, target: impl Fn(u64, u64) -> u64) {
        let (position, shift) = O::TARGETS;
        let slots = if self.halves { slots::<u32>() } else { slots::<u64>() };
        let mask = ((1 << slots) - 1) << shift;
        for line in self.lines.as_slice().chunks_exact(LINE_WORDS) {
            let latest = line[LATEST].load(Ordering::Relaxed);
            let word = line[position].load(Ordering::Relaxed);
            let bits = target(latest, word >> shift) << shift & mask;
            line[position].store(word & !mask | bits, Ordering::Relaxed);
        }
    }
}

impl<O> Sealed for InLine<O> {}
impl<O: Order> Layout for InLine<O> {
    const INFO: Info = O::INFO;
    const HAS_LONG_UNITS: bool = false;

    fn create(options: &Options, grain: Grain) -> Result<Self, MemoryError> {
        let lines = Words::create(&options.resized(Self::line_words))?;
        let max_len = options.max_words.max(options.words);
        Ok(Self::new(lines, options.words, max_len, grain.halves))
    }

    fn len(&self) -> usize {
        self.len
    }

    fn grow(&mut self, words: usize, _grain: Grain) -> Result<(), MemoryError> {
        if words > self.max_len {
            return Err(MemoryError::Reserved { words, reserved: self.max_len });
        }
        self.lines.grow(Self::line_words(words))?;
        *self = Self::new(self.lines.view(), words, self.max_len, self.halves);
        Ok(())
    }

    fn view(&self) -> Self {
        Self::new(self.lines.view(), self.len, self.max_len, self.halves)
    }

    #[inline(always)]
    fn load<T: Item>(&self, home: usize, item: usize) -> T {
        let (line, slot) = self.line::<T>(item);
        let (word, part) = Self::home::<T>(line, home, slot);
        T::load_part(word, part)
    }

    #[inline(always)]
    fn store<T: Item>(&self, home: usize, item: usize, value: T) {
        let (line, slot) = self.line::<T>(item);
        let (word, part) = Self::home::<T>(line, home, slot);
        T::store_part(word, part, value);
    }

    #[inline]
    fn prefetch(&self, index: usize, _unit: usize) {
        self.lines.prefetch(index / SLOTS * LINE_WORDS);
    }

    #[inline]
    fn latest<T: Item>(&self, unit: usize) -> usize {
        let (line, slot) = self.line::<T>(unit);
        (line[LATEST].load(Ordering::Relaxed) >> slot) as usize & 1
    }

    #[inline]
    fn target<T: Item>(&self, unit: usize) -> usize {
        let (position, shift) = O::TARGETS;
        let (line, slot) = self.line::<T>(unit);
        (line[position].load(Ordering::Relaxed) >> (shift as usize + slot)) as usize & 1
    }

    #[inline]
    fn set_latest<T: Item>(&self, unit: usize, home: usize) {
        let (line, slot) = self.line::<T>(unit);
        let others = line[LATEST].load(Ordering::Relaxed) & !(1 << slot);
        line[LATEST].store(others | (home as u64) << slot, Ordering::Relaxed);
    }

    /// One line, one look at each of its flags.
    #[inline(always)]
    fn replace<T: Item>(&self, item: usize, new: impl New<T>) -> bool {
        let Some((line, slot)) = self.find::<T>(item) else { return false };
        let (position, shift) = O::TARGETS;
        let latest = line[LATEST].load(Ordering::Relaxed);
        let targets = line[position].load(Ordering::Relaxed) >> shift;
        let home = |flags: u64| Self::home::<T>(line, (flags >> slot) as usize, slot);
        let value = new.resolve(|| {
            let (word, part) = home(latest);
            T::load_part(word, part)
        });
        let (word, part) = home(targets);
        T::store_part(word, part, value);
        let changed = (latest ^ targets) & 1 << slot;
        // In IZZ the bits of `MW` lie in the same word, and stay.
        line[LATEST].store(latest ^ changed, Ordering::Relaxed);
        true
    }

    /// Each word is made once, and in a register: it moves whole in any case.
    #[inline(always)]
    fn replace_half(&self, item: usize, value: u32, _whole: bool) -> bool {
        self.replace(item / 2, Patched(|word| with_half(word, item, value)))
    }

    fn negate(&self) {
        self.set_targets(|latest, _| !latest);
    }

    fn flip_targets(&self) {
        self.set_targets(|_, target| !target);
    }
}
