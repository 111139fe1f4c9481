//! Hourglass (HG). Source: Li et al. 2018, "A Comparative Study of Consistent Snapshot Algorithms
//! for Main-Memory Database Systems", section 3.2.1, algorithm 2.
//!
//! Idea: two arrays `A0`, `A1`; in each period the writer writes into one of them, `A[U]`, and
//! flags what it wrote in `b[U]`. Begin swaps the roles, and the snapshotter dumps the flagged
//! units of the other array, `A[D]`. `br` says in which array the latest value of a unit is.
//!
//! - Memory: 2 copies and 3 bits a unit (`hourglass`, whose sink merges); one copy more
//!   (`hourglass-copy`). Begin: O(1), but O(changed) after an image that was not settled. Read: one
//!   bit of `br`. Write: one bit, two on the first touch of a period. Unit: word, line or page; the
//!   first touch of a longer unit copies it if its latest value is in the other array (the unit
//!   rule).
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
//! from begin to `done` (the two edges of the hand-over). `b0` and `b1` are separate arrays, so the
//! two never share even a word of packed flags: no atomic read-modify-write, wait-free.
//!
//! Deviations: the base image is not dumped before the first begin; all units count as written in
//! period 0 in place (the paper flags them in the *other* array, from where they overwrite newer
//! values unless the base was dumped and cleared in time). Flags are cleared when the image is
//! settled, not while it is dumped, so that an image that fails loses nothing. `docs/errata.md`.

use std::marker::PhantomData;

use crate::algorithm::Algorithm;
use crate::error::{BeginError, MemoryError};
use crate::flags::Bits;
use crate::handover::{Handover, Progress};
use crate::image::{ByArray, BySink, Changes, Completion, Increment, Lease, Marks, fold, rewrite};
use crate::info::Info;
use crate::memory::Words;
use crate::mutant::Mutant;
use crate::options::Options;
use crate::os::Shared;
use crate::point::Point;
use crate::sink::Sink;

/// Completed by the sink: the true two copies.
pub type Hourglass = Glass<BySink>;
/// Completed by a third array, as in the authors' code.
pub type HourglassCopy = Glass<ByArray>;

/// State words with Hourglass images.
#[derive(Debug)]
pub struct Glass<C> {
    /// `A0` and `A1`.
    arrays: [Words; 2],
    /// `b0` and `b1`: what was written in the array's last period.
    written: [Bits; 2],
    /// `br`: whether the latest value is in `A1`.
    latest: Bits,
    previous: Option<Words>,
    /// `U`: the array of this period, 0 or 1.
    current: usize,
    shift: u32,
    handover: Shared<Handover>,
    completion: PhantomData<C>,
}

impl<C: Completion> Algorithm for Glass<C> {
    type Image<S: Sink + 'static> = Increment<S, Side>;
    const INFO: Info = if C::IN_MEMORY { HourglassCopy::REGISTERED } else { Hourglass::REGISTERED };

    fn create(options: &Options) -> Result<Self, MemoryError> {
        let shift = Self::INFO.unit(options.unit).words().trailing_zeros();
        let array = || Words::create(options);
        let flags = || Bits::create(options, shift);
        let state = Self {
            arrays: [array()?, array()?],
            written: [flags()?, flags()?],
            latest: flags()?,
            previous: C::IN_MEMORY.then(array).transpose()?,
            current: 0,
            shift,
            handover: Shared::new(Handover::new())?,
            completion: PhantomData,
        };
        let other = state.handover.is(Mutant::HourglassFlagsBaseInOtherArray);
        state.written[usize::from(other)].fill(0..state.units(options.words), true);
        Ok(state)
    }

    fn words(&self) -> usize {
        self.arrays[0].len()
    }

    fn grow(&mut self, words: usize) -> Result<(), MemoryError> {
        let before = self.words();
        self.written.iter_mut().try_for_each(|flags| flags.grow(words))?;
        self.latest.grow(words)?;
        if let Some(previous) = &mut self.previous {
            previous.grow(words)?;
        }
        self.arrays[1].grow(words)?;
        self.arrays[0].grow(words)?;
        if self.words() > before {
            if !before.is_multiple_of(1 << self.shift) {
                rewrite(self, before - 1); // its unit has become longer
            }
            let new = self.units(before)..self.units(words);
            self.written[self.current].fill(new.clone(), true);
            self.latest.fill(new, self.current == 1);
        }
        Ok(())
    }

    #[inline]
    fn read(&self, index: usize) -> u64 {
        if self.handover.is(Mutant::HourglassReadsCurrent) {
            return self.arrays[self.current].load(index);
        }
        self.arrays[usize::from(self.latest.get(index >> self.shift))].load(index)
    }

    #[inline]
    fn write(&mut self, index: usize, value: u64) {
        let (unit, current) = (index >> self.shift, self.current & 1);
        if self.shift != 0 && !self.written[current].get(unit) {
            self.carry(index, unit);
        }
        self.arrays[current].store(index, value);
        if !self.written[current].get(unit) {
            self.written[current].set(unit);
            self.latest.put(unit, current == 1);
        } // else `br` is right: H2
    }

    #[inline]
    fn approach(&self, index: usize) {
        let unit = index >> self.shift;
        self.arrays[self.current & 1].prefetch(index);
        self.written[self.current & 1].prefetch(unit);
        self.latest.prefetch(unit);
    }

    fn begin<S: Sink + 'static>(
        &mut self,
        _point: Point,
        sink: S,
    ) -> Result<Increment<S, Side>, BeginError> {
        self.handover.check_idle()?;
        if self.handover.left_marks() {
            let (left, current) = (self.side(1 - self.current), self.side(self.current));
            fold(self, &left, &current, 1 << self.shift);
        }
        let ended = self.side(self.current);
        self.current = 1 - self.current;
        let lease = Lease::publish(&self.handover, self.words());
        Ok(Increment::new(ended, self.previous.as_ref(), sink, lease))
    }

    fn progress(&self) -> Progress {
        Progress::new(&self.handover)
    }
}

impl<C: Completion> Glass<C> {
    fn side(&self, side: usize) -> Side {
        Side { words: self.arrays[side].view(), written: self.written[side].view() }
    }

    /// Units that hold the first `words` words.
    fn units(&self, words: usize) -> usize {
        words.div_ceil(1 << self.shift)
    }

    /// Brings all of a unit of several words into `A[U]` before the first write of a period.
    #[inline]
    fn carry(&self, index: usize, unit: usize) {
        assert!(index < self.words(), "word {index} of {}", self.words());
        let is_here = self.latest.get(unit) == (self.current == 1);
        if !is_here && !self.handover.is(Mutant::HourglassWritesPartOfUnit) {
            let start = unit << self.shift;
            let len = (1 << self.shift).min(self.words() - start);
            let [to, from] = [self.current, 1 - self.current].map(|array| &self.arrays[array]);
            to.copy_from(start, from, start, len);
        }
    }
}

/// An array and its flags, seen by the one who owns them.
#[derive(Debug)]
pub struct Side {
    words: Words,
    written: Bits,
}

impl Changes for Side {
    fn marks(&self, block: usize) -> Marks {
        self.written.marks(block)
    }
    fn copy(&self, start: usize, into: &mut [u64]) {
        self.words.copy_to(start, into);
    }
    fn forget(&self, block: usize) {
        self.written.forget(block);
    }
}
