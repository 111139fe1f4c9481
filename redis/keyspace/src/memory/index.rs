//! From the hash of a key to its slot: extendible hashing over small tables.
//!
//! R. Fagin, J. Nievergelt, N. Pippenger, H. R. Strong, "Extendible hashing - a fast access method
//! for dynamic files", TODS 1979. A directory of `2^depth` positions, addressed by some bits of the
//! hash, refers to tables. A table that is full and has all its pieces is split in two by one
//! further bit; the directory doubles when a table needs more bits than it has. So the largest
//! piece of work is to rehash one table, whatever the number of keys, where one table for all
//! would stop the writer for milliseconds and more.
//!
//! A cell is 8 bytes: a slot and 32 bits of the hash, the tag. The tag alone gives a cell's place,
//! so that no rehash touches an entry, and a lookup touches only the key's own (except for one in
//! billions). A lookup costs three cache misses: cell, word of the slot, entry. Lookups of a batch
//! wait for each kind together (`store::warm`), and a write needs the word anyway. With the word in
//! the cell a lookup costs two, and a key takes a dozen bytes more.
//!
//! A table has up to seven pieces and grows by one, so that its cells are three quarters full;
//! doubling leaves less than two thirds. All pieces of tables that were split have one size, so
//! that freed ones are used again: if tables were of many sizes, the allocator would keep pages of
//! each, and these would take more than is saved.
//!
//! ```text
//! tag:  31 .. 16: home of the cell in its table, a fraction of it  |  from bit 0 up: directory
//! ```
//!
//! Invariants
//! - A table of depth `d` is referred to by the `2^(depth - d)` positions that agree in the low `d`
//!   bits, and holds exactly the cells whose tags agree with them in those bits.
//! - Between the home of a cell and the cell there is no empty cell; at least one cell is empty.
//! - `slots` holds the slots of all cells: what walks over a database walks in the order of slots.
//! - A split never puts more than [`SLACK`] bits between a table and the even depth: with tags that
//!   do not spread (an attacker's dream, against which the hash is keyed) pieces grow instead.

use crate::memory::slot_set::SlotSet;

/// Cells of a piece, as bits, from which on a table with all pieces is split.
const PIECE_BITS: u8 = if cfg!(any(test, miri)) { LINE_BITS } else { 9 };
/// Most pieces of a table.
const PIECES: usize = 7;
/// Least cells of a half of a table that was split: four pieces.
const HALF_BITS: u8 = PIECE_BITS + 2;
const SLACK: u32 = 4;
const DEPTH_MAX: u32 = 21;

/// The slot of each key of one database.
#[derive(Default)]
pub(crate) struct Index {
    directory: Vec<u32>,
    depth: u8,
    tables: Vec<Table>,
    slots: SlotSet,
    len: usize,
}

impl Index {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// What `accept` returns for the first of the slots under this hash that it accepts.
    #[inline]
    pub(crate) fn find<T>(&self, hash: u64, accept: impl FnMut(u32) -> Option<T>) -> Option<T> {
        let tag = hash as u32;
        let table = &self.tables[*self.directory.get(self.position(tag))? as usize];
        table.find(tag, accept).map(|(_, found)| found)
    }

    /// Adds a slot that is not there.
    pub(crate) fn insert(&mut self, hash: u64, slot: u32) {
        let cell = Cell::new(hash as u32, slot);
        if self.directory.is_empty() {
            self.directory.push(0);
            self.tables.push(Table::new(0, CELLS_MIN));
        }
        loop {
            let position = self.position(cell.tag());
            let table = &mut self.tables[self.directory[position] as usize];
            if !table.is_full() {
                table.insert(cell);
                break;
            }
            if !table.is_grown() || !self.split(position) {
                let table = &mut self.tables[self.directory[position] as usize];
                table.resize(table.cells() + (1 << table.piece_bits));
            }
        }
        self.slots.insert(slot);
        self.len += 1;
    }

    /// Removes a slot that is there under this hash.
    pub(crate) fn remove(&mut self, hash: u64, slot: u32) {
        let position = self.position(hash as u32);
        let table = &mut self.tables[self.directory[position] as usize];
        let found = table.find(hash as u32, |other| (other == slot).then_some(()));
        let (at, ()) = found.expect("a slot in use is in the index");
        table.remove(at);
        if table.len() < table.cells() / 4 && table.cells() > CELLS_MIN {
            table.resize(2 * table.len());
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
            if !cell.is_empty() {
                return Some(cell.slot());
            }
        }
        // Nearly empty: the first one from a random table on.
        let (before, after) = self.tables.split_at(below(random(), self.tables.len()));
        let cell = after.iter().chain(before).flat_map(Table::iter).next();
        cell.map(Cell::slot)
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
        tag as usize & ((1 << self.depth) - 1)
    }

    /// Splits the table of `position`; false if it may not be split.
    fn split(&mut self, position: usize) -> bool {
        let low = self.directory[position] as usize;
        let depth = self.tables[low].depth;
        let even = (self.len >> HALF_BITS).max(1).ilog2();
        if u32::from(depth) >= (even + SLACK).min(DEPTH_MAX) {
            return false;
        }
        if depth == self.depth {
            self.directory.extend_from_within(..);
            self.depth += 1;
        }
        let half = |cell: Cell| (cell.tag() >> depth & 1) as usize;
        let upper: usize = self.tables[low].iter().map(half).sum();
        let lens = [self.tables[low].len() - upper, upper];
        let [lower, upper] = [0, 1].map(|side| {
            let cells = (lens[side] * 4 / 3).max(1 << HALF_BITS);
            let mut table = Table::new(depth + 1, cells);
            table.take(&self.tables[low], |cell| half(cell) == side);
            table
        });
        let high = self.tables.len() as u32;
        let first = position & ((1 << depth) - 1) | 1 << depth;
        for position in (first..self.directory.len()).step_by(2 << depth) {
            self.directory[position] = high;
        }
        self.tables[low] = lower;
        self.tables.push(upper);
        true
    }
}

/// A number below `bound` from 32 random bits or more.
pub(crate) fn below(bits: u64, bound: usize) -> usize {
    (((bits & 0xffff_ffff) * bound as u64) >> 32) as usize
}

const LINE_BITS: u8 = 3;
const LINE: usize = 1 << LINE_BITS;
const CELLS_MIN: usize = LINE;
/// The bits of a tag that give its home.
const HOME_BITS: u32 = 16;

/// One hash table with linear probing.
struct Table {
    /// Each has `2^piece_bits` cells; those beyond `cells` are empty.
    pieces: [Box<[Line]>; PIECES],
    cells: u32,
    len: u32,
    piece_bits: u8,
    depth: u8,
}

/// The cells of a cache line.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Line([Cell; LINE]);

/// A tag, and a slot plus one; 0 if it is empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Cell(u64);

const EMPTY: Cell = Cell(0);
const _: () = assert!(size_of::<Line>() == 64);
const _: () = assert!(size_of::<Table>() == 128);

impl Cell {
    fn new(tag: u32, slot: u32) -> Self {
        Self(u64::from(tag) << 32 | (u64::from(slot) + 1))
    }

    fn is_empty(self) -> bool {
        self == EMPTY
    }

    fn tag(self) -> u32 {
        (self.0 >> 32) as u32
    }

    fn slot(self) -> u32 {
        (self.0 as u32).wrapping_sub(1)
    }
}

impl Table {
    /// An empty table of so many cells, or somewhat more.
    fn new(depth: u8, cells: usize) -> Self {
        let mut piece_bits = LINE_BITS;
        while cells > PIECES << piece_bits {
            piece_bits += 1;
        }
        let used = cells.div_ceil(1 << piece_bits).max(1);
        let pieces = std::array::from_fn(|piece| {
            let lines = if piece < used { 1 << (piece_bits - LINE_BITS) } else { 0 };
            vec![Line([EMPTY; LINE]); lines].into_boxed_slice()
        });
        Self { pieces, cells: (used << piece_bits) as u32, len: 0, piece_bits, depth }
    }

    fn cells(&self) -> usize {
        self.cells as usize
    }

    fn len(&self) -> usize {
        self.len as usize
    }

    /// Whether it has all its pieces, and is to be split.
    fn is_grown(&self) -> bool {
        self.cells() >= PIECES << PIECE_BITS
    }

    /// At 13/16 of the cells a lookup probes three on average.
    fn is_full(&self) -> bool {
        self.len() * 16 >= self.cells() * 13
    }

    /// The line of a cell.
    #[inline]
    fn line(&self, at: usize) -> &Line {
        &self.pieces[at >> self.piece_bits][(at & ((1 << self.piece_bits) - 1)) / LINE]
    }

    #[inline]
    fn line_mut(&mut self, at: usize) -> &mut Line {
        &mut self.pieces[at >> self.piece_bits][(at & ((1 << self.piece_bits) - 1)) / LINE]
    }

    fn cell(&self, at: usize) -> Cell {
        self.line(at).0[at % LINE]
    }

    fn cell_mut(&mut self, at: usize) -> &mut Cell {
        &mut self.line_mut(at).0[at % LINE]
    }

    fn iter(&self) -> impl Iterator<Item = Cell> {
        let lines = self.pieces.iter().flat_map(|piece| piece.iter());
        lines.flat_map(|line| line.0).filter(|cell| !cell.is_empty())
    }

    #[inline]
    fn home(&self, tag: u32) -> usize {
        let fraction = u64::from(tag >> (32 - HOME_BITS));
        ((fraction * u64::from(self.cells)) >> HOME_BITS) as usize
    }

    /// A place up to the end; behind the last cell is the first.
    #[inline]
    fn wrapped(&self, at: usize) -> usize {
        if at == self.cells() { 0 } else { at }
    }

    fn distance(&self, from: usize, to: usize) -> usize {
        if to >= from { to - from } else { to + self.cells() - from }
    }

    /// The first cell that has this tag and a slot that `accept` accepts.
    #[inline]
    fn find<T>(&self, tag: u32, mut accept: impl FnMut(u32) -> Option<T>) -> Option<(usize, T)> {
        let mut at = self.home(tag);
        loop {
            for &cell in &self.line(at).0[at % LINE..] {
                if cell.is_empty() {
                    return None;
                }
                if cell.tag() == tag
                    && let Some(found) = accept(cell.slot())
                {
                    return Some((at, found));
                }
                at += 1;
            }
            at = self.wrapped(at);
        }
    }

    fn insert(&mut self, cell: Cell) {
        self.len += 1;
        let mut at = self.home(cell.tag());
        loop {
            for place in &mut self.line_mut(at).0[at % LINE..] {
                if place.is_empty() {
                    *place = cell;
                    return;
                }
                at += 1;
            }
            at = self.wrapped(at);
        }
    }

    /// Takes over the cells of another table.
    fn take(&mut self, other: &Self, takes: impl Fn(Cell) -> bool) {
        for line in other.pieces.iter().flat_map(|piece| &piece[..]) {
            for &cell in line.0.iter().filter(|cell| !cell.is_empty() && takes(**cell)) {
                self.insert(cell);
            }
        }
    }

    /// Empties a cell and moves up those behind it, so that none is cut off from its home.
    fn remove(&mut self, mut gap: usize) {
        let mut at = gap;
        loop {
            at = self.wrapped(at + 1);
            let cell = self.cell(at);
            if cell.is_empty() {
                break;
            }
            if self.distance(self.home(cell.tag()), at) >= self.distance(gap, at) {
                *self.cell_mut(gap) = cell;
                gap = at;
            }
        }
        *self.cell_mut(gap) = EMPTY;
        self.len -= 1;
    }

    fn resize(&mut self, cells: usize) {
        let mut other = Self::new(self.depth, cells);
        other.take(self, |_| true);
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

    fn only(slot: u32) -> impl FnMut(u32) -> Option<u32> {
        move |other| (other == slot).then_some(other)
    }

    fn check(index: &Index, oracle: &HashMap<u32, u32>, hash: impl Fn(u32) -> u64) {
        assert_eq!(index.len(), oracle.len());
        for (&key, &slot) in oracle {
            assert_eq!(index.find(hash(key), only(slot)), Some(slot));
        }
        let mut expected: Vec<u32> = oracle.values().copied().collect();
        expected.sort_unstable();
        assert!(index.slots().iter().eq(expected));
        for (position, &table) in index.directory.iter().enumerate() {
            let table = &index.tables[table as usize];
            let bits = (1_usize << table.depth) - 1;
            let same = |cell: Cell| cell.tag() as usize & bits == position & bits;
            assert!(table.iter().all(same), "cells agree with their position");
            assert_eq!(table.iter().count(), table.len());
            let sizes = table.pieces.iter().map(|piece| piece.len() * LINE).sum::<usize>();
            assert_eq!(sizes, table.cells(), "pieces hold the cells");
        }
    }

    #[test]
    fn slots_are_found_while_it_grows_and_shrinks() {
        let (mut index, mut oracle) = (Index::default(), HashMap::new());
        let keys = if cfg!(miri) { 400 } else { 5000 };
        for key in 0..keys {
            index.insert(hash(key), key + 7);
            oracle.insert(key, key + 7);
            if key % 499 == 0 {
                check(&index, &oracle, hash);
            }
        }
        assert!(index.depth >= 3 && index.tables.len() >= 8, "it was split");
        for key in (0..keys).filter(|key| key % 16 != 3) {
            index.remove(hash(key), key + 7);
            oracle.remove(&key);
            if key % 499 == 0 {
                check(&index, &oracle, hash);
            }
        }
        check(&index, &oracle, hash);
        assert_eq!(index.find(hash(4), Some), None);
        let cells: usize = index.tables.iter().map(Table::cells).sum();
        assert!(cells <= index.tables.len() * CELLS_MIN + 4 * index.len(), "it shrank");
        for key in (0..keys).filter(|key| key % 16 == 3) {
            index.remove(hash(key), key + 7);
        }
        assert!(
            index.directory.is_empty() && index.tables.is_empty(),
            "empty is back at its floor"
        );
    }

    #[test]
    fn grown_tables_have_pieces_of_one_size_and_few_empty_cells() {
        let mut index = Index::default();
        for key in 0..if cfg!(miri) { 500 } else { 20_000 } {
            index.insert(hash(key), key);
            let cells: usize = index.tables.iter().map(Table::cells).sum();
            if index.tables.len() > 2 {
                let one_size = |table: &Table| table.piece_bits == PIECE_BITS;
                assert!(index.tables.iter().all(one_size), "{key}");
                assert!(index.len() * 2 > cells, "{key}: {cells}");
            }
        }
    }

    #[test]
    fn tags_that_do_not_spread_cost_time_but_no_memory() {
        let (mut index, mut oracle) = (Index::default(), HashMap::new());
        for key in 0..if cfg!(miri) { 80 } else { 200 } {
            index.insert(0xabcd_ef01, key);
            oracle.insert(key, key);
        }
        check(&index, &oracle, |_| 0xabcd_ef01);
        assert!(index.directory.len() <= 512, "the directory does not explode");
        for key in 1..oracle.len() as u32 {
            index.remove(0xabcd_ef01, key);
        }
        check(&index, &HashMap::from([(0, 0)]), |_| 0xabcd_ef01);
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
