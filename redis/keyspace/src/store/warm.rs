//! Prefetching for a batch of lookups.
//!
//! A lookup is a chain of dependent loads (index cell, slot, entry), each a cache miss once the
//! keys outgrow the caches: most of the time of a GET. Chains of different keys do not depend on
//! each other, so walking each link for all keys of a batch before the next link lets the processor
//! wait for many misses at once. The same holds for the paths to elements of one large collection.

use std::hint::black_box;

use stillframe::Algorithm;
use stillframe::os::prefetch;

use super::Keyspace;
use crate::collection::form::Form;
use crate::collection::tree::{self, Order};
use crate::collection::warm::Named;

/// Keys whose loads are under way together.
pub const WARM_BATCH: usize = tree::BATCH;
/// A database with fewer keys stays in the caches by itself.
const KEYS_MIN: usize = if cfg!(any(test, miri)) { 1 } else { 2048 };
/// Lines of an entry that are asked for.
const LINES: usize = 3;
/// A collection with fewer elements stays there, too.
const ELEMENTS_MIN: usize = if cfg!(any(test, miri)) { 1 } else { 8192 };

impl<A: Algorithm> Keyspace<A> {
    /// Brings into the caches what lookups of these keys will touch, and keeps memos for lookups in
    /// this order. Warms the first [`WARM_BATCH`]; pays from two keys on.
    pub fn warm<'k>(&mut self, db: usize, keys: impl IntoIterator<Item = &'k [u8]>) {
        let index = &self.dbs[db].index;
        if index.len() < KEYS_MIN {
            return;
        }
        let (mut hashes, mut count) = ([0; WARM_BATCH], 0);
        for (hash, key) in hashes.iter_mut().zip(keys) {
            *hash = self.hash(key);
            count += 1;
        }
        // The first cell with the key's tag is its own, except for one in billions, so there is no
        // need to wait for the entry. An absent key has nothing more to fetch.
        let hashes = &hashes[..count];
        let slots: [Option<u32>; WARM_BATCH] =
            std::array::from_fn(|at| index.find(*hashes.get(at)?, Some));
        let seats = slots.map(|slot| self.slots.seat(slot?));
        let found = || seats.iter().flatten();
        // The beginning of a value is in the next lines; a long one the processor follows.
        for &seat in found() {
            let entry = std::ptr::from_ref(self.slots.entry_of(seat)).cast::<u8>();
            (1..LINES).for_each(|line| prefetch(entry.wrapping_add(64 * line)));
        }
        black_box(found().fold(0, |sum, &seat| sum ^ self.slots.entry_of(seat).key().len()));
        self.known.warmed(hashes, &seats);
    }

    /// Brings into the caches what requests for elements of the collection under `key` will touch,
    /// if it is large. Warms the first [`WARM_BATCH`].
    pub fn warm_elements(&mut self, db: usize, key: &[u8], named: &[Named<'_>]) {
        let Some(seat) = self.lookup_again(db, key).seat else { return };
        let collection = self.slots.entry_of(seat).value().as_collection();
        if let Some(Form::Tree(trunk)) = collection.map(|collection| collection.form)
            && trunk.main.order != Order::Position
            && trunk.stream.is_none()
            && trunk.len() >= ELEMENTS_MIN
        {
            trunk.warm(&named[..named.len().min(WARM_BATCH)]);
        }
    }
}

#[cfg(test)]
mod tests {
    use stillframe::algorithms::naive::Naive;

    use super::Named;
    use crate::{Expire, Keyspace, KeyspaceOptions};

    #[test]
    fn warming_changes_nothing() {
        let options = KeyspaceOptions { max_keys: 1 << 12, ..KeyspaceOptions::default() };
        let mut keyspace = Keyspace::<Naive>::create(&options).unwrap();
        let keys: Vec<Vec<u8>> = (0..100_u32).map(|key| key.to_string().into_bytes()).collect();
        keyspace.warm(0, keys.iter().map(Vec::as_slice));
        for key in &keys[..50] {
            keyspace.set(0, key, b"value", Expire::At(10)).unwrap();
        }
        let before = keyspace.stats();
        for count in [0, 1, 15, 16, 17, 32, 100] {
            keyspace.warm(0, keys[..count].iter().map(Vec::as_slice));
        }
        assert_eq!(keyspace.stats(), before, "present, expired and absent keys alike");
    }

    #[test]
    fn warming_elements_changes_nothing() {
        let options = KeyspaceOptions { max_keys: 1 << 12, ..KeyspaceOptions::default() };
        let mut keyspace = Keyspace::<Naive>::create(&options).unwrap();
        let names: Vec<Vec<u8>> = (0..100_u32).map(|name| name.to_string().into_bytes()).collect();
        for name in &names[..60] {
            keyspace.edit_hash(0, b"hash", |hash| hash.set(name, b"value")).unwrap();
            keyspace.edit_set(0, b"set", |set| set.insert(name)).unwrap();
            keyspace.edit_sorted(0, b"sorted", |set| set.set(name, 1.5)).unwrap();
            keyspace.edit_list(0, b"list", |list| list.push_front(name)).unwrap();
        }
        let before = keyspace.stats();
        let named = |name| Named { name, member: name, score: Some(2.0) };
        let named: Vec<Named<'_>> = names.iter().map(|name| named(name)).collect();
        for key in [&b"hash"[..], b"set", b"sorted", b"list", b"absent"] {
            for from in [0, 10, 55, 90, 100] {
                keyspace.warm_elements(0, key, &named[from..]);
            }
        }
        assert_eq!(keyspace.stats(), before, "present and absent elements alike");
    }
}
