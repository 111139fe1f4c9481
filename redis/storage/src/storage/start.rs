//! How a start loads the data directory: the dump file, then the log behind it.

use std::time::Duration;

use super::recover::recover;
use super::{Host, Parts};
use crate::clock::unix_millis;
use crate::dump::Load;
use crate::error::StorageError;
use crate::replay::SLICE;

/// Loads the dump file at start, if there is one, with turns of the host between its slices; false
/// if the host ends first. `spares_expired`: keys that have expired are loaded, as a replica's wait
/// for its primary's DEL.
///
/// # Errors
/// What is wrong with the file; it was logged.
pub fn load_dump<H: Host>(host: &mut H, spares_expired: bool) -> Result<bool, H::Error> {
    load_slices(host, spares_expired).inspect_err(|error| {
        tracing::error!("{error}");
        tracing::error!("Terminating server after rdb file reading failure.");
    })
}

fn load_slices<H: Host>(host: &mut H, spares_expired: bool) -> Result<bool, H::Error> {
    let Parts { storage, .. } = host.parts();
    let now = if spares_expired { i64::MIN } else { unix_millis() };
    let load = storage.saves.directory().begin_load(now)?;
    storage.begin_load(load.as_ref().map_or(0, Load::bytes));
    let Some(mut load) = load else { return Ok(true) };
    load.keep_expired();
    loop {
        let Parts { keyspace, storage, .. } = host.parts();
        let is_whole = load.slice(keyspace, storage.settings.key_load_delay_us)?;
        host.note_slice(load.stream_point(), load.take_expired());
        let Parts { storage, .. } = host.parts();
        if is_whole {
            storage.saves.dump_bytes = load.bytes();
            storage.saves.loaded = load.finish()?;
            return Ok(true);
        }
        storage.note_loaded(load.offset(), load.bytes());
        if !host.turn(Duration::ZERO)? {
            return Ok(false);
        }
    }
}

/// Applies the log that the loaded dump names, and begins one if one is wanted. Returns whether the
/// host ends meanwhile.
///
/// # Errors
/// Which file, what is wrong with it, what to do.
pub fn recover_log<H: Host>(host: &mut H) -> Result<bool, H::Error> {
    let position = host.parts().storage.saves.loaded.position;
    if recover(host, position)? {
        return Ok(true);
    }
    let point = host.point();
    let Parts { keyspace, ledger, storage } = host.parts();
    if !storage.settings.appendonly || storage.journal.is_on() {
        return Ok(false);
    }
    // The log is on before the first write is served.
    let begun = storage.begin_log(keyspace, ledger, point, 0);
    begun.map_err(|error| StorageError::BeginLog(error.into()))?;
    while is_saving(host) {
        if !host.turn(SLICE)? {
            let Parts { keyspace, ledger, storage } = host.parts();
            storage.cancel(keyspace);
            storage.wait(keyspace, ledger);
            return Ok(true);
        }
    }
    match host.parts().storage.journal.is_on() {
        true => Ok(false),
        false => Err(StorageError::LogWithoutImage.into()),
    }
}

/// Notes the end of the save under way; returns whether it still runs.
fn is_saving(host: &mut impl Host) -> bool {
    let Parts { keyspace, ledger, storage } = host.parts();
    let _ = keyspace.tend();
    storage.attend(keyspace, ledger);
    storage.saves.running().is_some()
}
