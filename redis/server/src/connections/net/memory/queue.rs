//! Bytes on their way in one direction of a connection.
//!
//! Invariants:
//! - `ready` is false only while the queue is empty and open; it is changed under the lock.
//! - A writer that found no room is told of room once: `gives_room` says that it must be woken.

use std::collections::VecDeque;
use std::io::{Read, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// Most bytes that wait in one direction.
const BYTES_MAX: usize = 1 << 20;
/// An empty queue keeps no more memory than this.
const KEPT_BYTES: usize = 64 << 10;

/// See the head of this file.
#[derive(Default)]
pub(super) struct Queue {
    state: Mutex<State>,
    /// Bytes have come, there is room again, or the end.
    changed: Condvar,
    ready: AtomicBool,
}

#[derive(Default)]
struct State {
    bytes: VecDeque<u8>,
    /// The writer sends no more.
    ended: bool,
    /// The reader reads no more.
    closed: bool,
    /// The writer has found no room.
    is_full: bool,
    /// A thread sleeps until the queue changes.
    sleeps: bool,
}

/// What a read has taken.
pub(super) struct Taken {
    /// How many bytes; 0 at the end.
    pub(super) bytes: usize,
    /// The writer has waited for room, and there is some.
    pub(super) gives_room: bool,
}

/// What a thread waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wanted {
    /// Bytes, or the end of them.
    Bytes,
    /// Room, or nobody who reads.
    Room,
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Nobody panics while the lock is held, but for lack of memory in an unlucky place: bytes
        // are then appended whole or not at all.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether there are bytes, or no more will come.
    #[inline]
    pub(super) fn is_ready(&self) -> bool {
        self.ready.load(Ordering::Acquire)
    }

    /// Whether a write would find room, or nobody who reads.
    pub(super) fn has_room(&self) -> bool {
        let state = self.lock();
        !state.is_full || state.closed
    }

    /// Copies bytes into a buffer and leaves them; `None` if there are none yet.
    pub(super) fn peek(&self, into: &mut [u8]) -> Option<usize> {
        let state = self.lock();
        if state.bytes.is_empty() {
            return state.ended.then_some(0);
        }
        let (mut first, mut second) = state.bytes.as_slices();
        let count = first.read(into).unwrap_or(0);
        Some(count + second.read(&mut into[count..]).unwrap_or(0))
    }

    /// Appends what there is room for, and returns how much; `None` if nobody reads it.
    pub(super) fn put<'a>(&self, pieces: impl IntoIterator<Item = &'a [u8]>) -> Option<usize> {
        let mut state = self.lock();
        if state.closed || state.ended {
            return None;
        }
        let before = state.bytes.len();
        for piece in pieces {
            let room = BYTES_MAX - state.bytes.len();
            let fits = &piece[..piece.len().min(room)];
            let _ = state.bytes.write_all(fits); // a queue in memory takes all
            if fits.len() < piece.len() {
                state.is_full = true;
                break;
            }
        }
        let written = state.bytes.len() - before;
        self.note(state);
        Some(written)
    }

    /// Takes bytes into a buffer; `None` if there are none yet.
    pub(super) fn take(&self, into: &mut [u8]) -> Option<Taken> {
        self.take_with(|bytes| bytes.read(into).unwrap_or(0))
    }

    /// As [`take`](Self::take), into the spare room of a buffer.
    pub(super) fn take_behind(&self, into: &mut Vec<u8>) -> Option<Taken> {
        let room = into.capacity() - into.len();
        self.take_with(|bytes| {
            let fits = bytes.len().min(room);
            let (first, second) = bytes.as_slices();
            let first = &first[..first.len().min(fits)];
            into.extend_from_slice(first);
            into.extend_from_slice(&second[..fits - first.len()]);
            bytes.drain(..fits);
            fits
        })
    }

    fn take_with(&self, take: impl FnOnce(&mut VecDeque<u8>) -> usize) -> Option<Taken> {
        let mut state = self.lock();
        if state.bytes.is_empty() {
            return state.ended.then_some(Taken { bytes: 0, gives_room: false });
        }
        let bytes = take(&mut state.bytes);
        if state.bytes.is_empty() && state.bytes.capacity() > KEPT_BYTES {
            state.bytes = VecDeque::new();
        }
        let gives_room = state.is_full && state.bytes.len() <= BYTES_MAX / 2;
        if gives_room {
            state.is_full = false;
        }
        self.note(state);
        Some(Taken { bytes, gives_room })
    }

    /// No more bytes come.
    pub(super) fn end(&self) {
        let mut state = self.lock();
        state.ended = true;
        self.note(state);
    }

    /// Nobody reads any more.
    pub(super) fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        state.bytes = VecDeque::new();
        self.note(state);
    }

    /// Tells what the change means to the other side.
    fn note(&self, mut state: MutexGuard<'_, State>) {
        self.ready.store(!state.bytes.is_empty() || state.ended, Ordering::Release);
        let sleeps = std::mem::take(&mut state.sleeps);
        drop(state);
        if sleeps {
            self.changed.notify_all();
        }
    }

    /// Waits until there is what is wanted; false if the time is over first.
    pub(super) fn wait(&self, wanted: Wanted, until: Option<Instant>) -> bool {
        let mut state = self.lock();
        loop {
            let is_there = match wanted {
                Wanted::Bytes => !state.bytes.is_empty() || state.ended,
                Wanted::Room => !state.is_full || state.closed,
            };
            if is_there {
                return true;
            }
            state.sleeps = true;
            state = match until {
                None => self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
                Some(until) => {
                    let left = until.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        return false;
                    }
                    let waited = self.changed.wait_timeout(state, left);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
    }
}
