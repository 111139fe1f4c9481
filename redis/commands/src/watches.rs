//! Which clients watch which keys, and which clients' keys have changed.
//!
//! - A watched key is listed twice: by its name, for changes of the key, and by client, for the
//!   client's end; both lists change together and share the name.
//! - A client is marked at the first change; what it watches stays listed until EXEC, DISCARD,
//!   UNWATCH or its end.
//! - An expiry is not announced: EXEC checks whether each key that existed when it was
//!   watched still does. A key that was already past its end then counts as absent throughout, so
//!   that its late deletion is no change.

use std::collections::HashMap;
use std::sync::Arc;

use stillframe_keyspace::DATABASES;

use crate::few::Few;

/// What a name takes in the lists of what a client watches and listens to, beside its bytes.
pub const LISTED_BYTES: usize = 64;

/// Which clients watch which keys, and which clients' keys have changed.
#[derive(Default)]
pub struct Watches {
    /// Per database, the clients that watch a key.
    watchers: [HashMap<Arc<[u8]>, Few<u64>>; DATABASES],
    clients: HashMap<u64, Watcher>,
}

/// A client that watches at least one key.
#[derive(Default)]
struct Watcher {
    keys: Vec<Watched>,
    changed: bool,
}

/// A key as it was when it was watched.
struct Watched {
    db: usize,
    key: Arc<[u8]>,
    existed: bool,
}

impl Watches {
    /// Watches a key, which now exists or not, for a client; once is enough. Returns the bytes of
    /// memory that this takes.
    pub fn watch(&mut self, client: u64, db: usize, key: &[u8], existed: bool) -> usize {
        let watchers = &mut self.watchers[db];
        let known = watchers.get_key_value(key);
        let key = known.map_or_else(|| key.into(), |(key, _)| Arc::clone(key));
        if !watchers.entry(Arc::clone(&key)).or_default().insert(client) {
            return 0;
        }
        let bytes = key.len() + LISTED_BYTES;
        self.clients.entry(client).or_default().keys.push(Watched { db, key, existed });
        bytes
    }

    /// How many clients watch keys.
    pub fn clients(&self) -> usize {
        self.clients.len()
    }

    /// How many keys are watched.
    pub fn keys(&self) -> usize {
        self.watchers.iter().map(HashMap::len).sum()
    }

    /// Marks the clients that watch a key: it has changed.
    #[inline]
    pub fn touch(&mut self, db: usize, key: &[u8]) {
        if !self.watchers[db].is_empty() {
            self.mark(db, key);
        }
    }

    fn mark(&mut self, db: usize, key: &[u8]) {
        for client in self.watchers[db].get(key).map_or(&[][..], Few::as_slice) {
            if let Some(watcher) = self.clients.get_mut(client) {
                watcher.changed = true;
            }
        }
    }

    /// Marks the clients that watch a key for which `exists` holds: the database is to be emptied.
    pub fn touch_all(&mut self, db: usize, mut exists: impl FnMut(&[u8]) -> bool) {
        for (key, clients) in &self.watchers[db] {
            if exists(key) {
                for client in clients.as_slice() {
                    if let Some(watcher) = self.clients.get_mut(client) {
                        watcher.changed = true;
                    }
                }
            }
        }
    }

    /// Marks all clients that watch a key: what they have seen no longer counts.
    pub fn touch_everyone(&mut self) {
        self.clients.values_mut().for_each(|watcher| watcher.changed = true);
    }

    /// Whether a key that the client watches has changed or, by `exists`, has expired.
    pub fn changed(&self, client: u64, mut exists: impl FnMut(usize, &[u8]) -> bool) -> bool {
        self.clients.get(&client).is_some_and(|watcher| {
            watcher.changed
                || watcher.keys.iter().any(|key| key.existed && !exists(key.db, &key.key))
        })
    }

    /// The databases and keys that a client watches.
    pub fn keys_of(&self, client: u64) -> Vec<(usize, Arc<[u8]>)> {
        let keys = self.clients.get(&client).map_or(&[][..], |watcher| &watcher.keys);
        keys.iter().map(|watched| (watched.db, Arc::clone(&watched.key))).collect()
    }

    /// Forgets what a client watched: it ran EXEC, DISCARD or UNWATCH, or went away.
    pub fn forget(&mut self, client: u64) {
        let Some(watcher) = self.clients.remove(&client) else { return };
        for Watched { db, key, .. } in watcher.keys {
            if let Some(clients) = self.watchers[db].get_mut(&key) {
                clients.remove(&client);
                if clients.is_empty() {
                    self.watchers[db].remove(&key);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL_EXIST: fn(usize, &[u8]) -> bool = |_, _| true;

    #[test]
    fn a_change_marks_every_watcher_of_the_key_and_no_other() {
        let mut watches = Watches::default();
        watches.watch(1, 0, b"a", true);
        watches.watch(2, 0, b"a", true);
        watches.watch(3, 0, b"b", true);
        watches.watch(4, 1, b"a", true);
        watches.touch(0, b"a");
        let changed: Vec<u64> = (1..=4).filter(|&id| watches.changed(id, ALL_EXIST)).collect();
        assert_eq!(changed, [1, 2]);
    }

    #[test]
    fn expiry_after_watch_is_a_change_and_before_it_is_none() {
        let mut watches = Watches::default();
        watches.watch(1, 0, b"alive", true);
        watches.watch(2, 0, b"expired", false);
        let none_exist = |_: usize, _: &[u8]| false;
        assert!(watches.changed(1, none_exist));
        assert!(!watches.changed(2, none_exist));
    }

    #[test]
    fn emptying_a_database_marks_watchers_of_existing_keys() {
        let mut watches = Watches::default();
        watches.watch(1, 0, b"there", true);
        watches.watch(2, 0, b"absent", false);
        watches.watch(3, 1, b"there", true);
        watches.touch_all(0, |key| key == b"there");
        let changed: Vec<u64> = (1..=3).filter(|&id| watches.changed(id, ALL_EXIST)).collect();
        assert_eq!(changed, [1]);
    }

    #[test]
    fn everyone_who_watches_can_be_marked() {
        let mut watches = Watches::default();
        watches.watch(1, 0, b"a", true);
        watches.touch_everyone();
        watches.watch(2, 0, b"a", true);
        let changed: Vec<u64> = (1..=3).filter(|&id| watches.changed(id, ALL_EXIST)).collect();
        assert_eq!(changed, [1]);
    }

    #[test]
    fn nothing_is_left_of_a_client_that_went_away() {
        let mut watches = Watches::default();
        for key in [b"a", b"b", b"a"] {
            watches.watch(1, 0, key, true);
        }
        watches.watch(2, 0, b"a", true);
        watches.forget(1);
        watches.forget(2);
        watches.forget(3);
        assert!(watches.clients.is_empty() && watches.watchers.iter().all(HashMap::is_empty));
    }
}
