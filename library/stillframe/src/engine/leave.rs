//! Low priority that can be left at once.
//!
//! The thread that captures ought to take only time that others leave, until the writer waits for
//! it: from then on it ought to run as the writer itself. A nice value cannot do that: a thread
//! that has raised its own may not lower it again without privilege (setpriority(2)), nor leave
//! SCHED_IDLE (sched(7)). So the thread keeps the priority of the one that started it and works in
//! spells. For the next spell it asks for *leave*, which a thread of the lowest priority gives as
//! soon as it runs: when a processor has time to spare. That thread does nothing else.
//!
//! - L1: a capture that hurries waits for no leave.
//! - L2: a capture waits for leave at most `PATIENCE` times as long as its spell took of a
//!   processor. Beside threads that want all processors it has a tenth of one, not a hundredth.
//! - L3: a capture asks for leave when a spell begins: where a processor is idle, leave is there
//!   when the spell ends.
//!
//! `cargo run --release -p stillframe --example stalls` has the figures.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use crate::{Before, OnFull, Progress, Sink, SinkError, os};

/// How long a capture works before it needs leave.
const SPELL: Duration = Duration::from_millis(1);
/// See L2.
const PATIENCE: u32 = 9;
/// How often who waits for leave looks whether to hurry.
const LOOK: Duration = Duration::from_millis(1);

/// The thread that gives leave, until dropped.
#[derive(Debug)]
pub(super) struct Leave {
    shared: Arc<SharedLeave>,
    thread: Option<JoinHandle<()>>,
}

/// What those who ask for leave share with the thread that gives it.
#[derive(Debug, Default)]
struct SharedLeave {
    state: Mutex<State>,
    asked: Condvar,
    given: Condvar,
    /// A thread waits for the end of the capture. A hint, looked at every now and then: relaxed.
    hurry: AtomicBool,
}

#[derive(Debug, Default)]
struct State {
    asked: bool,
    given: bool,
    closed: bool,
}

impl Leave {
    pub(super) fn start() -> io::Result<Self> {
        let shared = Arc::new(SharedLeave::default());
        let theirs = Arc::clone(&shared);
        let thread = Builder::new().name("leave".into()).spawn(move || {
            os::lower_priority();
            theirs.give_until_closed();
        })?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// The spells of a capture whose progress is given.
    pub(super) fn spells(&self, progress: Progress) -> Spells {
        Spells { shared: Arc::clone(&self.shared), progress, began: None }
    }

    /// Whether a thread waits for the end of the capture.
    pub(super) fn set_hurry(&self, hurry: bool) {
        self.shared.hurry.store(hurry, Ordering::Relaxed);
    }
}

impl Drop for Leave {
    fn drop(&mut self) {
        self.shared.lock().closed = true;
        self.shared.asked.notify_all();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join(); // it does not panic
        }
    }
}

impl SharedLeave {
    // A poisoned lock is taken anyway: each change is one assignment.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn give_until_closed(&self) {
        let mut state = self.lock();
        while !state.closed {
            if std::mem::take(&mut state.asked) {
                state.given = true;
                self.given.notify_all();
            }
            state = self.asked.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn ask(&self) {
        let mut state = self.lock();
        (state.asked, state.given) = (true, false);
        drop(state);
        self.asked.notify_all();
    }

    /// Returns when leave is given, when `hurries` says so, or after `patience`.
    fn wait(&self, patience: Duration, hurries: impl Fn() -> bool) {
        let until = Instant::now() + patience;
        let mut state = self.lock();
        while !state.given && !hurries() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            let waited = self.given.wait_timeout(state, left.min(LOOK));
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

/// The spells of one capture.
#[derive(Debug)]
pub(super) struct Spells {
    shared: Arc<SharedLeave>,
    progress: Progress,
    /// When the spell began, by the clock and by the time of this thread; `None` before the first.
    began: Option<(Instant, Duration)>,
}

impl Spells {
    /// Waits for leave if it is time for that.
    fn pass(&mut self) {
        if let Some((began, used)) = self.began {
            let hurries =
                || self.progress.is_pressed() || self.shared.hurry.load(Ordering::Relaxed);
            if began.elapsed() < SPELL || hurries() {
                return;
            }
            let spell = os::thread_time().saturating_sub(used);
            self.shared.wait(spell * PATIENCE, hurries);
        }
        self.began = Some((Instant::now(), os::thread_time()));
        self.shared.ask();
    }
}

/// A sink whose blocks wait for leave, if it is to be waited for.
#[derive(Debug)]
pub(super) struct Polite<S> {
    pub(super) sink: S,
    pub(super) spells: Option<Spells>,
}

impl<S: Sink> Sink for Polite<S> {
    fn wants(&mut self, start: usize) -> bool {
        if let Some(spells) = &mut self.spells {
            spells.pass();
        }
        self.sink.wants(start)
    }
    fn push(&mut self, start: usize, words: &[u64]) -> Result<(), SinkError> {
        self.sink.push(start, words)
    }
    fn on_full(&self) -> Option<OnFull> {
        self.sink.on_full()
    }
    fn before(&mut self, start: usize, into: &mut [u64]) -> Result<Before, SinkError> {
        self.sink.before(start, into)
    }
    fn push_half(&mut self, index: usize, half: u32) -> Result<(), SinkError> {
        self.sink.push_half(index, half)
    }
    fn finish(&mut self) -> Result<(), SinkError> {
        self.sink.finish()
    }
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(3600);

    #[test]
    fn leave_is_given_once_for_each_time_it_is_asked() {
        let leave = Leave::start().expect("a thread");
        for _ in 0..100 {
            leave.shared.ask();
            leave.shared.wait(LONG, || false);
            assert!(leave.shared.lock().given);
        }
    }

    #[test]
    fn who_hurries_and_who_is_out_of_patience_goes_on_without_leave() {
        let shared = SharedLeave::default(); // no thread gives leave
        shared.ask();
        shared.wait(LONG, || true);
        shared.wait(Duration::from_millis(2), || false);
        assert!(!shared.lock().given);
        let looks = std::cell::Cell::new(0);
        shared.wait(LONG, || looks.replace(looks.get() + 1) > 3); // while it waits
        assert!(!shared.lock().given);
    }
}
