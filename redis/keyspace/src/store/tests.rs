//! Expiry, clearing, and state kept from one call to the next.

use stillframe::SinkError;
use stillframe::algorithms::naive::Naive;

use super::*;
use crate::model::{Random, sized};
use crate::{Expire, Expired, Value};

pub(crate) fn keyspace() -> Keyspace<Naive> {
    Keyspace::create(&KeyspaceOptions { max_keys: 1 << 12, ..KeyspaceOptions::default() }).unwrap()
}

#[test]
fn a_key_is_absent_from_its_deadline_on() {
    let mut keyspace = keyspace();
    keyspace.set(3, b"a", b"12", Expire::At(10)).unwrap();
    assert_eq!(keyspace.get(3, b"a", 9).map(Entry::value), Some(Value::Int(12)));
    assert!(!keyspace.contains(0, b"a", 9), "another database");
    assert_eq!(keyspace.append(3, b"a", b"x").unwrap(), 3);
    assert!(keyspace.get(3, b"a", 10).is_none());
    let stats = keyspace.stats();
    assert_eq!((stats.expired_total, stats.keys, stats.expires, stats.entry_bytes), (1, 0, 0, 0));
}

#[test]
fn the_cycle_meets_every_key_with_a_deadline_within_a_round() {
    let mut keyspace = keyspace();
    for number in 0..200_i64 {
        let key = number.to_string();
        keyspace.set(number as usize % 5, key.as_bytes(), b"v", Expire::At(number)).unwrap();
    }
    let mut deleted = 0;
    for _ in 0..30 {
        deleted += keyspace.expire_cycle(99, 10);
    }
    assert_eq!(deleted, 100);
    assert_eq!(keyspace.expire_cycle(i64::MAX - 1, 1000), 100);
    assert_eq!(keyspace.stats().keys, 0);
    assert_eq!(keyspace.expire_cycle(0, 1000), 0);
}

#[test]
fn expired_keys_are_returned_once_if_asked_for() {
    let mut keyspace = keyspace();
    let expire = |keyspace: &mut Keyspace<_>, db| {
        keyspace.set(db, b"a", b"1", Expire::At(10)).unwrap();
        assert!(!keyspace.contains(db, b"a", 10));
    };
    expire(&mut keyspace, 0);
    assert!(keyspace.take_expired().is_empty());
    keyspace.keep_expired(true);
    expire(&mut keyspace, 1);
    expire(&mut keyspace, 2);
    let key = || Box::from(&b"a"[..]);
    let expired = [1, 2].map(|db| Expired { db, key: key(), fields: Vec::new(), is_gone: true });
    assert_eq!(keyspace.take_expired(), expired);
    assert!(keyspace.take_expired().is_empty());
}

#[test]
fn the_recent_slot_is_not_taken_for_a_cleared_or_moved_key() {
    let mut keyspace = keyspace();
    keyspace.set(0, b"a", b"1", Expire::Never).unwrap();
    assert!(keyspace.contains(0, b"a", 0));
    keyspace.clear(0);
    assert!(!keyspace.remove(0, b"a") && !keyspace.set_expire(0, b"a", None));
    keyspace.set(0, b"a", b"2", Expire::Never).unwrap();
    assert!(keyspace.contains(0, b"a", 0));
    assert!(keyspace.rename(0, b"a", 1, b"a").unwrap());
    assert!(!keyspace.remove(0, b"a") && keyspace.remove(1, b"a"));
}

#[test]
fn clearing_gives_the_slots_back() {
    let mut keyspace = keyspace();
    let (rounds, keys) = if cfg!(miri) { (4, 30) } else { (50, 100) };
    for round in 0..rounds {
        for number in 0..keys {
            let key = format!("{round}:{number}");
            keyspace.set(number % 3, key.as_bytes(), &[b'x'; 50], Expire::Never).unwrap();
        }
        keyspace.clear_all();
        assert_eq!(keyspace.stats().keys, 0);
        while round % 2 == 0 && keyspace.tend() {}
    }
    assert!(keyspace.stats().slots <= 3 * keys, "{:?}", keyspace.stats());
    while keyspace.tend() {}
    assert_eq!(keyspace.stats().entry_bytes, 0);
}

/// The keys of an image.
struct Keys(Vec<Box<[u8]>>);

impl EntrySink for Keys {
    fn entry(&mut self, _db: usize, entry: &Entry) -> Result<(), SinkError> {
        self.0.push(entry.key().into());
        Ok(())
    }
}

#[test]
fn an_image_shows_nothing_that_was_cleared_just_before() {
    let mut keyspace = keyspace();
    let (sender, receiver) = std::sync::mpsc::channel();
    for (db, key) in [(0, b"cleared"), (1, b"beside!")] {
        keyspace.set(db, key, b"1", Expire::Never).unwrap();
    }
    keyspace.clear(0); // nothing has swept it yet
    let publish = move |keys: &mut Keys, captured: Result<CaptureReport, CaptureError>| {
        sender.send(captured.map(|_| std::mem::take(&mut keys.0))).unwrap();
    };
    keyspace.snapshot(Point::declare(), Keys(Vec::new()), publish).unwrap();
    keyspace.wait_image();
    assert_eq!(receiver.recv().unwrap().unwrap(), [Box::from(&b"beside!"[..])]);
}

#[test]
fn a_key_has_the_uses_of_no_other_but_of_what_it_is_a_copy_of() {
    let mut keyspace = keyspace();
    keyspace.set_clock(1_000);
    keyspace.set(0, b"a", b"1", Expire::Never).unwrap();
    keyspace.branch(0, 1).unwrap();
    keyspace.set_clock(5_000);
    keyspace.set(0, b"a", b"2", Expire::Never).unwrap();
    assert_eq!(keyspace.idle_ms(1, b"a"), Some(4_000), "the branch has got a copy");
    assert!(keyspace.remove(0, b"a"));
    keyspace.set_clock(9_000);
    keyspace.set(0, b"b", b"3", Expire::Never).unwrap();
    assert_eq!((keyspace.slots.used(), keyspace.idle_ms(0, b"b")), (2, Some(0)), "in its slot");
}

#[test]
fn a_collection_is_packed_up_to_its_limit_and_not_beyond() {
    for more in [0, 1] {
        let (mut keyspace, limits) = (keyspace(), Limits::default());
        let names = |count: usize| (0..count + more).map(|name| name.to_string().into_bytes());
        let text = |len: usize| vec![b'x'; len + more];
        let edited = [
            keyspace.edit_hash(0, b"fields", |it| {
                names(limits.hash_entries).for_each(|name| _ = it.set(&name, b""));
            }),
            keyspace.edit_hash(0, b"value", |it| _ = it.set(b"", &text(limits.hash_value_bytes))),
            keyspace.edit_set(0, b"integers", |it| {
                names(limits.set_integers).for_each(|name| _ = it.insert(&name));
            }),
            keyspace.edit_sorted(0, b"members", |it| {
                names(limits.sorted_entries).for_each(|name| _ = it.set(&name, 1.0));
            }),
            keyspace.edit_sorted(0, b"member", |it| {
                _ = it.set(&text(limits.sorted_value_bytes), 1.0);
            }),
        ];
        assert!(edited.iter().all(Result::is_ok));
        for key in [&b"fields"[..], b"value", b"integers", b"members", b"member"] {
            let is_packed = match keyspace.get(0, key, 0).expect("it is there").value() {
                Value::Hash(hash) => hash.is_packed(),
                Value::Set(set) => set.is_packed(),
                Value::Sorted(sorted) => sorted.is_packed(),
                other => panic!("{other:?}"),
            };
            assert_eq!(is_packed, more == 0, "{}", key.escape_ascii());
        }
    }
}

/// Slots are kept for what branches may need, and all others can be had.
#[test]
fn a_full_keyspace_has_slots_for_all_that_it_owes() {
    let options = KeyspaceOptions { max_keys: 8, ..KeyspaceOptions::default() };
    let mut keyspace = Keyspace::<Naive>::create(&options).unwrap();
    let set = |it: &mut Keyspace<_>, key: &[u8]| it.set(0, key, b"long", Expire::Never).is_ok();
    assert!((0..3).all(|key| set(&mut keyspace, &name(key))));
    keyspace.branch(0, 1).unwrap();
    assert!(keyspace.branch(1, 2).is_err(), "three more, and six owed");
    assert!(set(&mut keyspace, b"x") && set(&mut keyspace, b"y"));
    assert!(!set(&mut keyspace, b"z"), "three are owed");
    assert!(keyspace.remove(0, b"x") && set(&mut keyspace, b"z"), "one was free again");
    (0..3).for_each(|key| assert!(keyspace.remove(key % 2, &name(key))));
    assert_eq!([0, 1].map(|db| keyspace.len(db)), [3, 2]);
}

/// Calls of ten keys each that a scan of a database takes, and the keys it meets.
fn walk(keyspace: &mut Keyspace<Naive>, db: usize) -> (usize, usize) {
    let (mut cursor, mut calls, mut met) = (0, 0, 0);
    loop {
        cursor = keyspace.scan(db, cursor, 10, 0, |_| met += 1);
        calls += 1;
        if cursor == 0 {
            return (calls, met);
        }
    }
}

/// Few keys where many were, in whatever way those went, or beside many of other databases.
#[test]
fn a_scan_takes_a_call_for_each_ten_keys() {
    type Empty = fn(&mut Keyspace<Naive>, usize);
    let ways: [(&str, Empty); 6] = [
        ("beside", |_, _| ()),
        ("clear", |it, _| it.clear(0)),
        ("clear all", |it, _| it.clear_all()),
        ("remove", |it, keys| (0..keys).for_each(|key| assert!(it.remove(0, &name(key))))),
        ("expire", |it, keys| {
            (0..keys).for_each(|key| assert!(it.set_expire(0, &name(key), Some(-1))));
            assert_eq!(it.expire_cycle(0, keys), keys);
        }),
        ("swap", |it, _| it.swap(0, 2)),
    ];
    for (way, empty) in ways {
        for sweeps in [false, true] {
            let mut keyspace = keyspace();
            let keys = if cfg!(miri) { 100 } else { 4_000 };
            let set = |it: &mut Keyspace<Naive>, db, key| {
                it.set(db, &name(key), b"x", Expire::Never).unwrap();
            };
            (0..keys).for_each(|key| set(&mut keyspace, 0, key));
            assert_eq!(walk(&mut keyspace, 0), (keys / 10, keys));
            empty(&mut keyspace, keys);
            while sweeps && keyspace.tend() {}
            (0..3).for_each(|key| set(&mut keyspace, 1, key));
            assert_eq!(walk(&mut keyspace, 1), (1, 3), "{way}, swept: {sweeps}");
            if way != "beside" {
                assert_eq!(walk(&mut keyspace, 0), (1, 0), "{way}, swept: {sweeps}");
                (0..12).for_each(|key| set(&mut keyspace, 0, key));
                assert_eq!(walk(&mut keyspace, 0), (2, 12), "{way}, swept: {sweeps}");
            }
        }
    }
}

fn name(key: usize) -> Vec<u8> {
    key.to_string().into_bytes()
}

/// A scan meets the keys that stay once each, while its database shrinks and grows, is swapped with
/// another, and others are cleared.
#[test]
fn a_scan_meets_once_what_stays() {
    let mut random = Random::seeded("scan of a keyspace");
    for _ in 0..sized(30, 2) {
        let mut keyspace = keyspace();
        let (stay, others) = (1 + random.below(sized(400, 20)), sized(1500, 40));
        let mut db = 0;
        let set = |it: &mut Keyspace<Naive>, db, key| {
            it.set(db, &name(key), b"x", Expire::Never).unwrap();
        };
        // Those that stay lie between the others.
        for key in 0..stay.max(others) {
            if key < stay {
                set(&mut keyspace, db, key);
            }
            if key < others {
                set(&mut keyspace, key % 2, 1000 + key);
            }
        }
        let (mut cursor, mut met) = (0, vec![0; stay]);
        loop {
            let count = 1 + random.below(20);
            cursor = keyspace.scan(db, cursor, count, 0, |entry| {
                let key: usize = std::str::from_utf8(entry.key()).unwrap().parse().unwrap();
                if let Some(times) = met.get_mut(key) {
                    *times += 1;
                }
            });
            if cursor == 0 {
                break;
            }
            match random.below(12) {
                0 => keyspace.clear(1 - db),
                1 => {
                    keyspace.swap(0, 1);
                    db = 1 - db;
                }
                2..7 => {
                    for _ in 0..random.below(200) {
                        keyspace.remove(random.below(2), &name(1000 + random.below(others)));
                    }
                }
                _ => {
                    for _ in 0..random.below(60) {
                        set(&mut keyspace, random.below(2), 1000 + random.below(others));
                    }
                }
            }
            keyspace.tend();
        }
        assert!(met.iter().all(|&times| times == 1), "{met:?}");
    }
}
