//! The engine: workers that run transactions, and images of what they have committed.

use crate::contract::{CaptureError, Concurrent, Journal, Records};
use crate::locks::{Conflict, Deadlock, Locks};
use crate::mutant::Mutation;
use crate::settings::Settings;
use crate::shape::{CreateError, Shape};
use crate::sync::{AtomicBool, AtomicU64, Backoff, Line, Mutex, Ordering};
use crate::transaction::{Core, Scratch, Transaction};

/// Why a transaction's closure ends without a commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop<E> {
    /// A record is locked by another transaction: run again.
    Conflict(Conflict),
    /// The closure wants no commit: nothing it wrote happens.
    Abort(E),
}

impl<E> From<Conflict> for Stop<E> {
    fn from(conflict: Conflict) -> Self {
        Self::Conflict(conflict)
    }
}

/// No image could be begun.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ImageError {
    /// One is under way.
    #[error("an image is under way; the next one can begin when it has ended")]
    UnderWay,
}

/// No worker could be had.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("all {workers} workers are in use; create the engine with more")]
pub struct NoWorker {
    /// Workers of the engine.
    pub workers: usize,
}

/// Records that transactions on several threads read and write, one after the other as far as
/// anybody can tell (strict two-phase locking), and images of the state between two of them.
#[derive(Debug)]
pub struct Engine<A: Concurrent, J: Journal = ()> {
    core: Core<A, J>,
    ages: Line<AtomicU64>,
    workers: usize,
    free: Mutex<Vec<usize>>,
    imaging: AtomicBool,
}

impl<A: Concurrent> Engine<A> {
    /// State of absent records, without a journal.
    ///
    /// # Errors
    /// [`CreateError`] when the memory cannot be had.
    pub fn create(settings: Settings) -> Result<Self, CreateError> {
        Self::with_journal(settings, ())
    }
}

impl<A: Concurrent, J: Journal> Engine<A, J> {
    /// State of absent records, whose commits `journal` is told.
    ///
    /// # Errors
    /// [`CreateError`] when the memory cannot be had.
    pub fn with_journal(settings: Settings, journal: J) -> Result<Self, CreateError> {
        let Settings { shape, workers, deadlock, .. } = settings;
        Ok(Self {
            core: Core {
                state: A::create(&settings)?,
                journal,
                locks: Locks::new(shape.records, deadlock)?,
                shape,
                split: shape.split(),
                mutation: Mutation::current(),
            },
            ages: Line(AtomicU64::new(1)),
            workers,
            free: Mutex::new((0..workers).rev().collect()),
            imaging: AtomicBool::new(false),
        })
    }

    /// The layout of the state.
    pub fn shape(&self) -> Shape {
        self.core.shape
    }

    /// What is told of each commit.
    pub fn journal(&self) -> &J {
        &self.core.journal
    }

    /// A worker, for one thread at a time.
    ///
    /// # Errors
    /// [`NoWorker`] when all are in use.
    pub fn worker(&self) -> Result<Worker<'_, A, J>, NoWorker> {
        let index = self.free().pop().ok_or(NoWorker { workers: self.workers })?;
        let random = index as u64 + 1;
        Ok(Worker { engine: self, index, scratch: Scratch::default(), random, conflicts: 0 })
    }

    /// Runs one transaction by a worker of its own; threads that run many keep a
    /// [`worker`](Self::worker).
    ///
    /// # Errors
    /// What the closure [aborted](Stop::Abort) with. Panics when all workers are in use.
    pub fn run<T, E>(
        &self,
        body: impl FnMut(&mut Transaction<'_, A, J>) -> Result<T, Stop<E>>,
    ) -> Result<T, E> {
        self.worker().unwrap_or_else(|error| panic!("{error}")).run(body)
    }

    /// Fixes the image of this moment, from any thread: the state after all commits of a prefix of
    /// their order. Waits for the commits that are being installed, never for an open transaction.
    ///
    /// # Errors
    /// [`ImageError::UnderWay`] until the image before has been dropped.
    pub fn begin(&self) -> Result<Image<'_, A, J>, ImageError> {
        if self.imaging.swap(true, Ordering::Acquire) {
            return Err(ImageError::UnderWay);
        }
        let number = self.core.state.begin();
        Ok(Image { engine: self, number, kept: false })
    }

    #[cfg(all(test, not(feature = "loom"), not(feature = "shuttle")))]
    pub(crate) fn state(&self) -> &A {
        &self.core.state
    }

    fn free(&self) -> impl std::ops::DerefMut<Target = Vec<usize>> {
        // A push or a pop that panicked left the list as it was.
        self.free.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// Runs transactions, one after the other.
#[derive(Debug)]
pub struct Worker<'e, A: Concurrent, J: Journal = ()> {
    engine: &'e Engine<A, J>,
    index: usize,
    scratch: Scratch,
    random: u64,
    conflicts: u64,
}

impl<A: Concurrent, J: Journal> Worker<'_, A, J> {
    /// Runs a transaction until it commits or its closure aborts it. After a conflict the closure
    /// runs again, whatever it returned, so it must do nothing that cannot be done twice. A panic
    /// of the closure aborts the transaction, releases its locks and goes on; the worker can be
    /// used again.
    ///
    /// # Errors
    /// What the closure [aborted](Stop::Abort) with.
    pub fn run<T, E>(
        &mut self,
        mut body: impl FnMut(&mut Transaction<'_, A, J>) -> Result<T, Stop<E>>,
    ) -> Result<T, E> {
        let age = match self.engine.core.locks.deadlock {
            Deadlock::NoWait => 1,
            // One count for all: a transaction that runs again becomes the oldest in the end.
            Deadlock::WaitDie => self.engine.ages.0.fetch_add(1, Ordering::Relaxed),
        };
        let age = age.min(Locks::YOUNGEST);
        for attempt in 0.. {
            let mut tx = Transaction::new(&self.engine.core, self.index, age, &mut self.scratch);
            match body(&mut tx) {
                Ok(value) => {
                    if tx.commit() {
                        return Ok(value);
                    }
                }
                // It saw what it had not locked: what it makes of that counts for nothing.
                Err(Stop::Abort(reason)) if !tx.is_refused() => return Err(reason),
                Err(Stop::Abort(_) | Stop::Conflict(_)) => drop(tx),
            }
            self.conflicts += 1;
            self.back_off(attempt);
        }
        unreachable!("a transaction runs again until it ends")
    }

    /// Its number, which a [`Journal`] is told: below [`Settings::workers`].
    #[must_use]
    pub fn number(&self) -> usize {
        self.index
    }

    /// How often a transaction of this worker had to run again.
    #[must_use]
    pub fn conflicts(&self) -> u64 {
        self.conflicts
    }

    /// Waits at random, longer after each attempt, so that two that met do not meet again.
    fn back_off(&mut self, attempt: u32) {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        let mut backoff = Backoff::default();
        for _ in 0..=self.random % (1 << attempt.min(6)) {
            backoff.wait();
        }
    }
}

impl<A: Concurrent, J: Journal> Worker<'_, A, J> {
    /// A hint: the next transaction is about to write a record. Many given ahead are on their way
    /// at the same time, where a transaction waits for one after the other.
    pub fn prefetch(&self, record: usize) {
        self.engine.core.prefetch(record);
    }
}

impl<A: Concurrent, J: Journal> Drop for Worker<'_, A, J> {
    fn drop(&mut self) {
        self.engine.free().push(self.index);
    }
}

/// An image of the state. Dropped, it ends; transactions never wait for it.
#[derive(Debug)]
pub struct Image<'e, A: Concurrent, J: Journal = ()> {
    engine: &'e Engine<A, J>,
    number: u64,
    kept: bool,
}

impl<A: Concurrent, J: Journal> Image<'_, A, J> {
    /// Its number: the image holds the commits that a [`Journal`] was told with this number or a
    /// lower one.
    #[must_use]
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Pushes the image into a sink and ends it.
    ///
    /// # Errors
    /// [`CaptureError`]. An increment that was not kept is part of the next one.
    pub fn capture<S: Records>(mut self, sink: &mut S) -> Result<(), CaptureError<S::Error>> {
        self.engine.core.state.capture(self.number, sink)?;
        sink.finish()?;
        self.kept = true;
        Ok(())
    }
}

impl<A: Concurrent, J: Journal> Drop for Image<'_, A, J> {
    fn drop(&mut self) {
        self.engine.core.state.settle(self.number, self.kept);
        self.engine.imaging.store(false, Ordering::Release);
    }
}
