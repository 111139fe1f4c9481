//! Hourglass (HG). Source: Li et al. 2018, "A Comparative Study of Consistent Snapshot Algorithms
//! for Main-Memory Database Systems", section 3.2.1, algorithm 2.
//!
//! Idea: two arrays `A0`, `A1`; in each period the writer writes into one of them, `A[U]`, and
//! flags what it wrote in `b[U]`. Begin swaps the roles, and the snapshotter dumps the flagged
//! units of the other array, `A[D]`. `br` says in which array the latest value of a unit is.
//!
//! - Memory: 2 copies and 4 bits a unit, of which 3 are used (`hourglass`, whose sink merges); one
//!   copy more (`hourglass-copy`). Begin: O(1), but O(changed) after an image that was not settled.
//!   Read: one bit of `br`. Write: one bit, two on the first touch of a period. Unit: half a word,
//!   word, line or page; the first touch of a longer unit copies it if its latest value is in the
//!   other array (the unit rule).
//! - An image is incremental, and cannot be otherwise: a unit written in period p - 2 and not since
//!   lies in `A[U]`, where the next write replaces it; only the image of p - 2 holds it.
//!
//! Invariants, at each point of consistency, before the swap:
//! - H1: `b[D]` is clear: the image before was settled, or what it left was folded into `A[U]`.
//! - H2: `b[U][k]` is set exactly if `k` was written in this period, or its write is not part of a
//!   settled image; then `br[k] = U`, and `A[U]` holds the whole unit.
//! - H3: `A[D]` is not written by the writer until the next begin.
//! - H4: an image is the last settled one, with `A[D][k]` for each `k` flagged in `b[D]`.
//!
//! No race: `A[U]`, `b[U]` and `br` are the writer's alone, `A[D]` and `b[D]` the snapshotter's,
//! from begin to `done` (the two edges of the hand-over). `b0`, `b1` and `br` of 64 units are three
//! words, so the two never share a word of packed flags: no atomic read-modify-write, wait-free.
//! They lie in one cache line, which a first write of a period misses once, not twice; the
//! snapshotter passes each line twice an image.
//!
//! Deviations: the base image is not dumped before the first begin; all units count as written in
//! period 0 in place (the paper flags them in the *other* array, from where they overwrite newer
//! values unless the base was dumped and cleared in time). Flags are cleared when the image is
//! settled, not while it is dumped: a failed image loses nothing. `docs/research/errata.md`.

use std::marker::PhantomData;

use super::flags::Columns;
use crate::algorithm::{Algorithm, Half, New, Put, write_by_replace};
use crate::error::{BeginError, MemoryError};
use crate::handover::{Handover, Progress};
use crate::image::{ByArray, BySink, Changes, Completion, Increment, Lease, Marks, fold, rewrite};
use crate::info::{Grain, Info};
use crate::memory::{Arrays, Item, Place, Words};
use crate::mutant::Mutant;
use crate::options::Options;
use crate::os::Shared;
use crate::point::Point;
use crate::sink::Sink;
use crate::sync::{AtomicU64, Ordering};

/// Completed by the sink: the true two copies.
pub type Hourglass = Glass<BySink>;
/// Completed by a third array, as in the authors' code.
pub type HourglassCopy = Glass<ByArray>;

/// Columns 0 and 1 are `b0` and `b1`; the fourth is not used, but a record is then half a line.
type Flags = Columns<4>;
/// The column of `br`.
const LATEST: usize = 2;

/// State words with Hourglass images.
#[derive(Debug)]
pub struct Glass<C> {
    /// `A0` and `A1`.
    arrays: Arrays<2>,
    /// `b0` and `b1`, what was written in the array's last period; `br`, whether the latest value
    /// is in `A1`. Those of 64 units lie side by side.
    flags: Flags,
    previous: Option<Words>,
    /// `U`, the array of this period, is `A1`.
    is_second: bool,
    grain: Grain,
    handover: Shared<Handover>,
    completion: PhantomData<C>,
}

// SAFETY: the conformance suite proves it.
unsafe impl<C: Completion> Algorithm for Glass<C> {
    type Image<S: Sink + 'static> = Increment<S, Side>;
    const INFO: Info = if C::IN_MEMORY { HourglassCopy::REGISTERED } else { Hourglass::REGISTERED };

    fn create(options: &Options) -> Result<Self, MemoryError> {
        let grain = Grain::from_unit(Self::INFO.unit(options.unit));
        let state = Self {
            arrays: Arrays::create(options, grain)?,
            flags: Flags::create(options, grain)?,
            previous: C::IN_MEMORY.then(|| Words::create(options)).transpose()?,
            is_second: false,
            grain,
            handover: Shared::new(Handover::new())?,
            completion: PhantomData,
        };
        let other = state.handover.is(Mutant::HourglassFlagsBaseInOtherArray);
        state.flags.fill(usize::from(other), 0..grain.units(options.words), true);
        Ok(state)
    }

    fn words(&self) -> usize {
        self.arrays.len()
    }

    fn grow(&mut self, words: usize) -> Result<(), MemoryError> {
        let before = self.words();
        self.flags.grow(words)?;
        if let Some(previous) = &mut self.previous {
            previous.grow(words)?;
        }
        self.arrays.grow(words)?;
        if self.words() > before {
            if !before.is_multiple_of(1 << self.grain.shift) {
                rewrite(self, before - 1); // its unit has become longer
            }
            let new = self.grain.units(before)..self.grain.units(words);
            self.flags.fill(self.current(), new.clone(), true);
            self.flags.fill(LATEST, new, self.is_second);
        }
        Ok(())
    }

    write_by_replace!(by_halves);

    #[inline]
    fn approach(&self, index: usize) {
        let unit = self.grain.items(index) >> self.grain.shift;
        self.arrays.array(self.current()).prefetch(index);
        self.flags.prefetch(unit);
    }

    fn begin<S: Sink + 'static>(
        &mut self,
        _point: Point,
        sink: S,
    ) -> Result<Increment<S, Side>, BeginError> {
        self.handover.check_idle()?;
        if self.handover.left_marks() {
            let (left, current) = (self.side(1 - self.current()), self.side(self.current()));
            fold(self, &left, &current, self.grain);
        }
        let ended = self.side(self.current());
        self.is_second = !self.is_second;
        let lease = Lease::publish(&self.handover, self.words());
        Ok(Increment::new(ended, self.previous.as_ref(), sink, lease))
    }

    fn progress(&self) -> Progress {
        Progress::new(&self.handover)
    }
}

impl<C: Completion> Glass<C> {
    fn side(&self, side: usize) -> Side {
        Side { words: self.arrays.array(side).view(), flags: self.flags.view(), side }
    }

    /// `U`.
    #[inline(always)]
    fn current(&self) -> usize {
        usize::from(self.is_second)
    }

    /// Whether items are half words.
    #[inline(always)]
    fn halves(&self) -> bool {
        self.grain.halves
    }

    #[inline(always)]
    fn get<T: Item>(&self, item: usize) -> T {
        let mut array = usize::from(self.flags.get(LATEST, item >> self.grain.shift));
        if self.handover.is(Mutant::HourglassReadsCurrent) {
            array = self.current();
        }
        T::load(self.arrays.array(array), item)
    }

    #[inline(always)]
    fn replace<T: Item>(&mut self, item: usize, new: impl New<T>) -> bool {
        let Some(place) = self.arrays.find::<T>(item) else { return false };
        self.put(place, item, new);
        true
    }

    #[inline(always)]
    fn replace_half(&mut self, item: usize, value: u32) -> bool {
        let Some(place) = self.arrays.find::<u64>(item / 2) else { return false };
        let whole = !self.handover.is(Mutant::HourglassWritesPartOfUnit);
        self.put(place, item / 2, Half { item, value, whole });
        true
    }

    /// Replaces a unit of one item. If it was written in this period, its flags are as they should
    /// be, and its latest value is here (H2): nothing else is read.
    #[inline(always)]
    fn put<T: Item>(&self, place: Place<'_, T, 2>, unit: usize, new: impl Put<T>) {
        let (current, flags, bit) = (self.current(), self.flags.at(unit), 1 << (unit % 64));
        let written = flags[current].load(Ordering::Relaxed);
        if written & bit != 0 {
            return new.put_here(place, current);
        }
        let latest = flags[LATEST].load(Ordering::Relaxed);
        new.put(place, (latest >> (unit % 64)) as usize & 1, current);
        self.mark(flags, unit, written, latest);
    }

    /// Flags a unit, whose flags were these, as written in this period.
    #[inline(always)]
    fn mark(&self, flags: &[AtomicU64; 4], unit: usize, written: u64, latest: u64) {
        let bit = 1 << (unit % 64);
        flags[self.current()].store(written | bit, Ordering::Relaxed);
        let here = u64::from(self.is_second) << (unit % 64);
        flags[LATEST].store(latest & !bit | here, Ordering::Relaxed);
    }

    /// Replaces an item of a unit that has several.
    #[inline(always)]
    fn replace_in_unit<T: Item>(&mut self, item: usize, new: impl New<T>) {
        let (current, unit) = (self.current(), (item / T::PER_WORD) >> self.grain.shift);
        let (flags, bit) = (self.flags.at(unit), 1 << (unit % 64));
        let (here, written) = (self.arrays.array(current), flags[current].load(Ordering::Relaxed));
        let latest = flags[LATEST].load(Ordering::Relaxed);
        if (latest >> (unit % 64)) as usize & 1 != current {
            self.carry(item / T::PER_WORD, unit);
        }
        T::store(here, item, new.resolve(|| T::load(here, item)));
        if written & bit == 0 {
            self.mark(flags, unit, written, latest);
        }
    }

    /// Brings a unit of several words, whose latest value is in the other array, into `A[U]`.
    #[inline(never)]
    fn carry(&self, index: usize, unit: usize) {
        assert!(index < self.words(), "word {index} of {}", self.words());
        if !self.handover.is(Mutant::HourglassWritesPartOfUnit) {
            let start = unit << self.grain.shift;
            let len = (1 << self.grain.shift).min(self.words() - start);
            let [to, from] = [self.current(), 1 - self.current()].map(|at| self.arrays.array(at));
            to.copy_from(start, from, start, len);
        }
    }
}

/// An array and its flags, seen by their owner.
#[derive(Debug)]
pub struct Side {
    words: Words,
    flags: Flags,
    side: usize,
}

impl Changes for Side {
    fn marks(&self, block: usize) -> Marks {
        self.flags.marks(self.side, block, false)
    }
    fn whole(&self, block: usize) -> Marks {
        self.flags.marks(self.side, block, true)
    }
    fn half(&self, index: usize) -> Option<u32> {
        self.flags.get(self.side, index).then(|| u32::load(&self.words, index))
    }
    fn copy(&self, start: usize, into: &mut [u64]) {
        self.words.copy_to(start, into);
    }
    fn forget(&self, block: usize) {
        self.flags.forget(self.side, block);
    }
}
