//! Hashes whose fields expire, against maps.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

use stillframe::algorithms::naive::Naive;

use super::{KEY, Random, keyspace, sized, tides};
use crate::collection::mistakes::{Mutant, with_mutant};
use crate::memory::value::Value;
use crate::{Hash, HashEdit, Keyspace};

/// Values and deadlines.
type Oracle = BTreeMap<Vec<u8>, (Vec<u8>, Option<i64>)>;

/// One change, made to both.
fn change(random: &mut Random, hash: &mut HashEdit<'_>, oracle: &mut Oracle, now: i64, grow: bool) {
    let (field, value) = (random.text(1500), random.text(600));
    let there = oracle.range(field.clone()..).next().map(|(there, _)| there.clone());
    let deadline = (random.below(3) != 0).then(|| now + 1 + random.below(300) as i64);
    let is_new = !oracle.contains_key(&field);
    match (random.below(10), there) {
        (0..2, Some(there)) | (2..7, Some(there)) if !grow => {
            assert!(hash.remove(&there));
            oracle.remove(&there);
        }
        (0 | 1, Some(there)) => {
            let value = if random.below(2) == 0 { oracle[&there].0.clone() } else { value };
            assert!(!hash.set_keeping(&there, &value, i64::MIN));
            oracle.entry(there).and_modify(|it| it.0 = value);
        }
        (2 | 3, Some(there)) => {
            assert!(hash.set_deadline(&there, deadline));
            oracle.entry(there).and_modify(|it| it.1 = deadline);
        }
        (4 | 5, _) => {
            assert_eq!(hash.set(&field, &value), is_new);
            oracle.insert(field, (value, None));
        }
        (6, _) => assert_eq!(hash.set_deadline(&field, None), !is_new && clear(oracle, &field)),
        _ => {
            assert_eq!(hash.set_until(&field, &value, deadline), is_new);
            oracle.insert(field, (value, deadline));
        }
    }
}

fn clear(oracle: &mut Oracle, field: &[u8]) -> bool {
    oracle.get_mut(field).is_some_and(|it| {
        it.1 = None;
        true
    })
}

/// Deletes what is due, as a lookup does it.
fn expire(keyspace: &mut Keyspace<Naive>, oracle: &mut Oracle, now: i64) {
    keyspace.keep_expired(true);
    loop {
        let deleted = keyspace.expire_fields(0, KEY, now);
        for expired in keyspace.take_expired() {
            assert_eq!((expired.db, &*expired.key, expired.fields.len()), (0, KEY, deleted));
            for field in &expired.fields {
                let (_, deadline) = oracle.remove(&**field).expect("it was there");
                assert!(deadline.is_some_and(|at| at <= now), "it was due");
            }
            assert_eq!(expired.is_gone, oracle.is_empty());
        }
        if deleted == 0 {
            break;
        }
    }
    assert!(oracle.values().all(|(_, deadline)| deadline.is_none_or(|at| at > now)), "all went");
}

fn compare(hash: Hash<'_>, oracle: &Oracle, now: i64, random: &mut Random) {
    let soonest = oracle.values().filter_map(|(_, deadline)| *deadline).min();
    assert_eq!(hash.soonest(), soonest);
    assert_eq!(hash.len(), oracle.len());
    let shown: Oracle =
        oracle.clone().into_iter().filter(|it| it.1.1.is_none_or(|at| at > now)).collect();
    let hash = hash.as_of(now);
    assert_eq!((hash.len(), hash.hides_fields()), (shown.len(), shown.len() < oracle.len()));
    let field = random.text(1500);
    assert_eq!(hash.get(&field), shown.get(&field).map(|it| &it.0[..]));
    assert_eq!(hash.deadline(&field), shown.get(&field).and_then(|it| it.1));
    if random.below(10) == 0 {
        let all: BTreeMap<_, _> =
            hash.fields().map(|it| (it.field, (it.value, it.deadline))).collect();
        assert_eq!(all.len(), hash.fields().count());
        assert!(
            all.into_iter().eq(shown.iter().map(|(field, it)| (&field[..], (&it.0[..], it.1))))
        );
        let (mut cursor, mut scanned) = (0, 0);
        loop {
            cursor = hash.scan(cursor, 10, |field, value| {
                assert_eq!(shown.get(field).map(|it| &it.0[..]), Some(value));
                scanned += 1;
            });
            if cursor == 0 {
                break;
            }
        }
        assert_eq!(scanned, shown.len());
        let at = random.below(oracle.len());
        let from: Vec<_> = hash.fields_from(at).map(|it| (it.field, it.value)).collect();
        let by_rank: Vec<_> = (at..oracle.len()).filter_map(|rank| hash.at(rank)).collect();
        assert_eq!((from, hash.at(oracle.len())), (by_rank, None));
        let drawn = hash.random(|count| random.below(count)).map(|it| it.0);
        assert!(drawn.map_or(shown.is_empty(), |drawn| shown.contains_key(drawn)));
    }
    assert!((hash.len()..=hash.len_with_hidden()).contains(&hash.quick_len()));
}

fn is_as_a_map() {
    let mut random = Random::seeded("hash with deadlines");
    let (mut oracle, mut now) = (Oracle::new(), 1000);
    tides(|keyspace, grow| {
        now += random.below(2) as i64;
        if random.below(6) == 0 {
            expire(keyspace, &mut oracle, now);
        }
        let edited =
            keyspace.edit_hash(0, KEY, |hash| change(&mut random, hash, &mut oracle, now, grow));
        edited.unwrap();
        assert_eq!(keyspace.timed_hashes(), usize::from(oracle.values().any(|it| it.1.is_some())));
        if random.below(40) == 0 {
            keyspace.copy(0, KEY, 0, b"copy").unwrap(); // shares its nodes from now on
            keyspace.remove(0, b"copy");
        }
        match keyspace.peek(0, KEY, 0).map(|entry| entry.value()) {
            Some(Value::Hash(hash)) => compare(hash, &oracle, now, &mut random),
            _ => assert!(oracle.is_empty()),
        }
        oracle.len()
    });
}

#[test]
fn a_hash_with_deadlines_is_a_map() {
    is_as_a_map();
}

/// A hash of `fields` fields, of which each is due at what `deadline` says of its number.
fn hash_of(fields: usize, deadline: impl Fn(usize) -> Option<i64>) -> Keyspace<Naive> {
    let mut keyspace = keyspace();
    keyspace.spare_expired(true); // nothing is deleted
    let fill = |hash: &mut HashEdit<'_>| {
        for number in 0..fields {
            hash.set_until(number.to_string().as_bytes(), b"value", deadline(number));
        }
    };
    keyspace.edit_hash(0, KEY, fill).unwrap();
    keyspace
}

fn hash(keyspace: &mut Keyspace<Naive>, now: i64) -> Hash<'_> {
    match keyspace.get(0, KEY, now).map(|entry| entry.value()) {
        Some(Value::Hash(hash)) => hash.as_of(now),
        _ => panic!("it is there"),
    }
}

/// What is hidden costs nothing where it lies alone, and no more than some nodes anywhere.
#[test]
fn hidden_fields_are_counted_and_passed_without_a_look_at_each() {
    let fields = sized(20_000, 400);
    let mut keyspace = hash_of(fields, |number| (number != 7).then_some(10));
    let few = hash(&mut keyspace, 10);
    assert_eq!((few.quick_len(), few.len()), (1, 1));
    assert_eq!(few.random(|_| 0), Some((&b"7"[..], &b"value"[..])));
    assert_eq!(few.iter().count(), 1);
    let mut keyspace = hash_of(fields, |number| Some(10 + (number % 2) as i64));
    let half = hash(&mut keyspace, 10);
    assert_eq!(half.len(), fields / 2);
    assert!(half.quick_len() > fields * 3 / 4, "it has stopped early");
    assert_eq!(hash(&mut keyspace, 11).quick_len(), 0, "all are of one kind");
    assert_eq!(hash(&mut keyspace, 9).quick_len(), fields);
}

#[test]
#[cfg_attr(miri, ignore = "takes many steps")]
fn every_mutant_is_found() {
    for &mutant in Mutant::ALL.iter().filter(|mutant| mutant.is_chosen()) {
        let run = || catch_unwind(AssertUnwindSafe(is_as_a_map));
        assert!(with_mutant(mutant, run).is_err(), "{mutant:?}");
    }
}

#[test]
fn a_hash_of_many_due_fields_goes_in_pieces() {
    let mut keyspace = keyspace();
    let fields = sized(2000, 40);
    keyspace
        .edit_hash(0, KEY, |hash| {
            for number in 0..fields {
                hash.set_until(number.to_string().as_bytes(), b"value", Some(10));
            }
        })
        .unwrap();
    let Some(Value::Hash(hash)) = keyspace.get(0, KEY, 9).map(|entry| entry.value()) else {
        panic!("it is there")
    };
    assert_eq!(hash.as_of(9).len(), fields);
    let mut steps = 0;
    while let Some(Value::Hash(hash)) = keyspace.get(0, KEY, 10).map(|entry| entry.value()) {
        assert_eq!(hash.as_of(10).len(), 0, "hidden, if not gone");
        steps += 1;
    }
    assert!(steps > 5, "a lookup deletes some of them: {steps}");
    assert_eq!((keyspace.len(0), keyspace.timed_hashes()), (0, 0));
}
