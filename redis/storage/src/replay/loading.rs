//! Clients while data is loaded at start: commands without data run, others get LOADING.
//!
//! - The command thread loads in slices, and serves clients for a turn between two of them. The
//!   commands that they may run do not touch the data.
//! - Half of the data is no state: nothing is saved, logged, expired or evicted before the end.

use std::time::{Duration, Instant};

use stillframe_commands::Random;

use crate::clock::unix_millis;

/// Length of a slice, which clients wait for.
pub const SLICE: Duration = Duration::from_millis(10);

/// Loading at start, or of a primary's image.
#[derive(Debug, Clone, Copy)]
pub struct Loading {
    /// When it began.
    pub started: Instant,
    /// That in unix seconds.
    pub started_s: i64,
    /// Bytes of the file, or of the log.
    pub total_bytes: u64,
    /// Loaded bytes of these.
    pub loaded_bytes: u64,
}

impl Loading {
    /// A load of so many bytes, at its beginning.
    pub fn new(total_bytes: u64) -> Self {
        let (started, started_s) = (Instant::now(), unix_millis() / 1000);
        Self { started, started_s, total_bytes, loaded_bytes: 0 }
    }

    /// The loaded share, from 0 to 1.
    pub fn share(&self) -> f64 {
        self.loaded_bytes as f64 / self.total_bytes.max(1) as f64
    }

    /// Time left, if the rest takes as long per byte as the loaded part.
    pub fn left(&self) -> Duration {
        let factor = 1.0 / self.share().max(1e-6) - 1.0;
        Duration::try_from_secs_f64(self.started.elapsed().as_secs_f64() * factor)
            .unwrap_or_default()
    }
}

/// `key-load-delay`: sleeps for so many microseconds, or if negative for one once in so many times.
/// Returns whether it did.
pub fn delay(delay_us: i32) -> bool {
    let sleeps = match delay_us {
        0 => return false,
        1.. => true,
        often => Random::seeded().below(often.unsigned_abs() as usize) == 0,
    };
    if sleeps {
        std::thread::sleep(Duration::from_micros(delay_us.max(1).unsigned_abs().into()));
    }
    sleeps
}
