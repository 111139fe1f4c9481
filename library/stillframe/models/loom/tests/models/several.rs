//! Several images of Imprint at a time: 2 blocks of 2 words, frames after 2 records.

use crate::common::{AMPLE, Faults, Model, Op, Seen, WORDS, explore, rejects_each, run_with};
use stillframe_loom::algorithms::imprint::{Before, Imprint};
use stillframe_loom::{Image, InProcess, Mutant, OnFull, Options};

use Op::{Begin as B, Beside as S, Drop as D, Write as W};

type Images = InProcess<Seen, Before>;

type Look = Option<fn(&Images, &[u64], &Faults)>;

fn program(ops: &'static [Op], look: Look) -> impl Fn(Faults) -> Model {
    with_budget(ops, look, 4 * AMPLE)
}

fn with_budget(ops: &'static [Op], look: Look, budget: usize) -> impl Fn(Faults) -> Model {
    let options = Options::words(WORDS).budget(budget, OnFull::Cancel).images(3);
    move |faults| {
        let options = options.clone();
        Box::new(move || run_with::<Imprint>(&options, ops, look, &faults))
    }
}

/// A word written before, between and after the begins; frames on either side; another block.
const PROGRAMS: [&[Op]; 5] = [
    &[W(0), B, W(0), S, W(0)],
    &[B, W(0), W(1), S, W(1), W(0)],
    &[B, W(0), W(0), W(0), S, W(1)],
    &[B, S, W(2), W(2), W(2)],
    &[B, W(2), S, W(0), W(2)],
];

#[test]
fn several_images() {
    for ops in PROGRAMS {
        explore(2, program(ops, None)(Faults::default()));
    }
}

/// Three at a time.
#[test]
fn three_images() {
    explore(1, program(&[B, W(0), S, W(0), S, W(0)], None)(Faults::default()));
}

#[test]
fn several_images_reject() {
    let mutants = [
        Mutant::ImprintForgetsLaterVolumes,
        Mutant::ImprintNewestVolumeWins,
        Mutant::ImprintLooksForVolumesLast,
        Mutant::ImprintNoReleaseFence,
        Mutant::ImprintNoAcquireFence,
    ];
    rejects_each(&mutants, 2, &PROGRAMS.map(|ops| program(ops, None)));
}

/// The volume of an image that is over is merged into that of one which is being captured.
const MERGED: [&[Op]; 3] = [
    &[B, S, W(0), D, S, W(0), D],
    &[B, W(2), S, W(2), W(3), D, S, D],
    &[B, S, W(2), W(2), W(2), D, S, D],
];

#[test]
fn merged_volumes() {
    for ops in MERGED {
        explore(1, program(ops, None)(Faults::default()));
    }
}

#[test]
fn merged_volumes_reject() {
    let mutants = [Mutant::ImprintLeadsPastUnmerged];
    rejects_each(&mutants, 1, &MERGED.map(|ops| program(ops, None)));
}

/// Single words and runs of images that begin one beside the other.
#[test]
fn several_images_at_random() {
    fn look(image: &Images, expected: &[u64], faults: &Faults) {
        let found = image.get(0);
        faults.check(found == Some(expected[0]), || format!("word 0 is {found:?}"));
        let mut run = [0; 2];
        let found = image.get_run(1, &mut run);
        faults.check(found.is_some() && run == expected[1..3], || format!("the run is {run:?}"));
    }
    explore(1, program(PROGRAMS[0], Some(look))(Faults::default()));
    explore(1, program(PROGRAMS[4], Some(look))(Faults::default()));
}

/// Two records and no frame: the older image is given up for the newer one, which the writer may go
/// on to save for, or the newer one is, too.
const OVER: [&[Op]; 3] =
    [&[B, W(0), S, W(2), W(0)], &[B, S, W(2), W(0), W(3)], &[B, W(3), S, W(0), W(1)]];

#[test]
fn several_images_over_budget() {
    for ops in OVER {
        explore(2, with_budget(ops, None, 32)(Faults::default()));
    }
}

#[test]
fn several_images_over_budget_reject() {
    let mutants = [Mutant::ImprintNoFenceOnStop, Mutant::HandoverChecksStopFirst];
    rejects_each(&mutants, 2, &OVER.map(|ops| with_budget(ops, None, 32)));
}
