//! Imprint's writer and snapshotter: 2 blocks of 2 words, frames after 2 records, two consecutive
//! images. Each program is explored whole, and each broken build must be found wrong.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::common::{AMPLE, Faults, Model, Op, Seen, WORDS, run};
use crate::common::{explore, explore_briefly, rejects, rejects_each};
use stillframe_loom::algorithms::imprint::{Before, Imprint};
use stillframe_loom::{Algorithm, CaptureError, Image, InProcess, Mutant, OnFull, Options};
use stillframe_loom::{Point, Sink, SinkError, with_mutant};

use Op::{Begin as B, Both as P, Write as W};

const ENOUGH: (usize, OnFull) = (AMPLE, OnFull::Cancel);
/// One record and no frame.
const SCARCE: usize = 16;

type Images = InProcess<Seen, Before>;

fn program(ops: &'static [Op], budget: (usize, OnFull)) -> impl Fn(Faults) -> Model {
    move |faults| Box::new(move || run::<Imprint>(ops, budget, None, &faults))
}

/// Both blocks, twice the same word, frames, a word of the last block, stale heads and frames.
const PROGRAMS: [&[Op]; 7] = [
    &[W(0), B, W(0), W(1), B, W(0)],
    &[B, W(0), W(0), W(1), B, W(1)],
    &[B, W(0), W(0), W(0), W(0), B, W(0)],
    &[B, W(0), W(1), W(0), W(0), B, W(1)],
    &[B, W(2), W(0), B, W(2)],
    &[B, W(3), W(3), W(3), B, W(3)],
    &[W(1), B, W(1), W(3), W(1), W(1), B, W(3), W(3), W(3)],
];

#[test]
fn imprint_images() {
    for ops in PROGRAMS {
        // One switch less for the long program, which would take most of the time.
        let preemptions = if ops.len() < 8 { 2 } else { 1 };
        explore(preemptions, program(ops, ENOUGH)(Faults::default()));
    }
}

#[test]
fn imprint_images_reject() {
    let mutants = [
        Mutant::ImprintNeverLogs,
        Mutant::ImprintStoresBeforeLog,
        Mutant::ImprintNoReleaseFence,
        Mutant::ImprintNoAcquireFence,
        Mutant::ImprintReadsEndFirst,
        Mutant::ImprintPublishesCursorEarly,
        Mutant::ImprintKeepsMarks,
        Mutant::ImprintClosesEarly,
        Mutant::ImprintTrustsStaleHead,
        Mutant::ImprintFrameWithoutChain,
        Mutant::ImprintFrameAfterStore,
    ];
    rejects_each(&mutants, 2, &PROGRAMS.map(|ops| program(ops, ENOUGH)));
}

/// Batches: both blocks, a word twice, frames within, more than there is room for at once.
const BATCHES: [&[Op]; 4] = [
    &[W(0), B, P(0, 2), B, P(2, 3)],
    &[B, P(0, 0), P(1, 0)],
    &[B, W(0), P(0, 1), B, P(0, 3)],
    &[B, P(3, 0), B, W(0)],
];

#[test]
fn imprint_batches() {
    for ops in BATCHES {
        explore(2, program(ops, ENOUGH)(Faults::default()));
    }
}

fn batches_beyond_the_budget(on_full: OnFull) {
    for ops in BATCHES {
        explore_briefly(2, program(ops, (SCARCE, on_full))(Faults::default()));
    }
}

#[test]
fn imprint_batches_over_budget() {
    batches_beyond_the_budget(OnFull::Cancel);
}

#[test]
fn imprint_batches_slow_the_writer() {
    batches_beyond_the_budget(OnFull::Slow);
}

#[test]
fn imprint_batches_reject() {
    let mutants = [
        Mutant::ImprintFencesBeforeBatch,
        Mutant::ImprintPublishesBatchEarly,
        Mutant::ImprintNoReleaseFence,
        Mutant::ImprintNoAcquireFence,
    ];
    rejects_each(&mutants, 2, &BATCHES.map(|ops| program(ops, ENOUGH)));
}

const OVER: [&[Op]; 3] =
    [&[B, W(0), W(2), B, W(1)], &[B, W(2), W(3), W(0), B], &[W(0), B, W(1), W(0), B, W(0), W(2)]];

/// An image that needs more than its budget is given up before a wrong word reaches its sink.
#[test]
fn imprint_over_budget() {
    for ops in OVER {
        explore(2, program(ops, (SCARCE, OnFull::Cancel))(Faults::default()));
    }
}

#[test]
fn imprint_over_budget_rejects() {
    let mutants = [
        Mutant::ImprintNoFenceOnStop,
        Mutant::HandoverChecksStopFirst,
        Mutant::HandoverForgetsStop,
    ];
    rejects_each(&mutants, 2, &OVER.map(|ops| program(ops, (SCARCE, OnFull::Cancel))));
}

/// Single words of an image that may be given up at any time: as at begin, or none.
fn given_up_access(ops: &'static [Op]) -> impl Fn(Faults) -> Model {
    fn look(image: &Images, expected: &[u64], faults: &Faults) {
        for index in [0, 2] {
            let found = image.get(index);
            faults.check(found.is_none_or(|found| found == expected[index]), || {
                format!("word {index} is {found:?}, at begin {expected:?}")
            });
        }
    }
    let budget = (SCARCE, OnFull::Cancel);
    move |faults| Box::new(move || run::<Imprint>(ops, budget, Some(look), &faults))
}

#[test]
fn imprint_given_up_access() {
    explore(2, given_up_access(OVER[0])(Faults::default()));
    explore(2, given_up_access(&[W(0), B, W(1), W(0)])(Faults::default()));
}

#[test]
fn imprint_given_up_access_rejects() {
    for mutant in [Mutant::HandoverGetChecksStopFirst, Mutant::ImprintNoFenceOnStop] {
        rejects(mutant, &[(2, &given_up_access(OVER[0]))]);
    }
}

/// A writer that has used up the budget waits for the capture, and the image is right.
#[test]
fn imprint_slows_the_writer() {
    for ops in OVER {
        explore(2, program(ops, (SCARCE, OnFull::Slow))(Faults::default()));
    }
}

/// Single words of an image, racing with the writer.
#[test]
fn imprint_random_access() {
    explore(2, random_access(&[B, W(0), W(1), B, W(0)])(Faults::default()));
    explore(2, random_access(&[B, W(0), W(1), W(0), W(0)])(Faults::default()));
}

fn random_access(ops: &'static [Op]) -> impl Fn(Faults) -> Model {
    fn look(image: &Images, expected: &[u64], faults: &Faults) {
        let found = image.get(0);
        faults.check(found == Some(expected[0]), || {
            format!("word 0 is {found:?}, at begin {expected:?}")
        });
    }
    move |faults| Box::new(move || run::<Imprint>(ops, ENOUGH, Some(look), &faults))
}

#[test]
fn imprint_random_access_rejects() {
    for mutant in [Mutant::ImprintNoReleaseFence, Mutant::ImprintNoAcquireFence] {
        rejects(mutant, &[(2, &random_access(PROGRAMS[1]))]);
    }
}

/// Takes the first block and fails at the second one.
struct HalfWay(Faults);

impl Sink for HalfWay {
    fn push(&mut self, start: usize, words: &[u64]) -> Result<(), SinkError> {
        self.0.check(words == [0, 0], || format!("{words:?} at {start}"));
        if start == 0 { Ok(()) } else { Err(SinkError::new(format_args!("full"))) }
    }
}

/// An image that ends half-way while the writer writes; the next one is right.
#[test]
fn imprint_half_way_drop() {
    explore(2, || {
        let mut state = Imprint::create(&Options::words(WORDS).budget(AMPLE, OnFull::Cancel))
            .expect("loom has memory");
        let mut image =
            state.begin(Point::declare(), HalfWay(Faults::default())).expect("no image yet");
        let first = loom::thread::spawn(move || {
            let captured = image.capture();
            assert!(matches!(captured, Err(CaptureError::Sink(_))), "{captured:?}");
        });
        [0, 2, 2].iter().for_each(|&index| state.write(index, 1));
        first.join().expect("refused");
        let mut image = state.begin(Point::declare(), Vec::new()).expect("the first has ended");
        let second = loom::thread::spawn(move || {
            image.capture().expect("whole");
            assert_eq!(image.into_sink(), [1, 0, 1, 0]);
        });
        [2, 3].iter().for_each(|&index| state.write(index, 2));
        second.join().expect("right");
    });
}

/// A cancel by a third thread: the capture ends whole and right, or cancelled; a writer that waits
/// goes on either way.
fn cancelled(faults: Faults) -> Model {
    Box::new(move || {
        let options = Options::words(WORDS).budget(SCARCE, OnFull::Slow);
        let mut state = Imprint::create(&options).expect("loom has memory");
        let mut image = state.begin(Point::declare(), Vec::new()).expect("idle");
        let progress = state.progress();
        let faults = faults.clone();
        let capture = loom::thread::spawn(move || {
            let outcome = image.capture();
            let found = image.into_sink();
            let right = match outcome {
                Ok(()) => found == [0; WORDS],
                Err(CaptureError::Cancelled) => [0; WORDS].starts_with(&found),
                Err(_) => false,
            };
            faults.check(right, || format!("the image is {found:?} ({outcome:?})"));
        });
        let cancel = loom::thread::spawn(move || progress.cancel());
        [2, 3].iter().for_each(|&index| state.write(index, 1));
        cancel.join().expect("cancelled");
        capture.join().expect("captured");
    })
}

#[test]
fn imprint_cancel() {
    explore(2, cancelled(Faults::default()));
}

#[test]
fn imprint_cancel_rejects() {
    for mutant in [Mutant::ImprintNoFenceOnStop, Mutant::HandoverChecksStopFirst] {
        rejects(mutant, &[(2, &cancelled)]);
    }
}

/// A cancel meant for the first image comes when the second one has gone over its budget.
fn late_cancel(faults: Faults) -> Model {
    Box::new(move || {
        let options = Options::words(WORDS).budget(SCARCE, OnFull::Cancel);
        let mut state = Imprint::create(&options).expect("loom has memory");
        let first = state.begin(Point::declare(), Vec::new()).expect("idle");
        let progress = state.progress();
        drop(first);
        let cancel = loom::thread::spawn(move || progress.cancel());
        let mut image = state.begin(Point::declare(), Vec::new()).expect("idle again");
        (0..WORDS).for_each(|index| state.write(index, 1));
        let outcome = image.capture();
        faults.check(outcome.is_err(), || format!("the image is {:?}", image.sink_mut()));
        cancel.join().expect("cancelled");
    })
}

#[test]
fn imprint_late_cancel() {
    explore(3, late_cancel(Faults::default()));
}

#[test]
fn imprint_late_cancel_rejects() {
    rejects(Mutant::HandoverLateCancelWins, &[(3, &late_cancel)]);
}

/// The sink fails while the writer waits, and the image is held on: the writer goes on all the
/// same.
fn failed(faults: Faults) -> Model {
    Box::new(move || {
        let options = Options::words(WORDS).budget(SCARCE, OnFull::Slow);
        let mut state = Imprint::create(&options).expect("loom has memory");
        let image = state.begin(Point::declare(), HalfWay(faults.clone())).expect("idle");
        let capture = loom::thread::spawn(move || {
            let mut image = image;
            let captured = image.capture();
            assert!(matches!(captured, Err(CaptureError::Sink(_))), "{captured:?}");
            image
        });
        [2, 3].iter().for_each(|&index| state.write(index, 1));
        drop(capture.join().expect("refused"));
    })
}

#[test]
fn imprint_failed_sink() {
    explore(2, failed(Faults::default()));
}

/// Nothing lets the writer go on: loom counts its turns, so the model needs no clock.
fn hangs(mutant: Mutant, model: fn(Faults) -> Model) {
    let model = model(Faults::default());
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        explore(2, move || with_mutant(mutant, &model));
    }));
    let panic = outcome.expect_err("accepted");
    let message = panic.downcast_ref::<String>().map(String::as_str);
    let message = message.or(panic.downcast_ref().copied()).unwrap_or_default();
    assert!(message.contains("exceeded maximum number of branches"), "{mutant:?}: {message}");
}

#[test]
fn a_writer_that_waits_past_a_stop_hangs() {
    hangs(Mutant::ImprintWaitsPastStop, cancelled);
}

#[test]
fn a_writer_without_a_stop_hangs() {
    hangs(Mutant::HandoverFailsSilently, failed);
}
