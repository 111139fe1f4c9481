//! Checkpoints: what is recovered must be
//! - the state at the point of a checkpoint, whole (before the first one: zeros),
//! - not older than the last one that was acknowledged,
//! - without any damage on the way: a crash never leaves a file that looks like a checkpoint.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use stillframe::Algorithm;
use stillframe::algorithms::imprint::Imprint;
use stillframe::algorithms::naive::Naive;

use super::{Random, crash_everywhere, enough, must_find, seed};
use crate::disk::Directory;
use crate::disk::{Fault, Files, Platter, SimulatedDisk};
use crate::error::Error;
use crate::mutant::Mutant;
use crate::options::Options;
use crate::recovery::recover;
use crate::store::Store;

fn open<A: Algorithm>(disk: &SimulatedDisk, words: usize) -> Result<Store<A>, Error> {
    Store::open_with(Path::new("simulated"), Options::words(words).disk(Arc::new(disk.clone())))
}

pub(super) type Found = Result<(u64, Vec<u64>), String>;

/// The number of the checkpoint that `files` yield, 0 for none, and the state; or what is wrong.
pub(super) fn recovered(files: &Files, words: usize) -> Found {
    let directory =
        Directory::open(Path::new("crashed"), Some(Arc::new(SimulatedDisk::holding(files))))
            .map_err(|error| error.to_string())?;
    let options = Options::words(words);
    let recovered = recover::<Naive>(&directory, &options).map_err(|error| error.to_string())?;
    if let Some(skipped) = recovered.recovery.skipped.first() {
        return Err(format!("a crash left damage: {skipped}"));
    }
    let algorithm = recovered.algorithm;
    let state = (0..algorithm.words()).map(|index| algorithm.read(index)).collect();
    Ok((recovered.recovery.loaded.map_or(0, |loaded| loaded.number), state))
}

/// What a run of a store did, as the oracle sees it.
#[derive(Default)]
pub(super) struct Oracle {
    /// The state at the point of each checkpoint that was begun; 0 is the start.
    pub(super) states: BTreeMap<u64, Vec<u64>>,
    /// After this many changes of the disk, this checkpoint was known to be durable.
    pub(super) acknowledged: Vec<(usize, u64)>,
}

impl Oracle {
    /// Starts from zeros.
    pub(super) fn new(words: usize) -> Self {
        Self { states: BTreeMap::from([(0, vec![0; words])]), acknowledged: vec![(0, 0)] }
    }

    pub(super) fn judge(&self, changes: usize, found: &Found) -> Result<u64, String> {
        let (number, state) = found.as_ref().map_err(String::clone)?;
        let number = *number;
        let acknowledged = self.acknowledged.iter().rev().find(|(at, _)| *at <= changes);
        let oldest = acknowledged.map_or(0, |&(_, number)| number);
        if number < oldest {
            return Err(format!("checkpoint {oldest} was acknowledged, {number} was recovered"));
        }
        match self.states.get(&number) {
            Some(expected) if expected == state => Ok(number),
            Some(_) => Err(format!("checkpoint {number} holds another state than at its point")),
            None => Err(format!("checkpoint {number} was never begun")),
        }
    }
}

/// Words that depend on place and round.
fn pattern(round: u64, words: usize) -> Vec<u64> {
    let round = round.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (1..=words as u64).map(|index| index.wrapping_mul(0xD1B5_4A32_D192_ED03) ^ round).collect()
}

// ---- every crash point of a small store

pub(super) fn crash_store(
    disk: &SimulatedDisk,
    oracle: &Oracle,
    words: usize,
) -> Result<u64, String> {
    let judge = |changes, found: &Found| oracle.judge(changes, found).map(drop);
    crash_everywhere(disk, |files| recovered(files, words), judge)
}

/// Four checkpoints of a small store, the last by a second process.
fn small_run(words: usize) -> (SimulatedDisk, Oracle) {
    let disk = SimulatedDisk::default();
    let mut oracle = Oracle::new(words);
    for rounds in [1..=3, 4..=4] {
        let mut store = open::<Naive>(&disk, words).expect("the disk is sound");
        for round in rounds {
            let state = pattern(round, words);
            store.write_run(0, &state);
            oracle.states.insert(round, state);
            assert_eq!(store.checkpoint_and_wait().expect("the disk is sound"), round);
            oracle.acknowledged.push((disk.changes(), round));
        }
    }
    (disk, oracle)
}

#[test]
fn a_small_store_survives_every_crash() {
    let _watchdog = stillframe_peers::Watchdog::start();
    for words in [0, 3, 150] {
        let (disk, oracle) = small_run(words);
        let points = crash_store(&disk, &oracle, words).expect("every crash is survived");
        println!("{words} words: {} changes, {points} crash points", disk.changes());
    }
}

#[test]
fn each_mistake_in_the_protocol_is_found() {
    let _watchdog = stillframe_peers::Watchdog::start();
    for mutant in [
        Mutant::FileNotSynced,
        Mutant::NamesNotSynced,
        Mutant::PublishBeforeFooter,
        Mutant::OldRemovedFirst,
    ] {
        must_find(mutant, || {
            let (disk, oracle) = small_run(3);
            crash_store(&disk, &oracle, 3)
        });
    }
}

// ---- random crash points of larger stores, life after life

/// One life of a store: checkpoints while the writer goes on, with a fault at a random call, if
/// any. Records in the oracle what happened, failures included.
fn live(disk: &SimulatedDisk, oracle: &mut Oracle, words: usize, random: &mut Random) {
    let faults = [Fault::IO, Fault::DISK_FULL, Fault::INTERRUPTED, Fault::ShortWrite];
    if random.below(3) == 0 {
        let fault = faults[random.below(4) as usize];
        disk.fail_at(1 + random.below(60), fault);
    }
    let Ok(mut store) = open::<Imprint>(disk, words) else {
        assert!(disk.has_failed(), "without a fault there is no error");
        return;
    };
    assert!(store.recovery().skipped.is_empty(), "what cannot be read is not taken for damage");
    for _ in 0..1 + random.below(4) {
        for _ in 0..random.below(200) {
            let index = random.below(words as u64) as usize;
            store.write(index, random.next());
        }
        let state = (0..words).map(|index| store.read(index)).collect();
        store.checkpoint();
        if let Some(number) = store.point() {
            oracle.states.insert(number, state);
        }
        for _ in 0..random.below(50) {
            let index = random.below(words as u64) as usize;
            store.write(index, random.next());
        }
        match store.wait() {
            Ok(Some(number)) => oracle.acknowledged.push((disk.changes(), number)),
            _ => assert!(disk.has_failed(), "without a fault there is no error"),
        }
    }
}

#[test]
fn larger_stores_survive_random_crashes_life_after_life() {
    let _watchdog = stillframe_peers::Watchdog::start();
    let seed = seed();
    let mut random = Random(seed);
    let mut points = 0;
    while points < enough() {
        let most = [10, 100, 100, 500, 500, 2_000, 2_000, 20_000][random.below(8) as usize];
        let words = 1 + random.below(most) as usize;
        let (mut files, mut oracle) = (Files::new(), Oracle::new(words));
        for life in 0..6 {
            let disk = SimulatedDisk::holding(&files).with_direct(random.below(2) == 1);
            live(&disk, &mut oracle, words, &mut random);
            let history = disk.history();
            let ends = random.below(history.len() as u64 + 1) as usize;
            let (mut platter, mut last) = (Platter::holding(&files), 0);
            for changes in 0..=history.len() {
                if changes > 0 {
                    platter.apply(&history[changes - 1]);
                }
                for _ in 0..2 {
                    let crashed = platter.lose_power(random.subset());
                    let judged = oracle.judge(changes, &recovered(&crashed, words));
                    points += 1;
                    let number = judged.unwrap_or_else(|wrong| {
                        panic!(
                            "seed {seed}, point {points}, life {life}, {changes} changes: {wrong}"
                        )
                    });
                    if changes == ends {
                        (files, last) = (crashed, number);
                    }
                }
            }
            oracle.acknowledged = vec![(0, last)];
        }
    }
    println!("{points} crash points");
}

// ---- every call fails once

/// What a store did on a disk where one call failed.
struct Lived {
    oracle: Oracle,
    errors: Vec<String>,
}

/// Opens a store and takes three checkpoints, trying each step again until it succeeds.
fn persist(disk: &SimulatedDisk, words: usize) -> Lived {
    let mut lived = Lived { oracle: Oracle::new(words), errors: Vec::new() };
    let mut store = loop {
        match open::<Naive>(disk, words) {
            Ok(store) => break store,
            Err(error) => lived.errors.push(error.to_string()),
        }
    };
    let mut number = 0;
    for _ in 0..3 {
        loop {
            number += 1;
            let state = pattern(number, words);
            store.write_run(0, &state);
            lived.oracle.states.insert(number, state);
            match store.checkpoint_and_wait() {
                Ok(made) => {
                    assert_eq!(made, number);
                    break lived.oracle.acknowledged.push((disk.changes(), number));
                }
                Err(error) => lived.errors.push(error.to_string()),
            }
        }
    }
    lived
}

/// Lets each call of a run fail, one per run, and crashes everywhere in each run. Returns runs and
/// crash points.
fn fail_every_call(fault: Fault, words: usize, direct: bool) -> Result<(u64, u64), String> {
    let mut points = 0;
    for call in 1.. {
        let disk = SimulatedDisk::default().with_direct(direct);
        disk.fail_at(call, fault);
        let Lived { oracle, errors } = persist(&disk, words);
        if !disk.has_failed() {
            return Ok((call - 1, points));
        }
        let is_harmless = matches!(fault, Fault::INTERRUPTED | Fault::ShortWrite);
        match &errors[..] {
            [] => {}
            [error] if error.contains("; ") => {} // says what to do
            errors => return Err(format!("call {call}: reported {errors:?}")),
        }
        if is_harmless && errors.iter().any(|error| !error.starts_with("syncing")) {
            return Err(format!("call {call}: reported {errors:?}"));
        }
        let crashed = crash_store(&disk, &oracle, words);
        points += crashed.map_err(|wrong| format!("{fault:?} at call {call}: {wrong}"))?;
    }
    unreachable!("a run has so many calls and no more");
}

#[test]
fn a_store_survives_the_failure_of_any_call() {
    let _watchdog = stillframe_peers::Watchdog::start();
    for fault in [Fault::IO, Fault::DISK_FULL, Fault::INTERRUPTED, Fault::ShortWrite] {
        for direct in [false, true] {
            let survived = fail_every_call(fault, 3, direct);
            let (runs, points) = survived.expect("every failure is survived");
            println!("{fault:?}: {runs} runs, {points} crash points");
        }
    }
}

#[test]
fn trust_in_a_file_that_failed_is_found() {
    let _watchdog = stillframe_peers::Watchdog::start();
    must_find(Mutant::FailedFileIsTrusted, || {
        fail_every_call(Fault::IO, 3, false).map(|(_, points)| points)
    });
}
