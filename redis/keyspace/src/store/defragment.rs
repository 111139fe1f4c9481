//! Moves what lies in sparse memory, so that the allocator can give that back.
//!
//! Freed entries leave holes between those that stay, and memory with a hole belongs to the
//! process. The caller's allocator says which memory is sparse; what lies there is allocated anew,
//! where the allocator fills up what it has. An entry keeps its slot and its era, so that nothing
//! else notices. Nothing moves while an image or a view may read it.

use stillframe::Algorithm;

use super::Keyspace;

/// A walk over all entries, and what it has done.
#[derive(Debug, Default, Clone, Copy)]
pub struct Defragmentation {
    slot: u32,
    /// The place within the large collection of the slot.
    place: usize,
    /// Entries, and leaves of large collections, that it has come to.
    pub looked: u64,
    /// Those of them that it moved.
    pub moved: u64,
    /// Keys that it has passed.
    pub keys_looked: u64,
    /// Keys that were moved, in whole or in part.
    pub keys_moved: u64,
    /// Whether something of the key under way was moved.
    is_key_moved: bool,
}

impl<A: Algorithm> Keyspace<A> {
    /// Whether entries may move: there is no image and no view.
    #[must_use]
    pub fn is_movable(&self) -> bool {
        self.slots.is_alone()
    }

    /// Goes on with a walk, by so many steps; false if it has come to its end. Each step copies at
    /// most 128 KiB. `is_sparse` says it of the memory at an address, which lies in a live
    /// allocation of this process. Nothing happens while there is an image or a view.
    pub fn defragment(
        &mut self,
        walk: &mut Defragmentation,
        steps: usize,
        is_sparse: &dyn Fn(*const u8) -> bool,
    ) -> bool {
        if !self.is_movable() {
            return true;
        }
        for _ in 0..steps {
            if walk.slot as usize >= self.slots.used() {
                return false;
            }
            if walk.place == 0 {
                let Some(is_moved) = self.slots.move_entry(walk.slot, is_sparse) else {
                    walk.slot += 1;
                    continue;
                };
                walk.count(is_moved);
            }
            match self.slots.move_leaf(walk.slot, walk.place, is_sparse) {
                Some((next, is_moved)) => {
                    walk.count(is_moved);
                    walk.place = next;
                }
                None => walk.next_slot(),
            }
        }
        true
    }
}

impl Defragmentation {
    fn count(&mut self, is_moved: bool) {
        self.looked += 1;
        self.moved += u64::from(is_moved);
        self.is_key_moved |= is_moved;
    }

    fn next_slot(&mut self) {
        self.keys_looked += 1;
        self.keys_moved += u64::from(self.is_key_moved);
        (self.slot, self.place, self.is_key_moved) = (self.slot + 1, 0, false);
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use stillframe::algorithms::naive::Naive;

    use super::*;
    use crate::collection::tree::MOVED_BYTES_MAX;
    use crate::store::tests::keyspace;
    use crate::{Expire, Pending, StreamId, Value};

    fn whole(keyspace: &mut Keyspace<Naive>, is_sparse: &dyn Fn(*const u8) -> bool) -> u64 {
        let mut walk = Defragmentation::default();
        while keyspace.defragment(&mut walk, 3, is_sparse) {}
        walk.moved
    }

    #[test]
    fn what_moves_stays_as_it_is() {
        let mut it = keyspace();
        it.set(0, b"int", b"12", Expire::Keep).unwrap();
        it.set(0, b"long", &[b'l'; 9000], Expire::At(i64::MAX - 1)).unwrap();
        it.set(0, b"huge", &vec![b'h'; 200 << 10], Expire::Keep).unwrap();
        for at in 0..500_u32 {
            let name = at.to_string();
            it.edit_hash(0, b"hash", |hash| hash.set(name.as_bytes(), &[7; 40])).unwrap();
            it.edit_sorted(1, b"sorted", |set| set.set(name.as_bytes(), f64::from(at))).unwrap();
            it.edit_list(2, b"list", |list| list.push_back(name.as_bytes())).unwrap();
        }
        let before = it.stats();
        assert_eq!(whole(&mut it, &|_| false), 0);
        assert!(whole(&mut it, &|_| true) > 5 + 3 * 10, "keys and leaves");
        let after = it.stats();
        assert_eq!((before.entry_bytes, before.keys), (after.entry_bytes, after.keys));
        assert_eq!(it.get(0, b"int", 0).unwrap().value(), Value::Int(12));
        let long = it.get(0, b"long", 0).unwrap();
        assert_eq!((long.value().len(), long.expire_at()), (9000, Some(i64::MAX - 1)));
        let Value::Hash(hash) = it.get(0, b"hash", 0).unwrap().value() else { panic!("a hash") };
        assert_eq!((hash.len(), hash.get(b"321")), (500, Some(&[7; 40][..])));
        let Value::Sorted(set) = it.get(1, b"sorted", 0).unwrap().value() else { panic!("a set") };
        assert_eq!((set.len(), set.score(b"499")), (500, Some(499.0)));
        let Value::List(list) = it.get(2, b"list", 0).unwrap().value() else { panic!("a list") };
        assert_eq!(list.iter_from(250).next(), Some(&b"250"[..]));
    }

    #[test]
    fn what_others_hold_stays_where_it_is() {
        let mut it = keyspace();
        for at in 0..500_u32 {
            let name = at.to_string();
            it.edit_hash(0, b"hash", |hash| hash.set(name.as_bytes(), b"v")).unwrap();
        }
        it.copy(0, b"hash", 1, b"copy").unwrap();
        let held = it.stats().entry_bytes;
        assert_eq!(whole(&mut it, &|_| true), 2, "the two entries alone");
        assert_eq!(it.stats().entry_bytes, held);
    }

    #[test]
    fn nothing_is_looked_at_beside_a_view() {
        let mut it = keyspace();
        it.set(0, b"key", b"value", Expire::Keep).unwrap();
        let looks = Cell::new(0);
        let look = |_: *const u8| {
            looks.set(looks.get() + 1);
            true
        };
        it.open_view(1, 0);
        let mut walk = Defragmentation::default();
        (0..5).for_each(|_| assert!(it.defragment(&mut walk, 9, &look)));
        assert_eq!((looks.get(), walk.looked), (0, 0));
        it.close_view(1);
        while it.defragment(&mut walk, 9, &look) {}
        assert_eq!((walk.moved, walk.keys_moved), (1, 1));
    }

    #[test]
    fn ends_of_lists_and_parts_of_streams_move() {
        let mut it = keyspace();
        it.edit_list(0, b"list", |list| {
            (0..50).for_each(|at| list.push_back(&[at; 40]));
            (0..50).for_each(|at| list.push_front(&[at; 40]));
        })
        .unwrap();
        let ends = |it: &mut Keyspace<Naive>| {
            let Value::List(list) = it.get(0, b"list", 0).unwrap().value() else { panic!() };
            [0, 99].map(|at| list.iter_from(at).next().unwrap().as_ptr())
        };
        let before = ends(&mut it);
        assert!(whole(&mut it, &|_| true) > 3);
        let after = ends(&mut it);
        assert!(before.iter().zip(&after).all(|(before, after)| before != after));
        let Value::List(list) = it.get(0, b"list", 0).unwrap().value() else { panic!("a list") };
        let firsts: Vec<u8> = list.iter_from(0).map(|element| element[0]).collect();
        assert_eq!(firsts, (0..50).rev().chain(0..50).collect::<Vec<u8>>());

        let mut it = keyspace();
        it.edit_stream(0, b"stream", |stream| {
            let name_of = |ms: u64| [b"none", b"ours", b"last"][ms as usize % 3];
            for ms in 1..=300 {
                assert!(stream.add(StreamId { ms, seq: 0 }, [(&b"f"[..], &b"v"[..])].into_iter()));
            }
            stream.create_group(b"group", StreamId::MAX, None);
            for ms in 1..=300 {
                let (id, name) = (StreamId { ms, seq: 0 }, name_of(ms));
                stream.see_consumer(b"group", name, 5, None);
                let pending = Pending { id, consumer: Some(name), time_ms: 6, count: 1 };
                assert!(stream.deliver(b"group", pending));
            }
        })
        .unwrap();
        let bytes = it.stats().entry_bytes;
        let moved = whole(&mut it, &|_| true);
        assert!(moved >= 1 + 1 + 7, "the entry, what was added, and seven trees: {moved}");
        assert_eq!(it.stats().entry_bytes, bytes);
        let Value::Stream(stream) = it.get(0, b"stream", 0).unwrap().value() else { panic!() };
        let group = stream.group(b"group").unwrap();
        assert_eq!((stream.len(), group.pending_len(), group.consumer_count()), (300, 300, 3));
        assert_eq!(group.consumer(b"ours").unwrap().pending_from(StreamId::MIN).count(), 100);
        assert_eq!(group.pending_by_age().map(|it| it.id.ms).sum::<u64>(), 300 * 301 / 2);
    }

    #[test]
    fn a_long_element_stays_where_it_is() {
        let mut it = keyspace();
        let long = vec![b'l'; MOVED_BYTES_MAX + 1];
        it.edit_list(0, b"list", |list| list.push_back(&long)).unwrap();
        it.edit_hash(0, b"hash", |hash| {
            (0..500_u32).for_each(|at| _ = hash.set(&at.to_le_bytes(), &[b'v'; 90]));
            hash.set(b"long", &long);
        })
        .unwrap();
        let places = |it: &mut Keyspace<Naive>| {
            let Value::Hash(hash) = it.get(0, b"hash", 0).unwrap().value() else { panic!() };
            let at = hash.get(b"long").unwrap().as_ptr();
            let Value::List(list) = it.get(0, b"list", 0).unwrap().value() else { panic!() };
            [at, list.iter_from(0).next().unwrap().as_ptr()]
        };
        let (before, bytes) = (places(&mut it), it.stats().entry_bytes);
        let is_asked = Cell::new(false);
        let look = |address: *const u8| {
            let is_within = |at: &*const u8| at.addr().abs_diff(address.addr()) < 64;
            is_asked.set(is_asked.get() || before.iter().any(is_within));
            true
        };
        assert!(whole(&mut it, &look) > 10);
        assert!(!is_asked.get());
        assert_eq!((places(&mut it), it.stats().entry_bytes), (before, bytes));
    }
}
