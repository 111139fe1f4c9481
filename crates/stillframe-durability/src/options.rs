//! What a store is opened with.

use std::time::Duration;

/// How large the state is, and when it is checkpointed.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Options {
    /// Size and manner of the state memory. A checkpoint of a larger state is recovered at its own
    /// size; one of a smaller state is extended with zeros.
    pub memory: stillframe::Options,
    /// Time from one scheduled checkpoint to the next; none is scheduled by default.
    pub every: Option<Duration>,
    /// Whether [`Store::close`](crate::Store::close) takes a last checkpoint.
    pub checkpoint_on_close: bool,
}

impl Options {
    /// A state of `words` words that cannot grow, checkpointed on demand.
    #[must_use]
    pub fn words(words: usize) -> Self {
        Self::memory(stillframe::Options::words(words))
    }
    /// A state in memory of one's own choosing: room to grow, huge pages, budget of an image.
    #[must_use]
    pub fn memory(memory: stillframe::Options) -> Self {
        Self { memory, every: None, checkpoint_on_close: false }
    }
    /// Begins a checkpoint at the first [`point`](crate::Store::point) after each interval. If one
    /// takes longer than that, the next begins right after it.
    #[must_use]
    pub fn every(self, interval: Duration) -> Self {
        Self { every: Some(interval), ..self }
    }
    /// Makes [`Store::close`](crate::Store::close) take a last checkpoint.
    #[must_use]
    pub fn checkpoint_on_close(self) -> Self {
        Self { checkpoint_on_close: true, ..self }
    }
}
