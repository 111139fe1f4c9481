//! No change goes unnoticed: whatever a random request changes is counted, marks those who watch
//! the key, is reported as an event, and is an effect; what is refused changes nothing.

use std::collections::{BTreeMap, BTreeSet};

use stillframe_peers::requests::KEYS;
use stillframe_peers::transcript::escape;
use stillframe_peers::{Random, rounds};

use super::replay::{let_go, request};
use super::slices;
use crate::harness::Harness;

type Contents = BTreeMap<(usize, String), (Option<i64>, String)>;

fn contents(harness: &mut Harness) -> Contents {
    let all = harness.contents().into_iter();
    all.map(|(db, key, expires, digest)| ((db, key), (expires, digest))).collect()
}

/// The keys that differ, except those that are gone because they have expired.
fn changed(before: &Contents, after: &Contents, now: i64) -> BTreeSet<(usize, String)> {
    let is_dead = |held: Option<&(Option<i64>, String)>| {
        held.is_some_and(|(at, _)| at.is_some_and(|at| at <= now))
    };
    let keys = before.keys().chain(after.keys()).filter(|key| before.get(key) != after.get(key));
    let keys = keys.filter(|key| after.contains_key(key) || !is_dead(before.get(key)));
    keys.cloned().collect()
}

/// Replies that change the string they read: Redis sends no event.
const QUIET: [&str; 2] = ["PFCOUNT", "PFDEBUG"];
/// Redis marks no watch for these: of a stream, what is not an entry.
const UNWATCHED: [&str; 7] =
    ["PFDEBUG", "XSETID", "XGROUP", "XACK", "XREADGROUP", "XCLAIM", "XAUTOCLAIM"];
/// All keys of a database end, or come into being, without events of their own.
const WHOLE: [&str; 3] = ["FLUSHDB", "FLUSHALL", "STILLFRAME"];

fn run(seed: u64) {
    let mut random = Random::with_seed(seed);
    let mut harness = Harness::with_seed(seed).notes_effects().notifies("KEA");
    for _ in 0..600 {
        harness.pass(random.below(12) as i64);
        harness.expire_fields(); // these are no changes of the request
        let words = request(&mut random, &mut harness);
        let is_named = |names: &[&str]| {
            names.iter().any(|name| words[0].eq_ignore_ascii_case(name.as_bytes()))
        };
        // Keys that a database gets by SWAPDB cause no events, as in Redis.
        if is_named(&["SWAPDB"]) {
            continue;
        }
        let others = [&b"h1"[..], b"h2", b"h3", b"damaged"];
        harness.watch_all(KEYS.iter().copied().chain(others));
        let before = contents(&mut harness);
        harness.events();
        harness.effects();
        let dirty = harness.ledger.dirty;
        let reply = harness.ask('a', &slices(&words));
        let_go(&mut harness, 'a');
        let (events, effects) = (harness.events(), harness.effects());
        let marked = harness.met_changes('w');
        let changed = changed(&before, &contents(&mut harness), harness.now);
        if changed.is_empty() {
            continue;
        }
        let request = escape(&words.join(&b' '));
        let shown = format!("seed {seed}: {request}: {}: {changed:?}", escape(&reply));
        assert!(!reply.starts_with(b"-"), "refused: {shown}");
        assert!(harness.ledger.dirty > dirty, "not counted: {shown}");
        assert!(!effects.is_empty(), "no effect: {shown}");
        assert!(marked || is_named(&UNWATCHED), "no watch is marked: {shown}");
        if is_named(&QUIET) || is_named(&WHOLE) {
            continue;
        }
        for (db, key) in &changed {
            let is_reported = events.iter().any(|it| it.ends_with(&format!(" {db}:{key}")));
            assert!(is_reported, "no event of {db}:{key}: {shown}: {events:?}");
        }
    }
}

#[test]
fn no_change_goes_unnoticed() {
    let mut random = Random::new("no_change_goes_unnoticed");
    for _ in 0..rounds(8, 1_000) {
        run(random.next());
    }
}
