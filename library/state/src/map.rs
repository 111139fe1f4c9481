//! Keys and values by open addressing.
//!
//! ```text
//! entry   mark, words of the key, words of the value
//! mark    0 empty; 1 gone (in an old table); else the hash of the key with the highest bit set
//! ```
//!
//! - A key lies in the first free entry from its home on, which the upper bits of its hash choose;
//!   a table is at most three quarters full. A removal moves entries behind it back, so that no
//!   hole comes between a key and its home.
//! - A full table grows step by step: a table twice as long is taken, and each insertion or removal
//!   moves some entries there. Meanwhile a key is looked for in both. Then, just so, the old table
//!   is cleared and given back. So no change takes long, and none writes much while an image is
//!   taken.
//! - Entries are moved out of an old table, or removed there, by marking them as gone: it takes no
//!   new ones, and so no key is looked for past a hole.

use std::marker::PhantomData;

use stillframe::MemoryError;

use crate::blocks;
use crate::column::update;
use crate::layout::{Layout, State, places};
use crate::mutant::Mutant;
use crate::record::{Record, load, save, words};
use crate::relation::{Items, Relation, Use};
use crate::source::{Source, Target};

/// Values by keys. Keys are equal if their bytes are: no two floats or strings are equal otherwise.
///
/// A lookup takes one to three entries on average, however many there are. A map grows with the
/// state, a few entries at each change, and never shrinks. `Map<K, ()>` is a set.
///
/// Hashes are the same in every process, so that a log leads to the same words. Strangers who can
/// choose keys can choose many of one hash, which makes lookups slow, unless the state has a
/// [seed](State::attach_seeded).
#[derive(Debug)]
pub struct Map<K, V> {
    at: usize,
    of: PhantomData<fn() -> (K, V)>,
}

// Words of the place. A table is a block and its length as a shift.
/// The table that new keys go to: its block, 0 if there is none yet, and its length.
const TABLE: usize = 0;
/// Entries in it.
const COUNT: usize = 2;
/// The table that is moved and then cleared.
const OLD: usize = 3;
/// Entries in it.
const OLD_COUNT: usize = 5;
/// The next entry there to be moved, or, from its length on, to be cleared.
const CURSOR: usize = 6;
const WORDS: usize = 7;

/// Length of the first table, as a shift.
const FIRST: u32 = 3;
/// Entries of an old table that each change moves or clears: so many that it is gone long before
/// the next one is full.
const STEPS: usize = 16;
/// The mark of an entry that is gone.
const GONE: u64 = 1;
/// The bit of the mark of an entry that is there.
const THERE: u64 = 1 << 63;

/// A table of entries.
#[derive(Debug, Clone, Copy)]
struct Entries {
    block: usize,
    /// Its length, as a shift.
    log: u32,
    stride: usize,
}

impl Entries {
    fn len(self) -> usize {
        1 << self.log
    }
    #[inline]
    fn mask(self) -> usize {
        (1 << self.log) - 1
    }
    /// The mark of entry `index`; key and value follow.
    #[inline]
    fn at(self, index: usize) -> usize {
        self.block + index * self.stride
    }
    /// Where a key with this mark should lie.
    #[inline]
    fn home(self, mark: u64) -> usize {
        ((mark & !THERE) >> (63 - self.log)) as usize // 0 for the length 1 of an image that is lost
    }
    /// The first empty entry from the home of `mark` on.
    fn vacant(self, source: &impl Source, mark: u64) -> usize {
        let from_home = (0..self.len()).map(|step| self.at((self.home(mark) + step) & self.mask()));
        let mut empty = from_home.filter(|&at| source.read(at) == 0);
        empty.next().expect("a table is at most three quarters full")
    }
    fn clear(self, target: &mut impl Target, index: usize) {
        for word in self.at(index)..self.at(index) + self.stride {
            target.write(word, 0);
        }
    }
    /// Removes entry `index`, and moves back what should lie nearer to its home.
    fn close(self, target: &mut impl Target, index: usize) {
        let mut hole = index;
        for step in 1..self.len() {
            let next = (index + step) & self.mask();
            let mark = target.read(self.at(next));
            if mark == 0 || Mutant::MapLeavesHoles.is_made() {
                break;
            }
            let from_home = next.wrapping_sub(self.home(mark)) & self.mask();
            let from_hole = next.wrapping_sub(hole) & self.mask();
            if from_home >= from_hole {
                let short = usize::from(Mutant::MapMovesShort.is_made());
                copy(target, self.at(next), self.at(hole), self.stride - short);
                hole = next;
            }
        }
        self.clear(target, hole);
    }
    /// Marks of entries that are there, as the words they lie in.
    fn there<'a>(self, source: &'a (impl Source + ?Sized)) -> impl Iterator<Item = usize> + 'a {
        let len = if self.block == 0 { 0 } else { self.len() };
        (0..len).map(move |index| self.at(index)).filter(|&at| source.read(at) & THERE != 0)
    }
}

fn copy(target: &mut impl Target, from: usize, to: usize, words: usize) {
    for word in 0..words {
        target.write(to + word, target.read(from + word));
    }
}

/// The mark of a key: a hash of the seed and its words by multiplication (as in wyhash) with the
/// bit `THERE`.
#[inline]
fn mark<K: Record>(source: &(impl Source + ?Sized), key: &K) -> u64 {
    let fold = |a: u64, b: u64| {
        let product = u128::from(a) * u128::from(b);
        product as u64 ^ (product >> 64) as u64
    };
    let start = 0x243F_6A88_85A3_08D3 ^ source.read(blocks::SEED);
    let hash = words(key).fold(start, |hash: u64, word| {
        fold(hash ^ word, 0x9E37_79B9_7F4A_7C15).wrapping_add(hash.rotate_left(29))
    });
    fold(hash, 0xD6E8_FEB8_6659_FD93) | THERE
}

impl<K: Record, V: Record> Map<K, V> {
    const STRIDE: usize = 1 + K::WORDS + V::WORDS;

    #[inline]
    fn entries(&self, source: &(impl Source + ?Sized), table: usize) -> Entries {
        let (block, log) = (source.read(self.at + table), source.read(self.at + table + 1));
        Entries { block: block as usize, log: log as u32, stride: Self::STRIDE }
    }

    fn set_entries(&self, target: &mut impl Target, table: usize, entries: Entries) {
        target.write(self.at + table, entries.block as u64);
        target.write(self.at + table + 1, u64::from(entries.log));
    }

    fn count(&self, source: &(impl Source + ?Sized), which: usize) -> usize {
        source.read(self.at + which) as usize
    }

    fn add(&self, target: &mut impl Target, which: usize, more: i64) {
        let count = target.read(self.at + which);
        target.write(self.at + which, count.wrapping_add_signed(more));
    }

    /// Entries in the map.
    #[must_use]
    pub fn len(&self, source: &(impl Source + ?Sized)) -> usize {
        self.count(source, COUNT) + self.count(source, OLD_COUNT)
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self, source: &(impl Source + ?Sized)) -> bool {
        self.len(source) == 0
    }

    /// The entry of `key` in a table, by its number.
    #[inline]
    fn find_in(
        source: &(impl Source + ?Sized),
        entries: Entries,
        key: &K,
        mark: u64,
    ) -> Option<usize> {
        if entries.block == 0 {
            return None;
        }
        let home = entries.home(mark);
        for step in 0..entries.len() {
            let index = (home + step) & entries.mask();
            let at = entries.at(index);
            let found = source.read(at);
            if found == 0 {
                return None;
            }
            if found == mark && load::<K>(source, at + 1).as_bytes() == key.as_bytes() {
                return Some(index);
            }
        }
        None
    }

    /// The entry of `key`, with its table and that table's count.
    #[inline]
    fn find(
        &self,
        source: &(impl Source + ?Sized),
        key: &K,
        mark: u64,
    ) -> Option<(Entries, usize, usize)> {
        let table = self.entries(source, TABLE);
        if let Some(index) = Self::find_in(source, table, key, mark) {
            return Some((table, index, COUNT));
        }
        if source.read(self.at + OLD_COUNT) == 0 || Mutant::MapForgetsOldTable.is_made() {
            return None;
        }
        let old = self.entries(source, OLD);
        Self::find_in(source, old, key, mark).map(|index| (old, index, OLD_COUNT))
    }

    /// The first word of the value of `key`.
    #[inline]
    fn value_at(&self, source: &(impl Source + ?Sized), key: &K) -> Option<usize> {
        let (entries, index, _) = self.find(source, key, mark(source, key))?;
        Some(entries.at(index) + 1 + K::WORDS)
    }

    /// The value of `key`.
    #[inline]
    #[must_use]
    pub fn get(&self, source: &(impl Source + ?Sized), key: &K) -> Option<V> {
        Some(load(source, self.value_at(source, key)?))
    }

    /// Whether `key` has a value.
    #[must_use]
    pub fn contains(&self, source: &(impl Source + ?Sized), key: &K) -> bool {
        self.value_at(source, key).is_some()
    }

    /// Changes the value of `key`, if it has one; only words that differ are written.
    #[inline]
    pub fn update<R>(
        &self,
        target: &mut impl Target,
        key: &K,
        change: impl FnOnce(&mut V) -> R,
    ) -> Option<R> {
        let at = self.value_at(target, key)?;
        Some(update(target, at, load(target, at), change))
    }

    /// Gives `key` a value, and returns the one that it had.
    ///
    /// # Errors
    /// [`MemoryError`] if the state cannot grow; nothing changes.
    pub fn insert(
        &self,
        target: &mut impl Target,
        key: K,
        value: V,
    ) -> Result<Option<V>, MemoryError> {
        let mark = mark(target, &key);
        if let Some((entries, index, _)) = self.find(target, &key, mark) {
            let at = entries.at(index) + 1 + K::WORDS;
            let old = load(target, at);
            save(target, at, &value);
            let returns_new = Mutant::MapReturnsNew.is_made();
            return Ok(Some(if returns_new { value } else { old }));
        }
        self.make_room(target)?;
        let at = self.entries(target, TABLE).vacant(target, mark);
        target.write(at, mark);
        save(target, at + 1, &key);
        save(target, at + 1 + K::WORDS, &value);
        self.add(target, COUNT, 1);
        self.step(target, STEPS);
        Ok(None)
    }

    /// Removes `key`, and returns the value that it had.
    pub fn remove(&self, target: &mut impl Target, key: &K) -> Option<V> {
        let (entries, index, which) = self.find(target, key, mark(target, key))?;
        let at = entries.at(index);
        let value = load(target, at + 1 + K::WORDS);
        if which == COUNT {
            entries.close(target, index);
        } else {
            target.write(at, GONE);
        }
        self.add(target, which, -1);
        self.step(target, STEPS);
        Some(value)
    }

    /// All keys with their values, in the order of their hashes, more or less.
    pub fn iter<'a>(
        &self,
        source: &'a (impl Source + ?Sized),
    ) -> impl Iterator<Item = (K, V)> + 'a {
        let [table, old] = [TABLE, OLD].map(|table| self.entries(source, table));
        let there = table.there(source).chain(old.there(source));
        there.map(move |at| (load(source, at + 1), load(source, at + 1 + K::WORDS)))
    }

    /// Makes room for one more key.
    fn make_room(&self, target: &mut impl Target) -> Result<(), MemoryError> {
        let table = self.entries(target, TABLE);
        if table.block == 0 {
            let block = blocks::take(target, Self::STRIDE << FIRST)?;
            self.set_entries(target, TABLE, Entries { block, log: FIRST, ..table });
            return Ok(());
        }
        if 4 * (self.len(target) + 1) <= 3 * table.len() {
            return Ok(());
        }
        let log = table.log + 1;
        let words = Self::STRIDE.checked_shl(log).filter(|words| words >> log == Self::STRIDE);
        let block = blocks::take(target, words.unwrap_or(usize::MAX))?;
        self.step(target, usize::MAX); // by now the old table is gone, if the sums are right
        let count = self.count(target, COUNT);
        self.set_entries(target, OLD, table);
        self.set_entries(target, TABLE, Entries { block, log, ..table });
        target.write(self.at + OLD_COUNT, count as u64);
        target.write(self.at + COUNT, 0);
        target.write(self.at + CURSOR, 0);
        Ok(())
    }

    /// Moves or clears so many entries of the old table, if there is one.
    fn step(&self, target: &mut impl Target, steps: usize) {
        let old = self.entries(target, OLD);
        if old.block == 0 {
            return;
        }
        let table = self.entries(target, TABLE);
        let cursor = self.count(target, CURSOR);
        let end = cursor.saturating_add(steps).min(2 * old.len());
        for index in cursor..end.min(old.len()) {
            let at = old.at(index);
            let mark = target.read(at);
            if mark & THERE != 0 {
                let to = table.vacant(target, mark);
                copy(target, at, to, Self::STRIDE);
                target.write(at, GONE);
                self.add(target, OLD_COUNT, -1);
                self.add(target, COUNT, 1);
            }
        }
        for index in cursor.max(old.len())..end {
            if !Mutant::MapGivesBackUncleared.is_made() {
                old.clear(target, index - old.len());
            }
        }
        target.write(self.at + CURSOR, end as u64);
        if end == 2 * old.len() {
            blocks::give_back(target, old.block, Self::STRIDE << old.log);
            self.set_entries(target, OLD, Entries { block: 0, log: 0, ..old });
            target.write(self.at + CURSOR, 0);
        }
    }
}

impl<K: Record, V: Record> State for Map<K, V> {
    fn lay_out(layout: &mut Layout) -> Self {
        layout.shapes("map", &[K::shape(), V::shape()]);
        let at = layout.take(WORDS);
        let (items, used) = (Items::Blocks { at: [at + TABLE, at + OLD] }, Use::Marked(THERE));
        let words = [Self::STRIDE, 1 + K::WORDS];
        layout.relate(|| Relation::of_entries(items, used, words, [K::shape(), V::shape()]));
        Self { at, of: PhantomData }
    }
}

places!([K, V] Map<K, V>);

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn a_seed_parts_keys_that_were_chosen_to_meet() {
        let home = |words: &[u64], key: &u64| (mark(words, key) << 1) >> 54;
        let mut words = vec![0; blocks::HEADER];
        let chosen: Vec<u64> = (0..).filter(|key| home(&words, key) == 0).take(64).collect();
        words[blocks::SEED] = 0x5EED;
        let homes: HashSet<u64> = chosen.iter().map(|key| home(&words, key)).collect();
        assert!(homes.len() > 48, "{} homes of 64 keys", homes.len());
    }

    /// Words that count how often they are written.
    struct Counted(Vec<u64>, usize);

    impl Source for Counted {
        fn words(&self) -> usize {
            self.0.len()
        }
        fn read(&self, index: usize) -> u64 {
            self.0[index]
        }
    }

    impl Target for Counted {
        fn write(&mut self, index: usize, value: u64) {
            self.0[index] = value;
            self.1 += 1;
        }
        fn grow(&mut self, words: usize) -> Result<(), MemoryError> {
            self.0.grow(words)
        }
    }

    #[derive(Clone, Copy, crate::State)]
    struct Root {
        map: Map<u64, u64>,
    }

    /// A map of a hundred thousand entries grows as one of ten does: no change writes much.
    #[test]
    fn no_change_of_a_map_takes_long() {
        let mut words = vec![0; Root::layout().words()];
        let Root { map } = Root::attach(&mut words).expect("it is new");
        let (mut words, mut most) = (Counted(words, 0), 0);
        for key in 0..100_000 {
            let before = words.1;
            map.insert(&mut words, key, !key).expect("memory");
            if key % 3 == 0 {
                map.remove(&mut words, &(key / 2));
            }
            most = most.max(words.1 - before);
            let table = map.entries(&words, TABLE);
            assert!(4 * map.count(&words, COUNT) <= 3 * table.len(), "a table is never full");
        }
        let entry = Map::<u64, u64>::STRIDE + 3; // its words, its mark, two counts
        assert!(most < 2 * (STEPS + 2) * entry, "{most} words in one change");
    }
}
