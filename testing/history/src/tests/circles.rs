//! The search for circles against known histories, and against every order of tiny ones.

use super::brute::{KINDS, is_explained, tiny};
use super::{back, holds, lost};
use crate::call::Command::{Append, Exchange, Get, List, Log, Set, Tail};
use crate::call::{Key, Reply};
use crate::find_anomaly;
use crate::history::{Operation, Outcome};
use stillframe_peers::{Random, rounds};

const A: Key = Key(1);
const B: Key = Key(2);
const NIL: Reply = Reply::Nothing;

fn number(number: i64) -> Reply {
    Reply::Number(number)
}

fn list(elements: &[i64]) -> Reply {
    Reply::List(elements.to_vec())
}

type Known = Vec<(&'static str, Vec<Operation>)>;

fn circles_of_lists() -> Known {
    vec![
        (
            "two transactions append in opposite orders",
            vec![
                back(0, [1, 9], &[(Append(A, 1), number(1)), (Append(B, 1), number(2))]),
                back(1, [1, 9], &[(Append(A, 2), number(2)), (Append(B, 2), number(1))]),
            ],
        ),
        (
            "two transactions see each other",
            vec![
                back(0, [1, 9], &[(Append(A, 1), number(1)), (List(B), list(&[2]))]),
                back(1, [1, 9], &[(Append(B, 2), number(1)), (List(A), list(&[1]))]),
            ],
        ),
        (
            "two transactions do not see each other",
            vec![
                back(0, [1, 9], &[(Append(A, 1), number(1)), (List(B), list(&[]))]),
                back(1, [1, 9], &[(Append(B, 2), number(1)), (List(A), list(&[]))]),
            ],
        ),
        (
            "a read in the middle of a transaction",
            vec![
                back(0, [1, 9], &[(Append(A, 1), number(1)), (Append(A, 2), number(2))]),
                back(1, [1, 9], &[(List(A), list(&[1]))]),
            ],
        ),
        (
            "half of a transaction",
            vec![
                back(0, [1, 9], &[(Append(A, 1), number(1)), (Append(B, 2), number(1))]),
                back(1, [1, 9], &[(List(A), list(&[1])), (List(B), list(&[]))]),
            ],
        ),
        (
            "half of a transaction whose reply was lost",
            vec![
                lost(0, 1, &[Append(A, 1), Append(B, 2)]),
                back(1, [1, 9], &[(List(A), list(&[1]))]),
                back(1, [10, 11], &[(List(B), list(&[]))]),
            ],
        ),
        (
            "a stale read",
            vec![
                back(0, [1, 2], &[(Append(A, 1), number(1))]),
                back(1, [3, 4], &[(List(A), list(&[]))]),
            ],
        ),
        (
            "a wait that found nothing behind what was acknowledged",
            vec![
                back(0, [1, 2], &[(Log(A, 1), number(1))]),
                back(0, [3, 4], &[(Log(A, 2), number(2))]),
                back(1, [5, 9], &[(Tail { key: A, after: 1, wait_ms: 1 }, NIL)]),
            ],
        ),
    ]
}

fn circles_of_strings() -> Known {
    vec![
        (
            "strings that are read in opposite orders",
            vec![
                back(0, [1, 9], &[(Exchange(A, 1), NIL)]),
                back(0, [1, 9], &[(Exchange(B, 2), NIL)]),
                back(1, [1, 9], &[(Get(A), number(1)), (Get(B), NIL)]),
                back(2, [1, 9], &[(Get(A), NIL), (Get(B), number(2))]),
            ],
        ),
        (
            "writes behind one another in a circle",
            vec![
                back(0, [1, 9], &[(Exchange(A, 1), number(2))]),
                back(1, [1, 9], &[(Exchange(A, 2), number(1))]),
            ],
        ),
        (
            "a value in the middle of a transaction",
            vec![
                back(0, [1, 9], &[(Set(A, 1), Reply::Done), (Set(A, 2), Reply::Done)]),
                back(1, [1, 9], &[(Get(A), number(1))]),
            ],
        ),
    ]
}

fn circles() -> Known {
    [circles_of_lists(), circles_of_strings()].concat()
}

fn contradictions() -> Known {
    vec![
        (
            "two elements at one place",
            vec![
                back(0, [1, 9], &[(Append(A, 1), number(1))]),
                back(1, [1, 9], &[(Append(A, 2), number(1))]),
            ],
        ),
        (
            "a list in two orders",
            vec![
                lost(0, 1, &[Append(A, 1)]),
                lost(0, 1, &[Append(A, 2)]),
                back(1, [1, 9], &[(List(A), list(&[1, 2]))]),
                back(1, [1, 9], &[(List(A), list(&[2, 1]))]),
            ],
        ),
        (
            "an element twice",
            vec![lost(0, 1, &[Append(A, 1)]), back(1, [1, 9], &[(List(A), list(&[1, 1]))])],
        ),
        ("a value from nowhere", vec![back(1, [1, 9], &[(Get(A), number(1))])]),
        (
            "an effect of what failed",
            vec![
                Operation { outcome: Outcome::Failed, ..lost(0, 1, &[Append(A, 1)]) },
                back(1, [1, 9], &[(List(A), list(&[1]))]),
            ],
        ),
        (
            "two writes behind one value",
            vec![
                back(0, [1, 9], &[(Exchange(A, 1), NIL)]),
                back(1, [1, 9], &[(Exchange(A, 2), NIL)]),
            ],
        ),
        (
            "a transaction that does not see itself",
            vec![back(0, [1, 9], &[(Append(A, 1), number(1)), (List(A), list(&[]))])],
        ),
        (
            "a transaction within which another sets",
            vec![
                lost(1, 1, &[Set(A, 2)]),
                back(0, [1, 9], &[(Set(A, 1), Reply::Done), (Get(A), number(2))]),
            ],
        ),
        ("a place beyond all", vec![back(0, [1, 9], &[(Append(A, 1), number(2))])]),
    ]
}

fn right() -> Known {
    vec![
        ("nothing", vec![]),
        (
            "a read beside an append sees it, another does not",
            vec![
                back(0, [1, 9], &[(Append(A, 1), number(1))]),
                back(1, [2, 8], &[(List(A), list(&[1]))]),
                back(2, [2, 8], &[(List(A), list(&[]))]),
            ],
        ),
        (
            "a lost transaction shows late",
            vec![
                lost(0, 1, &[Append(A, 1), Append(B, 2)]),
                back(1, [2, 3], &[(List(A), list(&[])), (List(B), list(&[]))]),
                back(1, [4, 5], &[(List(B), list(&[2])), (List(A), list(&[1]))]),
            ],
        ),
        (
            "a lost append fills a place that nobody has read",
            vec![
                lost(0, 1, &[Append(A, 1), Append(B, 2)]),
                back(1, [2, 3], &[(Append(A, 3), number(2))]),
                back(1, [4, 5], &[(Tail { key: B, after: 0, wait_ms: 1 }, list(&[2]))]),
            ],
        ),
        (
            "a read of nothing that writes",
            vec![
                back(0, [1, 9], &[(Get(A), NIL), (Exchange(A, 1), NIL)]),
                back(1, [2, 3], &[(Get(A), number(1))]),
                back(1, [4, 5], &[(Exchange(A, 2), number(1)), (Get(A), number(2))]),
            ],
        ),
    ]
}

/// The first history about which the search is wrong.
pub(super) fn first_mistake() -> Option<&'static str> {
    let wrong = [circles(), contradictions()].concat().into_iter().map(|it| (it, true));
    let all = wrong.chain(right().into_iter().map(|it| (it, false)));
    all.into_iter().find(|((_, it), wrong)| find_anomaly(it).is_some() != *wrong).map(|it| it.0.0)
}

#[test]
fn known_histories_have_their_anomalies() {
    assert_eq!(first_mistake(), None);
    for (name, history) in [circles(), contradictions()].concat() {
        assert!(!holds(&history), "{name}");
    }
    for (name, history) in right() {
        assert!(holds(&history), "{name}");
    }
}

/// Whether its calls show all versions: then a history without an anomaly is explained.
fn shows_all(history: &[Operation]) -> bool {
    let mut written = std::collections::BTreeSet::new();
    history.iter().all(|it| {
        it.replies().is_some()
            && it.call.commands().iter().all(|command| match *command {
                Append(key, value) | Exchange(key, value) => written.insert((key, value)),
                List(_) | Get(_) => true,
                _ => false,
            })
    })
}

/// How many histories were wrong and right, of those that show all.
pub(super) fn compare(random: &mut Random, rounds: usize) -> Result<[usize; 2], String> {
    let mut seen = [0; 2];
    for _ in 0..rounds {
        let kind = random.below(KINDS);
        let history = tiny(random, kind);
        let (right, shows_all) = (is_explained(&history), shows_all(&history));
        let anomaly = find_anomaly(&history);
        if anomaly.is_some() == right && (right || shows_all) {
            let lines: Vec<_> = history.iter().map(Operation::to_string).collect();
            let found = anomaly.map_or_else(|| "nothing".to_owned(), |it| it.to_string());
            return Err(format!("an order explains them: {right}\n{}\n{found}", lines.join("\n")));
        }
        seen[usize::from(right)] += usize::from(shows_all);
    }
    Ok(seen)
}

#[test]
fn circles_are_found_where_no_order_of_a_tiny_history_is() {
    let mut random = Random::new("circles");
    let rounds = rounds(40_000, 1_000_000);
    let [wrong, right] = compare(&mut random, rounds).unwrap_or_else(|why| panic!("{why}"));
    assert!(wrong > rounds / 50 && right > rounds / 1_000, "{wrong} wrong, {right} right");
}

#[test]
fn a_circle_is_shown_as_short_as_it_is() {
    let mut history = Vec::new();
    for value in 1..200_u64 {
        let element = value.cast_signed();
        history.push(back(
            0,
            [10 * value, 10 * value + 5],
            &[(Append(A, element), number(element))],
        ));
    }
    history.push(back(1, [5_000, 5_001], &[(List(A), list(&(1..100).collect::<Vec<_>>()))]));
    let shown = find_anomaly(&history).expect("it is stale").to_string();
    assert_eq!(shown.lines().count(), 5, "{shown}");
    assert!(shown.contains("RPUSH k1 100") && shown.contains("had come back"), "{shown}");
}
