//! Checkpoints: begun at a point, written in the background.

use std::mem::size_of;

use durability::Error;

use crate::door::door;
use crate::error::{Failure, sf_code, sf_error};
use crate::memory::{self, Sized};
use crate::report::micros;
use crate::store::{sf_store, take};

/// Begins a checkpoint here, in microseconds, and leaves its number in `checkpoint` (unless null).
/// The state must be valid, as at a point. If one is under way, it leaves 0, and the next begins at
/// the first point after that has ended.
#[unsafe(no_mangle)]
pub extern "C" fn sf_checkpoint_begin(
    store: sf_store,
    checkpoint: *mut u64,
    error: *mut sf_error,
) -> sf_code {
    door(error, || {
        let mut store = take(store)?;
        let store = &mut store.get().store;
        if store.in_act() {
            return Err(Error::InAct.into());
        }
        let failures = store.stats().failures;
        store.checkpoint();
        let begun = store.point()?;
        if begun.is_none() {
            let stats = store.stats();
            if stats.running.is_none() && stats.failures > failures {
                let message = stats.last_error.unwrap_or_default();
                return Err(Failure::new(sf_code::SF_CHECKPOINT, message));
            }
        }
        memory::put_if_wanted(checkpoint, "checkpoint", begun.unwrap_or(0))
    })
}

/// The checkpoint under way.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct sf_progress {
    /// `sizeof(sf_progress)`: set it before the call.
    pub size: usize,
    /// Its number; 0: none is under way.
    pub checkpoint: u64,
    /// Words captured so far.
    pub captured_words: u64,
    /// Words to capture; when all are, the file is being made durable.
    pub words: u64,
    /// Time since it began.
    pub elapsed_us: u64,
    /// Time that the rest of the capture will take at the pace so far; all bits set: unknown.
    pub remaining_us: u64,
}

// SAFETY: `size` is first, and all fields are 8 bytes of number.
unsafe impl Sized for sf_progress {}

/// How far the checkpoint under way is.
#[unsafe(no_mangle)]
pub extern "C" fn sf_checkpoint_progress(
    store: sf_store,
    progress: *mut sf_progress,
    error: *mut sf_error,
) -> sf_code {
    door(error, || {
        let running = take(store)?.get().store.stats().running;
        let mut told = sf_progress {
            size: size_of::<sf_progress>(),
            checkpoint: 0,
            captured_words: 0,
            words: 0,
            elapsed_us: 0,
            remaining_us: u64::MAX,
        };
        if let Some(running) = running {
            told.checkpoint = running.number;
            told.captured_words = running.captured_words as u64;
            told.words = running.words as u64;
            told.elapsed_us = micros(running.elapsed);
            told.remaining_us = running.remaining.map_or(u64::MAX, micros);
        }
        memory::put_sized(progress, "progress", told)
    })
}

/// Waits for the checkpoint under way, and leaves the number of the last one that ended since this
/// was last asked in `checkpoint` (unless null), else 0. A checkpoint that failed is the error: the
/// state, and the checkpoints before, are as they were.
#[unsafe(no_mangle)]
pub extern "C" fn sf_checkpoint_wait(
    store: sf_store,
    checkpoint: *mut u64,
    error: *mut sf_error,
) -> sf_code {
    door(error, || {
        let ended = take(store)?.get().store.wait()?;
        memory::put_if_wanted(checkpoint, "checkpoint", ended.unwrap_or(0))
    })
}

/// Gives up the checkpoint under way, if there is one; `sf_checkpoint_wait` returns when it is
/// gone.
#[unsafe(no_mangle)]
pub extern "C" fn sf_checkpoint_cancel(store: sf_store, error: *mut sf_error) -> sf_code {
    door(error, || {
        take(store)?.get().store.cancel();
        Ok(())
    })
}
