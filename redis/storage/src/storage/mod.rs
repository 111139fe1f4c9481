//! The data on the disk: images, and the log behind them.
//!
//! - What is done so far is in the log before an image begins: [`Storage::hand_on`] comes first,
//!   at every turn and before whatever begins an image.
//! - Begun between two commands, an image is written in the background: the command thread opens
//!   the temporary file, begins the image and later notes how it went. Writing, syncing and
//!   renaming happen on the snapshotter thread (fork: writing in the child).
//! - A save under way when the data set is flushed goes on and is published: it is the data as it
//!   was at begin. (Redis kills it, and then saves the empty set in the foreground if there is a
//!   schedule. Here the next save comes by the schedule.)

mod host;
mod log;
mod recover;
mod saving;
mod start;

use std::borrow::Cow;
use std::time::Instant;

use stillframe::MemoryError;

use crate::dump::{DataDirectory, Label, Saves};
use crate::journal::Journal;
use crate::replay::Loading;
use crate::settings::Settings;
use crate::wake::Wake;

pub use host::{Host, Parts};
pub use start::{load_dump, recover_log};

/// See the head of this file.
pub struct Storage {
    /// Saves.
    pub saves: Saves,
    /// The log.
    pub journal: Journal,
    settings: Settings,
    /// The label of the image that begins next.
    label: Option<Label>,
    /// The load at start, while under way.
    loading: Option<Loading>,
}

impl Storage {
    /// Nothing loaded, and no log yet. `wake` wakes the waiter for the end of saves.
    ///
    /// # Errors
    /// There is no memory.
    pub fn new(
        directory: DataDirectory,
        settings: Settings,
        wake: Wake,
    ) -> Result<Self, MemoryError> {
        let saves = Saves::new(directory, wake)?;
        let journal = Journal::new(saves.directory().files(), &settings, saves.wake());
        Ok(Self { saves, journal, settings, label: None, loading: None })
    }

    /// The settings that hold now.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// From now on obeys other settings. A log begins, or ends, at the next
    /// [`attend_log`](Self::attend_log).
    pub fn obey(&mut self, settings: Settings) {
        self.settings = settings;
    }

    /// Saves into another directory, or under another name, from the next save on.
    pub fn move_to(&mut self, directory: DataDirectory) {
        self.journal.move_to(directory.files(), &self.settings);
        self.saves.save_into(directory);
    }

    /// A load of so many bytes begins, at start.
    pub fn begin_load(&mut self, total_bytes: u64) {
        self.loading = Some(Loading::new(total_bytes));
    }

    /// The bytes loaded so far of the file, or of the log, if a load is under way.
    pub fn note_loaded(&mut self, bytes: u64, total_bytes: u64) {
        if let Some(loading) = &mut self.loading {
            (loading.loaded_bytes, loading.total_bytes) = (bytes, total_bytes);
        }
    }

    /// All data is here.
    pub fn end_load(&mut self) {
        self.loading = None;
    }

    /// How far the load at start is.
    #[inline]
    pub fn loading(&self) -> Option<Loading> {
        self.loading
    }

    /// Whether writes wait because no log counts.
    #[inline]
    pub fn holds_writes(&self, now: Instant) -> bool {
        self.journal.holds_writes(&self.settings, now)
    }

    /// The state of the log in a word.
    pub fn log_state(&self) -> &'static str {
        self.journal.state(self.settings.appendonly)
    }

    /// Why writes are refused: the data, or the log, could not be saved.
    pub fn writes_refused(&self) -> Option<Cow<'static, str>> {
        if let Some(problem) = self.journal.problem() {
            return Some(format!("MISCONF Errors writing to the AOF file: {problem}").into());
        }
        let Settings { stop_writes_on_bgsave_error, save, .. } = &self.settings;
        let refused = !self.saves.last_ok && *stop_writes_on_bgsave_error && !save.is_empty();
        refused.then_some(MISCONF.into())
    }
}

const MISCONF: &str = "MISCONF Redis is configured to save RDB snapshots, but it's currently \
    unable to persist to disk. Commands that may modify the data set are disabled, because this \
    instance is configured to report errors during writes if RDB snapshotting fails \
    (stop-writes-on-bgsave-error option). Please check the Redis logs for details about the RDB \
    error.";
