//! Who waits for records to become durable.

use std::collections::VecDeque;
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};

use openraft::RaftTypeConfig;
use openraft::storage::LogFlushed;
use tokio::sync::{Notify, oneshot};

/// Waits for a record.
pub(crate) enum Waiter<C: RaftTypeConfig> {
    /// Openraft, with entries.
    Flushed(LogFlushed<C>),
    /// A method of the log.
    Told(oneshot::Sender<Result<(), String>>),
}

/// The queue, which the thread of the log serves after each sync.
pub(crate) struct Pending<C: RaftTypeConfig> {
    queue: Mutex<Queue<C>>,
    /// There is room again.
    room: Notify,
}

struct Queue<C: RaftTypeConfig> {
    /// Record, bytes, waiter: rising.
    waiters: VecDeque<(u64, usize, Waiter<C>)>,
    bytes: usize,
    failed: Option<String>,
}

impl<C: RaftTypeConfig> Waiter<C> {
    fn complete(self, result: Result<(), &str>) {
        match self {
            Self::Flushed(flushed) => flushed.log_io_completed(result.map_err(io::Error::other)),
            // The one that asked may have gone.
            Self::Told(told) => drop(told.send(result.map_err(str::to_owned))),
        }
    }
}

impl<C: RaftTypeConfig> Default for Pending<C> {
    fn default() -> Self {
        let queue = Queue { waiters: VecDeque::new(), bytes: 0, failed: None };
        Self { queue: Mutex::new(queue), room: Notify::new() }
    }
}

impl<C: RaftTypeConfig> Pending<C> {
    /// Returns when fewer than `most` bytes wait.
    pub(crate) async fn room(&self, most: usize) {
        loop {
            let notified = self.room.notified();
            if self.has_room(most) {
                return;
            }
            notified.await;
        }
    }

    fn has_room(&self, most: usize) -> bool {
        let queue = self.lock();
        queue.bytes < most || queue.failed.is_some()
    }

    /// Waits for a record of so many bytes, the last one so far.
    pub(crate) fn add(&self, sequence: u64, bytes: usize, waiter: Waiter<C>) {
        let mut queue = self.lock();
        if let Some(reason) = queue.failed.clone() {
            drop(queue);
            return waiter.complete(Err(&reason));
        }
        queue.bytes += bytes;
        queue.waiters.push_back((sequence, bytes, waiter));
    }

    /// All records up to `durable` are durable.
    pub(crate) fn settle(&self, durable: u64) {
        // Told in order: another thread may be settling.
        let mut queue = self.lock();
        while queue.waiters.front().is_some_and(|&(sequence, ..)| sequence <= durable) {
            let Some((_, bytes, waiter)) = queue.waiters.pop_front() else { break };
            queue.bytes -= bytes;
            waiter.complete(Ok(()));
        }
        drop(queue);
        self.room.notify_one();
    }

    /// Nothing more becomes durable.
    pub(crate) fn fail(&self, reason: &str) {
        let mut queue = self.lock();
        queue.failed = Some(reason.to_owned());
        queue.bytes = 0;
        for (.., waiter) in std::mem::take(&mut queue.waiters) {
            waiter.complete(Err(reason));
        }
        drop(queue);
        self.room.notify_one();
    }

    fn lock(&self) -> MutexGuard<'_, Queue<C>> {
        // Taken though poisoned: it is whole between statements.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
