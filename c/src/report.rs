//! Statistics, and what was found when a store was opened.

use std::ffi::c_char;
use std::fmt::Write;
use std::mem::size_of;
use std::time::Duration;

use durability::{Recovery, Stats};

use crate::door::door;
use crate::error::{Failure, sf_code, sf_error};
use crate::memory::{self, Sized};
use crate::store::{sf_store, take};

pub(crate) fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

/// Counts and times since the store was opened.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct sf_stats {
    /// `sizeof(sf_stats)`: set it before the call.
    pub size: usize,
    /// Words of state.
    pub words: u64,
    /// Checkpoints made durable.
    pub checkpoints: u64,
    /// Checkpoints that failed, could not begin, or were cancelled.
    pub checkpoint_failures: u64,
    /// Number of the newest durable checkpoint, be it recovered or made since; 0: none.
    pub checkpoint_newest: u64,
    /// Times a checkpoint was due while the one before had not begun or ended.
    pub checkpoint_overdue: u64,
    /// How long the last checkpoint delayed the thread of the store.
    pub begin_last_us: u64,
    /// The longest delay by any checkpoint.
    pub begin_max_us: u64,
    /// How long the last durable checkpoint took to capture and write.
    pub capture_last_us: u64,
    /// How long it took to reach the disk after that.
    pub publish_last_us: u64,
    /// Length of its file.
    pub checkpoint_bytes: u64,
    /// Increments that the newest checkpoint needs beside its base.
    pub increments: u64,
    /// Views that are kept, those below branches included.
    pub views: u64,
    /// Memory that views and the checkpoint under way keep, when the writer last looked.
    pub views_bytes: u64,
    /// Times a write had to wait because views had used up their budget.
    pub writer_waits: u64,
    /// Number of the last record of the log.
    pub log_last: u64,
    /// Number of the last record that is durable.
    pub log_durable: u64,
    /// Records added.
    pub log_records: u64,
    /// Bytes of acts in them.
    pub log_bytes: u64,
    /// Syncs of the log.
    pub log_syncs: u64,
    /// Times an act had to wait because too many records waited for the disk.
    pub log_waits: u64,
    /// 1: the log has failed and takes no more records.
    pub log_has_failed: u64,
}

// SAFETY: `size` is first, and all fields are 8 bytes of number.
unsafe impl Sized for sf_stats {}

fn told(words: usize, stats: &Stats) -> sf_stats {
    let log = stats.log.clone().unwrap_or_default();
    sf_stats {
        size: size_of::<sf_stats>(),
        words: words as u64,
        checkpoints: stats.checkpoints,
        checkpoint_failures: stats.failures,
        checkpoint_newest: stats.newest.unwrap_or(0),
        checkpoint_overdue: stats.overdue,
        begin_last_us: micros(stats.begin_last),
        begin_max_us: micros(stats.begin_max),
        capture_last_us: micros(stats.capture_last),
        publish_last_us: micros(stats.publish_last),
        checkpoint_bytes: stats.bytes_last,
        increments: stats.increments as u64,
        views: stats.views as u64,
        views_bytes: stats.views_bytes as u64,
        writer_waits: stats.writer_waits,
        log_last: log.last,
        log_durable: log.durable,
        log_records: log.records,
        log_bytes: log.bytes,
        log_syncs: log.syncs,
        log_waits: log.waits,
        log_has_failed: u64::from(log.failed.is_some()),
    }
}

/// Counts and times.
#[unsafe(no_mangle)]
pub extern "C" fn sf_store_stats(
    store: sf_store,
    stats: *mut sf_stats,
    error: *mut sf_error,
) -> sf_code {
    door(error, || {
        let mut store = take(store)?;
        let store = &store.get().store;
        memory::put_sized(stats, "stats", told(store.words(), &store.stats()))
    })
}

/// What last went wrong with a checkpoint, in a sentence; empty: nothing. A later success does not
/// erase it. Left as `sf_store_recovery_text` leaves its text.
#[unsafe(no_mangle)]
pub extern "C" fn sf_store_last_failure(
    store: sf_store,
    text: *mut c_char,
    capacity: usize,
    length: *mut usize,
    error: *mut sf_error,
) -> sf_code {
    door(error, || {
        let said = take(store)?.get().store.stats().last_error.unwrap_or_default();
        put_text(&said, text, capacity, length)
    })
}

/// What was found when the store was opened.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct sf_recovery {
    /// `sizeof(sf_recovery)`: set it before the call.
    pub size: usize,
    /// The checkpoint that the state was loaded from; 0: there was none.
    pub checkpoint: u64,
    /// The full checkpoint that it builds on; its own number if it is full.
    pub base: u64,
    /// Increments applied to that one.
    pub increments: u64,
    /// Words of state in it.
    pub words: u64,
    /// Length of its files.
    pub bytes: u64,
    /// When it was begun, in milliseconds since 1970 by the clock of then.
    pub created_ms: u64,
    /// How long loading took.
    pub load_us: u64,
    /// Newer checkpoints that were damaged and set aside; the text names them.
    pub skipped: u64,
    /// 1: an unfinished checkpoint was thrown away, as a crash leaves one.
    pub leftover: u64,
    /// Records of the log that were applied.
    pub records: u64,
    /// Number of the last record that is in the state; 0: none.
    pub record_last: u64,
    /// How long that took.
    pub replay_us: u64,
    /// Bytes of an unfinished record that a crash left at the end of the log.
    pub torn_bytes: u64,
    /// The first record that a damaged log has lost, if the options accept that; 0: none.
    pub lost_first: u64,
}

// SAFETY: `size` is first, and all fields are 8 bytes of number.
unsafe impl Sized for sf_recovery {}

fn found(recovery: &Recovery) -> sf_recovery {
    let (loaded, log) = (recovery.loaded.as_ref(), recovery.log.as_ref());
    let of_loaded = |field: fn(&durability::Loaded) -> u64| loaded.map_or(0, field);
    let of_log = |field: fn(&durability::Replayed) -> u64| log.map_or(0, field);
    sf_recovery {
        size: size_of::<sf_recovery>(),
        checkpoint: of_loaded(|it| it.number),
        base: of_loaded(|it| it.base),
        increments: of_loaded(|it| it.increments as u64),
        words: of_loaded(|it| it.words as u64),
        bytes: of_loaded(|it| it.bytes),
        created_ms: of_loaded(|it| it.created_ms),
        load_us: of_loaded(|it| micros(it.duration)),
        skipped: recovery.skipped.len() as u64,
        leftover: u64::from(recovery.leftover),
        records: of_log(|it| it.records),
        record_last: of_log(|it| it.last),
        replay_us: of_log(|it| micros(it.duration)),
        torn_bytes: of_log(|it| it.torn.as_ref().map_or(0, |torn| torn.bytes as u64)),
        lost_first: of_log(|it| it.lost.as_ref().map_or(0, |lost| lost.first)),
    }
}

/// What was found when the store was opened.
#[unsafe(no_mangle)]
pub extern "C" fn sf_store_recovery(
    store: sf_store,
    recovery: *mut sf_recovery,
    error: *mut sf_error,
) -> sf_code {
    door(error, || {
        let mut store = take(store)?;
        memory::put_sized(recovery, "recovery", found(store.get().store.recovery()))
    })
}

/// The same in sentences, a line each, for people and logs. Leaves as much as fits into `capacity`
/// bytes, with a zero at the end, and in `length` (unless null) the bytes of the whole text without
/// that zero.
#[unsafe(no_mangle)]
pub extern "C" fn sf_store_recovery_text(
    store: sf_store,
    text: *mut c_char,
    capacity: usize,
    length: *mut usize,
    error: *mut sf_error,
) -> sf_code {
    door(error, || {
        let mut store = take(store)?;
        put_text(&sentences(store.get().store.recovery()), text, capacity, length)
    })
}

fn put_text(
    said: &str,
    text: *mut c_char,
    capacity: usize,
    length: *mut usize,
) -> Result<(), Failure> {
    memory::put_if_wanted(length, "length", said.len())?;
    if capacity == 0 {
        return Ok(());
    }
    let fits = &said[..said.floor_char_boundary(capacity - 1)];
    memory::put_bytes(text, "text", fits.as_bytes())
}

fn sentences(recovery: &Recovery) -> String {
    let mut text = match &recovery.loaded {
        None => "There was no checkpoint.\n".to_owned(),
        Some(loaded) => format!(
            "Checkpoint {} was loaded in {} ms: {}.\n",
            loaded.number,
            loaded.duration.as_millis(),
            loaded.path.display()
        ),
    };
    for skipped in &recovery.skipped {
        let _ = writeln!(text, "A newer one is damaged: {skipped}.");
    }
    if recovery.leftover {
        text.push_str("An unfinished checkpoint was thrown away.\n");
    }
    if let Some(log) = &recovery.log {
        let (records, took) = (log.records, log.duration.as_millis());
        let _ = writeln!(text, "{records} records of the log were applied in {took} ms.");
        if let Some(torn) = &log.torn {
            let _ = writeln!(text, "A torn tail was cut off: {torn}.");
        }
        if let Some(lost) = &log.lost {
            let _ = writeln!(text, "Records were lost: {lost}.");
        }
    }
    text
}
