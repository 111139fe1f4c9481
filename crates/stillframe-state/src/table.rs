//! Slots that are used, freed and used again.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::marker::PhantomData;

use stillframe::MemoryError;
use zerocopy::{FromBytes, Immutable, IntoBytes};

use crate::chunks::Chunks;
use crate::column::update;
use crate::layout::{Layout, State, places};
use crate::mutant::{Mutant, Mutation};
use crate::record::{Record, load, save};
use crate::source::{Source, Target};

/// In the low half of the first word of a slot: it is in use. Else that is the next free slot plus
/// one.
const IN_USE: u64 = u32::MAX as u64;

/// Records in slots. A record keeps its slot until it is removed; a free slot is used again.
///
/// Inserting takes time that does not depend on the length, and moves no record. A table grows with
/// the state and never shrinks. Each slot takes a word beside the record.
#[derive(Debug)]
pub struct Table<T> {
    /// Records; slots that were ever used; the newest free slot plus one; the directory.
    at: usize,
    of: PhantomData<fn() -> T>,
}

const LEN: usize = 0;
const SLOTS: usize = 1;
const FREE: usize = 2;
const DIRECTORY: usize = 3;

/// Names a record in a table: a word. The slot of a record that is gone names nothing, not even the
/// record that has its place now, until that place was used four thousand million times.
#[derive(FromBytes, IntoBytes, Immutable)]
#[repr(transparent)]
pub struct Slot<T> {
    /// The generation, from 1, in the high half; the index in the low half.
    word: u64,
    of: PhantomData<fn() -> T>,
}

impl<T> Slot<T> {
    /// Names no record of any table.
    pub const NONE: Self = Self { word: 0, of: PhantomData };

    fn new(index: usize, generation: u64) -> Self {
        Self { word: generation << 32 | index as u64, of: PhantomData }
    }
    /// Its number among the slots of its table, from 0.
    #[inline]
    #[must_use]
    pub fn index(self) -> usize {
        (self.word & u64::from(u32::MAX)) as usize
    }
    #[inline]
    fn generation(self) -> u64 {
        self.word >> 32
    }
    /// Whether it is [`NONE`](Self::NONE).
    #[inline]
    #[must_use]
    pub fn is_none(self) -> bool {
        self.word == 0
    }
}

impl<T: Record> Table<T> {
    const CHUNKS: Chunks = Chunks::new(0, 1 + T::WORDS);

    #[inline]
    fn chunks(&self) -> Chunks {
        Self::CHUNKS.with_directory(self.at + DIRECTORY)
    }

    /// Records in the table.
    #[must_use]
    pub fn len(&self, source: &(impl Source + ?Sized)) -> usize {
        source.read(self.at + LEN) as usize
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self, source: &(impl Source + ?Sized)) -> bool {
        self.len(source) == 0
    }

    /// Puts a record into a slot that is free, or into a new one.
    ///
    /// # Errors
    /// [`MemoryError`] if the state cannot grow; nothing changes.
    pub fn insert(&self, target: &mut impl Target, value: T) -> Result<Slot<T>, MemoryError> {
        let free = target.read(self.at + FREE) as usize;
        let (index, generation) = if free != 0 {
            let head = target.read(self.chunks().at(target, free - 1));
            target.write(self.at + FREE, head & IN_USE);
            (free - 1, head >> 32)
        } else {
            let slots = target.read(self.at + SLOTS) as usize;
            self.chunks().make_room(target, slots)?;
            target.write(self.at + SLOTS, slots as u64 + 1);
            (slots, 1)
        };
        let at = self.chunks().at(target, index);
        target.write(at, generation << 32 | IN_USE);
        save(target, at + 1, &value);
        target.write(self.at + LEN, target.read(self.at + LEN) + 1);
        Ok(Slot::new(index, generation))
    }

    /// The word before the record, if `slot` names one.
    #[inline]
    fn find(&self, source: &(impl Source + ?Sized), slot: Slot<T>) -> Option<usize> {
        // A slot that was never used is zero, which no handle names.
        let at = self.chunks().find(source, slot.index())?;
        (source.read(at) == (slot.generation() << 32 | IN_USE)).then_some(at)
    }

    /// The record in `slot`.
    #[inline]
    #[must_use]
    pub fn get(&self, source: &(impl Source + ?Sized), slot: Slot<T>) -> Option<T> {
        Some(load(source, self.find(source, slot)? + 1))
    }

    /// Whether `slot` names a record.
    #[must_use]
    pub fn contains(&self, source: &(impl Source + ?Sized), slot: Slot<T>) -> bool {
        self.find(source, slot).is_some()
    }

    /// Replaces the record in `slot`. Returns `None`, and does nothing, if there is none.
    #[inline]
    pub fn set(&self, target: &mut impl Target, slot: Slot<T>, value: T) -> Option<()> {
        let at = self.find(target, slot)?;
        save(target, at + 1, &value);
        Some(())
    }

    /// Changes the record in `slot`, if there is one; only words that differ are written.
    #[inline]
    pub fn update<R>(
        &self,
        target: &mut impl Target,
        slot: Slot<T>,
        change: impl FnOnce(&mut T) -> R,
    ) -> Option<R> {
        let at = self.find(target, slot)?;
        Some(update(target, at + 1, change))
    }

    /// Removes the record in `slot`, and returns it if there was one.
    pub fn remove(&self, target: &mut impl Target, slot: Slot<T>) -> Option<T> {
        let at = self.find(target, slot)?;
        let value = load(target, at + 1);
        let mut generation = (slot.generation() + 1) & u64::from(u32::MAX);
        if Mutation::current().is(Mutant::SlotKeepsGeneration) {
            generation = slot.generation();
        }
        let next = target.read(self.at + FREE);
        target.write(at, generation.max(1) << 32 | next);
        target.write(self.at + FREE, slot.index() as u64 + 1);
        target.write(self.at + LEN, target.read(self.at + LEN) - 1);
        Some(value)
    }

    /// All records with their slots, in the order of slots.
    pub fn iter<'a>(
        &self,
        source: &'a (impl Source + ?Sized),
    ) -> impl Iterator<Item = (Slot<T>, T)> + 'a {
        let chunks = self.chunks();
        (0..source.read(self.at + SLOTS) as usize).filter_map(move |index| {
            let at = chunks.at(source, index);
            let head = source.read(at);
            (head & IN_USE == IN_USE).then(|| (Slot::new(index, head >> 32), load(source, at + 1)))
        })
    }
}

impl<T: Record> State for Table<T> {
    fn lay_out(layout: &mut Layout) -> Self {
        layout.shapes("table", &[T::describe]);
        Self { at: layout.take(DIRECTORY + Chunks::WORDS), of: PhantomData }
    }
}

places!([T] Table<T>, [T] Slot<T>);

impl<T: 'static> Record for Slot<T> {
    fn describe(text: &mut String) {
        text.push_str("slot");
    }
}

impl<T> PartialEq for Slot<T> {
    fn eq(&self, other: &Self) -> bool {
        self.word == other.word
    }
}

impl<T> Eq for Slot<T> {}

impl<T> Hash for Slot<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.word.hash(state);
    }
}

impl<T> fmt::Debug for Slot<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.is_none() {
            true => f.write_str("Slot(none)"),
            false => write!(f, "Slot({}, generation {})", self.index(), self.generation()),
        }
    }
}
