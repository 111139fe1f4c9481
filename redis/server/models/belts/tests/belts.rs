//! The hand-over between two threads of the server under loom: every interleaving and every value
//! that a relaxed load may return, within a bound of involuntary switches.
//!
//! Each side sleeps only behind its bell. A lost wake-up leaves all threads asleep: loom reports a
//! deadlock. A batch that is lost, doubled or out of order fails an assertion.

use std::process::{Command, Stdio};

use loom::sync::{Arc, Notify};
use loom::thread;
use stillframe_belts_loom::{Batch, Bell, Mutant, Receiver, Sender, belt, with_mutant};

/// Names the mistake that a process makes.
const MUTANT: &str = "STILLFRAME_BELTS_MUTANT";

/// Numbers handed over together.
#[derive(Default)]
struct Numbers(Vec<u32>);

impl Batch for Numbers {
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn clear(&mut self) {
        self.0.clear();
    }
}

/// What an event descriptor is to a poller: a wake-up stays until one sleep has ended.
#[derive(Clone)]
struct Bed(Arc<Notify>, Bell);

impl Bed {
    fn new() -> Self {
        let bed = Arc::new(Notify::new());
        let woken = bed.clone();
        let bell = Bell::new(move || woken.notify());
        Self(bed, bell)
    }

    /// Sleeps, unless `is_idle` finds work once the bell would ring.
    fn sleep_if(&self, is_idle: impl FnOnce() -> bool) {
        self.1.lie_down();
        if is_idle() {
            self.0.wait();
        }
        self.1.get_up();
    }
}

fn is_long() -> bool {
    std::env::var_os("STILLFRAME_LONG").is_some_and(|value| value == "1")
}

fn explore(preemptions: usize, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions + usize::from(is_long()));
    builder.max_branches = 20_000;
    builder.check(model);
}

/// Takes numbers until the last one.
fn receive(mut from: Receiver<Numbers>, last: u32, bed: &Bed) {
    let mut next = 1;
    while next <= last {
        let Some(batch) = from.take() else {
            bed.sleep_if(|| from.is_empty());
            continue;
        };
        for &number in &batch.0 {
            assert_eq!(number, next, "once each, and in order");
            next += 1;
        }
        from.give_back(batch);
    }
    assert!(from.take().is_none(), "nothing comes twice");
}

/// Hands the numbers over, one by one where there is room, and the rest before it leaves.
fn send(to: &mut Sender<Numbers>, last: u32, bed: &Bed) {
    for number in 1..=last {
        to.batch().0.push(number);
        to.hand();
    }
    while !to.hand() {
        bed.sleep_if(|| !to.hand());
    }
}

/// One way: more batches than there is room for.
fn one_way(batches: usize, last: u32) {
    let (sender, receiver) = (Bed::new(), Bed::new());
    let (mut to, from) = belt::<Numbers>(batches, sender.1.clone(), receiver.1.clone());
    let receives = thread::spawn(move || receive(from, last, &receiver));
    send(&mut to, last, &sender);
    receives.join().expect("no panic");
}

/// A request and its reply: each side sleeps until the other has handed over.
fn both_ways(rounds: u32) {
    let (commands, io) = (Bed::new(), Bed::new());
    let (mut requests, mut arrived) = belt::<Numbers>(1, io.1.clone(), commands.1.clone());
    let (mut replies, mut written) = belt::<Numbers>(1, commands.1.clone(), io.1.clone());
    let serves = thread::spawn(move || {
        for number in 1..=rounds {
            let batch = loop {
                match arrived.take() {
                    Some(batch) => break batch,
                    None => commands.sleep_if(|| arrived.is_empty()),
                }
            };
            assert_eq!(batch.0, [number], "a request at a time");
            arrived.give_back(batch);
            replies.batch().0.push(number);
            replies.hand();
        }
    });
    for number in 1..=rounds {
        requests.batch().0.push(number);
        requests.hand();
        let batch = loop {
            match written.take() {
                Some(batch) => break batch,
                None => io.sleep_if(|| written.is_empty()),
            }
        };
        assert_eq!(batch.0, [number], "its reply");
        written.give_back(batch);
    }
    serves.join().expect("no panic");
}

#[test]
fn all_is_taken_in_order_and_nobody_sleeps_for_ever() {
    explore(2, || one_way(1, 3));
    // With a switch less in a short run: it takes longest, and no mistake has to be found by it.
    explore(if is_long() { 2 } else { 1 }, || one_way(2, 4));
}

#[test]
fn a_request_gets_its_reply() {
    explore(3, || both_ways(2));
}

/// Runs the models with the mistake that the environment names. A deadlock ends the process: loom
/// cannot unwind from it.
#[test]
fn a_mistake() {
    let Ok(name) = std::env::var(MUTANT) else { return };
    let named = |mutant: &&Mutant| format!("{mutant:?}") == name;
    let mutant = *Mutant::ALL.iter().find(named).expect("a mistake");
    explore(3, move || with_mutant(mutant, || one_way(1, 3)));
    explore(3, move || with_mutant(mutant, || both_ways(2)));
}

#[test]
fn each_mistake_is_found() {
    for mutant in Mutant::ALL {
        let mut run = Command::new(std::env::current_exe().expect("this test"));
        run.args(["--exact", "a_mistake", "--nocapture"]).env(MUTANT, format!("{mutant:?}"));
        let output = run.stdin(Stdio::null()).output().expect("it runs");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success(), "{mutant:?} is accepted");
        let is_found = ["deadlock", "once each"].iter().any(|fault| said.contains(fault));
        assert!(is_found, "{mutant:?} fails for another reason: {said}");
    }
}
