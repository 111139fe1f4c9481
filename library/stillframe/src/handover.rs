//! The hand-over between writer and snapshotter: two edges of synchronisation, nothing more.
//!
//! - Edge 1, begin: the writer stores `epoch` with Release, the snapshotter loads it with Acquire.
//!   Every write before begin happens before the capture that reads it.
//! - Edge 2, done: the snapshotter stores `done` with Release when it has let go of the image, the
//!   writer loads it with Acquire before the next begin. Everything the snapshotter read of the
//!   image's structures happens before the writer reuses them.
//!
//! In between each word has one owner. `epoch`, `total` and `arena_words` are stored by the writer
//! only, `captured`, `settled`, `clear` and `done` by the snapshotter (the writer resets `captured`
//! while no image is held). Anyone may raise `stop`, and it only rises: a wish that comes late, for
//! an image that has ended, cannot undo the wish for a newer one.
//!
//! Each edge, and the progress, also keeps a load of one side from reading what the other side
//! stores behind it. loom does not show that; `litmus/handover-begin`, `litmus/handover-captured`
//! and `litmus/handover-done` do (`.ci/litmus`).
//!
//! Source: Cao et al., section 3 (the mutator begins at its own point of consistency).

use crate::error::{BeginError, CaptureError};
use crate::mutant::{Mutant, Mutation};
use crate::os::{Shareable, Shared};
use crate::sync::{AtomicU64, AtomicUsize, Line, Ordering};

/// Lives in memory that a forked child shares, so that its progress is seen.
#[derive(Debug)]
pub(crate) struct Handover {
    writers: Line<Writers>,
    snapshotters: Line<Snapshotters>,
    /// `epoch << 2 | reason`: a reason for an older image does not stop this one.
    stop: AtomicU64,
    mutation: Mutation,
}

/// The line that the writer stores to.
#[derive(Debug)]
struct Writers {
    epoch: AtomicU64,
    total: AtomicUsize,
    arena_words: AtomicUsize,
    /// Words that the arena has room for.
    arena_room: AtomicUsize,
    /// Words that older images keep beside it.
    kept: AtomicUsize,
    /// Whether the writer waits for the capture.
    waiting: AtomicU64,
    waits: AtomicU64,
    interruptions: AtomicU64,
}

/// The line that the snapshotter stores to.
#[derive(Debug)]
struct Snapshotters {
    captured: AtomicUsize,
    /// Epoch of the last image that was declared durable.
    settled: AtomicU64,
    /// Epoch of the last image that left no mark of a change behind.
    clear: AtomicU64,
    done: AtomicU64,
}

const CANCELLED: u64 = 1;
const OVER_BUDGET: u64 = 2;

// SAFETY: its fields, and theirs, are atomics; the mutation of test builds is plain data that is
// never changed.
unsafe impl Shareable for Handover {}

impl Handover {
    pub(crate) fn new() -> Self {
        Self {
            writers: Line(Writers {
                epoch: AtomicU64::new(0),
                total: AtomicUsize::new(0),
                arena_words: AtomicUsize::new(0),
                arena_room: AtomicUsize::new(0),
                kept: AtomicUsize::new(0),
                waiting: AtomicU64::new(0),
                waits: AtomicU64::new(0),
                interruptions: AtomicU64::new(0),
            }),
            snapshotters: Line(Snapshotters {
                captured: AtomicUsize::new(0),
                settled: AtomicU64::new(0),
                clear: AtomicU64::new(0),
                done: AtomicU64::new(0),
            }),
            stop: AtomicU64::new(0),
            mutation: Mutation::current(),
        }
    }

    /// A hand-over for images beside those of this one, which goes on with its numbers and counts.
    pub(crate) fn following(&self) -> Self {
        let following = Self { mutation: self.mutation, ..Self::new() };
        let (ours, theirs) = (&self.writers.0, &following.writers.0);
        let epoch = ours.epoch.load(Ordering::Relaxed);
        theirs.epoch.store(epoch, Ordering::Relaxed);
        following.snapshotters.0.done.store(epoch, Ordering::Relaxed);
        for (from, to) in
            [(&ours.waits, &theirs.waits), (&ours.interruptions, &theirs.interruptions)]
        {
            to.store(from.load(Ordering::Relaxed), Ordering::Relaxed);
        }
        following
    }

    /// Whether this build makes a mistake on purpose.
    pub(crate) fn is(&self, mutant: Mutant) -> bool {
        self.mutation.is(mutant)
    }

    // ---- the writer's side

    /// Number of the newest image, 0 before the first.
    pub(crate) fn epoch(&self) -> u64 {
        self.writers.0.epoch.load(Ordering::Relaxed)
    }

    /// Whether an image is held. Acquire: partner of [`end`](Self::end), edge 2.
    pub(crate) fn running(&self) -> bool {
        self.snapshotters.0.done.load(Ordering::Acquire)
            != self.writers.0.epoch.load(Ordering::Relaxed)
    }

    /// Whether image `epoch`, which began here, has ended. Acquire: as [`running`](Self::running).
    pub(crate) fn has_ended(&self, epoch: u64) -> bool {
        self.snapshotters.0.done.load(Ordering::Acquire) >= epoch
    }

    /// Refuses while an image is held.
    pub(crate) fn check_idle(&self) -> Result<(), BeginError> {
        if self.running() && !self.is(Mutant::HandoverIgnoresDone) {
            return Err(BeginError::Busy { epoch: self.writers.0.epoch.load(Ordering::Relaxed) });
        }
        Ok(())
    }

    /// Epoch of the last image that was declared durable, 0 before the first. The caller is the
    /// writer and has found the hand-over idle, or has just begun an image.
    pub(crate) fn settled(&self) -> u64 {
        self.snapshotters.0.settled.load(Ordering::Relaxed)
    }

    /// Whether the newest image left marks of changes that the next one must carry. The caller is
    /// the writer and has found the hand-over idle.
    pub(crate) fn left_marks(&self) -> bool {
        let clear = self.snapshotters.0.clear.load(Ordering::Relaxed);
        clear != self.writers.0.epoch.load(Ordering::Relaxed)
    }

    /// Begins the next image, of `total` words, and returns its epoch. The caller is the writer,
    /// at a point of consistency, and has found the hand-over idle.
    pub(crate) fn publish(&self, total: usize) -> u64 {
        let epoch = self.writers.0.epoch.load(Ordering::Relaxed) + 1;
        if !self.is(Mutant::HandoverKeepsCaptured) {
            self.snapshotters.0.captured.store(0, Ordering::Relaxed);
        }
        self.writers.0.total.store(total, Ordering::Relaxed);
        self.writers.0.arena_words.store(0, Ordering::Relaxed);
        // Edge 1; partner: `attach`.
        self.writers.0.epoch.store(epoch, self.release(Mutant::HandoverRelaxedBegin));
        epoch
    }

    /// Epoch of the image that begins next. The caller is the writer.
    pub(crate) fn next_epoch(&self) -> u64 {
        self.writers.0.epoch.load(Ordering::Relaxed) + 1
    }

    /// Words captured so far. Acquire: partner of [`advance`](Self::advance). What the snapshotter
    /// did with those words, in its sink too, happens before what the writer does next.
    pub(crate) fn captured(&self) -> usize {
        self.snapshotters.0.captured.load(Ordering::Acquire)
    }

    /// The writer gives the newest image here up: its budget is used. The caller fences before it
    /// writes on without care for the image.
    pub(crate) fn stop_over_budget(&self) {
        self.raise_stop(self.writers.0.epoch.load(Ordering::Relaxed), OVER_BUDGET);
    }

    /// Whether the writer may stop to care for its image: it ended, or it shall stop. In the latter
    /// case the caller fences before it writes on.
    pub(crate) fn is_over(&self) -> bool {
        let epoch = self.writers.0.epoch.load(Ordering::Relaxed);
        !self.running() || self.check_stop(epoch).is_err()
    }

    /// The first `words` words of the undo arena are the snapshotter's. Release: partner of
    /// [`arena_words`](Self::arena_words).
    #[inline]
    pub(crate) fn note_arena(&self, words: usize) {
        let order = self.release(Mutant::ImprintNoReleaseFence);
        self.writers.0.arena_words.store(words, order);
    }

    /// Words of the undo arena that were noted, as their writer reads them.
    #[inline]
    pub(crate) fn arena_used(&self) -> usize {
        self.writers.0.arena_words.load(Ordering::Relaxed)
    }

    /// How much arena the next image may use.
    pub(crate) fn set_arena_room(&self, words: usize) {
        self.writers.0.arena_room.store(words, Ordering::Relaxed);
    }

    /// How much older images keep beside the arena.
    pub(crate) fn note_kept(&self, words: usize) {
        self.writers.0.kept.store(words, Ordering::Relaxed);
    }

    pub(crate) fn note_interruption(&self) {
        self.writers.0.interruptions.fetch_add(1, Ordering::Relaxed);
    }

    // ---- the snapshotter's side

    /// Words of the undo arena that the writer has published for this image. Acquire: partner of
    /// [`note_arena`](Self::note_arena).
    pub(crate) fn arena_words(&self) -> usize {
        self.writers.0.arena_words.load(Ordering::Acquire)
    }

    /// Takes over image `epoch`. Acquire: partner of [`publish`](Self::publish), edge 1.
    pub(crate) fn attach(&self, epoch: u64) {
        let published = self.writers.0.epoch.load(Ordering::Acquire);
        assert!(published == epoch, "image {epoch} captured while {published} is current");
    }

    /// Words `0..captured` are pushed, and the sink is done with the objects behind them.
    pub(crate) fn advance(&self, captured: usize) {
        let order = self.release(Mutant::HandoverRelaxedCaptured);
        self.snapshotters.0.captured.store(captured, order);
    }

    /// Declares image `epoch` durable, and clear unless it leaves marks; published by
    /// [`end`](Self::end).
    pub(crate) fn settle(&self, epoch: u64, leaves_marks: bool) {
        self.snapshotters.0.settled.store(epoch, Ordering::Relaxed);
        if !leaves_marks {
            self.snapshotters.0.clear.store(epoch, Ordering::Relaxed);
        }
    }

    /// Lets go of image `epoch`. Release: partner of [`running`](Self::running), edge 2.
    pub(crate) fn end(&self, epoch: u64) {
        self.snapshotters.0.done.store(epoch, self.release(Mutant::HandoverRelaxedDone));
    }

    /// For mutants: ends the image under way, whose lease has yet to be dropped.
    pub(crate) fn end_early(&self, mutant: Mutant) {
        if self.is(mutant) {
            self.end(self.writers.0.epoch.load(Ordering::Relaxed));
        }
    }

    /// Asks image `epoch` to stop.
    pub(crate) fn cancel(&self, epoch: u64) {
        self.raise_stop(epoch, CANCELLED);
    }

    fn raise_stop(&self, epoch: u64, reason: u64) {
        let stop = epoch << 2 | reason;
        if self.is(Mutant::HandoverLateCancelWins) {
            return self.stop.store(stop, Ordering::Release);
        }
        self.stop.fetch_max(stop, Ordering::Release); // partner: `check_stop`
    }

    #[inline]
    fn release(&self, relaxed: Mutant) -> Ordering {
        if self.is(relaxed) { Ordering::Relaxed } else { Ordering::Release }
    }

    /// Whether image `epoch` shall stop. Acquire: partner of [`raise_stop`](Self::raise_stop).
    pub(crate) fn check_stop(&self, epoch: u64) -> Result<(), CaptureError> {
        let stop = self.stop.load(Ordering::Acquire);
        if stop >> 2 != epoch || self.is(Mutant::HandoverForgetsStop) {
            return Ok(());
        }
        match stop & 3 {
            OVER_BUDGET => Err(CaptureError::OverBudget),
            _ => Err(CaptureError::Cancelled),
        }
    }
}

/// The writer waits for the capture, until this is dropped.
#[derive(Debug)]
pub(crate) struct Waiting(Shared<Handover>);

impl Waiting {
    /// Waits for an image of `handover`; the wait counts in `counts`, that of the newest image.
    pub(crate) fn begin(handover: &Shared<Handover>, counts: &Handover) -> Self {
        counts.writers.0.waits.fetch_add(1, Ordering::Relaxed);
        handover.writers.0.waiting.store(1, Ordering::Relaxed);
        Self(handover.clone())
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.writers.0.waiting.store(0, Ordering::Relaxed);
    }
}

/// How far an image is: the newest one at the time when this was asked for, whichever begin later.
/// Any thread may ask, or cancel it.
#[derive(Debug, Clone)]
pub struct Progress {
    handover: Shared<Handover>,
    /// Epoch and words of the image; `None` of the newest one.
    image: Option<(u64, usize)>,
}

impl Progress {
    pub(crate) fn new(handover: &Shared<Handover>) -> Self {
        let newest = Self { handover: handover.clone(), image: None };
        Self { image: Some((newest.epoch(), newest.total_words())), ..newest }
    }
    /// The progress of whichever image is the newest when it is asked.
    #[must_use]
    pub fn newest(self) -> Self {
        Self { image: None, ..self }
    }
    /// Number of the image, 0 before the first.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.image.map_or_else(|| self.newest_epoch(), |(epoch, _)| epoch)
    }
    fn newest_epoch(&self) -> u64 {
        self.handover.writers.0.epoch.load(Ordering::Relaxed)
    }
    /// Whether the image is held.
    #[must_use]
    pub fn running(&self) -> bool {
        match self.image {
            Some((epoch, _)) => !self.handover.has_ended(epoch),
            None => self.handover.running(),
        }
    }
    /// Words pushed into the sink so far; the sink has let go of the objects behind them. All, once
    /// the next image has begun.
    #[must_use]
    pub fn captured_words(&self) -> usize {
        let captured = self.handover.captured();
        match self.image {
            Some((epoch, words)) if epoch != self.newest_epoch() => words,
            _ => captured,
        }
    }
    /// Words of the image.
    #[must_use]
    pub fn total_words(&self) -> usize {
        let newest = || self.handover.writers.0.total.load(Ordering::Relaxed);
        self.image.map_or_else(newest, |(_, words)| words)
    }
    /// Bytes of undo arena in use by the newest image.
    #[must_use]
    pub fn arena_bytes(&self) -> usize {
        self.handover.arena_used() * 8
    }
    /// Bytes that older images which are held keep beside that, when the writer last looked.
    #[must_use]
    pub fn kept_bytes(&self) -> usize {
        self.handover.writers.0.kept.load(Ordering::Relaxed) * 8
    }
    /// Times the writer had to wait for the capture because the budget was used up.
    #[must_use]
    pub fn writer_waits(&self) -> u64 {
        self.handover.writers.0.waits.load(Ordering::Relaxed)
    }
    /// Times a write waited for what the image needed first, over all images: a
    /// table or page of memory that it copied, or waited for while another thread did. Counted by
    /// the algorithms that model or use page tables.
    #[must_use]
    pub fn interruptions(&self) -> u64 {
        self.handover.writers.0.interruptions.load(Ordering::Relaxed)
    }
    /// Whether the writer waits for the capture, or soon will: half of the arena is used. A hint.
    pub(crate) fn is_pressed(&self) -> bool {
        let writers = &self.handover.writers.0;
        writers.waiting.load(Ordering::Relaxed) != 0
            || writers.arena_words.load(Ordering::Relaxed) * 2
                > writers.arena_room.load(Ordering::Relaxed)
    }
    /// Words that the newest image may use as its arena.
    #[cfg(test)]
    pub(crate) fn arena_room(&self) -> usize {
        self.handover.writers.0.arena_room.load(Ordering::Relaxed)
    }
    /// Whether the image under way has to stop, or its capture has failed.
    #[cfg(test)]
    pub(crate) fn is_stopped(&self) -> bool {
        self.handover.check_stop(self.epoch()).is_err()
    }
    /// Asks the image to stop; its capture ends with
    /// [`CaptureError::Cancelled`](crate::CaptureError::Cancelled) at the next block.
    pub fn cancel(&self) {
        self.handover.cancel(self.epoch());
    }
}
