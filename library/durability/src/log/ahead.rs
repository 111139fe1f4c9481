//! Reads and checks a log ahead of the thread that applies it.
//!
//! - A thread reads, and copies valid records into batches; the calling thread hands them out. The
//!   records come in the same order and lead to the same report or error as without the thread.
//! - Records after one at which the caller breaks off may have been read, but are not handed out.
//! - Memory: the segment that the thread reads, and three batches: one applied, one waiting, and
//!   one being filled.

use std::ops::{ControlFlow, Range};
use std::panic::resume_unwind;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::{self, Builder};

use super::reader::{self, Progress, Report};
use super::{Record, name, segments};
use crate::disk::Directory;
use crate::error::Error;

/// Bytes of payloads in each batch but the last.
const BATCH_BYTES: usize = 1 << 20;
const BATCH_RECORDS: usize = 4096;
/// A log up to this long is not worth a thread.
const SHORT_BYTES: u64 = 1 << 20;

/// As [`reader::recover`].
pub(crate) fn recover(
    directory: &Directory,
    log_from: u64,
    accept_loss: bool,
    mut take: impl FnMut(Record<'_>, Progress) -> Result<ControlFlow<()>, Error>,
) -> Result<Report, Error> {
    if is_short(directory)? {
        return reader::recover(directory, log_from, accept_loss, take);
    }
    thread::scope(|scope| {
        let (send, receive) = sync_channel(1);
        let read = move || read(directory, log_from, accept_loss, &send);
        let Ok(reading) = Builder::new().name("log-read".into()).spawn_scoped(scope, read) else {
            return reader::recover(directory, log_from, accept_loss, take); // none to be had
        };
        for batch in receive {
            for (record, progress) in batch.records() {
                if take(record, progress)?.is_break() {
                    let (next, time_ms) = (record.sequence.saturating_add(1), record.time_ms);
                    return Ok(Report { next, time_ms, ..Report::default() });
                }
            }
        }
        reading.join().unwrap_or_else(|panic| resume_unwind(panic))
    })
}

fn is_short(directory: &Directory) -> Result<bool, Error> {
    let mut bytes = 0;
    for first in segments(directory)? {
        bytes = directory.open_file(&name(first))?.1.saturating_add(bytes);
        if bytes > SHORT_BYTES {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Sends all records in batches, until the receiver is gone.
fn read(
    directory: &Directory,
    log_from: u64,
    accept_loss: bool,
    send: &SyncSender<Batch>,
) -> Result<Report, Error> {
    let mut batch = Batch::default();
    let report = reader::recover(directory, log_from, accept_loss, |record, progress| {
        batch.add(record, progress);
        if batch.is_full() && send.send(std::mem::take(&mut batch)).is_err() {
            return Ok(ControlFlow::Break(()));
        }
        Ok(ControlFlow::Continue(()))
    });
    let _ = send.send(batch); // also what came before an error
    report
}

/// Records on their way.
#[derive(Default)]
struct Batch {
    /// The records without their payloads, and the range of each payload in `bytes`.
    records: Vec<(Record<'static>, Range<usize>, Progress)>,
    bytes: Vec<u8>,
}

impl Batch {
    fn add(&mut self, record: Record<'_>, progress: Progress) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(record.payload);
        let Record { sequence, unsynced, time_ms, .. } = record;
        let record = Record { sequence, unsynced, time_ms, payload: &[] };
        self.records.push((record, start..self.bytes.len(), progress));
    }

    fn is_full(&self) -> bool {
        self.bytes.len() >= BATCH_BYTES || self.records.len() >= BATCH_RECORDS
    }

    fn records(&self) -> impl Iterator<Item = (Record<'_>, Progress)> {
        self.records.iter().map(|(record, payload, progress)| {
            (Record { payload: &self.bytes[payload.clone()], ..*record }, *progress)
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::Header;
    use super::super::writer::Writer;
    use super::*;
    use crate::application::Owner;
    use crate::crash::{Random, seed};
    use crate::disk::{Disk, Fault, Files, Location, SimulatedDisk};

    fn directory(disk: &SimulatedDisk) -> Directory {
        let shared: Arc<dyn Disk> = Arc::new(disk.clone());
        Directory::existing(Location::on("simulated", shared)).expect("it is there")
    }

    /// Segments of a few hundred KiB, two MiB together; some records are long.
    fn log(random: &mut Random) -> Files {
        let disk = SimulatedDisk::default();
        let (found, header) =
            (Report { next: 1, ..Report::default() }, Header::new(1, 0, 7, Owner::default()));
        let mut writer = Writer::resume(Arc::new(directory(&disk)), &found, header).expect("sound");
        let mut bytes = 0;
        while bytes < 2 << 20 {
            for _ in 0..random.below(200) {
                let most = if random.below(50) == 0 { 300_000 } else { 600 };
                let payload = vec![random.next() as u8; random.below(most) as usize];
                writer.append(bytes as u64, &payload).expect("it is short");
                bytes += payload.len();
            }
            writer.sync().expect("the disk is sound");
            if writer.bytes() > 200_000 {
                writer = writer.rotate(bytes as u64, 7).expect("the disk is sound");
            }
        }
        drop(writer);
        disk.platter().lose_power(|_| true)
    }

    /// What was applied, by number and length, and how it ended. `fails` is not applied.
    type Found = (Vec<(u64, usize)>, Result<Report, String>);

    fn apply(
        fails: u64,
        breaks: u64,
        recover: impl FnOnce(
            &mut dyn FnMut(Record<'_>, Progress) -> Result<ControlFlow<()>, Error>,
        ) -> Result<Report, Error>,
    ) -> Found {
        let mut applied = Vec::new();
        let report = recover(&mut |record, progress| {
            assert!(progress.bytes <= progress.total_bytes);
            if record.sequence == fails {
                return Err(Error::Replay { sequence: fails, source: "on purpose".into() });
            }
            if record.sequence == breaks {
                return Ok(ControlFlow::Break(()));
            }
            applied.push((record.sequence, record.payload.len()));
            Ok(ControlFlow::Continue(()))
        });
        (applied, report.map_err(|error| error.to_string()))
    }

    #[test]
    fn what_is_read_ahead_is_what_is_read() {
        let _watchdog = stillframe_peers::Watchdog::start();
        let mut random = Random(seed());
        let rounds = if std::env::var_os("STILLFRAME_LONG").is_some() { 500 } else { 8 };
        for round in 0..rounds {
            let mut files = log(&mut random);
            for damage in 0..6 {
                if damage > 0 {
                    let victim = random.below(files.len() as u64) as usize;
                    let bytes = Arc::make_mut(files.values_mut().nth(victim).expect("there are"));
                    let at = random.below(bytes.len() as u64) as usize;
                    if random.below(2) == 0 { bytes.truncate(at) } else { bytes[at] ^= 1 }
                }
                let disk = SimulatedDisk::holding(&files);
                let (directory, accepts) = (directory(&disk), random.below(2) == 0);
                let (from, fails) = (random.below(100), 1 + random.below(20_000));
                let breaks = 1 + random.below(20_000);
                assert!(!is_short(&directory).expect("sound") || damage > 0, "two MiB");
                let (applied, mut expected) =
                    apply(fails, breaks, |take| reader::recover(&directory, from, accepts, take));
                let ahead = apply(fails, breaks, |take| recover(&directory, from, accepts, take));
                if let Ok(report) = &mut expected
                    && report.next == breaks + 1
                {
                    report.unproved.clear(); // no log goes on from there
                }
                assert!(ahead == (applied, expected), "round {round}, {damage} damages");
            }
        }
    }

    #[test]
    fn a_failed_read_is_reported_after_what_was_read_before() {
        let _watchdog = stillframe_peers::Watchdog::start();
        let mut random = Random(seed());
        let files = log(&mut random);
        let all = SimulatedDisk::holding(&files);
        let (applied, _) = apply(0, 0, |take| recover(&directory(&all), 0, false, take));
        for call in 1..=all.calls() {
            let disk = SimulatedDisk::holding(&files);
            disk.fail_at(call, Fault::IO);
            let (before, report) = apply(0, 0, |take| recover(&directory(&disk), 0, false, take));
            report.expect_err("a call failed");
            assert!(applied.starts_with(&before), "call {call}");
        }
        let (short, _) = apply(0, 0, |take| {
            let disk = SimulatedDisk::holding(&files);
            disk.fail_at(3, Fault::INTERRUPTED);
            recover(&directory(&disk), 0, false, take)
        });
        assert_eq!(short, applied);
    }
}
