//! The store: state memory with checkpoints and a log behind it.

pub(crate) mod act;
pub(crate) mod action;
pub(crate) mod acts;
mod close;
mod convert;
pub(crate) mod dynamic;
pub(crate) mod reader;
pub(crate) mod replay;
pub(crate) mod view;

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use stillframe::algorithms::imprint::Imprint;
use stillframe::{Algorithm, CaptureError, Engine, Live, MemoryError, OnFull, Point, Progress};

use crate::checkpoint::Header;
use crate::clock::now_ms;
use crate::desk::{Desk, Merger};
use crate::disk::Directory;
use crate::error::Error;
use crate::files::Checkpoints;
use crate::log;
use crate::log::handle::LogHandle;
use crate::log::logger::{Logger, Shared};
use crate::mutant::{Mutant, Mutation};
use crate::options::Options;
use crate::recovery::{Recovered, Recovery, recover};
use crate::schedule::Schedule;
use crate::stats::{CheckpointProgress, Stats};
use crate::touched::Touched;
use act::Notes;
pub use close::NotClosed;
use reader::Requests;

/// An array of 64-bit words in memory, with one writer, that survives its process.
///
/// Reads and writes are plain memory accesses. The application calls [`point`](Self::point)
/// wherever its state is valid by its own rules; every now and then a checkpoint begins there,
/// which takes microseconds, and is written by a second thread while the application goes on. What
/// [`open`](Self::open) finds after a crash is the state as it was at such a point, whole.
///
/// An [`ActStore`](crate::ActStore) has a log as well, and loses nothing in between.
///
/// With the algorithm [`Fork`](stillframe::algorithms::fork::Fork) a checkpoint is given up if the
/// thread that began it ends first.
#[derive(Debug)]
pub struct Store<A: Algorithm = Imprint> {
    engine: Engine<A>,
    desk: Arc<Desk>,
    recovery: Recovery,
    /// Number of the next checkpoint.
    next: u64,
    checkpoint_on_close: bool,
    /// What was written since the last begin, for increments of algorithms with full images.
    touched: Touched,
    log: Journal,
    /// What the action under way needs.
    notes: Notes,
    /// Each view has a share of it.
    views: Arc<()>,
    /// What readers ask for.
    requests: Arc<Requests<A>>,
    views_most: usize,
    views_on_full: OnFull,
    /// Words that the state may grow to.
    words_max: usize,
    mutation: Mutation,
    /// Merges chains until dropped.
    merger: Option<Merger>,
    // The thread that it holds ends with it.
    schedule: Option<Schedule>,
}

/// The log of a store.
#[derive(Debug)]
enum Journal {
    /// There is none.
    None,
    /// It is being replayed.
    Replaying,
    /// It is being written.
    Open(Logger),
}

impl Store {
    /// Opens the store in `directory`, which is created if need be, with the newest sound state
    /// there, or with zeros if it has never held one. [`recovery`](Self::recovery) says which.
    ///
    /// # Errors
    /// [`Error`]; nothing is lost by trying again.
    pub fn open(directory: impl AsRef<Path>, options: Options) -> Result<Self, Error> {
        Self::open_with(directory, options)
    }
}

impl<A: Algorithm> Store<A> {
    /// [`open`](Store::open) with another algorithm, `Store::<Fork>::open_with`: Imprint, naive
    /// or fork; the feature `rivals` of the crate `stillframe` adds those for comparison.
    /// Files are the same for all.
    ///
    /// # Errors
    /// [`Error`]; nothing is lost by trying again.
    pub fn open_with(directory: impl AsRef<Path>, options: Options) -> Result<Self, Error> {
        let directory = Directory::open(directory.as_ref(), options.disk.clone())?;
        let directory = Arc::new(directory.claimed(&options.application)?);
        let needs_log = || Error::NeedsLog { directory: directory.path().to_path_buf() };
        let segments = log::segments(&directory)?;
        if !segments.is_empty() {
            log::check_owners(&directory, &segments)?;
            return Err(needs_log());
        }
        let recovered = recover(&directory, &options)?;
        if recovered.recovery.loaded.as_ref().is_some_and(|loaded| loaded.log_from > 0) {
            return Err(needs_log());
        }
        let mut store = Self::assemble(&directory, recovered, &options)?;
        store.start_schedule(&options)?;
        Ok(store)
    }

    /// A store that is neither logged nor scheduled yet.
    fn assemble(
        directory: &Arc<Directory>,
        recovered: Recovered<A>,
        options: &Options,
    ) -> Result<Self, Error> {
        let Recovered { algorithm, recovery, next, chain } = recovered;
        let info = algorithm.info();
        let engine = Engine::new(algorithm).map_err(Error::Thread)?;
        let desk = Arc::new(Desk::new(Arc::clone(directory), options, info, chain)?);
        let asks = desk.asks_for_touched();
        let touched = if asks { Touched::new(engine.words()) } else { Touched::default() };
        let merger = Merger::start(&desk)?;
        let words_max = options.memory.max_words.max(engine.words());
        Ok(Self {
            engine,
            desk,
            recovery,
            next,
            checkpoint_on_close: options.checkpoint_on_close,
            touched,
            log: Journal::None,
            notes: Notes::default(),
            views: Arc::default(),
            requests: Arc::default(),
            views_most: options.memory.images.saturating_sub(1),
            views_on_full: options.views_on_full,
            words_max,
            mutation: Mutation::current(),
            merger,
            schedule: None,
        })
    }

    fn start_schedule(&mut self, options: &Options) -> Result<(), Error> {
        let Some(interval) = options.every else { return Ok(()) };
        let desk = Arc::clone(&self.desk);
        let schedule = Schedule::start(interval, move || desk.tick());
        self.schedule = Some(schedule.map_err(Error::Thread)?);
        Ok(())
    }

    /// What was found when the store was opened.
    #[must_use]
    pub fn recovery(&self) -> &Recovery {
        &self.recovery
    }

    // ---- the state

    /// Words of state.
    #[inline]
    #[must_use]
    pub fn words(&self) -> usize {
        self.engine.words()
    }

    /// Grows the state to `words` words, the new ones zero. Never shrinks it.
    ///
    /// # Errors
    /// [`MemoryError`] beyond the `max_words` it was opened with; nothing changes.
    pub fn grow(&mut self, words: usize) -> Result<(), MemoryError> {
        self.engine.grow(words)?;
        if !self.mutation.is(Mutant::GrowthMarksNothing) {
            self.touched.grow(self.engine.words());
        }
        Ok(())
    }

    /// The latest value of a word. Panics if `index` is out of bounds.
    #[inline]
    #[must_use]
    pub fn read(&self, index: usize) -> u64 {
        self.engine.read(index)
    }

    /// The latest value of a word; `None` out of bounds.
    #[inline]
    #[must_use]
    pub fn get(&self, index: usize) -> Option<u64> {
        (index < self.words()).then(|| self.read(index))
    }

    /// Reads of the `len` words from `start` on, by their number there; `None` if not all of them
    /// are in bounds. Some algorithms, [`Imprint`] among them, check that once for all. A read of
    /// another number panics.
    #[inline]
    pub fn window(&self, start: usize, len: usize) -> Option<impl Fn(usize) -> u64> {
        self.engine.window(start, len)
    }

    /// Replaces a word. Panics if `index` is out of bounds.
    #[inline]
    pub fn write(&mut self, index: usize, value: u64) {
        self.engine.write(index, value);
        self.touched.mark(index);
    }

    /// Says that word `index` will be written soon; see [`Algorithm::approach`].
    #[inline]
    pub fn approach(&self, index: usize) {
        self.engine.algorithm().approach(index);
    }

    /// Replaces a run of words. Panics if the run is out of bounds, before any word is written.
    pub fn write_run(&mut self, start: usize, values: &[u64]) {
        self.engine.write_run(start, values);
        let is_short = self.mutation.is(Mutant::RunMarksFirst);
        self.touched.mark_run(start, if is_short { values.len().min(1) } else { values.len() });
    }

    /// The memory of the words, for readers in other languages; it stays when the store is gone.
    /// `None` for an algorithm in which a word has more than one home.
    #[must_use]
    pub fn live(&self) -> Option<Live> {
        self.engine.algorithm().live()
    }

    /// Says that the run of words may be written in place, through [`live`](Self::live), until the
    /// next [`point`](Self::point); see [`Algorithm::announce`]. Panics if the run is out of
    /// bounds.
    pub fn announce(&mut self, start: usize, len: usize) {
        self.engine.announce(start, len);
        self.touched.mark_run(start, len);
    }

    /// Replaces words in any places, in this order: faster than one by one. Panics if one of them
    /// is out of bounds, before any word is written.
    pub fn write_many(&mut self, writes: &[(usize, u64)]) {
        self.engine.write_many(writes);
        let marked = if self.mutation.is(Mutant::BatchMarksFirst) { 1 } else { usize::MAX };
        writes.iter().take(marked).for_each(|&(index, _)| self.touched.mark(index));
    }

    /// Half a word, for states of u32: `index` counts 4-byte items.
    #[inline]
    #[must_use]
    pub fn read_u32(&self, index: usize) -> u32 {
        self.engine.algorithm().read_u32(index)
    }

    /// Replaces half a word.
    #[inline]
    pub fn write_u32(&mut self, index: usize, value: u32) {
        self.engine.write_u32(index, value);
        let word = if self.mutation.is(Mutant::HalfMarksItsNumber) { index } else { index / 2 };
        self.touched.mark(word);
    }

    // ---- the log

    /// Adds a record to the log and returns its number, from 1.
    #[inline]
    fn append(&mut self, record: &[u8]) -> Result<u64, Error> {
        match &self.log {
            Journal::Open(log) => log.shared().append(record),
            Journal::None => Err(Error::NoLog),
            Journal::Replaying => Err(Error::Replaying),
        }
    }

    /// The number of the last action that is certain to survive; 0 if there is none. Its caller may
    /// hold back replies until then; [`LogOptions::on_durable`](crate::LogOptions::on_durable)
    /// says when a look is worth its cost.
    #[must_use]
    pub fn durable(&self) -> u64 {
        self.logger().map_or(0, |log| log.durable())
    }

    /// Returns when the actions up to this number are certain to survive, whatever the policy.
    ///
    /// # Errors
    /// [`Error::LogFailed`]: whether they are is unknown.
    pub fn wait_durable(&self, sequence: u64) -> Result<(), Error> {
        self.logger().ok_or(Error::NoLog)?.wait_durable(sequence)
    }

    /// For threads that wait for the log while this one writes; `None` without a log.
    #[must_use]
    pub fn log_handle(&self) -> Option<LogHandle> {
        self.logger().map(|log| LogHandle::new(Arc::clone(log)))
    }

    fn logger(&self) -> Option<&Arc<Shared>> {
        match &self.log {
            Journal::Open(log) => Some(log.shared()),
            Journal::None | Journal::Replaying => None,
        }
    }

    // ---- checkpoints

    /// Declares that the state is valid now, by the application's own rules: the end of a tick,
    /// the end of a transaction. If a checkpoint is due, it begins here, and its number is
    /// returned; else this costs two loads. A checkpoint that cannot begin is counted in
    /// [`stats`](Self::stats). [Readers](Self::reader) get the views that they ask for.
    #[inline]
    pub fn point(&mut self) -> Option<u64> {
        if self.requests.are_waiting() {
            self.answer_readers();
        }
        if self.desk.is_due() { self.point_when_due() } else { None }
    }

    /// Requests a checkpoint at the next [`point`](Self::point) (at the first one after the end of
    /// the checkpoint under way, if there is one).
    pub fn checkpoint(&self) {
        self.desk.set_due(true);
    }

    /// Takes a checkpoint here and returns its number when it is durable. The state must be valid,
    /// as at a [`point`](Self::point).
    ///
    /// # Errors
    /// [`Error`]: the state and the checkpoints before are as they were.
    pub fn checkpoint_and_wait(&mut self) -> Result<u64, Error> {
        self.engine.wait();
        let number = self.begin()?;
        // Only a panic leaves no result.
        self.wait()?.ok_or(Error::Capture { number, source: Box::new(CaptureError::Panicked) })
    }

    /// Waits for the checkpoint under way, if there is one. Returns the number of the last
    /// checkpoint that ended since this was last asked.
    ///
    /// # Errors
    /// Why that checkpoint failed.
    pub fn wait(&mut self) -> Result<Option<u64>, Error> {
        self.engine.wait();
        self.desk.take_ended().transpose()
    }

    /// Waits until no chain of increments is being merged into a full checkpoint;
    /// [`stats`](Self::stats) say how it went.
    pub fn wait_merged(&self) {
        self.desk.wait_merged();
    }

    /// Gives up the checkpoint under way, if there is one; [`wait`](Self::wait) returns when it is
    /// gone.
    pub fn cancel(&self) {
        self.under_way(Mutant::CancelsNewest).cancel();
    }

    /// How far the checkpoint is, whichever views began since.
    fn under_way(&self, taken_for_newest: Mutant) -> Progress {
        if taken_for_newest.is_made() { self.engine.progress() } else { self.engine.under_way() }
    }

    /// The durable checkpoints, for another thread that reads their files.
    #[must_use]
    pub fn checkpoints(&self) -> Checkpoints {
        Checkpoints::new(Arc::clone(&self.desk))
    }

    /// Counts, times, and the progress of the checkpoint under way.
    #[must_use]
    pub fn stats(&self) -> Stats {
        let progress = self.under_way(Mutant::StatsOfNewest);
        // What all images have in common is counted with the newest, be it a view.
        let newest = self.engine.progress();
        let (stats, running) = self.desk.stats();
        let running = running.map(|(number, started)| {
            let (captured, words) = (progress.captured_words(), progress.total_words());
            CheckpointProgress::new(number, captured, words, started.elapsed())
        });
        Stats {
            running,
            arena_bytes: progress.arena_bytes(),
            writer_waits: newest.writer_waits(),
            views: self.views(),
            views_bytes: newest.kept_bytes(),
            log: self.logger().map(|log| log.stats()),
            ..stats
        }
    }

    /// The number of the next checkpoint.
    #[cfg(test)]
    pub(crate) fn next_number(&self) -> u64 {
        self.next
    }

    #[cold]
    fn point_when_due(&mut self) -> Option<u64> {
        if self.engine.running() || matches!(self.log, Journal::Replaying) {
            return None; // stays due
        }
        self.begin().ok() // a failure is in the stats
    }

    fn begin(&mut self) -> Result<u64, Error> {
        let started = Instant::now();
        self.desk.set_due(false);
        let number = self.next;
        self.next += 1;
        self.begin_numbered(number, started).inspect_err(|error| self.desk.not_begun(error))?;
        self.desk.begun(started.elapsed());
        Ok(number)
    }

    fn begin_numbered(&mut self, number: u64, started: Instant) -> Result<(), Error> {
        let name = self.engine.algorithm().info().name;
        let mut header = Header::new(self.engine.words(), number, now_ms(), name);
        header.owner = self.desk.owner();
        let log = match &self.log {
            Journal::Open(log) => Some(Arc::clone(log.shared())),
            Journal::None => None,
            Journal::Replaying => return Err(Error::Replaying),
        };
        if let Some((last, time_ms)) = log.as_ref().map(|log| log.last()) {
            header.log_from = last + 1;
            header.created_ms = header.created_ms.max(time_ms);
        }
        let file = self.desk.begin(header, started, &mut self.touched)?;
        if self.desk.must_rewrite(&file) {
            // What was written before the last image counts as written again: it takes the time of
            // the whole state, and happens only after damage to the files.
            for index in 0..self.engine.words() {
                self.engine.write(index, self.engine.read(index));
            }
        }
        let desk = Arc::clone(&self.desk);
        let publish = move |file: &mut _, captured| desk.publish(file, captured, log.as_deref());
        let begun = self.engine.snapshot(Point::declare(), file, publish);
        begun.map_err(|source| Error::Begin { number, source })?;
        Ok(())
    }
}

impl<A: Algorithm> Drop for Store<A> {
    fn drop(&mut self) {
        self.requests.close();
        self.cancel();
        self.desk.lift_limit();
        self.merger = None; // the checkpoint under way may wait for it
        self.engine.wait();
        self.desk.close();
    }
}

/// Panics if a run of `len` words from `start` on is out of bounds.
fn check_run(words: usize, start: usize, len: usize) {
    let fits = start <= words && len <= words - start;
    assert!(fits, "{len} words from {start} on, of {words}");
}
