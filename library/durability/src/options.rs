//! The options of a store.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::thread::available_parallelism;
use std::time::Duration;

use crate::application::Application;
use crate::chain::Increments;
use crate::disk::Disk;
use crate::error::Error;
use crate::log::options::LogOptions;
use crate::retention::Retention;
use crate::told::Told;
use stillframe::OnFull;

/// Views that a store keeps at a time, if nothing else is asked for.
const VIEWS: usize = 64;

/// How large the state is, and when it is checkpointed.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Options {
    /// Size and manner of the state memory. A checkpoint of a larger state is recovered at its own
    /// size; one of a smaller state is extended with zeros.
    pub memory: stillframe::Options,
    /// Time from one scheduled checkpoint to the next; none is scheduled by default.
    pub every: Option<Duration>,
    /// Whether [`Store::close`](crate::Store::close) takes a last checkpoint.
    pub checkpoint_on_close: bool,
    /// What happens when the budget is used up and the oldest image is a view's.
    pub views_on_full: OnFull,
    /// What is told how each checkpoint ends.
    pub(crate) on_checkpoint: Option<Told>,
    /// What is told that a checkpoint is overdue.
    pub(crate) on_overdue: Option<Told>,
    /// How far back the store can be rewound.
    pub retention: Retention,
    /// How the log is kept, if the store is opened with one.
    pub log: LogOptions,
    /// How long chains of increments may become; `None` for full checkpoints only. (An algorithm
    /// whose images are increments has these anyway, with the default.)
    pub increments: Option<Increments>,
    /// Most bytes a second that checkpoints write; no limit by default.
    pub bandwidth: Option<u64>,
    /// Whether checkpoints are packed by LZ4: shorter files for processor time.
    pub pack: bool,
    /// Threads that load a checkpoint when the store is opened, and each increment upon it in turn:
    /// one collects what the others read, past the page cache, check and unpack. By default four
    /// more than there are processors, 12 at most: most of them wait for the disk. What is loaded,
    /// and the report of damage, does not depend on it.
    pub load_threads: usize,
    /// Whose state it is and how it is laid out; no tag by default.
    pub application: Application,
    /// Whether a broken chain of increments is to be followed as far as it is whole. What is lost
    /// then is in [`Recovery::skipped`](crate::Recovery::skipped), and moved aside.
    pub accept_chain_loss: bool,
    /// Whether a damaged log is to be read up to the damage. What is lost then is in
    /// [`Recovery::log`](crate::Recovery::log), and moved aside.
    pub accept_log_loss: bool,
    /// Where the files are, if not in a directory of the machine's file system.
    pub disk: Option<Arc<dyn Disk>>,
}

impl Options {
    /// A state of `words` words that cannot grow, checkpointed on demand.
    #[must_use]
    pub fn words(words: usize) -> Self {
        Self::memory(stillframe::Options::words(words))
    }
    /// A state in memory of one's own choosing: room to grow, huge pages, budget of an image.
    #[must_use]
    pub fn memory(memory: stillframe::Options) -> Self {
        let memory = if memory.images > 1 { memory } else { memory.images(VIEWS + 1) };
        Self {
            memory,
            every: None,
            checkpoint_on_close: false,
            views_on_full: OnFull::Cancel,
            on_checkpoint: None,
            on_overdue: None,
            retention: Retention::default(),
            log: LogOptions::default(),
            increments: None,
            bandwidth: None,
            pack: false,
            load_threads: available_parallelism().map_or(1, NonZeroUsize::get).min(8) + 4,
            application: Application::default(),
            accept_chain_loss: false,
            accept_log_loss: false,
            disk: None,
        }
    }
    /// Begins a checkpoint at the first [`point`](crate::Store::point) after each interval. If one
    /// takes longer than that, the next begins right after it, and
    /// [`Stats::overdue`](crate::Stats::overdue) counts.
    #[must_use]
    pub fn every(self, interval: Duration) -> Self {
        Self { every: Some(interval), ..self }
    }
    /// Makes [`Store::close`](crate::Store::close) take a last checkpoint.
    #[must_use]
    pub fn checkpoint_on_close(self) -> Self {
        Self { checkpoint_on_close: true, ..self }
    }
    /// Lets so many [views](crate::Store::view) be kept at a time (64 by default), and says what
    /// happens when the [budget](stillframe::Options::budget) of images is used up and a view is
    /// the oldest: it is given up, which is the default, or the writer waits until it is dropped.
    /// Never choose the latter where the writer's own thread keeps views.
    #[must_use]
    pub fn views(mut self, most: usize, on_full: OnFull) -> Self {
        self.memory.images = most.saturating_add(1);
        Self { views_on_full: on_full, ..self }
    }
    /// Calls `report` with the number of each checkpoint that is durable, and with the error of
    /// each that failed or could not begin. The thread that has written the checkpoint calls it:
    /// one of the store's, or the application's where it waits for a checkpoint or none can begin.
    /// `report` should wake the threads that wait, and return; if it panics, the checkpoint is what
    /// it is.
    #[must_use]
    pub fn on_checkpoint(
        self,
        report: impl Fn(Result<u64, &Error>) + Send + Sync + 'static,
    ) -> Self {
        Self { on_checkpoint: Some(Told::new(report)), ..self }
    }
    /// Calls `report` each time that the [schedule](Self::every) asks for a checkpoint while one is
    /// [overdue](crate::Stats::overdue), with how often that was so: the disk is too slow for the
    /// interval, or no [`point`](crate::Store::point) comes. The thread of the schedule calls it.
    #[must_use]
    pub fn on_overdue(self, report: impl Fn(u64) + Send + Sync + 'static) -> Self {
        let told = Told::new(move |count| report(count.unwrap_or(0)));
        Self { on_overdue: Some(told), ..self }
    }
    /// Keeps this many checkpoints, 2 at least, and the log since the oldest of them.
    #[must_use]
    pub fn keep_generations(mut self, generations: usize) -> Self {
        self.retention.generations = generations;
        self
    }
    /// Keeps what it takes to get back to any time so long ago.
    #[must_use]
    pub fn keep_age(mut self, age: Duration) -> Self {
        self.retention.age = Some(age);
        self
    }
    /// Keeps no more than this many bytes, except two checkpoints and the log since.
    #[must_use]
    pub fn keep_bytes_max(mut self, bytes: u64) -> Self {
        self.retention.bytes_max = Some(bytes);
        self
    }
    /// Keeps one checkpoint and the space of another, into which the next is written: the *double
    /// backup* of Cao et al. (2011), section 4. There is nothing to go back to if the disk damages
    /// the one that is kept.
    #[must_use]
    pub fn keep_double_backup(mut self) -> Self {
        self.retention = Retention { double_backup: true, generations: 1, ..self.retention };
        self
    }
    /// Writes only what changed since the checkpoint before, in blocks of 4 KiB (or in the units of
    /// an algorithm whose images are increments), and merges such chains in the background.
    #[must_use]
    pub fn increments(self, increments: Increments) -> Self {
        Self { increments: Some(increments), ..self }
    }
    /// Limits what checkpoints write to this many bytes a second, until the store is closed.
    #[must_use]
    pub fn bandwidth(self, bytes_per_s: u64) -> Self {
        Self { bandwidth: Some(bytes_per_s), ..self }
    }
    /// Packs checkpoints by LZ4.
    #[must_use]
    pub fn pack(self) -> Self {
        Self { pack: true, ..self }
    }
    /// Loads checkpoints with this many threads.
    #[must_use]
    pub fn load_threads(self, load_threads: usize) -> Self {
        Self { load_threads, ..self }
    }
    /// Says whose state it is, in at most 16 bytes, and which version of its layout: of what each
    /// word means, and of the actions in the log. Files bear both. A directory of another
    /// application or layout is refused.
    ///
    /// ```
    /// # use stillframe_durability::{Error, Options, Store};
    /// # let data = tempfile::tempdir().expect("a temporary directory");
    /// let open = |tag, layout| -> Result<Store, Error> {
    ///     Store::open(data.path(), Options::words(1).application(tag, layout))
    /// };
    /// open("order-book", 2)?.checkpoint_and_wait()?;
    /// let refused = open("game", 1).expect_err("it is another's").to_string();
    /// assert!(refused.contains("is of application \"order-book\", layout 2, and was opened for"));
    /// # Ok::<(), Error>(())
    /// ```
    #[must_use]
    pub fn application(mut self, tag: &str, layout: u32) -> Self {
        let adopts = self.application.adopts;
        self.application = Application { adopts, ..Application::new(tag, layout) };
        self
    }
    /// Takes files without a tag for those of the [application](Self::application): of a version of
    /// this library that had no tags, or of one's own program when it gave none. It is needed until
    /// a checkpoint bears the tag.
    #[must_use]
    pub fn adopt_untagged(mut self) -> Self {
        self.application.adopts = true;
        self
    }
    /// Goes back to the newest checkpoint that is whole if a chain of increments is broken.
    #[must_use]
    pub fn accept_chain_loss(self) -> Self {
        Self { accept_chain_loss: true, ..self }
    }
    /// Says how the log of an [`ActStore`](crate::ActStore) is kept.
    #[must_use]
    pub fn log(self, log: LogOptions) -> Self {
        Self { log, ..self }
    }
    /// Goes on without what a damaged log has lost.
    #[must_use]
    pub fn accept_log_loss(self) -> Self {
        Self { accept_log_loss: true, ..self }
    }
    /// Keeps the files on `disk`, such as a [`SimulatedDisk`](crate::disk::SimulatedDisk). The
    /// directory that the store is opened with is then but its name in messages; that nobody else
    /// uses the disk meanwhile is up to the caller.
    #[must_use]
    pub fn disk(self, disk: Arc<dyn Disk>) -> Self {
        Self { disk: Some(disk), ..self }
    }
}
