//! States of more than 2^32 words, in address space of which little is memory. Begin takes as long
//! as for a small one: `cargo test --release -p stillframe --test vast -- --nocapture` shows it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use stillframe::algorithms::imprint::Imprint;
use stillframe::{Algorithm, BLOCK_WORDS, Image, OnFull, Options, Point, Sink, SinkError};

/// Wants the blocks of some words alone, and keeps what it gets of them.
struct Few {
    words: BTreeMap<usize, u64>,
    /// Their blocks that are still to come, the next one last.
    blocks: Vec<usize>,
    found: Arc<Mutex<BTreeMap<usize, u64>>>,
}

impl Few {
    fn new(words: &BTreeMap<usize, u64>) -> Self {
        let mut blocks: Vec<usize> = words.keys().rev().map(|index| index / BLOCK_WORDS).collect();
        blocks.dedup();
        Self { words: words.clone(), blocks, found: Arc::default() }
    }
}

impl Sink for Few {
    fn push(&mut self, start: usize, words: &[u64]) -> Result<(), SinkError> {
        self.blocks.pop();
        let known = self.words.range(start..start + words.len());
        let of = known.map(|(&index, _)| (index, words[index - start]));
        self.found.lock().expect("no panic").extend(of);
        Ok(())
    }
    fn wants(&mut self, start: usize) -> bool {
        self.blocks.last() == Some(&(start / BLOCK_WORDS))
    }
}

#[test]
fn words_beyond_four_thousand_million() {
    const WORDS: usize = (1 << 32) + (1 << 20);
    let options = Options::words(WORDS).max_words(2 * WORDS).budget(64 << 20, OnFull::Cancel);
    let mut state = Imprint::create(&options).expect("address space");
    // On both sides of each power of two.
    let around = |bits: u32| [(1 << bits) - 1, 1 << bits, (1 << bits) + 5];
    let places: Vec<usize> = (3..33).flat_map(around).chain([WORDS - 1]).collect();
    let before: BTreeMap<usize, u64> =
        places.iter().map(|&index| (index, index as u64 * 3)).collect();
    before.iter().for_each(|(&index, &value)| state.write(index, value));
    let sink = Few::new(&before);
    let found = Arc::clone(&sink.found);
    let mut image = state.begin(Point::declare(), sink).expect("it begins");
    let (many, single) = places.split_at(places.len() / 2);
    let after = |&index: &usize| (index, index as u64 + 1);
    state.write_many(&many.iter().map(after).collect::<Vec<_>>());
    single.iter().map(after).for_each(|(index, value)| state.write(index, value));
    assert!(before.iter().all(|(&index, &value)| image.get(index) == Some(value)));
    image.capture().expect("it is captured");
    assert_eq!(*found.lock().expect("no panic"), before);
    state.grow(WORDS + 3 * BLOCK_WORDS).expect("address space");
    state.write(WORDS + BLOCK_WORDS, 7);
    assert_eq!(state.read(WORDS + BLOCK_WORDS), 7);
    assert!(places.iter().map(after).all(|(index, value)| state.read(index) == value));
}

/// Figures for people: time decides no test.
#[test]
fn begin_is_flat() {
    // An image that ends clears a byte a block.
    let rounds = if cfg!(debug_assertions) { 5 } else { 101 };
    for (name, words) in [("1 MB", 1 << 17), ("1 GB", 1 << 27), ("64 GB", 1 << 33)] {
        let mut state = Imprint::create(&Options::words(words)).expect("address space");
        let mut begin = |number: usize| {
            state.write(number * 1000, 1);
            let sink = Few::new(&BTreeMap::new());
            let started = Instant::now();
            let image = state.begin(Point::declare(), sink).expect("it begins");
            let took = started.elapsed();
            drop(image);
            took
        };
        let mut took: Vec<_> = (0..rounds).map(&mut begin).collect();
        took.sort();
        println!(
            "a begin of {name} took {:?}, the longest of {rounds} {:?}",
            took[rounds / 2],
            took[rounds - 1]
        );
    }
}
