//! Counters since the start or CONFIG RESETSTAT, and rates made of them.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use stillframe_keyspace::KeyspaceStats;

use super::latency::Histogram;

/// Counters since the start or CONFIG RESETSTAT.
pub(crate) struct Stats {
    /// One per command of the table.
    pub(crate) commands: Vec<CommandStats>,
    /// Commands run.
    pub(crate) commands_processed: u64,
    /// Error replies.
    pub(crate) error_replies: u64,
    /// Error replies by their first word.
    pub(crate) errors: BTreeMap<String, u64>,
    /// Keys evicted.
    pub(crate) evicted_keys: u64,
    /// Clients closed by `maxmemory-clients`.
    pub(crate) evicted_clients: u64,
    /// Connections accepted, refused ones included.
    pub(crate) connections_received: u64,
    /// Connections refused.
    pub(crate) rejected_connections: u64,
    /// Calls of `read` for clients.
    pub(crate) reads: u64,
    /// Calls of `write` for clients.
    pub(crate) writes: u64,
    /// Bytes received.
    pub(crate) input_bytes: u64,
    /// Bytes sent.
    pub(crate) output_bytes: u64,
    /// Bytes of the stream sent to replicas.
    pub(crate) replicas_output_bytes: u64,
    /// Bytes of the primary's stream that were applied.
    pub(crate) primary_input_bytes: u64,
    /// Replicas that had to take a whole image.
    pub(crate) full_syncs: u64,
    /// Replicas that resumed.
    pub(crate) partial_syncs: u64,
    /// Replicas that asked to resume and could not.
    pub(crate) partial_refusals: u64,
    /// Errors of requests from a primary or a replica.
    pub(crate) unexpected_errors: u64,
    /// Expired keys, and fields of hashes, when the counters were reset.
    pub(crate) expired_base: u64,
    pub(crate) expired_fields_base: u64,
    /// Time spent in active expiry.
    pub(crate) expire_time: Duration,
    /// How often active expiry ran out of time.
    pub(crate) expire_slices_spent: u64,
    /// Keys, and fields of hashes, that active expiry found.
    pub(crate) expired_actively: [u64; 2],
    /// Clients closed because they did not read their replies.
    pub(crate) output_disconnections: u64,
    /// Clients closed because their requests were too large.
    pub(crate) input_disconnections: u64,
    /// Slow requests, whatever the log keeps.
    pub(crate) slow: u64,
    /// Their time.
    pub(crate) slow_time: Duration,
    /// The longest.
    pub(crate) slow_max: Duration,
    /// How long turns of the event loop took.
    pub(crate) turns: Histogram,
    /// Their sum.
    pub(crate) turns_time: Duration,
    rates: Rates,
}

/// Counters of one command.
#[derive(Default, Clone)]
pub(crate) struct CommandStats {
    /// Times it ran.
    pub(crate) calls: u64,
    /// Times it was refused before it ran.
    pub(crate) rejected: u64,
    /// Times it failed.
    pub(crate) failed: u64,
    /// Its total time.
    pub(crate) time_ns: u64,
    /// The distribution of its times; none before its first run.
    pub(crate) times: Option<Box<Histogram>>,
}

impl Stats {
    pub(super) fn new(commands: usize, now: Instant) -> Self {
        Self {
            commands: vec![CommandStats::default(); commands],
            commands_processed: 0,
            error_replies: 0,
            errors: BTreeMap::new(),
            evicted_keys: 0,
            evicted_clients: 0,
            connections_received: 0,
            rejected_connections: 0,
            reads: 0,
            writes: 0,
            input_bytes: 0,
            output_bytes: 0,
            replicas_output_bytes: 0,
            primary_input_bytes: 0,
            full_syncs: 0,
            partial_syncs: 0,
            partial_refusals: 0,
            unexpected_errors: 0,
            expired_base: 0,
            expired_fields_base: 0,
            expire_time: Duration::ZERO,
            expire_slices_spent: 0,
            expired_actively: [0; 2],
            output_disconnections: 0,
            input_disconnections: 0,
            slow: 0,
            slow_time: Duration::ZERO,
            slow_max: Duration::ZERO,
            turns: Histogram::default(),
            turns_time: Duration::ZERO,
            rates: Rates::new(now),
        }
    }

    /// All counters at zero, as CONFIG RESETSTAT has it.
    pub(super) fn reset(&mut self, keyspace: KeyspaceStats, now: Instant) {
        *self = Self {
            expired_base: keyspace.expired_total,
            expired_fields_base: keyspace.expired_fields_total,
            ..Self::new(self.commands.len(), now)
        };
    }

    /// Counts a slow request.
    pub(super) fn count_slow(&mut self, took: Duration) {
        self.slow += 1;
        self.slow_time += took;
        self.slow_max = self.slow_max.max(took);
    }

    /// The time of all commands.
    pub(crate) fn commands_time(&self) -> Duration {
        Duration::from_nanos(self.commands.iter().map(|it| it.time_ns).sum())
    }

    /// Counts an error reply, which starts with its code.
    pub(super) fn count_error(&mut self, error: &[u8]) {
        /// Codes counted apart: clients can invent error texts, but only so many are kept.
        const CODES_MAX: usize = 128;
        self.error_replies += 1;
        /// A text whose first word is longer has no code.
        const CODE_BYTES_MAX: usize = 30;
        let is_end = |byte: &u8| matches!(byte, b' ' | b'\r' | b'\n');
        let word = error.iter().take(CODE_BYTES_MAX + 1).position(is_end);
        let code = String::from_utf8_lossy(word.map_or(b"ERR", |end| &error[..end]));
        let code = code.replace(['#', ':'], "_"); // they have a meaning in INFO
        if let Some(count) = self.errors.get_mut(&code) {
            *count += 1;
        } else if self.errors.len() < CODES_MAX {
            self.errors.insert(code, 1);
        }
    }

    /// Takes a sample for the rates, at each periodic run.
    pub(super) fn sample(&mut self, now: Instant) {
        let counts = [
            self.commands_processed,
            self.input_bytes,
            self.output_bytes,
            self.primary_input_bytes,
            self.replicas_output_bytes,
            self.turns.runs(),
            u64::try_from(self.turns_time.as_micros()).unwrap_or(u64::MAX),
        ];
        self.rates.sample(counts, now);
    }

    /// Recent rates per second: commands, bytes received and sent, bytes of the primary's stream
    /// and of that to replicas, turns of the event loop and their microseconds.
    pub(crate) fn rates(&self) -> [f64; 7] {
        self.rates.smoothed
    }
}

/// Rates per second, smoothed over about two seconds.
struct Rates {
    at: Instant,
    counts: [u64; 7],
    smoothed: [f64; 7],
}

impl Rates {
    const PERIOD: Duration = Duration::from_millis(100);
    const WEIGHT: f64 = 1.0 / 16.0;

    fn new(now: Instant) -> Self {
        Self { at: now, counts: [0; 7], smoothed: [0.0; 7] }
    }

    fn sample(&mut self, counts: [u64; 7], now: Instant) {
        let elapsed = now.saturating_duration_since(self.at);
        if elapsed < Self::PERIOD {
            return;
        }
        for (index, count) in counts.into_iter().enumerate() {
            let rate = count.saturating_sub(self.counts[index]) as f64 / elapsed.as_secs_f64();
            self.smoothed[index] += (rate - self.smoothed[index]) * Self::WEIGHT;
        }
        (self.at, self.counts) = (now, counts);
    }
}
