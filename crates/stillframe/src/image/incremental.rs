//! Images made of what changed since the image before, and the two ways to complete them.
//!
//! - *Merge*: the sink knows the image before, or does without it ([`Sink::before`]).
//! - *Copy*: the algorithm keeps the image before in one more array, which the snapshotter rolls
//!   forward, block by block.
//!
//! - D1: the marks of an increment are forgotten only once its words are part of the image before:
//!   Merge, when the image is settled; Copy, block by block, with its words in the array, so that
//!   it is settled once it was captured whole.
//! - D2: an image is marked as clear after its last mark was forgotten, both before `done`. So the
//!   writer finds either no mark, or an image that left some, which it folds ([`fold`]): one that
//!   was not settled, or of which the sink declined blocks (D4).
//! - D3: between begin and `done` only the snapshotter touches the increment's words and marks.
//! - D4: a block that the sink declines: Copy rolls it forward all the same, since the array is the
//!   whole image before. Merge keeps its marks when the image is settled, so that the next image
//!   carries them: the sink was not given those words.
//!
//! Completion is a property of the type, asked once a block: a branch that costs nothing.

use std::fmt;

use crate::algorithm::{Algorithm, Image};
use crate::error::CaptureError;
use crate::image::{Held, Lease, Marks};
use crate::memory::Words;
use crate::mutant::Mutant;
use crate::sink::{BLOCK_WORDS, Before, Sink};

/// What completes an image of changes.
pub trait Completion: fmt::Debug + Send + 'static {
    /// Whether the algorithm keeps the image before, and completes images from it.
    const IN_MEMORY: bool;
}

/// The sink, from the image before that it has.
#[derive(Debug)]
pub struct BySink;

impl Completion for BySink {
    const IN_MEMORY: bool = false;
}

/// One more array, with the image before.
#[derive(Debug)]
pub struct ByArray;

impl Completion for ByArray {
    const IN_MEMORY: bool = true;
}

/// What was written between two images, as one algorithm keeps it.
pub trait Changes: Send {
    /// Which words of `block` changed; marks beyond the image's end mean nothing.
    fn marks(&self, block: usize) -> Marks;
    /// Copies the words from `start` on, all marked.
    fn copy(&self, start: usize, into: &mut [u64]);
    /// Clears the marks of `block`.
    fn forget(&self, block: usize);
}

/// An image that knows what changed since the image before.
#[derive(Debug)]
pub struct Increment<S, C> {
    changes: C,
    /// The image before, kept by the algorithm.
    previous: Option<Words>,
    /// The last image that was settled, when this one began.
    base: u64,
    captured: bool,
    /// Blocks with marks that the sink of a Merge has declined, in order.
    declined: Vec<usize>,
    held: Held<S>,
}

impl<S: Sink, C: Changes> Increment<S, C> {
    pub(crate) fn new(changes: C, previous: Option<&Words>, sink: S, lease: Lease) -> Self {
        let previous = previous.map(Words::view);
        let base = lease.handover.settled();
        let held = Held::new(sink, lease);
        Self { changes, previous, base, captured: false, declined: Vec::new(), held }
    }
}

impl<S: Sink, C: Changes> Image for Increment<S, C> {
    type Sink = S;

    fn words(&self) -> usize {
        self.held.lease.words
    }
    fn epoch(&self) -> u64 {
        self.held.lease.epoch
    }
    fn builds_on(&self) -> Option<u64> {
        (self.previous.is_none() && self.base != 0).then_some(self.base)
    }
    fn get(&self, index: usize) -> Option<u64> {
        let previous = self.previous.as_ref()?;
        self.held.get(index, || {
            let mut word = [previous.load(index)];
            if self.changes.marks(index / BLOCK_WORDS).has(index % BLOCK_WORDS) {
                self.changes.copy(index, &mut word);
            }
            word[0]
        })
    }
    fn capture(&mut self) -> Result<(), CaptureError> {
        self.held.spend()?;
        let changes = &self.changes;
        match &self.previous {
            Some(previous) => {
                let leaves = self.held.lease.handover.is(Mutant::IncrementLeavesDeclined);
                let pass = |block, len| {
                    if !leaves && is_marked(changes, block, len) {
                        roll(changes, previous, block, &mut [0; BLOCK_WORDS][..len]);
                    }
                };
                self.held.push(|block, into| roll(changes, previous, block, into), pass)?;
                // Whether it becomes durable or not, the next one builds on it.
                self.held.lease.settle(false);
            }
            None => {
                let forgets = self.held.lease.handover.is(Mutant::IncrementForgetsWhileDumping);
                let fill = |sink: &mut S, block, into: &mut [u64]| {
                    let part = merge(changes, sink, block, into)?;
                    if forgets {
                        changes.forget(block);
                    }
                    Ok(part)
                };
                let declined = &mut self.declined;
                self.held.push_parts(fill, |block, len| {
                    if is_marked(changes, block, len) {
                        declined.push(block);
                    }
                })?;
            }
        }
        self.captured = true;
        Ok(())
    }
    fn settle(&mut self) {
        if self.captured && self.previous.is_none() {
            if self.held.lease.handover.is(Mutant::IncrementForgetsDeclined) {
                self.declined.clear();
            }
            let mut declined = self.declined.iter().peekable();
            for block in 0..self.words().div_ceil(BLOCK_WORDS) {
                if declined.next_if_eq(&&block).is_none() {
                    self.changes.forget(block);
                }
            }
            self.held.lease.settle(!self.declined.is_empty());
        }
    }
    fn sink_mut(&mut self) -> &mut S {
        &mut self.held.sink
    }
    fn into_sink(self) -> S {
        self.held.sink
    }
}

/// Whether one of the first `len` words of a block changed.
fn is_marked(changes: &impl Changes, block: usize, len: usize) -> bool {
    changes.marks(block).runs(len).next().is_some()
}

/// Merge: lays the changes of a block over what the sink knows of it. Returns what is to be pushed.
fn merge<S: Sink>(
    changes: &impl Changes,
    sink: &mut S,
    block: usize,
    into: &mut [u64],
) -> Result<Marks, CaptureError> {
    let start = block * BLOCK_WORDS;
    let marks = changes.marks(block);
    let is_whole = marks.are_all(into.len()) || sink.before(start, into)? == Before::Given;
    for run in marks.runs(into.len()) {
        changes.copy(start + run.start, &mut into[run]);
    }
    Ok(if is_whole { Marks::ALL } else { marks })
}

/// Copy: lays the changes of a block over the image before, which is then this image (D1).
fn roll(changes: &impl Changes, previous: &Words, block: usize, into: &mut [u64]) {
    let start = block * BLOCK_WORDS;
    let marks = changes.marks(block);
    if !marks.are_all(into.len()) {
        previous.copy_to(start, into);
    }
    for run in marks.runs(into.len()) {
        changes.copy(start + run.start, &mut into[run.clone()]);
        previous.store_run(start + run.start, &into[run]);
    }
    changes.forget(block);
}

/// Makes the marks that an image left part of the current period again: each unit that was not
/// written since is rewritten with its latest value. O(changed).
///
/// The caller is the writer, at begin, and has found the hand-over idle, so it owns both sides.
#[cold]
#[inline(never)]
pub(crate) fn fold<A: Algorithm>(
    state: &mut A,
    left: &impl Changes,
    current: &impl Changes,
    unit_words: usize,
) {
    let words = state.words();
    for start in (0..words).step_by(BLOCK_WORDS) {
        let block = start / BLOCK_WORDS;
        let missing = left.marks(block).without(current.marks(block));
        for run in missing.runs(BLOCK_WORDS.min(words - start)) {
            for index in run.step_by(unit_words) {
                rewrite(state, start + index);
            }
        }
        left.forget(block);
    }
}

/// Writes a word as it is: its unit then counts as written.
pub(crate) fn rewrite<A: Algorithm>(state: &mut A, index: usize) {
    let value = state.read(index);
    state.write(index, value);
}
