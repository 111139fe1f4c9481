//! What waits for a log without writing it.

use std::sync::Arc;
use std::time::Duration;

use super::logger::Shared;
use crate::error::Error;

/// A handle for the thread that publishes images.
#[derive(Debug, Clone)]
pub struct LogHandle {
    shared: Arc<Shared>,
}

impl LogHandle {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }

    /// The number of the last record that is known to be durable.
    #[must_use]
    pub fn durable(&self) -> u64 {
        self.shared.durable()
    }

    /// Hurries the records up to `sequence` to the disk, and returns when they are durable.
    ///
    /// # Errors
    /// [`Error`] if they never will be.
    pub fn wait_durable(&self, sequence: u64) -> Result<(), Error> {
        self.shared.wait_durable(sequence)
    }

    /// As [`wait_durable`](Self::wait_durable), but waits no longer than `limit`; whether they are
    /// durable.
    ///
    /// # Errors
    /// [`Error`] if they never will be.
    pub fn is_durable_within(&self, sequence: u64, limit: Duration) -> Result<bool, Error> {
        self.shared.is_durable_within(sequence, limit)
    }
}
