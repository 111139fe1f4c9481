//! Lists against deques.

use std::collections::VecDeque;

use super::{KEY, Random, check, keyspace, sized, tides};
use crate::memory::value::Value;

#[test]
fn a_list_is_a_deque() {
    let mut random = Random::seeded("list");
    let mut oracle = VecDeque::<Vec<u8>>::new();
    tides(|keyspace, grow| {
        let (text, at) = (random.text(1000), random.below(oracle.len() + 1));
        let way = random.below(20);
        keyspace
            .edit_list(0, KEY, |list| match (way, grow) {
                (0..3, _) | (3..8, true) => {
                    list.push_back(&text);
                    oracle.push_back(text);
                }
                (8..13, true) => {
                    list.push_front(&text);
                    oracle.push_front(text);
                }
                (3..7, false) => assert_eq!(list.pop_back(), oracle.pop_back()),
                (7..11, false) => assert_eq!(list.pop_front(), oracle.pop_front()),
                (11..15, false) => {
                    let count = random.below(12).min(oracle.len() - at.min(oracle.len()));
                    list.remove_range(at, count);
                    oracle.drain(at..at + count);
                }
                (15..17, _) if at < oracle.len() => {
                    assert!(list.set(at, &text) && !list.set(oracle.len(), &text));
                    oracle[at] = text;
                }
                _ => {
                    assert!(list.insert(at, &text) && !list.insert(oracle.len() + 2, &text));
                    oracle.insert(at, text);
                }
            })
            .unwrap();
        let at = at.min(oracle.len());
        match keyspace.get(0, KEY, 0).map(|entry| entry.value()) {
            None => assert!(oracle.is_empty()),
            Some(Value::List(list)) => {
                assert_eq!(list.len(), oracle.len());
                assert_eq!(list.get(at), oracle.get(at).map(Vec::as_slice));
                if random.below(10) == 0 {
                    assert!(list.iter_from(at).eq(oracle.range(at..).map(Vec::as_slice)));
                    let end = oracle.len().min(at + 1);
                    let down = oracle.range(..end).rev().map(Vec::as_slice);
                    assert!(list.iter_back_from(at).eq(down));
                }
            }
            Some(other) => panic!("{other:?}"),
        }
        oracle.len()
    });
}

/// All that happens at the ends of a list; one end may have all elements.
#[test]
fn a_list_is_a_queue_in_both_directions() {
    let len = sized(500, 40);
    let text = |number: usize| vec![b'x'; if number % 50 == 49 { 5000 } else { 1 + number % 60 }];
    for (front, pops) in [(0, 1), (1, 0), (1, 2), (0, 2), (1, 3), (2, 1)] {
        let (mut keyspace, mut oracle) = (keyspace(), VecDeque::new());
        let at_front =
            |way: usize, number: usize| way == 1 || way > 1 && number.is_multiple_of(way);
        for number in 0..len {
            let element = text(number);
            keyspace
                .edit_list(0, KEY, |list| match at_front(front, number) {
                    true => list.push_front(&element),
                    false => list.push_back(&element),
                })
                .unwrap();
            if at_front(front, number) {
                oracle.push_front(element);
            } else {
                oracle.push_back(element);
            }
        }
        check(&mut keyspace);
        for number in 0..len {
            let popped = keyspace.edit_list(0, KEY, |list| match at_front(pops, number) {
                true => (list.pop_front(), oracle.pop_front()),
                false => (list.pop_back(), oracle.pop_back()),
            });
            let (popped, expected) = popped.unwrap();
            assert_eq!(popped, expected);
            check(&mut keyspace);
        }
        assert_eq!(keyspace.stats().entry_bytes, 0);
    }
}
