//! Piggyback (PB). Source: Li et al., "A Comparative Study of Consistent Snapshot Algorithms for
//! Main-Memory Database Systems" (2018), section 3.2.2 and its Algorithm 3, which loses updates as
//! printed and as published in C (docs/research/errata.md); the claim protocol below is ours.
//!
//! Idea: two arrays. In a period the writer writes `A[U]`; `A[D]`, the other one, is the image,
//! whole and not written. Begin swaps `U` and `D`. While the image is dumped, the snapshotter
//! copies (*piggyback*) each unit whose latest value is in `A[D]` alone into `A[U]`, so that `A[U]`
//! is complete when the next begin makes it the image. One byte a unit says where its latest value
//! is.
//!
//! - Memory: 2 copies + 1 byte a unit. Begin: O(1). Read: a flag, then an indexed load. Write: the
//!   flag; the first write of a unit in a period claims it (one CAS), and copies it if it is larger
//!   than the word. Full image, with random access: the image is `A[D]`.
//! - Unit: half a word, a word, line or page. A part is written after the whole unit is in `A[U]`
//!   (the unit rule). Of a word with two units the copier stores one half, which disturbs no writer
//!   of the other.
//! - P1: at begin no unit is only in `A[D]` or being copied, so `A[U]` is complete and latest.
//! - P2: between two begins nobody writes `A[D]`.
//! - P3: a unit's flag says `D` or `COPYING` exactly while its latest value is in `A[D]` alone, or
//!   may be; then reads take it from there, which is right by P2, and never wait.
//!
//! Who may change a flag in a period, and the races by cases. `EQUAL` or `U`: the writer alone, by
//! plain stores; the copier leaves such units alone for the rest of the period. `D`: the winner of
//! the CAS, the writer (to `U`) or the copier (to `COPYING`). `COPYING`: the copier alone.
//! - The copier wins: it writes `A[U][k]`, the writer does not. It ends with a Release store of
//!   `EQUAL`, whose partner is the writer's Acquire load: who sees `EQUAL` sees the copy. A writer
//!   that wants the unit meanwhile waits for one unit copy.
//! - The writer wins: the copier's CAS fails, for good. Both CAS are relaxed: what they decide is
//!   who goes on, and both contenders know all of `A[D]` from before begin (edge 1;
//!   `litmus/piggyback-claim`).
//! - The copier loads a stale `D`: its CAS sees the newest value and fails. The writer reads a
//!   stale `D` or `COPYING`: it reads `A[D][k]`, which has the same value.
//! - The next begin sees all that the copier did, and the next copier all that the writer did, by
//!   the two edges of the hand-over.
//!
//! An image that ends early (dropped, cancelled, refused) must still complete `A[U]` (P1). The view
//! does it when it is dropped, on the snapshotter's thread and before the lease ends: begin stays
//! O(1), and the hand-over says "running" until it is done. The writer at its next begin would
//! stall for O(state).
//!
//! Deviations: the claim; no state "being written" besides `U`, which the writer alone would see;
//! a read of an `EQUAL` unit takes `A[U]`, where the next write goes, not always the first array;
//! the copy of a block is part of its dump (the paper: before; the C code: after), so that the
//! block is read from memory once.

use crate::algorithm::{Algorithm, Half, New, Put, write_by_replace};
use crate::error::{BeginError, MemoryError};
use crate::handover::{Handover, Progress};
use crate::image::{Held, InProcess, Lease, View};
use crate::info::{Grain, Info};
use crate::memory::{Arrays, Item, Place, Tags, Words};
use crate::mutant::Mutant;
use crate::options::Options;
use crate::os::Shared;
use crate::point::Point;
use crate::sink::{BLOCK_WORDS, Sink};
use crate::sync::{AtomicUsize, Backoff, Ordering};

/// The latest value is in both arrays.
const EQUAL: u8 = 0;
/// It is in one array alone: `ONLY + home`.
const ONLY: u8 = 1;
/// It is in `A[D]`; the copier is writing it into `A[U]`.
const COPYING: u8 = 3;

/// State words in two arrays that take turns.
#[derive(Debug)]
pub struct Piggyback {
    homes: Arrays<2>,
    /// `EQUAL`, `ONLY + home` or `COPYING` for each unit.
    locations: Tags,
    /// `U`, the home that is written in this period, is the second.
    is_second: bool,
    /// Bit `state` is the home to read a unit in that state from.
    sources: usize,
    grain: Grain,
    handover: Shared<Handover>,
}

// SAFETY: the conformance suite proves it.
unsafe impl Algorithm for Piggyback {
    type Image<S: Sink + 'static> = InProcess<S, Copier>;
    const INFO: Info = Self::REGISTERED;

    fn create(options: &Options) -> Result<Self, MemoryError> {
        let grain = Grain::from_unit(Self::INFO.unit(options.unit));
        Ok(Self {
            homes: Arrays::create(options, grain)?,
            locations: Tags::create(&options.resized(|words| grain.units(words)))?,
            is_second: false,
            sources: sources(0),
            grain,
            handover: Shared::new(Handover::new())?,
        })
    }

    fn words(&self) -> usize {
        self.homes.len()
    }

    /// New words are zero in both homes, whatever the flag of the unit says that they extend.
    fn grow(&mut self, words: usize) -> Result<(), MemoryError> {
        self.locations.grow(self.grain.units(words))?;
        self.homes.grow(words)
    }

    write_by_replace!(by_halves);

    #[inline]
    fn approach(&self, index: usize) {
        self.homes.array(self.current()).prefetch(index);
        self.locations.prefetch(self.grain.items(index) >> self.grain.shift);
    }

    fn begin<S: Sink + 'static>(
        &mut self,
        _point: Point,
        sink: S,
    ) -> Result<InProcess<S, Copier>, BeginError> {
        self.handover.check_idle()?;
        let copier = Copier {
            homes: [0, 1].map(|home| self.homes.array(home).view()),
            locations: self.locations.view(),
            image: self.current(),
            grain: self.grain,
            done: AtomicUsize::new(0),
            handover: self.handover.clone(),
        };
        self.is_second = !self.is_second;
        self.sources = sources(self.current());
        let lease = Lease::publish(&self.handover, self.words());
        Ok(InProcess::new(copier, Held::new(sink, lease)))
    }

    fn progress(&self) -> Progress {
        Progress::new(&self.handover)
    }
}

/// Where to read a unit from, by its state, in a period in which `current` is written.
const fn sources(current: usize) -> usize {
    let other = 1 - current;
    current << EQUAL | 1 << (ONLY + 1) | other << COPYING
}

impl Piggyback {
    /// `U`.
    #[inline(always)]
    fn current(&self) -> usize {
        usize::from(self.is_second)
    }

    #[inline]
    fn source(&self, state: u8) -> usize {
        self.sources >> state & 1
    }

    /// Whether items are half words.
    #[inline(always)]
    fn halves(&self) -> bool {
        self.grain.halves
    }

    #[inline(always)]
    fn get<T: Item>(&self, item: usize) -> T {
        // Acquire: partner of the Release in `Copier::copy`.
        let state = self.locations.at(item >> self.grain.shift).get(Ordering::Acquire);
        T::load(self.homes.array(self.source(state)), item)
    }

    #[inline(always)]
    fn replace<T: Item>(&mut self, item: usize, new: impl New<T>) -> bool {
        let Some(place) = self.homes.find::<T>(item) else { return false };
        self.put(place, item, new);
        true
    }

    #[inline(always)]
    fn replace_half(&mut self, item: usize, value: u32) -> bool {
        let Some(place) = self.homes.find::<u64>(item / 2) else { return false };
        let whole = !self.handover.is(Mutant::TwoHomesWritePart);
        self.put(place, item / 2, Half { item, value, whole });
        true
    }

    /// Replaces a unit of one item.
    #[inline(always)]
    fn put<T: Item>(&self, place: Place<'_, T, 2>, unit: usize, new: impl Put<T>) {
        let (location, current) = (self.locations.at(unit), self.current());
        let source = self.source(location.get(Ordering::Acquire)); // as in `get`
        let (moves, is_early) = (source != current, self.handover.is(Mutant::PiggybackClaimsFirst));
        if moves && is_early {
            self.claim(unit);
        }
        let new = new.resolve(place, source);
        if moves && !is_early {
            self.claim(unit);
        }
        // From here on the copier leaves the unit alone. `A[D]` has the old value after the claim
        // too, whichever thread won it (P2, P3).
        new.put(place, source, current);
        location.set(ONLY + current as u8, Ordering::Relaxed);
    }

    /// Replaces an item of a unit that has several.
    #[inline(always)]
    fn replace_in_unit<T: Item>(&mut self, item: usize, new: impl New<T>) {
        let unit = (item / T::PER_WORD) >> self.grain.shift;
        let (location, current) = (self.locations.at(unit), self.current());
        if self.source(location.get(Ordering::Acquire)) != current {
            self.claim_long(unit);
        }
        let here = self.homes.array(current); // where all of the unit is now
        T::store(here, item, new.resolve(|| T::load(here, item)));
        location.set(ONLY + current as u8, Ordering::Relaxed);
    }

    /// Takes a unit whose latest value may be in `A[D]` alone away from the copier. Returns whether
    /// the writer did; else the copier has copied it.
    #[inline]
    fn claim(&self, unit: usize) -> bool {
        let [old, new] = [1 - self.current(), self.current()].map(|home| ONLY + home as u8);
        is_unclaimed(&self.handover)
            || self.locations.at(unit).claim(old, new, Ordering::Relaxed)
            || self.claim_slowly(unit, old, new)
    }

    /// A claim that met the copier.
    #[cold]
    #[inline(never)]
    fn claim_slowly(&self, unit: usize, old: u8, new: u8) -> bool {
        let mut backoff = Backoff::default();
        loop {
            // It is being copied, or has been.
            if self.locations.at(unit).get(Ordering::Acquire) == EQUAL {
                return false;
            }
            backoff.wait();
            if self.locations.at(unit).claim(old, new, Ordering::Relaxed) {
                return true;
            }
        }
    }

    /// Claims a unit of several words, and brings it into `A[U]`.
    #[inline(never)]
    fn claim_long(&self, unit: usize) {
        if !self.claim(unit) || self.handover.is(Mutant::TwoHomesWritePart) {
            return;
        }
        let start = unit << self.grain.shift;
        let length = self.words().saturating_sub(start).min(1 << self.grain.shift);
        let [to, from] = [self.current(), 1 - self.current()].map(|home| self.homes.array(home));
        to.copy_from(start, from, start, length);
    }
}

/// The mistakes of the printed and of the published version.
fn is_unclaimed(handover: &Handover) -> bool {
    handover.is(Mutant::PiggybackFlagThenCopy) || handover.is(Mutant::PiggybackCopyThenFlag)
}

/// The image, and the duty to complete the other array.
#[derive(Debug)]
pub struct Copier {
    homes: [Words; 2],
    locations: Tags,
    /// `D`: the home that is the image.
    image: usize,
    grain: Grain,
    /// Words before are no longer in the image's home alone.
    done: AtomicUsize,
    handover: Shared<Handover>,
}

impl Copier {
    /// Copies the units of `length` words from `start` on into the other home where they are in the
    /// image's home alone.
    fn copy(&self, start: usize, length: usize) {
        let end = start + length;
        let units = self.grain.items(start) >> self.grain.shift..self.grain.units(end);
        self.locations.each(units, ONLY + self.image as u8, |unit| self.copy_unit(unit));
        self.done.store(end, Ordering::Relaxed);
    }

    fn copy_unit(&self, unit: usize) {
        let (from, to) = (&self.homes[self.image & 1], &self.homes[(1 - self.image) & 1]);
        if self.handover.is(Mutant::PiggybackFlagThenCopy) {
            self.locations.at(unit).set(EQUAL, Ordering::Release);
        } else if !self.handover.is(Mutant::PiggybackCopyThenFlag)
            && !self.locations.at(unit).claim(ONLY + self.image as u8, COPYING, Ordering::Relaxed)
        {
            return; // the writer was first
        }
        if self.grain.halves && !self.handover.is(Mutant::PiggybackCopiesWord) {
            u32::store(to, unit, u32::load(from, unit));
        } else if self.grain.halves {
            to.store(unit / 2, from.load(unit / 2));
        } else {
            let start = unit << self.grain.shift;
            let length = (from.len() - start).min(1 << self.grain.shift);
            to.copy_from(start, from, start, length);
        }
        if self.handover.is(Mutant::PiggybackRelaxedCopied) {
            self.locations.at(unit).set(EQUAL, Ordering::Relaxed);
        } else if !self.handover.is(Mutant::PiggybackFlagThenCopy) {
            // Partner: the Acquire loads in `read`, `write` and `claim`.
            self.locations.at(unit).set(EQUAL, Ordering::Release);
        }
    }
}

impl View for Copier {
    fn block(&self, block: usize, into: &mut [u64]) {
        let start = block * BLOCK_WORDS;
        self.homes[self.image & 1].copy_to(start, into);
        self.copy(start, into.len());
    }

    fn pass(&self, block: usize, len: usize) {
        let start = block * BLOCK_WORDS;
        if self.handover.is(Mutant::PiggybackForgetsDeclined) {
            return self.done.store(start + len, Ordering::Relaxed);
        }
        self.copy(start, len);
    }

    fn word(&self, index: usize) -> u64 {
        self.homes[self.image & 1].load(index)
    }
}

impl Drop for Copier {
    /// Completes what an image that ended early left (P1); the lease ends after this.
    fn drop(&mut self) {
        if self.handover.is(Mutant::PiggybackForgetsRest) {
            return;
        }
        self.handover.end_early(Mutant::PiggybackEndsBeforeRest);
        let words = self.homes[self.image & 1].len();
        loop {
            let done = self.done.load(Ordering::Relaxed);
            if done >= words {
                return;
            }
            self.copy(done, BLOCK_WORDS.min(words - done));
        }
    }
}
