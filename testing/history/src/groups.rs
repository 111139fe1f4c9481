//! Keys that no transaction joins are checked by themselves: a history is linearizable exactly if
//! its part on each such group of keys is (Herlihy and Wing 1990, theorem 1).

use std::collections::BTreeMap;

use crate::call::{Command, Key};
use crate::history::Operation;
use crate::mutant::{Mutant, Mutation};

/// Splits a history by groups of keys.
pub(crate) fn groups(history: &[Operation], mutation: Mutation) -> Vec<Vec<Operation>> {
    let mut joined = Joined::default();
    for operation in history {
        let commands = operation.call.commands();
        let first = commands[0].key();
        joined.root(first);
        if !mutation.is(Mutant::SplitsTransactions) {
            let keys = commands.iter().flat_map(Command::keys);
            keys.for_each(|key| joined.join(first, key));
        }
    }
    let mut groups = BTreeMap::<Key, Vec<Operation>>::new();
    for operation in history {
        let root = joined.root(operation.call.commands()[0].key());
        groups.entry(root).or_default().push(operation.clone());
    }
    groups.into_values().collect()
}

/// Sets of keys, each of which has one root.
#[derive(Default)]
struct Joined(BTreeMap<Key, Key>);

impl Joined {
    fn root(&mut self, key: Key) -> Key {
        let parent = *self.0.entry(key).or_insert(key);
        if parent == key {
            return key;
        }
        let root = self.root(parent);
        self.0.insert(key, root);
        root
    }

    fn join(&mut self, one: Key, other: Key) {
        let (one, other) = (self.root(one), self.root(other));
        self.0.insert(other, one);
    }
}
