//! Expiry, clearing, and state kept from one call to the next.

use stillframe::algorithms::naive::Naive;

use super::*;
use crate::{Expire, Value};

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
    let expired = [1, 2].map(|db| (db, Box::from(&b"a"[..])));
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

/// Few keys beside many of another database, or where many were: a walk of ten keys at a time does
/// not take a call for each ten slots.
#[test]
fn a_scan_passes_many_empty_slots_at_once() {
    let mut keyspace = keyspace();
    let keys = if cfg!(miri) { 100 } else { 4_000 };
    for number in 0..keys {
        keyspace.set(0, format!("{number}").as_bytes(), b"x", Expire::Never).unwrap();
    }
    keyspace.set(1, b"beside", b"x", Expire::Never).unwrap();
    let calls = |keyspace: &mut Keyspace<Naive>| {
        let (mut cursor, mut calls, mut met) = (0, 0, 0);
        loop {
            cursor = keyspace.scan(1, cursor, 10, 0, |_| met += 1);
            calls += 1;
            if cursor == 0 {
                return (calls, met);
            }
        }
    };
    let most = keys / 1000 + 2;
    let (count, met) = calls(&mut keyspace);
    assert!(count <= most && met == 1, "{count} calls, {met} keys");
    keyspace.clear(0);
    while keyspace.tend() {}
    let (count, met) = calls(&mut keyspace);
    assert!(count <= most && met == 1, "{count} calls, {met} keys");
}
