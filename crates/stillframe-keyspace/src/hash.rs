//! The hash of keys, fields and members.

use std::hash::{BuildHasher, Hasher as _, RandomState};

/// Hashes keys, fields and members: keyed by the system's randomness, as attackers choose them.
#[derive(Clone)]
pub(crate) struct Hasher(pub(crate) RandomState);

impl Hasher {
    /// The hash of a key of the keyspace.
    pub(crate) fn hash_key(&self, key: &[u8]) -> u64 {
        let mut hasher = self.0.build_hasher();
        hasher.write(key);
        hasher.finish()
    }

    /// The hash of a field or member: 48 bits, as it is a cursor of SCAN, which every client can
    /// hold then.
    pub(crate) fn hash(&self, key: &[u8]) -> u64 {
        self.hash_key(key) >> 16
    }
}
