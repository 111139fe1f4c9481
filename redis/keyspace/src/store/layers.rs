//! Databases that are branches of others: made in O(1), they pay for what is written.
//!
//! A branch shows the entries of the database that it was made of, as long as neither side changes
//! them (see `memory::shown`). A change of one *parts* the key first: each database that shows the
//! entry gets a copy, which shares large values with it. If a branch is the one that changes, the
//! entry is put anew where it was, younger, so that nobody shows it any more. So a deletion in a
//! branch leaves nothing behind, and images, which walk over the slots, find all that they need
//! there: they give an entry to each database that shows it.
//!
//! Invariants, beside those of `memory::shown`
//! - K6: as many slots can still be had as copies may be needed. So what parts a key cannot fail,
//!   and a deletion needs no memory that a full keyspace has not.
//! - K7: what a lookup finds may lie in the slot of another database. Who changes keys takes it
//!   over first ([`Keyspace::lookup_to_change`]).

use std::alloc::{Layout, handle_alloc_error};

use stillframe::{Algorithm, MemoryError};

use super::Keyspace;
use super::cursor::Cursor;
use super::lookup::Lookup;
use crate::DATABASES;
use crate::memory::entry::{Entry, KEY_BYTES};
use crate::memory::index::{Index, below};
use crate::memory::shown::Counts;
use crate::memory::shown::mutants::Mutant;
use crate::memory::slots::Seat;

/// Slots of others that a step of a scan looks at, for each key that it may answer with.
const SLOTS_PER_KEY: usize = 16;
/// Choices of a random key before a walk looks for one.
const TRIES: usize = 100;

impl<A: Algorithm> Keyspace<A> {
    /// Makes database `to` a branch of `from`: it has the same keys, and each of the two is changed
    /// by itself from then on. What it had is deleted. O(1), unless `to` has branches itself;
    /// memory is taken for keys that either of the two changes, and by large ones in pieces.
    ///
    /// # Errors
    /// As for [`check_branch`](Self::check_branch); nothing changes.
    pub fn branch(&mut self, from: usize, to: usize) -> Result<(), MemoryError> {
        if from == to {
            return Ok(());
        }
        self.check_branch(from, to)?;
        self.clear(to);
        let [space, of] = [to, from].map(|db| self.spaces.of_db(db));
        let shown = self.slots.shown().counts(of);
        let own = &self.dbs[from];
        let counts = Counts {
            keys: own.index.len() + shown.keys,
            mortal: own.expiries.len() + shown.mortal,
            bytes: own.bytes + own.index.len() * KEY_BYTES + shown.bytes,
        };
        let era = self.slots.end_era();
        self.slots.shown_mut().begin(space, of, era, counts);
        Ok(())
    }

    /// Whether there are slots enough for a branch, were all keys of it changed.
    ///
    /// # Errors
    /// [`MemoryError`]: there are not.
    pub fn check_branch(&self, from: usize, to: usize) -> Result<(), MemoryError> {
        let owed = self.slots.shown().total() - self.shown_keys(to);
        self.slots.check_room(owed + self.len(from)) // K6
    }

    /// How many keys of a database it shows of another one, and holds no copies of.
    #[must_use]
    pub fn shown_keys(&self, db: usize) -> usize {
        self.slots.shown().keys(self.spaces.of_db(db))
    }

    /// The index of the database in a space.
    pub(crate) fn index_in(&self, space: usize) -> &Index {
        &self.dbs[self.spaces.db_in(space)].index
    }

    /// The seat of a key that the database shows of another one.
    #[inline]
    pub(crate) fn find_shown(&self, db: usize, hash: u64, key: &[u8]) -> Option<Seat> {
        if self.shown_keys(db) == 0 { None } else { self.find_beneath(db, hash, key) }
    }

    #[cold]
    fn find_beneath(&self, db: usize, hash: u64, key: &[u8]) -> Option<Seat> {
        let space = self.spaces.of_db(db);
        self.slots.shown().beneath(space).find_map(|beneath| {
            let found = self.slots.find(self.index_in(beneath), hash, key);
            found.filter(|&seat| self.slots.shown().shows(space, self.slots.entry_of(seat)))
        })
    }

    /// Looks a key up that is about to be changed, and that may be the one that was looked up last:
    /// what is found lies in a slot of this database (K7).
    #[inline]
    pub(crate) fn lookup_to_change(&mut self, db: usize, key: &[u8]) -> Lookup {
        let lookup = self.lookup_again(db, key);
        match lookup.seat {
            Some(seat) if self.slots.entry_of(seat).space() != self.spaces.of_db(db) => {
                self.take_over(db, lookup.hash, seat)
            }
            _ => lookup,
        }
    }

    /// Gives a database its own copy of an entry that it shows.
    #[cold]
    pub(crate) fn take_over(&mut self, db: usize, hash: u64, seat: Seat) -> Lookup {
        self.part_shown(seat.slot, hash);
        if !Mutant::LeavesIt.is_made() {
            let entry = self.at(seat.slot);
            let (owner, shared_bytes) = (self.spaces.db_of(entry), entry.outside_bytes());
            let again = entry.copy_born(self.birth(owner));
            self.exchange(owner, seat, again, shared_bytes);
        }
        let own = self.slots.find(&self.dbs[db].index, hash, self.at(seat.slot).key());
        debug_assert!(own.is_some(), "it has a copy now");
        self.known.learn(hash, own);
        Lookup { hash, seat: own }
    }

    /// The entry in `slot`, whose key has this hash, is about to change or to leave: databases that
    /// show it get copies.
    #[inline]
    pub(crate) fn part(&mut self, slot: u32, hash: u64) {
        if self.slots.shown().is_shown(self.at(slot)) && !Mutant::ForgetsToPart.is_made() {
            self.part_shown(slot, hash);
        }
    }

    #[cold]
    fn part_shown(&mut self, slot: u32, hash: u64) {
        for space in 0..DATABASES {
            let entry = self.at(slot);
            if !self.slots.shown().shows(space, entry) {
                continue;
            }
            let db = self.spaces.db_in(space);
            let (copy, counts) = (entry.copy_born(self.birth(db)), Counts::from_entry(entry));
            self.slots.shown_mut().part(space, counts);
            let Ok(seat) = self.place(db, hash, copy) else {
                // Slots are left (K6), so the system has no memory for them: as for an entry.
                handle_alloc_error(Layout::new::<u64>())
            };
            self.access.follow(seat.slot, slot);
            if Mutant::GivesToOne.is_made() {
                return;
            }
        }
    }

    /// Parts all keys of a database: it is about to be cleared.
    pub(crate) fn part_all(&mut self, db: usize) {
        let space = self.spaces.of_db(db);
        if !self.slots.shown().is_beneath(space) || Mutant::ClearsBranches.is_made() {
            return;
        }
        let mut next = 0;
        while let Some(slot) = self.dbs[db].index.slots().next(next) {
            next = slot as usize + 1;
            if self.slots.shown().is_shown(self.at(slot)) {
                self.part_shown(slot, self.hash_in(slot));
            }
        }
        self.slots.shown_mut().cover(space);
    }

    /// Slots of entries that a database shows of others, from `from` on.
    fn slots_beneath(&self, db: usize, from: usize) -> impl Iterator<Item = u32> {
        let mut next = from;
        let beneath: Vec<usize> = self.slots.shown().beneath(self.spaces.of_db(db)).collect();
        std::iter::from_fn(move || {
            let indexes = beneath.iter().map(|&space| self.index_in(space));
            let slot = indexes.filter_map(|index| index.slots().next(next)).min()?;
            next = slot as usize + 1;
            Some(slot)
        })
    }

    /// The entries that a database shows of others.
    pub(crate) fn entries_beneath(&self, db: usize) -> impl Iterator<Item = &Entry> {
        let space = self.spaces.of_db(db);
        let entries = self.slots_beneath(db, 0).map(|slot| self.at(slot));
        entries.filter(move |entry| self.slots.shown().shows(space, entry))
    }

    /// The part of a scan that meets what a database shows of others: calls `f` for the next keys,
    /// `left` at most, and returns where to go on, unless that was all.
    #[cold]
    pub(crate) fn scan_beneath(
        &self,
        db: usize,
        cursor: Cursor,
        left: &mut usize,
        now: i64,
        f: &mut impl FnMut(&Entry),
    ) -> Option<Cursor> {
        let space = self.spaces.of_db(db);
        let mut looks = left.saturating_mul(SLOTS_PER_KEY);
        for slot in self.slots_beneath(db, cursor.next) {
            if slot as usize >= cursor.end() {
                break;
            }
            if *left == 0 || looks == 0 {
                return Some(cursor.at(slot as usize));
            }
            looks -= 1;
            let entry = self.at(slot);
            if self.slots.shown().shows(space, entry) && !entry.is_expired(now) {
                *left -= 1;
                f(entry);
            }
        }
        None
    }

    /// The slot of any entry that a database shows of others.
    #[cold]
    pub(crate) fn random_beneath(
        &self,
        db: usize,
        random: &mut impl FnMut() -> u64,
    ) -> Option<u32> {
        let space = self.spaces.of_db(db);
        let beneath: Vec<_> = self.slots.shown().beneath(space).collect();
        let indexes = || beneath.iter().map(|&it| self.index_in(it));
        let all: usize = indexes().map(|index| index.len()).sum();
        for _ in 0..TRIES {
            let mut at = below(random(), all);
            let index = indexes().find(|index| {
                let is_here = at < index.len();
                at = at.wrapping_sub(index.len());
                is_here
            });
            let slot = index.and_then(|index| index.random(random));
            if let Some(slot) = slot.filter(|&slot| self.slots.shown().shows(space, self.at(slot)))
            {
                return Some(slot);
            }
        }
        self.slots_beneath(db, 0).find(|&slot| self.slots.shown().shows(space, self.at(slot)))
    }
}
