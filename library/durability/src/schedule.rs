//! Reports to a store when its next checkpoint is due: a thread that sleeps, so that a point of
//! consistency need not look at a clock.

use std::io;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

/// Runs a closure at an interval until dropped.
#[derive(Debug)]
pub(crate) struct Schedule {
    bell: Arc<Bell>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Bell {
    closed: Mutex<bool>,
    rung: Condvar,
}

impl Schedule {
    /// Runs `tick` after every `interval` (of a millisecond at least).
    pub(crate) fn start(interval: Duration, tick: impl Fn() + Send + 'static) -> io::Result<Self> {
        let interval = interval.max(Duration::from_millis(1));
        let bell = Arc::new(Bell::default());
        let theirs = Arc::clone(&bell);
        let thread = Builder::new().name("schedule".into()).spawn(move || {
            while !theirs.sleep(interval) {
                tick();
            }
        })?;
        Ok(Self { bell, thread: Some(thread) })
    }
}

impl Bell {
    /// Sleeps for `interval`, or until closed; returns whether it is.
    fn sleep(&self, interval: Duration) -> bool {
        // A poisoned lock is taken anyway: a bool has no half-made change.
        let closed = self.closed.lock().unwrap_or_else(PoisonError::into_inner);
        let slept = self.rung.wait_timeout_while(closed, interval, |closed| !*closed);
        *slept.unwrap_or_else(PoisonError::into_inner).0
    }
}

impl Drop for Schedule {
    fn drop(&mut self) {
        *self.bell.closed.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.bell.rung.notify_all();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join(); // it runs a closure that stores a flag
        }
    }
}
