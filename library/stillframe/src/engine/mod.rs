//! The snapshotter thread around an algorithm, and the timing.
//!
//! One writer owns the engine. An image begins on the writer's thread and is captured and published
//! on the snapshotter's, which takes the time that others leave ([`leave`]) unless the writer waits
//! for it, and sleeps between images.

mod leave;

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::sync::{Backoff, Condvar, Mutex, MutexGuard, caught, thread};
use crate::{Algorithm, BeginError, CaptureError, Image, MemoryError, Point, Progress, Sink};
use leave::{Leave, Polite};

/// State words with an algorithm and a thread that captures their images.
#[derive(Debug)]
pub struct Engine<A: Algorithm> {
    algorithm: A,
    snapshotter: Snapshotter,
    /// Of the image that this began last.
    under_way: Progress,
    /// `None` under the model checkers, which know no priorities, and where no thread was given.
    leave: Option<Leave>,
}

/// An image that was begun.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Begun {
    /// Number of the image, from 1.
    pub epoch: u64,
    /// How long the writer was delayed.
    pub begin: Duration,
}

/// What became of an image after its capture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Publication {
    /// It is durable: the next [incremental](crate::Completeness::Incremental) image may build on
    /// it.
    Durable,
    /// It does not count: the next incremental image carries its changes too.
    Failed,
}

impl Publication {
    /// Durable exactly if `result` is no error.
    #[must_use]
    pub fn from_result<T, E>(result: &Result<T, E>) -> Self {
        if result.is_ok() { Self::Durable } else { Self::Failed }
    }
}

/// An image that was captured whole: its sink is finished.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct CaptureReport {
    /// The image, as it was begun.
    pub begun: Begun,
    /// Words of the image.
    pub words: usize,
    /// From the start of the capture to its end.
    pub capture: Duration,
    /// See [`Image::builds_on`]: to be kept with an increment.
    pub builds_on: Option<u64>,
}

impl<A: Algorithm> Engine<A> {
    /// Starts the snapshotter thread for `algorithm`.
    ///
    /// # Errors
    /// When the operating system gives no thread.
    pub fn new(algorithm: A) -> io::Result<Self> {
        let is_modelled = cfg!(any(miri, feature = "loom", feature = "shuttle"));
        let leave = if is_modelled { None } else { Some(Leave::start()?) };
        let under_way = algorithm.progress();
        Ok(Self { algorithm, snapshotter: Snapshotter::start()?, under_way, leave })
    }

    /// See [`Algorithm::words`].
    #[inline]
    #[must_use]
    pub fn words(&self) -> usize {
        self.algorithm.words()
    }
    /// See [`Algorithm::grow`].
    ///
    /// # Errors
    /// [`MemoryError`]; nothing changes.
    pub fn grow(&mut self, words: usize) -> Result<(), MemoryError> {
        self.algorithm.grow(words)
    }
    /// See [`Algorithm::read`].
    #[inline]
    #[must_use]
    pub fn read(&self, index: usize) -> u64 {
        self.algorithm.read(index)
    }
    /// See [`Algorithm::get`].
    #[inline]
    #[must_use]
    pub fn get(&self, index: usize) -> Option<u64> {
        self.algorithm.get(index)
    }
    /// See [`Algorithm::window`].
    #[inline]
    pub fn window(&self, start: usize, len: usize) -> Option<impl Fn(usize) -> u64> {
        self.algorithm.window(start, len)
    }
    /// See [`Algorithm::write`].
    #[inline]
    pub fn write(&mut self, index: usize, value: u64) {
        self.algorithm.write(index, value);
    }
    /// See [`Algorithm::write_many`].
    pub fn write_many(&mut self, writes: &[(usize, u64)]) {
        self.algorithm.write_many(writes);
    }
    /// See [`Algorithm::write_run`].
    pub fn write_run(&mut self, start: usize, values: &[u64]) {
        self.algorithm.write_run(start, values);
    }
    /// See [`Algorithm::announce`].
    pub fn announce(&mut self, start: usize, len: usize) {
        self.algorithm.announce(start, len);
    }
    /// The algorithm itself, for what this type does not repeat. Nobody replaces it under an image:
    ///
    /// ```compile_fail,E0594
    /// # use stillframe::{Algorithm, Engine, Options, algorithms::naive::Naive};
    /// # let other = Naive::create(&Options::words(1)).expect("memory");
    /// # let engine = Engine::new(Naive::create(&Options::words(1)).expect("memory"));
    /// *engine.expect("a thread").algorithm() = other;
    /// ```
    #[must_use]
    pub fn algorithm(&self) -> &A {
        &self.algorithm
    }
    /// See [`Algorithm::update`].
    #[inline]
    pub fn update(&mut self, index: usize, patch: impl Fn(u64) -> u64) {
        self.algorithm.update(index, patch);
    }
    /// See [`Algorithm::write_u32`].
    #[inline]
    pub fn write_u32(&mut self, index: usize, value: u32) {
        self.algorithm.write_u32(index, value);
    }
    /// See [`Algorithm::begin`]: the image is the caller's, and no thread captures it.
    ///
    /// # Errors
    /// [`BeginError`]; nothing changes, the sink is dropped.
    pub fn begin<S: Sink + 'static>(
        &mut self,
        point: Point,
        sink: S,
    ) -> Result<A::Image<S>, BeginError> {
        self.algorithm.begin(point, sink)
    }

    /// Begins an image now. The snapshotter thread captures it into `sink`, then runs `publish`
    /// while the image is still held (make it durable there), then ends the image.
    ///
    /// `publish` receives the reason if the image was not captured whole; it must then throw away
    /// what the sink has. If `publish` panics, the image ends anyway and counts as failed.
    ///
    /// # Errors
    /// [`BeginError`]; nothing changes, the sink is dropped, `publish` is not called.
    pub fn snapshot<S: Sink + 'static>(
        &mut self,
        point: Point,
        sink: S,
        publish: impl FnOnce(&mut S, Result<CaptureReport, CaptureError>) -> Publication
        + Send
        + 'static,
    ) -> Result<Begun, BeginError> {
        let started = Instant::now();
        if self.running() && self.algorithm.info().several {
            // There is one thread for captures.
            return Err(BeginError::Busy { epoch: self.under_way.epoch() });
        }
        let mut image = self.algorithm.begin(point, Polite { sink, spells: None })?;
        let progress = self.algorithm.progress();
        // What is captured in another process has a priority of its own.
        let leave = self.leave.as_ref().filter(|_| self.algorithm.info().in_process);
        if let Some(leave) = leave {
            image.sink_mut().spells = Some(leave.spells(progress.clone()));
        }
        self.under_way = progress;
        let begun = Begun { epoch: image.epoch(), begin: started.elapsed() };
        self.snapshotter.submit(Box::new(move || {
            let started = Instant::now();
            let captured = caught(|| image.capture()).unwrap_or(Err(CaptureError::Panicked));
            let (words, builds_on) = (image.words(), image.builds_on());
            let capture = started.elapsed();
            let report = captured.map(|()| CaptureReport { begun, words, capture, builds_on });
            let is_captured = report.is_ok();
            if publish(&mut image.sink_mut().sink, report) == Publication::Durable && is_captured {
                image.settle();
            }
        }));
        Ok(begun)
    }

    /// Whether an image is held: begun here and not published yet.
    #[must_use]
    pub fn running(&self) -> bool {
        self.under_way.running()
    }
    /// Words pushed into the sink; see [`Progress::captured_words`]. Means nothing unless an image
    /// is [`running`](Self::running).
    #[must_use]
    pub fn captured(&self) -> usize {
        self.under_way.captured_words()
    }
    /// See [`Algorithm::tend`].
    pub fn tend(&mut self) -> bool {
        self.algorithm.tend()
    }
    /// Progress and cancellation of the newest image, for any thread.
    #[must_use]
    pub fn progress(&self) -> Progress {
        self.algorithm.progress()
    }
    /// Progress and cancellation of the image that this engine began last, whatever other images
    /// of the algorithm are held.
    #[must_use]
    pub fn under_way(&self) -> Progress {
        self.under_way.clone()
    }
    /// Waits until no image is held. If the snapshotter thread has not come to it yet, the calling
    /// thread captures and publishes the image itself; of an algorithm that is
    /// [tended](crate::Info::tended) it does the tending instead.
    pub fn wait(&mut self) {
        self.set_hurry(true);
        if !self.algorithm.info().tended {
            self.snapshotter.wait();
        }
        let mut backoff = Backoff::default();
        while self.snapshotter.is_busy() {
            if !self.algorithm.tend() {
                backoff.wait();
            }
        }
        self.set_hurry(false);
    }

    fn set_hurry(&self, hurry: bool) {
        if let Some(leave) = &self.leave {
            leave.set_hurry(hurry);
        }
    }
}

impl<A: Algorithm> Drop for Engine<A> {
    /// Cancels the image under way and waits for its end.
    fn drop(&mut self) {
        if self.running() {
            self.under_way.cancel();
        }
        self.set_hurry(true);
    }
}

type Job = Box<dyn FnOnce() + Send>;

/// One thread, one job at a time.
struct Snapshotter {
    slot: Arc<JobSlot>,
    thread: Option<thread::JoinHandle<()>>,
}

/// The job that the snapshotter thread does next, or is doing.
#[derive(Default)]
struct JobSlot {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    job: Option<Job>,
    working: bool,
    closed: bool,
}

impl Snapshotter {
    fn start() -> io::Result<Self> {
        let slot = Arc::new(JobSlot::default());
        let theirs = Arc::clone(&slot);
        let thread = thread::Builder::new().name("snapshotter".into()).spawn(move || {
            while let Some(job) = theirs.next_job() {
                theirs.run(job);
            }
        })?;
        Ok(Self { slot, thread: Some(thread) })
    }

    fn submit(&self, job: Job) {
        self.slot.change(|state| state.job = Some(job));
    }

    fn is_busy(&self) -> bool {
        let state = self.slot.lock();
        state.working || state.job.is_some()
    }

    /// The waiting thread does a job that the snapshotter has not begun: on a busy machine the
    /// snapshotter may be long in coming.
    fn wait(&self) {
        let mut state = self.slot.lock();
        if let Some(job) = state.take_job() {
            drop(state);
            return self.slot.run(job);
        }
        while state.working {
            state = self.slot.wait(state);
        }
    }
}

impl State {
    fn take_job(&mut self) -> Option<Job> {
        let job = self.job.take()?;
        self.working = true;
        Some(job)
    }
}

impl Drop for Snapshotter {
    fn drop(&mut self) {
        self.slot.change(|state| state.closed = true);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join(); // it catches the panics of its jobs
        }
    }
}

impl fmt::Debug for Snapshotter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Snapshotter")
    }
}

type Guard<'a> = MutexGuard<'a, State>;

impl JobSlot {
    // A poisoned lock is taken anyway: each change below is one assignment.
    fn lock(&self) -> Guard<'_> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
    fn wait<'a>(&self, guard: Guard<'a>) -> Guard<'a> {
        self.changed.wait(guard).unwrap_or_else(|poisoned| poisoned.into_inner())
    }
    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.lock());
        self.changed.notify_all();
    }
    /// The next job, or `None` when closed and nothing is left to do.
    fn next_job(&self) -> Option<Job> {
        let mut state = self.lock();
        loop {
            if let Some(job) = state.take_job() {
                return Some(job);
            }
            if state.closed {
                return None;
            }
            state = self.wait(state);
        }
    }
    fn run(&self, job: Job) {
        // The panic hook has reported the panic, and unwinding has ended the image.
        let _ = caught(job);
        self.change(|state| state.working = false);
    }
}
