//! What the application's thread and the snapshotter's share: the directory, the files to write,
//! the counts.
//!
//! - The state is locked when a checkpoint begins and when it ends, never at a point of consistency
//!   where no checkpoint is due.
//! - The next file is created and its buffer allocated *before* its checkpoint begins, on the
//!   snapshotter's thread: begin makes no system call that could wait for the disk, and a forked
//!   child finds all it needs.
//! - A checkpoint is not published before all actions in it are durable in the log: then what the
//!   log holds never ends before a checkpoint.
//! - A checkpoint exists from the rename on. Before, a failure at any step removes the file. Older
//!   ones go only when two newer *full* ones are known to be sound: made, or recovered, by this
//!   very store.
//! - An increment builds on the newest durable checkpoint. If what that checkpoint lacks becomes
//!   doubtful (a table is lost, a file of the chain is found damaged), the chain is emptied and the
//!   next checkpoint is full.

mod file;
mod merger;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use stillframe::{CaptureError, CaptureReport, Completeness, Info, Publication, SinkError};

use crate::application::Owner;
use crate::caught::caught;
use crate::chain::{self, Opened, Part};
use crate::checkpoint::Header;
use crate::checkpoint::writer::Writer;
use crate::clock::now_ms;
use crate::disk::{Directory, Output, Throttle, Unpublished};
use crate::error::Error;
use crate::log::{self, logger};
use crate::manner::Manner;
use crate::mutant::Mutant;
use crate::names::{self, TEMPORARY};
use crate::options::Options;
use crate::retention::{self, Retention};
use crate::stats::Stats;
use crate::told::Told;
use crate::touched::{Tables, Touched};
pub(crate) use file::CheckpointFile;
pub(crate) use merger::Merger;

#[derive(Debug)]
pub(crate) struct Desk {
    /// Whether the next point of consistency shall begin a checkpoint. It carries no data, so it
    /// is relaxed throughout: a thread that sets it means "soon", not "after this".
    due: AtomicBool,
    directory: Arc<Directory>,
    manner: Manner,
    retention: Retention,
    on_checkpoint: Option<Told>,
    on_overdue: Option<Told>,
    /// Locked while old files are removed: the snapshotter's thread and the merger's both do that.
    tidying: Mutex<()>,
    state: Mutex<State>,
    /// A merge was asked for, has ended, or never will be.
    changed: Condvar,
    /// No merge is to go on.
    closing: AtomicBool,
}

#[derive(Debug)]
struct State {
    stats: Stats,
    /// The two newest full checkpoints that are known to be sound, older first.
    sound: [Option<u64>; 2],
    /// The newest durable checkpoint with what it builds on, base first; empty if the next one is
    /// to be full.
    chain: Vec<Part>,
    /// The image that the newest checkpoint was made of, 0 if none was by this store.
    epoch: u64,
    /// When the newest checkpoint that this store made was begun.
    newest_begun: Option<Instant>,
    /// What was written since; lost while a checkpoint is under way.
    tables: Option<Tables>,
    /// The chain to be merged.
    merge: Option<Vec<Part>>,
    merging: bool,
    /// The file of the next checkpoint.
    spare: Option<CheckpointFile>,
    /// Number and start of the checkpoint under way.
    running: Option<(u64, Instant)>,
    /// How the last checkpoint ended, until [`Desk::take_ended`].
    ended: Option<Result<u64, Error>>,
}

impl Desk {
    /// Shows at once whether the directory can be written: the first file is created.
    pub(crate) fn new(
        directory: Arc<Directory>,
        options: &Options,
        info: &Info,
        chain: Vec<Part>,
    ) -> Result<Self, Error> {
        let native = info.image == Completeness::Incremental;
        let increments =
            if native { Some(options.increments.unwrap_or_default()) } else { options.increments };
        let throttle = options.bandwidth.map(|rate| Throttle::new(rate.max(1))).transpose()?;
        let (packs, in_process) = (options.pack, info.in_process);
        let manner = Manner { packs, throttle, increments, native, in_process };
        let recovered = chain.last().map(|part| part.link.number);
        let stats = Stats { recovered, newest: recovered, ..Stats::default() };
        let state = State {
            stats,
            sound: [None, chain.first().map(|base| base.link.number)],
            // The first image of an algorithm whose images are increments is complete.
            chain: if native || increments.is_none() { Vec::new() } else { chain },
            epoch: 0,
            newest_begun: None,
            tables: Some(Tables::default()),
            merge: None,
            merging: false,
            spare: Some(CheckpointFile::create(&directory, &manner)?),
            running: None,
            ended: None,
        };
        Ok(Self {
            due: AtomicBool::new(false),
            directory,
            manner,
            retention: options.retention,
            on_checkpoint: options.on_checkpoint.clone(),
            on_overdue: options.on_overdue.clone(),
            tidying: Mutex::new(()),
            state: Mutex::new(state),
            changed: Condvar::new(),
            closing: AtomicBool::new(false),
        })
    }

    /// The owner that files name.
    pub(crate) fn owner(&self) -> Owner {
        self.directory.owner()
    }

    // ---- the application's thread

    #[inline]
    pub(crate) fn is_due(&self) -> bool {
        self.due.load(Ordering::Relaxed)
    }

    pub(crate) fn set_due(&self, due: bool) {
        self.due.store(due, Ordering::Relaxed);
    }

    /// Whether the writer must record which words it writes.
    pub(crate) fn asks_for_touched(&self) -> bool {
        self.manner.increments.is_some() && !self.manner.native
    }

    /// Whether images may lack units that the next file must have.
    pub(crate) fn must_rewrite(&self, file: &CheckpointFile) -> bool {
        self.manner.native && file.header().base.is_none() && self.lock().epoch > 0
    }

    /// Checkpoint `header.number` begins: its file.
    pub(crate) fn begin(
        &self,
        mut header: Header,
        started: Instant,
        touched: &mut Touched,
    ) -> Result<CheckpointFile, Error> {
        let mut state = self.lock();
        let create = || CheckpointFile::create(&self.directory, &self.manner);
        let mut file = state.spare.take().map_or_else(create, Ok)?;
        let mut tables = state.tables.take().unwrap_or_else(|| {
            state.chain.clear(); // what a failed one had is not known
            Tables::default()
        });
        tables.begin(touched);
        header.base = state.chain.last().map(|newest| newest.link);
        header.identity = log::nonce();
        file.begin(header, tables);
        state.running = Some((header.number, started));
        state.ended = None;
        Ok(file)
    }

    /// The application goes on; a checkpoint delayed it for `begin`.
    pub(crate) fn begun(&self, begin: Duration) {
        let mut state = self.lock();
        state.stats.begin_last = begin;
        state.stats.begin_max = state.stats.begin_max.max(begin);
    }

    /// There will be no checkpoint after all.
    pub(crate) fn not_begun(&self, error: &Error) {
        let _ = self.directory.discard(TEMPORARY); // the next one replaces it in any case
        let mut state = self.lock();
        state.running = None;
        state.stats.failures += 1;
        state.stats.last_error = Some(error.to_string());
        drop(state);
        self.report(Err(error));
    }

    /// The files of the newest checkpoint, newest first.
    pub(crate) fn newest_files(&self) -> Result<Vec<Opened>, Error> {
        let _tidying = self.tidying.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(number) = self.lock().stats.newest else { return Ok(Vec::new()) };
        let numbers = names::list(&self.directory)?.numbers;
        let traced = chain::trace(&self.directory, number, &numbers)?;
        match traced.broken {
            None => Ok(traced.files),
            Some((number, damage)) => {
                let path = self.directory.at(&names::checkpoint(number));
                Err(Error::Unreadable { path, damage })
            }
        }
    }

    fn report(&self, ended: Result<u64, &Error>) {
        if let Some(told) = &self.on_checkpoint {
            told.call(ended);
        }
    }

    pub(crate) fn stats(&self) -> (Stats, Option<(u64, Instant)>) {
        let state = self.lock();
        let (chain, merging) = (&state.chain, state.merging);
        let increments = chain.len().saturating_sub(1);
        let chain_bytes = chain.iter().map(|part| part.bytes).sum();
        let newest_age = state.newest_begun.map(|begun| begun.elapsed());
        let stats = state.stats.clone();
        (Stats { increments, chain_bytes, merging, newest_age, ..stats }, state.running)
    }

    /// Lifts the limit of speed for good.
    pub(crate) fn lift_limit(&self) {
        if let Some(throttle) = &self.manner.throttle {
            throttle.change(0);
        }
    }

    /// The schedule asks for a checkpoint. One that it asked for before and that has not begun, or
    /// not ended, is overdue.
    pub(crate) fn tick(&self) {
        let mut state = self.lock();
        let is_overdue = self.is_due() || state.running.is_some();
        state.stats.overdue += u64::from(is_overdue);
        let count = state.stats.overdue;
        drop(state);
        self.set_due(true);
        if let Some(told) = self.on_overdue.as_ref().filter(|_| is_overdue) {
            told.call(Ok(count));
        }
    }

    /// How the last checkpoint ended; returned once.
    pub(crate) fn take_ended(&self) -> Option<Result<u64, Error>> {
        self.lock().ended.take()
    }

    /// There will be no checkpoint any more.
    pub(crate) fn close(&self) {
        self.lock().spare = None;
        let _ = self.directory.discard(TEMPORARY); // the next start would do it, too
    }

    // ---- the snapshotter's thread

    /// The image is in the file, or never will be: makes a checkpoint of it, or nothing.
    pub(crate) fn publish(
        &self,
        file: &mut CheckpointFile,
        captured: Result<CaptureReport, CaptureError>,
        log: Option<&logger::Shared>,
    ) -> Publication {
        let header = *file.header();
        let number = header.number;
        let started = Instant::now();
        let captured = captured
            .and_then(|report| self.check_base(&header, report))
            .map_err(|source| Error::Capture { number, source: Box::new(source) });
        // Disks and callbacks may be the caller's code: whatever panics, the books are closed.
        let published = caught(|| self.make_durable(file.writer(), &header, captured, log))
            .unwrap_or_else(|| {
                let source = Box::new(CaptureError::Panicked);
                Err(Error::Capture { number, source })
            });
        let took = started.elapsed();
        let publication = Publication::from_result(&published);
        let mut tables = file.take_tables();
        tables.conclude(published.is_ok() || self.directory.is(Mutant::FailedIncrementForgotten));
        let tidied = match &published {
            Ok((report, bytes)) => {
                self.lengthen_chain(&header, report.begun.epoch, *bytes, tables);
                let remove = || caught(|| self.remove_old(number)).unwrap_or(Ok(()));
                if header.base.is_none() { remove() } else { Ok(()) }
            }
            Err(_) => {
                if self.directory.is(Mutant::BuildsOnFailed) {
                    let link = header.link();
                    self.lock().chain.push(Part { link, bytes: 0 });
                }
                self.lock().tables = Some(tables);
                Ok(())
            }
        };
        self.merge_if_long();
        // If this fails, so will the next begin, which reports it.
        let create = || CheckpointFile::create(&self.directory, &self.manner).ok();
        let spare = caught(create).flatten();

        let mut state = self.lock();
        match &published {
            Ok((report, bytes)) => {
                state.stats.checkpoints += 1;
                state.stats.newest = Some(number);
                state.newest_begun = state.running.map(|(_, begun)| begun);
                state.stats.capture_last = report.capture;
                state.stats.publish_last = took;
                state.stats.bytes_last = *bytes;
                if let Err(error) = tidied {
                    state.stats.last_error = Some(error.to_string());
                }
            }
            Err(error) => {
                state.stats.failures += 1;
                state.stats.last_error = Some(error.to_string());
            }
        }
        state.running = None;
        state.spare = spare;
        drop(state);
        self.report(published.as_ref().map(|_| number));
        self.lock().ended = Some(published.map(|_| number));
        publication
    }

    /// Refuses an image that builds on another than the newest checkpoint was made of.
    fn check_base(
        &self,
        header: &Header,
        report: CaptureReport,
    ) -> Result<CaptureReport, CaptureError> {
        let mut state = self.lock();
        let newest = state.epoch;
        if self.manner.native && header.base.is_some() && report.builds_on != Some(newest) {
            state.chain.clear(); // the next one is full
            let found = report.builds_on.unwrap_or(0);
            let what = format_args!("the image builds on image {found}, not on {newest}");
            return Err(CaptureError::Sink(SinkError::new(what)));
        }
        Ok(report)
    }

    /// Makes a checkpoint of what was captured, or nothing; returns the length of the file, too.
    fn make_durable(
        &self,
        writer: &mut Writer<Output>,
        header: &Header,
        captured: Result<CaptureReport, Error>,
        log: Option<&logger::Shared>,
    ) -> Result<(CaptureReport, u64), Error> {
        let name = names::checkpoint(header.number);
        if self.directory.is(Mutant::OldRemovedFirst) && captured.is_ok() {
            retention::remove_below(&self.directory, header.number)?;
        }
        if self.directory.is(Mutant::LogTruncatedFirst) && captured.is_ok() {
            retention::truncate(&self.directory, header.log_from)?;
        }
        if self.directory.is(Mutant::PublishBeforeFooter) {
            let report = captured?;
            self.directory.rename(TEMPORARY, &name)?;
            self.directory.sync()?;
            let _ = writer.finish();
            let synced = writer.output().sync().map(|()| (report, 0));
            return synced.map_err(Error::file("syncing", self.directory.at(TEMPORARY)));
        }
        // What another process has written is known only if it follows from the header.
        let own = Some(u128::from(writer.written())).filter(|&written| written > 0);
        let bytes = header.file_bytes().or(own).and_then(|bytes| u64::try_from(bytes).ok());
        let unpublished =
            Unpublished { file: writer.output(), bytes, temporary: TEMPORARY, name: &name };
        self.directory.publish(unpublished, captured, || {
            let log = log.filter(|_| !self.directory.is(Mutant::CheckpointOvertakesLog));
            log.map_or(Ok(()), |log| log.wait_durable(header.log_from.saturating_sub(1)))
        })
    }

    /// The checkpoint is durable: the next one may build on it.
    fn lengthen_chain(&self, header: &Header, epoch: u64, bytes: u64, tables: Tables) {
        let mut state = self.lock();
        state.epoch = epoch;
        state.tables = Some(tables);
        if header.base.is_none() {
            state.chain.clear();
        }
        // One that was emptied meanwhile stays so: the next checkpoint is full.
        let goes_on = state.chain.last().map(|newest| newest.link) == header.base;
        if self.manner.increments.is_some() && goes_on {
            state.chain.push(Part { link: header.link(), bytes });
        }
    }

    /// Full checkpoint `number` is durable: removes what is no longer needed.
    fn remove_old(&self, number: u64) -> Result<(), Error> {
        let _tidying = self.tidying.lock().unwrap_or_else(PoisonError::into_inner);
        let oldest = {
            let mut state = self.lock();
            let [_, before] = state.sound;
            // A merged one may be older than one that was made meanwhile.
            let newest = before.map_or(number, |before| before.max(number));
            let before = before.map(|before| before.min(number));
            state.sound = [before, Some(newest)];
            if self.retention.double_backup { Some(newest) } else { before }
        };
        oldest.map_or(Ok(()), |sound| {
            retention::apply(&self.directory, self.retention, sound, now_ms())
        })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A poisoned lock is taken anyway: counts and files are whole between statements.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use stillframe::Algorithm;
    use stillframe::algorithms::naive::Naive;

    use super::*;
    use crate::chain::Increments;
    use crate::disk::{Location, SimulatedDisk};

    #[test]
    fn an_increment_upon_a_chain_that_was_emptied_meanwhile_leaves_it_empty() {
        let location = Location::on("simulated", Arc::new(SimulatedDisk::default()));
        let directory = Arc::new(Directory::existing(location).expect("it is there"));
        let options = Options::words(1).increments(Increments::at_most(9));
        let desk = Desk::new(directory, &options, &Naive::INFO, Vec::new()).expect("a sound disk");
        let full = Header::new(1, 1, 0, "naive");
        let mut increment = Header::new(1, 2, 0, "naive");
        increment.base = Some(full.link());
        for is_emptied in [false, true] {
            desk.lengthen_chain(&full, 1, 100, Tables::default());
            if is_emptied {
                desk.lock().chain.clear(); // as when a merge finds damage
            }
            desk.lengthen_chain(&increment, 2, 10, Tables::default());
            assert_eq!(desk.lock().chain.len(), if is_emptied { 0 } else { 2 });
        }
    }
}
