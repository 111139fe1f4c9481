//! Each planted mistake is found by the tests that find nothing else.

use std::sync::Mutex;
use std::thread;

use super::certificates::Certificates;
use super::hostile::{listener_refuses, promises_take_no_memory, refusals};
use super::identities::{
    groups_do_not_mix, keys_stay, names_stay, replaced_directories_are_refused,
    strangers_take_no_part,
};
use super::requests::{
    appends_are_cut, damage_is_found, heartbeats_pass, questions_pass, replies_find_their_requests,
    silence_ends, slow_appends_arrive,
};
use super::snapshots::voter_gets_snapshot;
use crate::identity::tests::who_was_removed_comes_with_another_directory;
use crate::message::tests::nodes_speak_for_themselves;
use crate::mutant::{Mutant, with_mutant};

#[test]
fn mistakes_are_rejected() {
    let _watchdog = stillframe_peers::Watchdog::start();
    let rest = Mutex::new(Mutant::ALL.iter());
    // Most of them wait for silence to be noticed, and they share nothing.
    thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(|| {
                while let Some(&mutant) = { rest.lock().expect("no panic").next() } {
                    is_rejected(mutant);
                }
            });
        }
    });
}

fn is_rejected(mutant: Mutant) {
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
                Mutant::ReservesPromises => promises_take_no_memory().await,
                Mutant::GivesUpAppends => slow_appends_arrive().await,
                Mutant::SilentBesideSnapshots => voter_gets_snapshot().await,
                Mutant::MixesGroups => groups_do_not_mix().await,
                Mutant::TakesWhileCountedOn | Mutant::ForgetsWhomItMet => {
                    replaced_directories_are_refused().await
                }
                Mutant::BelievesStrangers => strangers_take_no_part().await,
                Mutant::ForgetsNames => match Certificates::new("mistakes_are_rejected") {
                    Some(files) => names_stay(&files).await,
                    None => Err("it takes openssl to find it".into()),
                },
                Mutant::TakesAnyKey | Mutant::BindsNewConnections => {
                    match Certificates::new("mistakes_are_rejected") {
                        Some(files) => keys_stay(&files).await,
                        None => Err("it takes openssl to find it".into()),
                    }
                }
                Mutant::RemembersRemoved => who_was_removed_comes_with_another_directory(),
                Mutant::HidesCut => appends_are_cut().await,
                Mutant::KeepsSilent => silence_ends().await,
                Mutant::SharesLane => heartbeats_pass().await,
                Mutant::SharesBulk => questions_pass().await,
                Mutant::BelievesVotes => nodes_speak_for_themselves(),
            }
        })
    });
    let found = found.expect_err(&format!("{mutant:?} was not found"));
    println!("{mutant:?}: {found}");
}
