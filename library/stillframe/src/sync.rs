//! The one place that knows which atomics and threads are in use: the real ones, loom's or
//! shuttle's.

use std::panic::{AssertUnwindSafe, catch_unwind};

#[cfg(feature = "loom")]
pub(crate) use loom::{
    hint::spin_loop,
    sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering, fence},
    sync::{Arc, Condvar, Mutex, MutexGuard},
    thread,
};
#[cfg(feature = "shuttle")]
pub(crate) use shuttle::{
    hint::spin_loop,
    sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering, fence},
    sync::{Arc, Condvar, Mutex, MutexGuard},
    thread,
};
#[cfg(not(any(feature = "loom", feature = "shuttle")))]
pub(crate) use std::{
    hint::spin_loop,
    sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering, fence},
    sync::{Arc, Condvar, Mutex, MutexGuard},
    thread,
};

/// What `body` returns, or `None` if it panicked. The panic's payload is leaked: its destructor is
/// the body's own code and may panic again, where nothing catches it.
pub(crate) fn caught<R>(body: impl FnOnce() -> R) -> Option<R> {
    catch_unwind(AssertUnwindSafe(body)).map_err(std::mem::forget).ok()
}

/// A value alone on its cache line, so that its writer does not slow readers of its neighbours.
#[derive(Debug, Default)]
#[repr(align(64))]
pub(crate) struct Line<T>(pub(crate) T);

/// Waits a little longer at each turn: first the pipeline, then the rest of the time slice, then
/// short sleeps (the other side may be waiting for a disk).
#[derive(Debug, Default)]
pub(crate) struct Backoff {
    turns: u32,
}

impl Backoff {
    const TURNS_SPINNING: u32 =
        if cfg!(any(feature = "loom", feature = "shuttle")) { 1 } else { 64 };
    const TURNS_YIELDING: u32 = 128;

    pub(crate) fn wait(&mut self) {
        self.turns = self.turns.saturating_add(1);
        if self.turns < Self::TURNS_SPINNING {
            spin_loop();
        } else if self.turns < Self::TURNS_YIELDING || cfg!(feature = "loom") {
            thread::yield_now();
        } else {
            #[cfg(not(feature = "loom"))]
            thread::sleep(std::time::Duration::from_micros(50));
        }
    }
}
