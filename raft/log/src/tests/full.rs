//! A full disk below openraft: a full log stops the member by an error that names it, and an image
//! that finds no room costs nothing but that image.

use std::collections::BTreeMap;

use openraft::{Config, Raft, SnapshotPolicy};

use super::*;
use crate::Local;

async fn member(disk: &SimulatedDisk) -> (Raft<Types>, Bank) {
    let (log, bank) = start(disk, false).expect("it is whole");
    let config = Config { snapshot_policy: SnapshotPolicy::Never, ..Config::default() };
    let config = Arc::new(config.validate().expect("sound"));
    let raft = Raft::new(1, config, Local::default(), log, bank.clone()).await;
    let raft = raft.expect("it starts");
    let _ = raft.initialize(BTreeMap::from([(1, BasicNode::default())])).await; // at first only
    raft.wait(None).current_leader(1, "it votes for itself").await.expect("it does");
    // A leader may still have entries of its last life to apply.
    raft.ensure_linearizable().await.expect("it leads alone");
    (raft, bank)
}

fn applied(bank: &Bank) -> u64 {
    bank.read(|bank| bank.read(0)).expect("it has a state")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_log_stops_the_member_which_has_all_that_it_acknowledged() {
    let _watchdog = stillframe_peers::Watchdog::start();
    let disk = SimulatedDisk::default();
    let mut acknowledged = 0;
    for room in [3_000, 20_000] {
        let (raft, bank) = member(&disk).await;
        assert!(applied(&bank) >= acknowledged, "{} of {acknowledged}", applied(&bank));
        disk.set_room(Some(disk.used() + room));
        let error = loop {
            match raft.client_write(7).await {
                Ok(_) => acknowledged += 1,
                Err(error) => break error.to_string(),
            }
        };
        let metrics = raft.metrics().borrow().clone();
        let state = format!("{:?}", metrics.running_state);
        assert!(
            error.contains("No space left") || state.contains("No space left"),
            "{error} {state}"
        );
        assert!(state.contains("simulated"), "it names the file: {state}");
        let _ = raft.shutdown().await; // it has ended
        drop((raft, bank));
        disk.set_room(None);
        // Tasks of its last life let go of the directory a little later.
        while matches!(
            start(&disk, false),
            Err(Error::Durability(stillframe_durability::Error::Locked { .. }))
        ) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
    let (raft, bank) = member(&disk).await;
    assert!(applied(&bank) >= acknowledged, "{} of {acknowledged}", applied(&bank));
    assert!(acknowledged > 20, "{acknowledged}");
    raft.client_write(7).await.expect("there is room");
    raft.shutdown().await.expect("it ends");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_image_without_room_costs_that_image_alone() {
    let _watchdog = stillframe_peers::Watchdog::start();
    let disk = SimulatedDisk::default().with_pieces(10_000);
    let (raft, mut bank) = member(&disk).await;
    raft.client_write(7).await.expect("it leads");
    let first = snapshot(&raft, &mut bank).await;
    for round in 0..3 {
        for _ in 0..20 {
            raft.client_write(round).await.expect("it leads");
        }
        // Less than an image takes, and enough for the log.
        disk.set_room(Some(disk.used() + 40_000));
        let mut builder = bank.get_snapshot_builder().await;
        let built = builder.build_snapshot().await.expect("the one before");
        assert_eq!(built.meta.last_log_id, first, "round {round}");
        for _ in 0..20 {
            raft.client_write(round).await.expect("it goes on");
        }
    }
    let names = disk.platter().names_in("state-1").expect("it is there");
    assert!(!names.iter().any(|name| name.starts_with("gone-")), "{names:?}");
    disk.set_room(None);
    assert!(snapshot(&raft, &mut bank).await > first, "there is room again");
    let metrics = raft.metrics().borrow().clone();
    assert!(metrics.running_state.is_ok() && metrics.current_term == 1);
    raft.shutdown().await.expect("it ends");
}

async fn snapshot(raft: &Raft<Types>, bank: &mut Bank) -> Option<LogId<u64>> {
    let before = bank.applied_state().await.expect("sound").0;
    raft.trigger().snapshot().await.expect("it runs");
    let wait = raft.wait(Some(Duration::from_secs(60)));
    let is_there = |metrics: &openraft::RaftMetrics<u64, BasicNode>| metrics.snapshot >= before;
    wait.metrics(is_there, "the image").await.expect("it comes").snapshot
}
