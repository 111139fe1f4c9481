//! Expired keys: a lookup or the clock finds and reports them.

use stillframe::Algorithm;

use super::Keyspace;
use crate::DATABASES;
use crate::memory::index::Seat;

impl<A: Algorithm> Keyspace<A> {
    /// Visits the next `budget` keys with a time to live, in turn, and deletes the expired ones;
    /// returns their number.
    pub fn expire_cycle(&mut self, now: i64, budget: usize) -> usize {
        let with_deadline: usize = self.dbs.iter().map(|db| db.expiries.len()).sum();
        let mut deleted = 0;
        for _ in 0..budget.min(with_deadline) {
            let Some(slot) = self.next_with_deadline() else { break };
            deleted += usize::from(self.delete_if_expired(slot, now));
        }
        deleted
    }

    /// The next key with a time to live: databases take turns after each round of their keys.
    fn next_with_deadline(&mut self) -> Option<u32> {
        for _ in 0..=DATABASES {
            let expiries = &mut self.dbs[self.expire_turn % DATABASES].expiries;
            match expiries.next() {
                Some(slot) => return Some(slot),
                None => self.expire_turn += 1,
            }
        }
        None
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

    /// Databases and keys that expired and were deleted since the last call, in order.
    pub fn take_expired(&mut self) -> Vec<(usize, Box<[u8]>)> {
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
            let key = (self.spaces.db_of(entry), entry.key().into());
            self.expired.push(key);
        }
        self.delete(slot, hash);
        self.expired_total += 1;
    }
}

#[cfg(test)]
mod tests {
    use crate::Expire;
    use crate::store::tests::keyspace;

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
}
