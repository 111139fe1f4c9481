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

use stillframe_keyspace::{DATABASES, Keyspace};

use stillframe_redis::Random;
use stillframe_redis::digest;

/// All keys, with times of expiry and digests of values.
type Contents = BTreeMap<(usize, String), (Option<i64>, String)>;

/// What a keyspace holds, whatever the time.
fn contents(keyspace: &mut Keyspace) -> Contents {
    let mut all = Contents::new();
    for db in 0..DATABASES {
        keyspace.for_each(db, i64::MIN, |entry| {
            let key = (db, entry.key().escape_ascii().to_string());
            all.insert(key, (entry.expire_at(), digest::of_value(entry)));
        });
    }
    all
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
