//! Chains and merges: what is recovered must be the state at the point of a checkpoint, whole, not
//! older than the last one acknowledged, and no crash may look like a broken chain.

use std::path::Path;
use std::sync::Arc;

use stillframe::Algorithm;
use stillframe::algorithms::hourglass::Hourglass;
use stillframe::algorithms::imprint::Imprint;
use stillframe::algorithms::naive::Naive;
use stillframe::algorithms::pingpong::IppMerge;

use super::checkpoints::{Oracle, crash_store, recovered};
use super::{Random, crash_at_random, enough, must_find, seed};
use crate::chain::Increments;
use crate::disk::{Fault, Files, SimulatedDisk};
use crate::error::Error;
use crate::mutant::Mutant;
use crate::options::Options;
use crate::store::Store;
use crate::store::act::Act;

fn open<A: Algorithm>(
    disk: &SimulatedDisk,
    words: usize,
    increments: Increments,
) -> Result<Store<A>, Error> {
    let options = Options::words(words).disk(Arc::new(disk.clone())).increments(increments);
    Store::open_with(Path::new("simulated"), options)
}

/// At most this many increments, however large.
fn at_most(count: usize) -> Increments {
    Increments::at_most(count).percent(u64::MAX)
}

fn state<A: Algorithm>(store: &Store<A>) -> Vec<u64> {
    (0..store.words()).map(|index| store.read(index)).collect()
}

/// Changes a few words, other ones in each round.
fn touch<A: Algorithm>(store: &mut Store<A>, round: u64) {
    for step in 0..3 {
        let index = (round * 5 + step * 7) as usize % store.words();
        store.write(index, round << 8 | step);
    }
}

// ---- every crash point of a small store

/// Two processes with chains that are merged; tries each step until it succeeds. Returns the
/// errors.
fn run<A: Algorithm>(disk: &SimulatedDisk, words: usize, most: usize) -> (Oracle, Vec<String>) {
    let (mut oracle, mut errors) = (Oracle::new(words), Vec::new());
    let rounds = 2 * most as u64 + 1;
    for rounds in [1..=rounds, rounds + 1..=rounds + 2] {
        let mut store = loop {
            match open::<A>(disk, words, at_most(most)) {
                Ok(store) => break store,
                Err(error) => errors.push(error.to_string()),
            }
            if errors.len() > 3 {
                return (oracle, errors); // it will never open
            }
        };
        let mut number = store.next_number() - 1;
        for round in rounds {
            touch(&mut store, round);
            loop {
                number += 1;
                oracle.states.insert(number, state(&store));
                match store.checkpoint_and_wait() {
                    Ok(made) => {
                        assert_eq!(made, number);
                        break oracle.acknowledged.push((disk.changes(), number));
                    }
                    Err(error) => errors.push(error.to_string()),
                }
            }
            store.wait_merged();
        }
        let stats = store.stats();
        errors.extend((stats.merge_failures > 0).then(|| stats.last_error.unwrap_or_default()));
    }
    (oracle, errors)
}

fn crash_small<A: Algorithm>(words: usize) -> Result<u64, String> {
    let disk = SimulatedDisk::default();
    let (oracle, errors) = run::<A>(&disk, words, 1);
    match errors.first() {
        Some(error) => Err(error.clone()),
        None => crash_store(&disk, &oracle, words),
    }
}

#[test]
fn a_small_chain_survives_every_crash() {
    let _watchdog = stillframe_peers::Watchdog::start();
    type Proof = fn(usize) -> Result<u64, String>;
    let proofs: [(&str, Proof); 2] =
        [("hourglass", crash_small::<Hourglass>), ("naive", crash_small::<Naive>)];
    for (name, proof) in proofs {
        let points = proof(40).expect("every crash is survived");
        println!("{name}: {points} crash points");
    }
}

#[test]
fn each_mistake_with_chains_is_found() {
    let _watchdog = stillframe_peers::Watchdog::start();
    for mutant in [
        Mutant::FileNotSynced,
        Mutant::NamesNotSynced,
        Mutant::PublishBeforeFooter,
        Mutant::OldRemovedFirst,
        Mutant::MergeNotSynced,
        Mutant::ChainRemovedFirst,
    ] {
        must_find(mutant, || crash_small::<Hourglass>(40));
    }
}

// ---- every way to write

/// A way to write words of several blocks.
type Write = fn(&mut Store<Naive>, u64);

const BLOCK: usize = stillframe::BLOCK_WORDS;

/// Each touches blocks 1, 2 and 4, near their edges.
const WAYS: [(&str, Write); 10] = [
    ("write in blocks by which it grows", |store, value| {
        store.grow(store.words() + BLOCK).expect("there is room");
        store.write(store.words() - 1, value);
    }),
    ("write", |store, value| {
        let places = [2 * BLOCK - 1, 2 * BLOCK, 5 * BLOCK - 1];
        places.iter().for_each(|&index| store.write(index, value));
    }),
    ("write_u32", |store, value| {
        let halves = [4 * BLOCK - 1, 4 * BLOCK, 10 * BLOCK - 2];
        halves.iter().for_each(|&half| store.write_u32(half, value as u32));
    }),
    ("update", |store, value| {
        let places = [2 * BLOCK - 1, 2 * BLOCK, 4 * BLOCK];
        places.iter().for_each(|&index| store.update(index, |old| old ^ value));
    }),
    ("write_run", |store, value| {
        store.write_run(2 * BLOCK - 1, &[value; 2]);
        store.write_run(4 * BLOCK, &[value]);
    }),
    ("write_many", |store, value| {
        store.write_many(&[(BLOCK, value), (4 * BLOCK, value), (2 * BLOCK, value)]);
    }),
    ("act.write", |store, value| {
        acts(store, |words| [BLOCK, 3 * BLOCK - 1, 4 * BLOCK].map(|it| words.write(it, value)));
    }),
    ("act.update", |store, value| {
        let update = |word: u64| word ^ value;
        acts(store, |words| [BLOCK, 2 * BLOCK, 4 * BLOCK].map(|it| words.update(it, update)));
    }),
    ("act.write_run", |store, value| {
        acts(store, |words| words.write_run(2 * BLOCK - 1, &[value; 2 * BLOCK + 2]));
    }),
    ("act.write_many and halves", |store, value| {
        acts(store, |words| {
            words.write_many(&[(BLOCK, value), (4 * BLOCK, value)]);
            words.write_u32(6 * BLOCK - 1, value as u32);
        });
    }),
];

fn acts<R>(store: &mut Store<Naive>, act: impl FnOnce(&mut Act<'_, Naive>) -> R) {
    let acted = store.act(|words| {
        act(words);
        Ok::<_, Error>(())
    });
    acted.expect("there is no log");
}

/// Whether what was written in each way is in the increment that follows, and nothing else is.
fn ways_to_write() -> Result<u64, String> {
    for (way, write) in WAYS {
        let (disk, words) = (SimulatedDisk::default(), 6 * BLOCK);
        let memory = stillframe::Options::words(words).max_words(2 * words);
        let options = Options::memory(memory).disk(Arc::new(disk.clone())).increments(at_most(9));
        let mut store = Store::<Naive>::open_with("simulated", options).expect("a sound disk");
        store.checkpoint_and_wait().expect("a sound disk");
        let whole = store.stats().bytes_last;
        for value in 1..=2 {
            write(&mut store, value << 40 | value);
            store.checkpoint_and_wait().expect("a sound disk");
            let bytes = store.stats().bytes_last;
            if bytes > whole * 3 / 4 {
                return Err(format!("{way}: {bytes} bytes for 3 or 4 of 6 blocks in {whole}"));
            }
            let found = recovered(&disk.platter().lose_power(|_| false), words);
            if found != Ok((value + 1, state(&store))) {
                return Err(format!("{way}: the increment lacks what was written"));
            }
        }
    }
    Ok(WAYS.len() as u64)
}

#[test]
fn each_way_to_write_is_in_the_next_increment() {
    let _watchdog = stillframe_peers::Watchdog::start();
    ways_to_write().expect("each is there");
}

#[test]
fn each_mistake_with_marks_is_found() {
    let _watchdog = stillframe_peers::Watchdog::start();
    for mutant in [
        Mutant::UpdateMarksNothing,
        Mutant::BatchMarksFirst,
        Mutant::RunMarksFirst,
        Mutant::HalfMarksItsNumber,
        Mutant::GrowthMarksNothing,
    ] {
        must_find(mutant, ways_to_write);
    }
}

// ---- faults and random crash points

const FAULTS: [Fault; 4] = [Fault::IO, Fault::DISK_FULL, Fault::INTERRUPTED, Fault::ShortWrite];

/// Lets each call of a run fail, one per run. Returns how many runs that took.
fn fail_every_call<A: Algorithm>(fault: Fault, words: usize) -> Result<u64, String> {
    let seed = seed();
    let mut random = Random(seed);
    for call in 1.. {
        let disk = SimulatedDisk::default();
        disk.fail_at(call, fault);
        let (oracle, errors) = run::<A>(&disk, words, 2);
        if !disk.has_failed() {
            return Ok(call - 1);
        }
        let context = format!("seed {seed}, {fault:?} at call {call}");
        let is_harmless = matches!(fault, Fault::INTERRUPTED | Fault::ShortWrite);
        match &errors[..] {
            [] => {}
            [error] if !error.contains("; ") => return Err(format!("{context}: reported {error}")),
            [error] if is_harmless && !error.starts_with("syncing") => {
                return Err(format!("{context}: reported {error}"));
            }
            [_] => {}
            errors => return Err(format!("{context}: reported {errors:?}")),
        }
        let judge = |changes, files: &Files| oracle.judge(changes, &recovered(files, words));
        crash_at_random(&disk, &Files::new(), &mut random, 4, judge)
            .map_err(|wrong| format!("{context}: {wrong}"))?;
    }
    unreachable!("a run has so many calls and no more");
}

#[test]
fn a_chain_survives_the_failure_of_any_call() {
    let _watchdog = stillframe_peers::Watchdog::start();
    for fault in FAULTS {
        let hourglass = fail_every_call::<Hourglass>(fault, 40).expect("every failure is survived");
        let naive = fail_every_call::<Naive>(fault, 1100).expect("every failure is survived");
        println!("{fault:?}: {hourglass} and {naive} runs");
    }
}

#[test]
fn what_a_failed_increment_had_is_missed() {
    let _watchdog = stillframe_peers::Watchdog::start();
    for mutant in [Mutant::FailedIncrementForgotten, Mutant::BuildsOnFailed] {
        must_find(mutant, || fail_every_call::<Naive>(Fault::DISK_FULL, 1100));
    }
}

/// One life of a store, with a fault at a random call, if any.
fn live<A: Algorithm>(
    disk: &SimulatedDisk,
    oracle: &mut Oracle,
    words: usize,
    random: &mut Random,
) {
    if random.below(3) == 0 {
        disk.fail_at(1 + random.below(150), FAULTS[random.below(4) as usize]);
    }
    let increments = Increments::at_most(1 + random.below(4) as usize);
    let increments = increments.percent([10, 100, u64::MAX][random.below(3) as usize]);
    let Ok(mut store) = open::<A>(disk, words, increments) else {
        assert!(disk.has_failed(), "without a fault there is no error");
        return;
    };
    for _ in 0..1 + random.below(7) {
        // Half of the rounds stay in one place.
        let span = if random.below(2) == 0 { words } else { words.min(50) } as u64;
        let start = random.below(words as u64 - span + 1);
        for _ in 0..random.below(60) {
            store.write((start + random.below(span)) as usize, random.next());
        }
        let now = state(&store);
        store.checkpoint();
        if let Some(number) = store.point() {
            oracle.states.insert(number, now);
        }
        for _ in 0..random.below(50) {
            store.write((start + random.below(span)) as usize, random.next());
        }
        match store.wait() {
            Ok(Some(number)) => oracle.acknowledged.push((disk.changes(), number)),
            _ => assert!(disk.has_failed(), "without a fault there is no error"),
        }
        if random.below(3) == 0 {
            store.wait_merged();
        }
    }
}

#[test]
fn larger_chains_survive_random_crashes_life_after_life() {
    let _watchdog = stillframe_peers::Watchdog::start();
    type Life = fn(&SimulatedDisk, &mut Oracle, usize, &mut Random);
    let lives: [Life; 4] = [live::<Imprint>, live::<Naive>, live::<Hourglass>, live::<IppMerge>];
    let seed = seed();
    let mut random = Random(seed);
    let mut points = 0;
    while points < enough() {
        let most = [100, 2_000, 2_000, 5_000, 20_000][random.below(5) as usize];
        let words = 1 + random.below(most) as usize;
        let (mut files, mut oracle) = (Files::new(), Oracle::new(words));
        for life in 0..6 {
            let disk = SimulatedDisk::holding(&files).with_direct(random.below(2) == 1);
            // Files are the same for all.
            lives[random.below(4) as usize](&disk, &mut oracle, words, &mut random);
            let judge = |changes, files: &Files| oracle.judge(changes, &recovered(files, words));
            let crashed = crash_at_random(&disk, &files, &mut random, 1, judge);
            points += disk.changes() as u64 + 1;
            let (left, last) = crashed.unwrap_or_else(|wrong| {
                panic!("seed {seed}, point {points}, life {life}: {wrong}")
            });
            (files, oracle.acknowledged) = (left, vec![(0, last)]);
        }
    }
    println!("{points} crash points");
}
