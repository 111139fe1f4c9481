//! Time of a measurement: nanoseconds since its start.

use std::thread;
use std::time::{Duration, Instant};

/// One second in the unit of this clock.
pub(crate) const SECOND: u64 = 1_000_000_000;

/// Counts from the start of a measurement, which may lie ahead.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clock {
    start: Instant,
}

impl Clock {
    /// Time 0 is `ahead` from now.
    pub(crate) fn starting_in(ahead: Duration) -> Self {
        Self { start: Instant::now() + ahead }
    }
    /// Sleeps until time 0.
    pub(crate) fn wait_for_start(&self) {
        thread::sleep(self.start.saturating_duration_since(Instant::now()));
    }
    /// Nanoseconds since the start; 0 before it.
    #[inline]
    pub(crate) fn now(&self) -> u64 {
        nanos(Instant::now().saturating_duration_since(self.start))
    }
}

/// Whole nanoseconds; a duration beyond 584 years is cut.
pub(crate) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
