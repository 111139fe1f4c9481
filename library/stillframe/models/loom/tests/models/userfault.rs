//! Copy-on-update by write protection: the writer that faults, the thread that answers, and the
//! snapshotter, over a page table that faults as the kernel's does (`os/fake_userfault.rs`). Two
//! pages of two words.

use crate::common::{
    AMPLE, Faults, Look, Model, Op, Seen, WORDS, explore, rejects, rejects_each, run,
};
use loom::thread;
use stillframe_loom::algorithms::userfault::{Protected, UserFault};
use stillframe_loom::{Algorithm, Image, InProcess, Mutant, OnFull, Options, Point, with_mutant};

use Op::{Begin as B, Write as W};

const PROGRAMS: [&[Op]; 4] =
    [&[B, W(0)], &[W(2), B, W(2), W(0)], &[B, W(0), B, W(0)], &[W(1), B, W(3), W(1)]];

fn program(ops: &'static [Op], look: Option<Look<UserFault>>) -> impl Fn(Faults) -> Model {
    move |faults| Box::new(move || run::<UserFault>(ops, (AMPLE, OnFull::Cancel), look, &faults))
}

#[test]
fn userfault_images() {
    for ops in PROGRAMS {
        explore(2, program(ops, None)(Faults::default()));
    }
}

#[test]
fn userfault_images_reject() {
    let mutants = [
        Mutant::UserFaultUnprotectsFirst,
        Mutant::UserFaultIgnoresShadow,
        Mutant::AsyncForkCopiesUnclaimed,
        Mutant::AsyncForkRelaxedCopied,
    ];
    rejects_each(&mutants, 2, &PROGRAMS.map(|ops| program(ops, None)));
}

/// A word asked for at random saves its page as a fault does, perhaps at the same time.
#[test]
fn userfault_random_access() {
    fn look(image: &InProcess<Seen, Protected>, expected: &[u64], faults: &Faults) {
        let found = image.get(2);
        faults.check(found == Some(expected[2]), || {
            format!("word 2 is {found:?}, at begin {expected:?}")
        });
    }
    explore(2, program(PROGRAMS[1], Some(look))(Faults::default()));
}

/// The first image is dropped without being captured while the writer waits for a page of it: the
/// answer must not come so late that it unprotects a page of the second.
fn dropped(faults: Faults) -> Model {
    Box::new(move || {
        let mut state = UserFault::create(&Options::words(WORDS)).expect("loom has memory");
        let first = state.begin(Point::declare(), Vec::new()).expect("idle");
        let dropper = thread::spawn(move || drop(first));
        state.write(0, 1);
        dropper.join().expect("dropped");
        let mut second = state.begin(Point::declare(), Vec::new()).expect("idle");
        let snapshotter = thread::spawn(move || {
            let outcome = second.capture();
            (outcome.is_ok(), second.into_sink())
        });
        state.write(0, 2);
        let (is_captured, found) = snapshotter.join().expect("no fault of its own");
        faults.check(is_captured && found == [1, 0, 0, 0], || format!("the image is {found:?}"));
    })
}

#[test]
fn late_answers() {
    explore(2, dropped(Faults::default()));
}

#[test]
fn late_answers_reject() {
    rejects(Mutant::UserFaultFinishesFirst, &[(3, &dropped)]);
}

/// A page saved before it is protected is never unprotected: its writer waits for ever.
#[test]
#[should_panic(expected = "deadlock")]
fn early_answers_hang_the_writer() {
    let model = program(PROGRAMS[2], None)(Faults::default());
    explore(2, move || with_mutant(Mutant::UserFaultAnswersEarly, &model));
}
