//! The keyed store. This first shape has the final signatures over plain maps; the slots of the
//! library, images and limbo take their place next.

use std::collections::HashMap;
use std::marker::PhantomData;

use stillframe::{MemoryError, SinkError};

use crate::value::{IntText, Value, parse_int};

/// Databases of a keyspace, numbered from 0.
pub const DATABASES: usize = 16;

/// Manner of a keyspace.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct KeyspaceOptions {
    /// Most memory an image may take for itself, in bytes.
    pub budget_bytes: usize,
    /// Ask for 2 MiB pages for the slots.
    pub huge_pages: bool,
    /// Most keys of all databases together.
    pub max_keys: usize,
}

impl Default for KeyspaceOptions {
    fn default() -> Self {
        Self { budget_bytes: 64 << 20, huge_pages: false, max_keys: 1 << 30 }
    }
}

/// What becomes of a key's time to live when its value is replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expire {
    /// The key lives for ever.
    Never,
    /// It keeps what it had (a new key lives for ever).
    Keep,
    /// It is absent from this instant on (unix milliseconds).
    At(i64),
}

/// Figures of a keyspace.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct KeyspaceStats {
    /// Keys of all databases.
    pub keys: usize,
    /// Keys with a time to live.
    pub expires: usize,
    /// Keys deleted because their time had come, since creation.
    pub expired_total: u64,
    /// Slots in use or free for reuse.
    pub slots: usize,
    /// Bytes of live entries.
    pub entry_bytes: usize,
    /// Replaced entries that an image may still read.
    pub limbo_entries: usize,
    /// Their bytes.
    pub limbo_bytes: usize,
}

/// Receives the entries of one image, each exactly once, in no particular order. Runs on the
/// snapshotter thread, or in a forked child where it must not allocate, lock or log.
pub trait EntrySink: Send {
    /// Takes one entry as it was at begin.
    ///
    /// # Errors
    /// Any error ends the image.
    fn entry(&mut self, entry: &Entry) -> Result<(), SinkError>;
    /// Called once, after the last entry.
    ///
    /// # Errors
    /// Any error fails the image.
    fn finish(&mut self) -> Result<(), SinkError> {
        Ok(())
    }
}

/// A key with its value and time to live.
#[derive(Debug, Clone)]
pub struct Entry {
    db: usize,
    key: Vec<u8>,
    expire_at: Option<i64>,
    value: Stored,
}

#[derive(Debug, Clone)]
enum Stored {
    Int(i64),
    Bytes(Vec<u8>),
}

impl Entry {
    /// Its database.
    #[must_use]
    pub fn db(&self) -> usize {
        self.db
    }
    /// Its key.
    #[must_use]
    pub fn key(&self) -> &[u8] {
        &self.key
    }
    /// When it expires, in unix milliseconds.
    #[must_use]
    pub fn expire_at(&self) -> Option<i64> {
        self.expire_at
    }
    /// Its value.
    #[must_use]
    pub fn value(&self) -> Value<'_> {
        match &self.value {
            Stored::Int(int) => Value::Int(*int),
            Stored::Bytes(bytes) => Value::Bytes(bytes),
        }
    }
    fn expired(&self, now: i64) -> bool {
        self.expire_at.is_some_and(|at| at <= now)
    }
}

/// Sixteen databases of keys. `db` is below [`DATABASES`] everywhere, `now` in unix milliseconds.
///
/// Calls that take `now` treat a key whose time has come as absent, and delete it. Calls that do
/// not take it act on whatever is stored: look the key up first where that matters.
pub struct Keyspace<A> {
    slots: Vec<Option<Entry>>,
    free: Vec<usize>,
    index: [HashMap<Vec<u8>, usize>; DATABASES],
    expired_total: u64,
    algorithm: PhantomData<fn() -> A>,
}

impl<A> Keyspace<A> {
    /// An empty keyspace.
    ///
    /// # Errors
    /// [`MemoryError`] when the memory for slots cannot be had.
    pub fn create(_options: &KeyspaceOptions) -> Result<Self, MemoryError> {
        Ok(Self {
            slots: Vec::new(),
            free: Vec::new(),
            index: Default::default(),
            expired_total: 0,
            algorithm: PhantomData,
        })
    }

    fn find(&mut self, db: usize, key: &[u8], now: i64) -> Option<usize> {
        let slot = *self.index[db].get(key)?;
        if self.at(slot)?.expired(now) {
            self.remove(db, key);
            self.expired_total += 1;
            return None;
        }
        Some(slot)
    }

    fn at(&self, slot: usize) -> Option<&Entry> {
        self.slots.get(slot)?.as_ref()
    }

    /// The entry of a key.
    pub fn get(&mut self, db: usize, key: &[u8], now: i64) -> Option<&Entry> {
        let slot = self.find(db, key, now)?;
        self.at(slot)
    }

    /// Whether the key exists.
    pub fn contains(&mut self, db: usize, key: &[u8], now: i64) -> bool {
        self.find(db, key, now).is_some()
    }

    /// Keys of a database, those included whose time has come but that nothing has met yet.
    #[must_use]
    pub fn len(&self, db: usize) -> usize {
        self.index[db].len()
    }

    /// Whether a database has no key.
    #[must_use]
    pub fn is_empty(&self, db: usize) -> bool {
        self.len(db) == 0
    }

    /// Keys of a database that have a time to live.
    #[must_use]
    pub fn expires(&self, db: usize) -> usize {
        self.index[db]
            .values()
            .filter(|&&s| self.at(s).is_some_and(|e| e.expire_at.is_some()))
            .count()
    }

    /// Calls `f` for the keys of `db` met while looking at about `budget` slots from `cursor` on
    /// (0 to begin), and returns the cursor to go on from, 0 at the end. A key that exists from
    /// the first call to the last is met at least once.
    pub fn scan(
        &mut self,
        db: usize,
        cursor: u64,
        budget: usize,
        now: i64,
        mut f: impl FnMut(&Entry),
    ) -> u64 {
        let start = usize::try_from(cursor).unwrap_or(usize::MAX).min(self.slots.len());
        let end = start.saturating_add(budget.max(1)).min(self.slots.len());
        for entry in self.slots[start..end].iter().flatten() {
            if entry.db == db && !entry.expired(now) {
                f(entry);
            }
        }
        if end == self.slots.len() { 0 } else { end as u64 }
    }

    /// A key of `db` chosen by `random`, which yields 64 random bits a call.
    pub fn random(
        &mut self,
        db: usize,
        now: i64,
        random: &mut impl FnMut() -> u64,
    ) -> Option<&Entry> {
        let alive: Vec<usize> = self.index[db]
            .values()
            .copied()
            .filter(|&slot| self.at(slot).is_some_and(|entry| !entry.expired(now)))
            .collect();
        let slot = *alive.get(random() as usize % alive.len().max(1))?;
        self.at(slot)
    }

    /// Calls `f` for every key of `db`.
    pub fn for_each(&mut self, db: usize, now: i64, mut f: impl FnMut(&Entry)) {
        for entry in self.slots.iter().flatten() {
            if entry.db == db && !entry.expired(now) {
                f(entry);
            }
        }
    }

    fn put(&mut self, db: usize, key: &[u8], value: Stored, expire: Expire) {
        let old = self.index[db].get(key).copied();
        let kept = old.and_then(|slot| self.at(slot)?.expire_at);
        let expire_at = match expire {
            Expire::Never => None,
            Expire::Keep => kept,
            Expire::At(at) => Some(at),
        };
        let entry = Some(Entry { db, key: key.to_vec(), expire_at, value });
        let slot = old.or_else(|| self.free.pop()).unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() - 1
        });
        self.slots[slot] = entry;
        self.index[db].insert(key.to_vec(), slot);
    }

    /// Sets a key, whatever it held. A value that is canonical integer text is kept as an integer.
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
        let value = parse_int(value).map_or_else(|| Stored::Bytes(value.to_vec()), Stored::Int);
        self.put(db, key, value, expire);
        Ok(())
    }

    /// Sets a key to an integer.
    ///
    /// # Errors
    /// As for [`set`](Self::set).
    pub fn set_int(
        &mut self,
        db: usize,
        key: &[u8],
        value: i64,
        expire: Expire,
    ) -> Result<(), MemoryError> {
        self.put(db, key, Stored::Int(value), expire);
        Ok(())
    }

    fn bytes_of(&self, db: usize, key: &[u8]) -> Vec<u8> {
        let entry = self.index[db].get(key).and_then(|&slot| self.at(slot));
        entry.map_or_else(Vec::new, |e| e.value().to_bytes(&mut IntText::default()).to_vec())
    }

    /// Appends to a key's text (an absent key is empty); returns the new length.
    ///
    /// # Errors
    /// As for [`set`](Self::set).
    pub fn append(&mut self, db: usize, key: &[u8], tail: &[u8]) -> Result<usize, MemoryError> {
        let mut bytes = self.bytes_of(db, key);
        bytes.extend_from_slice(tail);
        let len = bytes.len();
        self.put(db, key, Stored::Bytes(bytes), Expire::Keep);
        Ok(len)
    }

    /// Overwrites a key's text from `offset` on, padding with zeros; returns the new length.
    ///
    /// # Errors
    /// As for [`set`](Self::set).
    pub fn set_range(
        &mut self,
        db: usize,
        key: &[u8],
        offset: usize,
        patch: &[u8],
    ) -> Result<usize, MemoryError> {
        let mut bytes = self.bytes_of(db, key);
        let end = offset + patch.len();
        if bytes.len() < end {
            bytes.resize(end, 0);
        }
        bytes[offset..end].copy_from_slice(patch);
        let len = bytes.len();
        self.put(db, key, Stored::Bytes(bytes), Expire::Keep);
        Ok(len)
    }

    /// Sets or clears a key's time to live; false if there is no such key.
    pub fn set_expire(&mut self, db: usize, key: &[u8], at: Option<i64>) -> bool {
        let slot = self.index[db].get(key).copied();
        match slot.and_then(|slot| self.slots.get_mut(slot)?.as_mut()) {
            Some(entry) => {
                entry.expire_at = at;
                true
            }
            None => false,
        }
    }

    /// Deletes a key; false if there is no such key.
    pub fn remove(&mut self, db: usize, key: &[u8]) -> bool {
        let Some(slot) = self.index[db].remove(key) else { return false };
        self.slots[slot] = None;
        self.free.push(slot);
        true
    }

    /// Moves a key with its time to live, replacing what is there; false if `from` is absent.
    ///
    /// # Errors
    /// As for [`set`](Self::set).
    pub fn rename(
        &mut self,
        db: usize,
        from: &[u8],
        to_db: usize,
        to: &[u8],
    ) -> Result<bool, MemoryError> {
        if (db, from) == (to_db, to) {
            return Ok(self.index[db].contains_key(from));
        }
        Ok(self.copy(db, from, to_db, to)? && self.remove(db, from))
    }

    /// Copies a key with its time to live, replacing what is there; false if `from` is absent.
    ///
    /// # Errors
    /// As for [`set`](Self::set).
    pub fn copy(
        &mut self,
        db: usize,
        from: &[u8],
        to_db: usize,
        to: &[u8],
    ) -> Result<bool, MemoryError> {
        let Some(entry) = self.index[db].get(from).and_then(|&slot| self.at(slot)).cloned() else {
            return Ok(false);
        };
        let expire = entry.expire_at.map_or(Expire::Never, Expire::At);
        self.put(to_db, to, entry.value, expire);
        Ok(true)
    }

    /// Deletes every key of a database.
    pub fn clear(&mut self, db: usize) {
        for (_, slot) in self.index[db].drain() {
            self.slots[slot] = None;
            self.free.push(slot);
        }
    }

    /// Deletes every key.
    pub fn clear_all(&mut self) {
        (0..DATABASES).for_each(|db| self.clear(db));
    }

    /// Looks at about `budget` keys that have a time to live, in turn, and deletes those whose
    /// time has come; returns how many.
    pub fn expire_cycle(&mut self, now: i64, budget: usize) -> usize {
        let expired: Vec<(usize, Vec<u8>)> = self
            .slots
            .iter()
            .flatten()
            .filter(|entry| entry.expired(now))
            .take(budget)
            .map(|entry| (entry.db, entry.key.clone()))
            .collect();
        for (db, key) in &expired {
            self.remove(*db, key);
        }
        self.expired_total += expired.len() as u64;
        expired.len()
    }

    /// Called once per turn of the event loop: bounded housekeeping, next to nothing when idle.
    /// True if more is left to do, so that the loop should not sleep long.
    pub fn tend(&mut self) -> bool {
        false
    }

    /// Whether an image is under way.
    #[must_use]
    pub fn saving(&self) -> bool {
        false
    }

    /// Blocks until no image is under way.
    pub fn wait_image(&mut self) {}

    /// Figures of this instant.
    #[must_use]
    pub fn stats(&self) -> KeyspaceStats {
        KeyspaceStats {
            keys: (0..DATABASES).map(|db| self.len(db)).sum(),
            expires: (0..DATABASES).map(|db| self.expires(db)).sum(),
            expired_total: self.expired_total,
            slots: self.slots.len(),
            ..KeyspaceStats::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn basics() {
        let mut keyspace = Keyspace::<()>::create(&KeyspaceOptions::default()).unwrap();
        keyspace.set(0, b"a", b"12", Expire::At(10)).unwrap();
        assert_eq!(keyspace.get(0, b"a", 9).map(Entry::value), Some(Value::Int(12)));
        assert_eq!(keyspace.append(0, b"a", b"x").unwrap(), 3);
        assert!(keyspace.get(0, b"a", 10).is_none());
        assert_eq!(keyspace.stats().expired_total, 1);
    }
}
