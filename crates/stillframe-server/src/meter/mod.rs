//! Counters and times: figures for INFO, slow requests, the latency of events.
//!
//! The clock is read once a request, at its end, where the next one of the turn starts.

mod latency;
mod slowlog;
mod stats;

use std::time::{Duration, Instant};

use crate::client::Session;
use crate::config::Config;
use latency::Latency;
use slowlog::SlowLog;
use stats::Stats;

/// See the head of this file.
pub(crate) struct Meter {
    /// Counters.
    pub(crate) stats: Stats,
    /// Requests that took long.
    pub(crate) slowlog: SlowLog,
    /// Events that took long.
    pub(crate) latency: Latency,
}

impl Meter {
    /// Counters at zero, for so many commands.
    pub(crate) fn new(commands: usize, now: Instant) -> Self {
        let (slowlog, latency) = (SlowLog::default(), Latency::default());
        Self { stats: Stats::new(commands, now), slowlog, latency }
    }

    /// Notes how long a request took, if that is long. `fast`: its command should not be slow.
    #[cold]
    pub(crate) fn note_time(
        &mut self,
        config: &Config,
        session: &Session,
        args: &[&[u8]],
        took: Duration,
        [fast, skipped]: [bool; 2],
    ) {
        let micros = i64::try_from(took.as_micros()).unwrap_or(i64::MAX);
        if config.slowlog_slower_than_us >= 0 && micros >= config.slowlog_slower_than_us && !skipped
        {
            self.slowlog.add(session, args, micros, config.slowlog_max_len);
        }
        self.note_event(config, if fast { "fast-command" } else { "command" }, took);
    }

    /// Notes how long an event took, if that is above `latency-monitor-threshold`.
    pub(crate) fn note_event(&mut self, config: &Config, event: &'static str, took: Duration) {
        self.latency.sample(event, took, config.latency_threshold_ms);
    }
}

/// Whether a request took long enough for a note.
#[inline]
pub(crate) fn is_long(config: &Config, took_ns: u64) -> bool {
    let slow = u64::try_from(config.slowlog_slower_than_us).unwrap_or(u64::MAX);
    took_ns >= slow.saturating_mul(1000) || config.latency_threshold_ms > 0
}
