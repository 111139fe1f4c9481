//! Images while the writer runs at full speed.

use std::thread;

use crate::os::Shared;
use crate::sync::{AtomicUsize, Ordering};
use crate::{Algorithm, BLOCK_WORDS, Before, CaptureError, Image, Point, Sink, SinkError};

use super::probe::Manner;
use super::rig::{CancelAtEnd, Rig, Rng, capture, capture_and_settle, complete, join};
use super::{Verdict, ensure, rounds};

const BLOCKS: usize = if cfg!(miri) { 4 } else { 64 };

/// Pairs of words: in one block, in two blocks, in the first and the last one.
const PAIRS: [(usize, usize); 4] = [
    (1, 2),
    (BLOCK_WORDS - 1, BLOCK_WORDS),
    (BLOCK_WORDS + 3, 2 * BLOCK_WORDS + 1),
    (0, BLOCKS * BLOCK_WORDS - 1),
];

/// Keeps one half of each pair until the other comes. Allocates nothing.
struct Twins {
    value: u64,
    /// What it was in the image before.
    before: u64,
    torn: Shared<AtomicUsize>,
}

impl Sink for Twins {
    fn push(&mut self, start: usize, words: &[u64]) -> Result<(), SinkError> {
        for index in PAIRS.iter().flat_map(|&(a, b)| [a, b]) {
            let found = index.checked_sub(start).and_then(|offset| words.get(offset));
            if found.is_some_and(|&found| found != self.value) {
                self.torn.fetch_add(1, Ordering::Relaxed);
            }
        }
        Ok(())
    }

    fn before(&mut self, _: usize, into: &mut [u64]) -> Result<Before, SinkError> {
        into.fill(self.before);
        Ok(Before::Given)
    }
}

/// Words that are always written together are equal in every image: to each other, and to what
/// they were at begin.
pub(super) fn pairs_stay_together<A: Algorithm>(seed: u64) -> Verdict {
    let mut rig = Rig::<A>::new(BLOCKS * BLOCK_WORDS, seed)?;
    let torn = Shared::new(AtomicUsize::new(0)).map_err(|error| error.to_string())?;
    let (mut value, mut before) = (0, 0);
    for _ in 0..rounds(25) {
        let sink = Twins { value, before, torn: torn.clone() };
        before = value;
        let begun = rig.state.begin(Point::declare(), sink);
        let mut image = begun.map_err(|error| error.to_string())?;
        let progress = rig.state.progress();
        let result = thread::scope(|scope| {
            let _cancel = CancelAtEnd(&progress);
            let thread = scope.spawn(move || {
                capture(&mut image)?;
                image.settle();
                Ok::<_, CaptureError>(())
            });
            while !thread.is_finished() {
                value += 1;
                let pairs = PAIRS.map(|(a, b)| [(a, value), (b, value)]);
                if value % 2 == 0 {
                    rig.state.write_many(pairs.as_flattened());
                } else {
                    for &(index, value) in pairs.as_flattened() {
                        rig.state.write(index, value);
                    }
                }
                let read = PAIRS.map(|(a, b)| [rig.state.read(a), rig.state.read(b)]);
                assert_eq!(read, [[value; 2]; 4], "read your latest write");
                rig.state.tend();
            }
            join(&mut rig.state, thread)
        })?;
        result.map_err(|error| error.to_string())?;
        let torn = torn.load(Ordering::Relaxed);
        ensure!(torn == 0, "{torn} words of pairs were not as at begin");
    }
    Ok(())
}

/// Any word of an image, at any time, in any order, is what it was at begin.
pub(super) fn random_access<A: Algorithm>(seed: u64) -> Verdict {
    let words = 4 * BLOCK_WORDS + 1;
    let mut rig = Rig::<A>::new(words, seed)?;
    for _ in 0..rounds(10) {
        rig.writes(50)?;
        let (mut image, tally) = rig.begin(Manner::Plain).map_err(|error| error.to_string())?;
        let expected = rig.oracle.clone();
        ensure!(image.get(words).is_none(), "a word beyond the image");
        let mut rng = Rng(rig.rng.next());
        let (verdict, result) = thread::scope(|scope| {
            let thread = scope.spawn(move || {
                for _ in 0..rounds(1000) {
                    let index = rng.below(words);
                    let found = image.get(index);
                    let expected = A::INFO.random_access.then_some(expected[index]);
                    let verdict = format!("word {index} is {found:?}, not {expected:?}");
                    if found != expected {
                        return (Err(verdict), Ok(()));
                    }
                }
                let result = capture_and_settle(&mut image);
                (if image.get(0).is_none() { Ok(()) } else { Err("not spent".into()) }, result)
            });
            while !thread.is_finished() {
                let _ = rig.writes(1);
                rig.state.tend();
            }
            join(&mut rig.state, thread)
        })?;
        verdict?;
        complete(result, &tally, words)?;
    }
    rig.check_reads()
}

/// Whole images compared word by word, under random writes at full speed.
pub(super) fn many_images_under_load<A: Algorithm>(seed: u64) -> Verdict {
    let words = 24 * BLOCK_WORDS;
    let mut rig = Rig::<A>::new(words, seed)?;
    for round in 0..rounds(30) {
        let manner = if round % 4 == 0 { Manner::Slow } else { Manner::Plain };
        let (mut image, tally) = rig.begin(manner).map_err(|error| error.to_string())?;
        let result = thread::scope(|scope| {
            let thread = scope.spawn(move || capture_and_settle(&mut image));
            let mut verdict = Ok(());
            while !thread.is_finished() && verdict.is_ok() {
                verdict = rig.writes(1);
                rig.state.tend();
            }
            let result = join(&mut rig.state, thread);
            verdict.and(result)
        })?;
        complete(result, &tally, words)?;
    }
    rig.check_reads()
}

/// Whole images compared while the writer writes the very block that is being captured, and those
/// beside it: both threads meet in one unit, which random writes seldom bring about.
pub(super) fn writes_chase_the_capture<A: Algorithm>(seed: u64) -> Verdict {
    let words = 16 * BLOCK_WORDS;
    let mut rig = Rig::<A>::new(words, seed)?;
    // A forked child shares no memory with the writer.
    for round in 0..if A::INFO.in_process { rounds(12) } else { 1 } {
        let manner = if round % 4 == 0 { Manner::Slow } else { Manner::Plain };
        let (mut image, tally) = rig.begin(manner).map_err(|error| error.to_string())?;
        let progress = rig.state.progress();
        let result = thread::scope(|scope| {
            let _cancel = CancelAtEnd(&progress);
            let thread = scope.spawn(move || capture_and_settle(&mut image));
            let mut number = 0;
            while !thread.is_finished() {
                // From the end of the block: a copy begins at its start.
                number += 1;
                let at = progress.captured_words() + BLOCK_WORDS - 1 - 7 * number % BLOCK_WORDS;
                let ahead = BLOCK_WORDS * (number / BLOCK_WORDS % 2);
                let value = rig.rng.next();
                rig.write((at + ahead).min(words - 1), value)?;
                rig.state.tend();
            }
            join(&mut rig.state, thread)
        })?;
        complete(result, &tally, words)?;
    }
    rig.check_reads()
}
