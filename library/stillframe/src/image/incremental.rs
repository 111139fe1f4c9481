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
//! - D4: a block that the sink declines: Copy rolls it forward anyway, since the array is the whole
//!   image before. Merge keeps its marks when the image is settled, so that the next image
//!   carries them: the sink was not given those words.
//!
//! Completion is a property of the type, asked once a block: a branch that costs nothing.

use std::fmt;

use crate::algorithm::{Algorithm, Image};
use crate::error::CaptureError;
use crate::image::{Held, Lease, Marks};
use crate::info::Grain;
use crate::memory::{Words, with_half};
use crate::mutant::Mutant;
use crate::sealed::Sealed;
use crate::sink::{BLOCK_WORDS, Before, Sink};

/// What completes an image of changes.
pub trait Completion: Sealed + fmt::Debug + Send + 'static {
    /// Whether the algorithm keeps the image before, and completes images from it.
    const IN_MEMORY: bool;
}

/// The sink, from the image before that it has.
#[derive(Debug)]
pub struct BySink;

impl Sealed for BySink {}
impl Completion for BySink {
    const IN_MEMORY: bool = false;
}

/// One more array, with the image before.
#[derive(Debug)]
pub struct ByArray;

impl Sealed for ByArray {}
impl Completion for ByArray {
    const IN_MEMORY: bool = true;
}

/// What was written between two images, as one algorithm keeps it.
pub trait Changes: Send {
    /// Which words of `block` changed, be it in part; marks beyond the image's end mean nothing.
    fn marks(&self, block: usize) -> Marks;
    /// Which words of `block` changed whole: fewer, where units are halves of a word.
    fn whole(&self, block: usize) -> Marks {
        self.marks(block)
    }
    /// Copies the words from `start` on, all of which changed whole.
    fn copy(&self, start: usize, into: &mut [u64]);
    /// Half word `index`, if it changed. Asked where units are halves.
    fn half(&self, index: usize) -> Option<u32> {
        let _ = index;
        None
    }
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
        self.held.get(index, 1, || {
            let mut word = [previous.load(index)];
            let (block, at) = (index / BLOCK_WORDS, index % BLOCK_WORDS);
            if self.changes.whole(block).has(at) {
                self.changes.copy(index, &mut word);
            } else if self.changes.marks(block).has(at) {
                word[0] = patched(&self.changes, index, word[0]);
            }
            word[0]
        })
    }
    fn capture(&mut self) -> Result<(), CaptureError> {
        self.held.spend()?;
        let changes = &self.changes;
        match &self.previous {
            Some(previous) => {
                let mistakes = self.held.lease.handover.is(Mutant::IncrementTakesWholeWord);
                let leaves = self.held.lease.handover.is(Mutant::IncrementLeavesDeclined);
                let pass = |block, len| {
                    if !leaves && is_marked(changes, block, len) {
                        let into = &mut [0; BLOCK_WORDS][..len];
                        roll(changes, previous, block, into, mistakes);
                    }
                };
                let fill = |block, into: &mut [u64]| roll(changes, previous, block, into, mistakes);
                self.held.push(fill, pass)?;
                // Whether it becomes durable or not, the next one builds on it.
                self.held.lease.settle(false);
            }
            None => {
                let mistakes = self.held.lease.handover.is(Mutant::IncrementTakesWholeWord);
                let forgets = self.held.lease.handover.is(Mutant::IncrementForgetsWhileDumping);
                let fill = |sink: &mut S, block, into: &mut [u64]| {
                    let part = merge(changes, sink, block, into, mistakes)?;
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
/// One of the mutants `mistakes` words that changed in part for whole ones.
fn merge<S: Sink>(
    changes: &impl Changes,
    sink: &mut S,
    block: usize,
    into: &mut [u64],
    mistakes: bool,
) -> Result<Marks, CaptureError> {
    let start = block * BLOCK_WORDS;
    let marks = changes.marks(block);
    let whole = if mistakes { marks } else { changes.whole(block) };
    let is_whole = whole.are_all(into.len()) || sink.before(start, into)? == Before::Given;
    for run in whole.runs(into.len()) {
        changes.copy(start + run.start, &mut into[run]);
    }
    for at in marks.without(whole).runs(into.len()).flatten() {
        if is_whole {
            into[at] = patched(changes, start + at, into[at]);
        } else {
            push_halves(changes, sink, start + at)?;
        }
    }
    Ok(if is_whole { Marks::ALL } else { whole })
}

/// A word with the halves that changed.
fn patched(changes: &impl Changes, index: usize, word: u64) -> u64 {
    (2 * index..2 * index + 2).fold(word, |word, half| {
        changes.half(half).map_or(word, |value| with_half(word, half, value))
    })
}

/// Pushes the halves of a word that changed, to a sink that does without the others.
fn push_halves<S: Sink>(
    changes: &impl Changes,
    sink: &mut S,
    index: usize,
) -> Result<(), CaptureError> {
    for half in 2 * index..2 * index + 2 {
        if let Some(value) = changes.half(half) {
            sink.push_half(half, value)?;
        }
    }
    Ok(())
}

/// Copy: lays the changes of a block over the image before, which is then this image (D1).
fn roll(changes: &impl Changes, previous: &Words, block: usize, into: &mut [u64], mistakes: bool) {
    let start = block * BLOCK_WORDS;
    let marks = changes.marks(block);
    let whole = if mistakes { marks } else { changes.whole(block) };
    if !whole.are_all(into.len()) {
        previous.copy_to(start, into);
    }
    for run in whole.runs(into.len()) {
        changes.copy(start + run.start, &mut into[run.clone()]);
        previous.store_run(start + run.start, &into[run]);
    }
    for at in marks.without(whole).runs(into.len()).flatten() {
        into[at] = patched(changes, start + at, into[at]);
        previous.store(start + at, into[at]);
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
    grain: Grain,
) {
    let words = state.words();
    for start in (0..words).step_by(BLOCK_WORDS) {
        let block = start / BLOCK_WORDS;
        let missing = left.marks(block).without(current.whole(block));
        for run in missing.runs(BLOCK_WORDS.min(words - start)) {
            for index in run.step_by(1 << grain.shift).map(|at| start + at) {
                if grain.halves {
                    rewrite_halves(state, left, current, index);
                } else {
                    rewrite(state, index);
                }
            }
        }
        left.forget(block);
    }
}

/// Writes the halves of a word as they are that `left` has and `current` has not.
fn rewrite_halves<A: Algorithm>(
    state: &mut A,
    left: &impl Changes,
    current: &impl Changes,
    index: usize,
) {
    for half in 2 * index..2 * index + 2 {
        if left.half(half).is_some() && current.half(half).is_none() {
            let value = state.read_u32(half);
            state.write_u32(half, value);
        }
    }
}

/// Writes a word as it is: its unit then counts as written.
pub(crate) fn rewrite<A: Algorithm>(state: &mut A, index: usize) {
    let value = state.read(index);
    state.write(index, value);
}
