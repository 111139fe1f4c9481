//! How fast files are written, where that is limited.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use stillframe::{MemoryError, Shared};

/// How much earlier than due a write may be: a sleep costs.
const SLACK: Duration = Duration::from_micros(500);
/// How often who sleeps looks whether the limit was lifted.
const LOOK: Duration = Duration::from_millis(10);

/// A limit of speed for several files, until it is lifted.
#[derive(Debug, Clone)]
pub(crate) struct Limit {
    bytes_per_s: u64,
    /// A forked child sees it, too.
    lifted: Shared<AtomicBool>,
}

impl Limit {
    pub(crate) fn new(bytes_per_s: u64) -> Result<Self, MemoryError> {
        Ok(Self { bytes_per_s: bytes_per_s.max(1), lifted: Shared::new(AtomicBool::new(false))? })
    }

    /// From now on whoever is held to it goes on as fast as can be.
    pub(crate) fn lift(&self) {
        self.lifted.store(true, Ordering::Relaxed);
    }

    /// Sleeps until so many bytes since `started` are due. A forked child may do that.
    fn wait(&self, bytes: u64, started: Instant) {
        let due = Duration::from_secs_f64(bytes as f64 / self.bytes_per_s as f64);
        while !self.lifted.load(Ordering::Relaxed) {
            let early = due.saturating_sub(started.elapsed());
            if early <= SLACK {
                return;
            }
            thread::sleep(early.min(LOOK));
        }
    }
}

/// One file held to a limit.
#[derive(Debug, Default)]
pub(super) struct Pace {
    limit: Option<Limit>,
    started: Option<Instant>,
}

impl Pace {
    pub(super) fn new(limit: Option<Limit>) -> Self {
        Self { limit, started: None }
    }

    /// Returns when `bytes` since the first call are due.
    pub(super) fn wait(&mut self, bytes: u64) {
        if let Some(limit) = &self.limit {
            limit.wait(bytes, *self.started.get_or_insert_with(Instant::now));
        }
    }
}
