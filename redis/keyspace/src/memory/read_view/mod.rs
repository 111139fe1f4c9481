//! Views that other threads read.
//!
//! A view of the history keeps the entries of an instant; where they lay the writer alone knows. A
//! *read view* is such a view with an image of the slot words of the same instant: what its readers
//! need, the writer does not change.
//!
//! Invariants
//! - R1: a read view begins when no slot holds a dead entry. So each word of its image is of an
//!   entry that the view sees, and that H1 keeps as it is.
//! - R2: an entry that an image can see, too, goes to limbo, and the history keeps a copy. What
//!   limbo releases while read views are open is held until none of those is.
//! - R3: a reader that looks at entries is within the view's gate. The view is closed only when the
//!   gate is empty: when its last handle has gone, or when it was given up and all have left.
//! - R4: before the slots go, each gate is cleared.

#[cfg(test)]
pub(crate) mod mutants;

use std::collections::VecDeque;
use std::fmt;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use stillframe::algorithms::any::Selected;
use stillframe::{Algorithm, BeginError, Gate, Image, SinkError, Unread};

use crate::DATABASES;
use crate::memory::limbo::Bucket;
use crate::memory::reclaim::Reclaimer;
use crate::memory::word_sink::{AtBegin, EntrySink};
#[cfg(test)]
use mutants::Mutant;

/// Most read views whose handles are there.
pub(crate) const READ_VIEWS_MAX: usize = 64;
/// Slots that a reader looks at between two looks at the gate.
const RUN: usize = if cfg!(any(test, miri)) { 4 } else { 512 };

/// Called when the keyspace is to be tended.
pub(crate) type Wake = Arc<dyn Fn() + Send + Sync>;

/// Calls it. A second panic would end the process.
pub(crate) fn rouse(wake: &Wake) {
    let _ = catch_unwind(AssertUnwindSafe(|| wake())).map_err(std::mem::forget);
}

/// The keyspace as it was at an instant, for any number of threads; see
/// [`Keyspace::read_view`](crate::Keyspace::read_view). A clone is of the same instant.
pub struct ReadView<A: Algorithm = Selected> {
    shared: Arc<Shared<A>>,
}

struct Shared<A: Algorithm> {
    image: A::Image<Unread>,
    at: AtBegin,
    keys: [usize; DATABASES],
    slots: usize,
    /// Behind the image: when it is dropped, nothing is left.
    handle: Handle,
}

/// What tells the writer that the last handle has gone.
struct Handle {
    signs: Arc<Signs>,
    wake: Wake,
}

#[derive(Default)]
struct Signs {
    gate: Gate,
    /// Released when the image of the words has ended.
    gone: AtomicBool,
}

/// A read view has been given up: what was written since it began needs more memory than the views
/// may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "the view was given up: what was written since it began needs more memory than views may \
     take; read faster, or let views take more"
)]
pub struct ReadViewLost;

/// A scan has ended before its end.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ScanError {
    /// The view has gone.
    #[error(transparent)]
    Lost(#[from] ReadViewLost),
    /// The sink wants no more.
    #[error(transparent)]
    Sink(#[from] SinkError),
}

/// No read view was opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadViewError {
    /// Its images go one at a time.
    #[error("other threads read no views of {algorithm}, which holds one image at a time")]
    Algorithm {
        /// Its name.
        algorithm: &'static str,
    },
    /// Too many.
    #[error("{READ_VIEWS_MAX} views are read by other threads: drop one")]
    TooMany,
    /// A database was cleared a moment ago: tend the keyspace, and ask again.
    #[error("a database was cleared, and its keys are still being swept: try again")]
    Unswept,
    /// No memory, for instance.
    #[error("the view cannot begin: {0}")]
    Begin(#[from] BeginError),
}

impl<A: Algorithm> Clone for ReadView<A> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
    }
}

impl<A: Algorithm> fmt::Debug for ReadView<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReadView").field("slots", &self.slots()).finish_non_exhaustive()
    }
}

impl<A: Algorithm> ReadView<A> {
    /// When it was opened, in unix milliseconds.
    #[must_use]
    pub fn now(&self) -> i64 {
        self.shared.at.now
    }

    /// Keys of a database, including expired ones that nothing had met.
    #[must_use]
    pub fn len(&self, db: usize) -> usize {
        self.shared.keys[db]
    }

    /// Whether no database had keys.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.shared.keys.iter().all(|keys| *keys == 0)
    }

    /// Slots to [scan](Self::scan), of which keys take one each.
    #[must_use]
    pub fn slots(&self) -> usize {
        self.shared.slots
    }

    /// Gives `sink` the entries that lay in these slots, those that had expired excepted, as an
    /// image does: threads that share out the [slots](Self::slots) meet each key once. `finish` is
    /// not called.
    ///
    /// While `sink` has an entry, nothing that was written since the view began is given back: it
    /// should not wait. A view that is dropped, or the keyspace, waits for it.
    ///
    /// # Errors
    /// [`ScanError`]: the view was given up, or the sink failed.
    pub fn scan(&self, slots: Range<usize>, sink: &mut impl EntrySink) -> Result<(), ScanError> {
        let Shared { image, at, handle, .. } = &*self.shared;
        let mut buffer = [0; RUN];
        let end = slots.end.min(self.slots());
        for start in (slots.start..end).step_by(RUN) {
            let words = &mut buffer[..RUN.min(end - start)];
            let _within = handle.signs.gate.enter().ok_or(ReadViewLost)?;
            image.get_run(start, words).ok_or(ReadViewLost)?;
            // SAFETY: the words are those of begin, and by R1 to R3 the entries that they name are
            // as they were, until the gate is left: by R4 also if the keyspace is dropped.
            unsafe { at.give(start, words, sink) }?;
        }
        Ok(())
    }

    /// Whether it was given up.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.shared.handle.signs.gate.is_shut()
            || self.slots() > 0 && self.shared.image.get(0).is_none()
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.signs.gate.shut();
        self.signs.gone.store(true, Ordering::Release);
        rouse(&self.wake);
    }
}

/// The read views as the writer knows them.
#[derive(Default)]
pub(crate) struct ReadViews {
    /// In the order of their opening, until nobody has a handle.
    known: Vec<Known>,
    opened: u64,
    held: VecDeque<Held>,
    held_bytes: usize,
}

struct Known {
    number: u64,
    /// Of the view of the history, while that is open.
    instant: Option<u64>,
    signs: Arc<Signs>,
}

/// What limbo has released (R2).
struct Held {
    /// The newest read view at that time.
    until: u64,
    released: Vec<Bucket>,
    bytes: usize,
}

impl ReadViews {
    /// Whether one more may be opened.
    pub(crate) fn check(&self) -> Result<(), ReadViewError> {
        if self.known.len() < READ_VIEWS_MAX { Ok(()) } else { Err(ReadViewError::TooMany) }
    }

    /// A new one, beside the view of the history of this number.
    pub(crate) fn open<A: Algorithm>(
        &mut self,
        instant: u64,
        image: A::Image<Unread>,
        at: AtBegin,
        keys: [usize; DATABASES],
        slots: usize,
        wake: Wake,
    ) -> ReadView<A> {
        let signs = Arc::<Signs>::default();
        self.opened += 1;
        let (number, theirs) = (self.opened, Arc::clone(&signs));
        self.known.push(Known { number, instant: Some(instant), signs });
        let handle = Handle { signs: theirs, wake };
        ReadView { shared: Arc::new(Shared { image, at, keys, slots, handle }) }
    }

    /// How many have views of the history.
    pub(crate) fn len(&self) -> usize {
        self.known.iter().filter(|it| it.instant.is_some()).count()
    }

    /// Whether none has anything that may still be read.
    pub(crate) fn is_empty(&self) -> bool {
        self.known.is_empty() && self.held.is_empty()
    }

    /// Gives up the oldest one, unless it has been; false if there is none.
    pub(crate) fn give_up(&mut self) -> bool {
        let oldest = self.known.iter().find(|it| it.instant.is_some());
        let given_up = oldest.filter(|it| !it.signs.gate.is_shut());
        given_up.inspect(|it| it.signs.gate.shut()).is_some()
    }

    /// The next view of the history that is to be closed (R3).
    pub(crate) fn over(&mut self) -> Option<u64> {
        self.known
            .iter_mut()
            .find(|it| it.signs.gate.is_empty() && it.instant.is_some())?
            .instant
            .take()
    }

    /// Forgets those that are over, and drops what only they needed (R2).
    pub(crate) fn tend(&mut self, reclaimer: &mut Reclaimer) {
        // Acquire: the next image finds the one of the words ended.
        self.known.retain(|it| it.instant.is_some() || !it.signs.gone.load(Ordering::Acquire));
        let mut open = self.known.iter().filter(|it| it.instant.is_some()).map(|it| it.number);
        let oldest = open.next().unwrap_or(u64::MAX);
        #[cfg(test)]
        if let (true, Some(newest)) = (Mutant::HoldsForNewest.is_made(), open.next_back()) {
            let early = self.held.iter_mut().filter(|held| held.until < newest);
            early.flat_map(|held| &mut held.released).for_each(Bucket::poison);
        }
        while let Some(held) = self.held.pop_front_if(|held| held.until < oldest) {
            self.held_bytes -= held.bytes;
            reclaimer.drop_later(held.released, held.bytes);
        }
    }

    /// Drops what limbo releases, now or when nobody needs it (R2).
    pub(crate) fn retire(
        &mut self,
        reclaimer: &mut Reclaimer,
        released: Vec<Bucket>,
        bytes: usize,
    ) {
        #[cfg(test)]
        let released = mutants::retired(released);
        match self.known.iter().rfind(|it| it.instant.is_some()) {
            Some(newest) => {
                self.held_bytes += bytes;
                self.held.push_back(Held { until: newest.number, released, bytes });
            }
            None => reclaimer.drop_later(released, bytes),
        }
    }

    /// Bytes that are held for read views beside their views of the history.
    pub(crate) fn held_bytes(&self) -> usize {
        self.held_bytes
    }

    /// Waits until nobody reads (R4).
    pub(crate) fn clear(&mut self) {
        self.known.iter().for_each(|it| it.signs.gate.clear());
    }
}
