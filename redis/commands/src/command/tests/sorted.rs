//! Sorted sets beside a vector that is sorted anew for each request.

use std::collections::BTreeMap;

use stillframe_peers::reply::Reply;
use stillframe_peers::{Random, rounds};

use super::{ask, edge};
use crate::harness::Harness;

/// Members with quarters of integers as scores, which doubles and decimals hold exactly.
type Scores = BTreeMap<String, i64>;

fn text(quarters: i64) -> String {
    (quarters as f64 / 4.0).to_string()
}

/// In order: by score, then by name.
fn ordered(model: &Scores) -> Vec<(i64, String)> {
    let mut all: Vec<_> = model.iter().map(|(name, score)| (*score, name.clone())).collect();
    all.sort();
    all
}

/// An end of a range of scores, as text, and whether a score is beyond it.
fn bound(random: &mut Random) -> (String, i64, bool) {
    let quarters = random.below(40) as i64 - 20;
    match random.below(8) {
        0 => ("-inf".to_owned(), i64::MIN, false),
        1 => ("+inf".to_owned(), i64::MAX, false),
        2..5 => (format!("({}", text(quarters)), quarters, true),
        _ => (text(quarters), quarters, false),
    }
}

fn names(all: impl IntoIterator<Item = (i64, String)>) -> Reply {
    Reply::List(all.into_iter().map(|(_, name)| Reply::Text(name.into_bytes())).collect())
}

fn change(random: &mut Random, harness: &mut Harness, model: &mut Scores) {
    let name = format!("m{}", random.below(30));
    let score = random.below(40) as i64 - 20;
    let old = model.get(&name).copied();
    match random.below(6) {
        0 => {
            let gone = model.remove(&name).is_some();
            assert_eq!(ask(harness, &format!("ZREM z {name}")).int(), gone.into());
        }
        1 => {
            let new = old.unwrap_or(0) + score;
            model.insert(name.clone(), new);
            let reply = ask(harness, &format!("ZINCRBY z {} {name}", text(score))).text();
            assert_eq!(reply, text(new));
        }
        2 => {
            let option = random.pick(&["NX", "XX", "GT", "LT"]);
            let stored = match (option, old) {
                ("NX", old) => old.is_none(),
                ("XX", old) => old.is_some(),
                ("GT", Some(old)) => score > old,
                ("LT", Some(old)) => score < old,
                _ => true,
            };
            if stored {
                model.insert(name.clone(), score);
            }
            let changed = stored && old != Some(score);
            let line = format!("ZADD z {option} CH {} {name}", text(score));
            assert_eq!(ask(harness, &line).int(), changed.into(), "{line}: {old:?}");
        }
        _ => {
            model.insert(name.clone(), score);
            let line = format!("ZADD z {} {name}", text(score));
            assert_eq!(ask(harness, &line).int(), old.is_none().into(), "{line}");
        }
    }
}

/// The positions that an inclusive range of ranks names.
fn span(start: i64, end: i64, length: usize) -> Vec<usize> {
    let length = length as i128;
    let from_end = |at: i64| if at < 0 { i128::from(at) + length } else { at.into() };
    let all = (0..length).filter(|&at| from_end(start) <= at && at <= from_end(end));
    all.map(|at| at as usize).collect()
}

fn look(random: &mut Random, harness: &mut Harness, model: &Scores) {
    let mut all = ordered(model);
    let ((from, least, above), (to, most, below)) = (bound(random), bound(random));
    let within = |(score, _): &(i64, String)| {
        (*score > least || !above && *score == least) && (*score < most || !below && *score == most)
    };
    let reversed = random.below(2) == 0;
    match random.below(5) {
        0 => {
            let count = all.iter().filter(|it| within(it)).count() as i64;
            let line = format!("ZCOUNT z {from} {to}");
            assert_eq!(ask(harness, &line).int(), count, "{line} of {all:?}");
        }
        1 => {
            let (skip, take) = (random.below(4), random.below(9) as i64 - 2);
            let chosen: Vec<_> = all.into_iter().filter(within).collect();
            let most = usize::try_from(take).unwrap_or(usize::MAX);
            let limit = format!("LIMIT {skip} {take}");
            let (line, expected) = if reversed {
                let chosen = chosen.into_iter().rev().skip(skip).take(most);
                (format!("ZREVRANGEBYSCORE z {to} {from} {limit}"), names(chosen))
            } else {
                let chosen = chosen.into_iter().skip(skip).take(most);
                (format!("ZRANGE z {from} {to} BYSCORE {limit}"), names(chosen))
            };
            assert_eq!(ask(harness, &line), expected, "{line}");
        }
        2 => {
            let name = format!("m{}", random.below(30));
            if reversed {
                all.reverse();
            }
            let rank = all.iter().position(|(_, other)| *other == name);
            let rank = rank.map_or(Reply::Null, |rank| Reply::Int(rank as i64));
            let line = format!("{} z {name}", if reversed { "ZREVRANK" } else { "ZRANK" });
            assert_eq!(ask(harness, &line), rank, "{line}");
            let score = model.get(&name).map_or(Reply::Null, |s| Reply::Text(text(*s).into()));
            assert_eq!(ask(harness, &format!("ZSCORE z {name}")), score);
        }
        _ => {
            if reversed {
                all.reverse();
            }
            let (start, end) = (edge(random), edge(random));
            let chosen = span(start, end, all.len()).into_iter().map(|at| all[at].clone());
            let line = format!("ZRANGE z {start} {end}{}", if reversed { " REV" } else { "" });
            assert_eq!(ask(harness, &line), names(chosen), "{line}");
        }
    }
}

/// Removes a range in one of the ways there are.
fn remove(random: &mut Random, harness: &mut Harness, model: &mut Scores) {
    let all = ordered(model);
    let ((from, least, above), (to, most, below)) = (bound(random), bound(random));
    let within = |score: i64| {
        (score > least || !above && score == least) && (score < most || !below && score == most)
    };
    let (start, end) = (edge(random), edge(random));
    let (line, gone): (String, Vec<_>) = match random.below(4) {
        0 => {
            let gone = all.into_iter().filter(|(score, _)| within(*score)).collect();
            (format!("ZREMRANGEBYSCORE z {from} {to}"), gone)
        }
        1 => {
            let gone = span(start, end, all.len()).into_iter().map(|at| all[at].clone()).collect();
            (format!("ZREMRANGEBYRANK z {start} {end}"), gone)
        }
        2 => ("ZPOPMIN z 2".to_owned(), all.into_iter().take(2).collect()),
        _ => ("ZPOPMAX z 2".to_owned(), all.into_iter().rev().take(2).collect()),
    };
    gone.iter().for_each(|(_, name)| _ = model.remove(name));
    match ask(harness, &line) {
        Reply::Int(count) => assert_eq!(count, gone.len() as i64, "{line}"),
        popped => {
            let pair = |(score, name): (i64, String)| [name, text(score)];
            let words = gone.into_iter().flat_map(pair);
            let expected = words.map(|word| Reply::Text(word.into_bytes())).collect();
            assert_eq!(popped, Reply::List(expected), "{line}");
        }
    }
}

#[test]
fn sorted_sets_are_sorted() {
    let mut random = Random::new("sorted_sets_are_sorted");
    for round in 0..rounds(20, 1_000) {
        let (mut harness, mut model) = (Harness::new(), Scores::new());
        if round % 2 == 0 {
            harness.keyspace.limits_mut().sorted_entries = 3; // large ones
        }
        for _ in 0..400 {
            change(&mut random, &mut harness, &mut model);
            look(&mut random, &mut harness, &model);
            if random.below(40) == 0 {
                remove(&mut random, &mut harness, &mut model);
            }
            assert_eq!(ask(&mut harness, "ZCARD z").int(), model.len() as i64);
        }
    }
}
