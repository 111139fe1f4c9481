//! The limit of how fast files are written, and the cancelling of what is being written.

use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use stillframe::{MemoryError, Shared};

/// How much earlier than due a write may start, since each sleep has a cost.
const SLACK: Duration = Duration::from_micros(500);
/// How often a writer that sleeps looks whether the throttle was changed.
const LOOK: Duration = Duration::from_millis(10);

/// The writer keeps its rate.
const KEPT: u32 = 0;
/// The writer goes on as fast as it can.
const LIFTED: u32 = 1;
/// The image is no longer wanted.
const CANCELLED: u32 = 2;

/// A rate for the writer of an image. Another thread may lift the rate, or cancel the writing; a
/// forked child sees both.
#[derive(Debug, Clone)]
pub struct Throttle {
    /// 0 for no limit.
    bytes_per_s: u64,
    state: Shared<AtomicU32>,
}

impl Throttle {
    /// At most this many bytes a second; 0 is no limit.
    ///
    /// # Errors
    /// [`MemoryError`] if there is no memory to share with a child.
    pub fn new(bytes_per_s: u64) -> Result<Self, MemoryError> {
        Ok(Self { bytes_per_s, state: Shared::new(AtomicU32::new(KEPT))? })
    }

    /// The same throttle for the next image, at another rate: neither lifted nor cancelled.
    #[must_use]
    pub fn renewed(&self, bytes_per_s: u64) -> Self {
        self.state.store(KEPT, Ordering::Relaxed);
        Self { bytes_per_s, ..self.clone() }
    }

    /// The writer goes on as fast as it can from now on.
    pub fn lift(&self) {
        self.state.store(LIFTED, Ordering::Relaxed);
    }

    /// The image is no longer wanted: the writer's next write fails.
    pub fn cancel(&self) {
        self.state.store(CANCELLED, Ordering::Relaxed);
    }

    /// Whether the image is no longer wanted.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.state.load(Ordering::Relaxed) == CANCELLED
    }
}

/// The image was no longer wanted while it was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cancelled;

/// One file, or one stream, held to a [`Throttle`].
#[derive(Debug, Default)]
pub struct Pace {
    throttle: Option<Throttle>,
    started: Option<Instant>,
}

impl Pace {
    /// Begins with the first call of [`keep`](Self::keep).
    #[must_use]
    pub fn new(throttle: Option<Throttle>) -> Self {
        Self { throttle, started: None }
    }

    /// Sleeps until this many bytes since the first call are due. A forked child may do that.
    ///
    /// # Errors
    /// [`Cancelled`].
    pub fn keep(&mut self, bytes: u64) -> Result<(), Cancelled> {
        let Some(Throttle { bytes_per_s, state }) = &self.throttle else { return Ok(()) };
        let started = *self.started.get_or_insert_with(Instant::now);
        let due = Duration::from_secs_f64(bytes as f64 / (*bytes_per_s).max(1) as f64);
        loop {
            match state.load(Ordering::Relaxed) {
                CANCELLED => return Err(Cancelled),
                LIFTED => return Ok(()),
                _ => {}
            }
            let early = due.saturating_sub(started.elapsed());
            if *bytes_per_s == 0 || early <= SLACK {
                return Ok(());
            }
            thread::sleep(early.min(LOOK));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A rate at which nothing would ever be due.
    const SLOWEST: u64 = 1;
    const BYTES: u64 = 1 << 40;

    #[test]
    fn a_throttle_that_is_lifted_or_cancelled_holds_nobody() {
        let throttle = Throttle::new(SLOWEST).expect("memory");
        let mut pace = Pace::new(Some(throttle.clone()));
        throttle.lift();
        assert_eq!(pace.keep(BYTES), Ok(()));
        throttle.cancel();
        assert!(throttle.is_cancelled());
        assert_eq!(pace.keep(BYTES), Err(Cancelled));
        let fast = throttle.renewed(0);
        assert!(!throttle.is_cancelled(), "the next image is of use");
        assert_eq!(Pace::new(Some(fast)).keep(BYTES), Ok(()));
        throttle.cancel();
        assert_eq!(pace.keep(BYTES), Err(Cancelled), "also where there is no limit");
        assert_eq!(Pace::new(None).keep(BYTES), Ok(()));
    }

    #[test]
    fn a_writer_that_sleeps_notices_the_end() {
        for end in [Throttle::lift, Throttle::cancel] {
            let throttle = Throttle::new(SLOWEST).expect("memory");
            let mut pace = Pace::new(Some(throttle.clone()));
            let writer = thread::spawn(move || pace.keep(BYTES));
            end(&throttle);
            let kept = writer.join().expect("no panic");
            assert_eq!(kept.is_err(), throttle.is_cancelled());
        }
    }
}
