//! Holds uploads to a rate, which may change at any time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// See the head of this file.
#[derive(Debug, Clone)]
pub(crate) struct Pace {
    /// Bytes a second; 0: no limit. A setting by itself, so relaxed.
    rate: Arc<AtomicU64>,
    /// Bytes that wait for their turn.
    owed: u64,
    since: Instant,
}

/// How long a sleep is, so that a new rate counts soon.
const NAP: Duration = Duration::from_millis(100);

impl Pace {
    pub(crate) fn new(rate: Arc<AtomicU64>) -> Self {
        Self { rate, owed: 0, since: Instant::now() }
    }

    /// Waits until the bytes before these have had their time. Idle time is not saved up.
    pub(crate) async fn keep(&mut self, bytes: u64) {
        loop {
            let rate = self.rate.load(Ordering::Relaxed);
            let passed = self.since.elapsed();
            self.since = Instant::now();
            let sent = passed.as_secs_f64() * rate as f64;
            self.owed = if rate == 0 { 0 } else { self.owed.saturating_sub(sent as u64) };
            if self.owed == 0 {
                break;
            }
            tokio::time::sleep(NAP.min(Duration::from_secs_f64(self.owed as f64 / rate as f64)))
                .await;
        }
        self.owed = bytes;
    }
}
