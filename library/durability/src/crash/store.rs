//! A store with a log: what is recovered must be
//! - the state after some prefix of the actions, each applied once,
//! - with every action that was acknowledged, by the log or by a checkpoint,
//! - without any damage on the way.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use stillframe::Algorithm;
use stillframe::algorithms::imprint::Imprint;
use stillframe::algorithms::naive::Naive;

use super::{Random, crash_at_random, crash_everywhere, enough, must_find, seed};
use crate::disk::{Fault, Files, SimulatedDisk};
use crate::error::Error;
use crate::log::options::{LogOptions, Policy};
use crate::mutant::Mutant;
use crate::options::Options;
use crate::store::Store;
use crate::store::act::Act;

const WORDS: usize = 5;

/// Word 0 counts the actions; each changes another word in a way that depends on all before.
fn apply<A: Algorithm>(store: &mut Act<'_, A>, action: &[u8]) {
    let value = action.iter().fold(7, |sum: u64, &byte| sum.wrapping_mul(31) + u64::from(byte));
    let index = 1 + value as usize % (WORDS - 1);
    store.write(index, store.read(index).wrapping_mul(31).wrapping_add(value));
    store.write(0, store.read(0) + 1);
}

fn state<A: Algorithm>(store: &Store<A>) -> Vec<u64> {
    (0..store.words()).map(|index| store.read(index)).collect()
}

fn open<A: Algorithm>(disk: &SimulatedDisk, log: LogOptions) -> Result<Store<A>, Error> {
    let options = Options::words(WORDS).disk(Arc::new(disk.clone())).log(log);
    Store::open_logged(Path::new("simulated"), options, |store, action| {
        apply(store, action.bytes);
        Ok(())
    })
}

/// The state that `files` yield; or what is wrong.
fn recovered(files: &Files) -> Result<Vec<u64>, String> {
    let store = open::<Naive>(&SimulatedDisk::holding(files), LogOptions::default());
    let store = store.map_err(|error| error.to_string())?;
    match store.recovery().skipped.first() {
        Some(skipped) => Err(format!("a crash left damage: {skipped}")),
        None => Ok(state(&store)),
    }
}

/// After this many changes of the disk, all actions up to a number were known to survive.
type Acknowledged = Arc<Mutex<Vec<(usize, u64)>>>;

/// What a run did, as the oracle sees it.
struct Oracle {
    /// The state after each number of actions.
    states: Vec<Vec<u64>>,
    acknowledged: Acknowledged,
}

impl Oracle {
    fn new() -> Self {
        Self { states: vec![vec![0; WORDS]], acknowledged: Arc::default() }
    }

    /// Writes down what is acknowledged, on the thread that does it.
    fn listen(&self, disk: &SimulatedDisk, log: LogOptions) -> LogOptions {
        let (disk, acknowledged) = (disk.clone(), Arc::clone(&self.acknowledged));
        log.on_durable(move |durable| {
            if let Ok(durable) = durable {
                acknowledged.lock().expect("whole").push((disk.changes(), durable));
            }
        })
    }

    fn acknowledge(&self, disk: &SimulatedDisk, number: u64) {
        self.acknowledged.lock().expect("whole").push((disk.changes(), number));
    }

    fn log<A: Algorithm>(&mut self, store: &mut Store<A>, action: &[u8]) -> Result<u64, Error> {
        let sequence = store.log(action)?;
        apply(&mut store.logged_act(), action);
        self.states.truncate(sequence as usize); // what was lost is replaced
        self.states.push(state(store));
        Ok(sequence)
    }

    fn judge(&self, changes: usize, found: &Result<Vec<u64>, String>) -> Result<u64, String> {
        let found = found.as_ref().map_err(String::clone)?;
        let acknowledged = self.acknowledged.lock().expect("whole");
        let known = acknowledged.iter().filter(|(at, _)| *at <= changes);
        let least = known.map(|&(_, number)| number).max().unwrap_or(0);
        match self.states.get(found[0] as usize) {
            Some(state) if state == found && found[0] >= least => Ok(found[0]),
            Some(state) if state == found => {
                Err(format!("action {least} was acknowledged, {} were recovered", found[0]))
            }
            _ => Err(format!("{found:?} is not the state after {} actions", found[0])),
        }
    }
}

// ---- every crash point of a small store

/// Two processes: actions one by one and in pairs, checkpoints, ends of segments, and at the end
/// segments and checkpoints that are removed.
fn small_run(disk: &SimulatedDisk, oracle: &mut Oracle, policy: Policy) -> Result<(), Error> {
    for life in 0..2 {
        let log = oracle.listen(disk, LogOptions::policy(policy).segment_bytes(200));
        let mut store = open::<Naive>(disk, log)?;
        for round in 0..2 {
            let number = oracle.log(&mut store, &[life, round])?;
            store.wait_durable(number)?;
            oracle.log(&mut store, &[life, round, 1])?;
            let number = oracle.log(&mut store, &[life, round, 2, 3])?;
            if policy == Policy::Always {
                store.wait_durable(number)?;
            }
            store.checkpoint_and_wait()?;
            oracle.acknowledge(disk, number);
        }
        let number = oracle.log(&mut store, &[life])?;
        store.wait_durable(number)?;
    }
    Ok(())
}

fn crash_small(policy: Policy) -> Result<u64, String> {
    let (disk, mut oracle) = (SimulatedDisk::default(), Oracle::new());
    let run = small_run(&disk, &mut oracle, policy);
    run.map_err(|error| error.to_string())?;
    crash_everywhere(&disk, recovered, |changes, found| oracle.judge(changes, found).map(drop))
}

#[test]
fn a_small_store_with_a_log_survives_every_crash() {
    let _watchdog = stillframe_peers::Watchdog::start();
    for policy in [Policy::Always, Policy::No] {
        let points = crash_small(policy).expect("every crash is survived");
        println!("{policy:?}: {points} crash points");
    }
}

#[test]
fn each_mistake_with_the_log_is_found() {
    let _watchdog = stillframe_peers::Watchdog::start();
    for mutant in [
        Mutant::LogAcknowledgedEarly,
        Mutant::LogTruncatedFirst,
        Mutant::ReplayedTwice,
        Mutant::PositionSkipped,
        Mutant::CheckpointOvertakesLog,
        Mutant::LogStartNotSynced,
        Mutant::LogNamesNotSynced,
    ] {
        // Where a segment ends depends on when the logger runs, and LogTruncatedFirst does harm
        // only if one ended before a checkpoint. So there are some runs for it.
        must_find(mutant, || (0..50).try_fold(0, |all, _| Ok(all + crash_small(Policy::No)?)));
    }
}

// ---- faults and random crash points, life after life

const FAULTS: [Fault; 4] = [Fault::IO, Fault::DISK_FULL, Fault::INTERRUPTED, Fault::ShortWrite];

#[test]
fn a_store_with_a_log_survives_the_failure_of_any_call() {
    let _watchdog = stillframe_peers::Watchdog::start();
    let seed = seed();
    let mut random = Random(seed);
    for fault in FAULTS {
        for call in 1.. {
            let (disk, mut oracle) = (SimulatedDisk::default(), Oracle::new());
            disk.fail_at(call, fault);
            let run = small_run(&disk, &mut oracle, Policy::Always);
            if !disk.has_failed() {
                run.expect("without a fault there is no error");
                println!("{fault:?}: {} calls", call - 1);
                break;
            }
            let is_harmless = matches!(fault, Fault::INTERRUPTED | Fault::ShortWrite);
            if let Err(error) = run {
                let error = error.to_string();
                assert!(!is_harmless || error.contains("syncing"), "{fault:?} {call}: {error}");
            }
            let judge = |changes, files: &Files| oracle.judge(changes, &recovered(files));
            let survived = crash_at_random(&disk, &Files::new(), &mut random, 8, judge);
            survived.unwrap_or_else(|wrong| panic!("seed {seed}, {fault:?} at {call}: {wrong}"));
        }
    }
}

/// One life of a store, with a fault at a random call, if any.
fn live(disk: &SimulatedDisk, oracle: &mut Oracle, random: &mut Random) -> Result<(), Error> {
    if random.below(3) == 0 {
        disk.fail_at(1 + random.below(120), FAULTS[random.below(4) as usize]);
    }
    let policy = [Policy::Always, Policy::EverySecond, Policy::No][random.below(3) as usize];
    let log = LogOptions::policy(policy)
        .segment_bytes(1 << random.below(14))
        .waiting_bytes_max(1 << random.below(10))
        .batch(1 + random.below(5) as usize, Duration::from_micros(random.below(50)));
    let mut store = open::<Imprint>(disk, oracle.listen(disk, log))?;
    for _ in 0..random.below(8) {
        for _ in 0..random.below(6) {
            let longest = [5, 50, 700][random.below(3) as usize];
            let length = random.below(longest) as usize;
            let byte = random.next() as u8;
            oracle.log(&mut store, &vec![byte; length])?;
        }
        let last = store.read(0);
        match random.below(4) {
            0 => store.wait_durable(last)?,
            1 => {
                store.checkpoint();
                store.point();
                continue;
            }
            2 => {
                store.checkpoint_and_wait()?;
            }
            _ => continue,
        }
        oracle.acknowledge(disk, last);
    }
    Ok(())
}

#[test]
fn stores_with_a_log_survive_random_crashes_life_after_life() {
    let _watchdog = stillframe_peers::Watchdog::start();
    let seed = seed();
    let mut random = Random(seed);
    let mut points = 0;
    while points < enough() / 2 {
        let (mut files, mut oracle) = (Files::new(), Oracle::new());
        for life in 0..6 {
            let disk = SimulatedDisk::holding(&files).with_direct(random.below(2) == 1);
            let lived = live(&disk, &mut oracle, &mut random);
            assert!(lived.is_ok() || disk.has_failed(), "seed {seed}: {lived:?}");
            let judge = |changes, files: &Files| oracle.judge(changes, &recovered(files));
            let crashed = crash_at_random(&disk, &files, &mut random, 1, judge);
            points += disk.changes() as u64 + 1;
            let (left, last) = crashed.unwrap_or_else(|wrong| {
                panic!("seed {seed}, point {points}, life {life}: {wrong}")
            });
            files = left;
            oracle.states.truncate(last as usize + 1);
            oracle.acknowledged = Arc::new(Mutex::new(vec![(0, last)]));
        }
    }
    println!("{points} crash points");
}
