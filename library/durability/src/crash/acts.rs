//! Actions that succeed, fail or panic half-way, while checkpoints race them: the words are always
//! those after the actions that succeeded, live and after any crash.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;
use std::sync::Arc;

use stillframe::Algorithm;
use stillframe::algorithms::imprint::Imprint;
use stillframe::algorithms::naive::Naive;

use super::{Random, crash_at_random, crash_everywhere, enough, must_find, seed};
use crate::disk::{Fault, Files, SimulatedDisk};
use crate::error::Error;
use crate::log::options::LogOptions;
use crate::mutant::Mutant;
use crate::options::Options;
use crate::store::Store;
use crate::store::act::Act;
use crate::store::acts::ActStore;

const WORDS: usize = 12;
const WORDS_MAX: usize = 40;

/// How actions reach the disk.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Manner {
    /// By checkpoints alone.
    Plain,
    /// A record holds the words that changed.
    Words,
    /// A record holds the seed from which the action follows.
    Seeds,
}

const MANNERS: [Manner; 3] = [Manner::Plain, Manner::Words, Manner::Seeds];

/// How an action ends.
#[derive(Debug, Clone, Copy, PartialEq)]
enum End {
    Succeeds,
    Fails,
    Panics,
}

#[derive(Debug, thiserror::Error)]
enum Failed {
    #[error("the action wants to fail")]
    Asked,
    #[error(transparent)]
    Store(#[from] Error),
}

/// Writes that follow from a seed, the same words more than once; word 0 counts the actions.
fn run<A: Algorithm>(act: &mut Act<'_, A>, seed: u64) -> Result<(), Failed> {
    let mut random = Random(seed);
    for _ in 0..random.below(20) {
        let index = 1 + random.below(WORDS as u64 - 4) as usize;
        match random.below(7) {
            6 => act.write_many(&[(index, random.next()), (index + 2, 7), (index, 9)]),
            0 => act.update(index, |word| word.wrapping_mul(31) + 1),
            1 => act.write_run(index, &[random.next(), random.next(), 3]),
            2 => act.write_u32(2 * index + 1, random.next() as u32),
            3 => {
                let words = WORDS + random.below(8) as usize;
                act.grow(words).expect("memory");
                act.write(words - 1, random.next());
            }
            4 => {
                let mut run = [0; 3];
                act.read_run(index, &mut run);
                run.reverse();
                act.write_run(index, &run);
            }
            _ => act.write(index, random.next() | act.read(index)),
        }
    }
    act.update(0, |count| count + 1);
    Ok(())
}

/// An action that may fail or panic: half-way, or when all is written.
fn act<A: Algorithm>(
    store: &mut Store<A>,
    manner: Manner,
    seed: u64,
    end: End,
) -> Result<(), Failed> {
    let action = |act: &mut Act<'_, A>| {
        run(act, seed)?;
        match end {
            End::Succeeds => return Ok(()),
            End::Fails => return Err(Failed::Asked),
            End::Panics => {}
        }
        resume_unwind(Box::new("the action panics")) // past the hook, which would print it
    };
    let mut done = || match manner {
        Manner::Seeds => store.act_and_log(Some(&seed.to_le_bytes()), action),
        _ if seed.is_multiple_of(2) => {
            let mut begun = store.begin_act();
            action(&mut begun)?;
            Ok(begun.commit()?)
        }
        _ => store.act(action),
    };
    catch_unwind(AssertUnwindSafe(&mut done)).unwrap_or(Err(Failed::Asked))
}

fn state<A: Algorithm>(store: &Store<A>) -> Vec<u64> {
    let mut state = vec![0; WORDS_MAX];
    store.read_run(0, &mut state[..store.words()]);
    state
}

fn open<A: Algorithm>(disk: &SimulatedDisk, manner: Manner) -> Result<Store<A>, Error> {
    let memory = stillframe::Options::words(WORDS).max_words(WORDS_MAX);
    let options = Options::memory(memory).disk(Arc::new(disk.clone()));
    let options = options.log(LogOptions::default().segment_bytes(300));
    let path = Path::new("simulated");
    match manner {
        Manner::Plain => Store::open_with(path, options),
        Manner::Words => Store::open_logged(path, options, ActStore::refuse),
        Manner::Seeds => Store::open_logged(path, options, |act, action| {
            Ok(run(act, u64::from_le_bytes(action.bytes.try_into()?))?)
        }),
    }
}

/// What a run did.
#[derive(Default)]
struct Oracle {
    /// The state after each number of actions that succeeded.
    states: Vec<Vec<u64>>,
    /// After this many changes of the disk, so many actions were known to survive.
    acknowledged: Vec<(usize, u64)>,
}

impl Oracle {
    fn new() -> Self {
        Self { states: vec![vec![0; WORDS_MAX]], acknowledged: Vec::new() }
    }

    /// One action, and what must be true of the words after it.
    fn act<A: Algorithm>(
        &mut self,
        store: &mut Store<A>,
        manner: Manner,
        seed: u64,
        end: End,
    ) -> Result<(), String> {
        let before = state(store);
        let count = before[0];
        match act(store, manner, seed, end) {
            Ok(()) => {
                self.states.truncate(count as usize + 1);
                self.states.push(state(store));
            }
            Err(_) if state(store) == before => {}
            Err(failed) => return Err(format!("{failed}: {:?}, not {before:?}", state(store))),
        }
        let is_counted = store.read(0) == count + u64::from(end == End::Succeeds);
        if end != End::Succeeds && !is_counted { Err("it counts".into()) } else { Ok(()) }
    }

    fn judge(&self, changes: usize, found: &Result<Vec<u64>, String>) -> Result<u64, String> {
        let found = found.as_ref().map_err(String::clone)?;
        let known = self.acknowledged.iter().filter(|(at, _)| *at <= changes);
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

fn recovered(files: &Files, manner: Manner) -> Result<Vec<u64>, String> {
    let store = open::<Naive>(&SimulatedDisk::holding(files), manner);
    store.map(|store| state(&store)).map_err(|error| error.to_string())
}

/// Actions, some of which fail, with checkpoints at their points; then every crash.
fn crash_small(manner: Manner, from: u64) -> Result<u64, String> {
    let (disk, mut oracle) = (SimulatedDisk::default(), Oracle::new());
    let wrong = |error: Error| error.to_string();
    for life in 0..2 {
        let mut store = open::<Naive>(&disk, manner).map_err(wrong)?;
        for round in 0..3 {
            let seed = (from + 100 * life + 10 * round) | 1;
            oracle.act(&mut store, manner, seed, End::Succeeds)?;
            oracle.act(&mut store, manner, seed + 2, End::Panics)?;
            store.checkpoint(); // begins at the point after the next action that succeeds
            oracle.act(&mut store, manner, seed + 4, End::Fails)?;
            oracle.act(&mut store, manner, seed + 6, End::Succeeds)?;
            store.wait().map_err(wrong)?;
            if manner != Manner::Plain {
                store.wait_durable(store.logged()).map_err(wrong)?;
            }
            oracle.acknowledged.push((disk.changes(), store.read(0)));
        }
    }
    let judge = |changes, found: &_| oracle.judge(changes, found).map(drop);
    crash_everywhere(&disk, |files| recovered(files, manner), judge)
}

#[test]
fn actions_are_whole_after_every_crash() {
    let _watchdog = stillframe_peers::Watchdog::start();
    for manner in MANNERS {
        let points = crash_small(manner, 1).expect("every crash is survived");
        println!("{manner:?}: {points} crash points");
    }
}

#[test]
fn each_mistake_with_actions_is_found() {
    let _watchdog = stillframe_peers::Watchdog::start();
    for mutant in [
        Mutant::UndoneForward,
        Mutant::PanicKeepsWrites,
        Mutant::ActPointsEarly,
        Mutant::NotesFirstOfRun,
    ] {
        must_find(mutant, || (0..9).try_fold(0, |all, n| Ok(all + crash_small(Manner::Seeds, n)?)));
    }
    let by_words = || (0..9).try_fold(0, |all, n| Ok(all + crash_small(Manner::Words, n)?));
    must_find(Mutant::RecordEndsEarly, by_words);
}

/// One life of a store, with a fault at a random call, if any.
fn live(
    disk: &SimulatedDisk,
    oracle: &mut Oracle,
    manner: Manner,
    random: &mut Random,
) -> Result<(), String> {
    if random.below(3) == 0 {
        let faults = [Fault::IO, Fault::DISK_FULL, Fault::INTERRUPTED, Fault::ShortWrite];
        disk.fail_at(1 + random.below(120), faults[random.below(4) as usize]);
    }
    let mut store = match open::<Imprint>(disk, manner) {
        Ok(store) => store,
        Err(error) if disk.has_failed() => return Err(error.to_string()),
        Err(error) => panic!("{error}"),
    };
    for _ in 0..random.below(40) {
        let end = [End::Succeeds, End::Succeeds, End::Fails, End::Panics][random.below(4) as usize];
        if random.below(4) == 0 {
            store.checkpoint();
        }
        oracle.act(&mut store, manner, random.next() | 1, end).expect("whole or not at all");
        if random.below(6) > 0 {
            continue;
        }
        let is_durable = match manner {
            Manner::Plain => store.checkpoint_and_wait().is_ok(),
            _ => store.wait_durable(store.logged()).is_ok(),
        };
        if is_durable {
            oracle.acknowledged.push((disk.changes(), store.read(0)));
        }
    }
    Ok(())
}

#[test]
fn actions_are_whole_after_random_crashes_life_after_life() {
    let _watchdog = stillframe_peers::Watchdog::start();
    let seed = seed();
    let mut random = Random(seed);
    let mut points = 0;
    while points < enough() / 2 {
        let manner = MANNERS[random.below(3) as usize];
        let (mut files, mut oracle) = (Files::new(), Oracle::new());
        for life in 0..4 {
            let disk = SimulatedDisk::holding(&files);
            let lived = live(&disk, &mut oracle, manner, &mut random);
            assert!(lived.is_ok() || disk.has_failed(), "seed {seed}: {lived:?}");
            let judge = |changes, files: &Files| oracle.judge(changes, &recovered(files, manner));
            let crashed = crash_at_random(&disk, &files, &mut random, 2, judge);
            points += disk.changes() as u64 / 2 + 1;
            let (left, last) = crashed.unwrap_or_else(|wrong| {
                panic!("seed {seed}, point {points}, life {life}, {manner:?}: {wrong}")
            });
            files = left;
            oracle.states.truncate(last as usize + 1);
            oracle.acknowledged = vec![(0, last)];
        }
    }
    println!("{points} crash points");
}

/// Actions that only grow the state, some after one that grew it and failed; then every crash.
fn crash_growth() -> Result<u64, String> {
    let (disk, mut lengths) = (SimulatedDisk::default(), Vec::new());
    let mut store = open::<Naive>(&disk, Manner::Words).map_err(|error| error.to_string())?;
    for words in WORDS + 1..WORDS + 5 {
        let failed = store.act(|act| act.grow(words).map_err(Error::Memory).and(Err(Error::NoLog)));
        let grown = store.act(|act| act.grow(words + words % 2).map_err(Error::Memory));
        let Err::<(), _>(Error::NoLog) = failed else { return Err("it succeeded".into()) };
        grown.and_then(|()| store.wait_durable(store.logged())).map_err(|it| it.to_string())?;
        lengths.push((disk.changes(), store.words()));
    }
    let found = |files: &Files| {
        let store = open::<Naive>(&SimulatedDisk::holding(files), Manner::Words);
        store.map(|store| store.words()).map_err(|error| error.to_string())
    };
    crash_everywhere(&disk, found, |changes, found: &Result<usize, String>| {
        let known = lengths.iter().filter(|(at, _)| *at <= changes);
        let least = known.map(|&(_, words)| words).max().unwrap_or(WORDS);
        let found = found.clone()?;
        if found < least { Err(format!("{found} words, {least} were durable")) } else { Ok(()) }
    })
}

#[test]
fn growth_alone_survives_every_crash() {
    println!("{} crash points", crash_growth().expect("every crash is survived"));
    must_find(Mutant::GrowthNotLogged, crash_growth);
}

#[test]
fn a_record_of_something_else_is_not_redone() {
    let disk = SimulatedDisk::default();
    let mut store = open::<Naive>(&disk, Manner::Seeds).expect("a sound disk");
    act(&mut store, Manner::Seeds, 5, End::Succeeds).expect("it succeeds");
    store.close().expect("a sound disk");
    let error = open::<Naive>(&disk, Manner::Words).expect_err("seeds are no words").to_string();
    assert!(error.contains("record 1 of the log could not be applied: it is no record"), "{error}");
    open::<Naive>(&disk, Manner::Seeds).expect("nothing was lost");
}
