//! Commits on their way into the log.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard};

use crate::{Journal, Writes};
use stillframe_durability::Log;

use super::record;

/// Where the engine's commits go. While a state is recovered there is no log, and they go nowhere.
#[derive(Debug)]
pub struct Commits {
    log: RwLock<Option<Log>>,
    /// Added to the numbers of the engine's images, which begin anew with each process. Stored
    /// before any worker is there, so relaxed.
    base: AtomicU64,
    lanes: Box<[Mutex<Lane>]>,
    /// Whether `failures` has a reason. Stored under its lock.
    has_failed: AtomicBool,
    failures: Mutex<Failures>,
}

/// How the log has failed.
#[derive(Debug, Default)]
struct Failures {
    /// Of the first one, until another log has what that one lacks.
    reason: Option<String>,
    /// How many calls have failed.
    count: u64,
}

/// What one worker needs of its own.
#[derive(Debug, Default)]
struct Lane {
    bytes: Vec<u8>,
    outcome: Outcome,
}

/// What became of the record of a worker's last transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Outcome {
    /// It wrote nothing.
    #[default]
    Nothing,
    /// Its number in the log.
    Logged(u64),
    /// The log has not taken it, but the state in memory has.
    Lost,
}

impl Commits {
    /// For so many workers.
    pub(crate) fn new(workers: usize) -> Self {
        Self {
            log: RwLock::new(None),
            base: AtomicU64::new(0),
            lanes: (0..workers).map(|_| Mutex::default()).collect(),
            has_failed: AtomicBool::new(false),
            failures: Mutex::default(),
        }
    }

    fn lane(&self, worker: usize) -> MutexGuard<'_, Lane> {
        // Nothing panics between the statements that it guards.
        self.lanes[worker].lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn log(&self) -> RwLockReadGuard<'_, Option<Log>> {
        self.log.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on commits go into this log. Returns the one before.
    pub(crate) fn change_log(&self, log: Log) -> Option<Log> {
        self.log.write().unwrap_or_else(PoisonError::into_inner).replace(log)
    }

    /// Looks at the log.
    pub(crate) fn with_log<T>(&self, look: impl FnOnce(&Log) -> T) -> Option<T> {
        self.log().as_ref().map(look)
    }

    /// The number of an image of the engine, which counts from 0, over all processes: from 1.
    pub(crate) fn number(&self, image: u64) -> u64 {
        self.base.load(Ordering::Relaxed) + image + 1
    }

    /// Numbers begin behind this one.
    pub(crate) fn begin_behind(&self, number: u64) {
        self.base.store(number, Ordering::Relaxed);
    }

    /// Forgets a worker's last transaction.
    pub(crate) fn start(&self, worker: usize) {
        self.lane(worker).outcome = Outcome::Nothing;
    }

    /// What became of it.
    pub(crate) fn outcome(&self, worker: usize) -> Outcome {
        self.lane(worker).outcome
    }

    fn failures(&self) -> MutexGuard<'_, Failures> {
        self.failures.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// No transaction runs until [`heal`](Self::heal).
    fn fail(&self, error: &stillframe_durability::Error) {
        let mut failures = self.failures();
        failures.count += 1;
        failures.reason.get_or_insert_with(|| error.to_string());
        self.has_failed.store(true, Ordering::Release);
    }

    /// How many calls of a log have failed, if it is failing.
    pub(crate) fn failed(&self) -> Option<u64> {
        let failures = self.failures();
        failures.reason.is_some().then_some(failures.count)
    }

    /// Another log has what that one lacked, unless more calls have failed since it was begun.
    pub(crate) fn heal(&self, count: u64) {
        let mut failures = self.failures();
        if failures.count == count {
            failures.reason = None;
            self.has_failed.store(false, Ordering::Release);
        }
    }

    /// Why no transaction runs.
    pub(crate) fn failure(&self) -> Option<String> {
        let has_failed = self.has_failed.load(Ordering::Acquire);
        has_failed.then(|| self.failures().reason.clone()).flatten()
    }

    /// Waits until the records up to this one are durable.
    pub(crate) fn wait(&self, sequence: u64) -> Result<(), stillframe_durability::Error> {
        let Some(handle) = self.with_log(Log::handle) else { return Ok(()) };
        // Not under the lock: a log that failed is changed meanwhile.
        handle.wait_durable(sequence).inspect_err(|error| {
            // A ticket of another state says nothing of this log.
            if !matches!(error, stillframe_durability::Error::NoSuchRecord { .. }) {
                self.fail(error);
            }
        })
    }
}

impl Journal for Commits {
    fn commit(
        &self,
        worker: usize,
        image: u64,
        writes: &Writes<'_>,
        _touched: impl Iterator<Item = usize>,
    ) {
        let log = self.log();
        let Some(log) = log.as_ref() else { return };
        let mut lane = self.lane(worker);
        lane.bytes.clear();
        lane.bytes.extend_from_slice(&self.number(image).to_le_bytes());
        for (record, words) in writes.iter() {
            record::push(&mut lane.bytes, record, words);
        }
        lane.outcome = match log.append(&lane.bytes) {
            Ok(sequence) => Outcome::Logged(sequence),
            Err(error) => {
                self.fail(&error);
                Outcome::Lost
            }
        };
    }
}
