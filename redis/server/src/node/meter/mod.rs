//! Counters and times: figures for INFO, slow requests, the latency of events.
//!
//! The clock is read once a request, at its end, where the next one of the turn starts.

pub(crate) mod hotkeys;
mod latency;
mod slowlog;
mod stats;

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use stillframe_commands::Caller;
use stillframe_keyspace::KeyspaceStats;

use crate::node::config::Config;
use hotkeys::HotKeys;
use latency::Latency;
use slowlog::{Slow, SlowLog};
use stats::Stats;

/// See the head of this file.
pub(crate) struct Meter {
    /// Counters.
    stats: Stats,
    /// Requests that took long.
    slowlog: SlowLog,
    /// Events that took long.
    latency: Latency,
    /// The keys that requests spend most on, if HOTKEYS asks for them.
    pub(crate) hotkeys: Option<Box<HotKeys>>,
}

/// Traits of a command that decide where its time is noted.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Traits {
    /// It should not be slow.
    pub(crate) is_fast: bool,
    /// The slow log does not show it.
    pub(crate) is_skipped: bool,
}

impl Meter {
    /// Counters at zero, for so many commands.
    pub(crate) fn new(commands: usize, now: Instant) -> Self {
        let (slowlog, latency) = (SlowLog::default(), Latency::default());
        Self { stats: Stats::new(commands, now), slowlog, latency, hotkeys: None }
    }

    /// Notes how long a request took, if that is long. `name`: that of the client.
    #[cold]
    pub(crate) fn note_time(
        &mut self,
        config: &Config,
        caller: &Caller,
        name: &[u8],
        args: &[&[u8]],
        took: Duration,
        traits: Traits,
    ) {
        let micros = i64::try_from(took.as_micros()).unwrap_or(i64::MAX);
        if config.slowlog_slower_than_us >= 0
            && micros >= config.slowlog_slower_than_us
            && !traits.is_skipped
        {
            let shown = slowlog::shortened(args, config);
            self.slowlog.add(caller, name, shown, micros);
            self.stats.count_slow(took);
            self.slowlog.shorten(config.slowlog_max_len);
        }
        self.note_event(config, if traits.is_fast { "fast-command" } else { "command" }, took);
    }

    /// Notes how long an event took, if that is above `latency-monitor-threshold`.
    pub(crate) fn note_event(&mut self, config: &Config, event: &'static str, took: Duration) {
        self.latency.sample(event, took, config.latency_threshold_ms);
    }

    /// The counters, to be shown.
    pub(crate) fn stats(&self) -> &Stats {
        &self.stats
    }

    /// The requests that took long, the newest first.
    pub(crate) fn slow_requests(&self) -> &VecDeque<Slow> {
        self.slowlog.entries()
    }

    /// The events that took long.
    pub(crate) fn latency(&self) -> &Latency {
        &self.latency
    }

    /// Forgets the slow requests.
    pub(crate) fn forget_slow_requests(&mut self) {
        self.slowlog.clear();
    }

    /// Forgets the named slow events, or all; returns how many.
    pub(crate) fn forget_latency(&mut self, names: &[&[u8]]) -> usize {
        self.latency.forget(names)
    }

    /// All counters at zero, as CONFIG RESETSTAT has it.
    pub(crate) fn reset(&mut self, keyspace: KeyspaceStats, now: Instant) {
        self.stats.reset(keyspace, now);
    }

    /// Takes a sample for the rates, at each periodic run.
    pub(crate) fn sample(&mut self, now: Instant) {
        self.stats.sample(now);
    }
}

/// What is counted.
impl Meter {
    /// A command ran. `keeps_times`: as `latency-tracking` says.
    #[inline]
    pub(crate) fn ran(&mut self, command: usize, took_ns: u64, keeps_times: bool) {
        self.stats.commands_processed += 1;
        let counters = &mut self.stats.commands[command];
        counters.calls += 1;
        counters.time_ns += took_ns;
        if keeps_times {
            counters.times.get_or_insert_default().add(took_ns);
        }
    }

    /// A command that waited was answered, or gave up.
    pub(crate) fn ended_wait(&mut self, command: usize) {
        self.stats.commands[command].calls += 1;
    }

    /// A command ran and refused.
    pub(crate) fn failed(&mut self, command: usize) {
        self.stats.commands[command].failed += 1;
    }

    /// A command was refused before it ran.
    pub(crate) fn rejected(&mut self, command: usize) {
        self.stats.commands[command].rejected += 1;
    }

    /// An error was answered, which starts with its code.
    pub(crate) fn answered_error(&mut self, text: &[u8]) {
        self.stats.count_error(text);
    }

    /// A request of a primary or a replica failed.
    pub(crate) fn met_unexpected_error(&mut self) {
        self.stats.unexpected_errors += 1;
    }

    /// A connection arrived.
    pub(crate) fn accepted(&mut self) {
        self.stats.connections_received += 1;
    }

    /// A connection that arrived was refused.
    pub(crate) fn turned_away(&mut self) {
        self.stats.rejected_connections += 1;
    }

    /// A `read` for a client brought so many bytes.
    #[inline]
    pub(crate) fn received(&mut self, bytes: usize) {
        self.stats.reads += 1;
        self.stats.input_bytes += bytes as u64;
    }

    /// A `write` for a client took so many bytes.
    #[inline]
    pub(crate) fn sent(&mut self, bytes: usize) {
        self.stats.writes += 1;
        self.stats.output_bytes += bytes as u64;
    }

    /// A replica's socket took so many bytes of the stream.
    pub(crate) fn streamed(&mut self, bytes: u64) {
        self.stats.output_bytes += bytes;
        self.stats.replicas_output_bytes += bytes;
    }

    /// Counts bytes of the primary's stream that were applied.
    pub(crate) fn applied(&mut self, bytes: usize) {
        self.stats.primary_input_bytes += bytes as u64;
    }

    /// A replica takes a whole image.
    pub(crate) fn synchronised_fully(&mut self) {
        self.stats.full_syncs += 1;
    }

    /// A replica asked to resume, and can or cannot.
    pub(crate) fn asked_to_resume(&mut self, can: bool) {
        self.stats.partial_syncs += u64::from(can);
        self.stats.partial_refusals += u64::from(!can);
    }

    /// Counts clients that were closed by `maxmemory-clients`.
    pub(crate) fn evicted_clients(&mut self, count: u64) {
        self.stats.evicted_clients += count;
    }

    /// A turn of the event loop took so long, without its wait for sockets.
    #[inline]
    pub(crate) fn turned(&mut self, took: Duration) {
        self.stats.turns.add(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX));
        self.stats.turns_time += took;
    }

    /// A key was evicted.
    pub(crate) fn evicted_key(&mut self) {
        self.stats.evicted_keys += 1;
    }

    /// A client left, because it did not read its replies or not.
    pub(crate) fn left(&mut self, over_limit: bool) {
        self.stats.output_disconnections += u64::from(over_limit);
    }

    /// A client is closed because its requests are too large.
    pub(crate) fn closed_for_input(&mut self) {
        self.stats.input_disconnections += 1;
    }

    /// Active expiry took so long, ran out of time or not, and found so many keys and fields.
    pub(crate) fn expired(&mut self, took: Duration, out_of_time: bool, found: [usize; 2]) {
        self.stats.expired_actively[0] += found[0] as u64;
        self.stats.expired_actively[1] += found[1] as u64;
        self.stats.expire_time += took;
        self.stats.expire_slices_spent += u64::from(out_of_time);
    }

    /// One more command can be counted.
    #[cfg(test)]
    pub(crate) fn add_command(&mut self) {
        self.stats.commands.push(stats::CommandStats::default());
    }
}

/// Whether a request took long enough for a note.
#[inline]
pub(crate) fn is_long(config: &Config, took_ns: u64) -> bool {
    let slow = u64::try_from(config.slowlog_slower_than_us).unwrap_or(u64::MAX);
    took_ns >= slow.saturating_mul(1000) || config.latency_threshold_ms > 0
}
