//! The engine under loom: two threads that commit, one that takes images; every interleaving and
//! every value that a relaxed load may return, within a bound of involuntary switches.
//!
//! What loom cannot say of sequential consistency is not asked of it: the two sides of an
//! announcement are ordered by full fences, which it knows, not by SeqCst accesses, which it takes
//! for Acquire and Release.

extern crate stillframe_transactions_loom as stillframe_transactions;

#[allow(dead_code, reason = "these models read nothing")]
#[path = "../../../tests/conformance/oracle.rs"]
mod oracle;

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

use loom::sync::Arc;
use loom::thread;
use oracle::{Commits, Copy, compare};
use stillframe_transactions::algorithms::calc::Calc;
use stillframe_transactions::algorithms::hourglass::VirtualHourglass;
use stillframe_transactions::algorithms::imprint::Imprint;
use stillframe_transactions::algorithms::piggyback::VirtualPiggyback;
use stillframe_transactions::algorithms::stopped::Naive;
use stillframe_transactions::with_mutant;
use stillframe_transactions::{Concurrent, Engine, Mutant, Settings, Stop};

/// What a thread's transactions write: words of records, each with one more than it holds.
type Program = &'static [&'static [(usize, usize)]];

fn is_long() -> bool {
    std::env::var_os("STILLFRAME_LONG").is_some_and(|value| value == "1")
}

fn explore(preemptions: usize, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions + usize::from(is_long()));
    builder.max_branches = 20_000;
    builder.check(model);
}

/// As `explore`, with a switch less in a short run: for a model that takes most of its time, and by
/// which no mistake has to be found.
fn explore_briefly(preemptions: usize, model: impl Fn() + Sync + Send + 'static) {
    explore(if is_long() { preemptions } else { preemptions - 1 }, model);
}

fn transact<A: Concurrent>(engine: &Engine<A, Commits>, program: Program) {
    let mut worker = engine.worker().expect("there are two");
    for words in program {
        let done = worker.run(|tx| {
            for &(record, word) in *words {
                tx.update(record, word, |word| word + 1)?;
            }
            Ok::<_, Stop<()>>(())
        });
        done.expect("it does not abort");
    }
}

/// Two threads with a program each, images in a row meanwhile.
fn model<A: Concurrent>(programs: [Program; 2], images: usize) {
    let writes = programs.iter().flat_map(|program| program.iter().copied().flatten());
    let words = 1 + writes.map(|(_, word)| *word).max().unwrap_or(0);
    let settings = Settings::new(2, words).workers(2);
    let engine: Engine<A, Commits> =
        Engine::with_journal(settings, Commits::new(2)).expect("it is small");
    if words > 1 {
        // An absent record would hide wrong words.
        transact(&engine, &[&[(0, 0)]]);
    }
    let engine = Arc::new(engine);
    let clients = programs.map(|program| {
        let engine = Arc::clone(&engine);
        thread::spawn(move || transact(&engine, program))
    });
    let mut merged = BTreeMap::new();
    let mut taken = Vec::new();
    for _ in 0..images {
        let image = engine.begin().expect("the one before has ended");
        let number = image.number();
        let mut copy = Copy::default();
        image.capture(&mut copy).expect("the sink takes all");
        copy.merge::<A>(&mut merged);
        taken.push((number, merged.clone()));
    }
    for client in clients {
        client.join().expect("a client ends");
    }
    engine.journal().check().expect("an image is closed under what its transactions have seen");
    compare(engine.journal().commits(), &taken).expect("an image holds a prefix of the commits");
}

const PAIR: [Program; 2] = [&[&[(0, 0), (1, 0)]], &[]];
const MEETING: [Program; 2] = [&[&[(0, 0)]], &[&[(0, 0), (1, 0)]]];
const AGAIN: [Program; 2] = [&[&[(1, 0)], &[(1, 0)]], &[]];
/// One word after the other of a record: Imprint saves it in two entries.
const WORDS: [Program; 2] = [&[&[(0, 0)], &[(0, 1)]], &[]];

fn all<A: Concurrent>() {
    explore(2, || model::<A>(PAIR, 1));
    explore_briefly(2, || model::<A>(AGAIN, 2));
    explore(1, || model::<A>(MEETING, 1));
}

#[test]
fn a_stop_of_all() {
    all::<Naive>();
}

#[test]
fn calc() {
    all::<Calc>();
}

#[test]
fn hourglass() {
    all::<VirtualHourglass>();
}

#[test]
fn piggyback() {
    all::<VirtualPiggyback>();
}

#[test]
fn imprint() {
    all::<Imprint>();
    explore(2, || model::<Imprint>(WORDS, 1));
}

fn rejects<A: Concurrent>(mutant: Mutant, programs: [Program; 2], images: usize) {
    let found = catch_unwind(AssertUnwindSafe(|| {
        explore(2, move || with_mutant(mutant, || model::<A>(programs, images)));
    }));
    assert!(found.is_err(), "{}: {mutant:?} is accepted", A::INFO.name);
}

#[test]
fn mistakes_of_memory_order_are_rejected() {
    rejects::<VirtualHourglass>(Mutant::EpochAnnouncesByReleaseAlone, PAIR, 1);
    rejects::<VirtualPiggyback>(Mutant::EpochAnnouncesByReleaseAlone, PAIR, 1);
    rejects::<Imprint>(Mutant::EpochAnnouncesByReleaseAlone, PAIR, 1);
    rejects::<Imprint>(Mutant::ImprintNoReleaseFence, PAIR, 1);
    rejects::<Imprint>(Mutant::ImprintNoAcquireFence, PAIR, 1);
    rejects::<Imprint>(Mutant::ImprintSavesARecordOnce, WORDS, 1);
    rejects::<Imprint>(Mutant::ImprintForgetsFirstEntry, WORDS, 1);
}
