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
//! - Unit: half a word or a word; NPP line or page as well (the first write of a period into a
//!   longer unit copies all of it into `cur`: the unit rule).
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
//! the base was dumped in time). A settled image clears its flags. `docs/research/errata.md`.

use std::fmt;
use std::marker::PhantomData;
use std::ops::Range;

use super::flags::Bytes;
use crate::algorithm::{Algorithm, Half, New, Patched, Put, write_by_replace};
use crate::error::{BeginError, MemoryError};
use crate::handover::{Handover, Progress};
use crate::image::{ByArray, BySink, Changes, Completion, Increment, Lease, Marks, fold, rewrite};
use crate::info::{Grain, Info};
use crate::memory::{Arrays, Item, Records, Words, byte, join, out_of_bounds, with_half};
use crate::mutant::{Mutant, Mutation};
use crate::options::Options;
use crate::os::Shared;
use crate::point::Point;
use crate::sealed::Sealed;
use crate::sink::{BLOCK_WORDS, Sink};
use crate::sync::AtomicU64;

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
    /// Which shadow is `cur`: Even, or Odd.
    is_even: bool,
    grain: Grain,
    handover: Shared<Handover>,
    completion: PhantomData<C>,
}

/// Where the state, its two shadows and their flags lie in memory.
pub trait Layout: Sealed + fmt::Debug + Sized + Send + 'static {
    /// The registry's line of images that the sink completes.
    const MERGE: Info;
    /// The registry's line of images that are completed in memory.
    const COPY: Info;
    /// Zero words, no flag set.
    ///
    /// # Errors
    /// [`MemoryError`] when the system refuses the memory.
    fn create(options: &Options, grain: Grain) -> Result<Self, MemoryError>;
    /// Words of state.
    fn words(&self) -> usize;
    /// Makes room for `words` words, all zero, no flag set.
    ///
    /// # Errors
    /// [`MemoryError`]; the number of words is as before.
    fn grow(&mut self, words: usize) -> Result<(), MemoryError>;
    /// The same memory for another thread.
    fn view(&self) -> Self;
    /// An item of the state.
    fn get<T: Item>(&self, item: usize) -> T;
    /// Brings near what [`replace`](Self::replace) looks at.
    fn prefetch(&self, shadow: usize, index: usize);
    /// Replaces an item of the state that is a unit; `shadow` then holds it, and the flag is set.
    /// The old value comes from the state: no shadow is read. If items are not units, or out of
    /// bounds, it returns `false`, and nothing is replaced.
    fn replace<T: Item>(&self, shadow: usize, item: usize, new: impl New<T>) -> bool;
    /// The same for half of a word that is a unit.
    #[inline(always)]
    fn replace_half(&self, shadow: usize, item: usize, value: u32) -> bool {
        self.replace(shadow, item / 2, Patched(|word| with_half(word, item, value)))
    }
    /// Replaces an item of a unit that has several; `shadow` then holds the unit whole. Panics if
    /// the item is out of bounds.
    fn replace_in_unit<T: Item>(&self, shadow: usize, item: usize, new: impl New<T>);
    /// Flags units whose value `shadow` holds.
    fn flag(&self, shadow: usize, units: Range<usize>);
    /// See [`Changes::marks`]; for `whole`, [`Changes::whole`].
    fn marks(&self, shadow: usize, block: usize, whole: bool) -> Marks;
    /// See [`Changes::copy`].
    fn copy(&self, shadow: usize, start: usize, into: &mut [u64]);
    /// See [`Changes::half`].
    fn half(&self, shadow: usize, index: usize) -> Option<u32>;
    /// See [`Changes::forget`].
    fn forget(&self, shadow: usize, block: usize);
}

// SAFETY: the conformance suite proves it.
unsafe impl<L: Layout, C: Completion> Algorithm for PingPong<L, C> {
    type Image<S: Sink + 'static> = Increment<S, Shadow<L>>;
    const INFO: Info = if C::IN_MEMORY { L::COPY } else { L::MERGE };

    fn create(options: &Options) -> Result<Self, MemoryError> {
        let grain = Grain::from_unit(Self::INFO.unit(options.unit));
        let state = Self {
            layout: L::create(options, grain)?,
            previous: C::IN_MEMORY.then(|| Words::create(options)).transpose()?,
            is_even: false,
            grain,
            handover: Shared::new(Handover::new())?,
            completion: PhantomData,
        };
        let in_previous = state.handover.is(Mutant::PingPongFlagsBaseInPrevious);
        state.layout.flag(usize::from(in_previous), 0..grain.units(options.words));
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
            if !before.is_multiple_of(1 << self.grain.shift) {
                rewrite(self, before - 1); // its unit has become longer
            }
            self.layout.flag(self.current(), self.grain.units(before)..self.grain.units(words));
        }
        Ok(())
    }

    write_by_replace!(by_halves);

    #[inline]
    fn approach(&self, index: usize) {
        self.layout.prefetch(self.current(), index);
    }

    fn begin<S: Sink + 'static>(
        &mut self,
        _point: Point,
        sink: S,
    ) -> Result<Increment<S, Shadow<L>>, BeginError> {
        self.handover.check_idle()?;
        if self.handover.left_marks() {
            let (left, current) = (self.shadow(1 - self.current()), self.shadow(self.current()));
            fold(self, &left, &current, self.grain);
        }
        let mut ended = self.shadow(self.current());
        self.is_even = !self.is_even;
        if self.handover.is(Mutant::PingPongDumpsCurrent) {
            ended = self.shadow(self.current());
        }
        let lease = Lease::publish(&self.handover, self.words());
        Ok(Increment::new(ended, self.previous.as_ref(), sink, lease))
    }

    fn progress(&self) -> Progress {
        Progress::new(&self.handover)
    }
}

impl<L: Layout, C: Completion> PingPong<L, C> {
    /// Whether items are half words.
    #[inline(always)]
    fn halves(&self) -> bool {
        self.grain.halves
    }

    #[inline(always)]
    fn get<T: Item>(&self, item: usize) -> T {
        self.layout.get(item)
    }

    #[inline(always)]
    fn replace<T: Item>(&mut self, item: usize, new: impl New<T>) -> bool {
        self.layout.replace(self.current(), item, new)
    }

    #[inline(always)]
    fn replace_half(&mut self, item: usize, value: u32) -> bool {
        self.layout.replace_half(self.current(), item, value)
    }

    #[inline(always)]
    fn replace_in_unit<T: Item>(&mut self, item: usize, new: impl New<T>) {
        self.layout.replace_in_unit(self.current(), item, new);
    }

    /// The shadow that is `cur`.
    #[inline(always)]
    fn current(&self) -> usize {
        usize::from(self.is_even)
    }

    fn shadow(&self, shadow: usize) -> Shadow<L> {
        Shadow { layout: self.layout.view(), shadow }
    }
}

/// A shadow and its flags, seen by their owner.
#[derive(Debug)]
pub struct Shadow<L> {
    layout: L,
    shadow: usize,
}

impl<L: Layout> Changes for Shadow<L> {
    fn marks(&self, block: usize) -> Marks {
        self.layout.marks(self.shadow, block, false)
    }
    fn whole(&self, block: usize) -> Marks {
        self.layout.marks(self.shadow, block, true)
    }
    fn half(&self, index: usize) -> Option<u32> {
        self.layout.half(self.shadow, index)
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
    /// The state, Odd and Even.
    arrays: Arrays<3>,
    flags: [Bytes; 2],
    grain: Grain,
    mutation: Mutation,
}

impl Sealed for Separate {}
impl Layout for Separate {
    const MERGE: Info = NppMerge::REGISTERED;
    const COPY: Info = NppCopy::REGISTERED;

    fn create(options: &Options, grain: Grain) -> Result<Self, MemoryError> {
        let flags = || Bytes::create(options, grain);
        Ok(Self {
            arrays: Arrays::create(options, grain)?,
            flags: [flags()?, flags()?],
            grain,
            mutation: Mutation::current(),
        })
    }
    fn words(&self) -> usize {
        self.arrays.len()
    }
    fn grow(&mut self, words: usize) -> Result<(), MemoryError> {
        self.flags.iter_mut().try_for_each(|flags| flags.grow(words))?;
        self.arrays.grow(words)
    }
    fn view(&self) -> Self {
        Self {
            arrays: self.arrays.view(),
            flags: self.flags.each_ref().map(Bytes::view),
            grain: self.grain,
            mutation: self.mutation,
        }
    }
    #[inline(always)]
    fn get<T: Item>(&self, item: usize) -> T {
        T::load(self.arrays.array(STATE), item)
    }
    #[inline]
    fn prefetch(&self, shadow: usize, index: usize) {
        self.arrays.array(STATE).prefetch(index);
        self.arrays.array(SHADOWS + shadow).prefetch(index);
        self.flags[shadow].prefetch(self.grain.items(index) >> self.grain.shift);
    }
    #[inline(always)]
    fn replace<T: Item>(&self, shadow: usize, item: usize, new: impl New<T>) -> bool {
        let Some(place) = self.arrays.find::<T>(item) else { return false };
        let (shadow, value) = (shadow & 1, new.resolve(|| place.load(STATE)));
        place.store(STATE, value);
        place.store(SHADOWS + shadow, value);
        self.flags[shadow].set(item);
        true
    }
    /// The word is copied, and its half stored twice: to patch the word takes more.
    #[inline(always)]
    fn replace_half(&self, shadow: usize, item: usize, value: u32) -> bool {
        let Some(place) = self.arrays.find::<u64>(item / 2) else { return false };
        let whole = !self.mutation.is(Mutant::PingPongWritesPartOfUnit);
        Half { item, value, whole }.put(place, STATE, SHADOWS + (shadow & 1));
        place.store_half(STATE, item, value);
        self.flags[shadow & 1].set(item / 2);
        true
    }
    #[inline(always)]
    fn replace_in_unit<T: Item>(&self, shadow: usize, item: usize, new: impl New<T>) {
        let (unit, state) = ((item / T::PER_WORD) >> self.grain.shift, self.arrays.array(STATE));
        let (flags, shadow) = (&self.flags[shadow], self.arrays.array(SHADOWS + shadow));
        let value = new.resolve(|| T::load(state, item));
        T::store(state, item, value);
        if !flags.get(unit) && !self.mutation.is(Mutant::PingPongWritesPartOfUnit) {
            let start = unit << self.grain.shift;
            let len = (1 << self.grain.shift).min(state.len() - start);
            shadow.copy_from(start, state, start, len);
        }
        T::store(shadow, item, value);
        flags.set(unit);
    }
    fn flag(&self, shadow: usize, units: Range<usize>) {
        self.flags[shadow].fill(units, true);
    }
    #[inline]
    fn marks(&self, shadow: usize, block: usize, whole: bool) -> Marks {
        self.flags[shadow].marks(block, whole)
    }
    fn half(&self, shadow: usize, index: usize) -> Option<u32> {
        let shadow_of = || self.arrays.array(SHADOWS + shadow);
        self.flags[shadow].get(index).then(|| u32::load(shadow_of(), index))
    }
    #[inline]
    fn copy(&self, shadow: usize, start: usize, into: &mut [u64]) {
        self.arrays.array(SHADOWS + shadow).copy_to(start, into);
    }
    fn forget(&self, shadow: usize, block: usize) {
        self.flags[shadow].forget(block);
    }
}

/// IPP: records of four items (of 32 bytes, or of 16 for half words), so that a write touches one
/// line:
///
/// ```text
/// | A | Odd | Even | flag of Odd: 1 byte, flag of Even: 1 byte, the rest unused |
/// ```
#[derive(Debug)]
pub struct Interleaved {
    records: Words,
    grain: Grain,
    /// The same, if they are of words; else none, so that the test of bounds is that of the size.
    of_words: Records<RECORD>,
    /// The same, if they are of halves; else none.
    of_halves: Records<{ RECORD / 2 }>,
}

/// Items in a record; as many words in one of words.
const RECORD: usize = 4;
/// In a record, or among the arrays: the state, and the first shadow.
const STATE: usize = 0;
const SHADOWS: usize = 1;
const FLAGS: usize = 3;
/// Where the flags begin in the second word of a record of halves, whose higher half they are.
const HIGH_HALF: usize = if cfg!(target_endian = "big") { 0 } else { 4 };

impl Interleaved {
    fn new(records: Words, grain: Grain) -> Self {
        let [words, halves] = if grain.halves { [0, usize::MAX] } else { [usize::MAX, 0] };
        let of_words = Records::new(&records, words);
        let of_halves = Records::new(&records, halves);
        Self { records, grain, of_words, of_halves }
    }
    /// The word that holds an item's flags, and which of its bytes is that of `shadow`.
    #[inline(always)]
    fn flag_of(&self, shadow: usize, item: usize) -> (&AtomicU64, usize) {
        if self.grain.halves {
            (&self.records.record::<{ RECORD / 2 }>(item)[1], HIGH_HALF + shadow)
        } else {
            (&self.records.record::<RECORD>(item)[FLAGS], shadow)
        }
    }
    fn has_flag(&self, shadow: usize, item: usize) -> bool {
        let (word, byte) = self.flag_of(shadow, item);
        byte::load(word, byte) != 0
    }
    /// The words of a block that exist.
    fn block(&self, block: usize) -> Range<usize> {
        block * BLOCK_WORDS..self.words().min((block + 1) * BLOCK_WORDS)
    }
}

impl Sealed for Interleaved {}
impl Layout for Interleaved {
    const MERGE: Info = IppMerge::REGISTERED;
    const COPY: Info = IppCopy::REGISTERED;

    fn create(options: &Options, grain: Grain) -> Result<Self, MemoryError> {
        // Two records of halves are as long as one of words.
        let records = options.resized(|words| words.saturating_mul(RECORD));
        Ok(Self::new(Words::create(&records)?, grain))
    }
    fn words(&self) -> usize {
        self.records.len() / RECORD
    }
    fn grow(&mut self, words: usize) -> Result<(), MemoryError> {
        self.records.grow(words.saturating_mul(RECORD))?;
        *self = self.view();
        Ok(())
    }
    fn view(&self) -> Self {
        Self::new(self.records.view(), self.grain)
    }
    #[inline(always)]
    fn get<T: Item>(&self, item: usize) -> T {
        T::load(&self.records, item.saturating_mul(RECORD))
    }
    #[inline]
    fn prefetch(&self, _shadow: usize, index: usize) {
        self.records.prefetch(index * RECORD);
    }
    #[inline(always)]
    fn replace<T: Item>(&self, shadow: usize, item: usize, new: impl New<T>) -> bool {
        let shadow = shadow & 1;
        if T::PER_WORD == 1 {
            let Some((record, _)) = self.of_words.find(item) else { return false };
            let value = new.resolve(|| T::load_part(&record[0], 0));
            T::store_part(&record[0], 0, value);
            T::store_part(&record[SHADOWS + shadow], 0, value);
            byte::store(&record[FLAGS], shadow, 1);
        } else {
            let Some((record, _)) = self.of_halves.find(item) else { return false };
            let value = new.resolve(|| T::load_part(&record[0], 0));
            T::store_part(&record[0], 0, value);
            let position = SHADOWS + shadow;
            T::store_part(&record[position / 2], position, value);
            byte::store(&record[FLAGS / 2], HIGH_HALF + shadow, 1);
        }
        true
    }
    fn replace_in_unit<T: Item>(&self, _shadow: usize, item: usize, _new: impl New<T>) {
        out_of_bounds(item / T::PER_WORD, self.words()); // every unit is one item
    }
    fn flag(&self, shadow: usize, units: Range<usize>) {
        for item in units {
            let (word, byte) = self.flag_of(shadow, item);
            byte::store(word, byte, 1);
        }
    }
    fn marks(&self, shadow: usize, block: usize, whole: bool) -> Marks {
        Marks::of_words(self.block(block).map(|index| {
            if !self.grain.halves {
                return self.has_flag(shadow, index);
            }
            let [low, high] = [0, 1].map(|half| self.has_flag(shadow, 2 * index + half));
            if whole { low & high } else { low | high }
        }))
    }
    #[inline]
    fn copy(&self, shadow: usize, start: usize, into: &mut [u64]) {
        if !self.grain.halves {
            return self.records.copy_column::<RECORD>(start, SHADOWS + shadow, into);
        }
        for (index, word) in (start..).zip(into) {
            let position = |half| (2 * index + half) * RECORD + SHADOWS + shadow;
            *word = join([0, 1].map(|half| u32::load(&self.records, position(half))));
        }
    }
    fn half(&self, shadow: usize, index: usize) -> Option<u32> {
        let position = index * RECORD + SHADOWS + shadow;
        self.has_flag(shadow, index).then(|| u32::load(&self.records, position))
    }
    fn forget(&self, shadow: usize, block: usize) {
        let words = self.block(block);
        for item in self.grain.items(words.start)..self.grain.items(words.end) {
            let (word, flag) = self.flag_of(shadow, item);
            if byte::load(word, flag) != 0 {
                byte::store(word, flag, 0);
            }
        }
    }
}
