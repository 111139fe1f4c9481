//! Changes to collections.
//!
//! An edit looks at where the collection lies and takes one of three ways:
//! - a small one is copied out, changed, and put back in place or as a new entry;
//! - a large one that no image can see is changed in place;
//! - a large one that an image can see is cloned in O(1), its nodes shared, and the clone becomes a
//!   new entry; changing it copies the nodes on the way, but only once each.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

use stillframe::{Algorithm, MemoryError};

use super::Keyspace;
use super::lookup::Lookup;
use super::mistakes;
use super::panics::Mutant;
use super::write::NOTHING;
use crate::collection::array::ArrayEdit;
use crate::collection::chunk::Chunk;
use crate::collection::draft::{Body, Draft};
use crate::collection::edits::{HashEdit, ListEdit, SetEdit, SortedEdit};
use crate::collection::form::{Collection, Form};
use crate::collection::kind::Type;
use crate::collection::stream::StreamEdit;
use crate::collection::traits::Traits;
use crate::collection::trunk::Trunk;
use crate::memory::entry::{Entry, INLINE_MAX, New, Owned};

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

macro_rules! edits {
    ($($(#[$doc:meta])* $name:ident $kind:ident $edit:ident;)*) => {
        impl<A: Algorithm> Keyspace<A> {
            $(
                $(#[$doc])*
                ///
                /// An absent key counts as an empty collection, and a collection that is empty
                /// afterwards is deleted. The time to live stays. (Look the key up first, which
                /// deletes an expired one.)
                ///
                /// If `f` panics, what it has changed of a large collection stays changed; a small
                /// one is as it was.
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
    /// Changes a stream, which stays when it is empty, but is not made by an edit that leaves it
    /// as it was.
    edit_stream Stream StreamEdit;
    /// Changes an array.
    edit_array Array ArrayEdit;
}

impl<A: Algorithm> Keyspace<A> {
    fn edit<R>(
        &mut self,
        db: usize,
        key: &[u8],
        kind: Type,
        f: impl for<'d> FnOnce(Draft<'d>) -> (Draft<'d>, R),
    ) -> Result<R, EditError> {
        let lookup = self.lookup_to_change(db, key);
        let (limits, hasher, changed) = (&self.limits, &self.hasher, false);
        if let Some(seat) = lookup.seat {
            if self.slots.entry_of(seat).value_type() != kind {
                return Err(EditError::WrongType);
            }
            if let Some(trunk) = self.slots.entry_mut(seat).and_then(Entry::trunk_mut) {
                let (loose, timed, bytes) = (trunk.loose, trunk.main.is_timed(), trunk.bytes());
                let traits = trunk.traits();
                let body = Body::InPlace(&mut *trunk);
                // A closure that panics has changed what it has changed: the books follow.
                let edit = || {
                    let draft = Draft { kind, body, loose, timed, changed, limits, hasher };
                    let (draft, result) = f(draft);
                    (draft.loose, result)
                };
                let result = if Mutant::PanicLeavesBooks.is_made() {
                    Ok(edit())
                } else {
                    catch_unwind(AssertUnwindSafe(edit))
                };
                // The encoding that Redis shows never goes back.
                trunk.loose = result.as_ref().map_or(true, |(loose, _)| *loose);
                let (parted, is_empty) = (trunk.take_parted(), trunk.is_void());
                let now = trunk.traits();
                let books = &mut self.dbs[db].bytes;
                *books = *books - bytes + trunk.bytes();
                self.book_traits(db, seat.slot, traits, now);
                if parted > 0 {
                    self.slots.give_back(seat.slot, parted);
                }
                if is_empty {
                    self.delete(seat.slot, lookup.hash);
                }
                return match result {
                    Ok((_, result)) => Ok(result),
                    Err(panic) => resume_unwind(panic),
                };
            }
        }
        self.edit_copy(db, key, kind, lookup, f)
    }

    /// Edits a copy of a collection, which then takes its place.
    fn edit_copy<R>(
        &mut self,
        db: usize,
        key: &[u8],
        kind: Type,
        lookup: Lookup,
        f: impl for<'d> FnOnce(Draft<'d>) -> (Draft<'d>, R),
    ) -> Result<R, EditError> {
        let (limits, hasher, changed) = (&self.limits, &self.hasher, false);
        let booked = lookup.seat.map_or(NOTHING, |seat| self.booked(seat));
        let mut scratch = std::mem::take(&mut self.scratch);
        let (loose, large) = match lookup.seat {
            Some(seat) => copy_out(self.slots.entry_of(seat), &mut scratch),
            None => (false, (kind == Type::Stream).then(|| Trunk::new(kind, hasher))),
        };
        let timed = booked.traits == Traits::FIELDS;
        let mut shared_bytes = large.as_ref().map_or(0, Trunk::node_bytes);
        let clone = |trunk| Body::Clone(Box::new(trunk));
        let body = large.map_or(Body::Packed(&mut scratch), clone);
        let (draft, result) = f(Draft { kind, body, loose, timed, changed, limits, hasher });
        let Draft { body, loose, timed, changed, .. } = draft;
        let large = if let Body::Clone(mut trunk) = body {
            let parted = trunk.take_parted();
            shared_bytes = shared_bytes.saturating_sub(parted);
            trunk.loose = loose;
            Some(*trunk)
        } else {
            None
        };
        let value = match large {
            Some(trunk) if !trunk.is_void() => Some(New::Trunk(kind, Arc::new(trunk))),
            None if scratch.count != 0 => Some(New::packed(kind, &scratch, loose, timed)),
            _ => None,
        };
        let stored = if changed {
            self.store(db, lookup, key, value, booked.deadline, shared_bytes)
        } else {
            Ok(())
        };
        self.scratch = recycle(scratch);
        stored.map(|()| result).map_err(EditError::Memory)
    }

    /// Stores the result of an edit under its key, or deletes the key if nothing is left. The
    /// result shares this many bytes with the entry that is there.
    fn store(
        &mut self,
        db: usize,
        lookup: Lookup,
        key: &[u8],
        value: Option<New<'_>>,
        deadline: i64,
        shared_bytes: usize,
    ) -> Result<(), MemoryError> {
        let (mut value, mut reserve) = match (value, lookup.seat) {
            (Some(value), _) => (value, 0),
            (None, None) => return Ok(()),
            (None, Some(_)) if mistakes::Mutant::EmptyStays.is_made() => return Ok(()),
            (None, Some(seat)) => {
                self.delete(seat.slot, lookup.hash);
                return Ok(());
            }
        };
        if let Some(seat) = lookup.seat {
            if let New::Packed { run, .. } = value {
                reserve = (run.len() / 4).min(INLINE_MAX - run.len()); // it is growing
            }
            let booked = self.booked(seat);
            if let Some(entry) = self.slots.entry_mut(seat) {
                match entry.overwrite(value) {
                    Ok(()) => {
                        self.book(db, seat, booked);
                        return Ok(());
                    }
                    Err(unfit) => value = unfit,
                }
            }
        }
        let entry = Owned::new(self.birth(db), key, value, deadline, reserve);
        match lookup.seat {
            Some(seat) => self.replace(db, seat, lookup.hash, entry, shared_bytes),
            None => drop(self.put_entry(db, lookup, entry)?),
        }
        Ok(())
    }
}

/// What an edit of this entry starts from: whether it is loose, and a large collection or (in
/// `scratch`) a small one.
fn copy_out(entry: &Entry, scratch: &mut Chunk) -> (bool, Option<Trunk>) {
    match entry.value().as_collection() {
        Some(Collection { form: Form::Packed { run, count }, loose, .. }) => {
            scratch.bytes.extend_from_slice(run.rest);
            scratch.count = count;
            (loose, None)
        }
        Some(Collection { form: Form::Tree(trunk), loose, .. }) => (loose, Some(trunk.clone())),
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
