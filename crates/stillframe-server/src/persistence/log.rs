//! A log and the image that it continues, which begin together.

use std::time::Instant;

use stillframe_durability::Policy;
use stillframe_keyspace::Keyspace;

use super::{SaveError, begin_at_rate};
use crate::journal;
use crate::state::ServerState;

/// Begins a log, and the image that it continues, at a point of consistency. `bandwidth_bytes`:
/// most bytes of the image written per second, 0 for no limit.
///
/// # Errors
/// [`SaveError`]; nothing has changed.
pub(crate) fn begin_log(
    keyspace: &mut Keyspace,
    state: &mut ServerState,
    bandwidth_bytes: u64,
) -> Result<(), SaveError> {
    journal::hand_on(keyspace, state);
    state.storage.journal.begin(keyspace, &mut state.ledger, &state.config)?;
    let begun = begin_at_rate(keyspace, state, bandwidth_bytes);
    if begun.is_err() {
        state.storage.journal.abandon(keyspace, &mut state.ledger);
    }
    begun
}

/// Makes the log follow the configuration: begun, ended, under another policy. Called every turn
/// before its replies are written, so that the reply of CONFIG SET is true.
pub(crate) fn attend_log(keyspace: &mut Keyspace, state: &mut ServerState) {
    if !state.config.appendonly && state.storage.journal.is_open() {
        let _ = journal::close(keyspace, state); // clients that wait for a reply get an error
    }
    if state.storage.journal.attend(&state.config, state.clock.turn()) {
        begin_wanted(keyspace, state);
    }
}

/// Begins a log that is wanted, unless that is impossible now.
#[cold]
fn begin_wanted(keyspace: &mut Keyspace, state: &mut ServerState) {
    if is_busy(state) || !state.storage.journal.try_again(Instant::now()) {
        return;
    }
    if let Err(error) = begin_soon(keyspace, state) {
        tracing::error!("the log cannot be begun, trying again: {error}");
        state.storage.journal.not_begun(&error);
    }
}

/// Begins the log that CONFIG SET asks for, so that its reply reports success or failure; at the
/// end of a turn instead if a save or a load comes first.
///
/// # Errors
/// [`SaveError`]; nothing has changed.
pub(crate) fn begin_asked(
    keyspace: &mut Keyspace,
    state: &mut ServerState,
) -> Result<(), SaveError> {
    if is_busy(state) || state.storage.journal.is_open() {
        return Ok(());
    }
    begin_soon(keyspace, state)
}

/// Whether no image can begin now.
fn is_busy(state: &ServerState) -> bool {
    state.storage.saves.running().is_some() || state.is_loading() || state.replication.sends_image()
}

/// Begins a log whose image is written as fast as its policy wants.
fn begin_soon(keyspace: &mut Keyspace, state: &mut ServerState) -> Result<(), SaveError> {
    // Writes wait for it, or soon will.
    let bandwidth_bytes = match state.config.appendfsync {
        Policy::Always | Policy::EverySecond => 0,
        Policy::No => state.config.snapshot_bandwidth_bytes,
    };
    begin_log(keyspace, state, bandwidth_bytes)
}
