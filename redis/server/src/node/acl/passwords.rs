//! The passwords of a user: their digests, each once, in the order in which they were given.

use std::collections::{BTreeMap, HashMap};

/// A password's SHA-256.
pub(super) type Hash = [u8; 32];

/// See the head of this file.
#[derive(Debug, Clone, Default)]
pub(super) struct Passwords {
    in_order: BTreeMap<u64, Hash>,
    numbers: HashMap<Hash, u64>,
    /// How many were ever added.
    given: u64,
}

impl Passwords {
    pub(super) fn add(&mut self, hash: Hash) {
        self.given += 1;
        let given = self.given;
        if *self.numbers.entry(hash).or_insert(given) == given {
            self.in_order.insert(given, hash);
        }
    }

    /// Removes one; `None` if it is not there.
    pub(super) fn remove(&mut self, hash: &Hash) -> Option<()> {
        let number = self.numbers.remove(hash)?;
        self.in_order.remove(&number).map(drop)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Hash> {
        self.in_order.values()
    }
}

impl PartialEq for Passwords {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl Eq for Passwords {}
