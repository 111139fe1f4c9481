//! Expired keys and fields of hashes: a lookup or the clock finds and reports them.

use stillframe::Algorithm;

use super::expiries::Expiries;
use super::mistakes::Mutant;
use super::{Db, Keyspace};
use crate::DATABASES;
use crate::collection::edits::HashEdit;
use crate::collection::kind::Type;
use crate::collection::traits::Traits;
use crate::memory::slots::Seat;

/// Most fields that one look at a hash deletes.
const FIELDS: usize = if cfg!(any(test, miri)) { 4 } else { 256 };

/// What expired and was deleted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Expired {
    /// Its database.
    pub db: usize,
    /// Its key.
    pub key: Box<[u8]>,
    /// The fields of a hash that expired; none: the key did.
    pub fields: Vec<Box<[u8]>>,
    /// Whether the key is gone: with its last field, a hash is deleted.
    pub is_gone: bool,
}

impl<A: Algorithm> Keyspace<A> {
    /// Visits the next `budget` keys with a time to live, in turn, and deletes the expired ones;
    /// returns their number.
    pub fn expire_cycle(&mut self, now: i64, budget: usize) -> usize {
        let with_deadline: usize = self.dbs.iter().map(|db| db.expiries.len()).sum();
        let mut deleted = 0;
        for _ in 0..budget.min(with_deadline) {
            let next = next_in_turn(&mut self.dbs, &mut self.expire_turn, |db| &mut db.expiries);
            let Some(slot) = next else { break };
            deleted += usize::from(self.delete_if_expired(slot, now));
        }
        deleted
    }

    /// Visits the next hashes with fields that expire and streams with messages of producers, in
    /// turn, and deletes some of what has expired of each, until it has visited all, or visits and
    /// deletions together reach `budget`; returns how much it deleted.
    pub fn expire_fields_cycle(&mut self, now: i64, budget: usize) -> usize {
        if self.spares_expired && self.count_with(Traits::SENT) == 0 {
            return 0;
        }
        let listed: usize = self.dbs.iter().map(|db| db.timed.len()).sum();
        let mut deleted = 0;
        for visits in 0..listed {
            if visits + deleted >= budget {
                break;
            }
            let next = next_in_turn(&mut self.dbs, &mut self.field_turn, |db| &mut db.timed);
            let Some(slot) = next else { break };
            let entry = self.at(slot);
            if entry.has_due(now) {
                let (db, key) = (self.spaces.db_of(entry), Box::<[u8]>::from(entry.key()));
                deleted += match entry.value_type() {
                    Type::Stream => self.forget_sent(db, &key, now),
                    _ => self.expire_fields(db, &key, now),
                };
            }
        }
        deleted
    }

    /// Forgets messages of producers that are known no more, which nobody sees: replicas do so by
    /// themselves.
    fn forget_sent(&mut self, db: usize, key: &[u8], now: i64) -> usize {
        // Without memory for a new entry they stay, and count as unknown.
        self.edit_stream(db, key, |stream| stream.forget_sent(now, FIELDS)).unwrap_or(0)
    }

    fn count_with(&self, trait_: Traits) -> usize {
        self.dbs.iter().map(|db| db.counts.having(trait_)).sum()
    }

    /// How many hashes have fields that expire; each counts once, though branches show it.
    #[must_use]
    pub fn timed_hashes(&self) -> usize {
        self.count_with(Traits::FIELDS)
    }

    /// How many hashes of a database have fields that expire, without those that it shows of
    /// another one.
    #[must_use]
    pub fn timed_hashes_in(&self, db: usize) -> usize {
        self.dbs[db].counts.having(Traits::FIELDS)
    }

    /// On how many streams something is known of producers (see
    /// [`Stream::has_idmp`](crate::Stream::has_idmp)).
    #[must_use]
    pub fn streams_with_idmp(&self) -> usize {
        self.count_with(Traits::IDMP)
    }

    /// How many streams have entries that are pending for nobody.
    #[must_use]
    pub fn streams_with_released(&self) -> usize {
        self.count_with(Traits::RELEASED)
    }

    /// How many arrays there are; each counts once, though branches show it.
    #[must_use]
    pub fn arrays(&self) -> usize {
        self.count_with(Traits::ARRAY)
    }

    /// Deletes fields of a hash whose deadline has come, unless what expires is spared: not more
    /// than one command may take time for. What is left of them is hidden by
    /// [`Hash::as_of`](crate::Hash::as_of). Returns how many it deleted.
    pub fn expire_fields(&mut self, db: usize, key: &[u8], now: i64) -> usize {
        let now = now - i64::from(Mutant::FieldExpiresLate.is_made());
        self.expire_some(db, key, now, |hash| hash.remove_due(now, FIELDS))
    }

    /// As [`expire_fields`](Self::expire_fields), for all of these fields whose deadline has come:
    /// an edit is about to look at them, and sees what is hidden.
    pub fn expire_named<'f>(
        &mut self,
        db: usize,
        key: &[u8],
        now: i64,
        fields: impl IntoIterator<Item = &'f [u8]>,
    ) -> usize {
        self.expire_some(db, key, now, |hash| {
            let mut removed = Vec::new();
            for field in fields {
                if hash.view().deadline(field).is_some_and(|deadline| deadline <= now) {
                    hash.remove(field);
                    removed.push(field.into());
                }
            }
            removed
        })
    }

    /// Counts fields that a deadline in the past has deleted among those that have expired.
    pub fn count_expired_fields(&mut self, fields: usize) {
        self.expired_fields_total += fields as u64;
    }

    /// Deletes fields of a hash that `remove` removes, if some are due.
    fn expire_some(
        &mut self,
        db: usize,
        key: &[u8],
        now: i64,
        remove: impl FnOnce(&mut HashEdit<'_>) -> Vec<Box<[u8]>>,
    ) -> usize {
        let lookup = self.lookup_again(db, key);
        let is_due = lookup.seat.is_some_and(|seat| self.slots.entry_of(seat).has_due(now));
        if !is_due || self.spares_expired {
            return 0;
        }
        let edited = self.edit_hash(db, key, |hash| (remove(hash), hash.view().len() == 0));
        // Without memory for a new entry they stay, and are hidden.
        let Ok((fields, is_gone)) = edited else { return 0 };
        let deleted = fields.len();
        self.expired_fields_total += deleted as u64;
        if self.keeps_expired && deleted > 0 {
            match self.expired.last_mut() {
                // A lookup has found some, and an edit names more: they expire together.
                Some(last) if last.db == db && *last.key == *key && !last.is_gone => {
                    last.fields.extend(fields);
                    last.is_gone = is_gone;
                }
                _ => self.expired.push(Expired { db, key: key.into(), fields, is_gone }),
            }
        }
        deleted
    }

    /// Turns on or off whether [`take_expired`](Self::take_expired) returns expired keys.
    pub fn keep_expired(&mut self, keep: bool) {
        self.keeps_expired = keep;
        if !keep {
            self.expired = Vec::new();
        }
    }

    /// Turns on or off that expired keys stay until the caller deletes them, though calls that take
    /// `now` find them absent: a replica waits for its primary's DEL.
    pub fn spare_expired(&mut self, spare: bool) {
        self.spares_expired = spare;
    }

    /// Whether [`take_expired`](Self::take_expired) has anything to return.
    #[inline]
    #[must_use]
    pub fn has_expired(&self) -> bool {
        !self.expired.is_empty()
    }

    /// What expired and was deleted since the last call, in order.
    pub fn take_expired(&mut self) -> Vec<Expired> {
        std::mem::take(&mut self.expired)
    }

    pub(crate) fn delete_if_expired(&mut self, slot: u32, now: i64) -> bool {
        let expired = self.slots.entry(slot).is_some_and(|entry| entry.is_expired(now));
        if expired && !self.spares_expired {
            self.expire(slot, self.hash_in(slot));
        }
        expired
    }

    /// Deletes the expired key of a database that a lookup has found, as [`expire`](Self::expire).
    #[cold]
    pub(crate) fn expire_in(&mut self, db: usize, seat: Seat, hash: u64) {
        let is_own = self.slots.entry_of(seat).space() == self.spaces.of_db(db);
        if is_own || self.spares_expired {
            return self.expire(seat.slot, hash);
        }
        // Where it lies, it expires by itself.
        if let Some(own) = self.take_over(db, hash, seat).seat {
            self.expire(own.slot, hash);
        }
    }

    /// Deletes the expired key in `slot` with this hash, unless expired keys are spared.
    pub(crate) fn expire(&mut self, slot: u32, hash: u64) {
        if self.spares_expired {
            return;
        }
        if self.keeps_expired {
            let entry = self.at(slot);
            let (db, key) = (self.spaces.db_of(entry), entry.key().into());
            self.expired.push(Expired { db, key, fields: Vec::new(), is_gone: true });
        }
        self.delete(slot, hash);
        self.expired_total += 1;
    }
}

/// The next slot of a list that each database has: they take turns after each round of theirs.
fn next_in_turn(
    dbs: &mut [Db; DATABASES],
    turn: &mut usize,
    list: impl Fn(&mut Db) -> &mut Expiries,
) -> Option<u32> {
    for _ in 0..=DATABASES {
        match list(&mut dbs[*turn % DATABASES]).next() {
            Some(slot) => return Some(slot),
            None => *turn += 1,
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use crate::store::tests::keyspace;
    use crate::{Expire, IdmpMessage, StreamId, Value};

    #[test]
    fn spared_keys_are_absent_and_stay() {
        let mut keyspace = keyspace();
        keyspace.keep_expired(true);
        keyspace.spare_expired(true);
        keyspace.set(0, b"a", b"1", Expire::At(10)).unwrap();
        assert!(!keyspace.contains(0, b"a", 10) && keyspace.peek(0, b"a", 10).is_none());
        assert_eq!(keyspace.expire_cycle(10, 100), 1, "found, and spared");
        assert!(keyspace.random(0, 10, &mut || 7).is_some(), "there is no other");
        assert!(keyspace.contains(0, b"a", 9) && keyspace.len(0) == 1);
        keyspace.spare_expired(false);
        assert!(!keyspace.contains(0, b"a", 10) && keyspace.is_empty(0));
        assert_eq!(keyspace.take_expired().len(), 1, "reported once");
    }

    #[test]
    fn each_call_of_the_cycle_visits_as_many_as_it_may() {
        let mut keyspace = keyspace();
        keyspace.set(3, b"a", b"1", Expire::At(10)).unwrap();
        (0..5).for_each(|_| assert_eq!(keyspace.expire_cycle(9, 1), 0));
        assert_eq!(keyspace.expire_cycle(10, 1), 1);
    }

    #[test]
    fn messages_of_producers_are_forgotten_where_what_expires_is_spared() {
        let mut keyspace = keyspace();
        keyspace.spare_expired(true);
        let id = StreamId { ms: 1, seq: 0 };
        let added = keyspace.edit_stream(0, b"s", |stream| {
            stream.add(id, [(&b"f"[..], &b"v"[..])].into_iter());
            stream.note_sent(IdmpMessage { pid: b"producer", iid: b"message" }, id);
        });
        added.unwrap();
        assert_eq!(keyspace.expire_fields_cycle(i64::MAX - 1, 9), 1);
    }

    #[test]
    fn a_hash_that_has_expired_and_was_made_anew_expires_anew() {
        let mut keyspace = keyspace();
        keyspace.keep_expired(true);
        for (now, more) in [(10, false), (11, true)] {
            let edited = keyspace.edit_hash(0, b"h", |hash| {
                hash.set_until(b"f", b"1", Some(now));
                if more {
                    hash.set(b"stays", b"2");
                }
            });
            edited.unwrap();
            assert_eq!(keyspace.expire_fields(0, b"h", now), 1);
        }
        let expired = keyspace.take_expired();
        let shown = expired.iter().map(|it| (it.fields.len(), it.is_gone));
        assert!(shown.eq([(1, true), (1, false)]), "{expired:?}");
    }

    #[test]
    fn fields_expire_in_a_database_and_in_its_branch() {
        let mut keyspace = keyspace();
        keyspace.keep_expired(true);
        let edited = keyspace.edit_hash(0, b"h", |hash| {
            hash.set_until(b"short", b"1", Some(10));
            hash.set_until(b"long", b"2", Some(20));
        });
        edited.unwrap();
        keyspace.branch(0, 1).unwrap();
        keyspace.open_view(7, 5);
        for (now, left) in [(9, 2), (10, 1), (20, 0)] {
            (0..4).for_each(|_| _ = keyspace.expire_fields_cycle(now, 100));
            for db in [0, 1] {
                let found = keyspace.peek(db, b"h", now).map_or(0, |entry| entry.value().len());
                assert_eq!(found, left, "database {db} at {now}");
            }
            let gone = keyspace.take_expired();
            let expected = if left == 2 { 0 } else { 2 };
            assert_eq!(gone.iter().filter(|it| it.is_gone == (left == 0)).count(), expected);
            let view = keyspace.view(7).unwrap();
            assert_eq!(view.get(1, b"h").map(|entry| entry.value().len()), Some(2), "it stays");
        }
        assert_eq!((keyspace.timed_hashes(), keyspace.stats().expired_fields_total), (0, 4));
        keyspace.close_view(7);
    }

    #[test]
    fn spared_fields_are_hidden_and_stay() {
        let mut keyspace = keyspace();
        keyspace.spare_expired(true);
        keyspace.edit_hash(0, b"h", |hash| hash.set_until(b"f", b"v", Some(10))).unwrap();
        assert_eq!(keyspace.expire_fields(0, b"h", 10) + keyspace.expire_fields_cycle(10, 9), 0);
        let Some(Value::Hash(hash)) = keyspace.get(0, b"h", 10).map(|entry| entry.value()) else {
            panic!("it is there")
        };
        assert_eq!((hash.len(), hash.as_of(10).len(), hash.as_of(9).len()), (1, 0, 1));
        assert_eq!((hash.as_of(10).get(b"f"), hash.as_of(10).at(0)), (None, None));
    }
}
