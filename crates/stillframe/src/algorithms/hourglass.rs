//! Hourglass (HG). Source: Li et al. 2018, "A Comparative Study of Consistent Snapshot Algorithms
//! for Main-Memory Database Systems", section 3.2.1, algorithm 2.
//!
//! Idea: two arrays `A0`, `A1`; in each period the writer writes into one of them, `A[U]`, and
//! flags what it wrote in `b[U]`. Begin swaps the roles, and the snapshotter dumps the flagged
//! units of the other array, `A[D]`. `br` says in which array the latest value of a unit is.
//!
//! - Memory: 2 copies and 4 bits a unit, of which 3 are used (`hourglass`, whose sink merges); one
//!   copy more (`hourglass-copy`). Begin: O(1), but O(changed) after an image that was not settled. Read: one
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
//! from begin to `done` (the two edges of the hand-over). `b0`, `b1` and `br` of 64 units are three
//! words, so the two never share a word of packed flags: no atomic read-modify-write, wait-free.
//! They lie in one cache line, which a first write of a period misses once, not twice; the
//! snapshotter passes each line twice an image.
//!
//! Deviations: the base image is not dumped before the first begin; all units count as written in
//! period 0 in place (the paper flags them in the *other* array, from where they overwrite newer
//! values unless the base was dumped and cleared in time). Flags are cleared when the image is
//! settled, not while it is dumped, so that an image that fails loses nothing. `docs/errata.md`.

use std::marker::PhantomData;

use crate::algorithm::{Algorithm, New, write_by_replace};
use crate::error::{BeginError, MemoryError};
use crate::flags::Columns;
use crate::handover::{Handover, Progress};
use crate::image::{ByArray, BySink, Changes, Completion, Increment, Lease, Marks, fold, rewrite};
use crate::info::Info;
use crate::memory::Words;
use crate::mutant::Mutant;
use crate::options::Options;
use crate::os::Shared;
use crate::point::Point;
use crate::sink::Sink;
use crate::sync::Ordering;

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
    arrays: [Words; 2],
    /// `b0` and `b1`, what was written in the array's last period; `br`, whether the latest value is
    /// in `A1`. Those of 64 units lie side by side.
    flags: Flags,
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
        let state = Self {
            arrays: [array()?, array()?],
            flags: Flags::create(options, shift)?,
            previous: C::IN_MEMORY.then(array).transpose()?,
            current: 0,
            shift,
            handover: Shared::new(Handover::new())?,
            completion: PhantomData,
        };
        let other = state.handover.is(Mutant::HourglassFlagsBaseInOtherArray);
        state.flags.fill(usize::from(other), 0..state.units(options.words), true);
        Ok(state)
    }

    fn words(&self) -> usize {
        self.arrays[0].len()
    }

    fn grow(&mut self, words: usize) -> Result<(), MemoryError> {
        let before = self.words();
        self.flags.grow(words)?;
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
            self.flags.fill(self.current, new.clone(), true);
            self.flags.fill(LATEST, new, self.current == 1);
        }
        Ok(())
    }

    #[inline]
    fn read(&self, index: usize) -> u64 {
        if self.handover.is(Mutant::HourglassReadsCurrent) {
            return self.arrays[self.current].load(index);
        }
        self.arrays[usize::from(self.flags.get(LATEST, index >> self.shift))].load(index)
    }

    write_by_replace!();

    #[inline]
    fn approach(&self, index: usize) {
        let unit = index >> self.shift;
        self.arrays[self.current & 1].prefetch(index);
        self.flags.prefetch(unit);
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
        Side { words: self.arrays[side].view(), flags: self.flags.view(), side }
    }

    #[inline(always)]
    fn replace(&mut self, index: usize, new: impl New) {
        if self.shift == 0 {
            self.replace_in(index, index, new); // the shift is a constant
        } else {
            self.replace_in(index, index >> self.shift, new);
        }
    }

    /// Replaces a word of a unit. If the unit was written in this period, its flags are as they
    /// should be, and its latest value is here (H2): nothing else is read.
    #[inline(always)]
    fn replace_in(&self, index: usize, unit: usize, new: impl New) {
        let current = self.current & 1;
        let word = self.arrays[current].word(index);
        let (flags, place) = (self.flags.of(unit), unit % 64);
        let written = flags[current].load(Ordering::Relaxed);
        if written >> place & 1 != 0 {
            return word.store(new.of(|| word.load(Ordering::Relaxed)), Ordering::Relaxed);
        }
        let latest = flags[LATEST].load(Ordering::Relaxed);
        let home = (latest >> place) as usize & 1;
        if self.shift != 0 && home != current {
            self.carry(unit);
        }
        word.store(new.of(|| self.arrays[home].load(index)), Ordering::Relaxed);
        flags[current].store(written | 1 << place, Ordering::Relaxed);
        let moved = ((home ^ current) as u64) << place;
        flags[LATEST].store(latest ^ moved, Ordering::Relaxed);
    }

    /// Units that hold the first `words` words.
    fn units(&self, words: usize) -> usize {
        words.div_ceil(1 << self.shift)
    }

    /// Brings a unit of several words, whose latest value is in the other array, into `A[U]`.
    #[inline(never)]
    fn carry(&self, unit: usize) {
        if !self.handover.is(Mutant::HourglassWritesPartOfUnit) {
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
    flags: Flags,
    side: usize,
}

impl Changes for Side {
    fn marks(&self, block: usize) -> Marks {
        self.flags.marks(self.side, block)
    }
    fn copy(&self, start: usize, into: &mut [u64]) {
        self.words.copy_to(start, into);
    }
    fn forget(&self, block: usize) {
        self.flags.forget(self.side, block);
    }
}
