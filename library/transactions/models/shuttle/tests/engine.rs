//! The whole engine under random and priority-driven schedules: transactions on two threads, images
//! back to back on a third, for each algorithm; and each mistake that needs no weak memory.

extern crate stillframe_transactions_shuttle as stillframe_transactions;

#[path = "../../../tests/conformance/oracle.rs"]
mod oracle;

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use oracle::{Commits, Copy, compare};
use shuttle::rand::{Rng as _, thread_rng};
use shuttle::{check_pct, check_random, thread};
use stillframe_transactions::algorithms::{ALL, Visitor, with};
use stillframe_transactions::with_mutant;
use stillframe_transactions::{
    Completeness, Concurrent, Deadlock, Engine, Mutant, OnFull, Settings, Stop,
};

const RECORDS: usize = 3;
/// Of a record: a commit may replace one and leave the other.
const WORDS: usize = 2;

fn schedules(count: usize) -> usize {
    let long = std::env::var_os("STILLFRAME_LONG").is_some_and(|value| value == "1");
    if long { 20 * count } else { count }
}

/// Transactions that read one record and write one or two, some of them a deletion.
fn transact<A: Concurrent>(engine: &Engine<A, Commits>) {
    let mut worker = engine.worker().expect("there are three");
    for _ in 0..3 {
        let [read, write, also] = [(); 3].map(|()| thread_rng().gen_range(0..RECORDS));
        let [word, also_word] = [(); 2].map(|()| thread_rng().gen_range(0..WORDS));
        let deletes = thread_rng().gen_range(0..4) == 0;
        let done = worker.run(|tx| {
            let seen = tx.read(read, 0)?;
            let newest = engine.journal().newest(read);
            if seen != newest {
                return Err(Stop::Abort(format!("record {read} reads as {seen}, not {newest}")));
            }
            thread::yield_now();
            tx.write(write, word, oracle::next())?;
            if deletes {
                tx.delete(also)?;
            } else {
                tx.write(also, also_word, oracle::next())?;
            }
            Ok(())
        });
        done.expect("a client reads what was committed last");
    }
}

/// Bytes for before-images, and what happens when they are used up.
type Budget = (usize, OnFull);
const ENOUGH: Budget = (usize::MAX, OnFull::Cancel);

fn model<A: Concurrent>(deadlock: Deadlock, (bytes, on_full): Budget) {
    let settings = Settings::new(RECORDS, WORDS).workers(3).deadlock(deadlock);
    let settings = settings.budget(bytes, on_full);
    let journal = Commits::new(RECORDS);
    let engine: Engine<A, Commits> = Engine::with_journal(settings, journal).expect("it is small");
    // Before-images of absent records are all the same: one could stand for another.
    let filled = engine.run(|tx| {
        (0..RECORDS - 1).try_for_each(|it| tx.store(it, &[(); WORDS].map(|()| oracle::next())))?;
        Ok::<_, Stop<()>>(())
    });
    filled.expect("it does not abort");
    let engine = Arc::new(engine);
    let clients = [(); 2].map(|()| {
        let engine = Arc::clone(&engine);
        thread::spawn(move || transact(&engine))
    });
    let mut images = Vec::new();
    let mut merged = BTreeMap::new();
    for _ in 0..3 {
        let image = engine.begin().expect("the one before has ended");
        let number = image.number();
        let mut copy = Copy::default();
        if thread_rng().gen_range(0..4) == 0 {
            copy.takes = thread_rng().gen_range(0..2);
        }
        if image.capture(&mut copy).is_ok() {
            copy.merge::<A>(&mut merged);
            images.push((number, merged.clone()));
        }
    }
    for client in clients {
        client.join().expect("a client ends");
    }
    engine.journal().check().expect("an image is closed under what its transactions have seen");
    compare(engine.journal().commits(), &images).expect("an image holds a prefix of the commits");
}

struct Explored(Deadlock, Budget, Option<Mutant>, usize);

impl Visitor for Explored {
    type Output = ();
    fn visit<A: Concurrent>(self) {
        let Self(deadlock, budget, mutant, count) = self;
        let run = move || match mutant {
            Some(mutant) => with_mutant(mutant, || model::<A>(deadlock, budget)),
            None => model::<A>(deadlock, budget),
        };
        check_random(run, count);
        check_pct(run, count, 3);
    }
}

#[test]
fn images_are_prefixes_of_the_commit_order() {
    for info in ALL.iter().filter(|info| info.image != Completeness::Nothing) {
        for deadlock in [Deadlock::NoWait, Deadlock::WaitDie] {
            let all = Explored(deadlock, ENOUGH, None, schedules(500));
            with(info.name, all).expect("it is registered");
        }
    }
}

/// One chunk, of a few entries, for both workers.
#[test]
fn images_on_a_budget_are_right_or_cancelled() {
    for budget in [(1, OnFull::Slow), (1, OnFull::Cancel)] {
        let all = Explored(Deadlock::NoWait, budget, None, schedules(1000));
        with("imprint", all).expect("it is registered");
    }
}

fn rejects(name: &str, mutant: Mutant, budget: Budget) {
    let found = catch_unwind(AssertUnwindSafe(|| {
        with(name, Explored(Deadlock::NoWait, budget, Some(mutant), 20_000));
    }));
    assert!(found.is_err(), "{name}: {mutant:?} is accepted");
}

#[test]
fn mistakes_of_others_are_rejected() {
    for (name, mutant) in [
        ("naive", Mutant::StoppedDoesNotWait),
        ("vhg", Mutant::EpochIsNotReadAgain),
        ("vhg", Mutant::EpochDoesNotDrain),
        ("vhg", Mutant::SideAtStart),
        ("vpb", Mutant::EpochIsNotReadAgain),
        ("vpb", Mutant::EpochDoesNotDrain),
        ("vpb", Mutant::SideAtStart),
        ("vpb", Mutant::PiggybackCopiesWithoutClaim),
        ("vpb", Mutant::PiggybackCopiesBeforeDrain),
        ("calc", Mutant::EpochDoesNotDrain),
        ("calc", Mutant::CalcWithoutLatch),
        ("calc", Mutant::CalcKeepsTentative),
        ("calc", Mutant::CalcFlipsEarly),
        ("calc", Mutant::CalcTakesLateInsert),
        ("pcalc", Mutant::CalcKeepsTentative),
    ] {
        rejects(name, mutant, ENOUGH);
    }
}

#[test]
fn mistakes_of_imprint_are_rejected() {
    for mutant in [
        Mutant::EpochIsNotReadAgain,
        Mutant::EpochDoesNotDrain,
        Mutant::SideAtStart,
        Mutant::ImprintSavesOfOwnEpoch,
        Mutant::ImprintNeverSaves,
        Mutant::ImprintSavesAfterStore,
        Mutant::ImprintPublishesCursorEarly,
        Mutant::ImprintKeepsHeads,
        Mutant::ImprintSavesARecordOnce,
        Mutant::ImprintForgetsFirstEntry,
        Mutant::ImprintGivesChunksBack,
    ] {
        rejects("imprint", mutant, ENOUGH);
    }
    rejects("imprint", Mutant::ImprintWaitsNotForCapture, (1, OnFull::Slow));
    rejects("imprint", Mutant::ImprintHidesLoss, (1, OnFull::Cancel));
}
