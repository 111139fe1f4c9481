//! The suite against broken builds: it must reject each one, and so must the models.
//!
//! Mistakes of memory ordering do not show on the machine at hand; loom finds them in
//! `crates/stillframe-loom`. The list below is checked against that crate's source and against
//! `docs/proofs.md`, so that no mutant is without a judge.

use crate::algorithms::{fork::Fork, imprint::Imprint, naive::Naive};
use crate::{Mutant, with_mutant};

use super::{Property, budget, properties};

const SEEDS: u64 = if cfg!(miri) { 2 } else { 8 };

/// Who rejects a mutant.
enum Judge {
    /// The suite, by a property.
    Suite(Property),
    /// A model under loom: the name of the test.
    #[allow(dead_code, reason = "names the test for readers")]
    Model(&'static str),
}

fn judge(mutant: Mutant) -> Judge {
    use Judge::{Model, Suite};
    match mutant {
        Mutant::NaiveCopiesLate => Suite(properties::every_word_of_every_image::<Naive>),
        Mutant::ForkCapturesParent => Suite(properties::every_word_of_every_image::<Fork>),
        Mutant::ImprintNeverLogs
        | Mutant::ImprintTrustsStaleHead
        | Mutant::ImprintFrameWithoutChain
        | Mutant::ImprintFrameAfterStore
        | Mutant::ImprintAppliesNewestOnly
        | Mutant::ImprintSavesHalfWord
        | Mutant::ImprintPublishesCursorEarly
        | Mutant::HandoverKeepsCaptured
        | Mutant::HandoverAdvancesFirst => Suite(properties::every_word_of_every_image::<Imprint>),
        Mutant::HandoverIgnoresDone => Suite(properties::busy_while_held::<Imprint>),
        Mutant::HandoverForgetsStop => Suite(budget::cancel),
        Mutant::HandoverLateCancelWins => Suite(budget::late_cancel),
        Mutant::ImprintStoresBeforeLog
        | Mutant::ImprintNoReleaseFence
        | Mutant::ImprintNoAcquireFence
        | Mutant::ImprintReadsHeadFirst => Model("imprint_images"),
        Mutant::ImprintNoFenceOnStop | Mutant::HandoverChecksStopFirst => {
            Model("imprint_over_budget")
        }
        Mutant::HandoverRelaxedBegin => Model("begin_publishes"),
        Mutant::HandoverRelaxedDone => Model("done_publishes"),
        Mutant::HandoverRelaxedCaptured => Model("captured_publishes"),
    }
}

/// The suite rejects what it is the judge of, and for no reason of its own: the same seeds pass on
/// the sound build.
#[test]
fn the_suite_rejects_every_mutant() {
    for &mutant in Mutant::ALL {
        let Judge::Suite(property) = judge(mutant) else { continue };
        if cfg!(miri) && mutant == Mutant::ForkCapturesParent {
            continue;
        }
        let rejected = (1..=SEEDS).find_map(|seed| {
            assert_eq!(property(seed), Ok(()), "the sound build, seed {seed}");
            with_mutant(mutant, || property(seed)).err()
        });
        let why = rejected.unwrap_or_else(|| panic!("{mutant:?} is accepted"));
        println!("{mutant:?}: {why}");
    }
}
