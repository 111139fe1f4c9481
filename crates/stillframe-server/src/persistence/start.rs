//! How a start loads the data directory: the dump file, then the log behind it.

use std::time::Duration;

use super::log::begin_log;
use super::{Load, attend, cancel, wait};
use crate::clock::unix_millis;
use crate::replay::{Host, SLICE};
use crate::{ServeError, journal};

/// Loads the dump file at start, if there is one, with turns of the loop between its slices; false
/// if the server ends first.
///
/// # Errors
/// [`ServeError`]: what is wrong with the file; it was logged.
pub(crate) fn load_dump(host: &mut impl Host) -> Result<bool, ServeError> {
    load_slices(host).inspect_err(|error| {
        tracing::error!("{error}");
        tracing::error!("Terminating server after rdb file reading failure.");
    })
}

fn load_slices(host: &mut impl Host) -> Result<bool, ServeError> {
    let (_, state, _) = host.parts();
    // Expired keys of a replica wait for its primary's DEL.
    let is_replica = state.config.replication.primary.is_some();
    let now = if is_replica { i64::MIN } else { unix_millis() };
    let load = state.storage.saves.directory().begin_load(now)?;
    state.storage.begin_load(load.as_ref().map_or(0, Load::bytes));
    let Some(mut load) = load else { return Ok(true) };
    load.keep_expired();
    loop {
        let (keyspace, state, _) = host.parts();
        let is_whole = load.slice(keyspace, state.config.key_load_delay_us)?;
        let backlog_bytes = state.config.replication.backlog_bytes;
        let (point, gone) = (load.stream_point(), load.take_expired());
        state.replication.go_on_behind(point, gone, backlog_bytes);
        if is_whole {
            state.storage.saves.loaded = load.finish()?;
            return Ok(true);
        }
        state.storage.note_loaded(load.offset(), load.bytes());
        if !host.turn(Duration::ZERO)? {
            return Ok(false);
        }
    }
}

/// Applies the log that the loaded dump names, and begins one if one is wanted. Returns whether a
/// shutdown was requested meanwhile.
///
/// # Errors
/// [`ServeError`]: which file, what is wrong with it, what to do.
pub(crate) fn recover_log(host: &mut impl Host) -> Result<bool, ServeError> {
    let (_, state, _) = host.parts();
    let position = state.storage.saves.loaded.position;
    if journal::recover(host, position)? {
        return Ok(true);
    }
    let (keyspace, state, _) = host.parts();
    if !state.config.appendonly || state.storage.journal.is_on() {
        return Ok(false);
    }
    // The log is on before the first write is served.
    begin_log(keyspace, state, 0).map_err(|error| ServeError::BeginLog(error.into()))?;
    while is_saving(host) {
        if !host.turn(SLICE)? {
            let (keyspace, state, _) = host.parts();
            cancel(keyspace, state);
            wait(keyspace, state);
            return Ok(true);
        }
    }
    let (_, state, _) = host.parts();
    if state.storage.journal.is_on() { Ok(false) } else { Err(ServeError::LogWithoutImage) }
}

/// Notes the end of the save under way; returns whether it still runs.
fn is_saving(host: &mut impl Host) -> bool {
    let (keyspace, state, _) = host.parts();
    let _ = keyspace.tend();
    attend(keyspace, state);
    state.storage.saves.running().is_some()
}
