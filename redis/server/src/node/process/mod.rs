//! This process: the name of its run, requests to shut down, and its score for the system.

mod ending;
mod oom_score;
mod signals;
mod supervisor;

use std::io;

pub(crate) use ending::{Ending, LastSave, Wish};
use oom_score::OomScores;
pub(crate) use signals::{Asker, Signal, Signals};
pub(crate) use supervisor::{is_supervised, notify};

use crate::ServeError;
use crate::node::archive::{Archive, ArchiveFigures};
use crate::node::config::{Config, OomScore};

/// The process, from its start to its end.
pub(crate) struct Process {
    /// Forty digits that name this run of the server.
    run_id: String,
    /// The requests of signals.
    signals: Signals,
    /// The shutdown that waits for replicas, if any.
    pub(crate) ending: Option<Ending>,
    /// The loop ends after this turn.
    stops: bool,
    oom_scores: OomScores,
    /// The archive of the data directory, if there is one.
    archive: Option<Box<dyn Archive>>,
}

impl Process {
    /// A process that serves, and that no signal reaches.
    pub(crate) fn new(run_id: String) -> Self {
        Self {
            run_id,
            signals: Signals::default(),
            ending: None,
            stops: false,
            oom_scores: OomScores::default(),
            archive: None,
        }
    }

    /// The process heeds these signals from now on.
    pub(crate) fn heed(&mut self, signals: Signals) {
        self.signals = signals;
    }

    /// Whether a signal asks for shutdown, unhandled yet.
    pub(crate) fn is_asked_to_stop(&self) -> bool {
        self.signals.is_asked()
    }

    /// Takes the signal that asks for shutdown.
    pub(crate) fn take_signal(&self) -> Option<Signal> {
        self.signals.take()
    }

    /// Notes that the shutdown was aborted or failed: the next signal asks again.
    pub(crate) fn forget_signals(&self) {
        self.signals.forget();
    }

    /// Begins the archive that the settings name.
    ///
    /// # Errors
    /// [`ServeError::Archive`]: nobody can open one, or it belongs to another.
    pub(crate) fn begin_archive(&mut self, config: &Config) -> Result<(), ServeError> {
        let Some(wish) = config.archive_wish() else { return Ok(()) };
        let none = || ServeError::Archive("this program has no archives".to_owned());
        let open = config.open_archive.ok_or_else(none)?;
        self.archive = Some(open(&wish).map_err(ServeError::Archive)?);
        Ok(())
    }

    /// Makes the archive obey the settings.
    pub(crate) fn tend_archive(&self, config: &Config) {
        if let (Some(archive), Some(wish)) = (&self.archive, config.archive_wish()) {
            archive.obey(&wish);
        }
    }

    /// How far the archive is.
    pub(crate) fn archive(&self) -> Option<ArchiveFigures> {
        self.archive.as_ref().map(|archive| archive.figures())
    }

    /// Forty digits that name this run of the server.
    pub(crate) fn run_id(&self) -> &str {
        &self.run_id
    }

    /// The end that waits for replicas.
    pub(crate) fn ending(&self) -> Option<&Ending> {
        self.ending.as_ref()
    }

    /// Ends the loop after this turn.
    pub(crate) fn stop(&mut self) {
        self.stops = true;
    }

    /// Whether the loop ends after this turn.
    #[inline]
    pub(crate) fn stops(&self) -> bool {
        self.stops
    }

    /// Sets the system's score of the process as `config` says for the server's role, or
    /// restores the original.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn set_oom_score(&mut self, config: &Config, is_replica: bool) -> io::Result<()> {
        if config.is_embedded && config.process.oom_score != OomScore::Kept {
            return Err(io::Error::other("the score is of the program around the server"));
        }
        self.oom_scores.set(config, is_replica)
    }

    /// As [`set_oom_score`](Self::set_oom_score), at the start and when the role has changed. It is
    /// not worth failing for.
    pub(crate) fn tend_oom_score(&mut self, config: &Config, is_replica: bool) {
        if let Err(error) = self.set_oom_score(config, is_replica) {
            tracing::warn!("the OOM score stays as it is (oom-score-adj): {error}");
        }
    }
}
