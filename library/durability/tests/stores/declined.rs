//! Increments of images that are whole: the file declines the blocks that were not written since
//! the checkpoint before. What the algorithm keeps beside the state must still follow.

use std::path::Path;

use stillframe::algorithms::{self, any};
use stillframe::{BLOCK_WORDS, Info};
use stillframe_durability::{Increments, Options, Store};
use tempfile::tempdir;

const WORDS: usize = 4 * BLOCK_WORDS;

/// Those that any sink and any writer can do with, where this machine has them.
fn whole_images() -> impl Iterator<Item = &'static Info> {
    let is_here = |info: &&Info| algorithms::available(info.name).is_some_and(|it| it.is_ok());
    algorithms::ALL.iter().filter(|info| any::suits_all(info)).filter(is_here)
}

fn open(directory: &Path, info: &Info) -> Store<any::Any> {
    let memory = stillframe::Options::words(WORDS).max_words(4 * WORDS).algorithm(info.name);
    let mut increments = Increments::at_most(usize::MAX); // never merged
    increments.percent_max = u64::MAX;
    let options = Options::memory(memory).increments(increments);
    Store::open_with(directory, options).expect("the directory is sound")
}

fn check(store: &Store<any::Any>, expected: &[u64], what: &str) {
    assert_eq!(store.words(), expected.len(), "{what}");
    let wrong = expected.iter().enumerate().filter(|&(index, &word)| store.read(index) != word);
    assert_eq!(wrong.count(), 0, "wrong words: {what}");
}

/// The first image after a restart is an increment of what another process wrote.
#[test]
fn the_first_increments_after_a_restart_recover() {
    let _watchdog = stillframe_peers::Watchdog::start();
    for info in whole_images() {
        let directory = tempdir().expect("a temporary directory");
        let mut expected: Vec<u64> = (1..=WORDS as u64).collect();
        let mut store = open(directory.path(), info);
        store.write_run(0, &expected);
        store.checkpoint_and_wait().expect("the disk is sound");
        store.close().expect("the disk is sound");
        let mut store = open(directory.path(), info);
        for (index, value) in [(WORDS - 1, 7), (5, 8), (BLOCK_WORDS, 9)] {
            store.write(index, value);
            expected[index] = value;
            check(&store, &expected, info.name);
            store.checkpoint_and_wait().expect("the disk is sound");
        }
        assert_eq!(store.stats().increments, 3, "{}", info.name);
        store.close().expect("the disk is sound");
        check(&open(directory.path(), info), &expected, info.name);
    }
}

/// SplitMix64.
struct Rng(u64);

impl Rng {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ mixed >> 31) % bound as u64) as usize
    }
}

/// Checkpoints that are made, given up or cut off by the end of the store, writes while they are
/// taken, growth, and restarts: the state is as it was written, and what a restart finds is the
/// state at the last durable checkpoint.
#[test]
fn increments_recover_whatever_happened_before() {
    let _watchdog = stillframe_peers::Watchdog::start();
    for info in whole_images() {
        for seed in 1..=3 {
            let what = format!("{}, seed {seed}", info.name);
            let directory = tempdir().expect("a temporary directory");
            let mut rng = Rng(seed);
            let mut store = open(directory.path(), info);
            let mut now = vec![0; WORDS];
            let mut durable = now.clone();
            for _ in 0..25 {
                scribble(&mut store, &mut now, &mut rng);
                let begun = now.clone();
                store.checkpoint();
                store.point().expect("nothing is under way");
                if rng.below(3) == 0 {
                    store.cancel(); // perhaps too late
                }
                scribble(&mut store, &mut now, &mut rng);
                if store.wait().is_ok() {
                    durable = begun;
                }
                check(&store, &now, &what);
                if rng.below(5) == 0 {
                    drop(store);
                    store = open(directory.path(), info);
                    now = durable.clone();
                    now.resize(now.len().max(WORDS), 0);
                    check(&store, &now, &what);
                }
            }
        }
    }
}

fn scribble(store: &mut Store<any::Any>, now: &mut Vec<u64>, rng: &mut Rng) {
    if rng.below(10) == 0 {
        let words = (now.len() + rng.below(BLOCK_WORDS)).min(4 * WORDS);
        store.grow(words).expect("there is room");
        now.resize(words, 0);
    }
    for _ in 0..rng.below(4) {
        let (index, value) = (rng.below(now.len()), rng.below(usize::MAX) as u64);
        store.write(index, value);
        now[index] = value;
    }
}
