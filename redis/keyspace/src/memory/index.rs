//! From the hash of a key to its slot and entry: extendible hashing over small tables.
//!
//! R. Fagin, J. Nievergelt, N. Pippenger, H. R. Strong, "Extendible hashing - a fast access method
//! for dynamic files", TODS 1979. A directory of `2^depth` positions, addressed by some bits of the
//! hash, refers to tables of at most `2^TABLE_BITS` cells. A full table is split in two by one
//! further bit; the directory doubles when a table needs more bits than it has. So the largest
//! piece of work is to rehash one table, whatever the number of keys, where one table for all
//! would stop the writer for milliseconds and more.
//!
//! A cell is 16 bytes: the entry's handle, its slot, and 32 bits of the hash, the tag. The tag
//! alone gives a cell's place, so that no rehash touches an entry, and a lookup touches only the
//! key's own (except for one in billions). Cells are probed in line, so that a lookup costs two
//! cache misses, one here and one for the entry. With control bytes apart and the handle in the
//! slot word alone it took four, and that was most of its time.
//!
//! ```text
//! tag:  31 .. 11: directory, from bit 11 upwards  |  10 .. 0: home of the cell in its table
//! ```
//!
//! Invariants
//! - A table of depth `d` is referred to by the `2^(depth - d)` positions that agree in the low `d`
//!   bits, and holds exactly the cells whose tags agree with them in those bits (from bit 11 on).
//! - Between the home of a cell and the cell there is no empty cell; at least one cell is empty.
//! - `slots` holds the slots of all cells: what walks over a database walks in the order of slots.
//! - A split never puts more than [`SLACK`] bits between a table and the even depth: with tags that
//!   do not spread (an attacker's dream, against which the hash is keyed) a table grows instead.

use crate::memory::slot_set::SlotSet;

const TABLE_BITS: u32 = if cfg!(any(test, miri)) { 4 } else { 11 };
const SLACK: u32 = 4;

/// The slot and handle of each key of one database.
#[derive(Default)]
pub(crate) struct Index {
    directory: Vec<u32>,
    depth: u32,
    tables: Vec<Table>,
    slots: SlotSet,
    len: usize,
}

/// A slot in use and the word in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Seat {
    pub(crate) slot: u32,
    pub(in crate::memory) word: u64,
}

impl Index {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The seat under this hash whose word `is_it` accepts.
    #[inline]
    pub(crate) fn find(&self, hash: u64, mut is_it: impl FnMut(u64) -> bool) -> Option<Seat> {
        let tag = hash as u32;
        let table = &self.tables[*self.directory.get(self.position(tag))? as usize];
        let at = table.find(tag, |cell| is_it(cell.word))?;
        let Cell { slot, word, .. } = table.cell(at);
        Some(Seat { slot, word })
    }

    /// Adds a slot that is not there.
    pub(crate) fn insert(&mut self, hash: u64, seat: Seat) {
        let cell = Cell { word: seat.word, slot: seat.slot, tag: hash as u32 };
        if self.directory.is_empty() {
            self.directory.push(0);
            self.tables.push(Table::new(0, CELLS_MIN));
        }
        loop {
            let position = self.position(cell.tag);
            let table = &mut self.tables[self.directory[position] as usize];
            if !table.is_full() {
                table.insert(cell);
                break;
            }
            if table.cells() < 1 << TABLE_BITS || !self.split(position) {
                let table = &mut self.tables[self.directory[position] as usize];
                table.resize(table.cells() * 2);
            }
        }
        self.slots.insert(seat.slot);
        self.len += 1;
    }

    /// Puts another word into the cell of a slot that is there under this hash.
    pub(crate) fn update(&mut self, hash: u64, seat: Seat) {
        let position = self.position(hash as u32);
        let table = &mut self.tables[self.directory[position] as usize];
        let at = table.find(hash as u32, |cell| cell.slot == seat.slot);
        table.cell_mut(at.expect("a slot in use is in the index")).word = seat.word;
    }

    /// Removes a slot that is there under this hash.
    pub(crate) fn remove(&mut self, hash: u64, slot: u32) {
        let position = self.position(hash as u32);
        let table = &mut self.tables[self.directory[position] as usize];
        let at = table.find(hash as u32, |cell| cell.slot == slot);
        table.remove(at.expect("a slot in use is in the index"));
        if table.len < table.cells() / 8 && table.cells() > CELLS_MIN {
            table.resize((table.cells() / 4).max(CELLS_MIN));
        }
        self.slots.remove(slot);
        self.len -= 1;
        if self.len == 0 {
            *self = Self { slots: std::mem::take(&mut self.slots), ..Self::default() };
        }
    }

    /// Any slot; `random` yields 64 random bits a call.
    pub(crate) fn random(&self, random: &mut impl FnMut() -> u64) -> Option<u32> {
        if self.len == 0 {
            return None;
        }
        for _ in 0..100 {
            let bits = random();
            let table = self.directory[below(bits, self.directory.len())];
            let table = &self.tables[table as usize];
            let cell = table.cell(below(bits >> 32, table.cells()));
            if cell.word != 0 {
                return Some(cell.slot);
            }
        }
        // Nearly empty: the first one from a random table on.
        let (before, after) = self.tables.split_at(below(random(), self.tables.len()));
        let cell = after.iter().chain(before).flat_map(Table::iter).next();
        cell.map(|cell| cell.slot)
    }

    /// The slots, in their order.
    pub(crate) fn slots(&self) -> &SlotSet {
        &self.slots
    }

    /// The slots, and the rest as garbage with its size in bytes.
    pub(crate) fn into_slots(self) -> (SlotSet, impl Send, usize) {
        let cells: usize = self.tables.iter().map(Table::cells).sum();
        (self.slots, (self.directory, self.tables), cells * size_of::<Cell>())
    }

    fn position(&self, tag: u32) -> usize {
        (u64::from(tag) >> TABLE_BITS) as usize & ((1 << self.depth) - 1)
    }

    /// Splits the table of `position`; false if it may not be split.
    fn split(&mut self, position: usize) -> bool {
        let low = self.directory[position] as usize;
        let depth = self.tables[low].depth;
        let even = (self.len >> TABLE_BITS).max(1).ilog2();
        if depth >= (even + SLACK).min(32 - TABLE_BITS) {
            return false;
        }
        if depth == self.depth {
            self.directory.extend_from_within(..);
            self.depth += 1;
        }
        let cells = self.tables[low].cells();
        let mut halves = [(); 2].map(|()| Table::new(depth + 1, cells));
        for cell in self.tables[low].iter() {
            halves[(cell.tag >> (TABLE_BITS + depth) & 1) as usize].insert(cell);
        }
        let high = self.tables.len() as u32;
        let first = position & ((1 << depth) - 1) | 1 << depth;
        for position in (first..self.directory.len()).step_by(2 << depth) {
            self.directory[position] = high;
        }
        let [lower, upper] = halves;
        self.tables[low] = lower;
        self.tables.push(upper);
        true
    }
}

/// A number below `bound` from 32 random bits or more.
pub(crate) fn below(bits: u64, bound: usize) -> usize {
    (((bits & 0xffff_ffff) * bound as u64) >> 32) as usize
}

const LINE: usize = 4;
const CELLS_MIN: usize = 2 * LINE;

/// One hash table with linear probing.
struct Table {
    depth: u32,
    len: usize,
    lines: Box<[Line]>,
}

/// The cells of a cache line.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Line([Cell; LINE]);

/// Empty if the word is 0.
#[derive(Clone, Copy)]
struct Cell {
    word: u64,
    slot: u32,
    tag: u32,
}

const EMPTY: Cell = Cell { word: 0, slot: 0, tag: 0 };
const _: () = assert!(size_of::<Line>() == 64);

impl Table {
    fn new(depth: u32, cells: usize) -> Self {
        Self { depth, len: 0, lines: vec![Line([EMPTY; LINE]); cells / LINE].into_boxed_slice() }
    }

    fn cells(&self) -> usize {
        self.lines.len() * LINE
    }

    /// At 13/16 of the cells a lookup probes three on average.
    fn is_full(&self) -> bool {
        self.len * 16 >= self.cells() * 13
    }

    #[inline]
    fn cell(&self, at: usize) -> Cell {
        self.lines[at / LINE].0[at % LINE]
    }

    fn cell_mut(&mut self, at: usize) -> &mut Cell {
        &mut self.lines[at / LINE].0[at % LINE]
    }

    fn iter(&self) -> impl Iterator<Item = Cell> {
        self.lines.iter().flat_map(|line| line.0).filter(|cell| cell.word != 0)
    }

    /// The place of the cell that has this tag and that `is_it` accepts.
    #[inline]
    fn find(&self, tag: u32, mut is_it: impl FnMut(Cell) -> bool) -> Option<usize> {
        let mask = self.cells() - 1;
        let mut at = tag as usize & mask;
        loop {
            let cell = self.cell(at);
            if cell.word == 0 {
                return None;
            }
            if cell.tag == tag && is_it(cell) {
                return Some(at);
            }
            at = (at + 1) & mask;
        }
    }

    fn insert(&mut self, cell: Cell) {
        let mask = self.cells() - 1;
        let mut at = cell.tag as usize & mask;
        while self.cell(at).word != 0 {
            at = (at + 1) & mask;
        }
        *self.cell_mut(at) = cell;
        self.len += 1;
    }

    /// Empties a cell and moves up those behind it, so that none is cut off from its home.
    fn remove(&mut self, mut gap: usize) {
        let mask = self.cells() - 1;
        let mut at = gap;
        loop {
            at = (at + 1) & mask;
            let cell = self.cell(at);
            if cell.word == 0 {
                break;
            }
            let distance = at.wrapping_sub(cell.tag as usize) & mask;
            if distance >= at.wrapping_sub(gap) & mask {
                *self.cell_mut(gap) = cell;
                gap = at;
            }
        }
        *self.cell_mut(gap) = EMPTY;
        self.len -= 1;
    }

    fn resize(&mut self, cells: usize) {
        let mut other = Self::new(self.depth, cells);
        self.iter().for_each(|cell| other.insert(cell));
        *self = other;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    fn hash(key: u32) -> u64 {
        u64::from(key).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29)
    }

    fn seat(slot: u32) -> Seat {
        Seat { slot, word: 1 + u64::from(slot) }
    }

    fn check(index: &Index, oracle: &HashMap<u32, u32>, hash: impl Fn(u32) -> u64) {
        assert_eq!(index.len(), oracle.len());
        for (&key, &slot) in oracle {
            assert_eq!(index.find(hash(key), |word| word == 1 + u64::from(slot)), Some(seat(slot)));
        }
        let mut expected: Vec<u32> = oracle.values().copied().collect();
        expected.sort_unstable();
        assert!(index.slots().iter().eq(expected));
        for (position, &table) in index.directory.iter().enumerate() {
            let table = &index.tables[table as usize];
            let bits = (1_usize << table.depth) - 1;
            let same = |cell: Cell| (cell.tag >> TABLE_BITS) as usize & bits == position & bits;
            assert!(table.iter().all(same), "cells agree with their position");
        }
    }

    #[test]
    fn slots_are_found_while_it_grows_and_shrinks() {
        let (mut index, mut oracle) = (Index::default(), HashMap::new());
        let keys = if cfg!(miri) { 300 } else { 5000 };
        for key in 0..keys {
            index.insert(hash(key), seat(key + 7));
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
        index.update(hash(3), Seat { slot: 10, word: 99 });
        assert_eq!(index.find(hash(3), |_| true), Some(Seat { slot: 10, word: 99 }));
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
        for key in 0..if cfg!(miri) { 80 } else { 200 } {
            index.insert(0xabcd_ef01, seat(key));
            oracle.insert(key, key);
        }
        check(&index, &oracle, |_| 0xabcd_ef01);
        assert!(index.directory.len() <= 512, "the directory does not explode");
    }

    #[test]
    fn random_meets_every_slot() {
        let mut index = Index::default();
        (0..100).for_each(|key| index.insert(hash(key), seat(key)));
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
