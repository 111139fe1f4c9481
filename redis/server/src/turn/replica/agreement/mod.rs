//! Memory against log against replicas: whatever clients do, a server that replays the log, a
//! replica, and a replica of the replica hold what the primary holds, times to live included.
//!
//! - The servers are those of `serve`, on simulated disks, whose turns the test takes. Clients and
//!   replicas have sockets, with the test in between: it passes bytes on, or cuts.
//! - The clock is the test's own, so that keys expire between any two requests, and a seed gives
//!   the same program again. Keys are few, so that features meet.
//! - The test compares everything, expired keys that no request has met included: all sides must
//!   agree on what goes to whom, and in which order.

mod cuts;
mod fleet;
mod node;
mod programs;
mod words;

use std::collections::BTreeMap;

use stillframe_keyspace::{DATABASES, IntText, Keyspace, Stream, StreamId, Value};

use stillframe_commands::Random;
use stillframe_commands::digest;

/// All keys, with times of expiry, and digests of values or, of streams, texts; behind the
/// databases the libraries of functions.
type Contents = BTreeMap<(usize, String), (Option<i64>, String)>;

/// What a keyspace holds, whatever the time.
fn contents(keyspace: &mut Keyspace) -> Contents {
    let mut all = Contents::new();
    for db in 0..DATABASES {
        keyspace.for_each(db, i64::MIN, |entry| {
            let key = (db, entry.key().escape_ascii().to_string());
            let value = match entry.value() {
                Value::Stream(stream) => shown(stream),
                _ => digest::of_value(entry),
            };
            all.insert(key, (entry.expire_at(), value));
        });
    }
    for source in keyspace.libraries().sources() {
        all.insert((DATABASES, source.escape_ascii().to_string()), (None, "a library".to_owned()));
    }
    all
}

/// All of a stream but when consumers were last seen, which replicas do not learn.
fn shown(stream: Stream<'_>) -> String {
    let mut text = format!("{:?} {:?} {} ", stream.last_id(), stream.deleted_id(), stream.added());
    for entry in stream.iter_from(0) {
        text += &format!("{:?} ", entry.id);
        let mut parts = [IntText::default(), IntText::default()];
        let [one, two] = &mut parts;
        for (name, value) in entry.fields {
            let (name, value) = (name.to_bytes(one).escape_ascii(), value.to_bytes(two));
            text += &format!("{name}={} ", value.escape_ascii());
        }
    }
    let mut groups: Vec<String> = Vec::new();
    for group in stream.groups() {
        let mut consumers: Vec<_> =
            group.consumers().map(|it| it.name().escape_ascii().to_string()).collect();
        consumers.sort();
        let pending: Vec<_> = group.pending_from(StreamId::MIN).collect();
        let (name, last) = (group.name().escape_ascii(), group.last_id());
        let read = group.entries_read();
        groups.push(format!("{name} {last:?} {read:?} {consumers:?} {pending:?}"));
    }
    groups.sort();
    text + &groups.join(" ")
}

/// How two data sets differ, if they do.
fn difference(left: &Contents, right: &Contents) -> Option<String> {
    let keys = left.keys().chain(right.keys());
    let mut wrong: Vec<_> = keys.filter(|&key| left.get(key) != right.get(key)).collect();
    wrong.dedup();
    let shown = |key| format!("{key:?}: {:?} against {:?}", left.get(key), right.get(key));
    let shown: Vec<String> = wrong.into_iter().take(5).map(shown).collect();
    (!shown.is_empty()).then(|| shown.join("\n"))
}

/// The seeds of a test: one that is given (`STILLFRAME_SEED`), or `count` new ones.
fn seeds(count: usize) -> Vec<u64> {
    match std::env::var("STILLFRAME_SEED") {
        Ok(seed) => vec![seed.parse().expect("STILLFRAME_SEED is a number")],
        Err(_) => {
            let count =
                if std::env::var_os("STILLFRAME_LONG").is_some() { count * 50 } else { count };
            let mut random = Random::seeded();
            (0..count).map(|_| random.bits()).collect()
        }
    }
}
