//! Images under random schedules, step by step.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::{Algorithm, BLOCK_WORDS, BeginError, CaptureError, Image, MemoryError};

use super::probe::{ERRNO, Manner};
use super::rig::{Rig, capture_and_settle, complete};
use super::{Verdict, ensure, rounds};

/// Every word of every image is what it was at begin, whatever is written at whatever step.
pub(super) fn every_word_of_every_image<A: Algorithm>(seed: u64) -> Verdict {
    let mut rig = Rig::<A>::new(5 * BLOCK_WORDS + 3, seed)?;
    for _ in 0..rounds(20) {
        // Few or many: chains that stay short, and blocks that get frames.
        let count = [1, 4, 40, BLOCK_WORDS][rig.rng.below(4)];
        images_are_right(&mut rig, count)?;
        rig.writes(count)?;
    }
    rig.check_reads()
}

fn images_are_right<A: Algorithm>(rig: &mut Rig<A>, count: usize) -> Verdict {
    let words = rig.oracle.len();
    let (result, tally) = rig.image_stopped_at_blocks(|rig, _| {
        let count = rig.rng.below(count + 1);
        rig.writes(count)
    })?;
    complete(result, &tally, words)
}

/// Sizes at which edges lie.
pub(super) fn every_size<A: Algorithm>(seed: u64) -> Verdict {
    const B: usize = BLOCK_WORDS;
    const MANY: usize = if cfg!(miri) { 5 } else { 17 } * B + 5;
    for words in [0, 1, 7, 8, B - 1, B, B + 1, 2 * B, 2 * B + 1, 3 * B - 1, MANY] {
        let mut rig = Rig::<A>::new(words, seed)?;
        for _ in 0..rounds(3) {
            images_are_right(&mut rig, if cfg!(miri) { 4 } else { 20 })
                .map_err(|what| format!("{words} words: {what}"))?;
            rig.writes(10)?;
        }
        rig.check_reads()?;
    }
    Ok(())
}

/// Writes of half a word in each block and step: the other half belongs to the image as well.
pub(super) fn partial_words<A: Algorithm>(seed: u64) -> Verdict {
    let words = 3 * BLOCK_WORDS;
    let mut rig = Rig::<A>::new(words, seed)?;
    rig.writes(words)?;
    for _ in 0..4 {
        let (result, tally) = rig.image_stopped_at_blocks(|rig, _| {
            for _ in 0..8 {
                let index = rig.rng.below(2 * words);
                let value = rig.rng.next() as u32;
                rig.state.write_u32(index, value);
                let half = if index % 2 == 0 { 0 } else { 32 };
                let word = rig.oracle[index / 2] & !(0xffff_ffff << half);
                rig.oracle[index / 2] = word | u64::from(value) << half;
            }
            rig.check_reads()
        })?;
        complete(result, &tally, words)?;
    }
    Ok(())
}

/// The state may grow at any step; an image keeps the length it had at begin.
pub(super) fn growth_during_images<A: Algorithm>(seed: u64) -> Verdict {
    let first = 2 * BLOCK_WORDS - 3;
    let mut rig = Rig::<A>::new(first, seed)?;
    let most = 2 * first + BLOCK_WORDS;
    while rig.oracle.len() < most {
        let words = rig.oracle.len();
        let (result, tally) = rig.image_stopped_at_blocks(|rig, _| {
            let more = rig.rng.below(BLOCK_WORDS);
            rig.grow((rig.oracle.len() + more).min(most))?;
            rig.writes(10)
        })?;
        complete(result, &tally, words)?;
    }
    let refused = rig.state.grow(most + 1);
    ensure!(matches!(refused, Err(MemoryError::Reserved { .. })), "grew: {refused:?}");
    rig.grow(3)?; // never shrinks
    images_are_right(&mut rig, 20)?;
    rig.check_reads()
}

/// After images that were dropped, cancelled or refused by their sink comes a right one.
pub(super) fn images_that_fail<A: Algorithm>(seed: u64) -> Verdict {
    let words = 3 * BLOCK_WORDS + 1;
    let mut rig = Rig::<A>::new(words, seed)?;
    for _ in 0..10 {
        let at = rig.rng.below(words + 1);
        match rig.rng.below(4) {
            0 => drop(rig.begin(Manner::Slow).map_err(|error| error.to_string())?),
            1 => cancelled_at(&mut rig, at / BLOCK_WORDS)?,
            2 => refused(&mut rig, Manner::FailsAt(at))?,
            _ => refused(&mut rig, Manner::PanicsAt(at))?,
        }
        ensure!(!rig.state.progress().running(), "an image that failed runs on");
        rig.writes(5)?;
        images_are_right(&mut rig, 10)?;
    }
    rig.check_reads()
}

fn cancelled_at<A: Algorithm>(rig: &mut Rig<A>, at: usize) -> Verdict {
    let before = rig.state.progress();
    let (result, tally) = rig.image_stopped_at_blocks(|rig, block| {
        rig.writes(3)?;
        before.cancel(); // which is that of another image
        ensure!(before.epoch() < rig.state.progress().epoch() && !before.running(), "{before:?}");
        if block == at {
            rig.state.progress().cancel();
        }
        rig.writes(3)
    })?;
    tally.is_right()?;
    let blocks = rig.oracle.len().div_ceil(BLOCK_WORDS);
    if at + 1 < blocks {
        ensure!(matches!(result, Err(CaptureError::Cancelled)), "cancelled: {result:?}");
        // The block at hand passes, the next one does not.
        ensure!(tally.pushed() == (at + 1) * BLOCK_WORDS, "{} pushed", tally.pushed());
    } else {
        ensure!(result.is_ok(), "too late to cancel: {result:?}");
    }
    Ok(())
}

/// Random access to a stopped image gives nothing, whatever is written.
pub(super) fn cancelled_images_have_no_words<A: Algorithm>(seed: u64) -> Verdict {
    let words = 2 * BLOCK_WORDS + 1;
    let mut rig = Rig::<A>::new(words, seed)?;
    for _ in 0..rounds(4) {
        rig.writes(10)?;
        let (mut image, tally) = rig.begin(Manner::Plain).map_err(|error| error.to_string())?;
        let expected = A::INFO.random_access.then_some(rig.oracle[words - 1]);
        rig.writes(10)?;
        ensure!(image.get(words - 1) == expected, "the last word is not {expected:?}");
        rig.state.progress().cancel();
        for index in 0..words {
            ensure!(image.get(index).is_none(), "word {index} of an image that was cancelled");
            if index % 100 == 0 {
                rig.writes(1)?;
            }
        }
        if A::INFO.in_process {
            let result = capture_and_settle(&mut image);
            ensure!(matches!(result, Err(CaptureError::Cancelled)), "cancelled: {result:?}");
        }
        tally.is_right()?;
        drop(image);
        images_are_right(&mut rig, 10)?;
    }
    rig.check_reads()
}

fn refused<A: Algorithm>(rig: &mut Rig<A>, manner: Manner) -> Verdict {
    let (mut image, tally) = rig.begin(manner).map_err(|error| error.to_string())?;
    rig.writes(10)?;
    let result = capture_and_settle(&mut image);
    let again = image.capture();
    ensure!(matches!(again, Err(CaptureError::Spent)), "captured twice: {again:?}");
    ensure!(image.get(0).is_none(), "a spent image has words");
    tally.is_right()?;
    match (manner, result) {
        (Manner::PanicsAt(_), Err(CaptureError::Panicked)) => Ok(()),
        (Manner::FailsAt(_), Err(CaptureError::Sink(error))) => {
            ensure!(error.errno() == ERRNO, "errno {}", error.errno());
            ensure!(error.message().starts_with("writing word "), "{error}");
            Ok(())
        }
        (_, result) => Err(format!("{manner:?} ended with {result:?}")),
    }
}

/// Hundreds of images in a row, numbered from one.
pub(super) fn hundreds_of_images<A: Algorithm>(seed: u64) -> Verdict {
    let words = 2 * BLOCK_WORDS + 2;
    let mut rig = Rig::<A>::new(words, seed)?;
    for number in 1..=rounds(400) as u64 {
        let (mut image, tally) = rig.begin(Manner::Plain).map_err(|error| error.to_string())?;
        ensure!(image.epoch() == number, "image {number} is numbered {}", image.epoch());
        let count = rig.rng.below(12);
        rig.writes(count)?;
        let result = capture_and_settle(&mut image);
        rig.writes(count)?;
        drop(image.into_sink());
        complete(result, &tally, words)?;
        rig.writes(rig.oracle.len() % 3)?;
    }
    rig.check_reads()
}

/// A second image is refused until the first has ended, and the refusal harms neither.
pub(super) fn busy_while_held<A: Algorithm>(seed: u64) -> Verdict {
    let words = 2 * BLOCK_WORDS;
    let mut rig = Rig::<A>::new(words, seed)?;
    rig.writes(words)?;
    let (mut image, tally) = rig.begin(Manner::Plain).map_err(|error| error.to_string())?;
    for step in 0..3 {
        rig.writes(5)?;
        let second = rig.begin(Manner::Plain).map(|_| ());
        ensure!(
            matches!(second, Err(BeginError::Busy { epoch }) if epoch == image.epoch()),
            "a second image at step {step}: {second:?}"
        );
        if step == 1 {
            let result = capture_and_settle(&mut image);
            complete(result, &tally, words)?;
        }
    }
    drop(image);
    images_are_right(&mut rig, 10)
}

/// What lies out of bounds panics before it changes anything.
pub(super) fn out_of_bounds<A: Algorithm>(seed: u64) -> Verdict {
    const WORDS: usize = BLOCK_WORDS - 1;
    let mut rig = Rig::<A>::new(WORDS, seed)?;
    rig.writes(WORDS)?;
    let misuses: [fn(&mut A); 8] = [
        |state| _ = state.window(0, 1).map(|window| window(1)),
        |state| state.write_many(&[(0, 1), (WORDS, 1)]),
        |state| state.write(WORDS, 1),
        |state| _ = state.read(WORDS),
        |state| state.write(usize::MAX, 1),
        |state| state.write_run(WORDS - 1, &[1, 2]),
        |state| state.write_run(usize::MAX, &[1]),
        |state| state.write_u32(2 * WORDS, 1),
    ];
    let misused = |state: &mut A| -> Verdict {
        for (number, misuse) in misuses.iter().take(rounds(8)).enumerate() {
            let result = catch_unwind(AssertUnwindSafe(|| misuse(state)));
            ensure!(result.is_err(), "misuse {number} is accepted");
        }
        Ok(())
    };
    misused(&mut rig.state)?;
    let (result, tally) = rig.image_stopped_at_blocks(|rig, _| misused(&mut rig.state))?;
    complete(result, &tally, WORDS)?;
    for (start, len) in [(WORDS, 1), (WORDS - 1, 2), (usize::MAX, 2), (1, usize::MAX)] {
        ensure!(rig.state.window(start, len).is_none(), "{len} words from {start} on are there");
    }
    ensure!(rig.state.window(WORDS, 0).is_some(), "no words are not there");
    ensure!(rig.state.get(WORDS).is_none(), "a word beyond the last is there");
    ensure!(rig.state.get(WORDS - 1) == Some(rig.oracle[WORDS - 1]), "the last word is not there");
    rig.state.write_run(WORDS, &[]);
    rig.state.write_many(&[]);
    rig.check_reads()?;
    images_are_right(&mut rig, 3)
}
