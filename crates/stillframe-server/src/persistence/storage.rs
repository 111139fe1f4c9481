//! The data on the disk: images, and the log behind them.

use std::borrow::Cow;

use super::Saves;
use crate::config::Config;
use crate::journal::Journal;
use crate::replay::Loading;

/// See the head of this file.
pub(crate) struct Storage {
    /// Saves.
    pub(crate) saves: Saves,
    /// The log.
    pub(crate) journal: Journal,
    /// The load at start, while under way.
    loading: Option<Loading>,
}

impl Storage {
    /// Nothing loaded, and no log yet.
    pub(crate) fn new(saves: Saves, config: &Config) -> Self {
        let journal = Journal::new(saves.directory().files(), config, saves.wake());
        Self { saves, journal, loading: None }
    }

    /// A load of so many bytes begins, at start.
    pub(crate) fn begin_load(&mut self, total_bytes: u64) {
        self.loading = Some(Loading::new(total_bytes));
    }

    /// So many bytes are loaded of the file, or of the log, if a load is under way.
    pub(crate) fn note_loaded(&mut self, bytes: u64, total_bytes: u64) {
        if let Some(loading) = &mut self.loading {
            (loading.loaded_bytes, loading.total_bytes) = (bytes, total_bytes);
        }
    }

    /// All data is here.
    pub(crate) fn end_load(&mut self) {
        self.loading = None;
    }

    /// How far the load at start is.
    #[inline]
    pub(crate) fn loading(&self) -> Option<Loading> {
        self.loading
    }

    /// Why writes are refused: the data, or the log, could not be saved.
    pub(crate) fn writes_refused(&self, config: &Config) -> Option<Cow<'static, str>> {
        if let Some(problem) = self.journal.problem() {
            return Some(format!("MISCONF Errors writing to the AOF file: {problem}").into());
        }
        let refused =
            !self.saves.last_ok && config.stop_writes_on_bgsave_error && !config.save.is_empty();
        refused.then_some(MISCONF.into())
    }
}

const MISCONF: &str = "MISCONF Redis is configured to save RDB snapshots, but it's currently \
    unable to persist to disk. Commands that may modify the data set are disabled, because this \
    instance is configured to report errors during writes if RDB snapshotting fails \
    (stop-writes-on-bgsave-error option). Please check the Redis logs for details about the RDB \
    error.";
