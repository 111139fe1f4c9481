//! Work that two threads may find at the same time and one of them must do: a state for each item,
//! claimed by compare-and-swap.
//!
//! - C1: in one image an item is claimed once. Its claimer owns what the item stands for until
//!   it finishes; the other thread waits, for a time bounded by one item's work.
//! - C2: what the claimer did happens before anything that a thread does after it has found the
//!   item finished.
//! - C3: a state names its image, and images are numbered upwards: begin resets nothing. For an
//!   image that has ended, every item counts as finished.

use crate::error::MemoryError;
use crate::handover::Handover;
use crate::memory::Words;
use crate::mutant::Mutant;
use crate::options::Options;
use crate::os::Shared;
use crate::sync::{Backoff, Ordering};

/// One state an item: `epoch << 1 | finished`.
#[derive(Debug)]
pub(crate) struct Claims {
    states: Words,
    handover: Shared<Handover>,
}

/// The answer to a claim of an item's work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Claim {
    /// The caller does it, then calls [`Claims::finish`].
    Mine,
    /// Another thread is at it.
    Theirs,
    /// It is done.
    Finished,
}

const FINISHED: u64 = 1;

impl Claims {
    /// States of `options.words` items.
    pub(crate) fn create(
        options: &Options,
        handover: &Shared<Handover>,
    ) -> Result<Self, MemoryError> {
        Ok(Self { states: Words::create(options)?, handover: handover.clone() })
    }

    pub(crate) fn grow(&mut self, items: usize) -> Result<(), MemoryError> {
        self.states.grow(items)
    }

    /// The same states for another thread.
    pub(crate) fn view(&self) -> Self {
        Self { states: self.states.view(), handover: self.handover.clone() }
    }

    /// Whether this build makes a mistake on purpose.
    pub(crate) fn is(&self, mutant: Mutant) -> bool {
        self.handover.is(mutant)
    }

    /// Claims an item in image `epoch`.
    ///
    /// The swap itself orders nothing: what the claimer is about to touch was left alone by the
    /// other thread since begin, whose edge both have passed (the writer by doing it). The loads
    /// acquire: partner of [`finish`](Self::finish), C2 (`litmus/claim`).
    pub(crate) fn claim(&self, item: usize, epoch: u64) -> Claim {
        let (state, epoch) = (self.states.word(item), self.number(epoch));
        let seen = state.load(Ordering::Acquire);
        if self.is(Mutant::AsyncForkCopiesUnclaimed) {
            return if seen == epoch << 1 | FINISHED { Claim::Finished } else { Claim::Mine };
        }
        let found = if seen >> 1 > epoch {
            return Claim::Finished; // the caller comes late, for an image that has ended
        } else if seen >> 1 == epoch {
            seen
        } else {
            let (relaxed, acquire) = (Ordering::Relaxed, Ordering::Acquire);
            match state.compare_exchange(seen, epoch << 1, relaxed, acquire) {
                Ok(_) => return Claim::Mine,
                Err(found) => found,
            }
        };
        if found & FINISHED == 0 { Claim::Theirs } else { Claim::Finished }
    }

    /// The caller's work on an item is done. Release: partner of [`claim`](Self::claim).
    pub(crate) fn finish(&self, item: usize, epoch: u64) {
        let relaxed = self.is(Mutant::AsyncForkRelaxedCopied);
        let order = if relaxed { Ordering::Relaxed } else { Ordering::Release };
        self.states.word(item).store(self.number(epoch) << 1 | FINISHED, order);
    }

    /// What a state says of its image: all of the number, unless this build makes a mistake.
    fn number(&self, epoch: u64) -> u64 {
        if self.is(Mutant::ClaimsWrap) { epoch & 0xffff } else { epoch }
    }

    /// Waits until the claimer of an item has finished.
    pub(crate) fn wait(&self, item: usize, epoch: u64) {
        let mut backoff = Backoff::default();
        while self.claim(item, epoch) == Claim::Theirs {
            backoff.wait();
        }
    }
}
