//! The hash of keys, fields and members.

use std::hash::{BuildHasher, Hasher as _, RandomState};

/// Hashes keys, fields and members: keyed by the system's randomness, as attackers choose them.
#[derive(Clone)]
pub(crate) struct Hasher(pub(crate) RandomState);

impl Hasher {
    /// The hash of a key of the keyspace.
    #[inline]
    pub(crate) fn hash_key(&self, key: &[u8]) -> u64 {
        #[cfg(test)]
        KEY_HASHES.set(KEY_HASHES.get() + 1);
        self.sip(key)
    }

    /// The hash of any bytes.
    #[inline]
    pub(crate) fn sip(&self, key: &[u8]) -> u64 {
        let mut hasher = self.0.build_hasher();
        hasher.write(key);
        hasher.finish()
    }

    /// The hash of a field or member: 48 bits, as it is a cursor of SCAN, which every client can
    /// hold then.
    pub(crate) fn hash(&self, key: &[u8]) -> u64 {
        self.sip(key) >> 16
    }
}

#[cfg(test)]
thread_local! {
    static KEY_HASHES: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// How many keys of keyspaces this thread has hashed.
#[cfg(test)]
pub(crate) fn key_hashes() -> usize {
    KEY_HASHES.get()
}
