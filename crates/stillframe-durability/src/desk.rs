//! What the application's thread and the snapshotter's share: the directory, the files to write,
//! the counts.
//!
//! - The state is locked when a checkpoint begins and when it ends, never at a point of consistency
//!   at which nothing is due.
//! - The next file is created and its buffer allocated *before* its checkpoint begins, on the
//!   snapshotter's thread: begin makes no system call that could wait for the disk, and a forked
//!   child finds all it needs.
//! - A checkpoint is not published before all actions in it are durable in the log: then what the
//!   log holds never ends before a checkpoint.
//! - A checkpoint exists from the rename on. Before, a failure at any step removes the file. Older
//!   ones go only when two newer are *known* to be sound: made, or recovered, by this very store.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use stillframe::{CaptureError, CaptureReport, Publication, Sink, SinkError};

use crate::checkpoint::Header;
use crate::checkpoint::writer::Writer;
use crate::disk::directory::{Directory, Output};
use crate::error::Error;
use crate::log::logger;
use crate::mutant::Mutant;
use crate::names::{self, TEMPORARY};
use crate::retention::{self, Retention};
use crate::stats::Stats;
use crate::store::now_ms;

#[derive(Debug)]
pub(crate) struct Desk {
    /// Whether the next point of consistency shall begin a checkpoint. It carries no data, so it
    /// is relaxed throughout: a thread that sets it means "soon", not "after this".
    due: AtomicBool,
    directory: Arc<Directory>,
    retention: Retention,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    stats: Stats,
    /// The two newest checkpoints that are known to be sound, older first.
    sound: [Option<u64>; 2],
    /// The file of the next checkpoint.
    spare: Option<CheckpointFile>,
    /// Number and start of the checkpoint under way.
    running: Option<(u64, Instant)>,
    /// How the last checkpoint ended, until someone asks.
    outcome: Option<Result<u64, Error>>,
}

/// A checkpoint file as the sink of an image.
#[derive(Debug)]
pub(crate) struct CheckpointFile(Writer<Output>);

impl Sink for CheckpointFile {
    fn push(&mut self, start: usize, words: &[u64]) -> Result<(), SinkError> {
        self.0.push(start, words)
    }
    fn finish(&mut self) -> Result<(), SinkError> {
        if self.0.output().is(Mutant::PublishBeforeFooter) {
            return Ok(());
        }
        self.0.finish()
    }
}

impl Desk {
    /// Shows at once whether the directory can be written: the first file is created.
    pub(crate) fn new(
        directory: Arc<Directory>,
        retention: Retention,
        recovered: Option<u64>,
    ) -> Result<Self, Error> {
        let stats = Stats { recovered, newest: recovered, ..Stats::default() };
        let spare = Some(create_file(&directory)?);
        let sound = [None, recovered];
        let state = State { stats, sound, spare, running: None, outcome: None };
        let (due, state) = (AtomicBool::new(false), Mutex::new(state));
        Ok(Self { due, directory, retention, state })
    }

    // ---- the application's thread

    #[inline]
    pub(crate) fn is_due(&self) -> bool {
        self.due.load(Ordering::Relaxed)
    }

    pub(crate) fn set_due(&self, due: bool) {
        self.due.store(due, Ordering::Relaxed);
    }

    /// Checkpoint `header.number` begins: its file.
    pub(crate) fn begin(&self, header: Header, started: Instant) -> Result<CheckpointFile, Error> {
        let mut state = self.lock();
        let spare = state.spare.take();
        let mut file = spare.map_or_else(|| create_file(&self.directory), Ok)?;
        file.0.set_header(header);
        state.running = Some((header.number, started));
        state.outcome = None;
        Ok(file)
    }

    /// The application goes on; a checkpoint held it up for `begin`.
    pub(crate) fn begun(&self, begin: Duration) {
        let mut state = self.lock();
        state.stats.begin_last = begin;
        state.stats.begin_max = state.stats.begin_max.max(begin);
    }

    /// There will be no checkpoint after all.
    pub(crate) fn not_begun(&self, error: &Error) {
        let _ = self.directory.remove(TEMPORARY); // the next one replaces it in any case
        let mut state = self.lock();
        state.running = None;
        state.stats.failures += 1;
        state.stats.last_error = Some(error.to_string());
    }

    pub(crate) fn stats(&self) -> (Stats, Option<(u64, Instant)>) {
        let state = self.lock();
        (state.stats.clone(), state.running)
    }

    /// How the last checkpoint ended; told once.
    pub(crate) fn take_outcome(&self) -> Option<Result<u64, Error>> {
        self.lock().outcome.take()
    }

    /// There will be no checkpoint any more.
    pub(crate) fn close(&self) {
        self.lock().spare = None;
        let _ = self.directory.remove(TEMPORARY); // the next start would do it, too
    }

    // ---- the snapshotter's thread

    /// The image is in the file, or never will be: makes a checkpoint of it, or nothing.
    pub(crate) fn publish(
        &self,
        file: &mut CheckpointFile,
        captured: Result<CaptureReport, CaptureError>,
        log: Option<&logger::Shared>,
    ) -> Publication {
        let header = *file.0.header();
        let number = header.number;
        let started = Instant::now();
        let published = captured
            .map_err(|source| Error::Capture { number, source })
            .and_then(|report| self.make_durable(&mut file.0, &header, log).map(|()| report));
        let took = started.elapsed();
        let tidied = match published {
            Ok(_) => self.remove_old(number),
            Err(_) => self.directory.remove(TEMPORARY),
        };
        let publication = Publication::of(&published);
        // If this fails, so will the next begin, which tells.
        let spare = create_file(&self.directory).ok();

        let mut state = self.lock();
        match published {
            Ok(report) => {
                state.stats.checkpoints += 1;
                state.stats.newest = Some(number);
                state.stats.capture_last = report.capture;
                state.stats.publish_last = took;
                state.stats.bytes_last = header.file_bytes() as u64;
                state.outcome = Some(Ok(number));
                if let Err(error) = tidied {
                    state.stats.last_error = Some(error.to_string());
                }
            }
            Err(error) => {
                state.stats.failures += 1;
                state.stats.last_error = Some(error.to_string());
                state.outcome = Some(Err(error));
            }
        }
        state.running = None;
        state.spare = spare;
        publication
    }

    fn make_durable(
        &self,
        writer: &mut Writer<Output>,
        header: &Header,
        log: Option<&logger::Shared>,
    ) -> Result<(), Error> {
        let temporary = self.directory.at(TEMPORARY);
        let name = names::checkpoint(header.number);
        if self.directory.is(Mutant::OldRemovedFirst) {
            retention::remove_below(&self.directory, header.number)?;
        }
        if self.directory.is(Mutant::LogTruncatedFirst) {
            retention::truncate(&self.directory, header.log_from)?;
        }
        if self.directory.is(Mutant::PublishBeforeFooter) {
            self.directory.rename(TEMPORARY, &name)?;
            self.directory.sync()?;
            let _ = writer.finish();
            return writer.output().sync().map_err(Error::file("syncing", temporary));
        }
        let file = writer.output();
        let length = file.length().map_err(Error::file("measuring", &temporary))?;
        if u128::from(length) != header.file_bytes() {
            let lost = std::io::Error::other("the file lost bytes that were written");
            return Err(Error::file("measuring", temporary)(lost));
        }
        if !self.directory.is(Mutant::FileNotSynced) {
            file.sync().map_err(Error::file("syncing", temporary))?;
        }
        if let Some(log) = log.filter(|_| !self.directory.is(Mutant::CheckpointOvertakesLog)) {
            log.wait_durable(header.log_from.saturating_sub(1))?;
        }
        self.directory.rename(TEMPORARY, &name)?;
        if self.directory.is(Mutant::NamesNotSynced) {
            return Ok(());
        }
        self.directory.sync()
    }

    /// Checkpoint `number` is durable: removes those that are no longer needed.
    fn remove_old(&self, number: u64) -> Result<(), Error> {
        let [_, before] = self.lock().sound;
        self.lock().sound = [before, Some(number)];
        before.map_or(Ok(()), |sound| {
            retention::apply(&self.directory, self.retention, sound, now_ms())
        })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A poisoned lock is taken all the same: counts and files are whole between statements.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn create_file(directory: &Directory) -> Result<CheckpointFile, Error> {
    let output = directory.create(TEMPORARY)?;
    Ok(CheckpointFile(Writer::new(output, Header::new(0, 0, 0, ""))))
}
