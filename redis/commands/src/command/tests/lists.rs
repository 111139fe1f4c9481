//! Lists beside a `VecDeque`, and what SORT makes of them.

use std::collections::VecDeque;

use stillframe_peers::reply::Reply;
use stillframe_peers::{Random, rounds};

use super::{ask, edge};
use crate::harness::Harness;

/// The element that a position names.
fn place(position: i64, length: usize) -> Option<usize> {
    let at = if position < 0 { i128::from(position) + length as i128 } else { position.into() };
    (0..length as i128).contains(&at).then_some(at as usize)
}

/// The elements that an inclusive range names.
fn span(start: i64, end: i64, length: usize) -> Vec<usize> {
    let length = length as i128;
    let from_end = |at: i64| if at < 0 { i128::from(at) + length } else { at.into() };
    let all = (0..length).filter(|&at| from_end(start) <= at && at <= from_end(end));
    all.map(|at| at as usize).collect()
}

fn list<'a>(words: impl IntoIterator<Item = &'a String>) -> Reply {
    Reply::List(words.into_iter().map(|word| Reply::Text(word.clone().into_bytes())).collect())
}

/// Runs one random request on both; the request, the reply, and what the model says.
fn step(random: &mut Random, harness: &mut Harness, model: &mut VecDeque<String>) {
    let word = format!("w{}", random.below(8));
    let (at, other) = (edge(random), edge(random));
    let length = model.len();
    let (line, expected) = match random.below(12) {
        0 | 1 => {
            model.push_back(word.clone());
            (format!("RPUSH l {word}"), Reply::Int(model.len() as i64))
        }
        2 => {
            model.push_front(word.clone());
            (format!("LPUSH l {word}"), Reply::Int(model.len() as i64))
        }
        3 => (
            format!("LINDEX l {at}"),
            match place(at, length) {
                Some(at) => Reply::Text(model[at].clone().into_bytes()),
                None => Reply::Null,
            },
        ),
        4 => (
            format!("LSET l {at} {word}"),
            match place(at, length) {
                _ if length == 0 => Reply::Error("ERR no such key".into()),
                None => Reply::Error("ERR index out of range".into()),
                Some(at) => {
                    model[at] = word;
                    Reply::Text(b"OK".to_vec())
                }
            },
        ),
        5 => {
            let reply = list(span(at, other, length).into_iter().map(|at| &model[at]));
            (format!("LRANGE l {at} {other}"), reply)
        }
        6 if random.below(4) == 0 => {
            let kept = span(at, other, length);
            *model = kept.into_iter().map(|at| model[at].clone()).collect();
            (format!("LTRIM l {at} {other}"), Reply::Text(b"OK".to_vec()))
        }
        7 => (format!("LREM l {at} {word}"), Reply::Int(remove(model, at, &word))),
        8 => insert(random, model, &word),
        9 => {
            let found: Vec<Reply> = (0..length)
                .filter(|&at| model[at] == word)
                .map(|at| Reply::Int(at as i64))
                .collect();
            (format!("LPOS l {word} COUNT 0"), Reply::List(found))
        }
        10 => {
            let popped = model.pop_front();
            let reply = popped.map_or(Reply::Null, |word| Reply::Text(word.into_bytes()));
            ("LPOP l".to_owned(), reply)
        }
        _ => ("LLEN l".to_owned(), Reply::Int(length as i64)),
    };
    assert_eq!(ask(harness, &line), expected, "{line}");
    assert_eq!(ask(harness, "LRANGE l 0 -1"), list(model.iter()), "{line}");
}

/// Inserts a word beside the first of another, if there is one; the request and the reply.
fn insert(random: &mut Random, model: &mut VecDeque<String>, word: &str) -> (String, Reply) {
    let before = random.below(2) == 0;
    let pivot = format!("w{}", random.below(8));
    let found = model.iter().position(|other| *other == pivot);
    let reply = match found {
        None if model.is_empty() => 0,
        None => -1,
        Some(at) => {
            model.insert(at + usize::from(!before), word.to_owned());
            model.len() as i64
        }
    };
    let side = if before { "BEFORE" } else { "AFTER" };
    (format!("LINSERT l {side} {pivot} {word}"), Reply::Int(reply))
}

/// Removes up to this many elements, from the end if negative; all if 0.
fn remove(model: &mut VecDeque<String>, count: i64, word: &str) -> i64 {
    let found: Vec<usize> = (0..model.len()).filter(|&at| model[at] == word).collect();
    let most = usize::try_from(count.unsigned_abs()).unwrap_or(usize::MAX);
    let chosen: Vec<usize> = match count {
        0 => found,
        1.. => found.into_iter().take(most).collect(),
        _ => found.into_iter().rev().take(most).collect(),
    };
    let mut at = 0..;
    model.retain(|_| at.next().is_some_and(|at| !chosen.contains(&at)));
    chosen.len() as i64
}

#[test]
fn lists_are_those_of_a_deque() {
    let mut random = Random::new("lists_are_those_of_a_deque");
    for _ in 0..rounds(20, 1_000) {
        let (mut harness, mut model) = (Harness::new(), VecDeque::new());
        for _ in 0..400 {
            step(&mut random, &mut harness, &mut model);
        }
    }
}

#[test]
fn sort_sorts_as_the_standard_library_does() {
    let mut random = Random::new("sort_sorts_as_the_standard_library_does");
    let mut harness = Harness::new();
    for _ in 0..rounds(400, 20_000) {
        let mut numbers: Vec<i64> = (0..1 + random.below(30)).map(|_| edge(&mut random)).collect();
        // A weight is a double: numbers beyond its digits would tie.
        numbers.iter_mut().for_each(|number| *number %= 1 << 53);
        let text = |numbers: &[i64]| numbers.iter().map(i64::to_string).collect::<Vec<_>>();
        ask(&mut harness, "DEL l");
        ask(&mut harness, &format!("RPUSH l {}", text(&numbers).join(" ")));
        let mut words = text(&numbers);
        let [skipped, count] = [random.below(5), random.below(30)];
        let descending = random.below(2) == 0;
        let by_text = random.below(2) == 0;
        if by_text {
            words.sort();
        } else {
            numbers.sort_unstable();
            words = text(&numbers);
        }
        if descending {
            words.reverse();
        }
        let chosen: Vec<String> = words.into_iter().skip(skipped).take(count).collect();
        let order = if descending { "DESC" } else { "ASC" };
        let kind = if by_text { " ALPHA" } else { "" };
        let line = format!("SORT l LIMIT {skipped} {count} {order}{kind}");
        assert_eq!(ask(&mut harness, &line), list(&chosen), "{line}");
    }
}
