//! Each planted mistake is found by the tests that find nothing else.

use super::hostile::{listener_refuses, refusals};
use super::requests::{
    appends_are_cut, damage_is_found, heartbeats_pass, replies_find_their_requests, silence_ends,
};
use crate::mutant::{Mutant, with_mutant};

#[test]
fn mistakes_are_rejected() {
    let _watchdog = stillframe_peers::Watchdog::start();
    for &mutant in Mutant::ALL {
        let found = with_mutant(mutant, || {
            // On this thread: what it starts makes the mistake.
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.expect("a runtime").block_on(async {
                match mutant {
                    Mutant::MatchesByOrder => replies_find_their_requests(1).await,
                    Mutant::TrustsBytes => damage_is_found().await,
                    Mutant::TakesAnyTarget | Mutant::TakesAnyGroup => {
                        listener_refuses().await.and(refusals().await)
                    }
                    Mutant::HidesCut => appends_are_cut().await,
                    Mutant::KeepsSilent => silence_ends().await,
                    Mutant::SharesLane => heartbeats_pass().await,
                }
            })
        });
        let found = found.expect_err(&format!("{mutant:?} was not found"));
        println!("{mutant:?}: {found}");
    }
}
