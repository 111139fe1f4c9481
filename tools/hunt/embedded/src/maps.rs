//! Persistent maps behind a lock: a transaction holds it, and an image is a clone made under it.

use std::sync::{Mutex, MutexGuard};

use stillframe_hunt::{Content, Contents, Keys, Name, apply};

use crate::Store;

/// Runs requests one after the other.
pub(crate) fn run(keys: &mut impl Keys, requests: &[Vec<String>]) {
    let mut db = 0;
    for request in requests {
        let words: Vec<&[u8]> = request.iter().map(|word| word.as_bytes()).collect();
        apply(keys, &mut db, &words).expect("the workload's own requests");
    }
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("no transaction panics")
}

/// A store for a persistent map, whose clone shares all nodes.
macro_rules! persistent {
    ($name:ident, $keys:ident, $map:ty) => {
        #[derive(Default)]
        pub(crate) struct $name(Mutex<$keys>);

        #[derive(Default)]
        struct $keys($map);

        impl Keys for $keys {
            fn take_key(&mut self, name: &Name) -> Option<Content> {
                self.0.remove(name)
            }
            fn put(&mut self, name: Name, content: Content) {
                self.0.insert(name, content);
            }
        }

        impl Store for $name {
            fn transact(&self, requests: &[Vec<String>]) {
                run(&mut *lock(&self.0), requests);
            }
            fn image(&self) -> Contents {
                let clone = lock(&self.0).0.clone();
                clone.into_iter().collect()
            }
        }
    };
}

persistent!(Im, ImKeys, im::HashMap<Name, Content>);
persistent!(Imbl, ImblKeys, imbl::HashMap<Name, Content>);

/// The canary: the lock is held for a key, not for a transaction or an image.
#[derive(Default)]
pub(crate) struct NoLock(Mutex<Contents>);

struct OneByOne<'a>(&'a Mutex<Contents>);

impl Keys for OneByOne<'_> {
    fn take_key(&mut self, name: &Name) -> Option<Content> {
        // Left in its place, or readers would miss keys that are being changed.
        lock(self.0).get(name).cloned()
    }
    fn put(&mut self, name: Name, content: Content) {
        lock(self.0).insert(name, content);
    }
}

impl Store for NoLock {
    fn transact(&self, requests: &[Vec<String>]) {
        run(&mut OneByOne(&self.0), requests);
    }
    fn image(&self) -> Contents {
        let names: Vec<Name> = lock(&self.0).keys().cloned().collect();
        let one = |name: Name| {
            let content = lock(&self.0).get(&name).cloned()?;
            Some((name, content))
        };
        names.into_iter().filter_map(one).collect()
    }
}
