//! The thread that writes the log, with group commit: while the disk is busy with one batch, the
//! application fills the next.
//!
//! - The lock is taken to move bytes in memory, never during a call of the disk.
//! - A record counts as durable when a sync that began after it was written has succeeded.
//! - The first error poisons the log: waiting records are given up, every later call returns that
//!   error, and nothing more becomes durable.
//! - Records that wait for the disk are bounded by `waiting_bytes_max`, or one record.

mod steps;
mod thread;

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use super::options::{LogOptions, Policy};
use super::writer::Writer;
use crate::clock::now_ms;
use crate::error::Error;
use crate::mutant::Mutation;
use crate::stats::LogStats;
use steps::Steps;
use thread::Thread;

/// A log that a thread of its own writes, or its owner [step by step](Steps). When dropped, it
/// first writes and syncs what it has.
#[derive(Debug)]
pub(crate) struct Logger {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    steps: Option<Box<Mutex<Steps>>>,
}

#[derive(Debug)]
pub(crate) struct Shared {
    options: LogOptions,
    /// All records up to this one are on the disk. Stored under the lock; a relaxed load elsewhere
    /// may be late, and promises nothing else.
    durable: AtomicU64,
    state: Mutex<State>,
    /// There is work for the logger.
    work: Condvar,
    /// Memory was freed, or records became durable, or none will.
    done: Condvar,
}

#[derive(Debug)]
struct State {
    policy: Policy,
    waiting: Batch,
    /// Bytes of records that are not in the file yet, those that the logger has taken included.
    held_bytes: usize,
    /// Number of the last record.
    last: u64,
    /// Its time.
    time_ms: u64,
    /// A thread waits until the records up to this one are durable.
    wanted: u64,
    /// Whether the logger waits for `work`, and whether any thread waits for `done`.
    is_idle: bool,
    waiters: usize,
    is_closed: bool,
    failed: Option<Arc<Error>>,
    stats: LogStats,
}

/// Records in memory.
#[derive(Debug, Default)]
struct Batch {
    bytes: Vec<u8>,
    /// Time of each record, and where it ends.
    ends: Vec<(u64, usize)>,
}

impl State {
    /// Gives the records that wait for those of a batch that is done with.
    fn hand_over(&mut self, batch: &mut Batch) {
        std::mem::swap(batch, &mut self.waiting);
        if !batch.ends.is_empty() {
            self.stats.batches += 1;
        }
    }
}

impl Batch {
    fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }
}

impl Logger {
    /// Writes to `writer`, whose last record was added at `time_ms`.
    pub(crate) fn start(writer: Writer, time_ms: u64, options: LogOptions) -> io::Result<Self> {
        let last = writer.last();
        let state = State {
            policy: options.policy,
            waiting: Batch::default(),
            held_bytes: 0,
            last,
            time_ms,
            wanted: 0,
            is_idle: false,
            waiters: 0,
            is_closed: false,
            failed: None,
            stats: LogStats::default(),
        };
        let shared = Arc::new(Shared {
            options,
            durable: AtomicU64::new(last),
            state: Mutex::new(state),
            work: Condvar::new(),
            done: Condvar::new(),
        });
        let (synced_at, mutation) = (Instant::now(), Mutation::current());
        let thread = Thread { shared: Arc::clone(&shared), synced_at, mutation };
        if writer.sync_time().is_some() {
            let steps = Some(Box::new(Mutex::new(Steps::new(thread, writer))));
            return Ok(Self { shared, thread: None, steps });
        }
        let thread = Builder::new().name("logger".into()).spawn(move || thread.run(writer))?;
        Ok(Self { shared, thread: Some(thread), steps: None })
    }

    /// Writes what waits; returns how long its sync is to take. `None`: a thread does so.
    pub(crate) fn write_waiting(&self) -> Option<Duration> {
        self.steps().map(|mut steps| steps.write())
    }

    /// Syncs what is written; nothing if a thread does so.
    pub(crate) fn sync_written(&self) {
        if let Some(mut steps) = self.steps() {
            steps.sync();
        }
    }

    fn steps(&self) -> Option<MutexGuard<'_, Steps>> {
        let steps = self.steps.as_ref()?;
        Some(steps.lock().unwrap_or_else(PoisonError::into_inner)) // only a test's disk panics
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// Writes and syncs what is there, and ends.
    pub(crate) fn close(&mut self) -> Result<(), Error> {
        self.end();
        let state = self.shared.lock();
        state.failed.as_ref().map_or(Ok(()), |failed| Err(self.shared.poisoned(failed)))
    }

    fn end(&mut self) {
        self.shared.lock().is_closed = true;
        self.shared.work.notify_all();
        if let Some(mut steps) = self.steps() {
            steps.write();
            steps.sync();
        }
        if let Some(thread) = self.thread.take() {
            let _ = thread.join(); // a panic of its has poisoned the log
        }
    }
}

impl Drop for Logger {
    fn drop(&mut self) {
        self.end();
    }
}

impl Shared {
    /// Adds a record; returns its number. Waits if too many wait for the disk.
    pub(crate) fn append(&self, action: &[u8]) -> Result<u64, Error> {
        self.append_all([[action, &[]]].into_iter())
    }

    /// Adds records, each of two parts, under one lock; returns the number of the last. Waits first
    /// if too many wait for the disk.
    pub(crate) fn append_all<'a>(
        &self,
        actions: impl Iterator<Item = [&'a [u8]; 2]> + Clone,
    ) -> Result<u64, Error> {
        let mut bytes = 0_usize;
        for [head, rest] in actions.clone() {
            let length = head.len().saturating_add(rest.len());
            if u32::try_from(length).is_err() {
                return Err(Error::ActionTooLong { bytes: length });
            }
            bytes = bytes.saturating_add(length);
        }
        let now = now_ms();
        let mut state = self.lock();
        let most = self.options.waiting_bytes_max;
        let is_full = |held: usize| held > 0 && held.saturating_add(bytes) > most;
        if is_full(state.held_bytes) {
            state.stats.waits += 1;
            let started = Instant::now();
            self.work.notify_one(); // it may be waiting for more
            while is_full(state.held_bytes) && state.failed.is_none() {
                state = self.wait_done(state, Duration::MAX);
            }
            state.stats.wait_time += started.elapsed();
        }
        if let Some(failed) = &state.failed {
            return Err(self.poisoned(failed));
        }
        state.time_ms = state.time_ms.max(now);
        state.held_bytes += bytes;
        state.stats.bytes += bytes as u64;
        let time_ms = state.time_ms;
        let before = state.waiting.ends.len();
        for [head, rest] in actions {
            state.waiting.bytes.extend_from_slice(head);
            state.waiting.bytes.extend_from_slice(rest);
            let end = state.waiting.bytes.len();
            state.waiting.ends.push((time_ms, end));
        }
        let records = state.waiting.ends.len();
        let new = (records - before) as u64;
        state.last += new;
        state.stats.records += new;
        let last = state.last;
        // One record starts a batch, and enough end it.
        let is_work = before == 0 && records > 0 || records >= self.options.batch_records;
        let wake = is_work && std::mem::take(&mut state.is_idle);
        drop(state);
        if wake {
            self.work.notify_one();
        }
        Ok(last)
    }

    /// Hurries the records up to `sequence` to the disk, and returns when they are durable.
    pub(crate) fn wait_durable(&self, sequence: u64) -> Result<(), Error> {
        self.is_durable_within(sequence, Duration::MAX).map(drop)
    }

    /// The same, for so long at most; whether they are durable.
    pub(crate) fn is_durable_within(&self, sequence: u64, limit: Duration) -> Result<bool, Error> {
        if self.durable() >= sequence {
            return Ok(true);
        }
        let started = Instant::now();
        let mut state = self.lock();
        if sequence > state.last {
            return Err(Error::NoSuchRecord { sequence, last: state.last });
        }
        state.wanted = state.wanted.max(sequence);
        self.work.notify_one();
        loop {
            if self.durable() >= sequence {
                return Ok(true);
            }
            if let Some(failed) = &state.failed {
                return Err(self.poisoned(failed));
            }
            let left = limit.saturating_sub(started.elapsed());
            if left.is_zero() {
                return Ok(false);
            }
            state = self.wait_done(state, left);
        }
    }

    /// Hurries the records up to `sequence` to the disk, and waits for nothing.
    pub(crate) fn hurry(&self, sequence: u64) {
        let mut state = self.lock();
        state.wanted = state.wanted.max(sequence.min(state.last));
        drop(state);
        self.work.notify_one();
    }

    /// Makes records durable by `policy` from now on, those that already wait included.
    pub(crate) fn set_policy(&self, policy: Policy) {
        let mut state = self.lock();
        state.policy = policy;
        if policy != Policy::No {
            state.wanted = state.wanted.max(state.last);
        }
        drop(state);
        self.work.notify_one();
    }

    /// The number of the last record that is known to be durable.
    pub(crate) fn durable(&self) -> u64 {
        self.durable.load(Ordering::Relaxed)
    }

    /// Number and time of the last record.
    pub(crate) fn last(&self) -> (u64, u64) {
        let state = self.lock();
        (state.last, state.time_ms)
    }

    pub(crate) fn stats(&self) -> LogStats {
        let state = self.lock();
        let durable = self.durable();
        LogStats {
            last: state.last,
            durable,
            lag: state.last - durable,
            waiting_bytes: state.held_bytes,
            failed: state.failed.as_ref().map(|failed| failed.to_string()),
            ..state.stats.clone()
        }
    }

    fn poisoned(&self, source: &Arc<Error>) -> Error {
        Error::LogFailed { durable: self.durable(), source: Arc::clone(source) }
    }

    fn wait_done<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
        limit: Duration,
    ) -> MutexGuard<'a, State> {
        state.waiters += 1;
        let woken = self.done.wait_timeout(state, limit);
        let mut state = woken.unwrap_or_else(PoisonError::into_inner).0;
        state.waiters -= 1;
        state
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A poisoned lock is taken anyway: nothing panics between the statements it guards.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn fail(&self, error: Error) {
        let error = Arc::new(error);
        let mut state = self.lock();
        state.waiting = Batch::default();
        state.held_bytes = 0;
        state.failed = Some(Arc::clone(&error));
        drop(state);
        self.done.notify_all();
        if let Some(on_durable) = &self.options.on_durable {
            on_durable.call(Err(&error));
        }
    }
}
