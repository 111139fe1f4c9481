//! The logger's side: batches from memory to the disk.

use std::io;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use super::{Batch, Shared};
use crate::clock::now_ms;
use crate::error::Error;
use crate::log::nonce;
use crate::log::options::Policy;
use crate::log::writer::Writer;
use crate::mutant::{Mutant, Mutation};

/// Bytes handed to the disk in one call, about.
const WRITE_BYTES: usize = 1 << 20;
const SECOND: Duration = Duration::from_secs(1);
/// How long a batch waits for more records if no thread waits for it.
const PATIENCE: Duration = Duration::from_millis(1);

/// The thread.
#[derive(Debug)]
pub(super) struct Thread {
    pub(super) shared: Arc<Shared>,
    pub(super) synced_at: Instant,
    pub(super) mutation: Mutation,
}

/// What to do with a batch.
struct Order {
    sync: bool,
    close: bool,
}

impl Thread {
    pub(super) fn run(mut self, writer: Writer) {
        let _ended = Ended(Arc::clone(&self.shared));
        if let Err(error) = self.write_all(writer) {
            self.shared.fail(error);
        }
    }

    fn write_all(&mut self, mut writer: Writer) -> Result<(), Error> {
        let mut batch = Batch::default();
        let mut looked_at = Instant::now();
        loop {
            let order = self.take(&mut batch, writer.synced() < writer.last());
            if self.mutation.is(Mutant::LogAcknowledgedEarly) {
                let last = writer.last() + batch.ends.len() as u64;
                self.report_durable(last);
            }
            self.write(&mut writer, &mut batch)?;
            if order.sync && writer.synced() < writer.last() {
                self.sync(&mut writer)?;
                looked_at = self.synced_at;
            } else if looked_at.elapsed() >= SECOND {
                writer.check_identity()?;
                looked_at = Instant::now();
            }
            if order.close {
                // The name of an empty segment proves that all records before it were on the disk.
                // They are, mark or not, so it is no failure of the log if there can be none.
                if writer.has_records() {
                    let _ = writer.rotate(now_ms(), nonce());
                }
                return Ok(());
            }
            writer = self.rotate(writer)?;
        }
    }

    pub(super) fn sync(&mut self, writer: &mut Writer) -> Result<(), Error> {
        writer.sync()?;
        self.synced_at = Instant::now();
        self.shared.lock().stats.syncs += 1;
        self.report_durable(writer.synced());
        Ok(())
    }

    /// Goes on in a new segment if this one is long enough.
    pub(super) fn rotate(&mut self, writer: Writer) -> Result<Writer, Error> {
        if writer.bytes() < self.shared.options.segment_bytes {
            return Ok(writer);
        }
        let writer = writer.rotate(now_ms(), nonce())?;
        self.synced_at = Instant::now();
        self.report_durable(writer.synced());
        Ok(writer)
    }

    /// Waits for records, or for a reason to sync those that are written.
    fn take(&self, batch: &mut Batch, is_unsynced: bool) -> Order {
        let options = &self.shared.options;
        let mut state = self.shared.lock();
        let mut seen = None;
        let idle = Instant::now() + SECOND; // then one looks after the file
        let is_timed = state.policy == Policy::EverySecond && is_unsynced;
        while state.waiting.ends.len() < options.batch_records.max(1)
            && !state.is_closed
            && state.wanted <= self.shared.durable()
        {
            let is_urgent = state.policy == Policy::Always || state.waiters > 0;
            let least = if is_urgent { Duration::ZERO } else { PATIENCE };
            if !state.waiting.ends.is_empty() {
                seen.get_or_insert_with(Instant::now); // a smaller batch
            }
            let due = seen.map(|seen| seen + options.linger.max(least));
            let second = is_timed.then(|| self.synced_at + SECOND);
            let until = [due, second].into_iter().flatten().fold(idle, Instant::min);
            let pause = until.saturating_duration_since(Instant::now());
            if pause.is_zero() {
                break;
            }
            state.is_idle = true;
            let woken = self.shared.work.wait_timeout(state, pause);
            state = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
        state.is_idle = false;
        state.hand_over(batch);
        let is_wanted = state.wanted > self.shared.durable();
        let sync = match state.policy {
            Policy::Always => true,
            Policy::EverySecond => self.synced_at.elapsed() >= SECOND,
            Policy::No => false,
        };
        Order { sync: sync || is_wanted || state.is_closed, close: state.is_closed }
    }

    /// Hands the batch to the operating system, and its memory back to the application.
    pub(super) fn write(&self, writer: &mut Writer, batch: &mut Batch) -> Result<(), Error> {
        let mut start = 0;
        for &(time_ms, end) in &batch.ends {
            writer.append(time_ms, &batch.bytes[start..end])?;
            start = end;
            if writer.buffered() >= WRITE_BYTES {
                writer.write()?;
            }
        }
        writer.write()?;
        let bytes = batch.bytes.len();
        batch.clear();
        let mut state = self.shared.lock();
        state.held_bytes -= bytes;
        let is_awaited = state.waiters > 0;
        drop(state);
        if is_awaited {
            self.shared.done.notify_all();
        }
        Ok(())
    }

    fn report_durable(&self, durable: u64) {
        let state = self.shared.lock();
        let is_news = self.shared.durable() < durable;
        self.shared.durable.store(durable.max(self.shared.durable()), Ordering::Relaxed);
        let is_awaited = state.waiters > 0;
        drop(state);
        if is_awaited {
            self.shared.done.notify_all();
        }
        let on_durable = self.shared.options.on_durable.as_ref();
        if let Some(on_durable) = on_durable.filter(|_| is_news) {
            on_durable.call(Ok(durable));
        }
    }
}

/// Poisons the log if the logger panics, for which only a disk of the application's gives cause.
struct Ended(Arc<Shared>);

impl Drop for Ended {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let mut state = self.0.lock();
            let panicked = io::Error::other("the thread that writes it panicked");
            state.failed = Some(Arc::new(Error::file("writing", "the log")(panicked)));
            state.held_bytes = 0;
            drop(state);
            self.0.done.notify_all();
        }
    }
}
