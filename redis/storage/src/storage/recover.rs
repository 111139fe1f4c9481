//! The log at start: the one that the dump file names is replayed, any other is a leftover.
//!
//! - A log that the dump names is replayed whatever `appendonly` says now, because it has
//!   acknowledged writes. The setting only decides whether logging goes on.
//! - Nothing changes on the disk before everything was replayed, so an interrupted start is
//!   repeated.
//! - A dump that names no log was made without one, or copied there: a log beside it is set aside.
//!   A log without its dump is no state, and stops the start.

use std::path::Path;
use std::time::{Duration, Instant};

use stillframe_durability::{Action, ApplyError, Replayed};

use super::{Host, Parts, Storage};
use crate::error::StorageError;
use crate::journal::Position;
use crate::replay::{Records, SLICE, delay};

const PROGRESS_PERIOD: Duration = Duration::from_secs(5);

/// Applies the log that the loaded dump names, from that position on, and continues it if a log is
/// wanted. Returns whether the host ends meanwhile.
///
/// # Errors
/// Which file, what is wrong with it, what to do.
pub(super) fn recover<H: Host>(host: &mut H, named: Option<Position>) -> Result<bool, H::Error> {
    let Parts { storage, .. } = host.parts();
    if storage.settings.appendonly
        && let Some(path) = storage.journal.foreign().map_err(StorageError::of_log)?
    {
        return Err(StorageError::ForeignLog { path }.into());
    }
    if let Some(position) = named {
        return Ok(!Recovery::new(host).run(position)?);
    }
    storage.journal.clear().map_err(StorageError::from)?;
    storage.journal.count_on().map_err(StorageError::of_log)?;
    Ok(false)
}

/// Applies records.
struct Recovery<'a, H: Host> {
    host: &'a mut H,
    records: Records<H::Client>,
    reported: Instant,
    /// When clients were last served.
    served: Instant,
    /// Whether the host ends.
    interrupted: bool,
}

impl<'a, H: Host> Recovery<'a, H> {
    fn new(host: &'a mut H) -> Self {
        let (records, reported) = (Records::default(), Instant::now());
        Self { host, records, reported, served: reported, interrupted: false }
    }

    /// Replays all from `position` on; false if it was interrupted.
    fn run(mut self, position: Position) -> Result<bool, H::Error> {
        let Parts { storage, .. } = self.host.parts();
        let reopening = storage.journal.reopening(position, &storage.settings);
        let reopening = reopening.map_err(StorageError::of_log)?;
        let path = reopening.path.clone();
        let reopened = match reopening.replay(|action| self.apply(action)) {
            Ok(reopened) => reopened,
            Err(_) if self.interrupted => return Ok(false),
            Err(error) => return Err(StorageError::of_log(error).into()),
        };
        report(&path, &reopened.replayed);
        self.host.note_replayed(reopened.replayed.records);
        let Parts { keyspace, ledger, storage } = self.host.parts();
        let Storage { journal, settings, .. } = storage;
        journal.go_on(keyspace, ledger, reopened, settings).map_err(StorageError::of_log)?;
        Ok(true)
    }

    fn apply(&mut self, action: &Action<'_>) -> Result<(), ApplyError> {
        self.records.apply(self.host, action.bytes)?;
        let Parts { storage, .. } = self.host.parts();
        let slow = delay(storage.settings.key_load_delay_us);
        if self.reported.elapsed() >= PROGRESS_PERIOD {
            self.reported = Instant::now();
            let share = action.progress.bytes * 100 / action.progress.total_bytes.max(1);
            tracing::info!("replaying the log: record {}, {share}%", action.sequence);
        }
        if !slow && self.served.elapsed() < SLICE {
            return Ok(());
        }
        storage.note_loaded(action.progress.bytes, action.progress.total_bytes);
        self.interrupted = !self.host.turn(Duration::ZERO)?;
        self.served = Instant::now();
        if self.interrupted { Err("the server is to end".into()) } else { Ok(()) }
    }
}

/// Logs the findings.
fn report(path: &Path, replayed: &Replayed) {
    tracing::info!(
        "replayed {} records, {} bytes, from {} in {:.3} s; the last is {}",
        replayed.records,
        replayed.bytes,
        path.display(),
        replayed.duration.as_secs_f64(),
        replayed.last
    );
    if let Some(torn) = &replayed.torn {
        tracing::warn!("cut off the torn tail of the log: {torn}");
    }
    if let Some(lost) = &replayed.lost {
        tracing::warn!("the loss of records was accepted (accept-log-loss): {lost}");
    }
}
