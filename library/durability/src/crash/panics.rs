//! Panics of what is the caller's: of a disk at each of its calls, of each callback each time. What
//! was acknowledged is there, checkpoints go on, and reports and counts are true.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use stillframe::Algorithm;
use stillframe::algorithms::hourglass::Hourglass;
use stillframe::algorithms::imprint::Imprint;
use stillframe::algorithms::naive::Naive;

use super::checkpoints::{Oracle, recovered};
use super::must_find;
use crate::chain::Increments;
use crate::disk::{Fault, SimulatedDisk};
use crate::error::Error;
use crate::log::options::LogOptions;
use crate::mutant::Mutant;
use crate::options::Options;
use crate::store::Store;
use crate::store::act::Act;
use crate::store::action::Action;
use crate::store::acts::ActStore;
use crate::until::Until;

const WORDS: usize = 1100;
const ROUNDS: u64 = 5;

/// A callback that panics at one of its calls, past the hook.
#[derive(Clone, Default)]
struct Callback {
    panics_at: u64,
    calls: Arc<AtomicU64>,
    told: Arc<Mutex<Vec<Option<u64>>>>,
}

impl Callback {
    fn new(panics_at: u64) -> Self {
        Self { panics_at, ..Self::default() }
    }

    fn call(&self, told: Option<u64>) {
        self.told.lock().expect("nobody panics here").push(told);
        if self.calls.fetch_add(1, Ordering::Relaxed) + 1 == self.panics_at {
            resume_unwind(Box::new("a callback that panics"));
        }
    }
}

fn options(disk: &SimulatedDisk) -> Options {
    Options::words(WORDS).disk(Arc::new(disk.clone())).increments(Increments::at_most(2))
}

fn open<A: Algorithm>(options: Options) -> Result<Store<A>, Error> {
    Store::open_with(Path::new("simulated"), options)
}

fn state<A: Algorithm>(store: &Store<A>) -> Vec<u64> {
    (0..store.words()).map(|index| store.read(index)).collect()
}

fn touch<A: Algorithm>(store: &mut Store<A>, round: u64) {
    for step in 0..3 {
        store.write((round * 5 + step * 367) as usize % WORDS, round << 8 | step);
    }
}

/// Checkpoints, the callback of one of which panics: each is durable, told of and counted.
fn checkpoints_are_told<A: Algorithm>() -> Result<u64, String> {
    for panics_at in 1..=ROUNDS {
        let (disk, callback) = (SimulatedDisk::default(), Callback::new(panics_at));
        let theirs = callback.clone();
        let options = options(&disk).on_checkpoint(move |ended| theirs.call(ended.ok()));
        let mut store = open::<A>(options).expect("a sound disk");
        for round in 1..=ROUNDS {
            touch(&mut store, round);
            let what = format!("{}, call {panics_at}, checkpoint {round}", A::INFO.name);
            let ended = catch_unwind(AssertUnwindSafe(|| match round % 2 {
                0 => store.checkpoint_and_wait().map(Some),
                _ => {
                    store.checkpoint();
                    store.point();
                    store.wait()
                }
            }));
            match ended {
                Ok(Ok(Some(number))) if number == round => {}
                Ok(ended) => return Err(format!("{what}: {ended:?}")),
                Err(_) => return Err(format!("{what}: a panic")),
            }
        }
        let (stats, expected) = (store.stats(), state(&store));
        assert!(stats.running.is_none());
        assert_eq!((stats.checkpoints, stats.failures, stats.newest), (ROUNDS, 0, Some(ROUNDS)));
        let told: Vec<_> = callback.told.lock().expect("nobody panics here").clone();
        assert_eq!(told, (1..=ROUNDS).map(Some).collect::<Vec<_>>());
        drop(store);
        let found = recovered(&disk.platter().lose_power(|_| false), WORDS);
        assert_eq!(found, Ok((ROUNDS, expected)), "after call {panics_at}");
    }
    Ok(ROUNDS)
}

#[test]
fn a_callback_that_panics_changes_no_checkpoint() {
    let _watchdog = stillframe_peers::Watchdog::start();
    checkpoints_are_told::<Imprint>().expect("each is told");
    checkpoints_are_told::<Naive>().expect("each is told");
    checkpoints_are_told::<Hourglass>().expect("each is told");
}

/// A writer that waits for no checkpoint is not held up by what hears of it.
#[test]
fn a_checkpoint_that_nobody_waits_for_is_told_by_a_thread_of_the_store() {
    let _watchdog = stillframe_peers::Watchdog::start();
    let (tell, told) = std::sync::mpsc::channel();
    let options = options(&SimulatedDisk::default()).on_checkpoint(move |ended| {
        tell.send((ended.ok(), std::thread::current().id())).expect("the test listens");
    });
    let mut store = open::<Imprint>(options).expect("a sound disk");
    for round in 1..=ROUNDS {
        touch(&mut store, round);
        store.checkpoint();
        // The thread tells before it is free: the next image begins at a later point.
        let (number, thread) = loop {
            store.point();
            match told.try_recv() {
                Ok(told) => break told,
                Err(_) => std::thread::yield_now(),
            }
        };
        assert_eq!(number, Some(round));
        assert_ne!(thread, std::thread::current().id(), "checkpoint {round}");
    }
}

#[test]
fn a_mistake_with_panics_is_found() {
    let _watchdog = stillframe_peers::Watchdog::start();
    must_find(Mutant::PanicsGoOn, checkpoints_are_told::<Imprint>);
    must_find(Mutant::PanicsGoOn, checkpoints_are_told::<Hourglass>);
}

/// The log goes on, and what waits for it is told.
#[test]
fn a_callback_of_the_log_that_panics_changes_no_record() {
    let _watchdog = stillframe_peers::Watchdog::start();
    for panics_at in 1..=ROUNDS {
        let (disk, callback) = (SimulatedDisk::default(), Callback::new(panics_at));
        let theirs = callback.clone();
        let log = LogOptions::default().on_durable(move |last| theirs.call(last.ok()));
        let open = |log| {
            let options = Options::words(WORDS).disk(Arc::new(disk.clone())).log(log);
            ActStore::<Imprint>::open("simulated", options).expect("a sound disk")
        };
        let mut store = open(log);
        for round in 1..=ROUNDS {
            store
                .act(|words| {
                    words.write(round as usize, round);
                    Ok::<_, Error>(())
                })
                .expect("the log takes it");
            store.wait_durable(round).expect("the log goes on");
        }
        let expected = state(&store);
        assert_eq!(store.stats().log.and_then(|log| log.failed), None);
        drop(store);
        assert_eq!(callback.told.lock().expect("nobody panics here").last(), Some(&Some(ROUNDS)));
        assert_eq!(state(&open(LogOptions::default())), expected);
    }
}

/// Opens, rewinds and converts a store by functions that panic at their `call`th call; what
/// panicked is tried again. Returns whether one did.
fn starts_again(call: u64) -> bool {
    let (data, callback) = (tempfile::tempdir().expect("a directory"), Callback::new(call));
    let [old, past, new] = ["old", "past", "new"].map(|name| data.path().join(name));
    let options = |layout| Options::words(WORDS).application("test", layout);
    let apply = |act: &mut Act<'_>, action: &Action<'_>| {
        act.write(action.bytes[0].into(), action.sequence);
        callback.call(None);
        Ok(())
    };
    let open = || ActStore::open_records(&old, options(1), apply).expect("a sound disk");
    let mut store = open();
    for round in 1..=ROUNDS as u8 {
        let mut act = store.log(&[round]).expect("the log takes it");
        act.write(round.into(), round.into());
        act.commit().expect("it is in the log");
    }
    let mut expected = state(&store);
    store.close().expect("a sound disk");
    let mut has_panicked = false;
    let mut again = |body: &dyn Fn() -> Vec<u64>| {
        catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|_| {
            has_panicked = true;
            body()
        })
    };
    assert_eq!(again(&|| state(&open())), expected, "opened, call {call}");
    let converted = again(&|| {
        let change = |old: &mut Store, new: &mut Store| {
            (0..WORDS).for_each(|index| new.write(WORDS - 1 - index, old.read(index)));
            callback.call(None);
            Ok(())
        };
        Store::convert(&old, options(1), apply, &new, options(2), change).expect("a sound disk");
        let new: Store = Store::open(&new, options(2)).expect("a sound disk");
        (0..WORDS).rev().map(|index| new.read(index)).collect()
    });
    assert_eq!(converted, expected, "converted, call {call}");
    let rewound = again(&|| {
        let until = Until::Sequence(ROUNDS - 1);
        let store = ActStore::rewind_records(&old, until, &past, options(1), apply);
        state(&store.expect("a sound disk"))
    });
    expected[ROUNDS as usize] = 0;
    assert_eq!(rewound, expected, "rewound, call {call}");
    has_panicked
}

#[test]
fn a_function_of_a_start_that_panics_at_any_call_loses_nothing() {
    let _watchdog = stillframe_peers::Watchdog::start();
    let calls = (1..).take_while(|&call| starts_again(call)).count() as u64;
    assert_eq!(calls, ROUNDS + (ROUNDS + 1) + (ROUNDS - 1));
}

/// The schedule goes on.
#[test]
fn a_callback_of_the_schedule_that_panics_stops_nothing() {
    let _watchdog = stillframe_peers::Watchdog::start();
    let (disk, callback) = (SimulatedDisk::default(), Callback::new(1));
    let theirs = callback.clone();
    let options = options(&disk).every(std::time::Duration::from_millis(1));
    let options = options.on_overdue(move |count| theirs.call(Some(count)));
    let mut store = open::<Imprint>(options).expect("a sound disk");
    while callback.calls.load(Ordering::Relaxed) < 3 {
        std::thread::yield_now(); // no point comes, so it is overdue
    }
    while store.point().is_none() {
        std::thread::yield_now();
    }
    store.wait().expect("a sound disk");
}

/// A life of a store on a disk whose call `call` panics. Returns whether it did.
fn live<A: Algorithm>(call: u64) -> bool {
    let disk = SimulatedDisk::default();
    disk.fail_at(call, Fault::Panic);
    let mut oracle = Oracle::new(WORDS);
    let opened = catch_unwind(|| open::<A>(options(&disk)));
    // A directory that was opened in part is opened again.
    let opened = opened.unwrap_or_else(|_| open::<A>(options(&disk)));
    let mut store = opened.expect("the disk panics once");
    let mut failed = 0;
    for round in 1..=ROUNDS {
        touch(&mut store, round);
        oracle.states.insert(store.next_number(), state(&store));
        match catch_unwind(AssertUnwindSafe(|| store.checkpoint_and_wait())) {
            Ok(Ok(number)) => oracle.acknowledged.push((disk.changes(), number)),
            Ok(Err(_)) | Err(_) => failed += 1,
        }
        store.wait_merged();
    }
    let what = format!("{}, call {call}", A::INFO.name);
    assert!(failed <= 2, "{what}: {failed} of {ROUNDS} checkpoints failed");
    let stats = store.stats();
    assert!(stats.running.is_none(), "{what}: {stats:?}");
    assert_eq!(stats.checkpoints + failed, ROUNDS, "{what}: {stats:?}");
    // Dropping it may be what panics.
    let _ = catch_unwind(AssertUnwindSafe(|| drop(store)));
    let found = recovered(&disk.platter().lose_power(|_| false), WORDS);
    oracle.judge(disk.changes(), &found).unwrap_or_else(|wrong| panic!("{what}: {wrong}"));
    disk.has_failed()
}

#[test]
fn a_disk_that_panics_at_any_call_costs_no_more_than_that_call() {
    let _watchdog = stillframe_peers::Watchdog::start();
    for live in [live::<Imprint>, live::<Naive>, live::<Hourglass>] {
        let calls = (1..).take_while(|&call| live(call)).count();
        println!("{calls} calls");
    }
}
