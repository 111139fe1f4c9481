//! A single record, and a fixed number of records.

use std::marker::PhantomData;

use crate::layout::{Layout, State, places};
use crate::record::{Record, load, save, save_changes};
use crate::relation::{Items, Relation};
use crate::source::{Source, Target};

/// One record. Its words lie in the root; all zero at first.
#[derive(Debug)]
pub struct Value<T> {
    at: usize,
    of: PhantomData<fn() -> T>,
}

impl<T: Record> Value<T> {
    /// The record.
    #[inline]
    #[must_use]
    pub fn get(&self, source: &(impl Source + ?Sized)) -> T {
        load(source, self.at)
    }

    /// Replaces the record.
    #[inline]
    pub fn set(&self, target: &mut impl Target, value: T) {
        save(target, self.at, &value);
    }

    /// Changes the record; only words that differ are written.
    #[inline]
    pub fn update<R>(&self, target: &mut impl Target, change: impl FnOnce(&mut T) -> R) -> R {
        update(target, self.at, self.get(target), change)
    }
}

/// `N` records, numbered from 0. Their words lie in the root, one record behind the other; all zero
/// at first.
///
/// Methods panic where an index is not below `N`, as those of arrays do.
#[derive(Debug)]
pub struct Column<T, const N: usize> {
    at: usize,
    of: PhantomData<fn() -> T>,
}

impl<T: Record, const N: usize> Column<T, N> {
    /// How many records there are.
    pub const LEN: usize = N;

    #[inline]
    fn at(&self, index: usize) -> usize {
        if index >= N {
            out_of_bounds(index, N);
        }
        self.at + index * T::WORDS
    }

    /// Record `index`.
    #[inline]
    #[must_use]
    pub fn get(&self, source: &(impl Source + ?Sized), index: usize) -> T {
        load(source, self.at(index))
    }

    /// Replaces record `index`.
    #[inline]
    pub fn set(&self, target: &mut impl Target, index: usize, value: T) {
        save(target, self.at(index), &value);
    }

    /// Changes record `index`; only words that differ are written.
    #[inline]
    pub fn update<R>(
        &self,
        target: &mut impl Target,
        index: usize,
        change: impl FnOnce(&mut T) -> R,
    ) -> R {
        update(target, self.at(index), self.get(target, index), change)
    }

    /// All records, in order.
    pub fn iter<'a>(
        &self,
        source: &'a (impl Source + ?Sized),
    ) -> impl DoubleEndedIterator<Item = T> + ExactSizeIterator + 'a {
        let at = self.at;
        (0..N).map(move |index| load(source, at + index * T::WORDS))
    }
}

/// Takes its numbers by value, so that nothing on the hot path has an address.
#[cold]
#[inline(never)]
fn out_of_bounds(index: usize, len: usize) -> ! {
    panic!("record {index} of {len}");
}

/// Changes the record `old`, which lies in the words from `at` on.
#[inline]
pub(crate) fn update<T: Record, R>(
    target: &mut impl Target,
    at: usize,
    old: T,
    change: impl FnOnce(&mut T) -> R,
) -> R {
    let mut value = old;
    let result = change(&mut value);
    save_changes(target, at, &old, &value);
    result
}

impl<T: Record> State for Value<T> {
    fn lay_out(layout: &mut Layout) -> Self {
        layout.shapes("value", &[T::shape()]);
        let at = layout.take(T::WORDS);
        let items = Items::Fixed { at, len: 1 };
        layout.relate(|| Relation::of_records(items, T::WORDS, T::shape()).alone());
        Self { at, of: PhantomData }
    }
}

impl<T: Record, const N: usize> State for Column<T, N> {
    fn lay_out(layout: &mut Layout) -> Self {
        layout.shapes("column", &[<[T; N]>::shape()]);
        let words = N.checked_mul(T::WORDS).expect("a layout fits the address space");
        let at = layout.take(words);
        let items = Items::Fixed { at, len: N };
        layout.relate(|| Relation::of_records(items, T::WORDS, T::shape()));
        Self { at, of: PhantomData }
    }
}

places!([T] Value<T>, [T, const N: usize] Column<T, N>);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic(expected = "record 3 of 3")]
    fn what_lies_behind_a_column_is_none_of_its_records() {
        #[derive(Clone, Copy, crate::State)]
        struct Root {
            column: Column<u64, 3>,
            behind: Value<u64>,
        }
        let mut words = vec![0; Root::layout().words()];
        let root = Root::attach(&mut words).expect("it is new");
        root.behind.set(&mut words, 7);
        let _ = root.column.get(&words, 3);
    }
}
