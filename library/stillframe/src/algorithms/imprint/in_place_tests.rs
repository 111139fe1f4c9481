//! Words that are announced and then written in place.

use std::thread;

use super::Imprint;
use crate::memory::Words;
use crate::{Algorithm, BLOCK_WORDS, Image, OnFull, Options, Point};

const WORDS: usize = 5 * BLOCK_WORDS + 3;

/// A run of words, from the bits of a number.
fn run(bits: u64) -> std::ops::Range<usize> {
    let start = bits as usize % WORDS;
    start..(start + (bits >> 32) as usize % (2 * BLOCK_WORDS)).min(WORDS)
}

fn store(words: &Words, run: std::ops::Range<usize>, value: u64) {
    run.for_each(|index| words.store(index, value));
}

/// Each image has what was there at its begin, whenever it is captured beside the writes.
#[test]
fn images_have_what_was_there_before_announced_words_were_written_in_place() {
    let options = Options::words(WORDS).images(3).budget(8 << 20, OnFull::Slow);
    let mut state = Imprint::create(&options).expect("memory");
    let words = state.words.view();
    assert_eq!(state.live().map(|live| live.words()), Some(WORDS));
    let mut bits = 0x9E37_79B9_7F4A_7C15_u64;
    let mut next = move || {
        bits ^= bits << 13;
        bits ^= bits >> 7;
        bits ^= bits << 17;
        bits
    };
    for round in 0..if cfg!(miri) { 3 } else { 300 } {
        let expected: Vec<u64> = (0..WORDS).map(|index| words.load(index)).collect();
        let mut image = state.begin(Point::declare(), Vec::new()).expect("one at a time");
        let capture = thread::spawn(move || {
            image.capture().expect("within the budget");
            image.into_sink()
        });
        for _ in 0..next() % 20 {
            let run = run(next());
            state.announce(run.start, run.len());
            store(&words, run, next());
        }
        let captured = capture.join().expect("no panic");
        assert_eq!(captured, expected, "round {round}");
        let free = run(next());
        state.announce(free.start, free.len());
        store(&words, free, next()); // between images
    }
}

/// What shares a word with announced words keeps what it holds.
#[test]
fn an_announcement_stores_nothing() {
    let mut state = Imprint::create(&Options::words(BLOCK_WORDS)).expect("memory");
    let words = state.words.view();
    let image = state.begin(Point::declare(), Vec::new()).expect("the first");
    let other = words.view();
    let writer = thread::spawn(move || (1..10_000).for_each(|value| other.store(0, value)));
    while !writer.is_finished() {
        state.announce(0, 1);
    }
    writer.join().expect("no panic");
    assert_eq!(words.load(0), 9_999);
    drop(image);
}
