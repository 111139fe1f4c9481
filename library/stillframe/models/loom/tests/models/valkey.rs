//! Valkey's shape: the hand-over of blocks from the writer's walk to the capture, through a queue
//! of two places; 3 blocks of 2 words, two consecutive images, a pool that suffices or holds one
//! clone.

use crate::common::{AMPLE, Faults, Model, Op, explore, rejects_each, run_with};
use stillframe_loom::algorithms::valkey::Valkey;
use stillframe_loom::{Algorithm, BLOCK_WORDS, CaptureError, Image, Mutant, OnFull, Options};
use stillframe_loom::{Point, Unit};

use Op::{Begin as B, Tend as T, Write as W};

/// One more block than the queue has places.
const WORDS: usize = 3 * BLOCK_WORDS;
const ENOUGH: (usize, OnFull) = (AMPLE, OnFull::Cancel);
/// One clone of a word.
const SCARCE: usize = 8;

/// One switch less for two images, which would take most of the time.
fn preemptions(ops: &[Op]) -> usize {
    if ops.iter().filter(|op| matches!(op, B)).count() > 1 { 1 } else { 2 }
}

fn program(ops: &'static [Op], unit: Unit, budget: (usize, OnFull)) -> impl Fn(Faults) -> Model {
    let options = Options::words(WORDS).unit(unit).budget(budget.0, budget.1);
    move |faults| {
        let options = options.clone();
        Box::new(move || run_with::<Valkey>(&options, ops, None, &faults))
    }
}

/// Writes ahead of the walk, behind it and in its block; what one image leaves for the next.
const PROGRAMS: [&[Op]; 4] = [
    &[W(0), B, W(0), T, W(1), W(2)],
    &[B, T, W(0), W(4), T, W(5)],
    &[B, W(2), W(2), B, W(3), T, W(2)],
    &[W(1), B, W(1), T, T, T, W(4), B, W(1)],
];

#[test]
fn valkey_images() {
    for unit in [Unit::Word, Unit::Page] {
        for ops in PROGRAMS {
            explore(preemptions(ops), program(ops, unit, ENOUGH)(Faults::default()));
        }
    }
}

#[test]
fn valkey_images_reject() {
    let mutants = [
        Mutant::ValkeySavesAfterWrite,
        Mutant::ValkeyForgetsClone,
        Mutant::ValkeyOverrunsQueue,
        Mutant::ValkeyRelaxedHandOver,
    ];
    rejects_each(&mutants, 2, &PROGRAMS.map(|ops| program(ops, Unit::Page, ENOUGH)));
}

/// A writer with a full pool walks until its unit is saved, waiting for the capture; or the image
/// is given up before a wrong word reaches its sink.
#[test]
fn valkey_full_pool() {
    for ops in [&[B, W(0), W(4), W(1)] as &[Op], &[B, W(5), W(3), W(0), B, W(1)]] {
        for on_full in [OnFull::Slow, OnFull::Cancel] {
            explore(
                preemptions(ops),
                program(ops, Unit::Word, (SCARCE, on_full))(Faults::default()),
            );
        }
    }
}

/// A cancel, and a state that is dropped: the capture ends, whole and right or cancelled.
#[test]
fn valkey_deserted() {
    explore(2, || {
        let options = Options::words(WORDS).budget(AMPLE, OnFull::Slow);
        let mut state = Valkey::create(&options).expect("loom has memory");
        let mut image = state.begin(Point::declare(), Vec::new()).expect("idle");
        let progress = state.progress();
        let capture = loom::thread::spawn(move || {
            let outcome = image.capture();
            let found = image.into_sink();
            match outcome {
                Ok(()) => assert_eq!(found, [0; WORDS]),
                Err(CaptureError::Cancelled) => assert!([0; WORDS].starts_with(&found)),
                Err(error) => panic!("{error}"),
            }
        });
        state.write(0, 1);
        state.tend();
        drop(state);
        progress.cancel();
        capture.join().expect("captured");
    });
}
