//! The suite against broken builds: it must reject each one, and so must the models.
//!
//! Mistakes of memory ordering do not show on the machine at hand; loom finds them in
//! `library/stillframe/models/loom`. The list below is checked against that crate's source and
//! against the suite's, so that no mutant is without a judge.

use std::path::{Path, PathBuf};

use crate::algorithms::piggyback::Piggyback;
use crate::algorithms::userfault::UserFault as Uffd;
use crate::algorithms::zigzag::{Bazz, Izz, Nzz, Pzz};
use crate::algorithms::{cou, fork::Fork, imprint::Imprint, naive::Naive, page_table};
use crate::algorithms::{hourglass, pingpong, valkey::Valkey};
use crate::{Algorithm, Mutant, with_mutant};
use hourglass::{Hourglass, HourglassCopy};
use pingpong::{IppCopy, IppMerge, NppCopy, NppMerge};

use super::{
    Property, budget, in_time, incremental, is_missing, properties, several, sinks, sleep,
};

const SEEDS: u64 = 8;

/// Who rejects a mutant.
enum Judge {
    /// The suite, by a property.
    Suite(&'static str, Property),
    /// The suite, by a property of each of several algorithms.
    Each(&'static str, &'static [Property]),
    /// A test under loom.
    Model(&'static str),
}

const EVERY_WORD: &str = "every_word_of_every_image";
const LATE_CANCEL: &str = "a_late_cancel_does_not_hide_a_full_arena";
const WHATEVER: &str = "whatever_sinks_do";

const ZIGZAGS: &[Property] = &[
    properties::every_word_of_every_image::<Nzz>,
    properties::every_word_of_every_image::<Izz>,
    properties::every_word_of_every_image::<Pzz>,
    properties::every_word_of_every_image::<Bazz>,
];
const GROWTH_OF_ZIGZAGS: &[Property] =
    &[properties::growth_during_images::<Nzz>, properties::growth_during_images::<Bazz>];
/// Those whose units may be larger than a word.
const TWO_HOMES: &[Property] = &[
    properties::every_word_of_every_image::<Nzz>,
    properties::every_word_of_every_image::<Bazz>,
    properties::every_word_of_every_image::<Piggyback>,
];

/// Those whose images are made of what changed.
const INCREMENTS: &[Property] = &[
    incremental::every_unit::<Hourglass>,
    incremental::every_unit::<HourglassCopy>,
    incremental::every_unit::<NppMerge>,
    incremental::every_unit::<NppCopy>,
    incremental::every_unit::<IppMerge>,
    incremental::every_unit::<IppCopy>,
];
/// Those that keep the image before.
const COPIES: &[Property] = &[
    sinks::whatever_sinks_do::<HourglassCopy>,
    sinks::whatever_sinks_do::<NppCopy>,
    sinks::whatever_sinks_do::<IppCopy>,
];
/// Those whose sinks do.
const MERGES: &[Property] = &[
    sinks::whatever_sinks_do::<Hourglass>,
    sinks::whatever_sinks_do::<NppMerge>,
    sinks::whatever_sinks_do::<IppMerge>,
];

fn every_word<A: Algorithm>() -> Judge {
    Judge::Suite(EVERY_WORD, properties::every_word_of_every_image::<A>)
}

fn partial_words<A: Algorithm>() -> Judge {
    Judge::Suite("partial_words", properties::partial_words::<A>)
}

fn every_unit<A: Algorithm>() -> Judge {
    Judge::Suite("every_unit", incremental::every_unit::<A>)
}

fn images_that_fail<A: Algorithm>() -> Judge {
    Judge::Suite("images_that_fail", properties::images_that_fail::<A>)
}

fn whatever<A: Algorithm>() -> Judge {
    Judge::Suite(WHATEVER, sinks::whatever_sinks_do::<A>)
}

fn sleeps_long<A: Algorithm>() -> Judge {
    Judge::Suite("units_that_sleep_long", sleep::units_that_sleep_long::<A>)
}

fn judge(mutant: Mutant) -> Judge {
    use Judge::{Each, Model};
    match mutant {
        Mutant::NaiveCopiesLate => every_word::<Naive>(),
        Mutant::ForkCapturesParent => every_word::<Fork>(),
        Mutant::CouSavesNewValue => every_word::<cou::Cou>(),
        Mutant::CouKeepsOldBits => every_word::<cou::Bacou>(),
        Mutant::CouSkipsLatch | Mutant::CouRelaxedRelease => Model("cou_images_reject"),
        Mutant::CouStampsWrap => sleeps_long::<cou::Cou>(),
        Mutant::ValkeyStampsWrap => sleeps_long::<Valkey>(),
        Mutant::ClaimsWrap => sleeps_long::<page_table::AsyncFork>(),
        Mutant::OdfWritesSharedPage | Mutant::OdfWritesSharedTable | Mutant::OdfReusesPages => {
            every_word::<page_table::OnDemandFork>()
        }
        Mutant::AsyncForkCopiesUnclaimed
        | Mutant::AsyncForkDoesNotWait
        | Mutant::AsyncForkMarksLate
        | Mutant::AsyncForkRelaxedCopied => Model("async_fork_images_reject"),
        Mutant::AsyncForkAddsToSharedTable => Model("growth_rejects"),
        Mutant::UserFaultUnprotectsFirst | Mutant::UserFaultIgnoresShadow => every_word::<Uffd>(),
        Mutant::UserFaultFinishesFirst => Model("late_answers_reject"),
        Mutant::UserFaultAnswersEarly => Model("early_answers_hang_the_writer"),
        Mutant::ValkeySavesAfterWrite | Mutant::ValkeyForgetsClone => every_word::<Valkey>(),
        Mutant::ValkeyOverrunsQueue | Mutant::ValkeyRelaxedHandOver => {
            Model("valkey_images_reject")
        }
        Mutant::ZigzagSecondCopyUninitialised => Each("growth_during_images", GROWTH_OF_ZIGZAGS),
        Mutant::ZigzagForgetsNegation | Mutant::ZigzagFlipsTargets => Each(EVERY_WORD, ZIGZAGS),
        Mutant::TwoHomesWritePart => Each(EVERY_WORD, TWO_HOMES),
        Mutant::PiggybackForgetsRest => images_that_fail::<Piggyback>(),
        Mutant::PiggybackForgetsDeclined => whatever::<Piggyback>(),
        Mutant::PiggybackClaimsFirst | Mutant::PiggybackCopiesWord => every_word::<Piggyback>(),
        Mutant::IncrementTakesWholeWord => Each("every_unit", INCREMENTS),
        Mutant::IncrementLeavesDeclined => Each(WHATEVER, COPIES),
        Mutant::IncrementForgetsDeclined => Each(WHATEVER, MERGES),
        Mutant::PiggybackEndsBeforeRest => Model("piggyback_half_way_rejects"),
        Mutant::PiggybackFlagThenCopy
        | Mutant::PiggybackCopyThenFlag
        | Mutant::PiggybackRelaxedCopied => Model("piggyback_images_reject"),
        Mutant::PingPongDumpsCurrent => every_word::<NppMerge>(),
        Mutant::PingPongFlagsBaseInPrevious => partial_words::<NppMerge>(),
        Mutant::PingPongWritesPartOfUnit => every_unit::<NppMerge>(),
        Mutant::HourglassReadsCurrent => every_word::<Hourglass>(),
        Mutant::HourglassFlagsBaseInOtherArray => partial_words::<Hourglass>(),
        Mutant::HourglassWritesPartOfUnit | Mutant::IncrementForgetsWhileDumping => {
            every_unit::<Hourglass>()
        }
        other => judge_of_imprint(other),
    }
}

/// Mistakes of Imprint, of the hand-over and of the gate.
fn judge_of_imprint(mutant: Mutant) -> Judge {
    use Judge::{Model, Suite};
    match mutant {
        Mutant::ImprintNeverLogs
        | Mutant::ImprintKeepsMarks
        | Mutant::ImprintTrustsStaleHead
        | Mutant::ImprintFrameWithoutChain
        | Mutant::ImprintFrameAfterStore
        | Mutant::ImprintAppliesNewestOnly
        | Mutant::ImprintSavesHalfWord
        | Mutant::ImprintPublishesCursorEarly
        | Mutant::HandoverKeepsCaptured
        | Mutant::HandoverAdvancesFirst => every_word::<Imprint>(),
        Mutant::HandoverForgetsPanic => whatever::<Imprint>(),
        Mutant::HandoverIgnoresDone => {
            Suite("busy_while_held", properties::busy_while_held::<Imprint>)
        }
        Mutant::HandoverForgetsStop => Suite("a_full_arena_cancels_the_image", budget::cancel),
        Mutant::HandoverLateCancelWins => Suite(LATE_CANCEL, budget::late_cancel),
        Mutant::ImprintStoresBeforeLog
        | Mutant::ImprintNoReleaseFence
        | Mutant::ImprintNoAcquireFence
        | Mutant::ImprintReadsEndFirst
        | Mutant::ImprintClosesEarly => Model("imprint_images_reject"),
        Mutant::ImprintFencesBeforeBatch | Mutant::ImprintPublishesBatchEarly => {
            Model("imprint_batches_reject")
        }
        Mutant::ImprintEndsBeforeClear => Model("back_to_back_rejects"),
        Mutant::ImprintForgetsLaterVolumes
        | Mutant::ImprintNewestVolumeWins
        | Mutant::ImprintClosesForOthers
        | Mutant::ImprintForgetsOlderImages => {
            Suite("several_images_at_a_time", several::images_side_by_side)
        }
        Mutant::ImprintMergesAll | Mutant::ImprintMergesNoFrames => {
            Suite("a_kept_image_costs_no_more_with_each_begin", several::kept_over_begins)
        }
        Mutant::ImprintLooksForVolumesLast => Model("several_images_reject"),
        Mutant::ImprintLeadsPastUnmerged => Model("merged_volumes_reject"),
        Mutant::HandoverGetChecksStopFirst => Model("imprint_given_up_access_rejects"),
        Mutant::ImprintWaitsPastStop => Model("a_writer_that_waits_past_a_stop_hangs"),
        Mutant::HandoverFailsSilently => Model("a_writer_without_a_stop_hangs"),
        Mutant::ImprintNoFenceOnStop | Mutant::HandoverChecksStopFirst => {
            Model("imprint_over_budget_rejects")
        }
        Mutant::HandoverRelaxedBegin => Model("begin_publishes_rejects"),
        Mutant::HandoverRelaxedDone => Model("done_publishes_rejects"),
        Mutant::HandoverRelaxedCaptured => Model("captured_publishes_rejects"),
        Mutant::GateLooksBeforeItCounts
        | Mutant::GateStaysOpen
        | Mutant::GateForgetsReaders
        | Mutant::GateEmptyRelaxed
        | Mutant::GateLeavesRelaxed => Model("gate_rejects"),
        other => panic!("{other:?} has no judge"),
    }
}

/// The suite rejects what it is the judge of, and for no reason of its own: the same seeds pass on
/// the sound build.
#[test]
#[cfg_attr(miri, ignore = "its few images are too few to meet every mistake")]
fn the_suite_rejects_every_mutant() {
    for &mutant in Mutant::ALL {
        if format!("{mutant:?}").starts_with("UserFault") && is_missing::<Uffd>() {
            continue;
        }
        let judge = judge(mutant);
        let properties = match &judge {
            Judge::Suite(_, property) => std::slice::from_ref(property),
            Judge::Each(_, properties) => properties,
            Judge::Model(_) => continue,
        };
        for (number, property) in properties.iter().enumerate() {
            let rejected = (1..=SEEDS).find_map(|seed| {
                let property = *property;
                let sound = in_time(move || property(seed));
                assert_eq!(sound, Ok(()), "the sound build, seed {seed}");
                in_time(move || with_mutant(mutant, || property(seed))).err()
            });
            let why =
                rejected.unwrap_or_else(|| panic!("{mutant:?} is accepted by judge {number}"));
            println!("{mutant:?}: {why}");
        }
    }
}

/// The files of a folder of this crate, and of the folders in it.
fn files(folder: &str) -> Vec<PathBuf> {
    let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join(folder)];
    let mut files = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("a folder of the repository") {
            let path = entry.expect("readable").path();
            if path.is_dir() { folders.push(path) } else { files.push(path) }
        }
    }
    files
}

/// The text of all files of a folder of this crate.
fn source(folder: &str) -> String {
    let texts = files(folder).into_iter().map(std::fs::read_to_string);
    texts.map(|text| text.expect("a text")).collect()
}

/// Each test under herd7 is named where its orders are.
#[test]
#[cfg_attr(miri, ignore = "reads files")]
fn every_litmus_test_is_named_in_the_source() {
    let source = source("src");
    let tests = files("models/loom/litmus");
    let tests = tests.iter().filter(|path| path.extension().is_some_and(|it| it == "litmus"));
    let names: Vec<_> = tests.filter_map(|path| path.file_stem()?.to_str()).collect();
    assert!(names.len() > 10, "{names:?}");
    for name in names {
        assert!(source.contains(&format!("`litmus/{name}`")), "{name} is named nowhere");
    }
}

/// Each test under loom that the list names exists and runs the mutant, and each property of the
/// suite exists; `the_suite_rejects_every_mutant` runs those.
#[test]
#[cfg_attr(miri, ignore = "reads files")]
fn every_judge_is_at_work() {
    assert_eq!(idle_judges(&source("models/loom/tests"), &source("src/conformance")), [""; 0]);
}

/// A sentence for each mutant whose judge is not in these sources.
fn idle_judges(models: &str, suite: &str) -> Vec<String> {
    let mut found = Vec::new();
    for &mutant in Mutant::ALL {
        match judge(mutant) {
            Judge::Suite(name, _) | Judge::Each(name, _) => {
                if !suite.contains(&format!("fn {name}")) {
                    found.push(format!("no property {name}, which judges {mutant:?}"));
                }
            }
            Judge::Model(name) => {
                let body = models.split(&format!("fn {name}()")).nth(1);
                let body = body.and_then(|rest| rest.split("\n}\n").next()).unwrap_or_default();
                if !body.contains(&format!("Mutant::{mutant:?}")) {
                    found.push(format!("{name} lacks {mutant:?}"));
                }
            }
        }
    }
    found
}
