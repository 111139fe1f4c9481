//! Entries outside of the slots of a keyspace, by number and by key: those that views alone see,
//! and those that branches have changed. What grows, grows in small pieces.

use crate::hash::Hasher;
use crate::memory::entry::{Entry, KEY_BYTES, Owned};
use crate::memory::index::Index;
use crate::memory::slot_set::SlotSet;

/// Numbers of a chunk.
const CHUNK: usize = if cfg!(any(test, miri)) { 8 } else { 256 };

/// Entries by number and by key.
#[derive(Default)]
pub(crate) struct Kept {
    /// Of numbers, in the place of slots.
    index: Index,
    chunks: Vec<Option<Box<[Option<Item>]>>>,
    bytes: usize,
    /// Numbers below are empty once entries are popped.
    popped: usize,
}

/// An entry that is kept.
pub(crate) struct Item {
    pub(crate) entry: Owned,
    /// What counts of the entry's bytes: not those that it shares.
    pub(crate) bytes: usize,
}

impl Kept {
    /// How many entries are kept.
    pub(crate) fn len(&self) -> usize {
        self.index.len()
    }

    /// With what it takes to find the entries.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes + self.len() * KEY_BYTES
    }

    /// The numbers, in their order.
    pub(crate) fn numbers(&self) -> &SlotSet {
        self.index.slots()
    }

    /// Any entry; `random` yields 64 random bits a call.
    pub(crate) fn random(&self, random: &mut impl FnMut() -> u64) -> Option<&Entry> {
        self.entry(self.index.random(random)?)
    }

    pub(crate) fn item(&self, number: u32) -> Option<&Item> {
        let chunk = self.chunks.get(number as usize / CHUNK)?.as_ref()?;
        chunk[number as usize % CHUNK].as_ref()
    }

    pub(crate) fn entry(&self, number: u32) -> Option<&Entry> {
        self.item(number).map(|item| item.entry.entry())
    }

    /// The number of the entry of a key.
    pub(crate) fn find(&self, hash: u64, space: usize, key: &[u8]) -> Option<u32> {
        let is_it = |entry: &Entry| entry.space() == space && entry.key() == key;
        self.index.find(hash, |number| self.entry(number).is_some_and(is_it).then_some(number))
    }

    /// Adds an entry; there is none of its number or key.
    pub(crate) fn insert(&mut self, hash: u64, number: u32, item: Item) {
        self.put(number, item);
        self.index.insert(hash, number);
    }

    /// Puts an entry in the place of one that was [lifted](Self::lift), of the same key.
    pub(crate) fn put(&mut self, number: u32, item: Item) {
        let (chunk, at) = (number as usize / CHUNK, number as usize % CHUNK);
        if chunk >= self.chunks.len() {
            self.chunks.resize_with(chunk + 1, || None);
        }
        let empty = || (0..CHUNK).map(|_| None).collect();
        let place = &mut self.chunks[chunk].get_or_insert_with(empty)[at];
        debug_assert!(place.is_none(), "a number has one entry");
        self.bytes += item.bytes;
        *place = Some(item);
    }

    /// Takes an entry out, to [put](Self::put) another one in its place or to
    /// [forget](Self::forget) it.
    pub(crate) fn lift(&mut self, number: u32) -> Option<Item> {
        let chunk = self.chunks.get_mut(number as usize / CHUNK)?.as_mut()?;
        let item = chunk[number as usize % CHUNK].take()?;
        self.bytes -= item.bytes;
        Some(item)
    }

    /// The key of a lifted entry, with this hash, is no longer found.
    pub(crate) fn forget(&mut self, hash: u64, number: u32) {
        self.index.remove(hash, number);
    }

    /// Takes the entry with the lowest number. Nothing is added any more.
    pub(crate) fn pop(&mut self, hasher: &Hasher) -> Option<(u32, Item)> {
        let number = self.numbers().next(self.popped)?;
        self.popped = number as usize;
        let item = self.lift(number)?;
        let chunk = &mut self.chunks[number as usize / CHUNK];
        let mut rest = chunk.iter().flat_map(|chunk| &chunk[number as usize % CHUNK..]);
        if rest.all(Option::is_none) {
            *chunk = None;
        }
        self.forget(hasher.sip(item.entry.entry().key()), number);
        Some((number, item))
    }

    /// Counts more bytes, or all, of an entry.
    pub(crate) fn count(&mut self, number: u32, bytes: Option<usize>) {
        let chunk = self.chunks.get_mut(number as usize / CHUNK).and_then(Option::as_mut);
        let item = chunk.and_then(|chunk| chunk[number as usize % CHUNK].as_mut());
        let Some(item) = item else { return };
        let all = item.entry.entry().bytes();
        let before = item.bytes;
        item.bytes = bytes.map_or(all, |bytes| before.saturating_add(bytes).min(all));
        self.bytes += item.bytes - before.min(item.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collection::packed::NEVER;
    use crate::memory::entry::{Birth, New};

    #[test]
    fn bytes_of_an_entry_count_once_however_often_they_come_back() {
        let mut kept = Kept::default();
        let entry =
            Owned::new(Birth { era: 1, space: 0 }, b"key", New::text(&[b'x'; 500]), NEVER, 0);
        let all = entry.entry().bytes();
        kept.insert(7, 3, Item { entry, bytes: 10 });
        for (bytes, counted) in [(Some(20), 30), (None, all), (Some(20), all), (None, all)] {
            kept.count(3, bytes);
            assert_eq!(kept.bytes(), counted + KEY_BYTES);
        }
    }
}
