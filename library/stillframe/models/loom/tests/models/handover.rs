//! The two edges of the hand-over, and the progress in between, alone: what one side did with
//! plain data must happen before what the other side does.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};

use crate::common::{AMPLE, Faults, Model, WORDS, explore, rejects};
use loom::cell::UnsafeCell;
use loom::thread;
use stillframe_loom::algorithms::{imprint::Imprint, naive::Naive};
use stillframe_loom::{Algorithm, Image, Mutant, OnFull, Options, Point, Sink, SinkError};
use stillframe_loom::{BLOCK_WORDS, Progress};

fn create<A: Algorithm>() -> A {
    A::create(&Options::words(WORDS).budget(AMPLE, OnFull::Cancel)).expect("loom has memory")
}

/// Begin, twice, with an image that reaches a long-lived snapshotter through a slot that orders
/// nothing: only `epoch` does. The writer learns of the end from `begin` alone.
fn begin_publishes<A: Algorithm>(faults: Faults) -> Model {
    Box::new(move || {
        let mut state = create::<A>();
        let slot = Arc::new(Mutex::new(None::<A::Image<Vec<u64>>>));
        let (progress, theirs, faults) =
            (state.progress().newest(), Arc::clone(&slot), faults.clone());
        let snapshotter = thread::spawn(move || {
            for epoch in 1..=2 {
                let mut image = take(&theirs, &progress, epoch);
                image.capture().expect("whole");
                let found = image.into_sink();
                let expected = vec![epoch; WORDS];
                faults.check(found == expected, || format!("image {epoch} is {found:?}"));
            }
        });
        for epoch in 1..=2 {
            while state.progress().running() {
                thread::yield_now();
            }
            (0..WORDS).for_each(|index| state.write(index, epoch));
            let image = state.begin(Point::declare(), Vec::new()).expect("idle");
            *slot.lock().expect("never poisoned") = Some(image);
        }
        snapshotter.join().expect("both images");
    })
}

/// Waits for image `epoch` with relaxed loads only.
fn take<I>(slot: &Mutex<Option<I>>, progress: &Progress, epoch: u64) -> I {
    loop {
        if progress.epoch() == epoch
            && let Some(image) = slot.lock().expect("never poisoned").take()
        {
            return image;
        }
        thread::yield_now();
    }
}

#[test]
fn begin_publishes_what_was_written() {
    explore(2, begin_publishes::<Naive>(Faults::default()));
    explore(2, begin_publishes::<Imprint>(Faults::default()));
}

#[test]
fn begin_publishes_rejects() {
    rejects(Mutant::HandoverRelaxedBegin, &[(2, &begin_publishes::<Naive>)]);
    // Its index is made at begin, of atomics that loom knows.
    races(Mutant::HandoverRelaxedBegin, || begin_publishes::<Imprint>(Faults::default()));
}

/// Objects behind the words, one a block: plain memory, every access of which loom knows.
struct Objects([UnsafeCell<u64>; 2]);

// SAFETY: loom reports every pair of accesses of which none happens before the other; that none
// does is what the models prove.
unsafe impl Sync for Objects {}
// SAFETY: as above.
unsafe impl Send for Objects {}

/// Reads the object of each block it is given.
struct Reader(Arc<Objects>);

impl Sink for Reader {
    fn push(&mut self, start: usize, _words: &[u64]) -> Result<(), SinkError> {
        self.0.0[start / BLOCK_WORDS].with(|object| {
            // SAFETY: see `Objects`.
            assert_eq!(unsafe { *object }, 7);
        });
        Ok(())
    }
}

/// Takes one image; the writer reuses an object as soon as `is_free` says so.
fn objects_outlive<A: Algorithm>(is_free: fn(&Progress, usize) -> bool) -> Model {
    Box::new(move || {
        let mut state = create::<A>();
        let objects = Arc::new(Objects([UnsafeCell::new(7), UnsafeCell::new(7)]));
        let sink = Reader(Arc::clone(&objects));
        let mut image = state.begin(Point::declare(), sink).expect("idle");
        let snapshotter = thread::spawn(move || {
            image.capture().expect("whole");
        });
        let progress = state.progress();
        for block in 0..2 {
            while !is_free(&progress, block) {
                thread::yield_now();
            }
            objects.0[block].with_mut(|object| {
                // SAFETY: see `Objects`.
                unsafe { *object = 8 };
            });
        }
        snapshotter.join().expect("captured");
    })
}

fn ended(progress: &Progress, _block: usize) -> bool {
    !progress.running()
}

fn captured(progress: &Progress, block: usize) -> bool {
    progress.captured_words() >= (block + 1) * BLOCK_WORDS
}

/// What the sink did with objects happens before what the writer does after the image's end.
#[test]
fn done_publishes() {
    explore(3, objects_outlive::<Naive>(ended));
    explore(3, objects_outlive::<Imprint>(ended));
}

/// What the sink did with a block's objects happens before what the writer does after the block
/// was captured.
#[test]
fn captured_publishes() {
    explore(3, objects_outlive::<Naive>(captured));
    explore(3, objects_outlive::<Imprint>(captured));
}

/// loom itself reports these: an access without proof that it comes after another.
fn races(mutant: Mutant, model: fn() -> Model) {
    let run = model();
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        explore(3, move || stillframe_loom::with_mutant(mutant, &run));
    }));
    let panic = outcome.expect_err("accepted");
    let message = panic.downcast_ref::<String>().map_or("", |text| text.as_str());
    assert!(message.contains("ausality"), "{mutant:?} failed for another reason: {message}");
}

#[test]
fn done_publishes_rejects() {
    races(Mutant::HandoverRelaxedDone, || objects_outlive::<Naive>(ended));
    races(Mutant::HandoverRelaxedDone, || objects_outlive::<Imprint>(ended));
}

#[test]
fn captured_publishes_rejects() {
    races(Mutant::HandoverRelaxedCaptured, || objects_outlive::<Naive>(captured));
    races(Mutant::HandoverAdvancesFirst, || objects_outlive::<Naive>(captured));
}
