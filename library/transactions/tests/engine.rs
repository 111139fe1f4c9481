//! What a user of the engine counts on, for each algorithm.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use stillframe_transactions::algorithms::{ALL, Visitor, with};
use stillframe_transactions::{
    Completeness, Concurrent, CreateError, Deadlock, Engine, ImageError,
};
use stillframe_transactions::{Imprint, Mutant, Records, Settings, Stop, with_mutant};

/// An image, full or laid over the ones before.
#[derive(Default)]
struct Copy(BTreeMap<usize, Vec<u64>>);

impl Records for Copy {
    type Error = std::convert::Infallible;
    fn record(&mut self, record: usize, words: Option<&[u64]>) -> Result<(), Self::Error> {
        match words {
            Some(words) => drop(self.0.insert(record, words.to_vec())),
            None => drop(self.0.remove(&record)),
        }
        Ok(())
    }
}

fn engine<A: Concurrent>(settings: Settings) -> Engine<A> {
    Engine::create(settings).expect("it is small")
}

/// Runs a generic function for every algorithm that takes images.
macro_rules! for_all {
    ($body:ident) => {{
        struct Each;
        impl Visitor for Each {
            type Output = ();
            fn visit<A: Concurrent>(self) {
                $body::<A>();
            }
        }
        for info in ALL.iter().filter(|info| info.image != Completeness::Nothing) {
            with(info.name, Each).expect("it is in the registry");
        }
    }};
}

#[test]
fn records_appear_change_and_go() {
    fn body<A: Concurrent>() {
        let engine = engine::<A>(Settings::new(4, 2));
        let mut copy = Copy::default();
        let mut capture = |engine: &Engine<A>| {
            if A::INFO.image == Completeness::Full {
                copy.0.clear();
            }
            let Ok(()) = engine.begin().expect("none is under way").capture(&mut copy) else {
                panic!("the sink takes all");
            };
            copy.0.clone()
        };
        assert!(capture(&engine).is_empty());
        let done = engine.run(|tx| {
            assert!(!tx.present(1)? && tx.read(1, 1)? == 0);
            assert!(tx.insert(1, &[5, 6])? && !tx.insert(1, &[7, 8])?);
            tx.write(3, 1, 9)?;
            assert!(tx.read(3, 0)? == 0 && tx.present(3)?, "a write makes a record present");
            Ok::<_, Stop<()>>(tx.read(1, 1)?)
        });
        assert_eq!(done, Ok(6));
        assert_eq!(capture(&engine), BTreeMap::from([(1, vec![5, 6]), (3, vec![0, 9])]));
        assert_eq!(capture(&engine), BTreeMap::from([(1, vec![5, 6]), (3, vec![0, 9])]));
        let done = engine.run(|tx| {
            assert!(tx.delete(3)? && !tx.delete(3)? && !tx.present(3)?);
            tx.update(1, 0, |word| word + 1)?;
            Ok::<_, Stop<()>>(())
        });
        assert_eq!(done, Ok(()));
        assert_eq!(capture(&engine), BTreeMap::from([(1, vec![6, 6])]));
    }
    for_all!(body);
}

#[test]
fn what_is_aborted_or_panics_has_not_happened() {
    fn body<A: Concurrent>() {
        let engine = engine::<A>(Settings::new(2, 1).workers(1));
        let mut worker = engine.worker().expect("it is free");
        let aborted = worker.run(|tx| {
            tx.write(0, 0, 1)?;
            Err::<(), _>(Stop::Abort("no"))
        });
        assert_eq!(aborted, Err("no"));
        for panics in [0, 2] {
            let ended = catch_unwind(AssertUnwindSafe(|| {
                worker.run(|tx| {
                    tx.write(1, 0, 1)?;
                    assert!(tx.read(panics, 0)? > 7, "on purpose"); // record 2 is out of bounds
                    Ok::<_, Stop<()>>(())
                })
            }));
            assert!(ended.is_err());
        }
        // The locks are free and nothing is written.
        let seen = worker.run(|tx| Ok::<_, Stop<()>>((tx.present(0)?, tx.read(1, 0)?)));
        assert_eq!(seen, Ok((false, 0)));
        drop(worker);
        engine.run(|tx| Ok::<_, Stop<()>>(tx.write(0, 0, 1)?)).expect("the worker is free again");
    }
    for_all!(body);
}

/// `begin` waits for no open transaction, and an image lacks what it commits later.
#[test]
fn a_transaction_stays_open_across_three_images() {
    fn body<A: Concurrent>() {
        let engine = engine::<A>(Settings::new(3, 1).workers(2));
        let (opened, wait_open) = mpsc::channel();
        let (go_on, wait) = mpsc::channel::<()>();
        std::thread::scope(|scope| {
            let engine = &engine;
            let long = scope.spawn(move || {
                engine.run(|tx| {
                    tx.write(0, 0, 1)?;
                    opened.send(()).expect("the test waits");
                    wait.recv().expect("the test goes on");
                    tx.write(1, 0, 1)?;
                    Ok::<_, Stop<()>>(())
                })
            });
            wait_open.recv().expect("it opens");
            let mut copy = Copy::default();
            for image in 1..=3 {
                let add = engine.run(|tx| Ok::<_, Stop<()>>(tx.update(2, 0, |word| word + 1)?));
                add.expect("it does not abort");
                let begun = engine.begin().expect("none is under way");
                let Ok(()) = begun.capture(&mut copy) else { panic!("the sink takes all") };
                assert_eq!(copy.0, BTreeMap::from([(2, vec![image])]));
            }
            go_on.send(()).expect("it waits");
            long.join().expect("it ends").expect("it commits");
            let Ok(()) = engine.begin().expect("none is under way").capture(&mut copy) else {
                panic!("the sink takes all");
            };
            assert_eq!(copy.0, BTreeMap::from([(0, vec![1]), (1, vec![1]), (2, vec![3])]));
        });
    }
    for_all!(body);
}

/// Every transaction locks all records, half of them in the other order.
#[test]
fn storms_of_deadlocks_make_progress() {
    for deadlock in [Deadlock::NoWait, Deadlock::WaitDie] {
        let engine = engine::<Imprint>(Settings::new(8, 1).workers(4).deadlock(deadlock));
        std::thread::scope(|scope| {
            for client in 0..4 {
                let engine = &engine;
                scope.spawn(move || {
                    let mut worker = engine.worker().expect("there are four");
                    for _ in 0..200 {
                        let order: Vec<usize> =
                            if client % 2 == 0 { (0..8).collect() } else { (0..8).rev().collect() };
                        let done = worker.run(|tx| {
                            for &record in &order {
                                let seen = tx.read(record, 0)?; // shared first: upgrades meet, too
                                tx.write(record, 0, seen + 1)?;
                            }
                            Ok::<_, Stop<()>>(())
                        });
                        done.expect("it does not abort");
                    }
                });
            }
        });
        let sum = engine.run(|tx| {
            (0..8)
                .map(|record| tx.read(record, 0))
                .sum::<Result<u64, _>>()
                .map_err(Stop::<()>::from)
        });
        assert_eq!(sum, Ok(8 * 4 * 200));
    }
}

/// Readers overlap, so that there is always one: each holds the lock for some time.
#[test]
fn overlapping_readers_do_not_keep_a_writer_out() {
    let _watchdog = stillframe_peers::Watchdog::start();
    let engine = engine::<Imprint>(Settings::new(1, 1).workers(4).deadlock(Deadlock::WaitDie));
    let (over, reads) = (AtomicBool::new(false), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for _ in 0..3 {
            let (engine, over, reads) = (&engine, &over, &reads);
            scope.spawn(move || {
                let mut worker = engine.worker().expect("there are four");
                while !over.load(Ordering::Relaxed) {
                    let read = worker.run(|tx| {
                        tx.read(0, 0)?;
                        std::thread::sleep(Duration::from_millis(5));
                        Ok::<_, Stop<()>>(())
                    });
                    read.expect("it does not abort");
                    reads.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        let mut worker = engine.worker().expect("there are four");
        while reads.load(Ordering::Relaxed) < 3 {
            std::thread::yield_now();
        }
        for _ in 0..10 {
            let wrote = worker.run(|tx| Ok::<_, Stop<()>>(tx.update(0, 0, |word| word + 1)?));
            wrote.expect("it does not abort");
        }
        over.store(true, Ordering::Relaxed);
    });
    assert_eq!(engine.run(|tx| Ok::<_, Stop<()>>(tx.read(0, 0)?)), Ok(10));
}

/// What a transaction makes of a record that it could not lock counts for nothing.
fn an_abort_after_a_swallowed_conflict() -> Result<u64, &'static str> {
    let engine = engine::<Imprint>(Settings::new(1, 1).workers(2));
    let (holds, held) = mpsc::channel();
    let (lets_go, let_go) = mpsc::channel::<()>();
    std::thread::scope(|scope| {
        let engine = &engine;
        scope.spawn(move || {
            let wrote = engine.run(|tx| {
                tx.write(0, 0, 7)?;
                holds.send(()).expect("the test waits");
                let _ = let_go.recv();
                Ok::<_, Stop<()>>(())
            });
            wrote.expect("it does not abort");
        });
        held.recv().expect("it holds the lock");
        let lets_go = std::cell::Cell::new(Some(lets_go));
        engine.run(|tx| {
            let Ok(word) = tx.read(0, 0) else {
                drop(lets_go.take());
                return Err(Stop::Abort("it could not look"));
            };
            Ok(word)
        })
    })
}

#[test]
fn a_swallowed_conflict_runs_again_though_the_closure_aborts() {
    let _watchdog = stillframe_peers::Watchdog::start();
    assert_eq!(an_abort_after_a_swallowed_conflict(), Ok(7));
    let mutant = Mutant::AbortsThoughRefused;
    assert!(with_mutant(mutant, an_abort_after_a_swallowed_conflict).is_err(), "{mutant:?}");
}

/// Money moves between accounts while images are taken: each one holds all of it.
#[test]
fn no_image_loses_money() {
    fn body<A: Concurrent>() {
        const ACCOUNTS: usize = 500;
        let engine = engine::<A>(Settings::new(ACCOUNTS, 1).workers(3));
        let fill = engine.run(|tx| {
            for account in 0..ACCOUNTS {
                tx.write(account, 0, 100)?;
            }
            Ok::<_, Stop<()>>(())
        });
        fill.expect("it does not abort");
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for client in 0..2_usize {
                let (engine, over) = (&engine, &over);
                scope.spawn(move || {
                    let mut worker = engine.worker().expect("there are three");
                    let mut at = client;
                    while !over.load(Ordering::Relaxed) {
                        at = (at * 7919 + 31) % ACCOUNTS;
                        let (from, to) = (at, (at * 13 + client) % ACCOUNTS);
                        let moved = worker.run(|tx| {
                            let have = tx.read(from, 0)?;
                            if have == 0 || from == to {
                                return Err(Stop::Abort(()));
                            }
                            tx.write(from, 0, have - 1)?;
                            tx.update(to, 0, |there| there + 1)?;
                            Ok(())
                        });
                        let _ = moved; // an empty account is no failure
                    }
                });
            }
            let mut copy = Copy::default();
            for _ in 0..50 {
                let image = engine.begin().expect("none is under way");
                let Ok(()) = image.capture(&mut copy) else { panic!("the sink takes all") };
                let sum: u64 = copy.0.values().map(|words| words[0]).sum();
                assert_eq!(sum, 100 * ACCOUNTS as u64, "{}", A::INFO.name);
            }
            over.store(true, Ordering::Relaxed);
        });
    }
    for_all!(body);
}

#[test]
fn what_cannot_be_had_is_said() {
    let engine = engine::<Imprint>(Settings::new(1, 1).workers(1));
    let worker = engine.worker().expect("it is free");
    let refused = engine.worker().expect_err("it is taken").to_string();
    assert_eq!(refused, "all 1 workers are in use; create the engine with more");
    drop(worker);
    let image = engine.begin().expect("none is under way");
    assert_eq!(engine.begin().err(), Some(ImageError::UnderWay));
    drop(image);
    engine.begin().expect("the one before has ended");
    let much = Engine::<Imprint>::create(Settings::new(1 << 40, 1));
    assert!(matches!(much, Err(CreateError::Records { most, .. }) if most > 1 << 29));
    struct Huge;
    impl Visitor for Huge {
        type Output = ();
        fn visit<A: Concurrent>(self) {
            for settings in [Settings::new(1 << 60, 1), Settings::new(1 << 40, 1 << 40)] {
                assert!(Engine::<A>::create(settings).is_err(), "{}", A::INFO.name);
            }
        }
    }
    ALL.iter().for_each(|info| with(info.name, Huge).expect("it is in the registry"));
}
