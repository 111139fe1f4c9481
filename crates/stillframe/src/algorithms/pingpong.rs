//! Ping-Pong (PP). Source: Cao et al. 2011, "Fast Checkpoint Recovery Algorithms for Frequently
//! Consistent Applications", section 3.3; layouts NPP and IPP in section 4.
//!
//! Idea: the state `A` is written in place, and each value once more into one of two shadow arrays,
//! `cur`, with a flag. Begin swaps the shadows, and the snapshotter dumps the flagged units of the
//! one that was `cur` in the period that ended, `prev`.
//!
//! - Memory: NPP 3 copies and two bytes a unit, IPP 4; one more to complete images in memory
//!   (`-copy`; `-merge` leaves it to the sink). Begin: O(1), but O(changed) after an image that was
//!   not settled. Read: nothing added. Write: a second store and a flag. An image is incremental.
//! - Unit: NPP word, line or page (the first write of a period into a longer unit copies all of it
//!   into `cur`: the unit rule); IPP the word.
//!
//! Invariants, at each point of consistency, before the swap:
//! - P1: the flags of `prev` are clear: the image before was settled, or what it left was folded
//!   into `cur`.
//! - P2: `cur` holds a whole unit exactly if its flag is set: it was written in this period, or its
//!   write is not part of a settled image; then `cur[k] = A[k]`.
//! - P3: `prev` is not written by the writer until the next begin.
//! - P4: an image is the last settled one, with `prev[k]` for each flagged `k`.
//!
//! No race: `A`, `cur` and its flags are the writer's alone, `prev` and its flags the
//! snapshotter's, from begin to `done`. Flags are bytes, stored one at a time: IPP's two flags of a
//! word share a machine word, but no store touches both.
//!
//! Deviations: the base image is not dumped before the first begin; all units count as written in
//! period 0 in place (the paper flags them in `prev`, from where they overwrite newer values unless
//! the base was dumped in time). Flags are cleared when the image is settled. `docs/errata.md`.

use std::fmt;
use std::marker::PhantomData;
use std::ops::Range;

use crate::algorithm::{Algorithm, New, write_by_replace};
use crate::error::{BeginError, MemoryError};
use crate::flags::Bytes;
use crate::handover::{Handover, Progress};
use crate::image::{ByArray, BySink, Changes, Completion, Increment, Lease, Marks, fold, rewrite};
use crate::info::Info;
use crate::memory::{Words, byte};
use crate::mutant::{Mutant, Mutation};
use crate::options::Options;
use crate::os::Shared;
use crate::point::Point;
use crate::sink::{BLOCK_WORDS, Sink};
use crate::sync::{AtomicU64, Ordering};

/// Separate arrays, completed in memory.
pub type NppCopy = PingPong<Separate, ByArray>;
/// Separate arrays, completed by the sink.
pub type NppMerge = PingPong<Separate, BySink>;
/// Interleaved arrays, completed in memory.
pub type IppCopy = PingPong<Interleaved, ByArray>;
/// Interleaved arrays, completed by the sink.
pub type IppMerge = PingPong<Interleaved, BySink>;

/// State words with Ping-Pong images.
#[derive(Debug)]
pub struct PingPong<L, C> {
    layout: L,
    previous: Option<Words>,
    /// Which shadow is `cur`, 0 (Odd) or 1 (Even).
    current: usize,
    shift: u32,
    handover: Shared<Handover>,
    completion: PhantomData<C>,
}

/// Where the state, its two shadows and their flags lie in memory.
pub trait Layout: fmt::Debug + Sized + Send + 'static {
    /// The registry's line of images that the sink completes.
    const MERGE: Info;
    /// The registry's line of images that are completed in memory.
    const COPY: Info;
    /// Zero words in units of `1 << shift`, no flag set.
    ///
    /// # Errors
    /// [`MemoryError`] when the memory cannot be had.
    fn create(options: &Options, shift: u32) -> Result<Self, MemoryError>;
    /// Words of state.
    fn words(&self) -> usize;
    /// Makes room for `words` words, all zero, no flag set.
    ///
    /// # Errors
    /// [`MemoryError`]; the number of words is as before.
    fn grow(&mut self, words: usize) -> Result<(), MemoryError>;
    /// The same memory for another thread.
    fn view(&self) -> Self;
    /// A word of the state.
    fn read(&self, index: usize) -> u64;
    /// Brings near what [`write`](Self::write) looks at.
    fn prefetch(&self, shadow: usize, index: usize);
    /// Replaces a word of the state; `shadow` then holds its unit whole, and the flag is set. The
    /// old value comes from the state: no shadow is read.
    fn replace(&self, shadow: usize, index: usize, new: impl New);
    /// Flags units of which `shadow` holds the value.
    fn flag(&self, shadow: usize, units: Range<usize>);
    /// See [`Changes::marks`].
    fn marks(&self, shadow: usize, block: usize) -> Marks;
    /// See [`Changes::copy`].
    fn copy(&self, shadow: usize, start: usize, into: &mut [u64]);
    /// See [`Changes::forget`].
    fn forget(&self, shadow: usize, block: usize);
}

impl<L: Layout, C: Completion> Algorithm for PingPong<L, C> {
    type Image<S: Sink + 'static> = Increment<S, Shadow<L>>;
    const INFO: Info = if C::IN_MEMORY { L::COPY } else { L::MERGE };

    fn create(options: &Options) -> Result<Self, MemoryError> {
        let shift = Self::INFO.unit(options.unit).words().trailing_zeros();
        let state = Self {
            layout: L::create(options, shift)?,
            previous: C::IN_MEMORY.then(|| Words::create(options)).transpose()?,
            current: 0,
            shift,
            handover: Shared::new(Handover::new())?,
            completion: PhantomData,
        };
        let in_previous = state.handover.is(Mutant::PingPongFlagsBaseInPrevious);
        state.layout.flag(usize::from(in_previous), 0..state.units(options.words));
        Ok(state)
    }

    fn words(&self) -> usize {
        self.layout.words()
    }

    fn grow(&mut self, words: usize) -> Result<(), MemoryError> {
        let before = self.words();
        if let Some(previous) = &mut self.previous {
            previous.grow(words)?;
        }
        self.layout.grow(words)?;
        if self.words() > before {
            if !before.is_multiple_of(1 << self.shift) {
                rewrite(self, before - 1); // its unit has become longer
            }
            self.layout.flag(self.current, self.units(before)..self.units(words));
        }
        Ok(())
    }

    #[inline]
    fn read(&self, index: usize) -> u64 {
        self.layout.read(index)
    }

    write_by_replace!();

    #[inline]
    fn approach(&self, index: usize) {
        self.layout.prefetch(self.current, index);
    }

    fn begin<S: Sink + 'static>(
        &mut self,
        _point: Point,
        sink: S,
    ) -> Result<Increment<S, Shadow<L>>, BeginError> {
        self.handover.check_idle()?;
        if self.handover.left_marks() {
            let (left, current) = (self.shadow(1 - self.current), self.shadow(self.current));
            fold(self, &left, &current, 1 << self.shift);
        }
        let mut ended = self.shadow(self.current);
        self.current = 1 - self.current;
        if self.handover.is(Mutant::PingPongDumpsCurrent) {
            ended = self.shadow(self.current);
        }
        let lease = Lease::publish(&self.handover, self.words());
        Ok(Increment::new(ended, self.previous.as_ref(), sink, lease))
    }

    fn progress(&self) -> Progress {
        Progress::new(&self.handover)
    }
}

impl<L: Layout, C: Completion> PingPong<L, C> {
    #[inline(always)]
    fn replace(&mut self, index: usize, new: impl New) {
        self.layout.replace(self.current & 1, index, new);
    }

    fn shadow(&self, shadow: usize) -> Shadow<L> {
        Shadow { layout: self.layout.view(), shadow }
    }

    /// Units that hold the first `words` words.
    fn units(&self, words: usize) -> usize {
        words.div_ceil(1 << self.shift)
    }
}

/// A shadow and its flags, seen by the one who owns them.
#[derive(Debug)]
pub struct Shadow<L> {
    layout: L,
    shadow: usize,
}

impl<L: Layout> Changes for Shadow<L> {
    fn marks(&self, block: usize) -> Marks {
        self.layout.marks(self.shadow, block)
    }
    fn copy(&self, start: usize, into: &mut [u64]) {
        self.layout.copy(self.shadow, start, into);
    }
    fn forget(&self, block: usize) {
        self.layout.forget(self.shadow, block);
    }
}

/// NPP: separate arrays, one byte a flag.
#[derive(Debug)]
pub struct Separate {
    state: Words,
    shadows: [Words; 2],
    flags: [Bytes; 2],
    shift: u32,
    mutation: Mutation,
}

impl Layout for Separate {
    const MERGE: Info = NppMerge::REGISTERED;
    const COPY: Info = NppCopy::REGISTERED;

    fn create(options: &Options, shift: u32) -> Result<Self, MemoryError> {
        let array = || Words::create(options);
        let flags = || Bytes::create(options, shift);
        Ok(Self {
            state: array()?,
            shadows: [array()?, array()?],
            flags: [flags()?, flags()?],
            shift,
            mutation: Mutation::current(),
        })
    }
    fn words(&self) -> usize {
        self.state.len()
    }
    fn grow(&mut self, words: usize) -> Result<(), MemoryError> {
        self.flags.iter_mut().try_for_each(|flags| flags.grow(words))?;
        self.shadows.iter_mut().try_for_each(|shadow| shadow.grow(words))?;
        self.state.grow(words)
    }
    fn view(&self) -> Self {
        Self {
            state: self.state.view(),
            shadows: self.shadows.each_ref().map(Words::view),
            flags: self.flags.each_ref().map(Bytes::view),
            shift: self.shift,
            mutation: self.mutation,
        }
    }
    #[inline]
    fn read(&self, index: usize) -> u64 {
        self.state.load(index)
    }
    #[inline]
    fn prefetch(&self, shadow: usize, index: usize) {
        self.state.prefetch(index);
        self.shadows[shadow].prefetch(index);
        self.flags[shadow].prefetch(index >> self.shift);
    }
    #[inline(always)]
    fn replace(&self, shadow: usize, index: usize, new: impl New) {
        let word = self.state.word(index);
        let value = new.of(|| word.load(Ordering::Relaxed));
        word.store(value, Ordering::Relaxed);
        let (flags, shadow) = (&self.flags[shadow], &self.shadows[shadow]);
        let unit = index >> self.shift;
        let in_part = self.mutation.is(Mutant::PingPongWritesPartOfUnit);
        if self.shift != 0 && !flags.get(unit) && !in_part {
            let start = unit << self.shift;
            let len = (1 << self.shift).min(self.state.len() - start);
            shadow.copy_from(start, &self.state, start, len);
        }
        shadow.store(index, value);
        flags.set(unit);
    }
    fn flag(&self, shadow: usize, units: Range<usize>) {
        self.flags[shadow].fill(units, true);
    }
    #[inline]
    fn marks(&self, shadow: usize, block: usize) -> Marks {
        self.flags[shadow].marks(block)
    }
    #[inline]
    fn copy(&self, shadow: usize, start: usize, into: &mut [u64]) {
        self.shadows[shadow].copy_to(start, into);
    }
    fn forget(&self, shadow: usize, block: usize) {
        self.flags[shadow].forget(block);
    }
}

/// IPP: records of four words in half a cache line, so that a write touches one line:
///
/// ```text
/// | A | Odd | Even | flag of Odd: 1 byte, flag of Even: 1 byte, 6 bytes unused |
/// ```
#[derive(Debug)]
pub struct Interleaved {
    records: Words,
}

const RECORD_WORDS: usize = 4;
const SHADOWS: usize = 1;
const FLAGS: usize = 3;

impl Interleaved {
    /// A byte for each shadow.
    #[inline]
    fn flags(&self, index: usize) -> &AtomicU64 {
        &self.records.record::<RECORD_WORDS>(index)[FLAGS]
    }
    /// The words of a block that exist.
    fn block(&self, block: usize) -> Range<usize> {
        block * BLOCK_WORDS..self.words().min((block + 1) * BLOCK_WORDS)
    }
}

impl Layout for Interleaved {
    const MERGE: Info = IppMerge::REGISTERED;
    const COPY: Info = IppCopy::REGISTERED;

    fn create(options: &Options, _shift: u32) -> Result<Self, MemoryError> {
        let records = options.resized(|words| words.saturating_mul(RECORD_WORDS));
        Ok(Self { records: Words::create(&records)? })
    }
    fn words(&self) -> usize {
        self.records.len() / RECORD_WORDS
    }
    fn grow(&mut self, words: usize) -> Result<(), MemoryError> {
        self.records.grow(words.saturating_mul(RECORD_WORDS))
    }
    fn view(&self) -> Self {
        Self { records: self.records.view() }
    }
    #[inline]
    fn read(&self, index: usize) -> u64 {
        self.records.record::<RECORD_WORDS>(index)[0].load(Ordering::Relaxed)
    }
    #[inline]
    fn prefetch(&self, _shadow: usize, index: usize) {
        self.records.prefetch(index * RECORD_WORDS);
    }
    #[inline(always)]
    fn replace(&self, shadow: usize, index: usize, new: impl New) {
        let record = self.records.record::<RECORD_WORDS>(index);
        let value = new.of(|| record[0].load(Ordering::Relaxed));
        record[0].store(value, Ordering::Relaxed);
        record[SHADOWS + shadow].store(value, Ordering::Relaxed);
        byte::store(&record[FLAGS], shadow, 1);
    }
    fn flag(&self, shadow: usize, units: Range<usize>) {
        units.for_each(|index| byte::store(self.flags(index), shadow, 1));
    }
    fn marks(&self, shadow: usize, block: usize) -> Marks {
        Marks::of_words(self.block(block).map(|index| byte::load(self.flags(index), shadow) != 0))
    }
    #[inline]
    fn copy(&self, shadow: usize, start: usize, into: &mut [u64]) {
        self.records.copy_column::<RECORD_WORDS>(start, SHADOWS + shadow, into);
    }
    fn forget(&self, shadow: usize, block: usize) {
        for index in self.block(block) {
            let flags = self.flags(index);
            if byte::load(flags, shadow) != 0 {
                byte::store(flags, shadow, 0);
            }
        }
    }
}
