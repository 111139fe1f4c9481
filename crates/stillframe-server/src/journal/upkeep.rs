//! Work on the log between requests: it receives effects, begins and ends.

use std::sync::atomic::Ordering;
use std::time::Instant;

use stillframe_durability::Error;
use stillframe_keyspace::Keyspace;
use stillframe_redis::{Consumer, Ledger};

use super::{Covered, Journal, LogProblem, RETRY_PAUSE};
use crate::config::Config;
use crate::state::ServerState;

/// Passes the effects of all requests so far to the log and the stream of replication. Call it at
/// the end of each turn, and before an image begins.
pub(crate) fn hand_on(keyspace: &mut Keyspace, state: &mut ServerState) {
    if !state.ledger.effects.wanted() {
        return;
    }
    state.note_expired(keyspace);
    let effects = &mut state.ledger.effects;
    effects.seal();
    if !effects.is_empty() {
        state.storage.journal.append(effects);
        state.replication.add(effects);
        effects.clear();
    }
}

/// Ends the log when all that is in it, and all that goes there, is durable.
///
/// # Errors
/// They never will be, which was logged.
pub(crate) fn close(keyspace: &mut Keyspace, state: &mut ServerState) -> Result<(), ()> {
    hand_on(keyspace, state);
    state.storage.journal.end(keyspace, &mut state.ledger)
}

impl Journal {
    /// Begins a log at a point of consistency, at which all effects were [handed on](hand_on). It
    /// counts once an image that names it is published.
    ///
    /// # Errors
    /// [`Error`]; nothing has changed.
    pub(crate) fn begin(
        &mut self,
        keyspace: &mut Keyspace,
        ledger: &mut Ledger,
        config: &Config,
    ) -> Result<(), Error> {
        self.create(config)?;
        ledger.effects.want(keyspace, Consumer::Log, true);
        Ok(())
    }

    /// Gives up a log that does not count yet.
    pub(crate) fn abandon(&mut self, keyspace: &mut Keyspace, ledger: &mut Ledger) {
        self.open = None;
        ledger.effects.want(keyspace, Consumer::Log, false);
    }

    /// Ends the log when all its records are durable.
    fn end(&mut self, keyspace: &mut Keyspace, ledger: &mut Ledger) -> Result<(), ()> {
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
                Err(())
            }
        }
    }

    /// Makes a log that the configuration has not ended follow its policy. Returns whether a log is
    /// wanted and missing.
    pub(crate) fn attend(&mut self, config: &Config, now: Instant) -> bool {
        let wanted = config.appendonly;
        match &mut self.open {
            Some(open) if open.policy != config.appendfsync => {
                open.policy = config.appendfsync;
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
    pub(crate) fn sample(&mut self, now: Instant) {
        let is_new = self.samples.back().is_none_or(|&(_, last)| last < self.last);
        if self.open.is_some() && is_new {
            self.samples.push_back((now, self.last));
        }
    }

    /// Notes a failure of the log; true, once, if it has failed and replies may wait for it.
    pub(crate) fn has_failed(&mut self, keyspace: &mut Keyspace, ledger: &mut Ledger) -> bool {
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
    pub(crate) fn not_published(
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
