//! Saving the data set to the dump file: begun between two commands, written in the background.
//!
//! - The dump file is always a whole image: a new one takes its place by `rename` once it is on the
//!   disk, and a save that fails leaves the old one and removes its own temporary file.
//! - The command thread opens the temporary file, begins the image and later notes how it went.
//!   Writing, syncing and renaming happen on the snapshotter thread (fork: writing in the child).
//! - A save under way when the data set is flushed goes on and is published: it is the data as it
//!   was at begin. (Redis kills it, and then saves the empty set in the foreground if there is a
//!   schedule. Here the next save comes by the schedule.)

mod directory;
mod error;
mod file;
mod handback;
mod load;
mod log;
mod saves;
mod sink;
mod start;
mod storage;
mod stream_point;
pub(crate) use stillframe_redis::values;

use std::time::{Duration, Instant};

use stillframe::{CaptureError, CaptureReport, Point, SinkError};
use stillframe_keyspace::{DATABASES, Keyspace};
use stillframe_rdb::{Encoder, Origin, Value, Workspace};

use crate::clock::unix_millis;
use crate::config::SavePoint;
use crate::journal::{self, Cover, POSITION_FIELD};
use crate::state::ServerState;

pub(crate) use directory::{DataDirectory, create, enter};
pub(crate) use error::{EntryError, LoadError, SaveError};
pub(crate) use file::given_up;
use file::{DumpFile, stage};
pub(crate) use handback::Handback;
use load::Load;
pub(crate) use load::{Loaded, Next, load, load_file, next};
#[cfg(test)]
pub(crate) use log::begin_log;
pub(crate) use log::{attend_log, begin_asked};
use saves::Saved;
pub(crate) use saves::{Save, Saves};
pub(crate) use sink::{Counters, Destination, Drag, RdbSink};
pub(crate) use start::{load_dump, recover_log};
pub(crate) use storage::Storage;
pub(crate) use stream_point::{StreamField, StreamPoint};

/// Pause after a failed save before the schedule tries again.
const RETRY_PAUSE: Duration = Duration::from_secs(5);

/// Begins a background save, held to `snapshot-bandwidth`, at a point of consistency: no command is
/// half done.
///
/// # Errors
/// One sentence; it is logged and counts as a failed save.
pub(crate) fn begin(keyspace: &mut Keyspace, state: &mut ServerState) -> Result<(), SaveError> {
    begin_at_rate(keyspace, state, state.config.snapshot_bandwidth_bytes)
}

/// As [`begin`], with another limit: `bandwidth_bytes`, most bytes written per second, 0 for none.
///
/// # Errors
/// As for [`begin`].
pub(crate) fn begin_at_rate(
    keyspace: &mut Keyspace,
    state: &mut ServerState,
    bandwidth_bytes: u64,
) -> Result<(), SaveError> {
    begin_for(keyspace, state, bandwidth_bytes, false)
}

/// As [`begin_at_rate`]; `awaited`: a client waits for the save and gets its outcome, so a failure
/// is no reason to refuse writes.
fn begin_for(
    keyspace: &mut Keyspace,
    state: &mut ServerState,
    bandwidth_bytes: u64,
    awaited: bool,
) -> Result<(), SaveError> {
    state.storage.saves.last_try = Some(Instant::now());
    state.storage.saves.scheduled = false;
    let keys_total = keyspace.stats().keys as u64;
    let started = Instant::now();
    journal::hand_on(keyspace, state);
    let cover = state.storage.journal.cover(&state.config);
    let covered = cover.covered();
    match start(keyspace, state, bandwidth_bytes, cover) {
        Ok((counters, begin)) => {
            tracing::info!(
                "saving {keys_total} keys; the server was held up for {} us, {} us of them to begin \
                 the image",
                whole_micros(started.elapsed()),
                whole_micros(begin)
            );
            let dirty = state.ledger.dirty;
            state.storage.saves.latest_begin = begin;
            let cancelled = false;
            state.storage.saves.running =
                Some(Save { started, keys_total, dirty, counters, covered, awaited, cancelled });
            Ok(())
        }
        Err(problem) => {
            state.storage.saves.directory.discard();
            state.storage.saves.last_ok &= awaited;
            tracing::error!("cannot save: {problem}");
            Err(problem)
        }
    }
}

/// Microseconds, rounded up: nothing takes no time.
pub(crate) fn whole_micros(time: Duration) -> u128 {
    time.as_nanos().div_ceil(1000)
}

fn start(
    keyspace: &mut Keyspace,
    state: &mut ServerState,
    bandwidth_bytes: u64,
    cover: Cover,
) -> Result<(Counters, Duration), SaveError> {
    let (config, saves) = (&state.config, &mut state.storage.saves);
    let file = saves.directory.create_temporary().inspect_err(|error| {
        if error.wants_room() {
            cover.give_way();
        }
    })?;
    let counters = saves.counters.clone();
    counters.reset();
    let (workspace, stage) = saves.workspace.take().unwrap_or_else(|| (Workspace::new(), stage()));
    let file =
        DumpFile::new(file, stage, saves.throttle.renewed(bandwidth_bytes), counters.bytes.clone());
    let encoder = Encoder::within(workspace, file).compress(config.rdbcompression);
    let position = cover.position().map(|position| (POSITION_FIELD, position.text()));
    let point = state.replication.point();
    let fields = position.into_iter().chain(point.iter().flat_map(StreamPoint::fields));
    let encoder = with_header(encoder, keyspace, fields);
    let sink = RdbSink::new(encoder?, counters.clone());
    let sink = sink.dragged(saves.dragged(config.key_save_delay_us));
    let sink = sink.telling_uses(config.maxmemory_policy.counts_uses());
    let (directory, taker) = (saves.directory.clone(), saves.handback.taker());
    let publish = move |sink: &mut RdbSink<DumpFile>,
                        captured: Result<CaptureReport, CaptureError>| {
        let saved = finish(&directory, sink, captured, &cover);
        let stage = sink.encoder.output_mut().take_stage();
        taker.report(saved, (sink.encoder.take_workspace(), stage));
    };
    let begun = keyspace.snapshot(Point::declare(), sink, publish)?;
    Ok((counters, begun.begin))
}

/// Writes the part before the first entry, with `fields`; it fits the encoder's buffer.
pub(crate) fn with_header<O: Destination>(
    mut encoder: Encoder<O>,
    keyspace: &Keyspace,
    fields: impl IntoIterator<Item = (&'static [u8], String)>,
) -> Result<Encoder<O>, SinkError> {
    let used_memory_bytes = keyspace.stats().entry_bytes as u64;
    let created_s = unix_millis() / 1000;
    encoder.begin(&Origin { created_s, used_memory_bytes, aof_base: false })?;
    for (name, value) in fields {
        encoder.aux(name, Value::Bytes(value.as_bytes()))?;
    }
    for db in (0..DATABASES).filter(|&db| !keyspace.is_empty(db)) {
        encoder.resize_db(db as u64, keyspace.len(db) as u64, keyspace.expires(db) as u64)?;
    }
    Ok(encoder)
}

/// On the snapshotter thread, while the image is held: publishes or discards the file.
fn finish(
    directory: &DataDirectory,
    sink: &mut RdbSink<DumpFile>,
    captured: Result<CaptureReport, CaptureError>,
    cover: &Cover,
) -> Saved {
    let captured = captured.map_err(SaveError::Capture);
    let saved = directory.publish(sink.encoder.output_mut().file(), captured, || {
        cover.wait_durable().map_err(SaveError::Log)?;
        cover.keep_dump();
        Ok(())
    });
    match &saved {
        Ok(_) => cover.clean(),
        Err(error) if error.is_for_want_of_room() => cover.give_way(),
        Err(_) => {}
    }
    saved
}

/// Notes the end of a save. Called every turn; costs nothing without a save.
pub(crate) fn attend(keyspace: &mut Keyspace, state: &mut ServerState) {
    let saves = &mut state.storage.saves;
    if saves.running.is_none() {
        return;
    }
    let held = saves.handback.hear(|| keyspace.saving(), |tools| saves.workspace = Some(tools));
    if held {
        return;
    }
    let Some(running) = saves.running.take() else { return };
    let saved = saves.handback.take().unwrap_or(Err(SaveError::Silence));
    let elapsed = running.started.elapsed();
    saves.last_duration = Some(elapsed);
    saves.ended_well = saved.is_ok();
    // A client that cancels a save, or gets its failure, does not want writes refused for it.
    saves.last_ok = saved.is_ok() || (running.cancelled || running.awaited) && saves.last_ok;
    match saved {
        Ok(_) => {
            saves.last_success_s = unix_millis() / 1000;
            saves.count += 1;
            saves.due = None;
            state.ledger.dirty = state.ledger.dirty.saturating_sub(running.dirty);
            state.storage.journal.published(&running.covered, running.bytes_done());
            tracing::info!(
                "saved {} keys, {} bytes in {:.3} s to {}",
                running.keys_done(),
                running.bytes_done(),
                elapsed.as_secs_f64(),
                saves.directory.dump().display()
            );
        }
        Err(problem) => {
            tracing::error!(
                "the save failed after {:.3} s, the old dump file is untouched: {problem}",
                elapsed.as_secs_f64()
            );
            let problem = Some(problem.to_string()).filter(|_| !running.cancelled);
            let journal = &mut state.storage.journal;
            journal.not_published(keyspace, &mut state.ledger, &running.covered, problem);
        }
    }
}

/// Stops the unwanted save under way. The old dump file stays, and so does INFO's status of the
/// save before.
pub(crate) fn abandon(keyspace: &Keyspace, state: &mut ServerState) {
    let Some(running) = &mut state.storage.saves.running else { return };
    running.cancelled = true;
    state.storage.saves.give_up(keyspace, &state.storage.saves.throttle);
}

/// Stops the save under way and a scheduled one; false if there is neither.
pub(crate) fn cancel(keyspace: &Keyspace, state: &mut ServerState) -> bool {
    let scheduled = std::mem::take(&mut state.storage.saves.scheduled);
    let runs = state.storage.saves.running.is_some();
    abandon(keyspace, state);
    runs || scheduled
}

/// Saves now at full speed and waits for the end, as all clients do.
///
/// # Errors
/// One sentence; it was logged.
pub(crate) fn save_and_wait(
    keyspace: &mut Keyspace,
    state: &mut ServerState,
) -> Result<(), SaveError> {
    begin_for(keyspace, state, 0, true)?;
    wait(keyspace, state);
    if state.storage.saves.ended_well { Ok(()) } else { Err(SaveError::Logged) }
}

/// Waits for the save under way to end.
pub(crate) fn wait(keyspace: &mut Keyspace, state: &mut ServerState) {
    keyspace.wait_image();
    attend(keyspace, state);
}

/// Begins the save that the schedule, or BGSAVE SCHEDULE, asks for.
pub(crate) fn run_schedule(keyspace: &mut Keyspace, state: &mut ServerState) {
    let since =
        u64::try_from(unix_millis() / 1000 - state.storage.saves.last_success_s).unwrap_or(0);
    let is_due = |point: &&SavePoint| state.ledger.dirty >= point.changes && since > point.seconds;
    let due = state.config.save.iter().find(is_due);
    state.storage.saves.note_due(due);
    let saves = &state.storage.saves;
    if saves.running.is_some() {
        return;
    }
    let may_try = saves.last_ok || saves.last_try.is_none_or(|last| last.elapsed() >= RETRY_PAUSE);
    if !may_try {
        return;
    }
    if let Some(point) = due {
        tracing::info!("{} changes in {} seconds", state.ledger.dirty, point.seconds);
    }
    let rewrite = state.storage.journal.rewrite_due(&state.config);
    if rewrite {
        tracing::info!("the log has grown: an image takes its place");
    }
    if due.is_some() || saves.scheduled || rewrite {
        // A failure is logged, and the save retried after a pause.
        let _ = begin(keyspace, state);
    }
}
