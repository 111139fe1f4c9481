//! Changes to collections.
//!
//! An edit looks at where the collection lies and takes one of three ways:
//! - a small one is copied out, changed, and put back in place or as a new entry;
//! - a large one that no image can see is changed in place;
//! - a large one that an image can see is cloned in O(1), its nodes shared, and the clone becomes a
//!   new entry; changing it copies the nodes on the way, but only once each.

use std::sync::Arc;

use stillframe::{Algorithm, MemoryError};

use crate::chunk::Chunk;
use crate::collection::{Collection, Form};
use crate::draft::{Body, Draft};
use crate::entry::{Entry, INLINE_MAX, New, Owned};
use crate::keyspace::{Keyspace, Place};
use crate::packed::{Element, Shape, score_bytes};
use crate::trunk::Trunk;
use crate::value::Type;
use crate::views::{Hash, List, Set, Sorted};
use crate::write::NOTHING;

/// A collection could not be edited; nothing was changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EditError {
    /// The key holds a value of another type.
    #[error("the key holds a value of another type")]
    WrongType,
    /// No memory for the key.
    #[error(transparent)]
    Memory(#[from] MemoryError),
}

/// A list to be changed.
pub struct ListEdit<'a>(Draft<'a>);
/// A hash to be changed.
pub struct HashEdit<'a>(Draft<'a>);
/// A set to be changed.
pub struct SetEdit<'a>(Draft<'a>);
/// A sorted set to be changed.
pub struct SortedEdit<'a>(Draft<'a>);

impl ListEdit<'_> {
    /// The list as it is now.
    #[must_use]
    pub fn view(&self) -> List<'_> {
        List(self.0.view())
    }

    /// Its elements.
    #[must_use]
    #[allow(clippy::len_without_is_empty, reason = "as of a list")]
    pub fn len(&self) -> usize {
        self.view().len()
    }

    /// Puts an element before the first.
    pub fn push_front(&mut self, value: &[u8]) {
        self.0.insert_at(0, Element::single(value));
    }

    /// Puts an element behind the last.
    pub fn push_back(&mut self, value: &[u8]) {
        self.0.insert_at(self.len(), Element::single(value));
    }

    /// Takes the first element out.
    pub fn pop_front(&mut self) -> Option<Vec<u8>> {
        let value = self.view().get(0)?.to_vec();
        self.0.remove_range(0, 1);
        Some(value)
    }

    /// Takes the last element out.
    pub fn pop_back(&mut self) -> Option<Vec<u8>> {
        let last = self.len().checked_sub(1)?;
        let value = self.view().get(last)?.to_vec();
        self.0.remove_range(last, 1);
        Some(value)
    }

    /// Replaces the element at a position; false if there is none.
    pub fn set(&mut self, at: usize, value: &[u8]) -> bool {
        let exists = at < self.len();
        if exists {
            self.0.replace_at(at, Element::single(value));
        }
        exists
    }

    /// Puts an element before that at a position, which may be the end; false beyond it.
    pub fn insert(&mut self, at: usize, value: &[u8]) -> bool {
        let exists = at <= self.len();
        if exists {
            self.0.insert_at(at, Element::single(value));
        }
        exists
    }

    /// Removes at most `count` elements from position `start` on.
    pub fn remove_range(&mut self, start: usize, count: usize) {
        self.0.remove_range(start, count);
    }
}

impl HashEdit<'_> {
    /// The hash as it is now.
    #[must_use]
    pub fn view(&self) -> Hash<'_> {
        Hash(self.0.view())
    }

    /// Sets a field; true if it is new.
    pub fn set(&mut self, field: &[u8], value: &[u8]) -> bool {
        self.0.put(Element { key: field, value })
    }

    /// Removes a field; false if it was not there.
    pub fn remove(&mut self, field: &[u8]) -> bool {
        self.0.remove(field)
    }
}

impl SetEdit<'_> {
    /// The set as it is now.
    #[must_use]
    pub fn view(&self) -> Set<'_> {
        Set(self.0.view())
    }

    /// Adds a member; false if it was there.
    pub fn insert(&mut self, member: &[u8]) -> bool {
        self.0.put(Element::single(member))
    }

    /// Removes a member; false if it was not there.
    pub fn remove(&mut self, member: &[u8]) -> bool {
        self.0.remove(member)
    }
}

impl SortedEdit<'_> {
    /// The sorted set as it is now.
    #[must_use]
    pub fn view(&self) -> Sorted<'_> {
        Sorted(self.0.view())
    }

    /// Sets a member's score, which is not NaN (and -0 is kept as 0); returns the old one.
    pub fn set(&mut self, member: &[u8], score: f64) -> Option<f64> {
        debug_assert!(!score.is_nan(), "the caller refuses NaN");
        let score = score_bytes(score);
        let element = Element { key: member, value: &score };
        let old = match self.0.body() {
            Ok(chunk) => {
                let (place, found) = chunk.find_key(Shape::Scored, member);
                let old = found.map(Element::score);
                if found == Some(element) {
                    return old;
                }
                if old.is_some() {
                    chunk.remove(place, 1);
                }
                chunk.insert_ranked(element);
                old
            }
            Err(trunk) => trunk.set_score(element),
        };
        self.0.changed = true;
        self.0.grown(element);
        old
    }

    /// Removes a member; returns its score.
    pub fn remove(&mut self, member: &[u8]) -> Option<f64> {
        let old = match self.0.body() {
            Ok(chunk) => {
                let (place, found) = chunk.find_key(Shape::Scored, member);
                let old = found.map(Element::score);
                if old.is_some() {
                    chunk.remove(place, 1);
                }
                old
            }
            Err(trunk) => trunk.remove_member(member),
        };
        self.0.changed |= old.is_some();
        old
    }

    /// Removes at most `count` members from rank `start` on.
    pub fn remove_range(&mut self, start: usize, count: usize) {
        self.0.remove_range(start, count);
    }
}

macro_rules! edits {
    ($($(#[$doc:meta])* $name:ident $kind:ident $edit:ident;)*) => {
        impl<A: Algorithm> Keyspace<A> {
            $(
                $(#[$doc])*
                ///
                /// An absent key is an empty collection, and one that is empty afterwards is no
                /// key. The time to live stays. (Look the key up first, so that one whose time has
                /// come is gone.)
                ///
                /// # Errors
                /// [`EditError`]; nothing changes, `f` may have been called.
                pub fn $name<R>(
                    &mut self,
                    db: usize,
                    key: &[u8],
                    f: impl FnOnce(&mut $edit<'_>) -> R,
                ) -> Result<R, EditError> {
                    self.edit(db, key, Type::$kind, |draft| {
                        let mut edit = $edit(draft);
                        let result = f(&mut edit);
                        (edit.0, result)
                    })
                }
            )*
        }
    };
}

edits! {
    /// Changes a list.
    edit_list List ListEdit;
    /// Changes a hash.
    edit_hash Hash HashEdit;
    /// Changes a set.
    edit_set Set SetEdit;
    /// Changes a sorted set.
    edit_sorted Sorted SortedEdit;
}

impl<A: Algorithm> Keyspace<A> {
    fn edit<R>(
        &mut self,
        db: usize,
        key: &[u8],
        kind: Type,
        f: impl for<'d> FnOnce(Draft<'d>) -> (Draft<'d>, R),
    ) -> Result<R, EditError> {
        let place = self.seek(db, key);
        let (limits, hasher, changed) = (&self.limits, &self.hasher, false);
        let mut booked = NOTHING;
        if let Place::At(slot) = place {
            if self.at(slot).value_type() != kind {
                return Err(EditError::WrongType);
            }
            if let Some(trunk) = self.slots.entry_mut(slot).and_then(Entry::trunk_mut) {
                let (loose, bytes) = (trunk.loose, trunk.bytes());
                let body = Body::InPlace(&mut *trunk);
                let (draft, result) = f(Draft { kind, body, loose, changed, limits, hasher });
                let loose = draft.loose;
                drop(draft);
                trunk.loose = loose;
                let (parted, is_empty) = (trunk.take_parted(), trunk.len() == 0);
                let books = &mut self.dbs[db].bytes;
                *books = *books - bytes + trunk.bytes();
                if parted > 0 {
                    self.slots.give_back(slot, parted);
                }
                if is_empty {
                    self.delete(slot);
                }
                return Ok(result);
            }
            booked = self.booked(slot);
        }
        let mut scratch = std::mem::take(&mut self.scratch);
        let (loose, large) = match place {
            Place::At(slot) => copy_out(self.at(slot), &mut scratch),
            Place::Absent { .. } => (false, None),
        };
        let mut shared_bytes = large.as_ref().map_or(0, Trunk::node_bytes);
        let clone = |trunk| Body::Clone(Box::new(trunk));
        let body = large.map_or(Body::Packed(&mut scratch), clone);
        let (draft, result) = f(Draft { kind, body, loose, changed, limits, hasher });
        let Draft { body, loose, changed, .. } = draft;
        let large = if let Body::Clone(mut trunk) = body {
            let parted = trunk.take_parted();
            shared_bytes = shared_bytes.saturating_sub(parted);
            trunk.loose = loose;
            Some(*trunk)
        } else {
            None
        };
        let value = match large {
            Some(trunk) if trunk.len() != 0 => Some(New::Trunk(kind, Arc::new(trunk))),
            None if scratch.count != 0 => Some(New::packed(kind, &scratch, loose)),
            _ => None,
        };
        let stored = if changed {
            self.store(db, place, key, value, booked.deadline, shared_bytes)
        } else {
            Ok(())
        };
        self.scratch = recycle(scratch);
        stored.map(|()| result).map_err(EditError::Memory)
    }

    /// Puts what an edit has made where its key belongs; nothing, if nothing is left. It shares so
    /// many bytes with what is there.
    fn store(
        &mut self,
        db: usize,
        place: Place,
        key: &[u8],
        value: Option<New<'_>>,
        deadline: i64,
        shared_bytes: usize,
    ) -> Result<(), MemoryError> {
        let mut reserve = 0;
        let value = match (value, place) {
            (None, Place::At(slot)) => {
                self.delete(slot);
                return Ok(());
            }
            (None, Place::Absent { .. }) => return Ok(()),
            (Some(value), Place::Absent { .. }) => value,
            (Some(value), Place::At(slot)) => {
                if let New::Packed { run, .. } = value {
                    reserve = (run.len() / 4).min(INLINE_MAX - run.len()); // it is growing
                }
                let booked = self.booked(slot);
                match self.slots.entry_mut(slot) {
                    Some(entry) => match entry.overwrite(value) {
                        Ok(()) => {
                            self.book(db, slot, booked);
                            return Ok(());
                        }
                        Err(unfit) => unfit,
                    },
                    None => value,
                }
            }
        };
        let entry = Owned::new(self.birth(db), key, value, deadline, reserve);
        match place {
            Place::At(slot) => self.replace(db, slot, entry, shared_bytes),
            Place::Absent { .. } => return self.place(db, place, entry),
        }
        Ok(())
    }
}

/// What an edit of this entry starts from: whether it is loose, and a large collection or (in
/// `scratch`) a small one.
fn copy_out(entry: &Entry, scratch: &mut Chunk) -> (bool, Option<Trunk>) {
    match entry.value().as_collection() {
        Some(Collection { form: Form::Packed { run, count }, loose }) => {
            scratch.bytes.extend_from_slice(run.rest);
            scratch.count = count;
            (loose, None)
        }
        Some(Collection { form: Form::Tree(trunk), loose }) => (loose, Some(trunk.clone())),
        None => (false, None),
    }
}

/// Scratch for the next edit.
fn recycle(mut scratch: Chunk) -> Chunk {
    if scratch.bytes.capacity() > 4 * INLINE_MAX {
        return Chunk::default();
    }
    scratch.bytes.clear();
    scratch.count = 0;
    scratch
}
