//! Slots that are used, freed and used again.
//!
//! ```text
//! slot     head, words of the record
//! head     generation << 32 | its own index if it is in use: the word of the handle that names it
//!          next generation << 32 | index of the next free slot, 2^32 - 1 for none, if it is free
//!          0 if it was never used
//! ```
//!
//! One comparison shows that a handle names a record. No handle is the head of another slot, or of
//! a free one: that is no link to itself.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::marker::PhantomData;

use stillframe::MemoryError;
use zerocopy::{FromBytes, Immutable, IntoBytes};

use crate::chunks::Chunks;
use crate::column::update;
use crate::layout::{Layout, State, places};
use crate::mutant::Mutant;
use crate::record::{Record, join, save};
use crate::relation::{Items, Relation, Use};
use crate::shape::Shape;
use crate::source::{Source, Target};

/// The half of a word that holds an index.
const INDEX: u64 = u32::MAX as u64;

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
        (self.word & INDEX) as usize
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
        let slots = target.read(self.at + SLOTS);
        let free = (target.read(self.at + FREE) as usize).checked_sub(1);
        let index = free.unwrap_or(slots as usize);
        self.chunks().make_room(target, index)?;
        let at = self.chunks().at(target, index);
        let head = target.read(at);
        match free {
            Some(_) if Mutant::TableKeepsSlotFree.is_made() => {}
            Some(_) => target.write(self.at + FREE, (head + 1) & INDEX),
            None => target.write(self.at + SLOTS, slots + 1),
        }
        let slot = Slot::new(index, (head >> 32).max(1));
        target.write(at, slot.word);
        save(target, at + 1, &value);
        target.write(self.at + LEN, target.read(self.at + LEN) + 1);
        Ok(slot)
    }

    /// The first word of the record in `slot`, and reads of its words, if there is one.
    #[inline]
    fn find<S: Source + ?Sized>(
        &self,
        source: &S,
        slot: Slot<T>,
    ) -> Option<(usize, impl Fn(usize) -> u64)> {
        let at = self.chunks().at(source, slot.index());
        let word = source.window(at, 1 + T::WORDS)?;
        (word(0) == slot.word).then_some((at + 1, move |index| word(1 + index)))
    }

    /// The record in `slot`.
    #[inline]
    #[must_use]
    pub fn get(&self, source: &(impl Source + ?Sized), slot: Slot<T>) -> Option<T> {
        let (_, words) = self.find(source, slot)?;
        Some(join(words))
    }

    /// Whether `slot` names a record.
    #[must_use]
    pub fn contains(&self, source: &(impl Source + ?Sized), slot: Slot<T>) -> bool {
        self.find(source, slot).is_some()
    }

    /// Replaces the record in `slot`. Returns `None`, and does nothing, if there is none.
    #[inline]
    pub fn set(&self, target: &mut impl Target, slot: Slot<T>, value: T) -> Option<()> {
        let (at, _) = self.find(target, slot)?;
        save(target, at, &value);
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
        let (at, words) = self.find(target, slot)?;
        let old = join(words);
        Some(update(target, at, old, change))
    }

    /// Removes the record in `slot`, and returns it if there was one.
    pub fn remove(&self, target: &mut impl Target, slot: Slot<T>) -> Option<T> {
        let (at, words) = self.find(target, slot)?;
        let value = join(words);
        let mut generation = (slot.generation() + 1) & INDEX;
        if Mutant::SlotKeepsGeneration.is_made() {
            generation = slot.generation();
        }
        let mut next = target.read(self.at + FREE);
        if next == 0 && Mutant::SlotEndsInItself.is_made() {
            next = slot.index() as u64 + 1;
        }
        target.write(at - 1, generation.max(1) << 32 | next.wrapping_sub(1) & INDEX);
        target.write(self.at + FREE, slot.index() as u64 + 1);
        let left = if Mutant::TableCountsRemoved.is_made() { 0 } else { 1 };
        target.write(self.at + LEN, target.read(self.at + LEN) - left);
        Some(value)
    }

    /// All records with their slots, in the order of slots.
    pub fn iter<'a>(
        &self,
        source: &'a (impl Source + ?Sized),
    ) -> impl Iterator<Item = (Slot<T>, T)> + 'a {
        let chunks = self.chunks();
        (0..source.read(self.at + SLOTS) as usize).filter_map(move |index| {
            let word = source.window(chunks.at(source, index), 1 + T::WORDS)?;
            let slot = Slot { word: word(0), of: PhantomData };
            (slot.index() == index).then(|| (slot, join(|index| word(1 + index))))
        })
    }
}

impl<T: Record> State for Table<T> {
    fn lay_out(layout: &mut Layout) -> Self {
        layout.shapes("table", &[T::shape()]);
        let at = layout.take(DIRECTORY + Chunks::WORDS);
        let table = Self { at, of: PhantomData };
        let items = Items::Chunked { len: at + SLOTS, chunks: table.chunks() };
        let used = Use::Numbered(INDEX);
        layout.relate(|| Relation::of_slots(items, used, 1 + T::WORDS, T::shape()));
        table
    }
}

places!([T] Table<T>, [T] Slot<T>);

impl<T: 'static> Record for Slot<T> {
    fn shape() -> Shape {
        Shape::Slot
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

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Copy, crate::State)]
    struct Root {
        table: Table<u64>,
    }

    #[test]
    fn nothing_names_a_record_but_its_handle() {
        let mut words = vec![0; Root::layout().words()];
        let Root { table } = Root::attach(&mut words).expect("it is new");
        let mut slots: Vec<_> =
            (0..600).map(|value| table.insert(&mut words, value).expect("memory")).collect();
        for number in [0, 599, 300, 301, 0] {
            table.remove(&mut words, slots[number]).expect("it is there");
            slots[number] = table.insert(&mut words, number as u64).expect("memory");
        }
        let free = [5, 4, 6, 127, 128].map(|number| {
            table.remove(&mut words, slots[number]).expect("it is there");
            number
        });
        let last = u32::MAX as usize;
        for index in (0..2000).chain([1 << 31, last - 128, last - 127, last]) {
            for generation in 0..5 {
                let slot = Slot::new(index, generation);
                let is = !free.contains(&index) && slots.contains(&slot);
                assert_eq!(table.get(&words, slot), is.then_some(index as u64), "{slot:?}");
                assert_eq!(table.contains(&words, slot), is, "{slot:?}");
            }
        }
        assert_eq!(table.iter(&words).count(), 595);
    }
}
