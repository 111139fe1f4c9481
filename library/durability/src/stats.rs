//! What a store reports of its checkpoints.

use std::time::Duration;

/// Counts and times since the store was opened.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct Stats {
    /// Checkpoints made durable.
    pub checkpoints: u64,
    /// Checkpoints that failed or were cancelled.
    pub failures: u64,
    /// What last went wrong, in a sentence; a later success does not erase it.
    pub last_error: Option<String>,
    /// Number of the newest durable checkpoint, be it recovered or made since.
    pub newest: Option<u64>,
    /// How long ago the newest checkpoint that was made since was begun: without a log, what a
    /// crash would lose.
    pub newest_age: Option<Duration>,
    /// Times the schedule asked for a checkpoint while the one before had not begun, for want of a
    /// point of consistency, or not ended: checkpoints take longer than the interval, or fail to
    /// begin.
    pub overdue: u64,
    /// Number of the checkpoint that the state was recovered from.
    pub recovered: Option<u64>,
    /// How long the last checkpoint delayed the application's thread.
    pub begin_last: Duration,
    /// The longest delay by any checkpoint.
    pub begin_max: Duration,
    /// How long the last durable checkpoint took to capture and write.
    pub capture_last: Duration,
    /// How long it took to reach the disk after that: fsync, rename, fsync.
    pub publish_last: Duration,
    /// Length of its file.
    pub bytes_last: u64,
    /// Increments that the newest checkpoint needs beside its base.
    pub increments: usize,
    /// Bytes of these and the base.
    pub chain_bytes: u64,
    /// Chains merged into full checkpoints.
    pub merges: u64,
    /// Merges that failed: the chain is as it was.
    pub merge_failures: u64,
    /// Whether a chain is being merged.
    pub merging: bool,
    /// The checkpoint under way.
    pub running: Option<CheckpointProgress>,
    /// Memory that the newest checkpoint's image took for itself, in bytes (undo arena).
    pub arena_bytes: usize,
    /// Views that are kept.
    pub views: usize,
    /// Memory that views keep beside that, in bytes, when the writer last looked: at most the
    /// budget.
    pub views_bytes: usize,
    /// Times a write had to wait because images, views among them, had used up their budget.
    pub writer_waits: u64,
    /// The log, if the store keeps one.
    pub log: Option<LogStats>,
}

/// Counts and times of a log since the store was opened.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct LogStats {
    /// Number of the last record.
    pub last: u64,
    /// Number of the last record that is durable.
    pub durable: u64,
    /// Records that are not.
    pub lag: u64,
    /// Bytes of records that are not in the file yet.
    pub waiting_bytes: usize,
    /// Records added.
    pub records: u64,
    /// Bytes of actions in them.
    pub bytes: u64,
    /// Batches in which they were written.
    pub batches: u64,
    /// Syncs of the log's file, except those that begin and end a segment.
    pub syncs: u64,
    /// Times a record had to wait because too many waited for the disk.
    pub waits: u64,
    /// How long, together.
    pub wait_time: Duration,
    /// Why the log failed, if it did: it takes no more records.
    pub failed: Option<String>,
}

/// A checkpoint under way.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct CheckpointProgress {
    /// Its number.
    pub number: u64,
    /// Words captured so far.
    pub captured_words: usize,
    /// Words to capture; when all are, the file is being made durable.
    pub words: usize,
    /// Time since it began.
    pub elapsed: Duration,
    /// Time that the rest of the capture will take at the pace so far, once there is a pace.
    pub remaining: Option<Duration>,
}

impl CheckpointProgress {
    pub(crate) fn new(number: u64, captured_words: usize, words: usize, elapsed: Duration) -> Self {
        let captured_words = captured_words.min(words);
        let remaining = (captured_words > 0)
            .then(|| elapsed.mul_f64((words - captured_words) as f64 / captured_words as f64));
        Self { number, captured_words, words, elapsed, remaining }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rest_is_estimated_from_the_pace_so_far() {
        let second = Duration::from_secs(1);
        assert_eq!(CheckpointProgress::new(1, 0, 100, second).remaining, None);
        assert_eq!(CheckpointProgress::new(1, 25, 100, second).remaining, Some(3 * second));
        assert_eq!(CheckpointProgress::new(1, 100, 100, second).remaining, Some(Duration::ZERO));
    }
}
