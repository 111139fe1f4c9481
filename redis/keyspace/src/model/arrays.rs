//! Arrays against maps.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::{KEY, Random, check, keyspace, tides};
use crate::collection::array::mistakes::{Mutant, with_mutant};
use crate::collection::array::{Array, ArrayEdit, INDEX_MAX};
use crate::memory::value::Value;

/// What was last inserted at, and the elements.
#[derive(Clone, Default)]
struct Oracle {
    inserted: Option<u64>,
    elements: BTreeMap<u64, Vec<u8>>,
}

/// Mostly near others, now and then far away, at an end, or one that is there.
fn index(random: &mut Random, oracle: &Oracle) -> u64 {
    let near = random.below(1500) as u64;
    match random.below(8) {
        0 => random.next() >> random.below(64),
        1 => INDEX_MAX - near % 20,
        2 | 3 => oracle.elements.range(near..).next().map_or(near, |it| *it.0),
        _ => near,
    }
    .min(INDEX_MAX)
}

fn change(random: &mut Random, edit: &mut ArrayEdit<'_>, oracle: &mut Oracle, grow: bool) {
    let (at, text) = (index(random, oracle), random.text(1000));
    if oracle.elements.is_empty() {
        edit.set_inserted(Some(at)); // of no effect
    }
    match (random.below(12), grow) {
        (0, _) if !oracle.elements.is_empty() => {
            oracle.inserted = Some(at).filter(|_| random.below(3) > 0);
            edit.set_inserted(oracle.inserted);
        }
        (9..11, false) if (1..40).contains(&oracle.elements.len()) => {
            edit.set_inserted(Some(at));
            assert_eq!(edit.remove(0, INDEX_MAX), oracle.elements.len());
            *oracle = Oracle::default();
        }
        (1..3, true) | (1..9, false) => {
            let to = if random.below(3) == 0 { at.saturating_add(12).min(INDEX_MAX) } else { at };
            let before = oracle.elements.len();
            oracle.elements.retain(|index, _| !(at..=to).contains(index));
            assert_eq!(edit.remove(at, to), before - oracle.elements.len());
            if oracle.elements.is_empty() {
                oracle.inserted = None;
            }
        }
        _ => {
            let old = oracle.elements.insert(at, text.clone());
            assert_eq!(edit.set(at, &text), old.is_none());
        }
    }
}

fn compare(array: Array<'_>, oracle: &Oracle, random: &mut Random) {
    let elements = &oracle.elements;
    assert_eq!((array.len(), array.inserted()), (elements.len(), oracle.inserted));
    assert_eq!(array.span(), elements.last_key_value().map_or(0, |it| it.0 + 1));
    let at = index(random, oracle);
    assert_eq!(array.get(at), elements.get(&at).map(Vec::as_slice));
    assert_eq!(array.below(at), elements.range(..at).count());
    if random.below(10) == 0 {
        let shown = |(index, text): (&u64, &'_ Vec<u8>)| (*index, text.clone());
        let owned = |(index, text): (u64, &[u8])| (index, text.to_vec());
        let above = array.iter_from(array.below(at)).map(owned);
        assert!(above.eq(elements.range(at..).map(shown)));
        let rank = array.below(at);
        let below = array.iter_back_from(rank).skip(usize::from(array.get(at).is_some()));
        let is_last = rank >= array.len();
        let below = below.map(owned).filter(|it| !is_last || it.0 < at);
        assert!(below.filter(|it| it.0 < at).eq(elements.range(..at).rev().map(shown)));
    }
}

fn is_as_a_map() {
    let mut random = Random::seeded("array");
    let (mut oracle, mut kept) = (Oracle::default(), None::<Oracle>);
    tides(|keyspace, grow| {
        let edit = keyspace.edit_array(0, KEY, |edit| change(&mut random, edit, &mut oracle, grow));
        edit.unwrap();
        assert_eq!(keyspace.arrays() > 0, !oracle.elements.is_empty() || kept.is_some());
        match keyspace.get(0, KEY, 0).map(|entry| entry.value()) {
            Some(value @ Value::Array(array)) => {
                assert_eq!(value.len(), oracle.elements.len());
                compare(array, &oracle, &mut random);
            }
            None => assert!(oracle.elements.is_empty()),
            Some(other) => panic!("{other:?}"),
        }
        if random.below(40) == 0 {
            if let Some(kept) = kept.take() {
                let copy = keyspace.get(0, b"copy", 0).map(|entry| entry.value());
                let Some(Value::Array(array)) = copy else { panic!("{copy:?}") };
                compare(array, &kept, &mut random);
                keyspace.remove(0, b"copy");
            } else if keyspace.copy(0, KEY, 0, b"copy").unwrap() {
                kept = Some(oracle.clone());
            }
            check(keyspace);
        }
        if oracle.elements.is_empty() && kept.take().is_some() {
            keyspace.remove(0, b"copy");
        }
        oracle.elements.len()
    });
}

#[test]
fn an_array_is_a_map() {
    is_as_a_map();
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
fn an_edit_that_leaves_no_element_makes_no_array() {
    let mut keyspace = keyspace();
    keyspace.edit_array(0, KEY, |edit| assert_eq!(edit.remove(0, INDEX_MAX), 0)).unwrap();
    keyspace.edit_array(0, KEY, |edit| edit.set_inserted(Some(7))).unwrap();
    assert!(keyspace.get(0, KEY, 0).is_none());
    let edit = keyspace.edit_array(0, KEY, |edit| {
        assert!(edit.set(INDEX_MAX, b"") && edit.set(0, b"") && !edit.set(0, b"other"));
        edit.set_inserted(Some(INDEX_MAX));
    });
    edit.unwrap();
    let shown = keyspace.get(0, KEY, 0).map(|entry| format!("{:?}", entry.value())).unwrap();
    assert!(shown.contains("inserted: Some(18446744073709551614)"), "{shown}");
    keyspace.edit_array(0, KEY, |edit| assert_eq!(edit.remove(0, INDEX_MAX), 2)).unwrap();
    assert_eq!((keyspace.len(0), keyspace.arrays()), (0, 0));
    assert!(keyspace.edit_list(0, KEY, |list| list.push_back(b"x")).is_ok());
    assert!(keyspace.edit_array(0, KEY, |_| ()).is_err(), "another type");
}
