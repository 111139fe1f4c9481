//! Piggyback's writer (who is also the reader) and copier: 2 units of 2 words, so that a torn unit
//! shows, and two consecutive images. Each program is explored whole; the printed version, the
//! published one and a missing Release must be found wrong.

use std::sync::{Arc, Mutex};

use crate::common::{Faults, Model, Op, WORDS, explore, rejects, rejects_each, run_with};
use stillframe_loom::algorithms::piggyback::Piggyback;
use stillframe_loom::{Algorithm, BLOCK_WORDS, CaptureError, Image, Mutant, Options, Point};
use stillframe_loom::{Sink, SinkError, Unit, with_mutant};

use Op::{Begin as B, Half as H, Read as R, Write as W, Yield as Y};

const _: () = assert!(Unit::Line.words() == 2 && BLOCK_WORDS == 2);

fn options() -> Options {
    Options::words(WORDS).unit(Unit::Line)
}

fn program(ops: &'static [Op]) -> impl Fn(Faults) -> Model {
    move |faults| Box::new(move || run_with::<Piggyback>(&options(), ops, None, &faults))
}

/// Reads and writes of units that are copied at that time, then images of the array completed.
const PROGRAMS: [&[Op]; 8] = [
    &[W(0), B, W(0), R(0), B],
    &[W(0), B, Y, W(0), R(0), B],
    &[W(0), W(1), B, Y, R(1), R(0), B],
    &[W(1), B, Y, W(0), B, Y, R(0), R(1)],
    &[W(0), B, W(1), B, W(0), R(1)],
    &[W(0), B, Y, W(2), R(0), B, W(0)],
    &[B, W(0), B, Y, R(0), W(0), W(1)],
    &[W(2), B, R(2), W(2), R(3), B, W(3)],
];

#[test]
fn piggyback_images() {
    for ops in PROGRAMS {
        explore(3, program(ops)(Faults::default()));
    }
}

/// Units of half a word, two of them in a word: the writer and the copier meet in one word.
const HALVES: [&[Op]; 4] = [
    &[H(0), H(1), B, H(0), R(0), B],
    &[H(1), B, Y, H(0), R(0), B, H(1)],
    &[W(0), B, H(1), R(0), B, H(0)],
    &[H(2), B, H(3), B, R(1), H(2)],
];

fn of_halves(ops: &'static [Op]) -> impl Fn(Faults) -> Model {
    let options = Options::words(WORDS).unit(Unit::Half);
    move |faults| {
        let options = options.clone();
        Box::new(move || run_with::<Piggyback>(&options, ops, None, &faults))
    }
}

#[test]
fn piggyback_halves() {
    for ops in HALVES {
        explore(2, of_halves(ops)(Faults::default()));
    }
}

#[test]
fn piggyback_halves_reject() {
    let mutants = [
        Mutant::PiggybackCopiesWord,
        Mutant::PiggybackFlagThenCopy,
        Mutant::PiggybackCopyThenFlag,
        Mutant::PiggybackRelaxedCopied,
    ];
    rejects_each(&mutants, 2, &HALVES.map(of_halves));
}

#[test]
fn piggyback_images_reject() {
    let mutants = [
        Mutant::PiggybackFlagThenCopy,
        Mutant::PiggybackCopyThenFlag,
        Mutant::PiggybackRelaxedCopied,
        Mutant::TwoHomesWritePart,
    ];
    rejects_each(&mutants, 3, &PROGRAMS.map(program));
}

/// What the published versions do wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Error {
    /// A read finds an old unit, though nothing was written meanwhile.
    StaleRead,
    /// A unit is as it was before the latest writes.
    LostUpdate,
    /// A unit is half as before, half as after them.
    TornUnit,
    /// All is well until the next begin, which trusts a flag that says "equal" of unequal units.
    LyingFlag,
}

/// Every error that some schedule shows while one unit is copied, read, and written whole.
fn errors(mutant: Option<Mutant>) -> Vec<Error> {
    let found = Arc::new(Mutex::new(Vec::new()));
    let (all, run) = (Arc::clone(&found), move || copied_and_written(&found));
    explore(3, move || match mutant {
        Some(mutant) => with_mutant(mutant, &run),
        None => run(),
    });
    let mut all = all.lock().expect("no panic").clone();
    all.sort_unstable();
    all.dedup();
    all
}

fn copied_and_written(found: &Mutex<Vec<Error>>) {
    let mut state = Piggyback::create(&options()).expect("loom has memory");
    let unit = |state: &Piggyback| [state.read(0), state.read(1)];
    let note = |error| found.lock().expect("no panic").push(error);
    (0..2).for_each(|index| state.write(index, 1));
    let mut image = state.begin(Point::declare(), Vec::new()).expect("no image yet");
    let copier = loom::thread::spawn(move || image.capture().expect("whole"));
    loom::thread::yield_now();
    if unit(&state) != [1, 1] {
        note(Error::StaleRead);
    }
    (0..2).for_each(|index| state.write(index, 2));
    copier.join().expect("captured");
    match unit(&state) {
        [2, 2] => {}
        [1, 1] => return note(Error::LostUpdate),
        _ => return note(Error::TornUnit),
    }
    drop(state.begin(Point::declare(), Vec::new()).expect("the first has ended"));
    if unit(&state) != [2, 2] {
        note(Error::LyingFlag);
    }
}

/// The schedules of `docs/research/errata.md`, and that the claim leaves none of them.
#[test]
fn piggyback_errata() {
    use Error::{LostUpdate, LyingFlag, StaleRead, TornUnit};
    assert_eq!(errors(None), []);
    // The last of these takes a machine that reorders stores: the racing ones to the flag fall out
    // one way, those to the words the other way.
    let as_printed = errors(Some(Mutant::PiggybackFlagThenCopy));
    assert_eq!(as_printed, [StaleRead, LostUpdate, TornUnit, LyingFlag]);
    let as_published = errors(Some(Mutant::PiggybackCopyThenFlag));
    assert_eq!(as_published, [LostUpdate, TornUnit, LyingFlag]);
}

/// Fails at the first block.
struct Full;

impl Sink for Full {
    fn push(&mut self, _: usize, _: &[u64]) -> Result<(), SinkError> {
        Err(SinkError::new(format_args!("full")))
    }
}

/// How an image ends before its time.
#[derive(Debug, Clone, Copy)]
enum Early {
    /// Its sink fails when one block of two is copied.
    Fails,
    /// It is dropped and never captured.
    Dropped,
}

/// An image that ends early while the writer reads and writes; the next one is right.
fn half_way(early: Early) -> impl Fn(Faults) -> Model {
    move |faults| {
        Box::new(move || {
            let mut state = Piggyback::create(&options()).expect("loom has memory");
            let faults = faults.clone();
            (0..WORDS).for_each(|index| state.write(index, 1));
            let mut image = state.begin(Point::declare(), Full).expect("no image yet");
            let first = loom::thread::spawn(move || match early {
                Early::Fails => assert!(matches!(image.capture(), Err(CaptureError::Sink(_)))),
                Early::Dropped => drop(image.into_sink()),
            });
            state.write(0, 2);
            let read = [0, 1, 2, 3].map(|index| state.read(index));
            first.join().expect("ended early"); // loom cannot unwind a thread that holds an image
            faults.check(read == [2, 1, 1, 1], || format!("the words read {read:?}"));
            let mut image = state.begin(Point::declare(), Vec::new()).expect("the first has ended");
            let second = loom::thread::spawn(move || {
                image.capture().expect("whole");
                image.into_sink()
            });
            state.write(2, 3);
            let found = second.join().expect("captured");
            faults.check(found == [2, 1, 1, 1], || format!("the image is {found:?}"));
        })
    }
}

/// An image that is dropped, and another one as soon as the hand-over allows.
fn at_once(faults: Faults) -> Model {
    Box::new(move || {
        let mut state = Piggyback::create(&options()).expect("loom has memory");
        (0..WORDS).for_each(|index| state.write(index, 1));
        let first = state.begin(Point::declare(), Vec::new()).expect("no image yet");
        let first = loom::thread::spawn(move || drop(first));
        state.write(0, 2);
        while state.progress().running() {
            loom::thread::yield_now();
        }
        let mut image = state.begin(Point::declare(), Vec::new()).expect("the first has ended");
        let second = loom::thread::spawn(move || {
            image.capture().expect("whole");
            image.into_sink()
        });
        state.write(2, 3);
        let found = second.join().expect("captured");
        first.join().expect("dropped");
        faults.check(found == [2, 1, 1, 1], || format!("the image is {found:?}"));
    })
}

#[test]
fn piggyback_half_way() {
    explore(2, at_once(Faults::default()));
    for early in [Early::Fails, Early::Dropped] {
        explore(3, half_way(early)(Faults::default()));
    }
}

#[test]
fn piggyback_half_way_rejects() {
    rejects(Mutant::PiggybackForgetsRest, &[(2, &half_way(Early::Fails))]);
    rejects(Mutant::PiggybackForgetsRest, &[(2, &half_way(Early::Dropped))]);
    rejects(Mutant::PiggybackFlagThenCopy, &[(2, &half_way(Early::Dropped))]);
    rejects(Mutant::PiggybackEndsBeforeRest, &[(2, &at_once)]);
}
