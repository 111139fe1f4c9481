//! The one place that knows which atomics and threads are in use: the real ones, loom's or
//! shuttle's.

#[cfg(feature = "loom")]
pub(crate) use loom::{
    hint::spin_loop,
    sync::Mutex,
    sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering, fence},
    thread::yield_now,
};
#[cfg(feature = "shuttle")]
pub(crate) use shuttle::{
    hint::spin_loop,
    sync::Mutex,
    sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering, fence},
    thread::yield_now,
};
#[cfg(not(any(feature = "loom", feature = "shuttle")))]
pub(crate) use std::{
    hint::spin_loop,
    sync::Mutex,
    sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering, fence},
    thread::yield_now,
};

/// A value alone on its cache line, so that its writer does not slow readers of its neighbours.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct Line<T>(pub(crate) T);

/// Waits for another thread, which may have lost its processor: a little first, then by giving up
/// the time slice.
#[derive(Debug, Default)]
pub(crate) struct Backoff {
    turns: u32,
}

impl Backoff {
    const TURNS_SPINNING: u32 =
        if cfg!(any(feature = "loom", feature = "shuttle")) { 1 } else { 32 };

    pub(crate) fn wait(&mut self) {
        self.turns = self.turns.saturating_add(1);
        if self.turns < Self::TURNS_SPINNING {
            spin_loop();
        } else {
            yield_now();
        }
    }
}
