//! A lock for each record: many readers or one writer, held until the transaction has ended.
//!
//! A lock is one word: whether it is exclusive, how many read, whether a writer wants it, and the
//! age of its oldest holder. A transaction has an age, which it keeps when it runs again: a lower
//! one is older.
//! With [`Deadlock::WaitDie`] only a transaction that is older than all holders waits, so no circle
//! of waiting transactions can close; the oldest of all is never made to run again.
//!
//! There a writer that finds readers marks the lock as wanted, whether it waits or runs again: no
//! other reader comes in until the last of these has left. So readers that overlap cannot keep a
//! writer out, and the age in the lock, which only falls while there are holders, begins anew: in
//! the end the writer is the oldest. A reader that is kept out waits if it is older than all
//! holders, who are younger than itself and do not wait for it.

use crate::mutant::{Mutant, Mutation};
use crate::shape::CreateError;
use crate::sync::{AtomicU64, Backoff, Ordering};
use crate::table::words;

/// What a transaction does about a record that another one has locked.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Deadlock {
    /// It runs again.
    #[default]
    NoWait,
    /// It waits if it is older than all that hold the lock, and runs again if not.
    WaitDie,
}

/// A record is locked by another transaction: this one has to run again. Return it by `?`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a record is locked by another transaction; this one has to run again")]
pub struct Conflict(pub(crate) ());

const FREE: u64 = 0;
const EXCLUSIVE: u64 = 1 << 63;
const READER: u64 = 1 << 48;
const READERS: u64 = EXCLUSIVE - READER;
const WANTED: u64 = 1 << 47;
const AGE: u64 = WANTED - 1;

/// The locks of all records.
#[derive(Debug)]
pub(crate) struct Locks {
    records: Box<[AtomicU64]>,
    pub(crate) deadlock: Deadlock,
    mutation: Mutation,
}

impl Locks {
    /// The oldest age is 1; ages beyond 2^47 are not told apart.
    pub(crate) const YOUNGEST: u64 = AGE;

    pub(crate) fn new(records: usize, deadlock: Deadlock) -> Result<Self, CreateError> {
        Ok(Self { records: words(records)?, deadlock, mutation: Mutation::current() })
    }

    /// Brings the lock of `record` near.
    #[inline]
    pub(crate) fn prefetch(&self, record: usize) {
        stillframe::os::prefetch(&raw const self.records[record]);
    }

    /// Takes the lock of `record` if `taken` gives the word that it becomes. Waits if allowed: one
    /// of `age` below that of the oldest holder.
    fn take(
        &self,
        record: usize,
        age: u64,
        writes: bool,
        taken: impl Fn(u64) -> Option<u64>,
    ) -> Result<(), Conflict> {
        let lock = &self.records[record];
        let mut backoff = Backoff::default();
        let mut seen = lock.load(Ordering::Relaxed);
        loop {
            let Some(next) = taken(seen) else {
                if self.deadlock == Deadlock::NoWait {
                    return Err(Conflict(()));
                }
                if writes {
                    self.want(lock, seen);
                }
                if age >= seen & AGE {
                    return Err(Conflict(()));
                }
                backoff.wait();
                seen = lock.load(Ordering::Relaxed);
                continue;
            };
            match lock.compare_exchange_weak(seen, next, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return Ok(()),
                Err(now) => seen = now,
            }
        }
    }

    /// Keeps other readers out of a lock that some hold. It may have changed meanwhile: a
    /// reader that still wants it tries again.
    #[cold]
    fn want(&self, lock: &AtomicU64, seen: u64) {
        if seen & EXCLUSIVE == 0 && !self.mutation.is(Mutant::WriterIsNotWanted) {
            let (done, not) = (Ordering::Relaxed, Ordering::Relaxed);
            let _ = lock.compare_exchange(seen, seen | WANTED, done, not);
        }
    }

    /// Takes the lock of `record` to read.
    pub(crate) fn share(&self, record: usize, age: u64) -> Result<(), Conflict> {
        self.take(record, age, false, |seen| match seen {
            FREE | WANTED => Some(READER | age),
            seen if seen & (EXCLUSIVE | WANTED) == 0 && seen & READERS != READERS => {
                Some(((seen & READERS) + READER) | age.min(seen & AGE))
            }
            _ => None,
        })
    }

    /// Takes the lock of `record` to write.
    pub(crate) fn exclude(&self, record: usize, age: u64) -> Result<(), Conflict> {
        self.take(record, age, true, |seen| (seen & !WANTED == 0).then_some(EXCLUSIVE | age))
    }

    /// Makes a lock that this transaction holds to read one to write, once no other reads. It is a
    /// holder itself, so it waits if it is the oldest. The age of a reader that has left may still
    /// stand in the lock; then it runs again needlessly.
    pub(crate) fn upgrade(&self, record: usize, age: u64) -> Result<(), Conflict> {
        let alone = |seen| (seen & READERS == READER).then_some(EXCLUSIVE | age);
        self.take(record, age - 1, true, alone)
    }

    pub(crate) fn release_shared(&self, record: usize) {
        let lock = &self.records[record];
        let mut seen = lock.load(Ordering::Relaxed);
        loop {
            let next = if seen & READERS == READER { seen & WANTED } else { seen - READER };
            match lock.compare_exchange_weak(seen, next, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return,
                Err(now) => seen = now,
            }
        }
    }

    pub(crate) fn release_exclusive(&self, record: usize) {
        self.records[record].store(FREE, Ordering::Release);
    }
}

#[cfg(all(test, feature = "mutants", not(any(feature = "loom", feature = "shuttle"))))]
mod tests {
    use super::*;
    use crate::mutant::with_mutant;

    /// Two readers, a younger writer, and readers that come after it. Whether those are kept out
    /// until the writer had its turn.
    fn a_writer_has_its_turn(deadlock: Deadlock) -> bool {
        let locks = Locks::new(1, deadlock).expect("memory");
        let [oldest, old, writer, young] = [1, 2, 5, 9];
        locks.share(0, oldest).expect("it is free");
        locks.share(0, old).expect("it is shared");
        locks.exclude(0, writer).expect_err("older ones read");
        let is_kept_out = locks.share(0, young).is_err();
        if !is_kept_out {
            locks.release_shared(0);
        }
        locks.release_shared(0);
        let is_kept_out = is_kept_out && locks.share(0, young).is_err();
        locks.release_shared(0);
        locks.exclude(0, writer).expect("nobody reads");
        locks.share(0, young).expect_err("an older one writes");
        locks.release_exclusive(0);
        locks.share(0, young).expect("it is free");
        locks.share(0, old).expect("nobody wants to write");
        locks.upgrade(0, young).expect_err("an older one reads");
        locks.release_shared(0);
        locks.release_shared(0);
        // Nobody came back: the mark keeps nobody out of a lock that is free.
        locks.share(0, young).expect("it is free");
        is_kept_out
    }

    #[test]
    fn a_writer_that_was_refused_keeps_other_readers_out_until_the_lock_is_free() {
        assert!(a_writer_has_its_turn(Deadlock::WaitDie));
        assert!(!a_writer_has_its_turn(Deadlock::NoWait), "it promises nothing");
        let mutant = Mutant::WriterIsNotWanted;
        assert!(!with_mutant(mutant, || a_writer_has_its_turn(Deadlock::WaitDie)), "{mutant:?}");
    }
}
