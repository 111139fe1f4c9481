//! The server's dumps and log at its points of consistency.
//!
//! - What requests did so far goes to the log and to the stream of replication first; then an image
//!   may begin, which holds the stream's point, or a log may end.
//! - [`Storage`](stillframe_storage::Storage) does the rest: the loop calls it directly where
//!   nothing goes to the stream.

use stillframe_durability::Error;
use stillframe_keyspace::Keyspace;
use stillframe_storage::dump::{Purpose, SaveError};

use crate::state::ServerState;

/// Passes the effects of all requests so far to the log and the stream of replication, before an
/// image or a log begins or ends.
pub(crate) fn hand_on(keyspace: &mut Keyspace, state: &mut ServerState) {
    if !state.ledger.effects.wanted() {
        return;
    }
    state.note_expired(keyspace);
    let ServerState { ledger, storage, replication, group, .. } = state;
    storage.hand_on(keyspace, ledger, |effects| {
        replication.add(effects);
        group.propose(effects);
    });
}

/// Ends the log when all that is in it, and all that goes there, is durable.
///
/// # Errors
/// Why they never will be, which was logged.
pub(crate) fn end_log(keyspace: &mut Keyspace, state: &mut ServerState) -> Result<(), Error> {
    hand_on(keyspace, state);
    state.storage.end_log(keyspace, &mut state.ledger)
}

/// Begins a background save, held to `snapshot-bandwidth`.
///
/// # Errors
/// One sentence; it is logged and counts as a failed save.
pub(crate) fn begin(
    keyspace: &mut Keyspace,
    state: &mut ServerState,
    purpose: Purpose,
) -> Result<(), SaveError> {
    refuse_member(state)?;
    hand_on(keyspace, state);
    state.storage.begin(keyspace, &state.ledger, state.replication.point(), purpose)
}

/// A dump of a member has a label, which the group gives it.
fn refuse_member(state: &ServerState) -> Result<(), SaveError> {
    if state.group.member().is_some() { Err(SaveError::OfAGroup) } else { Ok(()) }
}

/// Saves now at full speed and waits for the end, as all clients do.
///
/// # Errors
/// One sentence; it was logged.
pub(crate) fn save_and_wait(
    keyspace: &mut Keyspace,
    state: &mut ServerState,
) -> Result<(), SaveError> {
    refuse_member(state)?;
    hand_on(keyspace, state);
    let point = state.replication.point();
    state.storage.save_and_wait(keyspace, &mut state.ledger, point)
}

/// Begins the save that the schedule, or BGSAVE SCHEDULE, asks for.
pub(crate) fn run_schedule(keyspace: &mut Keyspace, state: &mut ServerState) {
    if let Some(member) = state.group.member_mut() {
        if state.storage.saves.scheduled.take().is_some() {
            member.want_image();
        }
        return;
    }
    if let Some(purpose) = state.storage.due_save(&state.ledger) {
        // A failure is logged, and the save retried after a pause.
        let _ = begin(keyspace, state, purpose);
    }
}

/// Passes on the effects of a turn, and makes the log follow the configuration. Called every turn
/// before its replies are written, so that the reply of CONFIG SET is true.
pub(crate) fn attend_log(keyspace: &mut Keyspace, state: &mut ServerState) {
    hand_on(keyspace, state);
    let (now, may_begin) = (state.clock.turn(), !state.is_loading());
    let ServerState { ledger, storage, replication, .. } = state;
    storage.attend_log(keyspace, ledger, now, may_begin, || replication.point());
}

/// Begins the log that CONFIG SET asks for, so that its reply reports success or failure; at the
/// end of a turn instead if a save or a load comes first.
///
/// # Errors
/// [`SaveError`]; nothing has changed.
pub(crate) fn begin_log_asked(
    keyspace: &mut Keyspace,
    state: &mut ServerState,
) -> Result<(), SaveError> {
    refuse_member(state)?;
    if state.is_loading() {
        return Ok(());
    }
    hand_on(keyspace, state);
    let point = state.replication.point();
    state.storage.begin_log_asked(keyspace, &mut state.ledger, point)
}
