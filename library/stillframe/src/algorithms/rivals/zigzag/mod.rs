//! Zigzag (ZZ). Source: Cao et al., "Fast Checkpoint Recovery Algorithms for Frequently Consistent
//! Applications" (SIGMOD 2011), section 3.2, with the memory layouts of section 4.2; Li et al.
//! 2018, section 3.1.3.
//!
//! Idea: every unit has two homes, `A0` and `A1`. `MR` says which one holds the latest value, `MW`
//! which one is written in this period. At its point of consistency the writer sets `MW := !MR` for
//! all units: what is latest now is not written until the next image, and is that image.
//!
//! - Memory: 2 copies + 2 flags a unit (`layouts` says how each lays them out). Begin: O(units),
//!   the negation. Read: a flag, then an indexed load. Write: a flag more; the first write of a
//!   unit larger than a word copies the unit. Full image, wait-free, with random access.
//! - Unit: half a word, a word, line or page; [`Izz`] and [`Pzz`] no longer ones than a word, since
//!   their layout is about words.
//! - I1: `MW` does not change between two begins, so `A[!MW[k]][k]` is not written in
//!   between.
//! - I2: right after begin `!MW[k] = MR[k]`, so that immutable home is what was latest.
//! - I3: both homes of a word are equal (zero) until it is first written.
//!
//! Races: none. `MR` is the writer's alone; `MW` is stored at begin only, between the two edges of
//! the hand-over; by I1 the snapshotter reads what no thread writes. Where bits of `MR` and `MW`
//! share a word (IZZ), the writer stores the bits of `MW` as they were, in one atomic store.
//!
//! Deviations. (a) Flags start as 0 and 0, not `MR` 0 and `MW` 1: until the first begin no image
//! needs the other home, and memory from the system need not be touched. (b) The unit rule: a part
//! of a unit is written as the whole unit, copied from its latest home first; the papers write
//! whole units only, the published code writes parts (docs/research/errata-code.md).

mod layouts;

use crate::algorithm::{Algorithm, New, write_by_replace};
use crate::error::{BeginError, MemoryError};
use crate::handover::{Handover, Progress};
use crate::image::{Held, InProcess, Lease, View};
use crate::info::{Grain, Info};
use crate::memory::{Item, join, out_of_bounds};
use crate::mutant::Mutant;
use crate::options::Options;
use crate::os::Shared;
use crate::point::Point;
use crate::sink::{BLOCK_WORDS, Sink};

pub use layouts::{Apart, Bits, Bytes, Column, InLine, Layout, Row};

/// Zigzag with separate arrays and one byte a flag.
pub type Nzz = Zigzag<Apart<Bytes>>;
/// Zigzag with records: the homes and flags of a word lie in one cache line.
pub type Izz = Zigzag<InLine<Row>>;
/// Zigzag with lines that hold one column each of homes and flags.
pub type Pzz = Zigzag<InLine<Column>>;
/// Zigzag with separate homes and one array of packed bits.
pub type Bazz = Zigzag<Apart<Bits>>;

/// State words with two homes each.
#[derive(Debug)]
pub struct Zigzag<L> {
    layout: L,
    grain: Grain,
    handover: Shared<Handover>,
}

// SAFETY: the conformance suite proves it.
unsafe impl<L: Layout> Algorithm for Zigzag<L> {
    type Image<S: Sink + 'static> = InProcess<S, Frozen<L>>;
    const INFO: Info = L::INFO;

    fn create(options: &Options) -> Result<Self, MemoryError> {
        let grain = Grain::from_unit(L::INFO.unit(options.unit));
        let layout = L::create(options, grain)?;
        let mut state = Self { layout, grain, handover: Shared::new(Handover::new())? };
        state.spoil_second_copy(0);
        Ok(state)
    }

    fn words(&self) -> usize {
        self.layout.len()
    }

    fn grow(&mut self, words: usize) -> Result<(), MemoryError> {
        let before = self.words();
        if words > before {
            self.layout.grow(words, self.grain)?;
            self.spoil_second_copy(before);
        }
        Ok(())
    }

    write_by_replace!(by_halves);

    #[inline]
    fn approach(&self, index: usize) {
        self.layout.prefetch(index, self.grain.items(index) >> self.shift());
    }

    fn begin<S: Sink + 'static>(
        &mut self,
        _point: Point,
        sink: S,
    ) -> Result<InProcess<S, Frozen<L>>, BeginError> {
        self.handover.check_idle()?;
        if self.handover.is(Mutant::ZigzagFlipsTargets) {
            self.layout.flip_targets();
        } else if !self.handover.is(Mutant::ZigzagForgetsNegation) {
            self.layout.negate();
        }
        let frozen = Frozen { layout: self.layout.view(), grain: self.grain };
        let lease = Lease::publish(&self.handover, self.words());
        Ok(InProcess::new(frozen, Held::new(sink, lease)))
    }

    fn progress(&self) -> Progress {
        Progress::new(&self.handover)
    }
}

/// Items in a layout's units, as a shift: a constant where units are items, so that the division of
/// an item into line and place is done once.
#[inline]
fn shift_of<L: Layout>(grain: Grain) -> u32 {
    if L::HAS_LONG_UNITS { grain.shift } else { 0 }
}

impl<L: Layout> Zigzag<L> {
    #[inline]
    fn shift(&self) -> u32 {
        shift_of::<L>(self.grain)
    }

    /// Whether items are half words.
    #[inline(always)]
    fn halves(&self) -> bool {
        self.grain.halves
    }

    #[inline(always)]
    fn get<T: Item>(&self, item: usize) -> T {
        let home = self.layout.latest::<T>(item >> self.shift());
        self.layout.load(home, item)
    }

    #[inline(always)]
    fn replace<T: Item>(&mut self, item: usize, new: impl New<T>) -> bool {
        self.layout.replace(item, new)
    }

    #[inline(always)]
    fn replace_half(&mut self, item: usize, value: u32) -> bool {
        self.layout.replace_half(item, value, !self.handover.is(Mutant::TwoHomesWritePart))
    }

    /// Replaces an item of a unit that has several.
    #[inline(always)]
    fn replace_in_unit<T: Item>(&mut self, item: usize, new: impl New<T>) {
        let index = item / T::PER_WORD;
        if !L::HAS_LONG_UNITS {
            out_of_bounds(index, self.words());
        }
        let unit = index >> self.shift();
        let home = self.layout.target::<u64>(unit);
        let latest = self.layout.latest::<u64>(unit);
        if latest != home {
            self.move_unit(unit, latest, home);
        }
        self.layout.store(home, item, new.resolve(|| self.layout.load(home, item)));
    }

    /// The unit rule: before a part of a unit is written into the other home, all of it is.
    #[inline(never)]
    fn move_unit(&mut self, unit: usize, from: usize, to: usize) {
        if self.handover.is(Mutant::TwoHomesWritePart) {
            return;
        }
        let start = unit << self.grain.shift;
        let end = self.words().min((unit + 1) << self.grain.shift);
        self.layout.move_run(start, end.max(start), from, to);
        self.layout.set_latest::<u64>(unit, to);
    }

    /// The authors' mistake: the second copy of words `from..` is never set.
    fn spoil_second_copy(&mut self, from: usize) {
        if self.handover.is(Mutant::ZigzagSecondCopyUninitialised) {
            for item in self.grain.items(from)..self.grain.items(self.words()) {
                if self.halves() {
                    self.layout.store(1, item, 0xdead_beef_u32);
                } else {
                    self.layout.store(1, item, 0xdead_beef_u64);
                }
            }
        }
    }
}

/// The homes that are not written until the next begin.
#[derive(Debug)]
pub struct Frozen<L> {
    layout: L,
    grain: Grain,
}

impl<L: Layout> Frozen<L> {
    #[inline]
    fn shift(&self) -> u32 {
        shift_of::<L>(self.grain)
    }

    /// An item from the home that is not written.
    #[inline]
    fn get<T: Item>(&self, item: usize) -> T {
        let home = 1 - self.layout.target::<T>(item >> self.shift());
        self.layout.load(home, item)
    }
}

impl<L: Layout> View for Frozen<L> {
    fn block(&self, block: usize, into: &mut [u64]) {
        let start = block * BLOCK_WORDS;
        if self.shift() == 0 {
            for (offset, word) in into.iter_mut().enumerate() {
                *word = self.word(start + offset);
            }
            return;
        }
        let shift = self.grain.shift;
        for (unit, run) in (start >> shift..).zip(into.chunks_mut(1 << shift)) {
            self.layout.copy_to(1 - self.layout.target::<u64>(unit), unit << shift, run);
        }
    }

    fn pass(&self, _block: usize, _len: usize) {} // a block is but read

    #[inline]
    fn word(&self, index: usize) -> u64 {
        if self.grain.halves {
            return join([0, 1].map(|half| self.get::<u32>(2 * index + half)));
        }
        self.get::<u64>(index)
    }
}
