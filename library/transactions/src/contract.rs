//! The contract that every algorithm for several writers fulfils, on one screen.

use crate::epochs::Epochs;
use crate::settings::Settings;
use crate::shape::{CreateError, Parts};
use crate::table::Table;

/// An image could not be captured; another one may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CaptureError<E> {
    /// The sink took no more.
    #[error(transparent)]
    Sink(#[from] E),
    /// Memory for before-images could not be had, so that the image has lost some.
    #[error("memory for the before-images of the image could not be had")]
    Memory,
    /// The [budget](Settings::budget) for before-images is used up.
    #[error("the budget for before-images is used up; the image is cancelled")]
    OverBudget,
    /// The process could not be forked, or its child has been killed.
    #[error("no image by fork: {0}")]
    Fork(std::io::ErrorKind),
}

/// State of records that transactions on several threads write, from which images are taken.
/// Algorithms only decide: no I/O, no clock, no threads, no locks of records. Hot paths are static
/// dispatch.
///
/// A transaction keeps its writes to itself until it commits. Then a worker announces the present
/// epoch, [installs](Self::install) all writes while it holds the locks of all records that it read
/// and wrote, and only then releases them. [`begin`](Self::begin) needs no quiet moment: it waits
/// for the installs under way and for nothing else, however long a transaction stays open.
pub trait Concurrent: Sized + Send + Sync + 'static {
    /// Name, source and costs.
    const INFO: Info;

    /// State of absent records.
    ///
    /// # Errors
    /// [`CreateError`] when the memory cannot be had.
    fn create(settings: &Settings) -> Result<Self, CreateError>;
    /// Where workers announce that they install.
    fn epochs(&self) -> &Epochs;
    /// Whether an epoch lets workers install; they wait for one that does.
    fn open(_epoch: u64) -> bool {
        true
    }

    /// The table that holds the newest value of a record, whose lock the caller holds.
    fn newest(&self, record: usize) -> &Table;
    /// A hint, given without the lock: a transaction is about to write a record. Whatever that will
    /// need may be brought near, while the lock and the record are on their way as well.
    fn prefetch(&self, record: usize) {
        self.newest(record).prefetch(record);
    }
    /// Installs the writes of a commit, whose `worker` has announced `epoch` and holds the locks of
    /// all it read and wrote. Calls `ordered` once, with the number of the first image that holds
    /// this commit, before it stores anything: a journal that panics leaves nothing of the commit.
    fn install(&self, worker: usize, epoch: u64, writes: &Writes<'_>, ordered: impl FnOnce(u64));

    /// Fixes the image of this moment and gives its number, which rises by one. Called by one
    /// thread at a time, and only after the image before has been [settled](Self::settle).
    fn begin(&self) -> u64;
    /// Pushes the image into a sink: once, by one thread.
    ///
    /// # Errors
    /// [`CaptureError`]; what the sink has is then no image.
    fn capture<S: Records>(&self, image: u64, sink: &mut S) -> Result<(), CaptureError<S::Error>>;
    /// Ends the image, whether it was captured, in part, or not at all. `kept` says whether the
    /// sink holds it: the next increment starts there.
    fn settle(&self, image: u64, kept: bool);
}

/// What a sink receives of an image: records in rising order, each at most once.
pub trait Records {
    /// Why it takes no more.
    type Error;
    /// A record of the image; `None` in an [increment](Completeness::Increment) says that it has
    /// been deleted. A full image leaves absent records out.
    ///
    /// # Errors
    /// Ends the capture.
    fn record(&mut self, record: usize, words: Option<&[u64]>) -> Result<(), Self::Error>;

    /// All records were pushed: the place to make the image last. Only an image of which this has
    /// succeeded is kept; the next increment holds what an image that was not kept held.
    ///
    /// # Errors
    /// Ends the capture.
    fn finish(&mut self) -> Result<(), Self::Error> {
        Ok(())
    }
}

/// What is known of an algorithm.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Info {
    /// Name on command lines and in tables.
    pub name: &'static str,
    /// Name in words.
    pub title: &'static str,
    /// Where it was published.
    pub citation: &'static str,
    /// Memory, in copies of the state.
    pub memory: &'static str,
    /// What begin waits for, and what it costs.
    pub begin: &'static str,
    /// What a sink receives.
    pub image: Completeness,
}

/// What a sink receives of an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Completeness {
    /// Every present record.
    Full,
    /// Records that have changed since the image that was kept last.
    Increment,
    /// Nothing: the algorithm is a floor for measurements and takes no images.
    Nothing,
}

/// One record that a transaction has written.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Written {
    pub(crate) record: usize,
    /// Where its words start among the values.
    pub(crate) start: usize,
    pub(crate) present: bool,
    /// What differs from the value before, or may.
    pub(crate) changed: Parts,
}

/// A record that a commit replaces.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Change<'t> {
    pub(crate) record: usize,
    /// What differs from the value before, or may.
    pub(crate) parts: Parts,
    /// All words of the new value; `None` if it is deleted.
    pub(crate) value: Option<&'t [u64]>,
}

/// What a transaction has written.
#[derive(Debug, Clone, Copy)]
pub struct Writes<'t> {
    pub(crate) width: usize,
    pub(crate) written: &'t [Written],
    pub(crate) values: &'t [u64],
}

impl<'t> Writes<'t> {
    /// Each record that was written, once, with its whole new value; `None` if it is deleted.
    pub fn iter(&self) -> impl Iterator<Item = (usize, Option<&'t [u64]>)> + use<'t> {
        self.changes().map(|change| (change.record, change.value))
    }
    pub(crate) fn changes(&self) -> impl Iterator<Item = Change<'t>> + use<'t> {
        let (values, width) = (self.values, self.width);
        self.written.iter().map(move |it| Change {
            record: it.record,
            parts: it.changed,
            value: it.present.then(|| &values[it.start..][..width]),
        })
    }
    /// Records written.
    #[must_use]
    pub fn len(&self) -> usize {
        self.written.len()
    }
    /// Whether it has only read.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.written.is_empty()
    }
}

/// Is told of each commit at the moment when it takes its place in the order, with all locks held:
/// a log of commits, or a test. It must be quick; what it does delays the transaction and a begin.
/// If it panics the transaction is aborted, as by a panic of its closure: it has to undo what it
/// noted.
pub trait Journal: Send + Sync + 'static {
    /// `worker` commits `writes`, having locked `touched` (all it has read or written). Images from
    /// number `image` on hold the commit.
    fn commit(
        &self,
        worker: usize,
        image: u64,
        writes: &Writes<'_>,
        touched: impl Iterator<Item = usize>,
    );
}

/// No journal.
impl Journal for () {
    fn commit(&self, _: usize, _: u64, _: &Writes<'_>, _: impl Iterator<Item = usize>) {}
}
