//! Async-fork's hand-over of a table between writer and snapshotter, and On-Demand-Fork: two pages
//! of two words in one table, consecutive images. Each program is explored whole, and each broken
//! build must be found wrong.

use crate::common::{AMPLE, Faults, Look, Model, Op, Seen, explore, rejects_each, run};
use stillframe_loom::algorithms::page_table::{AsyncFork, Asynchronous, OnDemandFork, Tables};
use stillframe_loom::{Algorithm, Image, InProcess, Mutant, OnFull};

use Op::{Begin as B, Write as W};

const PROGRAMS: [&[Op]; 5] = [
    &[B, W(0)],
    &[W(2), B, W(2), W(0)],
    &[B, W(0), W(3), B, W(0), W(2)],
    &[W(1), B, B, W(1), W(0)],
    &[B, W(0), W(0), B, W(2), B, W(0)],
];

fn program<A: Algorithm>(ops: &'static [Op], look: Option<Look<A>>) -> impl Fn(Faults) -> Model {
    move |faults| Box::new(move || run::<A>(ops, (AMPLE, OnFull::Cancel), look, &faults))
}

#[test]
fn async_fork_images() {
    for ops in PROGRAMS {
        explore(2, program::<AsyncFork>(ops, None)(Faults::default()));
    }
}

#[test]
fn async_fork_images_reject() {
    let mutants = [
        Mutant::AsyncForkCopiesUnclaimed,
        Mutant::AsyncForkDoesNotWait,
        Mutant::AsyncForkMarksLate,
        Mutant::AsyncForkRelaxedCopied,
    ];
    rejects_each(&mutants, 2, &PROGRAMS.map(|ops| program::<AsyncFork>(ops, None)));
}

#[test]
fn on_demand_fork_images() {
    for ops in PROGRAMS {
        explore(2, program::<OnDemandFork>(ops, None)(Faults::default()));
    }
}

/// A word asked for at random may make the snapshotter copy a table, racing with the writer.
#[test]
fn async_fork_random_access() {
    fn look(image: &InProcess<Seen, Tables<Asynchronous>>, expected: &[u64], faults: &Faults) {
        let found = image.get(2);
        faults.check(found == Some(expected[2]), || {
            format!("word 2 is {found:?}, at begin {expected:?}")
        });
    }
    explore(2, program::<AsyncFork>(PROGRAMS[1], Some(look))(Faults::default()));
}
