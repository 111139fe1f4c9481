//! The states of units: where they lie, and how a latch is taken and let go.

use std::ops::Range;

use super::{Bacou, Cou, CouReset};
use crate::error::MemoryError;
use crate::info::Info;
use crate::memory::{Tags, Words};
use crate::mutant::{Mutant, Mutation};
use crate::options::Options;
use crate::sealed::Sealed;
use crate::sync::{Backoff, Ordering};

/// Which home of a unit holds its image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Home {
    /// The live words.
    Live,
    /// The shadow.
    Shadow,
}

/// What a unit's state may be, in two bits: the higher says that the writer may write freely.
pub(super) const FREE: u64 = 0b00;
const LATCHED: u64 = 0b01;
pub(super) const COPIED: u64 = 0b10;
const SAVED: u64 = 0b11;

/// The home that holds the image of a unit in this state, if its latch is held or not needed.
pub(super) fn home(state: u64) -> Home {
    if state == COPIED { Home::Shadow } else { Home::Live }
}

/// The states of all units.
pub trait States: Sealed + Sized + Send + 'static {
    const INFO: Info;
    /// Whether live and shadow units lie side by side.
    const INTERLEAVED: bool;
    fn create(options: &Options, shift: u32) -> Result<Self, MemoryError>;
    fn grow(&mut self, units: usize) -> Result<(), MemoryError>;
    fn view(&self) -> Self;
    /// Makes every unit free.
    fn begin(&mut self);
    /// Brings the state of a unit near.
    fn prefetch(&self, unit: usize);
    /// Whether a unit is copied or saved (C2). Acquire: partner of `release`. The thread that
    /// saved it has read its live words before the caller stores there (`litmus/cou-latch`).
    fn is_done(&self, unit: usize) -> bool;
    /// Waits for the latch of a unit and takes it if the unit is free. Returns its state before:
    /// free, copied or saved. Acquire: partner of `release`; of the exchange that succeeds as well,
    /// since a word asked for at random frees its unit again (`litmus/cou-random-access`).
    fn latch(&self, unit: usize) -> u64;
    /// Lets a latch go, into `state`. `order` is Release: partner of `latch` and `is_done`.
    fn release(&self, unit: usize, state: u64, order: Ordering);
    /// Calls `take` with each of the units of one block, and makes those saved that are free.
    fn save(&self, units: Range<usize>, order: Ordering, mut take: impl FnMut(usize, Home)) {
        for unit in units {
            let state = self.latch(unit);
            take(unit, home(state));
            if state == FREE {
                self.release(unit, SAVED, order);
            }
        }
    }
}

/// A word a unit: `image << 2 | state`.
#[derive(Debug)]
pub struct Stamped {
    cells: Words,
    /// `image << 2` of the image under way.
    mark: u64,
    mutation: Mutation,
}

/// Memory for the states of units, `per_word` to a word.
fn create_states(options: &Options, shift: u32, per_word: usize) -> Result<Words, MemoryError> {
    Words::create(&options.resized(|words| words.div_ceil(1 << shift).div_ceil(per_word)))
}

impl Sealed for Stamped {}
impl States for Stamped {
    const INFO: Info = Cou::REGISTERED;
    const INTERLEAVED: bool = false;

    fn create(options: &Options, shift: u32) -> Result<Self, MemoryError> {
        let cells = create_states(options, shift, 1)?;
        Ok(Self { cells, mark: 0, mutation: Mutation::current() })
    }
    fn grow(&mut self, units: usize) -> Result<(), MemoryError> {
        self.cells.grow(units)
    }
    fn view(&self) -> Self {
        Self { cells: self.cells.view(), ..*self }
    }
    fn begin(&mut self) {
        self.mark += 1 << 2;
        if self.mutation.is(Mutant::CouStampsWrap) {
            self.mark &= (1 << 18) - 1;
        }
    }
    #[inline]
    fn prefetch(&self, unit: usize) {
        self.cells.prefetch(unit);
    }
    #[inline]
    fn is_done(&self, unit: usize) -> bool {
        self.cells.word(unit).load(Ordering::Acquire) >= self.mark | COPIED
    }
    fn latch(&self, unit: usize) -> u64 {
        let cell = self.cells.word(unit);
        let mut now = cell.load(Ordering::Acquire);
        let mut backoff = Backoff::default();
        loop {
            if now >= self.mark | COPIED {
                return now & 0b11;
            }
            if now == self.mark | LATCHED {
                backoff.wait();
                now = cell.load(Ordering::Acquire);
                continue;
            }
            let latched = self.mark | LATCHED;
            match cell.compare_exchange(now, latched, Ordering::Acquire, Ordering::Acquire) {
                Ok(_) => return FREE,
                Err(changed) => now = changed,
            }
        }
    }
    #[inline]
    fn release(&self, unit: usize, state: u64, order: Ordering) {
        self.cells.word(unit).store(self.mark | state, order);
    }
}

/// A byte a unit, all of which begin makes free, as in the papers.
#[derive(Debug)]
pub struct Cleared(Tags);

impl Sealed for Cleared {}
impl States for Cleared {
    const INFO: Info = CouReset::REGISTERED;
    const INTERLEAVED: bool = false;

    fn create(options: &Options, shift: u32) -> Result<Self, MemoryError> {
        Tags::create(&options.resized(|words| words.div_ceil(1 << shift))).map(Self)
    }
    fn grow(&mut self, units: usize) -> Result<(), MemoryError> {
        self.0.grow(units)
    }
    fn view(&self) -> Self {
        Self(self.0.view())
    }
    fn begin(&mut self) {
        self.0.reset();
    }
    #[inline]
    fn prefetch(&self, unit: usize) {
        self.0.prefetch(unit);
    }
    #[inline]
    fn is_done(&self, unit: usize) -> bool {
        u64::from(self.0.at(unit).get(Ordering::Acquire)) & COPIED != 0
    }
    fn latch(&self, unit: usize) -> u64 {
        let tag = self.0.at(unit);
        let mut backoff = Backoff::default();
        loop {
            match u64::from(tag.get(Ordering::Acquire)) {
                FREE if tag.claim(FREE as u8, LATCHED as u8, Ordering::Acquire) => return FREE,
                FREE | LATCHED => backoff.wait(),
                state => return state,
            }
        }
    }
    #[inline]
    fn release(&self, unit: usize, state: u64, order: Ordering) {
        self.0.at(unit).set(state as u8, order);
    }
}

/// Two bits a unit, 32 units a word. Two threads share a word: every change is an atomic
/// read-modify-write, which also hands on what an earlier Release of a neighbour published
/// (`litmus/bacou-neighbour`).
#[derive(Debug)]
pub struct Packed(Words);

const UNITS_PER_WORD: usize = 32;
/// Each unit's lower bit.
const LOWER: u64 = 0x5555_5555_5555_5555;

impl Sealed for Packed {}
impl States for Packed {
    const INFO: Info = Bacou::REGISTERED;
    const INTERLEAVED: bool = true;

    fn create(options: &Options, shift: u32) -> Result<Self, MemoryError> {
        create_states(options, shift, UNITS_PER_WORD).map(Self)
    }
    fn grow(&mut self, units: usize) -> Result<(), MemoryError> {
        self.0.grow(units.div_ceil(UNITS_PER_WORD))
    }
    fn view(&self) -> Self {
        Self(self.0.view())
    }
    fn begin(&mut self) {
        self.0.clear();
    }
    #[inline]
    fn prefetch(&self, unit: usize) {
        self.0.prefetch(unit / UNITS_PER_WORD);
    }
    #[inline]
    fn is_done(&self, unit: usize) -> bool {
        let word = self.0.word(unit / UNITS_PER_WORD).load(Ordering::Acquire);
        word >> (2 * (unit % UNITS_PER_WORD)) & COPIED != 0
    }
    fn latch(&self, unit: usize) -> u64 {
        let (word, shift) = (self.0.word(unit / UNITS_PER_WORD), 2 * (unit % UNITS_PER_WORD));
        let mut now = word.load(Ordering::Acquire);
        let mut backoff = Backoff::default();
        loop {
            match now >> shift & 0b11 {
                FREE => {
                    let latched = now | LATCHED << shift;
                    match word.compare_exchange(now, latched, Ordering::Acquire, Ordering::Acquire)
                    {
                        Ok(_) => return FREE,
                        Err(changed) => now = changed,
                    }
                }
                LATCHED => {
                    backoff.wait();
                    now = word.load(Ordering::Acquire);
                }
                state => return state,
            }
        }
    }
    #[inline]
    fn release(&self, unit: usize, state: u64, order: Ordering) {
        let change = (LATCHED ^ state) << (2 * (unit % UNITS_PER_WORD));
        self.0.word(unit / UNITS_PER_WORD).fetch_xor(change, order);
    }
    /// Latches and saves 32 units at a time. Setting the lower bit latches the free ones, leaves a
    /// latch that the writer holds, and makes copied units saved, which is the same to the writer.
    fn save(&self, units: Range<usize>, order: Ordering, mut take: impl FnMut(usize, Home)) {
        let mut first = units.start;
        while first < units.end {
            let end = units.end.min((first / UNITS_PER_WORD + 1) * UNITS_PER_WORD);
            let word = self.0.word(first / UNITS_PER_WORD);
            let shift = |unit: usize| 2 * (unit % UNITS_PER_WORD);
            let lower = LOWER >> (64 - 2 * (end - first)) << shift(first);
            let before = word.fetch_or(lower, Ordering::Acquire);
            let state = |unit: usize| before >> shift(unit) & 0b11;
            for unit in (first..end).filter(|&unit| state(unit) != LATCHED) {
                take(unit, home(state(unit)));
            }
            let held = lower & !before & !(before >> 1);
            word.fetch_or(held << 1, order);
            for unit in (first..end).filter(|&unit| state(unit) == LATCHED) {
                take(unit, home(self.latch(unit)));
            }
            first = end;
        }
    }
}
