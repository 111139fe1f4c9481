//! Every order of tiny histories, beside the checker.

use super::simulated::Server;
use super::{back, holds, lost};
use crate::call::{Command, Key, Reply};
use crate::history::{Operation, Outcome};
use stillframe_peers::{Random, rounds};

pub(super) const KINDS: usize = 7;

/// Whether some order explains the history.
pub(super) fn is_explained(history: &[Operation]) -> bool {
    let happened: Vec<_> = history.iter().filter(|it| it.outcome != Outcome::Failed).collect();
    some_order(&Server::default(), &happened)
}

/// Whether some order explains what is left: tries them all.
fn some_order(server: &Server, left: &[&Operation]) -> bool {
    if left.iter().all(|it| it.outcome == Outcome::Unknown) {
        return true;
    }
    let first_return = left.iter().filter_map(|it| it.returned()).min().expect("one comes back");
    left.iter().enumerate().any(|(index, next)| {
        let rest: Vec<_> = left[..index].iter().chain(&left[index + 1..]).copied().collect();
        let mut server = server.clone();
        let replies = server.apply(&next.call);
        next.invoked <= first_return
            && next.replies().is_none_or(|seen| seen == replies)
            && some_order(&server, &rest)
    })
}

/// Up to six calls of a kind, of [`KINDS`], with replies by chance, of which many fit.
pub(super) fn tiny(random: &mut Random, kind: usize) -> Vec<Operation> {
    let count = 2 + random.below(5);
    let mut small = |bound: usize| random.below(bound);
    (0..count)
        .map(|client| {
            let length = if small(4) == 0 { 2 } else { 1 };
            let calls: Vec<_> =
                (0..length).map(|_| call(kind, client as i64, &mut small)).collect();
            let from = small(8) as u64;
            let commands: Vec<_> = calls.iter().map(|it| it.0.clone()).collect();
            match small(5) {
                0 => lost(client, from, &commands),
                1 if small(3) == 0 => {
                    Operation { outcome: Outcome::Failed, ..lost(client, from, &commands) }
                }
                _ => back(client, [from, from + 1 + small(4) as u64], &calls),
            }
        })
        .collect()
}

fn call(kind: usize, id: i64, small: &mut impl FnMut(usize) -> usize) -> (Command, Reply) {
    let key = Key(small(2) as u32);
    let number = |small: &mut dyn FnMut(usize) -> usize| Reply::Number(small(4) as i64);
    let value = |small: &mut dyn FnMut(usize) -> usize| match small(4) {
        0 => Reply::Nothing,
        n => Reply::Number(n as i64 - 1),
    };
    let done =
        |small: &mut dyn FnMut(usize) -> usize| [Reply::Done, Reply::Nothing][small(2)].clone();
    match (kind, small(4)) {
        (0, 0 | 1) => (Command::Set(key, id), Reply::Done),
        (0 | 1, 2) => (Command::Get(key), value(small)),
        (1, 0) => (Command::SetAbsent(key, id), done(small)),
        (1, 1) => (Command::SetPresent(key, id), done(small)),
        (1, _) => {
            let (from, to) = (small(4) as i64, id);
            (Command::Swap { key, from, to }, Reply::Number(small(2) as i64))
        }
        (0, _) => (Command::Get(key), value(small)),
        (2, 0 | 1) => (Command::Add(key, 1 + small(2) as i64), number(small)),
        (2, _) => (Command::Get(key), value(small)),
        (4, 0 | 1) => (Command::Exchange(key, id), value(small)),
        (4, _) => (Command::Get(key), value(small)),
        (5, 0) => (Command::Append(key, id), number(small)),
        (5, 1) => (Command::Pop { key, wait_ms: 1 }, value(small)),
        (5, 2) => {
            let (from, to) = (key, Key(1 - key.0));
            (Command::Move { from, to, wait_ms: 1 }, value(small))
        }
        (6, 0 | 1) => (Command::Log(key, id), number(small)),
        (6, 2) => {
            let (after, length) = (small(3), small(3));
            let elements = (0..length).map(|_| small(4) as i64).collect();
            let reply = if length == 0 { Reply::Nothing } else { Reply::List(elements) };
            (Command::Tail { key, after, wait_ms: 1 }, reply)
        }
        (_, 0 | 1) => (Command::Append(key, id), number(small)),
        (_, _) => {
            let length = small(4);
            (Command::List(key), Reply::List((0..length).map(|_| small(4) as i64).collect()))
        }
    }
}

/// Histories of a kind, until enough of each verdict have been seen.
pub(super) fn compare(random: &mut Random, rounds: usize) -> Result<[usize; 2], String> {
    let mut seen = [0; 2];
    for _ in 0..rounds {
        let kind = random.below(KINDS);
        let history = tiny(random, kind);
        let right = is_explained(&history);
        if holds(&history) != right {
            let lines: Vec<_> = history.iter().map(Operation::to_string).collect();
            return Err(format!("an order explains them: {right}\n{}", lines.join("\n")));
        }
        seen[usize::from(right)] += 1;
    }
    Ok(seen)
}

#[test]
fn the_checker_agrees_with_every_order_of_tiny_histories() {
    let mut random = Random::new("brute");
    let rounds = rounds(40_000, 1_000_000);
    let [wrong, right] = compare(&mut random, rounds).unwrap_or_else(|why| panic!("{why}"));
    assert!(wrong > rounds / 10 && right > rounds / 10, "{wrong} wrong, {right} right");
}
