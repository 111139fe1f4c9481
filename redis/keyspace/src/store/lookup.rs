//! Lookups that hash each key once: the next lookup knows what the last one found.
//!
//! Hashing a key takes longer than comparing it with the key of an entry. A command often looks
//! one key up several times (to read it, then to change it), and requests that wait together are
//! warmed before the first of them runs. So the keyspace keeps slot and hash of the key looked up
//! last, and those of the keys just warmed, in their order.
//!
//! Invariant
//! - K5: as long as the key in a known slot lives, the known hash is its hash, or one with the same
//!   tag, and an index reads only the tag. A memo goes before its slot gets another key: deleting a
//!   key removes the key's memo, clearing a database removes all.

use stillframe::Algorithm;

use super::Keyspace;
use crate::collection::tree::BATCH;
use crate::memory::slots::Seat;

/// What a lookup of a key finds.
#[derive(Clone, Copy)]
pub(crate) struct Lookup {
    pub(crate) hash: u64,
    /// The key's seat, if the key exists.
    pub(crate) seat: Option<Seat>,
}

/// Slots and hashes of keys that are likely to be looked up next.
#[derive(Default)]
pub(crate) struct Known {
    /// The memo of the key looked up last.
    last: Option<Memo>,
    /// The memos of the warmed keys, in order.
    warmed: [Memo; BATCH],
    count: usize,
    /// How many of them were looked up since.
    met: usize,
}

/// A key's hash, and its slot if it has one.
#[derive(Clone, Copy, Default)]
struct Memo {
    hash: u64,
    slot: Option<u32>,
}

impl Known {
    /// These keys were warmed.
    pub(crate) fn warmed(&mut self, hashes: &[u64], seats: &[Option<Seat>]) {
        (self.count, self.met) = (hashes.len(), 0);
        for ((memo, &hash), seat) in self.warmed.iter_mut().zip(hashes).zip(seats) {
            *memo = Memo { hash, slot: seat.map(|seat| seat.slot) };
        }
    }

    /// The first key warmed that was not looked up yet.
    #[inline]
    fn next(&self) -> Option<Memo> {
        self.warmed[..self.count].get(self.met).copied()
    }

    /// The key with this hash was looked up: if it was warmed, those before it are passed over.
    #[inline]
    fn meet(&mut self, hash: u64) {
        if self.met < self.count {
            let ahead = &self.warmed[self.met..self.count];
            self.met += ahead.iter().position(|memo| memo.hash == hash).map_or(0, |at| at + 1);
        }
    }

    /// The key looked up last has this seat now.
    pub(crate) fn learn(&mut self, hash: u64, seat: Option<Seat>) {
        self.last = Some(Memo { hash, slot: seat.map(|seat| seat.slot) });
    }

    /// The key in a slot is deleted.
    pub(crate) fn forget(&mut self, slot: u32) {
        for memo in self.last.iter_mut().chain(&mut self.warmed[self.met..self.count]) {
            memo.slot = memo.slot.filter(|&other| other != slot);
        }
    }

    pub(crate) fn forget_all(&mut self) {
        (self.last, self.count, self.met) = (None, 0, 0);
    }
}

impl<A: Algorithm> Keyspace<A> {
    /// Looks a key up.
    #[inline]
    pub(crate) fn lookup(&mut self, db: usize, key: &[u8]) -> Lookup {
        if let Some(memo) = self.known.next()
            && let Some(found) = self.confirm(memo, db, key)
        {
            self.known.met += 1;
            self.known.last = Some(memo);
            return found;
        }
        let hash = self.hash(key);
        let own = self.slots.find(&self.dbs[db].index, hash, key);
        let seat = own.or_else(|| self.find_shown(db, hash, key));
        self.known.meet(hash);
        self.known.learn(hash, seat);
        Lookup { hash, seat }
    }

    /// Looks a key up that may be the one that was looked up last.
    #[inline]
    pub(crate) fn lookup_again(&mut self, db: usize, key: &[u8]) -> Lookup {
        let known = self.known.last.and_then(|memo| self.confirm(memo, db, key));
        known.unwrap_or_else(|| self.lookup(db, key))
    }

    /// The result of a lookup, if the key is where its memo expects it.
    #[inline]
    fn confirm(&self, memo: Memo, db: usize, key: &[u8]) -> Option<Lookup> {
        let seat = self.slots.seat(memo.slot?)?;
        let entry = self.slots.entry_of(seat);
        let is_in = self.slots.shown().is_in(self.spaces.of_db(db), entry);
        let is_it = entry.key() == key && is_in && self.is_live(entry);
        debug_assert!(!is_it || self.hasher.sip(key) as u32 == memo.hash as u32, "K5");
        is_it.then_some(Lookup { hash: memo.hash, seat: Some(seat) })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use stillframe::algorithms::naive::Naive;

    use crate::hash::key_hashes;
    use crate::model::{Random, sized};
    use crate::store::tests::keyspace;
    use crate::{Expire, Keyspace};

    /// How often `f` hashes keys of the keyspace.
    fn hashes(keyspace: &mut Keyspace<Naive>, f: impl FnOnce(&mut Keyspace<Naive>)) -> usize {
        let before = key_hashes();
        f(keyspace);
        key_hashes() - before
    }

    /// A text that does not fit where another one lies, so that the entry is replaced.
    fn text(turn: usize) -> Vec<u8> {
        vec![b'x'; if turn.is_multiple_of(2) { 10 } else { 2000 }]
    }

    #[test]
    fn a_key_that_is_replaced_is_hashed_once() {
        type Change = fn(&mut Keyspace<Naive>, &[u8], usize);
        let changes: [(&str, Change); 8] = [
            ("set", |it, key, turn| it.set(0, key, &text(turn), Expire::Never).unwrap()),
            ("look and set", |it, key, turn| {
                assert!(it.contains(0, key, 0));
                it.set(0, key, &text(turn), Expire::Never).unwrap();
            }),
            ("append", |it, key, _| assert!(it.append(0, key, &text(1)).unwrap() > 2000)),
            ("patch", |it, key, turn| {
                assert!(it.set_range(0, key, 9000 * turn, b"x").unwrap() > 9000 * turn);
            }),
            ("hash", |it, key, turn| {
                assert!(it.get_to_edit(1, key, 0).is_some());
                it.edit_hash(1, key, |hash| hash.set(b"field", &text(turn))).unwrap();
            }),
            ("sorted set", |it, key, turn| {
                assert!(it.get_to_edit(2, key, 0).is_some());
                it.edit_sorted(2, key, |set| set.set(&text(turn), 1.0)).unwrap();
            }),
            ("expire", |it, key, _| assert!(it.set_expire(0, key, Some(100)))),
            ("remove", |it, key, _| assert!(it.remove(0, key))),
        ];
        for (what, change) in changes {
            for warms in [false, true] {
                let mut keyspace = keyspace();
                let keys: Vec<Vec<u8>> = (0..16_u8).map(|key| vec![b'k', key]).collect();
                for key in &keys {
                    keyspace.set(0, key, b"value", Expire::Never).unwrap();
                    keyspace.edit_hash(1, key, |hash| hash.set(b"a", b"b")).unwrap();
                    keyspace.edit_sorted(2, key, |set| set.set(b"a", 0.0)).unwrap();
                }
                for turn in 0..if what == "remove" { 1 } else { 4 } {
                    let db = ["hash", "sorted set"].iter().position(|it| *it == what);
                    let db = db.map_or(0, |at| at + 1);
                    let count = hashes(&mut keyspace, |keyspace| {
                        if warms {
                            keyspace.warm(db, keys.iter().map(Vec::as_slice));
                        }
                        keys.iter().for_each(|key| change(keyspace, key, turn));
                    });
                    assert_eq!(count, keys.len(), "{what}, warmed: {warms}, turn {turn}");
                }
            }
        }
    }

    #[test]
    fn a_key_that_expires_or_moves_is_hashed_once() {
        let mut keyspace = keyspace();
        keyspace.set(0, b"a", b"1", Expire::At(10)).unwrap();
        assert_eq!(hashes(&mut keyspace, |it| assert!(!it.contains(0, b"a", 10))), 1);
        for key in [b"a", b"b", b"c"] {
            keyspace.set(0, key, b"1", Expire::Never).unwrap();
        }
        let renames = |it: &mut Keyspace<_>| assert!(it.rename(0, b"a", 0, b"b").unwrap());
        assert_eq!(hashes(&mut keyspace, renames), 2, "each name once");
        let copies = |it: &mut Keyspace<_>| assert!(it.copy(0, b"b", 0, b"c").unwrap());
        assert_eq!(hashes(&mut keyspace, copies), 1, "the other was looked up last");
    }

    #[test]
    fn keys_that_are_warmed_and_not_looked_up_are_passed_over() {
        let mut keyspace = keyspace();
        let keys: Vec<Vec<u8>> = (0..16_u8).map(|key| vec![b'k', key]).collect();
        for key in keys.iter().filter(|key| key[1] != 9) {
            keyspace.set(0, key, b"value", Expire::Never).unwrap();
        }
        keyspace.warm(0, keys.iter().map(Vec::as_slice));
        let count = hashes(&mut keyspace, |keyspace| {
            for key in [0, 1, 4, 5, 6, 9, 10] {
                assert_eq!(keyspace.contains(0, &keys[key], 0), key != 9);
            }
        });
        assert_eq!(count, 2, "the first behind a gap, and one that is absent");
    }

    #[test]
    fn what_is_known_of_a_slot_is_forgotten_with_its_key() {
        let (old, new) = ([&b"old:1"[..], b"old:2"], [&b"new:1"[..], b"new:2"]);
        let fill = |keyspace: &mut Keyspace<Naive>, keys: [&[u8]; 2]| {
            keys.iter().for_each(|key| keyspace.set(0, key, b"1", Expire::Never).unwrap());
        };
        for round in 0..5 {
            let mut keyspace = keyspace();
            fill(&mut keyspace, old);
            keyspace.warm(0, old);
            match round {
                0 => old.iter().for_each(|key| assert!(keyspace.remove(0, key))),
                1 => old.iter().rev().for_each(|key| assert!(keyspace.remove(0, key))),
                2 => keyspace.clear(0),
                3 => keyspace.swap(0, 1),
                _ => while keyspace.evict(chance(), &mut || 7).is_some() {},
            }
            while keyspace.tend() {}
            // They get the slots of the old keys, but not their hashes.
            fill(&mut keyspace, new);
            assert_eq!(keyspace.slots.used(), if round == 3 { 4 } else { 2 });
            for key in new {
                assert!(keyspace.contains(0, key, 0), "round {round}");
                keyspace.set(0, key, &text(1), Expire::Never).unwrap();
                assert!(keyspace.remove(0, key), "round {round}");
            }
            assert!(!keyspace.contains(0, old[0], 0) && !keyspace.remove(0, old[1]));
        }
    }

    /// Any keys are warmed, then looked up, changed, moved and deleted in any order.
    #[test]
    fn keys_are_found_as_if_nothing_were_known() {
        let mut random = Random::seeded("lookups");
        let (mut keyspace, mut oracle) = (keyspace(), [(); 2].map(|()| BTreeMap::new()));
        let names: Vec<Vec<u8>> = (0..6_u8).map(|name| vec![b'k', name]).collect();
        for _ in 0..sized(20_000, 400) {
            let (db, to) = (random.below(2), random.below(2));
            let [key, other] = [(); 2].map(|()| &names[random.below(names.len())]);
            match random.below(40) {
                0 => {
                    keyspace.clear(db);
                    oracle[db].clear();
                }
                1 => {
                    keyspace.swap(0, 1);
                    oracle.swap(0, 1);
                }
                2..5 => {
                    let evicted = keyspace.evict(chance(), &mut || random.next());
                    let (db, key) = evicted.unwrap_or_default();
                    assert_eq!(oracle[db].remove(&*key).is_some(), !key.is_empty());
                    keyspace.tend();
                }
                5..10 => {
                    let start = random.below(names.len());
                    keyspace.warm(db, names[start..].iter().map(Vec::as_slice));
                }
                10..14 => {
                    let is_there = oracle[db].remove(key).is_some();
                    assert_eq!(keyspace.remove(db, key), is_there);
                }
                14..18 => {
                    let moved = oracle[db].get(key).cloned();
                    assert_eq!(keyspace.rename(db, key, to, other).unwrap(), moved.is_some());
                    if let Some(moved) = moved {
                        oracle[db].remove(key);
                        oracle[to].insert(other.clone(), moved);
                    }
                }
                18..28 => {
                    let value = text(random.below(2));
                    keyspace.set(db, key, &value, Expire::Never).unwrap();
                    oracle[db].insert(key.clone(), value);
                }
                _ => {
                    let found = keyspace.get(db, key, 0).map(|entry| entry.value().len());
                    assert_eq!(found, oracle[db].get(key).map(Vec::len));
                }
            }
            assert_eq!([0, 1].map(|db| keyspace.len(db)), [0, 1].map(|db| oracle[db].len()));
        }
    }

    fn chance() -> crate::Choice {
        crate::Choice { merit: crate::Merit::Chance, mortal_only: false, samples: 1 }
    }
}
