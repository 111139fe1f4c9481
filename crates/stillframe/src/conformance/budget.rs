//! Imprint's arena and the pool of Valkey's shape: never above their budget, whatever the writer
//! does.

use std::thread;

use crate::algorithms::{imprint::Imprint, valkey::Valkey};
use crate::handover::Handover;
use crate::sync::Backoff;
use crate::{Algorithm, BLOCK_WORDS, CaptureError, OnFull, Options};

use super::probe::{Manner, OpenAtEnd};
use super::rig::{Rig, capture_and_settle, complete, join};
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
    complete((capture_and_settle(&mut image), tally), WORDS)
}

fn wait_until(condition: impl Fn() -> bool) {
    let mut backoff = Backoff::default();
    while !condition() {
        backoff.wait();
    }
}

/// The writer is held up while the sink holds the first block, until the capture passes the block
/// that the writer wants.
pub(super) fn slow<A: Algorithm>(seed: u64) -> Verdict {
    let mut rig = rig::<A>(BUDGET, OnFull::Slow, seed)?;
    for _ in 0..5 {
        rig.writes(20)?;
        let (mut image, tally) = rig.begin(Manner::Gated).map_err(|error| error.to_string())?;
        let progress = rig.state.progress();
        let waits = progress.writer_waits();
        let outcome = thread::scope(|scope| {
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
        complete((outcome, tally), WORDS)?;
        ensure!(progress.writer_waits() > waits, "the writer never waited");
    }
    rig.check_reads()
}

/// The image is given up, the writer is not held up, and the next image is right.
pub(super) fn cancel(seed: u64) -> Verdict {
    let mut rig = rig::<Imprint>(BUDGET, OnFull::Cancel, seed)?;
    for round in 0..rounds(6) {
        let at = round % 3;
        let (outcome, tally) = rig.image_stopped_at_blocks(|rig, block| {
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
        ensure!(matches!(outcome, Err(CaptureError::OverBudget)), "ended with {outcome:?}");
        tally.is_right()?;
        quiet_image(&mut rig)?;
        rig.writes(20)?;
    }
    ensure!(rig.state.progress().writer_waits() == 0, "the writer waited");
    rig.check_reads()
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
            let outcome = thread::scope(|scope| {
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
            ensure!(matches!(outcome, Err(CaptureError::Cancelled)), "ended with {outcome:?}");
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
            let outcome = thread::scope(|scope| {
                let captured = scope.spawn(move || {
                    wait_until(|| progress.writer_waits() > 0);
                    let outcome = capture_and_settle(&mut image);
                    let _ = written.recv();
                    outcome
                });
                rig.writes(20)?;
                drop(write);
                captured.join().map_err(|_| "panicked".to_owned())
            })?;
            ensure!(matches!(outcome, Err(CaptureError::Sink(_))), "ended with {outcome:?}");
            quiet_image(&mut rig)
        },
        5,
    );
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
            let outcome = thread::scope(|scope| {
                let captured = scope.spawn(move || capture_and_settle(&mut image));
                drop(rig);
                captured.join().map_err(|_| "panicked".to_owned())
            })?;
            complete((outcome, tally), WORDS)
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
