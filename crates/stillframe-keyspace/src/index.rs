//! From the hash of a key to its slot: extendible hashing over small hash tables.
//!
//! R. Fagin, J. Nievergelt, N. Pippenger, H. R. Strong, "Extendible hashing - a fast access method
//! for dynamic files", TODS 1979. A directory of `2^depth` places, addressed by some bits of the
//! hash, refers to tables of at most [`TABLE_CELLS`] cells. A full table is split in two by one
//! further bit; the directory doubles when a table needs more bits than it has. So the largest
//! piece of work is to rehash one table, whatever the number of keys, where one table for all
//! would stop the writer for milliseconds and more.
//!
//! A cell is a slot and 32 bits of the hash, its tag. The tag alone places a cell, so that no
//! rehash touches an entry, and a lookup touches none but the key's own (but for one in billions).
//!
//! ```text
//! tag:  31 .. 25: hashbrown's control byte   |  .. 12: directory, upwards  |  11 .. 0: bucket
//! ```
//!
//! Invariants
//! - A table of depth `d` is referred to by the `2^(depth - d)` places that agree in the low `d`
//!   bits, and holds exactly the cells whose tags agree with them in those bits (from bit 12 on).
//! - A split never puts more than [`SLACK`] bits between a table and the even depth: with tags that
//!   do not spread (an attacker's dream, against which the hash is keyed) a table grows instead.

use hashbrown::HashTable;

const TABLE_BITS: u32 = if cfg!(any(test, miri)) { 4 } else { 12 };
const TABLE_CELLS: usize = (1 << TABLE_BITS) / 8 * 7;
const SLACK: u32 = 4;

/// Where the keys of one database lie.
#[derive(Default)]
pub(crate) struct Index {
    directory: Vec<u32>,
    depth: u32,
    tables: Vec<Table>,
    len: usize,
}

#[derive(Default)]
struct Table {
    depth: u32,
    cells: HashTable<Cell>,
}

#[derive(Clone, Copy)]
struct Cell {
    slot: u32,
    tag: u32,
}

impl Cell {
    /// What hashbrown places it by: the low bits choose the bucket, the top seven the control byte.
    fn hash(self) -> u64 {
        u64::from(self.tag) << 32 | u64::from(self.tag)
    }
}

impl Index {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The slot under this hash that `is_it` accepts.
    #[inline]
    pub(crate) fn find(&self, hash: u64, mut is_it: impl FnMut(u32) -> bool) -> Option<u32> {
        let wanted = Cell { slot: 0, tag: hash as u32 };
        let table = &self.tables[*self.directory.get(self.place(wanted.tag))? as usize];
        let is_it = |cell: &Cell| cell.tag == wanted.tag && is_it(cell.slot);
        table.cells.find(wanted.hash(), is_it).map(|cell| cell.slot)
    }

    /// Adds a slot that is not there.
    pub(crate) fn insert(&mut self, hash: u64, slot: u32) {
        let cell = Cell { slot, tag: hash as u32 };
        if self.directory.is_empty() {
            self.directory.push(0);
            self.tables.push(Table::default());
        }
        while self.split_if_full(self.place(cell.tag)) {}
        let table = self.directory[self.place(cell.tag)] as usize;
        self.tables[table].cells.insert_unique(cell.hash(), cell, |cell| cell.hash());
        self.len += 1;
    }

    /// Removes a slot that is there under this hash.
    pub(crate) fn remove(&mut self, hash: u64, slot: u32) {
        let wanted = Cell { slot, tag: hash as u32 };
        let table = self.directory[self.place(wanted.tag)] as usize;
        let cells = &mut self.tables[table].cells;
        let found = cells.find_entry(wanted.hash(), |cell| cell.slot == slot);
        found.ok().expect("a slot in use is in the index").remove();
        if cells.capacity() > 64 && cells.len() < cells.capacity() / 8 {
            cells.shrink_to(cells.len() * 2, |cell| cell.hash());
        }
        self.len -= 1;
        if self.len == 0 {
            *self = Self::default();
        }
    }

    /// Any slot; `random` yields 64 random bits a call.
    pub(crate) fn random(&self, random: &mut impl FnMut() -> u64) -> Option<u32> {
        if self.len == 0 {
            return None;
        }
        for _ in 0..100 {
            let bits = random();
            let cells =
                &self.tables[self.directory[below(bits, self.directory.len())] as usize].cells;
            let bucket = below(bits >> 32, cells.num_buckets());
            if let Some(cell) = cells.get_bucket(bucket) {
                return Some(cell.slot);
            }
        }
        // Nearly empty: the first cell from a random place on.
        let start = below(random(), self.tables.len());
        let (before, after) = self.tables.split_at(start);
        let mut tables = after.iter().chain(before);
        tables.find_map(|table| table.cells.iter().next()).map(|cell| cell.slot)
    }

    /// All slots.
    pub(crate) fn slots(&self) -> impl Iterator<Item = u32> {
        self.tables.iter().flat_map(|table| &table.cells).map(|cell| cell.slot)
    }

    /// All slots, giving memory back table by table.
    pub(crate) fn into_slots(self) -> impl Iterator<Item = u32> + Send {
        self.tables.into_iter().flat_map(|table| table.cells).map(|cell| cell.slot)
    }

    fn place(&self, tag: u32) -> usize {
        (u64::from(tag) >> TABLE_BITS) as usize & ((1 << self.depth) - 1)
    }

    /// Splits the table of `place` if it is full and may be split; true if it was.
    fn split_if_full(&mut self, place: usize) -> bool {
        let lower = self.directory[place] as usize;
        let depth = self.tables[lower].depth;
        if self.tables[lower].cells.len() < TABLE_CELLS || depth >= self.depth_max() {
            return false;
        }
        if depth == self.depth {
            self.directory.extend_from_within(..);
            self.depth += 1;
        }
        let fresh = || Table { depth: depth + 1, cells: HashTable::with_capacity(TABLE_CELLS) };
        let mut halves = [fresh(), fresh()];
        for cell in std::mem::take(&mut self.tables[lower].cells) {
            let half = &mut halves[(cell.tag >> (TABLE_BITS + depth) & 1) as usize];
            half.cells.insert_unique(cell.hash(), cell, |cell| cell.hash());
        }
        let upper = self.tables.len() as u32;
        let first = place & ((1 << depth) - 1) | 1 << depth;
        for place in (first..self.directory.len()).step_by(2 << depth) {
            self.directory[place] = upper;
        }
        let [low, high] = halves;
        self.tables[lower] = low;
        self.tables.push(high);
        true
    }

    /// How deep a table may be at this number of keys.
    fn depth_max(&self) -> u32 {
        ((self.len / TABLE_CELLS + 1).ilog2() + SLACK).min(32 - TABLE_BITS)
    }
}

/// A number below `bound` from 32 random bits or more.
fn below(bits: u64, bound: usize) -> usize {
    (((bits & 0xffff_ffff) * bound as u64) >> 32) as usize
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    fn hash(key: u32) -> u64 {
        u64::from(key).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29)
    }

    fn check(index: &Index, oracle: &HashMap<u32, u32>, hash: impl Fn(u32) -> u64) {
        assert_eq!(index.len(), oracle.len());
        for (&key, &slot) in oracle {
            assert_eq!(index.find(hash(key), |found| found == slot), Some(slot));
        }
        let mut slots: Vec<u32> = index.slots().collect();
        let mut expected: Vec<u32> = oracle.values().copied().collect();
        slots.sort_unstable();
        expected.sort_unstable();
        assert_eq!(slots, expected);
        for (place, &table) in index.directory.iter().enumerate() {
            let table = &index.tables[table as usize];
            let bits = (1_usize << table.depth) - 1;
            let same = |cell: &Cell| (cell.tag >> TABLE_BITS) as usize & bits == place & bits;
            assert!(table.cells.iter().all(same), "cells agree with their place");
        }
    }

    #[test]
    fn slots_are_found_while_it_grows_and_shrinks() {
        let (mut index, mut oracle) = (Index::default(), HashMap::new());
        let keys = if cfg!(miri) { 300 } else { 5000 };
        for key in 0..keys {
            index.insert(hash(key), key + 7);
            oracle.insert(key, key + 7);
            if key % 499 == 0 {
                check(&index, &oracle, hash);
            }
        }
        assert!(index.depth >= 4 && index.tables.len() > 16, "it was split");
        for key in (0..keys).filter(|key| key % 16 != 3) {
            index.remove(hash(key), key + 7);
            oracle.remove(&key);
        }
        check(&index, &oracle, hash);
        assert_eq!(index.find(hash(4), |_| true), None);
        for key in (0..keys).filter(|key| key % 16 == 3) {
            index.remove(hash(key), key + 7);
        }
        assert!(
            index.directory.is_empty() && index.tables.is_empty(),
            "empty is back at its floor"
        );
    }

    #[test]
    fn tags_that_do_not_spread_cost_time_but_no_memory() {
        let (mut index, mut oracle) = (Index::default(), HashMap::new());
        for key in 0..200 {
            index.insert(0xabcd_ef01, key);
            oracle.insert(key, key);
        }
        check(&index, &oracle, |_| 0xabcd_ef01);
        assert!(index.directory.len() <= 512, "the directory does not explode");
    }

    #[test]
    fn random_meets_every_slot() {
        let mut index = Index::default();
        (0..100).for_each(|key| index.insert(hash(key), key));
        (5..100).for_each(|key| index.remove(hash(key), key));
        let mut bits = 1_u64;
        let mut random = || {
            bits = bits.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            bits ^ bits >> 29
        };
        let mut met = [0; 5];
        for _ in 0..500 {
            met[index.random(&mut random).unwrap() as usize] += 1;
        }
        assert!(met.iter().all(|&times| times > 0), "{met:?}");
    }
}
