//! The number of the present epoch, and who installs a commit in which.
//!
//! A worker announces the epoch in which it installs, then looks whether the epoch is still the
//! present one. A thread that begins an image makes the next epoch the present one, then looks who
//! has announced the old one. A full fence stands between the store and the load of each side, so
//! one of the two sees the other (Dekker): Release and Acquire alone let both miss.
//!
//! Conflicting commits have epochs in their order: the first read its epoch before it released its
//! locks, the second reads the present epoch after it has taken one of them, and the present epoch
//! only rises. So the commits of all epochs up to one are a prefix of the serial order.

use crate::mutant::{Mutant, Mutation};
use crate::sync::{AtomicU64, Backoff, Line, Ordering, fence};

/// Announced by a worker that installs nothing.
const IDLE: u64 = u64::MAX;

/// The present epoch, and what each worker has announced.
#[derive(Debug)]
pub struct Epochs {
    now: Line<AtomicU64>,
    announced: Box<[Line<AtomicU64>]>,
    mutation: Mutation,
}

/// A worker's announcement, until dropped.
#[derive(Debug)]
pub struct Section<'e> {
    slot: &'e AtomicU64,
    /// The epoch that was announced.
    pub epoch: u64,
}

impl Drop for Section<'_> {
    fn drop(&mut self) {
        self.slot.store(IDLE, Ordering::Release);
    }
}

impl Epochs {
    /// Epoch 0, in which none of so many workers installs.
    #[must_use]
    pub fn new(workers: usize) -> Self {
        let idle = || Line(AtomicU64::new(IDLE));
        Self {
            now: Line(AtomicU64::new(0)),
            announced: (0..workers).map(|_| idle()).collect(),
            mutation: Mutation::current(),
        }
    }

    /// The present epoch. Acquire: what was stored before it was made present is seen.
    #[must_use]
    pub fn now(&self) -> u64 {
        self.now.0.load(Ordering::Acquire)
    }

    /// Announces that `worker` installs in the present epoch, where `open` says that an epoch lets
    /// it; waits for one that does.
    pub fn enter(&self, worker: usize, open: impl Fn(u64) -> bool) -> Section<'_> {
        let slot = &self.announced[worker].0;
        let mut backoff = Backoff::default();
        loop {
            let epoch = self.now();
            if !open(epoch) {
                backoff.wait();
                continue;
            }
            slot.store(epoch, Ordering::Release);
            if !self.mutation.is(Mutant::EpochAnnouncesByReleaseAlone) {
                fence(Ordering::SeqCst);
            }
            if self.now() == epoch || self.mutation.is(Mutant::EpochIsNotReadAgain) {
                return Section { slot, epoch };
            }
            slot.store(IDLE, Ordering::Release);
        }
    }

    /// Makes `epoch` the present one.
    pub fn set(&self, epoch: u64) {
        self.now.0.store(epoch, Ordering::Release);
        if !self.mutation.is(Mutant::EpochAnnouncesByReleaseAlone) {
            fence(Ordering::SeqCst);
        }
    }

    /// Waits until no worker installs in an epoch for which `old` holds. What those have installed
    /// is seen afterwards.
    pub fn drain(&self, old: impl Fn(u64) -> bool) {
        for slot in &self.announced {
            let mut backoff = Backoff::default();
            loop {
                let epoch = slot.0.load(Ordering::Acquire);
                if epoch == IDLE || !old(epoch) {
                    break;
                }
                backoff.wait();
            }
        }
    }
}
