//! The logger without a thread, for a disk without a time of its own: its owner says when records
//! are written, and when they are synced.

use std::time::Duration;

use super::Batch;
use super::thread::Thread;
use crate::error::Error;
use crate::log::writer::Writer;

/// See the head of this file.
#[derive(Debug)]
pub(super) struct Steps {
    thread: Thread,
    /// `None` once the log has failed.
    writer: Option<Writer>,
    batch: Batch,
}

impl Steps {
    pub(super) fn new(thread: Thread, writer: Writer) -> Self {
        Self { thread, writer: Some(writer), batch: Batch::default() }
    }

    /// Hands all records that wait to the disk; returns how long their sync is to take.
    pub(super) fn write(&mut self) -> Duration {
        let Some(mut writer) = self.writer.take() else { return Duration::ZERO };
        let time = writer.sync_time().unwrap_or_default();
        self.thread.shared.lock().hand_over(&mut self.batch);
        let written = self.thread.write(&mut writer, &mut self.batch).map(|()| writer);
        self.go_on(written);
        time
    }

    /// Makes all that is written durable.
    pub(super) fn sync(&mut self) {
        let Some(mut writer) = self.writer.take() else { return };
        let synced = match writer.synced() < writer.last() {
            true => self.thread.sync(&mut writer),
            false => Ok(()),
        };
        let rotated = synced.and_then(|()| self.thread.rotate(writer));
        self.go_on(rotated);
    }

    fn go_on(&mut self, done: Result<Writer, Error>) {
        match done {
            Ok(writer) => self.writer = Some(writer),
            Err(error) => self.thread.shared.fail(error),
        }
    }
}
