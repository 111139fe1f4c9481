//! The need of a server that runs, by what INFO tells of it: for advice before a migration.
//!
//! Behind Redis's commands an algorithm protects the words of slots, 8 bytes a key, whatever the
//! values hold. So the state is keys times 8, an update a change that Redis counts
//! (`rdb_changes_since_last_save`), and a read a lookup of a key (`keyspace_hits` and
//! `keyspace_misses`). INFO does not tell which keys are written.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
pub use stillframe_measure::target::host;

use crate::served::Client;

/// How often INFO is asked for.
const LOOK: Duration = Duration::from_millis(100);

/// What a server did for some time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Observed {
    /// In all databases, at the end.
    pub keys: u64,
    /// Changes of keys.
    pub changes: u64,
    /// Lookups of keys.
    pub reads: u64,
    /// For how long.
    pub seconds: f64,
}

impl Observed {
    /// Bytes of the words that an algorithm protects.
    #[must_use]
    pub fn state_bytes(&self) -> u64 {
        self.keys.max(1) * 8
    }
    /// Changes a second.
    #[must_use]
    pub fn changes_per_s(&self) -> u64 {
        ((self.changes as f64 / self.seconds) as u64).max(1)
    }
    /// Lookups for each change.
    #[must_use]
    pub fn reads_per_change(&self) -> f64 {
        self.reads as f64 / self.changes.max(1) as f64
    }
}

/// Looks at a server for that long. `login` are the words behind AUTH; none: no AUTH.
///
/// # Errors
/// A server without writes is an error, since nothing could be said of it.
pub fn observe(target: &str, login: &[&str], time: Duration) -> Result<Observed> {
    let mut client = Client::connect(target)?;
    if !login.is_empty() {
        client.call(&[&["AUTH"], login].concat())?;
    }
    let started = Instant::now();
    let first = Reading::from_info(&client.call(&["INFO"])?)?;
    let (mut last, mut changes) = (first, 0);
    while started.elapsed() < time {
        thread::sleep(LOOK.min(time));
        let next = Reading::from_info(&client.call(&["INFO"])?)?;
        // A save that ended has taken its changes away.
        changes += next.changes.saturating_sub(last.changes);
        last = next;
    }
    let reads = last.reads.saturating_sub(first.reads);
    let observed =
        Observed { keys: last.keys, changes, reads, seconds: started.elapsed().as_secs_f64() };
    ensure!(
        changes > 0,
        "--target {target}: no key changed within {:.1} s; put the usual load on the server, or \
         give --updates",
        observed.seconds
    );
    Ok(observed)
}

/// One answer to INFO.
#[derive(Debug, Clone, Copy)]
struct Reading {
    keys: u64,
    changes: u64,
    reads: u64,
}

impl Reading {
    fn from_info(info: &str) -> Result<Self> {
        let field = |name: &str| {
            let mut values =
                info.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            let value = values.next().and_then(|value| value.trim().parse::<u64>().ok());
            value.with_context(|| format!("INFO of the server lacks {name}: is it a Redis server?"))
        };
        let keys = info.lines().filter_map(|line| {
            let (_, counts) = line.strip_prefix("db")?.split_once(":keys=")?;
            counts.split(',').next()?.trim().parse::<u64>().ok()
        });
        Ok(Self {
            keys: keys.sum(),
            changes: field("rdb_changes_since_last_save")?,
            reads: field("keyspace_hits")?.saturating_add(field("keyspace_misses")?),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;

    use super::*;

    /// A server that answers the requests of one connection with these counts of changes in turn,
    /// the last for ever.
    fn server(changes: &'static [u64]) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let target = listener.local_addr().expect("it listens").to_string();
        thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("the observer");
            let mut scratch = [0; 1024];
            for number in 0.. {
                // A request is short and comes alone.
                if stream.read(&mut scratch).unwrap_or(0) == 0 {
                    return;
                }
                let changes = changes[number.min(changes.len() - 1)];
                let info = format!(
                    "# Persistence\r\nrdb_changes_since_last_save:{changes}\r\n# Stats\r\n\
                     keyspace_hits:{}\r\nkeyspace_misses:5\r\n# Keyspace\r\n\
                     db0:keys=70,expires=0\r\ndb9:keys=30,expires=1\r\n",
                    number * 40
                );
                let reply = format!("${}\r\n{info}\r\n", info.len());
                if stream.write_all(reply.as_bytes()).is_err() {
                    return;
                }
            }
        });
        target
    }

    #[test]
    fn changes_are_counted_across_saves() {
        // A save takes 100 changes away between the second and the third answer.
        let target = server(&[90, 110, 10, 30, 30]);
        let observed = observe(&target, &[], Duration::from_millis(400)).expect("it writes");
        assert_eq!((observed.keys, observed.state_bytes()), (100, 800));
        assert_eq!(observed.changes, 20 + 20);
        assert!(observed.reads >= 40 && observed.reads_per_change() >= 1.0, "{observed:?}");
        assert!(observed.changes_per_s() <= 100, "{observed:?}");
    }

    #[test]
    fn a_server_without_writes_is_no_ground_for_advice() {
        let error = observe(&server(&[7]), &[], Duration::from_millis(150)).expect_err("no writes");
        let error = error.to_string();
        assert!(error.contains("no key changed") && error.contains("--updates"), "{error}");
        let error = observe("localhost", &[], Duration::ZERO).expect_err("no port");
        let error = error.to_string();
        assert!(error.contains("HOST:PORT"), "{error}");
    }
}
