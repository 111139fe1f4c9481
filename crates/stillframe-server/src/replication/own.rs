//! Keys with a time to live that clients made at a replica which takes writes.
//!
//! - A replica waits for its primary's word on keys that have expired. The primary knows nothing of
//!   these, so the replica's own clock looks after them, as in Redis.
//! - They are known by name: what the primary then does with a key of that name is found when the
//!   clock looks. A key that does not expire any more is forgotten.

use std::collections::{BTreeSet, HashMap};

/// A database and a key in it.
pub(super) type Name = (usize, Box<[u8]>);

/// See the head of this file.
#[derive(Default)]
pub(crate) struct OwnKeys {
    /// When the clock is to look at each.
    times: HashMap<Name, i64>,
    /// The same, the first to come first.
    due: BTreeSet<(i64, Name)>,
}

impl OwnKeys {
    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.times.len()
    }

    /// Forgets all of them.
    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Has the clock look at a key then.
    pub(super) fn remember(&mut self, name: Name, at: i64) {
        if let Some(before) = self.times.insert(name.clone(), at) {
            self.due.remove(&(before, name.clone()));
        }
        self.due.insert((at, name));
    }

    /// The next key whose time has come by `now`; it is forgotten.
    pub(super) fn next_due(&mut self, now: i64) -> Option<Name> {
        if self.due.first()?.0 > now {
            return None;
        }
        let (at, name) = self.due.pop_first()?;
        let known = self.times.remove(&name);
        debug_assert_eq!(known, Some(at), "each key is there once");
        Some(name)
    }
}
