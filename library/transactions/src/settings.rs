//! How an engine is made.

use stillframe::OnFull;

use crate::locks::Deadlock;
use crate::shape::Shape;

/// How an engine is made.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Settings {
    /// The layout of the state.
    pub shape: Shape,
    /// Most threads that run transactions at once.
    pub workers: usize,
    /// What a transaction does about a locked record.
    pub deadlock: Deadlock,
    /// Most bytes for before-images, where an algorithm keeps any.
    pub budget_bytes: usize,
    /// What happens when they are used up.
    pub on_full: OnFull,
}

impl Settings {
    /// A number of records of a number of words, for 16 workers. Before-images take what they need,
    /// which is a copy of the state and two words a record at most.
    #[must_use]
    pub fn new(records: usize, words: usize) -> Self {
        let shape = Shape { records, words };
        let (deadlock, on_full) = (Deadlock::default(), OnFull::Cancel);
        Self { shape, workers: 16, deadlock, budget_bytes: usize::MAX, on_full }
    }
    /// Most threads that run transactions at once.
    #[must_use]
    pub fn workers(mut self, workers: usize) -> Self {
        self.workers = workers;
        self
    }
    /// What a transaction does about a locked record.
    #[must_use]
    pub fn deadlock(mut self, deadlock: Deadlock) -> Self {
        self.deadlock = deadlock;
        self
    }
    /// Most bytes for before-images, in steps of 64 KiB and one of those at least, and what happens
    /// when they are used up. With [`OnFull::Slow`] a commit waits, with its locks, until the
    /// capture has passed the record that it replaces or the image has ended: so the holder of an
    /// image must capture it or drop it, and must run no transaction meanwhile.
    #[must_use]
    pub fn budget(mut self, bytes: usize, on_full: OnFull) -> Self {
        (self.budget_bytes, self.on_full) = (bytes, on_full);
        self
    }
}
