//! The lists of names that a client has prepared for hashes which it is about to import.

use std::collections::BTreeMap;
use std::sync::Arc;

/// Bytes of a list beside its names, in the map and on the heap.
const LIST_BYTES: usize = 96;

/// Names of fields, in the order in which values will come.
pub(crate) type Names = Arc<[Box<[u8]>]>;

/// The lists of one client, by their own names (`HIMPORT PREPARE`).
#[derive(Default)]
pub struct Fieldsets {
    lists: BTreeMap<Box<[u8]>, Names>,
    bytes: usize,
}

impl Fieldsets {
    /// Bytes of memory that they take.
    pub fn memory(&self) -> usize {
        self.bytes
    }

    /// Adds a list, in place of one of the same name.
    pub(crate) fn set(&mut self, list: &[u8], names: &[&[u8]]) {
        self.remove(list);
        let names: Names = names.iter().map(|&name| name.into()).collect();
        self.bytes += bytes(list, &names);
        self.lists.insert(list.into(), names);
    }

    pub(crate) fn get(&self, list: &[u8]) -> Option<Names> {
        self.lists.get(list).cloned()
    }

    /// Whether the list was there.
    pub(crate) fn remove(&mut self, list: &[u8]) -> bool {
        let removed = self.lists.remove(list);
        self.bytes -= removed.as_ref().map_or(0, |names| bytes(list, names));
        removed.is_some()
    }

    /// Each list with its names.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], impl Iterator<Item = &[u8]>)> {
        self.lists.iter().map(|(list, names)| (&**list, names.iter().map(|name| &**name)))
    }

    pub(crate) fn len(&self) -> usize {
        self.lists.len()
    }
}

fn bytes(list: &[u8], names: &Names) -> usize {
    let names: usize = names.iter().map(|name| size_of::<Box<[u8]>>() + name.len()).sum();
    LIST_BYTES + list.len() + names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_that_of_the_lists_that_are_there() {
        let mut lists = Fieldsets::default();
        lists.set(b"a", &[b"x", b"y"]);
        let one = lists.memory();
        lists.set(b"b", &[b"long name"]);
        assert!(lists.memory() > one + b"long name".len());
        lists.set(b"b", &[b"z"]);
        assert!(lists.remove(b"b") && !lists.remove(b"b"));
        assert_eq!((lists.len(), lists.memory()), (1, one));
        assert!(lists.remove(b"a"));
        assert_eq!(lists.memory(), 0);
    }
}
