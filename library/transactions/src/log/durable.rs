//! The engine with its log: open, run, checkpoint.

use std::sync::{Mutex, PoisonError};

use crate::{
    CaptureError, Completeness, Concurrent, Engine, NoWorker, Records, Settings, Shape, Stop,
    Transaction,
};
use stillframe_durability::disk::{Directory, Location};
use stillframe_durability::{Application, Log, LogOptions, LogStats, Policy, Replayed};

use super::appliers::{self, Feeder};
use super::commits::{Commits, Outcome};
use super::error::{Error, Refused};
use super::image;
use super::manifest::{self, Manifest};
use super::mutant::{Mutant, Mutation};
use super::record;

/// The lock of a directory, held while it is open.
const LOCK: &str = "transactions.lock";

/// Images from which on they are merged, where an algorithm makes increments.
const IMAGES_MAX: usize = 8;

/// Threads that recover: each looks at all of the log, so that more would hold up one another.
const THREADS_MAX: usize = 8;

/// How a state is kept.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Options {
    /// The log. By [`Policy::Always`], the default, [`Worker::run`] returns when what it did is
    /// durable; by the others at once.
    pub log: LogOptions,
    /// Whose files these are; those of another are refused.
    pub application: Application,
    /// Whether a log that is damaged before its torn tail is taken up to there.
    pub accepts_loss: bool,
}

impl Options {
    /// With this log.
    #[must_use]
    pub fn log(self, log: LogOptions) -> Self {
        Self { log, ..self }
    }
    /// The files of this application.
    #[must_use]
    pub fn application(self, application: Application) -> Self {
        Self { application, ..self }
    }
    /// Takes a damaged log up to the damage.
    #[must_use]
    pub fn accept_loss(self) -> Self {
        Self { accepts_loss: true, ..self }
    }
}

/// What was found when a state was opened.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Recovery {
    /// The number of the newest image; 0 if there was none.
    pub image: u64,
    /// Records read from images.
    pub records: u64,
    /// Commits applied from the log.
    pub commits: u64,
    /// The log.
    pub log: Replayed,
}

/// A checkpoint that was published.
#[derive(Debug)]
#[non_exhaustive]
pub struct Checkpoint {
    /// Its number, which rises.
    pub number: u64,
    /// The first record of the log that recovery reads.
    pub position: u64,
    /// What could not be tidied up behind it. The next checkpoint tries again.
    pub left: Option<Error>,
}

/// An engine whose commits are in a log, in a directory of its own. When dropped, it first writes
/// and syncs the log.
#[derive(Debug)]
pub struct Durable<A: Concurrent> {
    engine: Engine<A, Commits>,
    waits: bool,
    keeper: Mutex<Keeper>,
    mutation: Mutation,
}

/// What a recovery has come by.
struct Found {
    /// The highest number of an image or a commit.
    newest: u64,
    records: u64,
    commits: u64,
}

/// What checkpoints change, one at a time.
#[derive(Debug)]
struct Keeper {
    directory: Directory,
    options: Options,
    manifest: Manifest,
    /// No image was published since the state was opened, so the first one is whole: all that was
    /// recovered was written since.
    is_fresh: bool,
    /// Manifests whose publication has failed since, and that may be on the disk nevertheless.
    in_doubt: Vec<Manifest>,
}

impl<A: Concurrent> Durable<A> {
    /// Opens the state at `location`, which is created if need be: its newest checkpoint, and the
    /// commits of its log since.
    ///
    /// # Errors
    /// [`Error`]; nothing is lost by trying again.
    pub fn open(
        location: impl Into<Location>,
        settings: Settings,
        options: Options,
    ) -> Result<(Self, Recovery), Error> {
        let mutation = Mutation::current();
        let directory = Directory::create_at(location)?.locked(LOCK)?;
        let manifest = match Manifest::read(&directory)? {
            Some(manifest) => manifest,
            None => first(&directory, settings.shape)?,
        };
        if manifest.shape != settings.shape {
            let (found, wanted) = (manifest.shape, settings.shape);
            return Err(Error::Shape { directory: directory.path().into(), found, wanted });
        }
        let engine = Engine::with_journal(settings, Commits::new(settings.workers))?;
        let keeper = Keeper::new(directory, options, manifest);
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let threads = cores.clamp(2, THREADS_MAX).min(settings.workers).max(1);
        let recovery = keeper.recover(&engine, threads, mutation)?;
        keeper.clean()?;
        let waits = keeper.options.log.policy == Policy::Always;
        Ok((Self { engine, waits, keeper: Mutex::new(keeper), mutation }, recovery))
    }

    /// A worker, for one thread at a time.
    ///
    /// # Errors
    /// [`NoWorker`] when all are in use.
    pub fn worker(&self) -> Result<Worker<'_, A>, NoWorker> {
        Ok(Worker { durable: self, inner: self.engine.worker()? })
    }

    /// Returns when everything up to this ticket of [`Worker::submit`] is durable.
    ///
    /// # Errors
    /// [`Refused::Log`].
    pub fn wait<E>(&self, Ticket(sequence): Ticket) -> Result<(), Refused<E>> {
        let commits = self.engine.journal();
        let waited = commits.wait(sequence);
        if self.mutation.is(Mutant::TrustsFailedLog) {
            return Ok(());
        }
        if let Err(error) = waited {
            return Err(Refused::Log { reason: error.to_string() });
        }
        // It may be in a log that no manifest names yet.
        self.refuse_failed()
    }

    fn refuse_failed<E>(&self) -> Result<(), Refused<E>> {
        match self.engine.journal().failure() {
            Some(reason) if !self.mutation.is(Mutant::TrustsFailedLog) => {
                Err(Refused::Log { reason })
            }
            _ => Ok(()),
        }
    }

    /// Writes the state of this moment while transactions go on, and lets go of the log before it.
    /// If the log has failed, the state as it is in memory begins another one, and transactions
    /// run again.
    ///
    /// # Errors
    /// [`Error`]; the checkpoint before and the log since are as they were.
    pub fn checkpoint(&self) -> Result<Checkpoint, Error> {
        let keeper = &mut *self.keeper.lock().unwrap_or_else(PoisonError::into_inner);
        let commits = self.engine.journal();
        let mut next = keeper.manifest.clone();
        let failed = commits.failed();
        let taken = self.take(keeper, commits, &mut next, failed.is_some());
        if taken.is_err() {
            // What is half written must not fill the disk. If this fails, the next one tries again.
            let _ = keeper.clean();
        }
        let number = taken?;
        let position = next.position;
        (keeper.manifest, keeper.is_fresh) = (next, false);
        keeper.in_doubt.clear();
        if let Some(count) = failed {
            commits.heal(count);
        }
        Ok(Checkpoint { number, position, left: keeper.tidy().err() })
    }

    /// Writes and publishes the image that `next` is then the manifest of; returns its number.
    fn take(
        &self,
        keeper: &mut Keeper,
        commits: &Commits,
        next: &mut Manifest,
        failed: bool,
    ) -> Result<u64, Error> {
        if A::INFO.image == Completeness::Nothing {
            return Err(Error::NoImages { name: A::INFO.name });
        }
        if failed {
            keeper.begin_log(commits, next)?;
        }
        let end = || commits.with_log(Log::last).unwrap_or_default() + 1;
        next.position = end();
        let image = self.engine.begin()?;
        if self.mutation.is(Mutant::NotesEndAfterBegin) {
            next.position = end();
        }
        let number = commits.number(image.number());
        let Keeper { directory, options, is_fresh, in_doubt, .. } = keeper;
        if A::INFO.image == Completeness::Full || *is_fresh {
            next.images.clear();
        }
        let writer =
            image::Writer::create(directory, image::CAPTURED, number, &options.application)?;
        let mutation = self.mutation;
        let mut sink =
            Publication { writer: Some(writer), directory, next, in_doubt, commits, mutation };
        match image.capture(&mut sink) {
            Ok(()) => {}
            Err(CaptureError::Sink(error)) => return Err(error),
            Err(CaptureError::OverBudget) => return Err(Error::OverBudget),
            Err(_) => return Err(Error::Memory),
        }
        if mutation.is(Mutant::KeepsUnpublished) {
            sink.publish()?;
        }
        Ok(number)
    }

    /// Why no transaction runs, if the log has failed; a [checkpoint](Self::checkpoint) ends that.
    #[must_use]
    pub fn failure(&self) -> Option<String> {
        self.engine.journal().failure()
    }

    /// Counts and times of the log.
    #[must_use]
    pub fn log_stats(&self) -> LogStats {
        self.engine.journal().with_log(Log::stats).unwrap_or_default()
    }
}

/// The manifest of a directory that has none, which must be empty.
fn first(directory: &Directory, shape: Shape) -> Result<Manifest, Error> {
    let known = [LOCK, manifest::TEMPORARY];
    if directory.names()?.iter().any(|name| !known.contains(&&name[..])) {
        return Err(Error::NotOurs { directory: directory.path().into() });
    }
    let manifest = Manifest::new(shape);
    manifest.publish(directory)?;
    Ok(manifest)
}

impl Keeper {
    fn new(directory: Directory, options: Options, manifest: Manifest) -> Self {
        Self { directory, options, manifest, is_fresh: true, in_doubt: Vec::new() }
    }

    /// Reads images and log into the engine by so many threads; its commits go into the log from
    /// then on.
    fn recover<A: Concurrent>(
        &self,
        engine: &Engine<A, Commits>,
        threads: usize,
        mutation: Mutation,
    ) -> Result<Recovery, Error> {
        let shape = self.manifest.shape;
        let mut found = Found { newest: self.manifest.number(), records: 0, commits: 0 };
        let (log, replayed) = appliers::feed(engine, shape, threads, |feeder| {
            for part in &self.manifest.images {
                image::read(&self.directory, part, &self.options.application, |piece| {
                    found.records += record::count(piece, shape)?;
                    feeder.push(piece);
                    Ok(())
                })?;
            }
            self.read_log(feeder, &mut found)
        })?;
        let commits = engine.journal();
        if !mutation.is(Mutant::ForgetsNumbers) {
            commits.begin_behind(found.newest);
        }
        commits.change_log(log);
        let Found { records, commits, .. } = found;
        Ok(Recovery { image: self.manifest.number(), records, commits, log: replayed })
    }

    /// Hands out what the log has behind the image.
    fn read_log(&self, feeder: &mut Feeder, found: &mut Found) -> Result<(Log, Replayed), Error> {
        let Self { directory, options: Options { log, application, accepts_loss }, .. } = self;
        let Manifest { shape, position, first, .. } = self.manifest;
        let (name, image) = (self.manifest.log_name(), self.manifest.number());
        if !directory.holds(&name)? && position == first {
            directory.create_below(&name)?;
            directory.sync()?;
        }
        let location = || directory.below(&name);
        if position == first && Log::segments(location()?)?.is_empty() {
            let log = Log::create(location()?, first, application, log.clone())?;
            return Ok((log, Replayed::default()));
        }
        let log = log.clone();
        let opened = Log::open(location()?, position, *accepts_loss, application, log, |action| {
            let mut bytes = action.bytes;
            let number = record::take(&mut bytes).ok_or("it has no number")?;
            record::count(bytes, shape)?;
            found.newest = found.newest.max(number);
            // What the image holds may have been followed by a commit that it holds as well, and
            // whose record is lost: applied again, it would undo that one.
            if number > image {
                found.commits += 1;
                feeder.push(bytes);
            }
            Ok(())
        });
        Ok(opened?)
    }

    /// Begins a log behind one that failed. The state in memory has what that one lost, so the
    /// next image must hold all of it: it begins when no commit can go into the old log any more.
    fn begin_log(&self, commits: &Commits, next: &mut Manifest) -> Result<(), Error> {
        let Self { directory, options, .. } = self;
        let last = commits.with_log(Log::last).unwrap_or_default();
        // Each attempt has a log of its own: an earlier one may have failed as well.
        let names = directory.names()?;
        while names.contains(&next.log_name()) {
            next.log += 1;
        }
        let name = next.log_name();
        directory.create_below(&name)?;
        let options = (&options.application, options.log.clone());
        next.first = last + 1;
        let log = Log::create(directory.below(&name)?, next.first, options.0, options.1)?;
        drop(commits.change_log(log));
        Ok(())
    }

    /// Removes what no manifest needs that may be on the disk.
    fn clean(&self) -> Result<(), Error> {
        let known = || [&self.manifest].into_iter().chain(&self.in_doubt);
        manifest::clean(&self.directory, |name| known().any(|manifest| manifest.needs(name)))
    }

    /// Merges images if they are many, and lets go of the log below the position.
    fn tidy(&mut self) -> Result<(), Error> {
        let Self { directory, manifest, options, in_doubt, .. } = self;
        if manifest.images.len() > IMAGES_MAX {
            let Manifest { shape, images, .. } = manifest;
            let merged = image::merge(directory, images, *shape, &options.application)?;
            let next = Manifest { images: vec![merged], ..manifest.clone() };
            in_doubt.push(next.clone()); // it may be on the disk, whatever panics
            next.publish(directory)?;
            in_doubt.pop();
            *manifest = next;
        }
        self.clean()?;
        let Self { directory, manifest, .. } = self;
        Ok(Log::remove_below(directory.below(&manifest.log_name())?, manifest.position)?)
    }
}

/// Takes the records of an image, and publishes it: only then does an increment count as kept.
struct Publication<'a> {
    writer: Option<image::Writer>,
    directory: &'a Directory,
    next: &'a mut Manifest,
    in_doubt: &'a mut Vec<Manifest>,
    commits: &'a Commits,
    mutation: Mutation,
}

impl Publication<'_> {
    fn publish(&mut self) -> Result<(), Error> {
        let Some(writer) = self.writer.take() else { return Ok(()) };
        self.next.images.push(writer.finish(self.directory)?);
        // What the log has below the position is on the disk, so that its loss would be noticed.
        self.commits.wait(self.next.position - 1)?;
        // It may be on the disk from here on, whatever fails or panics.
        self.in_doubt.push(self.next.clone());
        self.next.publish(self.directory)
    }
}

impl Records for Publication<'_> {
    type Error = Error;
    fn record(&mut self, record: usize, words: Option<&[u64]>) -> Result<(), Error> {
        match &mut self.writer {
            Some(writer) => writer.record(record, words),
            None => Ok(()),
        }
    }
    fn finish(&mut self) -> Result<(), Error> {
        match self.mutation.is(Mutant::KeepsUnpublished) {
            true => Ok(()),
            false => self.publish(),
        }
    }
}

/// Up to which record a transaction needs the log to be durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ticket(u64);

/// Runs transactions, one after the other.
#[derive(Debug)]
pub struct Worker<'d, A: Concurrent> {
    durable: &'d Durable<A>,
    inner: crate::Worker<'d, A, Commits>,
}

impl<A: Concurrent> Worker<'_, A> {
    /// Runs a transaction until it commits or its closure aborts it, as
    /// [`Worker::run`](crate::Worker::run) does, and returns when it is durable;
    /// by a [`Policy`] other than `Always`, at once.
    ///
    /// # Errors
    /// [`Refused`].
    pub fn run<T, E>(
        &mut self,
        body: impl FnMut(&mut Transaction<'_, A, Commits>) -> Result<T, Stop<E>>,
    ) -> Result<T, Refused<E>> {
        let (value, ticket) = self.submit(body)?;
        if self.durable.waits && !self.durable.mutation.is(Mutant::AcknowledgesBeforeSync) {
            self.durable.wait(ticket)?;
        }
        Ok(value)
    }

    /// Runs a transaction, and returns a ticket for [`Durable::wait`] in place of waiting: one
    /// thread can so fill a batch. Tell nobody what it did before.
    ///
    /// # Errors
    /// [`Refused`].
    pub fn submit<T, E>(
        &mut self,
        body: impl FnMut(&mut Transaction<'_, A, Commits>) -> Result<T, Stop<E>>,
    ) -> Result<(T, Ticket), Refused<E>> {
        let commits = self.durable.engine.journal();
        self.durable.refuse_failed()?;
        let worker = self.inner.number();
        commits.start(worker);
        let value = self.inner.run(body).map_err(Refused::Aborted)?;
        match commits.outcome(worker) {
            Outcome::Logged(sequence) => Ok((value, Ticket(sequence))),
            // It has read what stands in the log up to now, which need not be durable.
            Outcome::Nothing => {
                Ok((value, Ticket(commits.with_log(Log::last).unwrap_or_default())))
            }
            Outcome::Lost => {
                let reason = commits.failure().unwrap_or_default();
                Err(Refused::Log { reason })
            }
        }
    }
}
