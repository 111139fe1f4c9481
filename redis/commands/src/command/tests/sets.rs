//! Algebra of sets beside that of the standard library, and what chance chooses.

use std::collections::BTreeSet;

use stillframe_peers::reply::Reply;
use stillframe_peers::{Random, rounds};

use super::ask;
use crate::harness::Harness;

type Members = BTreeSet<String>;

fn members(reply: &Reply) -> Members {
    reply.list().iter().map(Reply::text).collect()
}

/// A member that is an integer, or not.
fn member(random: &mut Random) -> String {
    let number = random.below(20);
    if random.below(3) == 0 { format!("m{number}") } else { number.to_string() }
}

#[test]
fn unions_intersections_and_differences_are_those_of_sets() {
    let mut random = Random::new("unions_intersections_and_differences_are_those_of_sets");
    let mut harness = Harness::new();
    for _ in 0..rounds(1_000, 50_000) {
        ask(&mut harness, "FLUSHALL");
        let sets: Vec<Members> = (0..1 + random.below(4))
            .map(|_| (0..random.below(25)).map(|_| member(&mut random)).collect())
            .collect();
        for (number, set) in sets.iter().enumerate().filter(|(_, set)| !set.is_empty()) {
            let words: Vec<&str> = set.iter().map(String::as_str).collect();
            ask(&mut harness, &format!("SADD s{number} {}", words.join(" ")));
        }
        let (name, combine): (&str, fn(&Members, &Members) -> Members) = match random.below(3) {
            0 => ("SUNION", |a, b| a | b),
            1 => ("SINTER", |a, b| a & b),
            _ => ("SDIFF", |a, b| a - b),
        };
        let names: Vec<String> = (0..sets.len()).map(|number| format!("s{number}")).collect();
        let names = names.join(" ");
        let expected = sets.iter().cloned().reduce(|a, b| combine(&a, &b)).unwrap_or_default();
        let found = ask(&mut harness, &format!("{name} {names}"));
        assert_eq!(found.list().len(), expected.len(), "each once: {found:?}");
        assert_eq!(members(&found), expected, "{name} of {sets:?}");
        if name == "SINTER" {
            let limit = random.below(8);
            let most = if limit == 0 { usize::MAX } else { limit };
            let line = format!("SINTERCARD {} {names} LIMIT {limit}", sets.len());
            let counted = ask(&mut harness, &line).int();
            assert_eq!(counted, expected.len().min(most) as i64, "{line} of {sets:?}");
        }
        // The destination may be one of the sources.
        let target = random.pick(&["s0", "out"]);
        let stored = ask(&mut harness, &format!("{name}STORE {target} {names}"));
        assert_eq!(stored.int(), expected.len() as i64);
        assert_eq!(members(&ask(&mut harness, &format!("SMEMBERS {target}"))), expected);
        let exists = ask(&mut harness, &format!("EXISTS {target}")).int() == 1;
        assert_eq!(exists, !expected.is_empty());
    }
}

#[test]
fn what_chance_takes_was_there_and_is_gone() {
    let mut random = Random::new("what_chance_takes_was_there_and_is_gone");
    let mut harness = Harness::with_seed(random.next());
    for _ in 0..rounds(500, 20_000) {
        let all: Members = (0..1 + random.below(40)).map(|_| member(&mut random)).collect();
        let words: Vec<&str> = all.iter().map(String::as_str).collect();
        ask(&mut harness, "DEL s");
        ask(&mut harness, &format!("SADD s {}", words.join(" ")));
        let count = random.below(50);
        let shown = ask(&mut harness, &format!("SRANDMEMBER s {count}"));
        assert_eq!(shown.list().len(), count.min(all.len()), "each at most once");
        assert!(members(&shown).is_subset(&all) && members(&shown).len() == shown.list().len());
        let repeated = ask(&mut harness, &format!("SRANDMEMBER s -{}", count + 1));
        assert_eq!(repeated.list().len(), count + 1);
        assert!(members(&repeated).is_subset(&all));
        let taken = members(&ask(&mut harness, &format!("SPOP s {count}")));
        assert_eq!(taken.len(), count.min(all.len()));
        assert!(taken.is_subset(&all));
        assert_eq!(members(&ask(&mut harness, "SMEMBERS s")), &all - &taken);
    }
}

#[test]
fn a_popped_set_is_replayed_as_one_removal_of_its_key() {
    let mut harness = Harness::new().notes_effects();
    for (size, count, effect) in
        [(3, "3", "del s"), (3, "9", "del s"), (1, "", "srem s 0"), (1, "1", "del s")]
    {
        let members: Vec<String> = (0..size).map(|number| number.to_string()).collect();
        ask(&mut harness, &format!("SADD s {}", members.join(" ")));
        harness.effects();
        ask(&mut harness, format!("SPOP s {count}").trim());
        let told = harness.effects().join("; ").replace("SELECT 0; ", "");
        assert_eq!(told, effect, "{size} members, {count}");
    }
}
