//! What the images of all algorithms have in common: a sink, a lease on the hand-over, and the walk
//! over the blocks. An algorithm whose images stay in this process adds a [`View`], or [`Changes`]
//! where an image is made of what changed since the one before.

#[cfg(feature = "rivals")]
mod incremental;
mod marks;

use crate::algorithm::Image;
use crate::error::CaptureError;
use crate::handover::Handover;
use crate::mutant::Mutant;
use crate::os::Shared;
use crate::sink::{BLOCK_WORDS, Sink};

#[cfg(feature = "rivals")]
pub use incremental::{ByArray, BySink, Changes, Completion, Increment};
#[cfg(feature = "rivals")]
pub(crate) use incremental::{fold, rewrite};
pub use marks::Marks;
#[cfg(feature = "rivals")]
pub(crate) use marks::low;

/// How one algorithm finds the state as it was at begin.
pub trait View: Send {
    /// Fills `into` with the words of `block`. Blocks come in order, each once, and each that does
    /// not come here is [passed](Self::pass).
    fn block(&self, block: usize, into: &mut [u64]);
    /// The sink declines `block`, which has `len` words: does what [`block`](Self::block) does for
    /// the algorithm's own sake, the copying into a buffer aside.
    fn pass(&self, block: usize, len: usize);
    /// One word, which is in bounds.
    fn word(&self, index: usize) -> u64;
    /// The words from `start` on, which are in bounds.
    fn run(&self, start: usize, into: &mut [u64]) {
        for (word, index) in into.iter_mut().zip(start..) {
            *word = self.word(index);
        }
    }
}

/// An image that lives in this process.
#[derive(Debug)]
pub struct InProcess<S, V> {
    /// Before the lease, so that what an algorithm does when its view is dropped (Piggyback copies
    /// what it has not yet) is done when the image ends.
    view: V,
    held: Held<S>,
}

impl<S, V: View> InProcess<S, V> {
    pub(crate) fn new(view: V, held: Held<S>) -> Self {
        Self { view, held }
    }
}

impl<S: Sink, V: View> Image for InProcess<S, V> {
    type Sink = S;

    fn words(&self) -> usize {
        self.held.lease.words
    }
    fn epoch(&self) -> u64 {
        self.held.lease.epoch
    }
    fn get(&self, index: usize) -> Option<u64> {
        self.held.get(index, 1, || self.view.word(index))
    }
    fn get_run(&self, start: usize, into: &mut [u64]) -> Option<()> {
        self.held.get(start, into.len(), || self.view.run(start, into))
    }
    fn capture(&mut self) -> Result<(), CaptureError> {
        self.held.spend()?;
        let view = &self.view;
        self.held.push(|block, into| view.block(block, into), |block, len| view.pass(block, len))
    }
    fn sink_mut(&mut self) -> &mut S {
        &mut self.held.sink
    }
    fn into_sink(self) -> S {
        self.held.sink
    }
}

/// A sink, and the right to the image that goes into it.
#[derive(Debug)]
pub(crate) struct Held<S> {
    pub(crate) sink: S,
    pub(crate) lease: Lease,
    spent: bool,
}

impl<S: Sink> Held<S> {
    pub(crate) fn new(sink: S, lease: Lease) -> Self {
        Self { sink, lease, spent: false }
    }

    /// Marks the image as captured: it is pushed once.
    pub(crate) fn spend(&mut self) -> Result<(), CaptureError> {
        if std::mem::replace(&mut self.spent, true) { Err(CaptureError::Spent) } else { Ok(()) }
    }

    /// What `words` gives, if the image still has the `len` words from `start` on.
    pub(crate) fn get<T>(&self, start: usize, len: usize, words: impl FnOnce() -> T) -> Option<T> {
        let Lease { handover, epoch, words: all } = &self.lease;
        if start > *all || len > all - start || self.spent {
            return None;
        }
        handover.attach(*epoch);
        if handover.is(Mutant::HandoverGetChecksStopFirst) {
            return handover.check_stop(*epoch).is_ok().then(words);
        }
        let words = words();
        // Looked at after the words: an image that was given up meanwhile has none.
        handover.check_stop(*epoch).is_ok().then_some(words)
    }

    /// Pushes the image block by block: `fill(block, buffer)` gives one block; for one that the
    /// sink declines `pass(block, words)` is called.
    pub(crate) fn push(
        &mut self,
        mut fill: impl FnMut(usize, &mut [u64]),
        pass: impl FnMut(usize, usize),
    ) -> Result<(), CaptureError> {
        let fill = |_: &mut S, block, into: &mut [u64]| {
            fill(block, into);
            Ok(Marks::ALL)
        };
        self.push_parts(fill, pass)
    }

    /// Pushes the image block by block: `fill(sink, block, buffer)` gives one block, and says which
    /// runs of it are to be pushed; for one that the sink declines `pass(block, words)` is called.
    /// After each block the progress is published. A wish to stop is obeyed after `fill`: an image
    /// that was given up before its words were copied never reaches the sink.
    ///
    /// If this fails or panics, the image stops before the failure is known elsewhere: a writer
    /// that waits for the capture waits in vain.
    pub(crate) fn push_parts(
        &mut self,
        mut fill: impl FnMut(&mut S, usize, &mut [u64]) -> Result<Marks, CaptureError>,
        mut pass: impl FnMut(usize, usize),
    ) -> Result<(), CaptureError> {
        let Lease { handover, epoch, words } = &self.lease;
        let unfinished = Unfinished { handover, epoch: *epoch };
        handover.attach(*epoch);
        let mut buffer = [0; BLOCK_WORDS];
        let mut push = |block: usize| -> Result<(), CaptureError> {
            let start = block * BLOCK_WORDS;
            let buffer = &mut buffer[..BLOCK_WORDS.min(words - start)];
            if !self.sink.wants(start) {
                handover.check_stop(*epoch)?;
                pass(block, buffer.len());
                handover.advance(start + buffer.len());
                return Ok(());
            }
            let checks_first = handover.is(Mutant::HandoverChecksStopFirst);
            if checks_first {
                handover.check_stop(*epoch)?;
            }
            let part = fill(&mut self.sink, block, buffer)?;
            if !checks_first {
                handover.check_stop(*epoch)?;
            }
            if handover.is(Mutant::HandoverAdvancesFirst) {
                handover.advance(start + buffer.len());
            }
            for run in part.runs(buffer.len()) {
                self.sink.push(start + run.start, &buffer[run])?;
            }
            handover.advance(start + buffer.len());
            Ok(())
        };
        for block in 0..words.div_ceil(BLOCK_WORDS) {
            push(block)?;
        }
        self.sink.finish()?;
        std::mem::forget(unfinished);
        Ok(())
    }
}

/// A capture that has not ended well: dropping it stops its image.
struct Unfinished<'a> {
    handover: &'a Handover,
    epoch: u64,
}

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        let forgets = self.handover.is(Mutant::HandoverForgetsPanic) && std::thread::panicking();
        if !forgets && !self.handover.is(Mutant::HandoverFailsSilently) {
            self.handover.cancel(self.epoch);
        }
    }
}

/// The right to one image. Dropping it ends the image: edge 2 of the hand-over.
#[derive(Debug)]
pub(crate) struct Lease {
    pub(crate) handover: Shared<Handover>,
    pub(crate) epoch: u64,
    pub(crate) words: usize,
}

impl Lease {
    /// Begins the image of `words` words. The caller is the writer, has found the hand-over idle,
    /// and has put everything that the image needs in place.
    pub(crate) fn publish(handover: &Shared<Handover>, words: usize) -> Self {
        let epoch = handover.publish(words);
        Self { handover: handover.clone(), epoch, words }
    }

    /// Declares the image settled; published when it ends. See [`Handover::settle`].
    pub(crate) fn settle(&self, leaves_marks: bool) {
        self.handover.settle(self.epoch, leaves_marks);
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let early = [Mutant::ImprintEndsBeforeClear, Mutant::PiggybackEndsBeforeRest];
        if !early.iter().any(|&mutant| self.handover.is(mutant)) {
            self.handover.end(self.epoch);
        }
    }
}
