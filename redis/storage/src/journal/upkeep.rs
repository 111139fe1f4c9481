//! Work on the log between requests: it receives effects, begins and ends.

use std::sync::atomic::Ordering;
use std::time::Instant;

use stillframe_commands::{Consumer, Ledger};
use stillframe_durability::Error;
use stillframe_keyspace::Keyspace;

use super::{Covered, Journal, LogProblem, RETRY_PAUSE};
use crate::settings::Settings;

impl Journal {
    /// Begins a log at a point of consistency, at which all effects were handed on. It
    /// counts once an image that names it is published.
    ///
    /// # Errors
    /// [`Error`]; nothing has changed.
    pub fn begin(
        &mut self,
        keyspace: &mut Keyspace,
        ledger: &mut Ledger,
        settings: &Settings,
    ) -> Result<(), Error> {
        self.create(settings)?;
        ledger.effects.want(keyspace, Consumer::Log, true);
        Ok(())
    }

    /// Gives up a log that does not count yet.
    pub fn abandon(&mut self, keyspace: &mut Keyspace, ledger: &mut Ledger) {
        self.open = None;
        ledger.effects.want(keyspace, Consumer::Log, false);
    }

    /// Ends the log when all its records are durable.
    ///
    /// # Errors
    /// Why they never will be, which was logged.
    pub(crate) fn end(
        &mut self,
        keyspace: &mut Keyspace,
        ledger: &mut Ledger,
    ) -> Result<(), Error> {
        let Some(open) = self.open.take() else { return Ok(()) };
        ledger.effects.want(keyspace, Consumer::Log, false);
        match open.log.close() {
            Ok(()) => {
                tracing::info!("the log has ended with record {}", self.last);
                Ok(())
            }
            Err(error) => {
                tracing::error!("the log could not be ended: {error}");
                self.lost = true;
                Err(error)
            }
        }
    }

    /// Makes a log that the configuration has not ended follow its policy. Returns whether a log is
    /// wanted and missing.
    pub fn attend(&mut self, settings: &Settings, now: Instant) -> bool {
        let wanted = settings.appendonly;
        match &mut self.open {
            Some(open) if open.policy != settings.appendfsync => {
                open.policy = settings.appendfsync;
                open.log.set_policy(open.policy);
            }
            None if !wanted => (self.problem, self.retry_at) = (None, None),
            _ => {}
        }
        if !wanted || self.is_on() {
            self.uncovered = None;
        } else if self.uncovered.is_none() {
            self.uncovered = Some(now);
        }
        wanted && self.open.is_none()
    }

    /// Notes the last record, to measure how long records wait. Called by the clock.
    pub fn sample(&mut self, now: Instant) {
        let is_new = self.samples.back().is_none_or(|&(_, last)| last < self.last);
        if self.open.is_some() && is_new {
            self.samples.push_back((now, self.last));
        }
    }

    /// Notes a failure of the log; true, once, if it has failed and replies may wait for it.
    pub fn has_failed(&mut self, keyspace: &mut Keyspace, ledger: &mut Ledger) -> bool {
        if std::mem::take(&mut self.lost) {
            return true;
        }
        let Some(open) = self.open.take_if(|open| open.failed.load(Ordering::Relaxed)) else {
            return false;
        };
        let stats = open.log.stats();
        let problem = LogProblem::Failed(stats.failed);
        tracing::error!(
            "the log failed, writes are refused until it can be begun anew; records up to {} were \
             made durable, {} were not: {problem}",
            stats.durable,
            self.last.saturating_sub(stats.durable)
        );
        self.problem = Some(problem);
        self.retry_at = Some(Instant::now() + RETRY_PAUSE);
        ledger.effects.want(keyspace, Consumer::Log, false);
        open.published
    }

    /// An image was not published, for a reason if nobody wished it so: a log that waited for it
    /// is given up, and writes are refused until there is another.
    pub fn not_published(
        &mut self,
        keyspace: &mut Keyspace,
        ledger: &mut Ledger,
        cover: &Covered,
        problem: Option<String>,
    ) {
        let named = cover.position.map(|position| position.generation);
        if self.open.as_ref().is_some_and(|it| !it.published && Some(it.generation) == named) {
            self.abandon(keyspace, ledger); // its files go when the next one is begun
            self.problem = problem.map(LogProblem::NotBegun).or(self.problem.take());
            self.retry_at = Some(Instant::now() + RETRY_PAUSE);
        }
    }
}
