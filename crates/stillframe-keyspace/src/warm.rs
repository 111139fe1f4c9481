//! Fetching ahead what a batch of lookups will need.
//!
//! A lookup is a chain of dependent loads (index cell, entry, for a write the slot too), each a
//! cache miss once the keys outgrow the caches: most of the time of a GET. Chains of different keys
//! do not depend on each other, so walking each link for all keys of a batch before the next link
//! lets the processor wait for many misses at once. So do the ways to the elements of one large
//! collection.

use std::hint::black_box;

use stillframe::Algorithm;

use crate::collection::Form;
use crate::index::Seat;
use crate::keyspace::{Keyspace, Place};
use crate::packed::{score_bytes, score_head};
use crate::tree::{Key, Order, Tree};
use crate::trunk::Trunk;

/// Keys whose loads are under way together.
pub const WARM_BATCH: usize = 16;
/// A database of fewer keys stays in the caches by itself.
const KEYS_MIN: usize = if cfg!(any(test, miri)) { 1 } else { 2048 };
/// So does a collection of fewer elements.
const ELEMENTS_MIN: usize = if cfg!(any(test, miri)) { 1 } else { 8192 };

/// What a request names of a collection.
#[derive(Debug, Clone, Copy, Default)]
pub struct Named<'a> {
    /// The field of a hash, the member of a set.
    pub name: &'a [u8],
    /// The member of a sorted set.
    pub member: &'a [u8],
    /// The score that it is going to have, if it is known.
    pub score: Option<f64>,
}

impl<A: Algorithm> Keyspace<A> {
    /// Brings what looking these keys up will touch into the caches. Changes nothing; pays from two
    /// keys on.
    pub fn warm<'k>(&self, db: usize, keys: impl IntoIterator<Item = &'k [u8]>) {
        let mut keys = keys.into_iter();
        let index = &self.dbs[db].index;
        if index.len() < KEYS_MIN {
            return;
        }
        loop {
            let mut hashes = [0; WARM_BATCH];
            let mut count = 0;
            for (hash, key) in hashes.iter_mut().zip(keys.by_ref()) {
                *hash = self.hash(key);
                count += 1;
            }
            // The first cell with the key's tag is its own, but for one in billions: no need to
            // wait for the entry to be sure. An absent key has nothing more to fetch.
            let seats: [Option<Seat>; WARM_BATCH] = std::array::from_fn(|at| {
                let hash = hashes[..count].get(at)?;
                index.find(*hash, |_| true)
            });
            let seats = || seats[..count].iter().flatten();
            // A read needs the entry alone, a write its slot as well.
            black_box(seats().filter(|seat| self.slots.is_used(seat.slot)).count());
            black_box(seats().fold(0, |sum, &seat| sum ^ self.slots.entry_of(seat).key().len()));
            if count < WARM_BATCH {
                return;
            }
        }
    }
}

impl<A: Algorithm> Keyspace<A> {
    /// Brings what requests for elements of the one collection under `key` will touch into the
    /// caches, if it is large. Changes nothing; looks at the first [`WARM_BATCH`].
    pub fn warm_elements(&self, db: usize, key: &[u8], named: &[Named<'_>]) {
        let Place::At(slot) = self.seek(db, key) else { return };
        let collection = self.at(slot).value().as_collection();
        if let Some(Form::Tree(trunk)) = collection.map(|collection| collection.form)
            && trunk.main.order != Order::Place
            && trunk.len() >= ELEMENTS_MIN
        {
            trunk.warm(&named[..named.len().min(WARM_BATCH)]);
        }
    }
}

impl Trunk {
    fn warm(&self, named: &[Named<'_>]) {
        let tree = self.members.as_ref().unwrap_or(&self.main);
        let is_sorted = self.members.is_some();
        let mut names = [&[][..]; WARM_BATCH];
        let mut keys = [Key { head: 0, tail: &[] }; WARM_BATCH];
        for ((name, key), it) in names.iter_mut().zip(&mut keys).zip(named) {
            *name = if is_sorted { it.member } else { it.name };
            *key = self.hasher.key(name);
        }
        let leaves = tree.leaves_of(&keys[..named.len()]);
        let leaves = || leaves.iter().flatten().zip(&names[..named.len()]);
        black_box(leaves().fold(0, |sum, (leaf, _)| sum ^ leaf.count));
        black_box(leaves().fold(0, |sum, (leaf, name)| sum ^ leaf.glance(name)));
        if !is_sorted {
            return;
        }
        // In the order, where the member is and where it goes.
        let (mut old, mut new) = ([0; WARM_BATCH], [0; WARM_BATCH]);
        for (at, (leaf, name)) in leaves().enumerate() {
            let found = leaf.find_key(tree.shape, name).1;
            old[at] = found.map_or(0, |found| score_head(found.value));
            let score = named[at].score;
            new[at] = score.map_or(old[at], |score| score_head(&score_bytes(score)));
        }
        for heads in [old, new] {
            for ((key, head), it) in keys.iter_mut().zip(heads).zip(named) {
                *key = Key { head, tail: it.member };
            }
            warm_order(&self.main, &keys[..named.len()]);
        }
    }
}

fn warm_order(tree: &Tree, keys: &[Key<'_>]) {
    let leaves = tree.leaves_of(keys);
    black_box(leaves.iter().flatten().fold(0, |sum, leaf| sum ^ leaf.count));
    black_box(leaves.iter().flatten().fold(0, |sum, leaf| sum ^ leaf.glance_all()));
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
