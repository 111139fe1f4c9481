//! Threads of a scope end however the test ends. A test that fails while a thread waits for it
//! would hang, and its message would not be seen.

use std::sync::atomic::{AtomicBool, Ordering};

/// Asks the threads of a scope to stop.
#[derive(Default)]
pub(crate) struct Stop(AtomicBool);

impl Stop {
    pub(crate) fn is_due(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }

    pub(crate) fn now(&self) {
        self.0.store(true, Ordering::SeqCst);
    }

    /// Asks when the guard is dropped, by a panic, too. Make it first in the scope.
    pub(crate) fn at_the_end(&self) -> AtTheEnd<impl FnMut()> {
        at_the_end(|| self.now())
    }
}

/// Runs something when it is dropped.
pub(crate) struct AtTheEnd<F: FnMut()>(F);

/// Runs `action` when the guard is dropped, by a panic, too.
pub(crate) fn at_the_end<F: FnMut()>(action: F) -> AtTheEnd<F> {
    AtTheEnd(action)
}

impl<F: FnMut()> Drop for AtTheEnd<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}
