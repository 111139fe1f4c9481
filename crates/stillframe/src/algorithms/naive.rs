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

use crate::algorithm::{Algorithm, BLOCK_WORDS, Options};
use crate::error::{BeginError, MemoryError};
use crate::handover::{Handover, Progress};
use crate::image::{Held, InProcess, Lease, View};
use crate::info::Info;
use crate::memory::Words;
use crate::mutant::Mutant;
use crate::os::Shared;
use crate::point::Point;
use crate::sink::Sink;

/// State words with naive snapshots.
#[derive(Debug)]
pub struct Naive {
    words: Words,
    /// The copy; grows with the state, at begin.
    shadow: Words,
    handover: Shared<Handover>,
}

impl Algorithm for Naive {
    type Image<S: Sink + 'static> = InProcess<S, Shadow>;
    const INFO: Info = Self::REGISTERED;

    fn create(options: &Options) -> Result<Self, MemoryError> {
        Ok(Self {
            words: Words::create(options)?,
            shadow: Words::create(options)?,
            handover: Shared::new(Handover::new())?,
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

    #[inline]
    fn write(&mut self, index: usize, value: u64) {
        self.words.store(index, value);
    }

    fn begin<S: Sink + 'static>(
        &mut self,
        _point: Point,
        sink: S,
    ) -> Result<InProcess<S, Shadow>, BeginError> {
        self.handover.check_idle()?;
        self.shadow.grow(self.words.len())?;
        self.shadow.copy_all(&self.words);
        let copies_late = self.handover.is(Mutant::NaiveCopiesLate);
        let shadow = if copies_late { self.words.view() } else { self.shadow.view() };
        let lease = Lease::publish(&self.handover, self.words.len());
        Ok(InProcess::new(Shadow(shadow), Held::new(sink, lease)))
    }

    fn progress(&self) -> Progress {
        Progress::new(&self.handover)
    }
}

/// The copy of the state taken at begin.
#[derive(Debug)]
pub struct Shadow(Words);

impl View for Shadow {
    fn block(&self, block: usize, into: &mut [u64]) {
        self.0.copy_to(block * BLOCK_WORDS, into);
    }
    fn word(&self, index: usize) -> u64 {
        self.0.load(index)
    }
}
