//! The limit of how fast files are written, and the cancelling of what is being written.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use stillframe::{MemoryError, Shared};

/// How much earlier than due a write may start, since each sleep has a cost.
const SLACK: Duration = Duration::from_micros(500);
/// How often a writer that sleeps looks whether the throttle was changed.
const LOOK: Duration = Duration::from_millis(10);

/// In place of a rate: the writer goes on as fast as it can.
const UNLIMITED: u64 = 0;
/// In place of a rate: the image is no longer wanted.
const CANCELLED: u64 = u64::MAX;

/// A rate for the writer of an image. Another thread may change the rate, or cancel the writing; a
/// forked child sees both.
#[derive(Debug, Clone)]
pub struct Throttle {
    /// Bytes a second, or one of the two above. It orders nothing else, so it is relaxed.
    rate: Shared<AtomicU64>,
}

impl Throttle {
    /// At most this many bytes a second; 0 is no limit.
    ///
    /// # Errors
    /// [`MemoryError`] if there is no memory to share with a child.
    pub fn new(bytes_per_s: u64) -> Result<Self, MemoryError> {
        Ok(Self { rate: Shared::new(AtomicU64::new(rate(bytes_per_s)))? })
    }

    /// The same throttle for the next image, at another rate, and not cancelled.
    #[must_use]
    pub fn renewed(&self, bytes_per_s: u64) -> Self {
        self.rate.store(rate(bytes_per_s), Ordering::Relaxed);
        self.clone()
    }

    /// From now on the writer keeps this rate, unless it was cancelled; 0 is no limit.
    pub fn change(&self, bytes_per_s: u64) {
        let change = |old| (old != CANCELLED).then(|| rate(bytes_per_s));
        let _ = self.rate.fetch_update(Ordering::Relaxed, Ordering::Relaxed, change);
    }

    /// The image is no longer wanted: the writer's next write fails.
    pub fn cancel(&self) {
        self.rate.store(CANCELLED, Ordering::Relaxed);
    }

    /// Whether the image is no longer wanted.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.rate.load(Ordering::Relaxed) == CANCELLED
    }
}

/// A rate that a user chose.
fn rate(bytes_per_s: u64) -> u64 {
    bytes_per_s.min(CANCELLED - 1)
}

/// The image was no longer wanted while it was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cancelled;

/// One file, or one stream, held to a [`Throttle`].
#[derive(Debug, Default)]
pub struct Pace {
    throttle: Option<Throttle>,
    kept: Option<Kept>,
}

/// A rate that is kept, from which instant and byte on.
#[derive(Debug, Clone, Copy)]
struct Kept {
    rate: u64,
    since: Instant,
    from: u64,
}

impl Kept {
    /// The bytes that are due now.
    fn due(self) -> u64 {
        if self.rate == UNLIMITED {
            return u64::MAX;
        }
        self.from.saturating_add((self.since.elapsed().as_secs_f64() * self.rate as f64) as u64)
    }
}

impl Pace {
    /// Begins with the first call of [`keep`](Self::keep).
    #[must_use]
    pub fn new(throttle: Option<Throttle>) -> Self {
        Self { throttle, kept: None }
    }

    /// Sleeps until this many bytes since the first call are due; those that were not due yet when
    /// the rate changed are due by the new one. A forked child may do that.
    ///
    /// # Errors
    /// [`Cancelled`].
    pub fn keep(&mut self, bytes: u64) -> Result<(), Cancelled> {
        let Some(throttle) = &self.throttle else { return Ok(()) };
        loop {
            let rate = throttle.rate.load(Ordering::Relaxed);
            let kept = match self.kept {
                Some(kept) if kept.rate == rate => kept,
                before => {
                    let from = before.map_or(0, |before| before.due().min(bytes));
                    *self.kept.insert(Kept { rate, since: Instant::now(), from })
                }
            };
            if rate == CANCELLED {
                return Err(Cancelled);
            }
            let due = (bytes - kept.from) as f64 / rate.max(1) as f64;
            let early = Duration::from_secs_f64(due).saturating_sub(kept.since.elapsed());
            if rate == UNLIMITED || early <= SLACK {
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
    fn a_throttle_without_limit_or_cancelled_holds_nobody() {
        let throttle = Throttle::new(SLOWEST).expect("memory");
        let mut pace = Pace::new(Some(throttle.clone()));
        throttle.change(0);
        assert_eq!(pace.keep(BYTES), Ok(()));
        throttle.cancel();
        throttle.change(0);
        assert!(throttle.is_cancelled(), "no rate brings it back");
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
        for end in [|it: &Throttle| it.change(0), Throttle::cancel] {
            let throttle = Throttle::new(SLOWEST).expect("memory");
            let mut pace = Pace::new(Some(throttle.clone()));
            let writer = thread::spawn(move || pace.keep(BYTES));
            end(&throttle);
            let kept = writer.join().expect("no panic");
            assert_eq!(kept.is_err(), throttle.is_cancelled());
        }
    }

    #[test]
    fn what_was_due_before_a_change_is_not_due_again() {
        let throttle = Throttle::new(0).expect("memory");
        let mut pace = Pace::new(Some(throttle.clone()));
        assert_eq!(pace.keep(BYTES), Ok(()));
        throttle.change(SLOWEST);
        assert_eq!(pace.keep(BYTES), Ok(()), "those bytes were due at once");
        let writer = thread::spawn(move || pace.keep(2 * BYTES));
        while !writer.is_finished() {
            thread::yield_now();
            throttle.cancel();
        }
        assert_eq!(writer.join().expect("no panic"), Err(Cancelled), "the next ones wait");
    }
}
