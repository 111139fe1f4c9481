//! Records one behind the other.

use std::marker::PhantomData;

use stillframe::MemoryError;

use crate::chunks::Chunks;
use crate::column::update;
use crate::layout::{Layout, State, places};
use crate::mutant::Mutant;
use crate::record::{Record, join, save};
use crate::relation::{Items, Relation};
use crate::source::{Source, Target};

/// Records in a row that grows and shrinks at its end, numbered from 0.
///
/// Growth takes memory in ever larger pieces, moves no record, and so takes no longer in a long
/// list than in a short one. Memory that a list had once it keeps for its next records.
#[derive(Debug)]
pub struct List<T> {
    /// The length, then the directory.
    at: usize,
    of: PhantomData<fn() -> T>,
}

const DIRECTORY: usize = 1;

impl<T: Record> List<T> {
    const CHUNKS: Chunks = Chunks::new(0, if T::WORDS == 0 { 1 } else { T::WORDS });

    #[inline]
    fn chunks(&self) -> Chunks {
        Self::CHUNKS.with_directory(self.at + DIRECTORY)
    }

    /// Records in the list.
    #[inline]
    #[must_use]
    pub fn len(&self, source: &(impl Source + ?Sized)) -> usize {
        source.read(self.at) as usize
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self, source: &(impl Source + ?Sized)) -> bool {
        self.len(source) == 0
    }

    /// Adds a record at the end, and returns its number.
    ///
    /// # Errors
    /// [`MemoryError`] if the state cannot grow; nothing changes.
    pub fn push(&self, target: &mut impl Target, value: T) -> Result<usize, MemoryError> {
        let len = self.len(target);
        self.chunks().make_room(target, len)?;
        let at = self.chunks().at(target, len);
        save(target, at, &value);
        target.write(self.at, len as u64 + 1);
        Ok(len)
    }

    /// Removes the last record.
    pub fn pop(&self, target: &mut impl Target) -> Option<T> {
        let last = self.len(target).checked_sub(1)?;
        let value = self.get(target, last);
        target.write(self.at, last as u64);
        value
    }

    /// The first word of record `index`, and reads of its words, if there is one.
    #[inline]
    fn find<S: Source + ?Sized>(
        &self,
        source: &S,
        index: usize,
    ) -> Option<(usize, impl Fn(usize) -> u64)> {
        if index >= self.len(source) {
            return None;
        }
        let at = self.chunks().at(source, index);
        Some((at, source.window(at, T::WORDS)?))
    }

    /// Record `index`.
    #[inline]
    #[must_use]
    pub fn get(&self, source: &(impl Source + ?Sized), index: usize) -> Option<T> {
        let (_, words) = self.find(source, index)?;
        Some(join(words))
    }

    /// Replaces record `index`. Returns `None`, and does nothing, if there is none.
    #[inline]
    pub fn set(&self, target: &mut impl Target, index: usize, value: T) -> Option<()> {
        let (at, _) = self.find(target, index)?;
        save(target, at, &value);
        Some(())
    }

    /// Changes record `index`, if there is one; only words that differ are written.
    #[inline]
    pub fn update<R>(
        &self,
        target: &mut impl Target,
        index: usize,
        change: impl FnOnce(&mut T) -> R,
    ) -> Option<R> {
        let (at, words) = self.find(target, index)?;
        let old = join(words);
        Some(update(target, at, old, change))
    }

    /// Removes record `index`, and puts the last one in its place.
    pub fn swap_remove(&self, target: &mut impl Target, index: usize) -> Option<T> {
        let value = self.get(target, index)?;
        let last = self.pop(target)?;
        if !Mutant::ListForgetsToMove.is_made() {
            self.set(target, index, last); // unless it was the last itself
        }
        Some(value)
    }

    /// Removes all records from number `len` on.
    pub fn truncate(&self, target: &mut impl Target, len: usize) {
        if len < self.len(target) || Mutant::TruncateGrows.is_made() {
            target.write(self.at, len as u64);
        }
    }

    /// All records, in order.
    pub fn iter<'a>(
        &self,
        source: &'a (impl Source + ?Sized),
    ) -> impl DoubleEndedIterator<Item = T> + ExactSizeIterator + 'a {
        let chunks = self.chunks();
        (0..self.len(source)).map(move |index| {
            // An image that was lost after its length was read is zero from there on.
            let words = source.window(chunks.at(source, index), T::WORDS);
            words.map_or_else(T::new_zeroed, join)
        })
    }
}

impl<T: Record> State for List<T> {
    fn lay_out(layout: &mut Layout) -> Self {
        layout.shapes("list", &[T::shape()]);
        let at = layout.take(DIRECTORY + Chunks::WORDS);
        let list = Self { at, of: PhantomData };
        let items = Items::Chunked { len: at, chunks: list.chunks() };
        layout.relate(|| Relation::of_records(items, T::WORDS.max(1), T::shape()));
        list
    }
}

places!([T] List<T>);
