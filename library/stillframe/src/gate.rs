//! The gate before what the words of an image refer to: objects that a reader looks at, and that
//! the writer frees once nobody can.
//!
//! - A reader is within from the call of [`Gate::enter`] on until it drops what it got. Once the
//!   gate is shut nobody enters, and when the last one has left, the writer may free.
//! - Edge of synchronisation: a reader leaves with Release, the writer looks with Acquire. What
//!   readers did happens before what the writer does then.
//! - One word holds the count and the shutting, so each order of an entry and the shutting is seen
//!   by both: a reader that counted itself first is waited for, one that came later has seen that
//!   it must leave again.

use crate::mutant::{Mutant, Mutation};
use crate::sync::{AtomicUsize, Backoff, Ordering};

/// Counts readers, for a writer that never waits for them.
#[derive(Debug)]
pub struct Gate {
    /// Readers, and [`SHUT`].
    state: AtomicUsize,
    mutation: Mutation,
}

const SHUT: usize = 1 << (usize::BITS - 1);

/// A reader that is within; it leaves when this is dropped.
#[derive(Debug)]
pub struct Within<'a>(&'a Gate);

impl Default for Gate {
    fn default() -> Self {
        Self { state: AtomicUsize::new(0), mutation: Mutation::current() }
    }
}

impl Gate {
    /// Lets a reader in; `None` once the gate is shut.
    #[must_use]
    pub fn enter(&self) -> Option<Within<'_>> {
        if self.mutation.is(Mutant::GateLooksBeforeItCounts) {
            let is_open = !self.is_shut();
            return is_open.then(|| self.count());
        }
        let within = self.count();
        (!self.is_shut() || self.mutation.is(Mutant::GateStaysOpen)).then_some(within)
    }

    // Relaxed: what a reader looks at was handed to it with the gate.
    fn count(&self) -> Within<'_> {
        self.state.fetch_add(1, Ordering::Relaxed);
        Within(self)
    }

    /// Lets nobody in from now on.
    pub fn shut(&self) {
        self.state.fetch_or(SHUT, Ordering::Relaxed);
    }

    /// Whether the gate is shut.
    #[must_use]
    pub fn is_shut(&self) -> bool {
        self.state.load(Ordering::Relaxed) & SHUT != 0
    }

    /// Whether the gate is shut and all have left: nobody looks at anything any more.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        let relaxed = self.mutation.is(Mutant::GateEmptyRelaxed);
        let order = if relaxed { Ordering::Relaxed } else { Ordering::Acquire };
        let state = self.state.load(order);
        state == SHUT || self.mutation.is(Mutant::GateForgetsReaders) && state & SHUT != 0
    }

    /// Shuts the gate and waits until all have left.
    pub fn clear(&self) {
        self.shut();
        let mut backoff = Backoff::default();
        while !self.is_empty() {
            backoff.wait();
        }
    }
}

impl Drop for Within<'_> {
    fn drop(&mut self) {
        let relaxed = self.0.mutation.is(Mutant::GateLeavesRelaxed);
        let order = if relaxed { Ordering::Relaxed } else { Ordering::Release };
        self.0.state.fetch_sub(1, order); // partner: `is_empty`
    }
}
