//! What a store is opened with.

use std::sync::Arc;
use std::time::Duration;

use crate::disk::Disk;
use crate::log::options::LogOptions;
use crate::retention::Retention;

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
    /// How far back the store can be recovered.
    pub retention: Retention,
    /// How the log is kept, if the store is opened with one.
    pub log: LogOptions,
    /// Whether a damaged log is to be read up to the damage. What is lost then is told by
    /// [`Recovery::log`](crate::Recovery::log), and moved aside.
    pub accept_log_loss: bool,
    /// Where the files are, if not in a directory of the machine's file system.
    pub disk: Option<Arc<dyn Disk>>,
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
        Self {
            memory,
            every: None,
            checkpoint_on_close: false,
            retention: Retention::default(),
            log: LogOptions::default(),
            accept_log_loss: false,
            disk: None,
        }
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
    /// Keeps so many checkpoints, 2 at least, and the log since the oldest of them.
    #[must_use]
    pub fn keep_generations(mut self, generations: usize) -> Self {
        self.retention.generations = generations;
        self
    }
    /// Keeps what it takes to get back to any time so long ago.
    #[must_use]
    pub fn keep_age(mut self, age: Duration) -> Self {
        self.retention.age = Some(age);
        self
    }
    /// Keeps no more than so many bytes, but for two checkpoints and the log since.
    #[must_use]
    pub fn keep_bytes_max(mut self, bytes: u64) -> Self {
        self.retention.bytes_max = Some(bytes);
        self
    }
    /// Says how the log is kept. It takes [`Store::open_with_log`](crate::Store::open_with_log) to
    /// have one.
    #[must_use]
    pub fn log(self, log: LogOptions) -> Self {
        Self { log, ..self }
    }
    /// Goes on without what a damaged log has lost.
    #[must_use]
    pub fn accept_log_loss(self) -> Self {
        Self { accept_log_loss: true, ..self }
    }
    /// Keeps the files on `disk`, such as a [`SimulatedDisk`](crate::disk::SimulatedDisk). The
    /// directory that the store is opened with is then but its name in messages; that nobody else
    /// uses the disk meanwhile is up to the caller.
    #[must_use]
    pub fn disk(self, disk: Arc<dyn Disk>) -> Self {
        Self { disk: Some(disk), ..self }
    }
}
