//! Chains of increments as an embedder meets them: algorithms with full images, whose blocks are
//! tracked, and those whose images are increments.

#![allow(clippy::unwrap_used, reason = "the temporary files are this test's own")]

use std::fs;
use std::path::{Path, PathBuf};

use stillframe::algorithms::{imprint, naive};
use stillframe::{Algorithm, Unit};
use stillframe_durability::{Damage, Error, Increments, Options, Store};
use tempfile::{TempDir, tempdir};

const WORDS: usize = 20_000;

fn directory() -> TempDir {
    tempdir().expect("a temporary directory")
}

fn options(increments: Increments) -> Options {
    let memory = stillframe::Options::words(WORDS).max_words(2 * WORDS).unit(Unit::Line);
    Options::memory(memory).increments(increments)
}

/// Chains that are never merged.
fn endless() -> Increments {
    Increments::at_most(usize::MAX).percent(u64::MAX)
}

fn open<A: Algorithm>(directory: &Path, increments: Increments) -> Store<A> {
    Store::open_with(directory, options(increments)).expect("the directory is sound")
}

fn state<A: Algorithm>(store: &Store<A>) -> Vec<u64> {
    (0..store.words()).map(|index| store.read(index)).collect()
}

fn file(directory: &Path, number: u64) -> PathBuf {
    directory.join(format!("checkpoint-{number:020}"))
}

fn bytes(directory: &Path, number: u64) -> u64 {
    fs::metadata(file(directory, number)).expect("it is there").len()
}

/// Writes a few words in a few blocks.
fn touch<A: Algorithm>(store: &mut Store<A>, round: u64) {
    for step in 0..10 {
        let index = (round * 7919 + step * 3) as usize % store.words();
        store.write(index, round << 32 | step);
    }
    store.write_u32(2 * 777 + 1, round as u32);
    store.write_run(WORDS - 3, &[round, round + 1, round + 2]);
}

/// A base and `count` increments; returns the state at each.
fn chain<A: Algorithm>(directory: &Path, count: u64) -> Vec<Vec<u64>> {
    let mut store = open::<A>(directory, endless());
    let mut states = Vec::new();
    for round in 1..=count + 1 {
        touch(&mut store, round);
        states.push(state(&store));
        assert_eq!(store.checkpoint_and_wait().expect("the disk is sound"), round);
    }
    assert_eq!(store.stats().increments as u64, count);
    states
}

fn an_increment_holds_what_changed_and_recovers<A: Algorithm>() {
    let directory = directory();
    let path = directory.path();
    let states = chain::<A>(path, 3);
    assert!(bytes(path, 1) > WORDS as u64 * 8, "the base is whole");
    for number in 2..=4 {
        assert!(bytes(path, number) < 30_000, "{} bytes", bytes(path, number));
    }
    let store = open::<A>(path, endless());
    assert!(state(&store) == states[3]);
    let loaded = store.recovery().loaded.as_ref().expect("there is one");
    assert_eq!((loaded.number, loaded.base, loaded.increments), (4, 1, 3));
    let all: u64 = (1..=4).map(|number| bytes(path, number)).sum();
    assert_eq!(loaded.bytes, all);
}

/// The unit of an increment of full images is the block of 4 KiB: it holds those that were written
/// between the begin of the checkpoint before and its own, whole and once, and no others.
fn an_increment_of_full_images_holds_the_blocks_written_since_the_last_begin<A: Algorithm>() {
    const BLOCK: usize = stillframe::BLOCK_WORDS;
    const HEADER_AND_FOOTER: u64 = 160 + 40;
    /// The head of the file's block, of each run of blocks side by side, and the blocks.
    fn length(runs: u64, blocks: u64) -> u64 {
        HEADER_AND_FOOTER + 16 + runs * 8 + blocks * BLOCK as u64 * 8
    }
    let directory = directory();
    let mut store = open::<A>(directory.path(), endless());
    store.checkpoint_and_wait().expect("the disk is sound");
    store.write(0, 1);
    store.write(7 * BLOCK + 5, 2);
    store.write(7 * BLOCK + 500, 3);
    store.write_u32(2 * (20 * BLOCK - 1), 4);
    store.write_run(31 * BLOCK - 1, &[5, 6]);
    store.checkpoint();
    assert_eq!(store.point(), Some(2));
    store.write(9 * BLOCK, 7); // perhaps while it is captured
    assert_eq!(store.wait().expect("the disk is sound"), Some(2));
    assert_eq!(bytes(directory.path(), 2), length(4, 5), "0, 7, 19, 30 and 31");
    store.write(9 * BLOCK + 1, 0); // as it was
    store.checkpoint_and_wait().expect("the disk is sound");
    assert_eq!(bytes(directory.path(), 3), length(1, 1), "9");
    store.checkpoint_and_wait().expect("the disk is sound");
    assert_eq!(bytes(directory.path(), 4), HEADER_AND_FOOTER, "nothing");
    let expected = state(&store);
    drop(store);
    assert!(state(&open::<A>(directory.path(), endless())) == expected);
}

#[test]
fn imprint_holds_the_blocks_written_since_the_last_begin() {
    let _watchdog = stillframe_peers::Watchdog::start();
    an_increment_of_full_images_holds_the_blocks_written_since_the_last_begin::<imprint::Imprint>();
    an_increment_of_full_images_holds_the_blocks_written_since_the_last_begin::<naive::Naive>();
}

/// Whether increments are made now or not, those of before are not passed over.
#[test]
fn a_broken_chain_is_refused_where_no_increments_are_made() {
    let directory = directory();
    chain::<naive::Naive>(directory.path(), 2);
    let newest = file(directory.path(), 3);
    let mut bytes = fs::read(&newest).unwrap();
    bytes[20] ^= 1; // the header: nothing shows that it was an increment
    fs::write(&newest, bytes).unwrap();
    let opened = Store::<naive::Naive>::open_with(directory.path(), Options::words(WORDS));
    let error = opened.expect_err("checkpoint 3 may have had more");
    assert!(matches!(error, Error::BrokenChain { newest: 3, whole: 2, .. }), "{error}");
}

/// Also not in a later life.
#[test]
fn numbers_of_what_was_set_aside_are_not_used_again() {
    let directory = directory();
    let path = directory.path();
    chain::<naive::Naive>(path, 2);
    let mut damaged = fs::read(file(path, 3)).unwrap();
    *damaged.last_mut().unwrap() ^= 1;
    fs::write(file(path, 3), damaged).unwrap();
    let accepts = options(endless()).accept_chain_loss();
    drop(Store::<naive::Naive>::open_with(path, accepts).expect("the loss is accepted"));
    let mut store = open::<naive::Naive>(path, endless());
    assert_eq!(store.checkpoint_and_wait().expect("the disk is sound"), 4);
}

/// The merger takes no file for one of the chain that only has its number.
#[test]
fn a_file_of_another_store_is_not_merged() {
    let (ours, theirs) = (directory(), directory());
    chain::<naive::Naive>(theirs.path(), 1);
    let mut store = open::<naive::Naive>(ours.path(), Increments::at_most(1));
    touch(&mut store, 1);
    store.checkpoint_and_wait().expect("the disk is sound");
    fs::copy(file(theirs.path(), 1), file(ours.path(), 1)).unwrap();
    touch(&mut store, 2);
    store.checkpoint_and_wait().expect("it does not read the other");
    store.wait_merged();
    let stats = store.stats();
    assert_eq!((stats.merges, stats.merge_failures), (0, 1), "{:?}", stats.last_error);
}

fn an_increment_of_nothing_is_empty<A: Algorithm>() {
    let directory = directory();
    chain::<A>(directory.path(), 1);
    let mut store = open::<A>(directory.path(), endless());
    store.checkpoint_and_wait().expect("the disk is sound");
    let number = store.checkpoint_and_wait().expect("the disk is sound");
    assert!(bytes(directory.path(), number) < 240);
}

fn a_failed_increment_is_part_of_the_next<A: Algorithm>() {
    let directory = directory();
    let path = directory.path();
    let mut store = open::<A>(path, endless());
    store.write(5, 1);
    store.checkpoint_and_wait().expect("the disk is sound");
    store.write(5, 2);
    // A directory in the place of the next checkpoint: it cannot be renamed over.
    fs::create_dir(file(path, 2)).unwrap();
    store.checkpoint_and_wait().expect_err("the name is taken");
    store.write(9000, 3);
    fs::create_dir(file(path, 3)).unwrap();
    store.checkpoint_and_wait().expect_err("the name is taken");
    store.write(WORDS - 1, 4);
    assert_eq!(store.checkpoint_and_wait().expect("the name is free"), 4);
    assert!(bytes(path, 4) < 30_000, "an increment all the same");
    let expected = state(&store);
    drop(store);
    fs::remove_dir(file(path, 2)).unwrap();
    fs::remove_dir(file(path, 3)).unwrap();
    let store = open::<A>(path, endless());
    assert!(state(&store) == expected);
    assert_eq!(store.recovery().loaded.as_ref().unwrap().base, 1);
}

fn long_chains_are_merged_and_older_ones_kept_whole<A: Algorithm>() {
    let directory = directory();
    let path = directory.path();
    let mut store = open::<A>(path, Increments::at_most(3));
    let mut states = vec![Vec::new()];
    for round in 1..=12 {
        touch(&mut store, round);
        states.push(state(&store));
        store.checkpoint_and_wait().expect("the disk is sound");
        store.wait_merged();
    }
    let stats = store.stats();
    assert_eq!((stats.merges, stats.merge_failures, stats.last_error), (3, 0, None));
    assert_eq!(stats.increments, 2, "10 was merged");
    drop(store);
    // 10 is full, the chain of 7 is the generation before.
    let is_there: Vec<u64> = (1..=12).filter(|&number| file(path, number).exists()).collect();
    assert_eq!(is_there, [7, 8, 9, 10, 11, 12]);
    let store = open::<A>(path, endless());
    assert!(state(&store) == states[12]);
    assert_eq!(store.recovery().loaded.as_ref().unwrap().base, 10);
    drop(store);
    fs::remove_file(file(path, 12)).unwrap();
    fs::remove_file(file(path, 11)).unwrap();
    fs::remove_file(file(path, 10)).unwrap();
    assert!(state(&open::<A>(path, endless())) == states[9], "the older generation");
}

fn a_broken_chain_is_refused_and_its_whole_part_offered<A: Algorithm>() {
    for (link, is_missing) in [(3, true), (3, false), (5, false), (1, false)] {
        let directory = directory();
        let path = directory.path();
        let states = chain::<A>(path, 4);
        if is_missing {
            fs::remove_file(file(path, link)).unwrap();
        } else {
            let mut bytes = fs::read(file(path, link)).unwrap();
            *bytes.last_mut().unwrap() ^= 1;
            fs::write(file(path, link), bytes).unwrap();
        }
        let error = Store::<A>::open_with(path, options(endless())).err().expect("it is broken");
        if link == 1 {
            assert!(matches!(error, Error::NoneSound { .. }), "{error}");
            continue;
        }
        let text = error.to_string();
        let Error::BrokenChain { path: named, damage, newest: 5, whole } = error else {
            panic!("{text}")
        };
        assert_eq!(whole, link - 1, "{text}");
        assert_eq!(named, file(path, if is_missing { link + 1 } else { link }), "{text}");
        assert_eq!(matches!(damage, Damage::BaseMissing { base: 3 }), is_missing, "{text}");

        let accepts = options(endless()).accept_chain_loss();
        let mut store = Store::<A>::open_with(path, accepts).expect("the loss is accepted");
        assert!(state(&store) == states[whole as usize - 1]);
        assert_eq!(store.recovery().skipped.len() as u64, 5 - whole - u64::from(is_missing));
        // What cannot be used is out of the way, and its numbers are not used again.
        touch(&mut store, 99);
        let expected = state(&store);
        assert_eq!(store.checkpoint_and_wait().expect("the disk is sound"), 6);
        drop(store);
        assert!(state(&open::<A>(path, endless())) == expected);
    }
}

fn swapped_and_foreign_increments_are_found<A: Algorithm>() {
    let (ours, theirs) = (directory(), directory());
    chain::<A>(ours.path(), 3);
    chain::<A>(theirs.path(), 3);
    let broken = || Store::<A>::open_with(ours.path(), options(endless())).err().expect("broken");
    // Another store's increment of the same number, sound by itself.
    let sound = fs::read(file(ours.path(), 3)).unwrap();
    fs::copy(file(theirs.path(), 3), file(ours.path(), 3)).unwrap();
    let error = broken();
    assert!(
        matches!(error, Error::BrokenChain { damage: Damage::BaseIsAnother { base: 3 }, .. }),
        "{error}"
    );
    // Two of the same chain.
    fs::copy(file(ours.path(), 2), file(ours.path(), 3)).unwrap();
    fs::write(file(ours.path(), 2), sound).unwrap();
    let error = broken();
    let Error::BrokenChain { damage: Damage::Misnamed { number: 2, named: 3 }, .. } = error else {
        panic!("{error}")
    };
}

fn the_state_grows_over_a_chain<A: Algorithm>() {
    let directory = directory();
    let mut store = open::<A>(directory.path(), endless());
    touch(&mut store, 1);
    store.checkpoint_and_wait().expect("the disk is sound");
    store.grow(WORDS + 5000).expect("there is room");
    store.write(WORDS + 4000, 7);
    store.checkpoint_and_wait().expect("the disk is sound");
    store.grow(WORDS + 5001).expect("there is room");
    store.checkpoint_and_wait().expect("the disk is sound");
    let expected = state(&store);
    drop(store);
    assert!(state(&open::<A>(directory.path(), endless())) == expected);
}

fn chains_go_on_in_the_next_process<A: Algorithm>() {
    let directory = directory();
    let path = directory.path();
    let mut expected = vec![0; WORDS];
    for round in 1..=6 {
        let mut store = open::<A>(path, endless());
        assert!(state(&store) == expected);
        for _ in 0..2 {
            touch(&mut store, round);
            expected = state(&store);
            store.checkpoint_and_wait().expect("the disk is sound");
        }
    }
}

fn a_damaged_chain_is_not_merged_and_replaced_by_a_full_checkpoint<A: Algorithm>() {
    let directory = directory();
    let path = directory.path();
    let mut store = open::<A>(path, Increments::at_most(3));
    for round in 1..=3 {
        touch(&mut store, round);
        store.checkpoint_and_wait().expect("the disk is sound");
    }
    let mut damaged = fs::read(file(path, 1)).unwrap();
    damaged[5000] ^= 1;
    fs::write(file(path, 1), damaged).unwrap();
    touch(&mut store, 4);
    store.checkpoint_and_wait().expect("it does not read the others");
    store.wait_merged();
    let stats = store.stats();
    assert_eq!((stats.merges, stats.merge_failures, stats.increments), (0, 1, 0));
    assert!(stats.last_error.unwrap().contains("00001 cannot be merged"));
    touch(&mut store, 5);
    let expected = state(&store);
    assert_eq!(store.checkpoint_and_wait().expect("the disk is sound"), 5);
    assert!(bytes(path, 5) > WORDS as u64 * 8, "it is full");
    drop(store);
    assert!(state(&open::<A>(path, endless())) == expected);
}

fn a_chain_that_cannot_be_merged_stays_bounded<A: Algorithm>() {
    let directory = directory();
    let path = directory.path();
    let mut store = open::<A>(path, Increments::at_most(2));
    fs::create_dir(path.join("merge.tmp")).unwrap(); // no file can be made of that name
    for round in 1..=14 {
        touch(&mut store, round);
        store.checkpoint_and_wait().expect("the disk is sound");
        store.wait_merged();
        let is_native = A::INFO.image == stillframe::Completeness::Incremental;
        assert!(store.stats().increments <= 4 || is_native, "round {round}");
    }
    let stats = store.stats();
    assert!(stats.merges == 0 && stats.merge_failures > 0);
    assert!(stats.last_error.unwrap().contains("merge.tmp"));
    fs::remove_dir(path.join("merge.tmp")).unwrap();
    touch(&mut store, 15);
    store.checkpoint_and_wait().expect("the disk is sound");
    let expected = state(&store);
    drop(store);
    assert!(state(&open::<A>(path, endless())) == expected);
}

fn packs_and_paces<A: Algorithm>() {
    let directory = directory();
    let path = directory.path();
    let packed = || options(Increments::at_most(2)).pack().bandwidth(100_000_000).load_threads(1);
    let mut store = Store::<A>::open_with(path, packed()).expect("sound");
    for round in 1..=5 {
        touch(&mut store, round);
        store.checkpoint_and_wait().expect("the disk is sound");
        store.wait_merged();
    }
    assert!(bytes(path, 5) < 20_000 && store.stats().merges > 0, "mostly zeros");
    let expected = state(&store);
    drop(store);
    assert!(state(&open::<A>(path, endless())) == expected);
}

fn double_backup_keeps_one<A: Algorithm>() {
    let directory = directory();
    let path = directory.path();
    let mut store =
        Store::<A>::open_with(path, options(Increments::at_most(2)).keep_double_backup())
            .expect("sound");
    for round in 1..=7 {
        touch(&mut store, round);
        store.checkpoint_and_wait().expect("the disk is sound");
        store.wait_merged();
    }
    let expected = state(&store);
    drop(store);
    let is_there: Vec<u64> = (1..=7).filter(|&number| file(path, number).exists()).collect();
    assert_eq!(is_there, [7]);
    assert!(state(&open::<A>(path, endless())) == expected);
}

macro_rules! for_each {
    ($($module:ident::$algorithm:ident)*) => {
        $(#[allow(non_snake_case, reason = "named as the type")]
        mod $algorithm {
            use stillframe::algorithms::$module::$algorithm;
            for_each!(tests $algorithm:
                an_increment_holds_what_changed_and_recovers
                an_increment_of_nothing_is_empty
                a_failed_increment_is_part_of_the_next
                long_chains_are_merged_and_older_ones_kept_whole
                a_broken_chain_is_refused_and_its_whole_part_offered
                swapped_and_foreign_increments_are_found
                the_state_grows_over_a_chain
                chains_go_on_in_the_next_process
                a_damaged_chain_is_not_merged_and_replaced_by_a_full_checkpoint
                a_chain_that_cannot_be_merged_stays_bounded
                packs_and_paces
                double_backup_keeps_one
            );
        })*
    };
    (tests $algorithm:ident: $($test:ident)*) => {
        $(#[test]
        fn $test() {
            let _watchdog = stillframe_peers::Watchdog::start();
            super::$test::<$algorithm>();
        })*
    };
}

for_each!(imprint::Imprint naive::Naive fork::Fork hourglass::HourglassCopy
    hourglass::Hourglass pingpong::NppMerge pingpong::IppMerge);
