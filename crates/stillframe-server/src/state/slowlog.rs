//! The log of slow requests, the latency of events, and how long each command takes.
//!
//! The clock is read once a request, after it: that is also where the next one of the same turn
//! starts.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use super::ServerState;
use crate::client::Session;
use crate::clock::unix_millis;

/// Arguments of a slow request that are kept.
const ARGS_MAX: usize = 32;
/// Bytes of an argument that are kept.
const ARG_BYTES_MAX: usize = 128;
/// Samples kept of an event.
const SAMPLES_MAX: usize = 160;

/// The last slow requests, the newest first.
#[derive(Default)]
pub(crate) struct SlowLog {
    /// See the type.
    pub(crate) entries: VecDeque<Slow>,
    next_id: i64,
}

/// A request that was slow.
pub(crate) struct Slow {
    /// Its number, from 0.
    pub(crate) id: i64,
    /// When it ran, in unix seconds.
    pub(crate) at_s: i64,
    /// How long.
    pub(crate) micros: i64,
    /// What it was, shortened.
    pub(crate) args: Vec<Vec<u8>>,
    /// Whose it was.
    pub(crate) peer: String,
    /// The name of that client.
    pub(crate) name: Vec<u8>,
}

/// The latency of one event.
#[derive(Default)]
pub(crate) struct Event {
    /// Unix second and milliseconds, the newest last; the worst of each second.
    pub(crate) samples: VecDeque<(i64, u64)>,
    /// The worst ever, in milliseconds.
    pub(crate) max_ms: u64,
}

/// Events by name.
pub(crate) type Latency = BTreeMap<&'static str, Event>;

impl ServerState {
    /// Whether a request took so long that somebody may want to know.
    #[inline]
    pub(crate) fn is_long(&self, took_ns: u64) -> bool {
        let slow = u64::try_from(self.config.slowlog_slower_than_us).unwrap_or(u64::MAX);
        took_ns >= slow.saturating_mul(1000) || self.config.latency_threshold_ms > 0
    }

    /// Notes how long a request took, if that is long. `fast`: it should not have been.
    #[cold]
    pub(crate) fn note_time(
        &mut self,
        session: &Session,
        args: &[&[u8]],
        took: Duration,
        [fast, skipped]: [bool; 2],
    ) {
        let micros = i64::try_from(took.as_micros()).unwrap_or(i64::MAX);
        if self.config.slowlog_slower_than_us >= 0
            && micros >= self.config.slowlog_slower_than_us
            && !skipped
        {
            self.note_slow(session, args, micros);
        }
        if self.config.latency_threshold_ms > 0 {
            self.latency_sample(if fast { "fast-command" } else { "command" }, took);
        }
    }

    fn note_slow(&mut self, session: &Session, args: &[&[u8]], micros: i64) {
        let log = &mut self.slowlog;
        let id = log.next_id;
        log.next_id += 1;
        log.entries.push_front(Slow {
            id,
            at_s: unix_millis() / 1000,
            micros,
            args: shortened(&redacted(args)),
            peer: session.caller.peer.to_string(),
            name: session.name.clone(),
        });
        log.entries.truncate(self.config.slowlog_max_len);
    }

    /// Notes how long an event took, if that is above `latency-monitor-threshold`.
    pub(crate) fn latency_sample(&mut self, event: &'static str, took: Duration) {
        let took_ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
        let threshold = self.config.latency_threshold_ms;
        if threshold == 0 || took_ms < threshold {
            return;
        }
        let second = unix_millis() / 1000;
        let event = self.latency.entry(event).or_default();
        event.max_ms = event.max_ms.max(took_ms);
        match event.samples.back_mut() {
            Some((last, worst)) if *last == second => *worst = (*worst).max(took_ms),
            _ => event.samples.push_back((second, took_ms)),
        }
        if event.samples.len() > SAMPLES_MAX {
            event.samples.pop_front();
        }
    }
}

/// The arguments of a request, without the passwords in it.
pub(crate) fn redacted<'a>(args: &[&'a [u8]]) -> Vec<&'a [u8]> {
    let named =
        |at: usize, name: &[u8]| args.get(at).is_some_and(|arg| arg.eq_ignore_ascii_case(name));
    let auth = args.iter().skip(2).position(|arg| arg.eq_ignore_ascii_case(b"auth"));
    let credentials = auth.map_or(0..0, |at| at + 3..at + 5);
    let moving = migration_secrets(args);
    let setting = |at: usize| SECRETS.iter().any(|secret| named(at, secret));
    let is_secret = |at: usize| match at {
        0 => false,
        _ if named(0, b"auth") => true,
        _ if named(0, b"hello") => credentials.contains(&at),
        _ if named(0, b"migrate") => moving.contains(&at),
        2.. if named(0, b"acl") => named(1, b"setuser"),
        3.. if named(0, b"config") => named(1, b"set") && at % 2 == 1 && setting(at - 1),
        _ => false,
    };
    let shown = |(at, arg): (usize, &&'a [u8])| if is_secret(at) { REDACTED } else { *arg };
    args.iter().enumerate().map(shown).collect()
}

/// Where the words behind AUTH and AUTH2 of a MIGRATE are.
fn migration_secrets(args: &[&[u8]]) -> std::ops::Range<usize> {
    let options = args.iter().enumerate().skip(6);
    let said = options.map(|(at, arg)| (at, arg.to_ascii_lowercase()));
    let mut before_keys = said.take_while(|(_, word)| word != b"keys");
    let found = before_keys.find(|(_, word)| word == b"auth" || word == b"auth2");
    found.map_or(0..0, |(at, word)| at + 1..at + 2 + usize::from(word == b"auth2"))
}

const REDACTED: &[u8] = b"(redacted)";
/// Settings whose values are passwords.
const SECRETS: [&[u8]; 4] =
    [b"requirepass", b"masterauth", b"tls-key-file-pass", b"tls-client-key-file-pass"];

fn shortened(args: &[&[u8]]) -> Vec<Vec<u8>> {
    let kept = if args.len() > ARGS_MAX { ARGS_MAX - 1 } else { args.len() };
    let mut shown: Vec<Vec<u8>> = args[..kept]
        .iter()
        .map(|arg| match arg.get(..ARG_BYTES_MAX) {
            Some(start) if arg.len() > ARG_BYTES_MAX => {
                let more = format!("... ({} more bytes)", arg.len() - ARG_BYTES_MAX);
                [start, more.as_bytes()].concat()
            }
            _ => arg.to_vec(),
        })
        .collect();
    if kept < args.len() {
        shown.push(format!("... ({} more arguments)", args.len() - kept).into_bytes());
    }
    shown
}

/// How often a command took how long: a count for each power of two of 1024 ns.
#[derive(Default, Clone)]
pub(crate) struct Histogram([u64; 32]);

impl Histogram {
    /// Counts one run.
    #[inline]
    pub(crate) fn add(&mut self, took_ns: u64) {
        let at = (64 - (took_ns >> 10).leading_zeros()).min(31);
        self.0[at as usize] += 1;
    }

    /// Microseconds that so many of a hundred runs have not exceeded: the upper bound of their
    /// bucket.
    pub(crate) fn percentile(&self, percent: f64) -> f64 {
        let runs: u64 = self.0.iter().sum();
        let mut left = ((runs as f64 * percent / 100.0).round() as u64).clamp(1, runs.max(1));
        let at = self.0.iter().position(|&count| {
            left = left.saturating_sub(count);
            left == 0
        });
        ((1024_u64 << at.unwrap_or(0)) - 1) as f64 / 1000.0
    }

    /// Upper bounds in microseconds, as Redis rounds them, with how many runs took no longer; only
    /// where there are any.
    pub(crate) fn cumulative(&self) -> Vec<(i64, u64)> {
        let mut sum = 0;
        let counted = self.0.iter().enumerate().filter(|(_, count)| **count > 0);
        counted
            .map(|(at, count)| {
                sum += count;
                ((((1024 + 8) << at) - 1) / 1000, sum)
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_those_of_redis() {
        let mut histogram = Histogram::default();
        for micros in [0, 1, 3, 20, 20, 300, 1_000_000] {
            histogram.add(micros * 1000);
        }
        let expected = [(1, 2), (4, 3), (33, 5), (528, 6), (1_082_130, 7)];
        assert_eq!(histogram.cumulative(), expected);
        let percentiles = [0.0, 50.0, 85.0, 100.0].map(|percent| histogram.percentile(percent));
        assert_eq!(percentiles, [1.023, 32.767, 524.287, 1_073_741.823]);
    }

    #[test]
    fn long_requests_are_shortened() {
        let long = vec![b'x'; 130];
        let mut args: Vec<&[u8]> = vec![b"set", b"k", &long];
        let shown = shortened(&args);
        assert_eq!(shown[2], [&long[..128], b"... (2 more bytes)"].concat());
        args.resize(33, b"y");
        let shown = shortened(&args);
        assert_eq!((shown.len(), &*shown[31]), (32, &b"... (2 more arguments)"[..]));
    }

    #[test]
    fn no_password_is_shown() {
        let shown = |request: &str| {
            let args: Vec<&[u8]> = request.split(' ').map(str::as_bytes).collect();
            String::from_utf8(redacted(&args).join(&b' ')).expect("text")
        };
        for (request, expected) in [
            ("AUTH p", "AUTH (redacted)"),
            ("auth u p", "auth (redacted) (redacted)"),
            ("HELLO 3 AUTH u p SETNAME m", "HELLO 3 AUTH (redacted) (redacted) SETNAME m"),
            ("CONFIG SET save x requirepass p", "CONFIG SET save x requirepass (redacted)"),
            ("MIGRATE h 1 k 0 1 AUTH p", "MIGRATE h 1 k 0 1 AUTH (redacted)"),
            (
                "MIGRATE h 1 \"\" 0 1 COPY auth2 u p KEYS auth x",
                "MIGRATE h 1 \"\" 0 1 COPY auth2 (redacted) (redacted) KEYS auth x",
            ),
            ("ACL SETUSER u >p", "ACL SETUSER (redacted) (redacted)"),
            ("SET auth p", "SET auth p"),
        ] {
            assert_eq!(shown(request), expected);
        }
    }
}
