//! What is done with the log between requests: it is handed effects, begun and ended.

use std::sync::atomic::Ordering;
use std::time::Instant;

use stillframe_durability::Error;
use stillframe_keyspace::Keyspace;

use super::{Covered, RETRY_PAUSE};
use crate::state::ServerState;
use stillframe_redis::Consumer;

/// Hands the effects of all requests so far to whoever takes them. To be called at the end of each
/// turn, and before an image begins.
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

/// Notes that the log has failed; true, once, if it has and replies may wait for it.
pub(crate) fn has_failed(keyspace: &mut Keyspace, state: &mut ServerState) -> bool {
    let journal = &mut state.storage.journal;
    if std::mem::take(&mut journal.lost) {
        return true;
    }
    let Some(open) = journal.open.take_if(|open| open.failed.load(Ordering::Relaxed)) else {
        return false;
    };
    let stats = open.log.stats();
    let problem = stats.failed.unwrap_or_else(|| "the log takes no more records".to_owned());
    tracing::error!(
        "the log failed, writes are refused until it can be begun anew; records up to {} were \
         made durable, {} were not: {problem}",
        stats.durable,
        journal.last.saturating_sub(stats.durable)
    );
    journal.problem = Some(problem);
    journal.retry_at = Some(Instant::now() + RETRY_PAUSE);
    state.ledger.effects.want(keyspace, Consumer::Log, false);
    open.published
}

/// Begins a log at a point of consistency. It counts once an image that names it is published.
///
/// # Errors
/// [`Error`]; nothing has changed.
pub(crate) fn begin(keyspace: &mut Keyspace, state: &mut ServerState) -> Result<(), Error> {
    hand_on(keyspace, state);
    state.storage.journal.create(&state.config)?;
    state.ledger.effects.want(keyspace, Consumer::Log, true);
    Ok(())
}

/// Gives up a log that does not count yet.
pub(crate) fn abandon(keyspace: &mut Keyspace, state: &mut ServerState) {
    state.storage.journal.open = None;
    state.ledger.effects.want(keyspace, Consumer::Log, false);
}

/// Has the log be as the configuration says: ended, under another policy. Tells whether one is
/// wanted, and there is none.
pub(crate) fn attend(keyspace: &mut Keyspace, state: &mut ServerState) -> bool {
    let wanted = state.config.appendonly;
    let journal = &mut state.storage.journal;
    match &mut journal.open {
        Some(open) if wanted => {
            if open.policy != state.config.appendfsync {
                open.policy = state.config.appendfsync;
                open.log.set_policy(open.policy);
            }
        }
        Some(_) => {
            let _ = close(keyspace, state); // who waits for a reply is told
        }
        None if wanted => {}
        None => (journal.problem, journal.retry_at) = (None, None),
    }
    let journal = &mut state.storage.journal;
    if !wanted || journal.is_on() {
        journal.uncovered = None;
    } else if journal.uncovered.is_none() {
        journal.uncovered = Some(state.clock.turn());
    }
    wanted && journal.open.is_none()
}

/// Notes how far the log is, to tell how long a record waits. Called by the clock.
pub(crate) fn sample(state: &mut ServerState) {
    let journal = &mut state.storage.journal;
    let is_new = journal.samples.back().is_none_or(|&(_, last)| last < journal.last);
    if journal.open.is_some() && is_new {
        journal.samples.push_back((state.clock.turn(), journal.last));
    }
}

/// Ends the log when all that is in it is durable.
///
/// # Errors
/// It never will be, which was logged.
pub(crate) fn close(keyspace: &mut Keyspace, state: &mut ServerState) -> Result<(), ()> {
    hand_on(keyspace, state);
    let Some(open) = state.storage.journal.open.take() else { return Ok(()) };
    state.ledger.effects.want(keyspace, Consumer::Log, false);
    match open.log.close() {
        Ok(()) => {
            tracing::info!("the log has ended with record {}", state.storage.journal.last);
            Ok(())
        }
        Err(error) => {
            tracing::error!("the log could not be ended: {error}");
            state.storage.journal.lost = true;
            Err(())
        }
    }
}

/// An image was not published, for a reason if nobody wished it so: a log that waited for it is
/// given up, and writes are refused until there is another.
pub(crate) fn not_published(
    keyspace: &mut Keyspace,
    state: &mut ServerState,
    cover: &Covered,
    problem: Option<String>,
) {
    let named = cover.position.map(|position| position.generation);
    let journal = &mut state.storage.journal;
    if journal.open.as_ref().is_some_and(|it| !it.published && Some(it.generation) == named) {
        journal.open = None; // its files go when the next one is begun
        journal.problem = problem.map(|it| super::not_begun(&it)).or(journal.problem.take());
        journal.retry_at = Some(Instant::now() + RETRY_PAUSE);
        state.ledger.effects.want(keyspace, Consumer::Log, false);
    }
}
