//! The manner of a shutdown, and one that waits.

use std::time::{Duration, Instant};

/// What to do about the data when the server stops.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LastSave {
    /// Save if there is a schedule.
    IfScheduled,
    /// Save.
    Always,
    /// Do not save.
    Never,
}

/// The manner of a shutdown.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wish {
    pub(crate) last_save: LastSave,
    /// Even if the data cannot be saved.
    pub(crate) force: bool,
    /// Without waiting for replicas.
    pub(crate) now: bool,
}

/// A shutdown that waits for replicas.
pub(crate) struct Ending {
    pub(crate) wish: Wish,
    /// The offset that they must have reached.
    pub(crate) offset: u64,
    pub(crate) deadline: Instant,
    /// Clients that wait for the end.
    pub(crate) waiters: Vec<u64>,
}

impl Ending {
    /// The time left.
    pub(crate) fn left(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }
}
