//! Imprint's arena and the pool of Valkey's shape: never above their budget, whatever the writer
//! does.

use std::thread;

use crate::algorithms::{imprint::Imprint, naive::Naive, valkey::Valkey};
use crate::handover::Handover;
use crate::sync::Backoff;
use crate::{Algorithm, BLOCK_WORDS, CaptureError, Engine, Image, OnFull, Options, Point};
use crate::{Progress, Publication, Sink, SinkError};

use super::probe::{Manner, OpenAtEnd};
use super::rig::{Rig, Rng, capture_and_settle, complete, join};
use super::{Verdict, ensure, prove, rounds};

const WORDS: usize = 6 * BLOCK_WORDS;
/// A handful of records; no frame fits.
const BUDGET: usize = 8 * 11;

fn rig<A: Algorithm>(budget: usize, on_full: OnFull, seed: u64) -> Result<Rig<A>, String> {
    Rig::create(&Options::words(WORDS).budget(budget, on_full), seed)
}

/// An image during which nothing is written is right with any budget.
fn quiet_image<A: Algorithm>(rig: &mut Rig<A>) -> Verdict {
    let (mut image, tally) = rig.begin(Manner::Plain).map_err(|error| error.to_string())?;
    complete(capture_and_settle(&mut image), &tally, WORDS)
}

fn wait_until(condition: impl Fn() -> bool) {
    let mut backoff = Backoff::default();
    while !condition() {
        backoff.wait();
    }
}

/// The writer waits while the sink holds the first block, until the capture passes the block
/// that the writer wants.
pub(super) fn slow<A: Algorithm>(seed: u64) -> Verdict {
    let mut rig = rig::<A>(BUDGET, OnFull::Slow, seed)?;
    for _ in 0..5 {
        rig.writes(20)?;
        let (mut image, tally) = rig.begin(Manner::Gated).map_err(|error| error.to_string())?;
        let progress = rig.state.progress();
        let waits = progress.writer_waits();
        let result = thread::scope(|scope| {
            let _open = OpenAtEnd(&tally);
            let captured = scope.spawn(move || capture_and_settle(&mut image));
            scope.spawn(|| {
                wait_until(|| progress.writer_waits() > waits || tally.is_open());
                tally.allow(usize::MAX);
            });
            for _ in 0..200 {
                rig.writes(1)?;
                let arena = progress.arena_bytes();
                ensure!(arena <= BUDGET, "{arena} bytes of arena");
            }
            tally.allow(usize::MAX);
            join(&mut rig.state, captured)
        })?;
        complete(result, &tally, WORDS)?;
        ensure!(progress.writer_waits() > waits, "the writer never waited");
    }
    rig.check_reads()
}

/// The image is given up, the writer does not wait, and the next image is right.
pub(super) fn cancel(seed: u64) -> Verdict {
    let mut rig = rig::<Imprint>(BUDGET, OnFull::Cancel, seed)?;
    for round in 0..rounds(6) {
        let at = round % 3;
        let (result, tally) = rig.image_stopped_at_blocks(|rig, block| {
            if block < at {
                return Ok(());
            }
            for _ in 0..rounds(200) {
                rig.writes(1)?;
                let arena = rig.state.progress().arena_bytes();
                ensure!(arena <= BUDGET, "{arena} bytes of arena");
            }
            Ok(())
        })?;
        ensure!(matches!(result, Err(CaptureError::OverBudget)), "ended with {result:?}");
        tally.is_right()?;
        quiet_image(&mut rig)?;
        rig.writes(20)?;
    }
    ensure!(rig.state.progress().writer_waits() == 0, "the writer waited");
    rig.check_reads()
}

/// A word asked for at random while the image is given up is what it was at begin, or there is
/// none; afterwards there is none.
fn words_of_one_given_up<A: Algorithm>(seed: u64) -> Verdict {
    let mut rig = rig::<A>(BUDGET, OnFull::Cancel, seed)?;
    for _ in 0..rounds(20) {
        rig.writes(20)?;
        let (image, _) = rig.begin(Manner::Plain).map_err(|error| error.to_string())?;
        let (expected, mut rng) = (rig.oracle.clone(), Rng(rig.rng.next()));
        thread::scope(|scope| {
            let looks = scope.spawn(move || {
                let mut index = rng.below(WORDS);
                while let Some(found) = image.get(index) {
                    let expected = expected[index];
                    ensure!(found == expected, "word {index} is {found:#x}, not {expected:#x}");
                    index = rng.below(WORDS);
                }
                ensure!((0..WORDS).all(|index| image.get(index).is_none()), "a word came back");
                Ok(())
            });
            while !looks.is_finished() {
                rig.writes(1)?;
            }
            looks.join().map_err(|_| "panicked".to_owned())?
        })?;
        quiet_image(&mut rig)?;
    }
    rig.check_reads()
}

#[test]
fn words_of_an_image_given_up() {
    prove(words_of_one_given_up::<Imprint>, 8);
    prove(words_of_one_given_up::<Valkey>, 8);
}

/// A cancel that comes late, for an image that has ended, does not hide that the next image was
/// given up.
pub(super) fn late_cancel(_seed: u64) -> Verdict {
    let handover = Handover::new();
    let first = handover.publish(1);
    handover.end(first);
    let second = handover.publish(1);
    handover.stop_over_budget();
    handover.cancel(first); // by a thread that had asked for the epoch before all this
    let stop = handover.check_stop(second);
    ensure!(matches!(stop, Err(CaptureError::OverBudget)), "the stop is now {stop:?}");
    Ok(())
}

/// A writer that waits goes on when the capture is cancelled, though the sink does not move.
#[test]
fn a_cancel_frees_a_writer_that_waits() {
    prove(
        |seed| {
            let mut rig = rig::<Imprint>(0, OnFull::Slow, seed)?;
            let (mut image, tally) = rig.begin(Manner::Gated).map_err(|error| error.to_string())?;
            let progress = rig.state.progress();
            let result = thread::scope(|scope| {
                let _open = OpenAtEnd(&tally);
                let captured = scope.spawn(move || capture_and_settle(&mut image));
                scope.spawn(|| {
                    wait_until(|| progress.writer_waits() > 0 && tally.has_arrived(0));
                    progress.cancel();
                });
                rig.writes(20)?; // with the gate closed
                tally.allow(usize::MAX);
                captured.join().map_err(|_| "panicked".to_owned())
            })?;
            ensure!(matches!(result, Err(CaptureError::Cancelled)), "ended with {result:?}");
            tally.is_right()?;
            quiet_image(&mut rig)
        },
        5,
    );
}

/// A writer that waits goes on when the sink fails, though the image is still held.
#[test]
fn a_failed_sink_frees_a_writer_that_waits() {
    prove(
        |seed| {
            let mut rig = rig::<Imprint>(0, OnFull::Slow, seed)?;
            let begun = rig.begin(Manner::FailsAt(0));
            let (mut image, _) = begun.map_err(|error| error.to_string())?;
            let progress = rig.state.progress();
            let (write, written) = std::sync::mpsc::channel::<()>();
            let result = thread::scope(|scope| {
                let captured = scope.spawn(move || {
                    wait_until(|| progress.writer_waits() > 0);
                    let result = capture_and_settle(&mut image);
                    let _ = written.recv();
                    result
                });
                rig.writes(20)?;
                drop(write);
                captured.join().map_err(|_| "panicked".to_owned())
            })?;
            ensure!(matches!(result, Err(CaptureError::Sink(_))), "ended with {result:?}");
            quiet_image(&mut rig)
        },
        5,
    );
}

/// Panics at its first call of one kind, once the writer waits for it if it ever will.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Call {
    Wants,
    Push,
    Finish,
}

struct Panicking {
    at: Call,
    progress: Progress,
}

impl Panicking {
    fn call(&self, call: Call) {
        if call == self.at {
            wait_until(|| self.progress.writer_waits() > 0 || call == Call::Finish);
            std::panic::resume_unwind(Box::new(())); // calls no hook, which would print
        }
    }
}

impl Sink for Panicking {
    fn wants(&mut self, _: usize) -> bool {
        self.call(Call::Wants);
        true
    }
    fn push(&mut self, _: usize, _: &[u64]) -> Result<(), SinkError> {
        self.call(Call::Push);
        Ok(())
    }
    fn finish(&mut self) -> Result<(), SinkError> {
        self.call(Call::Finish);
        Ok(())
    }
}

/// A writer that waits goes on when the sink panics: its image is published only when the writer
/// has done what it waited for.
fn panicking(_seed: u64) -> Verdict {
    for at in [Call::Wants, Call::Push, Call::Finish] {
        let options = Options::words(WORDS).budget(0, OnFull::Slow);
        let mut engine = Engine::new(Imprint::create(&options).expect("memory")).expect("a thread");
        for round in 1..=3 {
            let sink = Panicking { at, progress: engine.progress() };
            let (written, is_written) = std::sync::mpsc::channel::<()>();
            let publish = move |_: &mut Panicking, report: Result<_, CaptureError>| {
                let _ = is_written.recv();
                assert!(matches!(report, Err(CaptureError::Panicked)), "{report:?}");
                Publication::Failed
            };
            engine.snapshot(Point::declare(), sink, publish).expect("idle");
            (0..WORDS).for_each(|index| engine.write(index, round));
            assert!(engine.running(), "it is published when all is written: {at:?}");
            drop(written);
            engine.wait();
            assert!((0..WORDS).all(|index| engine.read(index) == round));
        }
    }
    Ok(())
}

#[test]
fn a_panicking_sink_frees_a_writer_that_waits() {
    prove(panicking, 1);
}

/// A capture hurries while the writer waits for it, and before: when half of the budget is used.
fn pressing(_seed: u64) -> Verdict {
    let options = Options::words(WORDS).budget(8 * 16, OnFull::Slow);
    let mut state = Imprint::create(&options).expect("memory");
    for _ in 0..3 {
        let image = state.begin(Point::declare(), Vec::new()).expect("idle");
        let progress = state.progress();
        for written in 0..8 {
            assert_eq!(progress.is_pressed(), written > 4, "{written} records of 8");
            state.write(written * BLOCK_WORDS / 2, 1);
        }
        progress.cancel();
        state.write(5 * BLOCK_WORDS, 1); // would wait
        drop(image);
    }
    assert!(!Naive::create(&options).expect("memory").progress().is_pressed());
    Ok(())
}

#[test]
fn a_writer_presses_before_it_waits() {
    prove(pressing, 1);
}

/// The default budget is a part of the state as it is at begin; one that was asked for stays.
#[test]
#[cfg_attr(miri, ignore = "large states")]
fn the_default_budget_grows_with_the_state() {
    fn rooms<A: Algorithm>(options: &Options) -> [usize; 2] {
        let mut state = A::create(options).expect("memory");
        [options.words, options.max_words].map(|words| {
            state.grow(words).expect("there is room");
            drop(state.begin(Point::declare(), Vec::new()).expect("idle"));
            state.progress().arena_room() * 8
        })
    }
    const MIB: usize = 1 << 20;
    let default = Options::words(MIB / 8).max_words(512 * MIB / 8);
    assert_eq!([default.budget_for(MIB / 8), default.budget_for(64 * MIB)], [64 * MIB, 128 * MIB]);
    assert_eq!(rooms::<Imprint>(&default), [64 * MIB, 128 * MIB]);
    assert_eq!(rooms::<Valkey>(&default), [64 * MIB, 128 * MIB]);
    let asked = default.budget(3 * MIB, OnFull::Slow);
    assert_eq!(rooms::<Imprint>(&asked), [3 * MIB; 2]);
    assert_eq!(rooms::<Valkey>(&asked), [3 * MIB; 2]);
}

#[test]
fn a_slow_capture_slows_the_writer() {
    prove(slow::<Imprint>, 5);
    prove(slow::<Valkey>, 5);
}

/// With nobody to tend, the capture does the walk itself: on the thread that began the image, or
/// after the state was dropped.
#[test]
fn a_deserted_capture_walks_itself() {
    prove(
        |seed| {
            let mut rig = rig::<Valkey>(1 << 12, OnFull::Slow, seed)?;
            rig.writes(20)?;
            quiet_image(&mut rig)?;
            rig.writes(20)?;
            let (mut image, tally) = rig.begin(Manner::Plain).map_err(|error| error.to_string())?;
            rig.writes(5)?;
            let result = thread::scope(|scope| {
                let captured = scope.spawn(move || capture_and_settle(&mut image));
                drop(rig);
                captured.join().map_err(|_| "panicked".to_owned())
            })?;
            complete(result, &tally, WORDS)
        },
        5,
    );
}

#[test]
fn a_full_arena_cancels_the_image() {
    prove(cancel, 5);
}

#[test]
fn a_late_cancel_does_not_hide_a_full_arena() {
    prove(late_cancel, 5);
}
