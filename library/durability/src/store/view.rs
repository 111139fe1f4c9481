//! Views and branches: images of a store that are read in this process, for as long as one likes.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustc_hash::FxBuildHasher;
use stillframe::algorithms::imprint::Imprint;
use stillframe::{Algorithm, Image, MemoryError, Point, Unread};

use super::{Store, check_run};
use crate::error::Error;
use crate::mutant::Mutant;

impl<A: Algorithm> Store<A> {
    /// The state of now, to be read for as long as the view is kept, while the store goes on. It
    /// takes microseconds, as the begin of a checkpoint does; any number of threads may read. The
    /// state must be valid, as at a [`point`](Self::point).
    ///
    /// Views and the checkpoint under way share the budget of images: each old value is kept once,
    /// and 16 bytes at most for a word that was written since the oldest of them began, or once
    /// more since each later begin. When it is used up, the oldest is given up, or the writer waits
    /// for it: [`Options::views`](crate::Options::views).
    ///
    /// ```
    /// # use stillframe_durability::{Error, Options, Store};
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let data = tempfile::tempdir()?;
    /// let mut accounts: Store = Store::open(data.path(), Options::words(2))?;
    /// accounts.write(0, 100);
    /// let yesterday = accounts.view()?;
    /// accounts.write(0, 30);
    /// accounts.write(1, 70);
    /// let report = std::thread::spawn(move || yesterday.read(0));
    /// assert_eq!(report.join().expect("it reads")?, 100);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::NoViews`] for an algorithm that holds one image at a time, [`Error::TooManyViews`],
    /// [`Error::View`] without memory; nothing changes.
    pub fn view(&mut self) -> Result<View<A>, Error> {
        let algorithm = self.engine.algorithm().info();
        if !algorithm.several {
            return Err(Error::NoViews { algorithm: algorithm.name });
        }
        if self.views() >= self.views_most {
            return Err(Error::TooManyViews { most: self.views_most });
        }
        let sink = Unread::new(self.views_on_full);
        let image = self.engine.begin(Point::declare(), sink);
        let image = image.map_err(|source| Error::View { source })?;
        Ok(View { image, _counted: Arc::clone(&self.views) })
    }

    /// Views that are kept.
    #[must_use]
    pub fn views(&self) -> usize {
        Arc::strong_count(&self.views) - 1
    }

    /// A copy of the state of now that can be written, made in the time of a [`view`](Self::view):
    /// it takes memory for what is written, here or there. The store knows nothing of it; what is
    /// written to a branch is gone with it.
    ///
    /// # Errors
    /// As for [`view`](Self::view).
    pub fn branch(&mut self) -> Result<Branch<A>, Error> {
        let most = self.words_max;
        Ok(Branch::from_view(Arc::new(self.view()?), most))
    }
}

/// The state of a store as it was, kept until this is dropped; see [`Store::view`].
pub struct View<A: Algorithm = Imprint> {
    image: A::Image<Unread>,
    _counted: Arc<()>,
}

impl<A: Algorithm> View<A> {
    /// Words of the state.
    #[must_use]
    pub fn words(&self) -> usize {
        self.image.words()
    }

    /// A word as it was. Panics if `index` is out of bounds.
    ///
    /// # Errors
    /// [`ViewLost`] from the moment on at which the view was given up.
    pub fn read(&self, index: usize) -> Result<u64, ViewLost> {
        check_run(self.words(), index, 1);
        self.image.get(index).ok_or(ViewLost)
    }

    /// A word as it was; `None` out of bounds.
    ///
    /// # Errors
    /// As for [`read`](Self::read).
    pub fn get(&self, index: usize) -> Result<Option<u64>, ViewLost> {
        if index < self.words() { self.read(index).map(Some) } else { Ok(None) }
    }

    /// A run of words as it was: faster than one by one. Panics if it is out of bounds.
    ///
    /// # Errors
    /// [`ViewLost`] as for [`read`](Self::read); `into` then holds anything.
    pub fn read_run(&self, start: usize, into: &mut [u64]) -> Result<(), ViewLost> {
        check_run(self.words(), start, into.len());
        self.image.get_run(start, into).ok_or(ViewLost)
    }

    /// The view as an image, for code that reads any image.
    #[must_use]
    pub fn image(&self) -> &A::Image<Unread> {
        &self.image
    }
}

impl<A: Algorithm> fmt::Debug for View<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("View").field("epoch", &self.image.epoch()).finish_non_exhaustive()
    }
}

/// A view has no words any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "the view was given up: what was written since it began needs more memory than the budget; \
     raise it, keep views for less long, or let the writer wait for them"
)]
pub struct ViewLost;

/// A state that goes its own way from where a store was; see [`Store::branch`]. A clone goes
/// another way from here: it takes the time and the memory of what was written here.
///
/// If the [`view`](Store::view) below is given up, what is read from then on is zero, and
/// [`check`](Self::check) says so: ask it before you believe a result.
#[derive(Debug)]
pub struct Branch<A: Algorithm = Imprint> {
    base: Arc<View<A>>,
    written: HashMap<usize, u64, FxBuildHasher>,
    words: usize,
    words_max: usize,
    /// Whether a word that was read was not there. Relaxed: it comes from the thread that reads.
    is_lost: AtomicBool,
}

impl<A: Algorithm> Branch<A> {
    /// A branch from the state of a view, which may grow to `words_max` words.
    #[must_use]
    pub fn from_view(base: Arc<View<A>>, words_max: usize) -> Self {
        let words = base.words();
        let written = HashMap::default();
        let (words_max, is_lost) = (words_max.max(words), AtomicBool::new(false));
        Self { base, written, words, words_max, is_lost }
    }

    /// Words of state.
    #[inline]
    #[must_use]
    pub fn words(&self) -> usize {
        self.words
    }

    /// The latest value of a word here; 0 if it is lost, which [`check`](Self::check) tells. Panics
    /// if `index` is out of bounds.
    #[inline]
    #[must_use]
    pub fn read(&self, index: usize) -> u64 {
        self.try_read(index).unwrap_or(0)
    }

    /// The latest value of a word here. Panics if `index` is out of bounds.
    ///
    /// # Errors
    /// [`ViewLost`] if it was not written here, and the view below was given up.
    #[inline]
    pub fn try_read(&self, index: usize) -> Result<u64, ViewLost> {
        match self.written.get(&index) {
            Some(_) if Mutant::BranchReadsBelow.is_made() => self.read_base(index),
            Some(&value) => Ok(value),
            None => self.read_base(index),
        }
    }

    /// As [`read`](Self::read); `None` out of bounds.
    #[inline]
    #[must_use]
    pub fn get(&self, index: usize) -> Option<u64> {
        (index < self.words).then(|| self.read(index))
    }

    /// Reads of the `len` words from `start` on; see [`Store::window`].
    #[inline]
    pub fn window(&self, start: usize, len: usize) -> Option<impl Fn(usize) -> u64> {
        let is_whole = len <= self.words() && start <= self.words() - len;
        is_whole.then_some(move |index| {
            assert!(index < len, "word {index} of a window of {len}");
            self.read(start + index)
        })
    }

    /// A run of words as they are here: faster than one by one. Panics if it is out of bounds.
    ///
    /// # Errors
    /// [`ViewLost`] as for [`try_read`](Self::try_read) of each; `into` then holds anything.
    pub fn read_run(&self, start: usize, into: &mut [u64]) -> Result<(), ViewLost> {
        check_run(self.words, start, into.len());
        let below = self.base.words().saturating_sub(start).min(into.len());
        let (old, grown) = into.split_at_mut(below);
        grown.fill(0);
        if below > 0 && self.base.read_run(start, old).is_err() {
            return self.read_each(start, into);
        }
        if self.written.len() < into.len() {
            for (&index, &value) in &self.written {
                if let Some(word) = index.checked_sub(start).and_then(|at| into.get_mut(at)) {
                    *word = value;
                }
            }
        } else {
            for (index, word) in (start..).zip(into) {
                *word = self.written.get(&index).copied().unwrap_or(*word);
            }
        }
        Ok(())
    }

    /// A run of which some was lost below: what was written here is there all the same.
    fn read_each(&self, start: usize, into: &mut [u64]) -> Result<(), ViewLost> {
        for (index, word) in (start..).zip(into) {
            *word = self.try_read(index)?;
        }
        Ok(())
    }

    fn read_base(&self, index: usize) -> Result<u64, ViewLost> {
        assert!(index < self.words, "word {index} of {}", self.words);
        if index >= self.base.words() {
            return Ok(0);
        }
        self.base.read(index).inspect_err(|ViewLost| {
            if index.is_multiple_of(2) || !Mutant::LossIsEven.is_made() {
                self.is_lost.store(true, Ordering::Relaxed);
            }
        })
    }

    /// Replaces a word here. Panics if `index` is out of bounds.
    #[inline]
    pub fn write(&mut self, index: usize, value: u64) {
        assert!(index < self.words, "word {index} of {}", self.words);
        self.written.insert(index, value);
    }

    /// Grows the state here to `words` words, the new ones zero. Never shrinks it.
    ///
    /// # Errors
    /// [`MemoryError`] beyond the `max_words` of the store; nothing changes.
    pub fn grow(&mut self, words: usize) -> Result<(), MemoryError> {
        if words > self.words_max {
            return Err(MemoryError::Reserved { words, reserved: self.words_max });
        }
        self.words = self.words.max(words);
        Ok(())
    }

    /// The words that were written here, each with its value, in no order.
    pub fn written(&self) -> impl ExactSizeIterator<Item = (usize, u64)> + '_ {
        self.written.iter().map(|(&index, &value)| (index, value))
    }

    /// Whether all that was read here was there.
    ///
    /// # Errors
    /// [`ViewLost`] if some of it was not: what was made of it counts for nothing.
    #[must_use = "words that were lost were read as 0"]
    pub fn check(&self) -> Result<(), ViewLost> {
        if self.is_lost.load(Ordering::Relaxed) { Err(ViewLost) } else { Ok(()) }
    }
}

impl<A: Algorithm> Clone for Branch<A> {
    fn clone(&self) -> Self {
        Self {
            base: Arc::clone(&self.base),
            written: self.written.clone(),
            is_lost: AtomicBool::new(
                self.is_lost.load(Ordering::Relaxed) && !Mutant::CloneForgetsLoss.is_made(),
            ),
            ..*self
        }
    }
}
