//! Keys with a time to live that clients made at a replica which takes writes.
//!
//! - A replica waits for its primary's DEL of expired keys. The primary knows nothing of these
//!   keys, so the replica's own clock expires them, as in Redis.
//! - They are known by name: the clock checks what the primary has since done with a key of that
//!   name. A key that no longer expires is forgotten.

use std::collections::{BTreeSet, HashMap};

/// A database and a key in it.
pub(crate) type Name = (usize, Box<[u8]>);

/// See the head of this file.
#[derive(Default)]
pub(crate) struct OwnKeys {
    /// When the clock checks each.
    times: HashMap<Name, i64>,
    /// The same, the earliest first.
    due: BTreeSet<(i64, Name)>,
}

impl OwnKeys {
    /// Their number.
    pub(crate) fn len(&self) -> usize {
        self.times.len()
    }

    /// Forgets all of them.
    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Schedules a check of a key.
    pub(crate) fn remember(&mut self, name: Name, at: i64) {
        if let Some(before) = self.times.insert(name.clone(), at) {
            self.due.remove(&(before, name.clone()));
        }
        self.due.insert((at, name));
    }

    /// Removes and returns the next key that has expired by `now`.
    pub(crate) fn next_due(&mut self, now: i64) -> Option<Name> {
        if self.due.first()?.0 > now {
            return None;
        }
        let (at, name) = self.due.pop_first()?;
        let known = self.times.remove(&name);
        debug_assert_eq!(known, Some(at), "each key is there once");
        Some(name)
    }
}
