//! A lock for each record: many readers or one writer, held until the transaction has ended.
//!
//! A lock is one word: whether it is exclusive, how many read, and the age of its oldest holder. A
//! transaction has an age, which it keeps when it runs again: a lower one is older.
//! With [`Deadlock::WaitDie`] only a transaction that is older than all holders waits, so no circle
//! of waiting transactions can close; the oldest of all is never made to run again.

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

const EXCLUSIVE: u64 = 1 << 63;
const READER: u64 = 1 << 48;
const READERS: u64 = EXCLUSIVE - READER;
const AGE: u64 = READER - 1;

/// The locks of all records.
#[derive(Debug)]
pub(crate) struct Locks {
    records: Box<[AtomicU64]>,
    pub(crate) deadlock: Deadlock,
}

impl Locks {
    /// The oldest age is 1; ages beyond 2^48 are not told apart.
    pub(crate) const YOUNGEST: u64 = AGE;

    pub(crate) fn new(records: usize, deadlock: Deadlock) -> Result<Self, CreateError> {
        Ok(Self { records: words(records)?, deadlock })
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
        taken: impl Fn(u64) -> Option<u64>,
    ) -> Result<(), Conflict> {
        let lock = &self.records[record];
        let mut backoff = Backoff::default();
        let mut seen = lock.load(Ordering::Relaxed);
        loop {
            let Some(next) = taken(seen) else {
                if self.deadlock == Deadlock::NoWait || age >= seen & AGE {
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

    /// Takes the lock of `record` to read.
    pub(crate) fn share(&self, record: usize, age: u64) -> Result<(), Conflict> {
        self.take(record, age, |seen| match seen {
            0 => Some(READER | age),
            seen if seen & EXCLUSIVE == 0 && seen & READERS != READERS => {
                Some(((seen & READERS) + READER) | age.min(seen & AGE))
            }
            _ => None,
        })
    }

    /// Takes the lock of `record` to write.
    pub(crate) fn exclude(&self, record: usize, age: u64) -> Result<(), Conflict> {
        self.take(record, age, |seen| (seen == 0).then_some(EXCLUSIVE | age))
    }

    /// Makes a lock that this transaction holds to read one to write, once no other reads. It is a
    /// holder itself, so it waits if it is the oldest. The age of a reader that has left may still
    /// stand in the lock; then it runs again needlessly.
    pub(crate) fn upgrade(&self, record: usize, age: u64) -> Result<(), Conflict> {
        let alone = |seen| (seen & READERS == READER).then_some(EXCLUSIVE | age);
        self.take(record, age - 1, alone)
    }

    pub(crate) fn release_shared(&self, record: usize) {
        let lock = &self.records[record];
        let mut seen = lock.load(Ordering::Relaxed);
        loop {
            let next = if seen & READERS == READER { 0 } else { seen - READER };
            match lock.compare_exchange_weak(seen, next, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return,
                Err(now) => seen = now,
            }
        }
    }

    pub(crate) fn release_exclusive(&self, record: usize) {
        self.records[record].store(0, Ordering::Release);
    }
}
