//! Clients that write to a group under any leader, and judge what they are told.

use crate::support::{Client, Reply, Stop};
use std::time::Duration;

/// A counter in the group, and what its one client was told of it.
pub(super) struct Counter {
    key: String,
    told: i64,
    /// Requests since then of which nobody knows whether they were done.
    doubted: i64,
}

impl Counter {
    pub(super) fn new(key: &str) -> Self {
        Self { key: key.to_owned(), told: 0, doubted: 0 }
    }

    pub(super) fn told(&self) -> i64 {
        self.told
    }

    /// Counts until it is stopped, at whichever of these ports there is a leader; changes another
    /// key beside each count.
    pub(super) fn count_until(&mut self, stop: &Stop, ports: &[u16]) {
        let (mut at, mut client, mut round) = (0, None, 0_u64);
        while !stop.is_due() {
            if client.is_none() {
                client = Client::try_connect(ports[at]);
            }
            let reply = client.as_mut().and_then(|client: &mut Client| self.count(client));
            match reply {
                Some(Reply::Int(_)) => {
                    let other = format!("{}:{}", self.key, round % 500);
                    let value = format!("{round:0200}");
                    let request = [b"SETEX", other.as_bytes(), b"1000", value.as_bytes()];
                    if client.as_mut().and_then(|it| it.try_call(&request)).is_none() {
                        client = None;
                    }
                    round += 1;
                }
                Some(_) => {
                    at = (at + 1) % ports.len();
                    client = None;
                    std::thread::sleep(Duration::from_millis(10));
                }
                None => {
                    at = (at + 1) % ports.len();
                    client = None;
                }
            }
        }
    }

    /// Counts once. The reply is what was expected, or an error, or none.
    pub(super) fn count(&mut self, client: &mut Client) -> Option<Reply> {
        self.doubted += 1;
        let reply = client.try_call(&[b"INCR", self.key.as_bytes()]);
        match &reply {
            Some(Reply::Int(count)) => {
                let expected = self.told + 1..=self.told + self.doubted;
                assert!(expected.contains(count), "{}: {count}, not of {expected:?}", self.key);
                (self.told, self.doubted) = (*count, 0);
            }
            Some(Reply::Error(why)) if is_refusal(why) => self.doubted -= 1,
            Some(Reply::Error(_)) | None => {}
            other => panic!("{}: {other:?}", self.key),
        }
        reply
    }

    /// What the group holds agrees with what was told.
    pub(super) fn check(&mut self, client: &mut Client) {
        let found = client.ask(&format!("GET {}", self.key));
        let found: i64 =
            if found == Reply::Null { 0 } else { found.text().parse().expect("a count") };
        let expected = self.told..=self.told + self.doubted;
        assert!(expected.contains(&found), "{}: {found}, not of {expected:?}", self.key);
        (self.told, self.doubted) = (found, 0);
    }
}

/// Whether an error says that nothing was done.
pub(super) fn is_refusal(error: &str) -> bool {
    ["MOVED", "CLUSTERDOWN", "READONLY", "LOADING"].iter().any(|it| error.starts_with(it))
}

/// Has counters count at these ports while something goes on.
pub(super) fn under_load<T>(
    counters: &mut [Counter],
    ports: &[u16],
    meanwhile: impl FnOnce() -> T,
) -> T {
    let stop = Stop::default();
    std::thread::scope(|scope| {
        let _end = stop.at_the_end();
        for counter in counters {
            let stop = &stop;
            scope.spawn(move || counter.count_until(stop, ports));
        }
        meanwhile()
    })
}
