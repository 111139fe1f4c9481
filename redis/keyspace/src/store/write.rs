//! Changes to keys. Each changes the entry in place if no image can see the entry and the value
//! fits; otherwise it puts a new entry into the slot.

use std::sync::Arc;

use stillframe::{Algorithm, MemoryError};

use super::Keyspace;
use super::lookup::Lookup;
use super::mistakes::Mutant;
use crate::collection::packed::NEVER;
use crate::collection::traits::Traits;
use crate::integer::{IntText, parse_int};
use crate::memory::entry::{Birth, Entry, INLINE_MAX, New, Owned};
use crate::memory::slots::Seat;

/// Dead entries swept before the slot array grows.
const SWEEP_FOR_SLOT: usize = 16;

/// What becomes of a key's time to live when its value is set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expire {
    /// The key lives for ever.
    Never,
    /// It keeps what it had (a new key lives for ever).
    Keep,
    /// It is absent from this instant on, in unix milliseconds (`i64::MAX` is never).
    At(i64),
}

impl Expire {
    fn deadline(self, old: i64) -> i64 {
        match self {
            Self::Never => NEVER,
            Self::Keep => old,
            Self::At(at) => at,
        }
    }
}

/// An entry as the books count it.
#[derive(Clone, Copy)]
pub(crate) struct Booked {
    pub(crate) bytes: usize,
    pub(crate) deadline: i64,
    pub(crate) traits: Traits,
}

pub(crate) const NOTHING: Booked = Booked { bytes: 0, deadline: NEVER, traits: Traits::NONE };

impl<A: Algorithm> Keyspace<A> {
    /// Sets a key, whatever it held. Canonical integer text is kept as an integer.
    ///
    /// # Errors
    /// [`MemoryError`] when no slot can be had; nothing changes.
    pub fn set(
        &mut self,
        db: usize,
        key: &[u8],
        value: &[u8],
        expire: Expire,
    ) -> Result<(), MemoryError> {
        self.put(db, key, encode(value), expire)
    }

    /// Sets a key to an integer.
    ///
    /// # Errors
    /// [`MemoryError`] when no slot can be had; nothing changes.
    pub fn set_int(
        &mut self,
        db: usize,
        key: &[u8],
        value: i64,
        expire: Expire,
    ) -> Result<(), MemoryError> {
        self.put(db, key, New::Int(value), expire)
    }

    /// Appends to a key's text (an absent key is empty) and returns the new length. The result is
    /// kept as text even if it reads as an integer. The caller has checked that the key holds no
    /// collection, which would be replaced.
    ///
    /// # Errors
    /// [`MemoryError`] when no slot can be had; nothing changes.
    pub fn append(&mut self, db: usize, key: &[u8], more: &[u8]) -> Result<usize, MemoryError> {
        let lookup = self.lookup_to_change(db, key);
        let Some(seat) = lookup.seat else {
            let entry = Owned::new(self.birth(db), key, encode(more), NEVER, 0);
            self.put_entry(db, lookup, entry)?;
            return Ok(more.len());
        };
        let booked = self.booked(seat);
        if !self.slots.entry_mut(seat).is_some_and(|entry| append_in_place(entry, more)) {
            let mut text = IntText::default();
            let old = self.slots.entry_of(seat).value().to_bytes(&mut text);
            let len = old.len() + more.len();
            let birth = self.birth(db);
            let entry = if len <= INLINE_MAX {
                let reserve = len.min(INLINE_MAX - len); // the next ones may find room
                Owned::new(birth, key, New::Inline(old, more), booked.deadline, reserve)
            } else {
                let mut blob = Vec::with_capacity(len + len / 4);
                blob.extend_from_slice(old);
                blob.extend_from_slice(more);
                Owned::new(birth, key, New::Blob(Arc::new(blob)), booked.deadline, 0)
            };
            return self.put_entry(db, lookup, entry).map(|_| len);
        }
        if !Mutant::AppendLeavesBooks.is_made() {
            self.book(db, seat, booked);
        }
        Ok(self.slots.entry_of(seat).value().len())
    }

    /// Overwrites a key's text from `offset` on, filling a gap with zeros, and returns the new
    /// length. An empty `patch` changes nothing. The caller has limited `offset + patch.len()`, and
    /// checked that the key holds no collection, which would be replaced.
    ///
    /// # Errors
    /// [`MemoryError`] when no slot can be had; nothing changes.
    pub fn set_range(
        &mut self,
        db: usize,
        key: &[u8],
        offset: usize,
        patch: &[u8],
    ) -> Result<usize, MemoryError> {
        let lookup = self.lookup_to_change(db, key);
        if patch.is_empty() {
            return Ok(lookup.seat.map_or(0, |seat| self.slots.entry_of(seat).value().len()));
        }
        let booked = lookup.seat.map_or(NOTHING, |seat| self.booked(seat));
        if let Some(seat) = lookup.seat
            && let Some(entry) = self.slots.entry_mut(seat)
            && patch_in_place(entry, offset, patch)
        {
            self.book(db, seat, booked);
            return Ok(self.slots.entry_of(seat).value().len());
        }
        let mut text = lookup.seat.map_or_else(Vec::new, |seat| {
            self.slots.entry_of(seat).value().to_bytes(&mut IntText::default()).to_vec()
        });
        patch_vec(&mut text, offset, patch);
        let len = text.len();
        let value = if len <= INLINE_MAX {
            New::Inline(&text, &[])
        } else {
            New::Blob(Arc::new(std::mem::take(&mut text)))
        };
        let entry = Owned::new(self.birth(db), key, value, booked.deadline, 0);
        self.put_entry(db, lookup, entry)?;
        Ok(len)
    }

    /// Sets or clears a key's time to live; false if there is no such key.
    pub fn set_expire(&mut self, db: usize, key: &[u8], at: Option<i64>) -> bool {
        let Lookup { hash, seat: Some(seat) } = self.lookup_to_change(db, key) else {
            return false;
        };
        let booked = self.booked(seat);
        let deadline = at.unwrap_or(NEVER);
        let entry = self.slots.entry_mut(seat);
        if let Some(entry) = entry.filter(|entry| entry.has_place_for(deadline)) {
            entry.set_deadline(deadline);
            self.book(db, seat, booked);
        } else {
            let birth = self.birth(db);
            let old = self.slots.entry_of(seat);
            let shared_bytes = old.outside_bytes();
            let entry = Owned::new(birth, key, old.share(), deadline, 0);
            self.replace(db, seat, hash, entry, shared_bytes);
        }
        true
    }

    /// Deletes a key; false if there is no such key.
    pub fn remove(&mut self, db: usize, key: &[u8]) -> bool {
        let Lookup { hash, seat: Some(seat) } = self.lookup_to_change(db, key) else {
            return false;
        };
        self.delete(seat.slot, hash);
        true
    }

    /// Moves a key with its time to live, replacing what is there; false if `from` is absent.
    ///
    /// # Errors
    /// [`MemoryError`] when no slot can be had; nothing changes.
    pub fn rename(
        &mut self,
        db: usize,
        from: &[u8],
        to_db: usize,
        to: &[u8],
    ) -> Result<bool, MemoryError> {
        let Lookup { hash, seat: Some(seat) } = self.lookup_to_change(db, from) else {
            return Ok(false);
        };
        if (db, from) != (to_db, to) {
            let loan = self.slots.loan(seat.slot);
            let copy = self.copy_entry(seat, to_db, to)?;
            self.delete(seat.slot, hash);
            if let Some(loan) = loan {
                self.slots.lend(copy, loan);
            }
        }
        Ok(true)
    }

    /// Copies a key with its time to live, replacing what is there; false if `from` is absent.
    ///
    /// # Errors
    /// [`MemoryError`] when no slot can be had; nothing changes.
    pub fn copy(
        &mut self,
        db: usize,
        from: &[u8],
        to_db: usize,
        to: &[u8],
    ) -> Result<bool, MemoryError> {
        let Some(seat) = self.lookup_again(db, from).seat else { return Ok(false) };
        if (db, from) != (to_db, to) {
            self.copy_entry(seat, to_db, to)?;
        }
        Ok(true)
    }

    /// Copies an entry to a key; returns the key's slot.
    fn copy_entry(&mut self, seat: Seat, db: usize, key: &[u8]) -> Result<u32, MemoryError> {
        let from = self.slots.entry_of(seat);
        let birth = self.birth(if Mutant::CopyIsInFirstDatabase.is_made() { 0 } else { db });
        let forgets = Mutant::CopyForgetsDeadline.is_made();
        let deadline = if forgets { NEVER } else { from.deadline() };
        let entry = Owned::new(birth, key, from.share(), deadline, 0);
        let lookup = self.lookup_to_change(db, key);
        self.put_entry(db, lookup, entry)
    }

    fn put(
        &mut self,
        db: usize,
        key: &[u8],
        value: New<'_>,
        expire: Expire,
    ) -> Result<(), MemoryError> {
        let lookup = self.lookup_to_change(db, key);
        let mut value = value;
        let mut deadline = expire.deadline(NEVER);
        if let Some(seat) = lookup.seat {
            let booked = self.booked(seat);
            deadline = expire.deadline(booked.deadline);
            let entry = self.slots.entry_mut(seat);
            if let Some(entry) = entry.filter(|entry| entry.has_place_for(deadline)) {
                match entry.overwrite(value) {
                    Ok(()) => {
                        if !Mutant::SetKeepsDeadline.is_made() {
                            entry.set_deadline(deadline);
                        }
                        self.book(db, seat, booked);
                        return Ok(());
                    }
                    Err(unfit) => value = unfit,
                }
            }
        }
        let entry = Owned::new(self.birth(db), key, value, deadline, 0);
        self.put_entry(db, lookup, entry).map(drop)
    }

    /// Puts an entry where a lookup has just found that its key belongs; returns the slot.
    pub(crate) fn put_entry(
        &mut self,
        db: usize,
        lookup: Lookup,
        entry: Owned,
    ) -> Result<u32, MemoryError> {
        if let Some(seat) = lookup.seat {
            self.replace(db, seat, lookup.hash, entry, 0);
            return Ok(seat.slot);
        }
        let owed = self.slots.shown().total();
        if owed > 0 && self.slots.check_room(owed + 1).is_err() {
            self.sweep(SWEEP_FOR_SLOT);
            self.slots.check_room(owed + 1)?; // K6
        }
        Ok(self.place(db, lookup.hash, entry)?.slot)
    }

    /// Puts the entry of a key that a database does not have into a free slot.
    pub(crate) fn place(
        &mut self,
        db: usize,
        hash: u64,
        entry: Owned,
    ) -> Result<Seat, MemoryError> {
        if !self.slots.has_free() {
            self.sweep(SWEEP_FOR_SLOT);
        }
        let seat = self.slots.insert(entry)?;
        self.dbs[db].index.insert(hash, seat.slot);
        self.access.begin(seat.slot);
        self.book(db, seat, NOTHING);
        Ok(seat)
    }

    /// Replaces an entry of the same key, with this hash, by one that shares bytes with it.
    pub(crate) fn replace(
        &mut self,
        db: usize,
        old: Seat,
        hash: u64,
        entry: Owned,
        shared_bytes: usize,
    ) {
        self.part(old.slot, hash);
        self.exchange(db, old, entry, shared_bytes);
    }

    /// Puts another entry where one is that no other database shows.
    pub(crate) fn exchange(&mut self, db: usize, old: Seat, entry: Owned, shared_bytes: usize) {
        let booked = self.booked(old);
        let seat = self.slots.replace(old.slot, entry, shared_bytes);
        self.book(db, seat, booked);
    }

    /// That of an entry that is born now.
    pub(crate) fn birth(&self, db: usize) -> Birth {
        Birth { era: self.slots.era(), space: self.spaces.of_db(db) }
    }

    pub(crate) fn booked(&self, seat: Seat) -> Booked {
        let entry = self.slots.entry_of(seat);
        Booked { bytes: entry.bytes(), deadline: entry.deadline(), traits: entry.traits() }
    }

    /// Brings the books of `db` up to date with an entry as it is now.
    pub(crate) fn book(&mut self, db: usize, seat: Seat, before: Booked) {
        let (slot, now) = (seat.slot, self.booked(seat));
        self.book_traits(db, slot, before.traits, now.traits);
        let db = &mut self.dbs[db];
        db.bytes = db.bytes - before.bytes + now.bytes;
        match (before.deadline != NEVER, now.deadline != NEVER) {
            (false, true) => db.expiries.add(slot, &mut self.expiry_positions),
            (true, false) if Mutant::BooksForgetDeadline.is_made() => {}
            (true, false) => db.expiries.remove(slot, &mut self.expiry_positions),
            (false, false) | (true, true) => {}
        }
    }

    /// Keeps the list of values with parts that expire, and counts what needs a newer file.
    #[inline]
    pub(crate) fn book_traits(&mut self, db: usize, slot: u32, before: Traits, now: Traits) {
        if before == now {
            return;
        }
        let db = &mut self.dbs[db];
        db.counts.change(before, now);
        match (before.is_timed(), now.is_timed()) {
            (false, true) => db.timed.add(slot, &mut self.timed_positions),
            (true, false) if Mutant::BooksForgetTimed.is_made() => {}
            (true, false) => db.timed.remove(slot, &mut self.timed_positions),
            (false, false) | (true, true) => {}
        }
    }
}

fn encode(value: &[u8]) -> New<'_> {
    parse_int(value).map_or_else(|| New::text(value), New::Int)
}

fn append_in_place(entry: &mut Entry, more: &[u8]) -> bool {
    if let Some(blob) = entry.blob_mut() {
        blob.extend_from_slice(more);
        return true;
    }
    entry.append_inline(more)
}

fn patch_in_place(entry: &mut Entry, offset: usize, patch: &[u8]) -> bool {
    if let Some(blob) = entry.blob_mut() {
        patch_vec(blob, offset, patch);
        return true;
    }
    let room = entry.inline_mut().and_then(|text| text.get_mut(offset..offset + patch.len()));
    room.is_some_and(|room| {
        room.copy_from_slice(patch);
        true
    })
}

fn patch_vec(text: &mut Vec<u8>, offset: usize, patch: &[u8]) {
    let end = offset + patch.len();
    if text.len() < end {
        text.resize(end, 0);
    }
    text[offset..end].copy_from_slice(patch);
}
