//! How a store keeps its log.

use std::time::Duration;

use crate::error::Error;
use crate::told::Told;

/// When the records of a log are made durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Policy {
    /// At once: the next batch is synced while the application goes on.
    #[default]
    Always,
    /// They are written within a millisecond, which survives the end of the process, and synced
    /// once a second, which survives a loss of power.
    EverySecond,
    /// They are written within a millisecond, and synced when the operating system likes, when a
    /// segment ends, when a checkpoint is published, or when a thread waits for it.
    No,
}

/// How a store keeps its log.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct LogOptions {
    /// When records are made durable; [`Policy::Always`] by default.
    pub policy: Policy,
    /// Records that are worth a sync: a batch with this many does not wait for `linger`. It takes
    /// all records that are there, however many; 500 by default.
    pub batch_records: usize,
    /// How long a smaller batch waits for more. None by default: a lone writer need not wait,
    /// and others gather while the disk is busy. (A millisecond at least if nobody
    /// waits for the sync by [`policy`](Self::policy): to wake the logger for every record costs
    /// the application more than the record does.)
    pub linger: Duration,
    /// Bytes of records that wait for the disk at most; then a store's
    /// [action](crate::ActStore::act) waits as well. 64 MiB by default. Up to three times as much
    /// memory is used.
    pub waiting_bytes_max: usize,
    /// Length from which on a segment is ended; 16 MiB by default.
    pub segment_bytes: u64,
    pub(crate) on_durable: Option<Told>,
}

impl Default for LogOptions {
    fn default() -> Self {
        Self {
            policy: Policy::Always,
            batch_records: 500,
            linger: Duration::ZERO,
            waiting_bytes_max: 64 << 20,
            segment_bytes: 16 << 20,
            on_durable: None,
        }
    }
}

impl LogOptions {
    /// The defaults, with this policy.
    #[must_use]
    pub fn policy(policy: Policy) -> Self {
        Self { policy, ..Self::default() }
    }
    /// Waits for `records`, but no longer than `linger`, before a batch is written.
    #[must_use]
    pub fn batch(self, records: usize, linger: Duration) -> Self {
        Self { batch_records: records, linger, ..self }
    }
    /// Lets this many bytes of records wait for the disk.
    #[must_use]
    pub fn waiting_bytes_max(self, bytes: usize) -> Self {
        Self { waiting_bytes_max: bytes, ..self }
    }
    /// Ends a segment when it is so long.
    #[must_use]
    pub fn segment_bytes(self, bytes: u64) -> Self {
        Self { segment_bytes: bytes, ..self }
    }
    /// Calls `report` after each sync with the number of the last durable record, and once with the
    /// error if the log fails. The logger's thread calls it and writes nothing meanwhile: `report`
    /// should wake the holder of replies, and return.
    #[must_use]
    pub fn on_durable(self, report: impl Fn(Result<u64, &Error>) + Send + Sync + 'static) -> Self {
        Self { on_durable: Some(Told::new(report)), ..self }
    }
}
