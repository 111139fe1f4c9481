//! Arrays: values under numbers, most of which may have none.
//!
//! An element lies in the order of ranks under its index plus one, so that an array costs what it
//! has, however far apart that is. Under 0 lies the place of the last insertion, if there is one,
//! as 8 bytes: an image or a copy has it by the same means as the elements. Indices are unique, so
//! the bounds between nodes are indices alone, and a value may be replaced by any other.

pub(crate) mod mistakes;

use std::fmt;

use crate::collection::draft::Draft;
use crate::collection::form::{Collection, Form};
use crate::collection::packed::{Element, Key, Shape};
use crate::collection::tree::Seek;
use mistakes::Mutant;

/// The greatest index.
pub const INDEX_MAX: u64 = u64::MAX - 1;

/// An array.
#[derive(Clone, Copy)]
pub struct Array<'a>(pub(crate) Collection<'a>);

/// An array under edit.
pub struct ArrayEdit<'a>(pub(crate) Draft<'a>);

/// Where the element of an index begins.
fn key_of(index: u64) -> Key<'static> {
    Key { head: index.saturating_add(1), tail: &[] }
}

impl<'a> Array<'a> {
    /// Elements in it.
    #[must_use]
    pub fn len(self) -> usize {
        self.0.len() - if Mutant::PlaceCounts.is_made() { 0 } else { self.first() }
    }

    /// Whether it has none: only while it is edited.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// The rank of the first element, behind the place of the last insertion.
    fn first(self) -> usize {
        usize::from(self.inserted().is_some())
    }

    /// The index that was last inserted at, if there was an insertion.
    #[must_use]
    pub fn inserted(self) -> Option<u64> {
        let first = self.0.at(0).filter(|element| element.head == 0)?;
        first.key.first_chunk().map(|bytes| u64::from_be_bytes(*bytes))
    }

    /// The greatest index that has an element, plus one.
    #[must_use]
    pub fn span(self) -> u64 {
        let last = self.0.len().checked_sub(1).and_then(|last| self.0.at(last));
        last.map_or(0, |element| element.head)
    }

    /// The element at an index.
    #[must_use]
    pub fn get(self, index: u64) -> Option<&'a [u8]> {
        let key = key_of(index);
        let found = match self.0.form {
            Form::Packed { run, .. } => run.find(|element| element.head >= key.head).1,
            Form::Tree(trunk) => trunk.main.at_key(key),
        };
        found.filter(|element| element.head == key.head).map(|element| element.key)
    }

    /// How many elements come before an index.
    #[must_use]
    pub fn below(self, index: u64) -> usize {
        self.0.below(key_of(index)) - self.first()
    }

    /// How many elements come before an index, or at it.
    #[must_use]
    pub fn through(self, index: u64) -> usize {
        if index >= INDEX_MAX { self.len() } else { self.below(index + 1) }
    }

    /// The elements from a rank on, with their indices.
    pub fn iter_from(self, rank: usize) -> impl Iterator<Item = (u64, &'a [u8])> + Clone + 'a {
        self.0.walk(self.first() + rank).map(|element| (element.head - 1, element.key))
    }

    /// The elements from a rank (or the last one) downwards, with their indices.
    pub fn iter_back_from(self, rank: usize) -> impl Iterator<Item = (u64, &'a [u8])> + 'a {
        let back = self.0.walk_back(self.first().saturating_add(rank));
        back.take_while(|element| element.head > 0).map(|element| (element.head - 1, element.key))
    }
}

impl ArrayEdit<'_> {
    /// The array as it is now.
    #[must_use]
    pub fn view(&self) -> Array<'_> {
        Array(self.0.view())
    }

    /// Sets the element at an index; true if there was none.
    pub fn set(&mut self, index: u64, value: &[u8]) -> bool {
        debug_assert!(index <= INDEX_MAX, "the caller refuses it");
        let is_new = self.view().get(index).is_none();
        self.put(Element::ranked(value, key_of(index).head), is_new);
        is_new
    }

    /// Sets or forgets the index that was last inserted at. An array without elements has none.
    pub fn set_inserted(&mut self, index: Option<u64>) {
        let old = self.view().inserted();
        match index {
            _ if index == old => {}
            Some(_) if self.view().is_empty() && !Mutant::PlaceAlone.is_made() => {}
            None => self.0.remove_range(0, 1),
            Some(index) => self.put(Element::ranked(&index.to_be_bytes(), 0), old.is_none()),
        }
    }

    /// Puts an element under its head, where there is another unless it `is_new`.
    fn put(&mut self, element: Element<'_>, is_new: bool) {
        let tail = if Mutant::SeeksByValue.is_made() { element.key } else { &[] };
        let (shape, key) = (Shape::Ranked, Key { head: element.head, tail });
        match (self.0.change(), is_new) {
            (Ok(chunk), true) => drop(chunk.append_ranked(element)),
            (Ok(chunk), false) => {
                let at = chunk.below_at_ends(key);
                chunk.replace(chunk.span(shape, at), shape, element);
            }
            (Err(trunk), true) => trunk.main.append_ranked(&trunk.hasher, element),
            (Err(trunk), false) => {
                trunk.main.edit(Seek::Key(key), &trunk.hasher, &mut |leaf, _| {
                    let at = leaf.below_at_ends(key);
                    leaf.replace(leaf.span(shape, at), shape, element);
                    at
                })
            }
        }
        self.0.grown(element);
    }

    /// Removes the elements from one index to another; how many there were. Without elements an
    /// array has no place of an insertion either, and is gone.
    pub fn remove(&mut self, first: u64, last: u64) -> usize {
        let view = self.view();
        let start = view.below(first);
        let (skipped, count) = (view.first(), view.through(last).saturating_sub(start));
        self.0.remove_range(skipped + start, count);
        if self.view().is_empty() && !Mutant::PlaceStays.is_made() {
            self.set_inserted(None);
        }
        count
    }
}

impl PartialEq for Array<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.inserted() == other.inserted() && self.iter_from(0).eq(other.iter_from(0))
    }
}

impl Eq for Array<'_> {}

impl fmt::Debug for Array<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let elements: Vec<_> = self.iter_from(0).collect();
        let inserted = self.inserted();
        f.debug_struct("Array").field("inserted", &inserted).field("elements", &elements).finish()
    }
}
