//! Where Zigzag's homes and flags lie: four layouts of Cao et al. 2011, section 4.2.
//!
//! ```text
//! NZZ   A0: w w w w ..   A1: w w w w ..   MR: b b b b ..   MW: b b b b ..     a byte a flag
//! IZZ   line: [A0 A1] [A0 A1] [A0 A1] [MR MR MR .. MW MW MW] [-]              3 words a line
//! PZZ   line: [A0 A0 A0] [A1 A1 A1] [MR MR MR ..] [MW MW MW ..]               3 words a line
//! BAZZ  A0: w w w w ..   A1: w w w w ..   line: four times [64 bits of MR] [the 64 of MW]
//! ```
//!
//! The paper's words have 4 bytes: six of them fit a line of 64 bytes with homes and flags, as six
//! half words do here, or three words. Flags of IZZ and PZZ are single bits of a word that is
//! loaded and stored whole, which negates a line with one instruction in IZZ too. Byte flags of NZZ
//! are negated eight at a time, bits of BAZZ 64: all four are bound by memory there.

mod in_line;

use std::fmt::Debug;

use super::{Bazz, Nzz};
use crate::algorithm::New;
use crate::error::MemoryError;
use crate::info::{Grain, Info};
use crate::memory::{Item, Words};
use crate::options::Options;
use crate::sync::{AtomicU64, Ordering};

pub use in_line::{Column, InLine, Row};

const LINE_WORDS: usize = 8;

/// Two homes for each word, two flags for each unit. Both homes are zero at first, both flags 0.
pub trait Layout: Debug + Send + Sized + 'static {
    /// The registry line.
    const INFO: Info;
    /// Whether a unit may have several words.
    const HAS_LONG_UNITS: bool = true;

    /// For `options.words` words.
    ///
    /// # Errors
    /// [`MemoryError`] when the system refuses the memory.
    fn create(options: &Options, grain: Grain) -> Result<Self, MemoryError>;
    /// Words in use.
    fn len(&self) -> usize;
    /// Whether there is no word at all.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Extends to `words` words, more than now; the new ones are zero in both homes.
    ///
    /// # Errors
    /// [`MemoryError`]; nothing changes.
    fn grow(&mut self, words: usize, grain: Grain) -> Result<(), MemoryError>;
    /// The same memory for another thread, with the length of now.
    #[must_use]
    fn view(&self) -> Self;

    /// An item in one of its homes. Panics if it is out of bounds.
    fn load<T: Item>(&self, home: usize, item: usize) -> T;
    /// Replaces an item in one of its homes. Panics if it is out of bounds.
    fn store<T: Item>(&self, home: usize, item: usize, value: T);
    /// Brings near what a write of word `index` of `unit` looks at: both homes where a flag decides
    /// between them.
    fn prefetch(&self, index: usize, unit: usize);
    /// `MR`: the home of the latest value.
    fn latest<T: Item>(&self, unit: usize) -> usize;
    /// `MW`: the home that is written in this period.
    fn target<T: Item>(&self, unit: usize) -> usize;
    /// Sets `MR`.
    fn set_latest<T: Item>(&self, unit: usize, home: usize);
    /// Replaces an item that is a unit: writes it in this period's home, which is then the latest.
    /// A layout without long units returns whether items are such; if not, nothing is replaced.
    fn replace<T: Item>(&self, item: usize, new: impl New<T>) -> bool;
    /// `MW := !MR` for all units.
    fn negate(&self);
    /// `MW := !MW` for all units: the mistake that the picture of two copies taking turns invites.
    fn flip_targets(&self);

    /// Copies words `start..end` from one home to the other.
    fn move_run(&self, start: usize, end: usize, from: usize, to: usize) {
        for index in start..end {
            self.store(to, index, self.load::<u64>(from, index));
        }
    }
    /// Copies `into.len()` words of one home from `start` on.
    fn copy_to(&self, home: usize, start: usize, into: &mut [u64]) {
        for (index, value) in (start..).zip(into) {
            *value = self.load(home, index);
        }
    }
}

/// NZZ and BAZZ: the homes are arrays, and the flags lie apart from them.
#[derive(Debug)]
pub struct Apart<F> {
    homes: Homes,
    flags: F,
}

/// The two homes of all words.
#[derive(Debug)]
pub struct Homes([Words; 2]);

impl Homes {
    #[inline(always)]
    fn load<T: Item>(&self, home: usize, item: usize) -> T {
        T::load(&self.0[home & 1], item)
    }

    #[inline(always)]
    fn store<T: Item>(&self, home: usize, item: usize, value: T) {
        T::store(&self.0[home & 1], item, value);
    }
}

/// The flags of all units, apart from the homes.
pub trait Flags: Debug + Send + Sized + 'static {
    /// The registry line.
    const INFO: Info;

    /// For `options.words` words.
    ///
    /// # Errors
    /// [`MemoryError`] when the system refuses the memory.
    fn create(options: &Options, grain: Grain) -> Result<Self, MemoryError>;
    /// Extends to the units of `words` words.
    ///
    /// # Errors
    /// [`MemoryError`]; nothing changes.
    fn grow(&mut self, words: usize, grain: Grain) -> Result<(), MemoryError>;
    /// The same memory for another thread.
    #[must_use]
    fn view(&self) -> Self;
    /// Brings near the flags of a unit.
    fn prefetch(&self, unit: usize);
    /// `MR` of a unit.
    fn latest(&self, unit: usize) -> usize;
    /// `MW` of a unit.
    fn target(&self, unit: usize) -> usize;
    /// Sets `MR` of a unit.
    fn set_latest(&self, unit: usize, home: usize);
    /// See [`Layout::replace`].
    #[inline(always)]
    fn replace<T: Item>(&self, homes: &Homes, item: usize, new: impl New<T>) {
        let home = self.target(item);
        homes.store(home, item, new.of(|| homes.load(self.latest(item), item)));
        self.set_latest(item, home);
    }
    /// `MW := !MR` for all units.
    fn negate(&self);
    /// `MW := !MW` for all units.
    fn flip_targets(&self);
}

impl<F: Flags> Layout for Apart<F> {
    const INFO: Info = F::INFO;

    fn create(options: &Options, grain: Grain) -> Result<Self, MemoryError> {
        let homes = Homes([Words::create(options)?, Words::create(options)?]);
        Ok(Self { homes, flags: F::create(options, grain)? })
    }

    fn len(&self) -> usize {
        self.homes.0[0].len()
    }

    fn grow(&mut self, words: usize, grain: Grain) -> Result<(), MemoryError> {
        self.homes.0[1].grow(words)?;
        self.flags.grow(words, grain)?;
        self.homes.0[0].grow(words) // last: `len` reads its length
    }

    fn view(&self) -> Self {
        let homes = Homes(self.homes.0.each_ref().map(Words::view));
        Self { homes, flags: self.flags.view() }
    }

    #[inline(always)]
    fn load<T: Item>(&self, home: usize, item: usize) -> T {
        self.homes.load(home, item)
    }

    #[inline(always)]
    fn store<T: Item>(&self, home: usize, item: usize, value: T) {
        self.homes.store(home, item, value);
    }

    #[inline]
    fn prefetch(&self, index: usize, unit: usize) {
        self.homes.0.iter().for_each(|home| home.prefetch(index));
        self.flags.prefetch(unit);
    }

    #[inline(always)]
    fn latest<T: Item>(&self, unit: usize) -> usize {
        self.flags.latest(unit)
    }

    #[inline(always)]
    fn target<T: Item>(&self, unit: usize) -> usize {
        self.flags.target(unit)
    }

    #[inline(always)]
    fn set_latest<T: Item>(&self, unit: usize, home: usize) {
        self.flags.set_latest(unit, home);
    }

    #[inline(always)]
    fn replace<T: Item>(&self, item: usize, new: impl New<T>) -> bool {
        self.flags.replace(&self.homes, item, new);
        true
    }

    fn negate(&self) {
        self.flags.negate();
    }

    fn flip_targets(&self) {
        self.flags.flip_targets();
    }

    fn move_run(&self, start: usize, end: usize, from: usize, to: usize) {
        self.homes.0[to & 1].copy_from(start, &self.homes.0[from & 1], start, end - start);
    }

    fn copy_to(&self, home: usize, start: usize, into: &mut [u64]) {
        self.homes.0[home & 1].copy_to(start, into);
    }
}

/// NZZ: a byte a flag.
#[derive(Debug)]
pub struct Bytes {
    latest: Words,
    targets: Words,
}

impl Bytes {
    fn flag_words(words: usize, grain: Grain) -> usize {
        grain.units(words).div_ceil(8)
    }

    fn set_targets(&self, from: &Words) {
        const ONES: u64 = 0x0101_0101_0101_0101;
        for (from, targets) in from.as_slice().iter().zip(self.targets.as_slice()) {
            targets.store(from.load(Ordering::Relaxed) ^ ONES, Ordering::Relaxed);
        }
    }
}

impl Flags for Bytes {
    const INFO: Info = Nzz::REGISTERED;

    fn create(options: &Options, grain: Grain) -> Result<Self, MemoryError> {
        let flags = options.resized(|words| Self::flag_words(words, grain));
        Ok(Self { latest: Words::create(&flags)?, targets: Words::create(&flags)? })
    }

    fn grow(&mut self, words: usize, grain: Grain) -> Result<(), MemoryError> {
        let flags = Self::flag_words(words, grain);
        self.latest.grow(flags)?;
        self.targets.grow(flags)
    }

    fn view(&self) -> Self {
        Self { latest: self.latest.view(), targets: self.targets.view() }
    }

    #[inline]
    fn prefetch(&self, unit: usize) {
        self.latest.prefetch(unit / 8);
        self.targets.prefetch(unit / 8);
    }

    #[inline]
    fn latest(&self, unit: usize) -> usize {
        usize::from(self.latest.load_byte(unit))
    }

    #[inline]
    fn target(&self, unit: usize) -> usize {
        usize::from(self.targets.load_byte(unit))
    }

    #[inline]
    fn set_latest(&self, unit: usize, home: usize) {
        self.latest.store_byte(unit, home as u8);
    }

    fn negate(&self) {
        self.set_targets(&self.latest);
    }

    fn flip_targets(&self) {
        self.set_targets(&self.targets);
    }
}

/// Words of flags of 64 units, and which of them are `MR` and `MW`.
const PAIR: usize = 2;
const LATEST: usize = 0;
const TARGETS: usize = 1;

/// BAZZ: a bit a flag. Each line holds 256 bits of `MR` and the 256 of `MW`, in pairs of words, so
/// that one look finds both flags of a unit.
#[derive(Debug)]
pub struct Bits(Words);

impl Bits {
    fn flag_words(words: usize, grain: Grain) -> usize {
        grain.units(words).div_ceil(64) * PAIR
    }

    /// The words that hold a unit's bit of `MR` and of `MW`.
    #[inline]
    fn pair(&self, unit: usize) -> &[AtomicU64; PAIR] {
        self.0.record(unit / 64)
    }

    fn set_targets(&self, from: usize) {
        for pair in self.0.as_slice().as_chunks::<PAIR>().0 {
            pair[TARGETS].store(!pair[from].load(Ordering::Relaxed), Ordering::Relaxed);
        }
    }
}

impl Flags for Bits {
    const INFO: Info = Bazz::REGISTERED;

    fn create(options: &Options, grain: Grain) -> Result<Self, MemoryError> {
        Words::create(&options.resized(|words| Self::flag_words(words, grain))).map(Self)
    }

    fn grow(&mut self, words: usize, grain: Grain) -> Result<(), MemoryError> {
        self.0.grow(Self::flag_words(words, grain))
    }

    fn view(&self) -> Self {
        Self(self.0.view())
    }

    #[inline]
    fn prefetch(&self, unit: usize) {
        self.0.prefetch(unit / 64 * PAIR);
    }

    #[inline]
    fn latest(&self, unit: usize) -> usize {
        (self.pair(unit)[LATEST].load(Ordering::Relaxed) >> (unit % 64)) as usize & 1
    }

    #[inline]
    fn target(&self, unit: usize) -> usize {
        (self.pair(unit)[TARGETS].load(Ordering::Relaxed) >> (unit % 64)) as usize & 1
    }

    #[inline]
    fn set_latest(&self, unit: usize, home: usize) {
        let word = &self.pair(unit)[LATEST];
        let others = word.load(Ordering::Relaxed) & !(1 << (unit % 64));
        word.store(others | (home as u64) << (unit % 64), Ordering::Relaxed);
    }

    /// One look finds both flags, and `MR` becomes `MW` without a branch.
    #[inline(always)]
    fn replace<T: Item>(&self, homes: &Homes, item: usize, new: impl New<T>) {
        let (pair, bit) = (self.pair(item), item % 64);
        let [latest, targets] = pair.each_ref().map(|word| word.load(Ordering::Relaxed));
        let old = || homes.load((latest >> bit) as usize, item);
        homes.store((targets >> bit) as usize, item, new.of(old));
        let changed = (latest ^ targets) & 1 << bit;
        pair[LATEST].store(latest ^ changed, Ordering::Relaxed);
    }

    fn negate(&self) {
        self.set_targets(LATEST);
    }

    fn flip_targets(&self) {
        self.set_targets(TARGETS);
    }
}
