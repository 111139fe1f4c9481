//! Histories whose verdict is known.

use super::{back, holds, lost};
use crate::call::Command::{Add, Append, Get, List, Set, SetAbsent, SetPresent, Swap};
use crate::call::{Key, Reply};
use crate::history::{Operation, Outcome};
use crate::{Budget, Verdict, check};

const A: Key = Key(1);
const B: Key = Key(2);
const OK: Reply = Reply::Done;
const NIL: Reply = Reply::Nothing;

fn number(number: i64) -> Reply {
    Reply::Number(number)
}

fn list(elements: &[i64]) -> Reply {
    Reply::List(elements.to_vec())
}

fn set(client: usize, times: [u64; 2], value: i64) -> Operation {
    back(client, times, &[(Set(A, value), OK)])
}

fn get(client: usize, times: [u64; 2], value: i64) -> Operation {
    back(client, times, &[(Get(A), number(value))])
}

type Known = Vec<(&'static str, Vec<Operation>)>;

fn right_strings() -> Known {
    vec![
        ("nothing", vec![]),
        ("in order", vec![set(0, [1, 2], 5), get(0, [3, 4], 5)]),
        (
            "a read during a write sees either",
            vec![set(0, [1, 2], 5), set(0, [3, 9], 6), get(1, [4, 5], 5), get(1, [6, 7], 6)],
        ),
        (
            "writes in the opposite order of their invocations",
            vec![
                set(0, [1, 20], 1),
                set(1, [2, 20], 2),
                set(2, [3, 20], 3),
                get(3, [4, 5], 3),
                get(3, [6, 7], 2),
                get(3, [8, 9], 1),
            ],
        ),
        (
            "a lost write shows late",
            vec![
                set(0, [1, 2], 5),
                lost(1, 3, &[Set(A, 6)]),
                get(0, [4, 5], 5),
                get(0, [60, 61], 6),
            ],
        ),
        (
            "a lost write never shows",
            vec![set(0, [1, 2], 5), lost(1, 3, &[Set(A, 6)]), get(0, [60, 61], 5)],
        ),
        (
            "a lost write is overwritten unseen",
            vec![
                lost(1, 3, &[SetAbsent(A, 6)]),
                back(0, [4, 5], &[(SetAbsent(A, 7), NIL)]),
                set(0, [6, 7], 8),
                get(0, [8, 9], 8),
            ],
        ),
        (
            "a lost write stays in reserve, though it could have come before two others",
            vec![
                back(0, [1, 9], &[(Set(A, 11), OK)]),
                back(1, [1, 9], &[(Set(B, 12), OK)]),
                back(2, [1, 5], &[(Get(A), number(11)), (Get(B), number(12))]),
                lost(3, 1, &[Set(A, 2)]),
                get(0, [20, 21], 2),
            ],
        ),
    ]
}

fn right_others() -> Known {
    vec![
        (
            "some of the lost increments",
            vec![
                lost(1, 1, &[Add(A, 1)]),
                lost(2, 1, &[Add(A, 1)]),
                lost(3, 1, &[Add(A, 1)]),
                back(0, [2, 3], &[(Add(A, 1), number(2))]),
                back(0, [4, 5], &[(Add(A, 1), number(4))]),
            ],
        ),
        (
            "compare and set",
            vec![
                set(0, [1, 2], 5),
                back(0, [3, 4], &[(Swap { key: A, from: 4, to: 9 }, number(0))]),
                back(0, [5, 6], &[(Swap { key: A, from: 5, to: 9 }, number(1))]),
                get(0, [7, 8], 9),
                back(0, [9, 10], &[(SetPresent(A, 1), OK)]),
                back(0, [9, 10], &[(SetPresent(B, 1), NIL)]),
            ],
        ),
        (
            "a list with a lost element in the middle",
            vec![
                back(0, [1, 2], &[(Append(A, 1), number(1))]),
                lost(1, 3, &[Append(A, 2)]),
                back(0, [4, 5], &[(Append(A, 3), number(3))]),
                back(0, [6, 7], &[(List(A), list(&[1, 2, 3]))]),
            ],
        ),
        (
            "a list whose last read came back from before",
            vec![
                back(0, [1, 2], &[(Append(A, 1), number(1))]),
                back(1, [3, 9], &[(List(A), list(&[1]))]),
                back(0, [4, 5], &[(Append(A, 2), number(2))]),
                back(0, [6, 7], &[(List(A), list(&[1, 2]))]),
            ],
        ),
        (
            "a transaction beside its reader",
            vec![
                back(0, [1, 9], &[(Set(A, 1), OK), (Set(B, 1), OK)]),
                back(1, [2, 3], &[(Get(A), NIL), (Get(B), NIL)]),
                back(1, [4, 5], &[(Get(B), number(1)), (Get(A), number(1))]),
            ],
        ),
    ]
}

fn wrong_strings() -> Known {
    vec![
        ("a value from nowhere", vec![get(0, [1, 2], 5)]),
        ("a stale read", vec![set(0, [1, 2], 5), set(0, [3, 4], 6), get(1, [5, 6], 5)]),
        (
            "a lost update",
            vec![
                back(0, [1, 2], &[(Add(A, 1), number(1))]),
                back(1, [1, 3], &[(Add(A, 1), number(1))]),
            ],
        ),
        ("an acknowledged write lost", vec![set(0, [1, 2], 5), back(0, [3, 4], &[(Get(A), NIL)])]),
        (
            "a torn MULTI",
            vec![
                back(0, [1, 2], &[(Set(A, 1), OK), (Set(B, 1), OK)]),
                back(0, [3, 9], &[(Set(A, 2), OK), (Set(B, 2), OK)]),
                back(1, [4, 5], &[(Get(A), number(2)), (Get(B), number(1))]),
            ],
        ),
        (
            "a MULTI seen in halves by two reads",
            vec![
                back(0, [1, 9], &[(Set(A, 1), OK), (Set(B, 1), OK)]),
                back(1, [2, 3], &[(Get(A), number(1))]),
                back(1, [4, 5], &[(Get(B), NIL)]),
            ],
        ),
        (
            "what was read is lost",
            vec![set(0, [1, 2], 5), lost(1, 3, &[Set(A, 6)]), get(0, [4, 5], 6), get(0, [6, 7], 5)],
        ),
        (
            "a lost write happens twice",
            vec![lost(1, 1, &[Add(A, 1)]), back(0, [2, 3], &[(Get(A), number(2))])],
        ),
        (
            "a read before the lost write was asked for",
            vec![get(0, [1, 2], 6), lost(1, 3, &[Set(A, 6)])],
        ),
        (
            "a write that failed shows",
            vec![
                Operation { outcome: Outcome::Failed, ..lost(1, 1, &[Set(A, 6)]) },
                get(0, [4, 5], 6),
            ],
        ),
    ]
}

fn wrong_others() -> Known {
    vec![
        (
            "split brain: two elements at one place",
            vec![
                back(0, [1, 5], &[(Append(A, 1), number(1))]),
                back(1, [1, 5], &[(Append(A, 2), number(1))]),
            ],
        ),
        (
            "a list in two orders",
            vec![
                back(0, [1, 5], &[(Append(A, 1), number(1))]),
                back(1, [1, 5], &[(Append(A, 2), number(2))]),
                back(0, [6, 7], &[(List(A), list(&[2, 1]))]),
            ],
        ),
        (
            "an element before one that was there before",
            vec![
                back(0, [1, 2], &[(Append(A, 1), number(1))]),
                lost(1, 3, &[Append(A, 2)]),
                back(0, [6, 7], &[(List(A), list(&[2, 1]))]),
            ],
        ),
        (
            "a compare-and-set that failed on what was there",
            vec![
                set(0, [1, 2], 5),
                back(0, [3, 4], &[(Swap { key: A, from: 5, to: 9 }, number(0))]),
            ],
        ),
    ]
}

/// The first history about which the checker is wrong.
pub(super) fn first_mistake() -> Option<&'static str> {
    let right = [right_strings(), right_others()].concat().into_iter().map(|it| (it, true));
    let wrong = [wrong_strings(), wrong_others()].concat().into_iter().map(|it| (it, false));
    right.chain(wrong).find(|((_, history), verdict)| holds(history) != *verdict).map(|it| it.0.0)
}

#[test]
fn known_histories_get_their_verdicts() {
    assert_eq!(first_mistake(), None);
}

#[test]
fn a_violation_shows_the_calls_that_matter() {
    let mut history = Vec::new();
    for value in 0..400_u64 {
        let from = 10 * value + 1;
        history.push(set(0, [from, from + 5], value.cast_signed()));
        history.push(get(1, [from + 6, from + 8], value.cast_signed()));
    }
    history.push(get(2, [3_000_000, 4_000_000], 7));
    history.push(set(0, [5_000_000, 6_000_000], 1000));
    let Verdict::Violated(violation) = check(&history, Budget::default()) else {
        panic!("it is stale");
    };
    let shown = violation.to_string();
    // The write of 7, another after it, and the read.
    assert_eq!((violation.calls.len(), violation.at), (3, 2), "{shown}");
    assert_eq!(violation.others, 799, "{shown}");
    assert!(
        shown.contains(">") && shown.contains("3.000 to      4.000 ms  GET k1 -> 7"),
        "{shown}"
    );
}

#[test]
fn a_budget_that_does_not_suffice_is_no_verdict() {
    let mut history: Vec<_> = (0..30).map(|n| lost(n, 1, &[Add(A, 1 << n)])).collect();
    history.push(back(40, [2, 3], &[(Get(A), number((1 << 29) + 1))]));
    history.push(back(40, [4, 5], &[(Get(A), number(-1))]));
    let small = Budget { steps: 100_000, ..Budget::default() };
    assert!(matches!(check(&history, small), Verdict::Undecided(_)));
    let small = Budget { states: 1000, ..Budget::default() };
    assert!(matches!(check(&history, small), Verdict::Undecided(_)));
    let crowd: Vec<_> = (0..65).map(|n| set(n, [1, 2], n as i64)).collect();
    assert!(matches!(check(&crowd, Budget::default()), Verdict::Undecided(_)));
}
