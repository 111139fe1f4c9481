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
use crate::algorithm::{Half, New, Put};
use crate::error::MemoryError;
use crate::info::{Grain, Info};
use crate::memory::{Arrays, Item, Place, Records, Words};
use crate::options::Options;
use crate::sealed::Sealed;
use crate::sync::{AtomicU64, Ordering};

pub use in_line::{Column, InLine, Row};

const LINE_WORDS: usize = 8;

/// Two homes for each word, two flags for each unit. Both homes are zero at first, both flags 0.
pub trait Layout: Sealed + Debug + Send + Sized + 'static {
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
    /// Returns `false`, and replaces nothing, if items are not such, or out of bounds.
    fn replace<T: Item>(&self, item: usize, new: impl New<T>) -> bool;
    /// The same for half of a word that is a unit; the word moves `whole`, unless by mistake.
    fn replace_half(&self, item: usize, value: u32, whole: bool) -> bool;
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
    homes: Arrays<2>,
    flags: F,
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
    /// Replaces a unit of one item.
    fn put<T: Item>(&self, place: Place<'_, T, 2>, unit: usize, new: impl Put<T>);
    /// `MW := !MR` for all units.
    fn negate(&self);
    /// `MW := !MW` for all units.
    fn flip_targets(&self);
}

impl<F> Sealed for Apart<F> {}
impl<F: Flags> Layout for Apart<F> {
    const INFO: Info = F::INFO;

    fn create(options: &Options, grain: Grain) -> Result<Self, MemoryError> {
        Ok(Self { homes: Arrays::create(options, grain)?, flags: F::create(options, grain)? })
    }

    fn len(&self) -> usize {
        self.homes.len()
    }

    fn grow(&mut self, words: usize, grain: Grain) -> Result<(), MemoryError> {
        self.flags.grow(words, grain)?;
        self.homes.grow(words)
    }

    fn view(&self) -> Self {
        Self { homes: self.homes.view(), flags: self.flags.view() }
    }

    #[inline(always)]
    fn load<T: Item>(&self, home: usize, item: usize) -> T {
        T::load(self.homes.array(home & 1), item)
    }

    #[inline(always)]
    fn store<T: Item>(&self, home: usize, item: usize, value: T) {
        T::store(self.homes.array(home & 1), item, value);
    }

    #[inline]
    fn prefetch(&self, index: usize, unit: usize) {
        self.homes.prefetch(index);
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
        let Some(place) = self.homes.find::<T>(item) else { return false };
        self.flags.put(place, item, new);
        true
    }

    #[inline(always)]
    fn replace_half(&self, item: usize, value: u32, whole: bool) -> bool {
        let Some(place) = self.homes.find::<u64>(item / 2) else { return false };
        self.flags.put(place, item / 2, Half { item, value, whole });
        true
    }

    fn negate(&self) {
        self.flags.negate();
    }

    fn flip_targets(&self) {
        self.flags.flip_targets();
    }

    fn move_run(&self, start: usize, end: usize, from: usize, to: usize) {
        let [from, to] = [from, to].map(|home| self.homes.array(home & 1));
        to.copy_from(start, from, start, end - start);
    }

    fn copy_to(&self, home: usize, start: usize, into: &mut [u64]) {
        self.homes.array(home & 1).copy_to(start, into);
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

    #[inline(always)]
    fn put<T: Item>(&self, place: Place<'_, T, 2>, unit: usize, new: impl Put<T>) {
        let home = self.target(unit) & 1;
        new.put(place, self.latest(unit) & 1, home);
        self.set_latest(unit, home);
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
pub struct Bits(Records<PAIR, 64>);

impl Bits {
    fn flag_words(words: usize, grain: Grain) -> usize {
        grain.units(words).div_ceil(64) * PAIR
    }

    /// The words that hold a unit's bit of `MR` and of `MW`.
    #[inline(always)]
    fn pair(&self, unit: usize) -> &[AtomicU64; PAIR] {
        self.0.at(unit)
    }

    fn set_targets(&self, from: usize) {
        for pair in self.0.words().as_slice().as_chunks::<PAIR>().0 {
            pair[TARGETS].store(!pair[from].load(Ordering::Relaxed), Ordering::Relaxed);
        }
    }
}

impl Flags for Bits {
    const INFO: Info = Bazz::REGISTERED;

    fn create(options: &Options, grain: Grain) -> Result<Self, MemoryError> {
        let flags = options.resized(|words| Self::flag_words(words, grain));
        Ok(Self(Records::all(&Words::create(&flags)?)))
    }

    fn grow(&mut self, words: usize, grain: Grain) -> Result<(), MemoryError> {
        let mut all = self.0.words().view();
        all.grow(Self::flag_words(words, grain))?;
        self.0 = Records::all(&all);
        Ok(())
    }

    fn view(&self) -> Self {
        Self(Records::all(self.0.words()))
    }

    #[inline]
    fn prefetch(&self, unit: usize) {
        self.0.words().prefetch(unit / 64 * PAIR);
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
    fn put<T: Item>(&self, place: Place<'_, T, 2>, unit: usize, new: impl Put<T>) {
        let (pair, bit) = (self.pair(unit), unit % 64);
        let [latest, targets] = pair.each_ref().map(|word| word.load(Ordering::Relaxed));
        new.put(place, (latest >> bit) as usize & 1, (targets >> bit) as usize & 1);
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
