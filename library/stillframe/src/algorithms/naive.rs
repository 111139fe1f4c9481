//! Naive Snapshot (NS). Source: Li et al., "A Comparative Study of Consistent Snapshot Algorithms
//! for Main-Memory Database Systems", section 3.1.1; Cao et al. 2011, where it is the baseline.
//!
//! Idea: stop the writer, copy everything, let the writer go on; dump the copy.
//!
//! - Memory: 2 copies. Begin: O(state), the writer copies. Read, write: nothing added. Full image.
//! - Unit: the word; partial writes need no care, since nothing has two homes.
//! - N1: between begin and the end of an image only the snapshotter touches the shadow.
//! - N2: between images only the writer touches it. The two edges of the hand-over keep N1 and N2
//!   apart.
//!
//! Deviation: the writer itself copies, at its own point of consistency, so no lock is needed.

use std::fmt;
use std::marker::PhantomData;

use crate::algorithm::{Algorithm, New, write_by_replace};
use crate::error::{BeginError, MemoryError};
use crate::handover::{Handover, Progress};
use crate::image::{Held, InProcess, Lease, View};
use crate::info::Info;
use crate::memory::{InPlace, Item, Words};
use crate::mutant::Mutant;
use crate::options::Options;
use crate::os::Shared;
use crate::point::Point;
use crate::sealed::Sealed;
use crate::sink::{BLOCK_WORDS, Sink};

/// Copied by the writer.
pub type Naive = FullCopy<ByWriter>;

/// Who copies the state.
pub trait Copiers: Sealed + fmt::Debug + Send + 'static {
    /// The registry's line.
    const INFO: Info;
    /// How many threads they are.
    fn count(options: &Options) -> usize;
}

/// The writer alone.
#[derive(Debug)]
pub struct ByWriter;

impl Sealed for ByWriter {}
impl Copiers for ByWriter {
    const INFO: Info = Naive::REGISTERED;

    fn count(_: &Options) -> usize {
        1
    }
}

/// State words with naive snapshots.
#[derive(Debug)]
pub struct FullCopy<C> {
    words: Words,
    /// The copy; grows with the state, at begin.
    shadow: Words,
    threads: usize,
    handover: Shared<Handover>,
    copiers: PhantomData<C>,
}

// SAFETY: the conformance suite proves it.
unsafe impl<C: Copiers> Algorithm for FullCopy<C> {
    type Image<S: Sink + 'static> = InProcess<S, Shadow>;
    const INFO: Info = C::INFO;

    fn create(options: &Options) -> Result<Self, MemoryError> {
        Ok(Self {
            words: Words::create(options)?,
            threads: C::count(options),
            shadow: Words::create(options)?,
            handover: Shared::new(Handover::new())?,
            copiers: PhantomData,
        })
    }

    fn words(&self) -> usize {
        self.words.len()
    }

    fn grow(&mut self, words: usize) -> Result<(), MemoryError> {
        self.words.grow(words)
    }

    #[inline]
    fn read(&self, index: usize) -> u64 {
        self.words.load(index)
    }

    write_by_replace!(in_place);

    #[inline]
    fn approach(&self, index: usize) {
        self.words.prefetch(index);
    }

    fn in_place(&mut self) -> Option<InPlace<'_>> {
        (self.handover.epoch() == 0).then(|| InPlace::new(&self.words))
    }

    fn begin<S: Sink + 'static>(
        &mut self,
        _point: Point,
        sink: S,
    ) -> Result<InProcess<S, Shadow>, BeginError> {
        self.handover.check_idle()?;
        self.shadow.grow(self.words.len())?;
        self.shadow.copy_all(&mut self.words, self.threads);
        let copies_late = self.handover.is(Mutant::NaiveCopiesLate);
        let shadow = if copies_late { self.words.view() } else { self.shadow.view() };
        let lease = Lease::publish(&self.handover, self.words.len());
        Ok(InProcess::new(Shadow(shadow), Held::new(sink, lease)))
    }

    fn progress(&self) -> Progress {
        Progress::new(&self.handover)
    }
}

impl<C> FullCopy<C> {
    /// Replaces a word, or half of one, in place.
    #[inline(always)]
    fn replace<T: Item>(&mut self, index: usize, new: impl New<T>) {
        T::store(&self.words, index, new.resolve(|| T::load(&self.words, index)));
    }
}

/// The copy of the state taken at begin.
#[derive(Debug)]
pub struct Shadow(Words);

impl View for Shadow {
    fn block(&self, block: usize, into: &mut [u64]) {
        self.0.copy_to(block * BLOCK_WORDS, into);
    }
    fn pass(&self, _block: usize, _len: usize) {} // a block is but read
    fn word(&self, index: usize) -> u64 {
        self.0.load(index)
    }
}
