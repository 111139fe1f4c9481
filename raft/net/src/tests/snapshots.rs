//! A large snapshot travels beside heartbeats, and nobody is elected because of it.

use super::*;

/// A node that comes new gets a snapshot of `megabytes`, over a line of so many bytes a second.
async fn large_snapshot(megabytes: usize, bandwidth: Option<u64>) -> Result<(), String> {
    let folder = tempfile::tempdir().expect("a folder");
    let plan = Plan { words: megabytes << 17, chunk: 8 << 20, ..Plan::calm() };
    let group = Group::start(folder.path(), plan, 1, 2).await;
    let leader = group.led().await;
    let raft = &group.nodes[&leader].raft;
    for number in 0..50 {
        raft.client_write(command(number, 8)).await.expect("it leads");
    }
    raft.trigger().snapshot().await.expect("it runs");
    let wait = raft.wait(Some(Duration::from_secs(120)));
    let is_there = |metrics: &openraft::RaftMetrics<u64, Member>| metrics.snapshot.is_some();
    wait.metrics(is_there, "the image").await.expect("it comes");
    let upto = raft.metrics().borrow().snapshot.expect("it is there").index;
    raft.trigger().purge_log(upto).await.expect("it runs");
    let is_cut = |metrics: &openraft::RaftMetrics<u64, Member>| metrics.purged.is_some();
    wait.metrics(is_cut, "the purge").await.expect("it comes");
    let term = group.term();
    let faults = crate::proxy::Faults { bandwidth, ..Default::default() };
    group.proxies[&(leader, 3)].set(crate::proxy::Direction::ToTarget, faults);
    let member = Group::member(3);
    raft.add_learner(3, member, false).await.expect("it leads");
    let follower = &group.nodes[&3].raft;
    let mut written = 50;
    let mut silent = Duration::ZERO;
    let started = Instant::now();
    while follower.metrics().borrow().snapshot.is_none() {
        raft.client_write(command(written, 8)).await.map_err(|error| error.to_string())?;
        written += 1;
        let quorum = raft.metrics().borrow().millis_since_quorum_ack.unwrap_or(0);
        silent = silent.max(Duration::from_millis(quorum));
        if started.elapsed() > Duration::from_secs(100) {
            return Err("the snapshot does not come".into());
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    println!("{written} writes, {:?} for the snapshot, quorum {silent:?}", started.elapsed());
    if group.term() != term {
        return Err(format!("an election: term {}, not {term}", group.term()));
    }
    let words = group.agreed().await;
    assert!(words[..written as usize].iter().all(|&count| count == 1));
    group.end().await;
    Ok(())
}

#[test]
fn a_large_snapshot_causes_no_election() {
    let _watchdog = stillframe_peers::Watchdog::start();
    block_on(large_snapshot(96, None)).expect("no election");
}

/// The same where a chunk takes many heartbeats.
#[test]
fn a_snapshot_on_a_slow_connection_causes_no_election() {
    let _watchdog = stillframe_peers::Watchdog::start();
    block_on(large_snapshot(4, Some(3 << 20))).expect("no election");
}

/// A voter that was away for a moment gets a snapshot that takes two election timeouts.
pub(super) async fn voter_gets_snapshot() -> Result<(), String> {
    for _ in 0..10 {
        if try_voter().await? {
            return Ok(());
        }
        println!("the machine was so busy that it was away for too long");
    }
    Err("it was always away for too long".into())
}

/// The same; false if somebody was elected before the snapshot is sent.
async fn try_voter() -> Result<bool, String> {
    let folder = tempfile::tempdir().expect("a folder");
    let plan = Plan { words: 4 << 17, chunk: 8 << 20, heartbeat: 300, ..Plan::default() };
    let mut group = Group::start(folder.path(), plan, 1, 3).await;
    let leader = group.led().await;
    let (term, away) = (group.term(), leader % 3 + 1);
    group.deafen(away).await;
    let raft = group.nodes[&leader].raft.clone();
    let wait = raft.wait(Some(Duration::from_secs(60)));
    for number in 0..20 {
        let _ = raft.client_write(command(number, 8)).await; // it may have lost the lead
    }
    raft.trigger().snapshot().await.expect("it runs");
    let has_image = |metrics: &openraft::RaftMetrics<u64, Member>| metrics.snapshot.is_some();
    wait.metrics(has_image, "the image").await.expect("it comes");
    let upto = raft.metrics().borrow().snapshot.expect("it is there").index;
    raft.trigger().purge_log(upto).await.expect("it runs");
    let is_cut = |metrics: &openraft::RaftMetrics<u64, Member>| metrics.purged.is_some();
    let _ = wait.metrics(is_cut, "the purge").await;
    // 14 seconds.
    let faults = crate::proxy::Faults { bandwidth: Some(300_000), ..Default::default() };
    group.proxies[&(leader, away)].set(crate::proxy::Direction::ToTarget, faults);
    let hears = group.term() == term;
    group.listen_again(away).await;
    let started = Instant::now();
    while hears && group.nodes[&away].raft.metrics().borrow().snapshot.is_none() {
        if group.term() != term {
            return Err(format!("an election: term {}, not {term}", group.term()));
        }
        if started.elapsed() > Duration::from_secs(100) {
            return Err("the snapshot does not come".into());
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    println!("{:?} for the snapshot", started.elapsed());
    group.end().await;
    Ok(hears)
}

#[test]
fn a_voter_that_gets_a_snapshot_asks_for_no_votes() {
    let _watchdog = stillframe_peers::Watchdog::start();
    block_on(voter_gets_snapshot()).expect("no election");
}

/// Receivers share the rate, and what is on its way to them is known until a while afterwards.
#[test]
fn snapshots_go_at_a_rate() {
    let outgoing = crate::outgoing::Outgoing::new(std::num::NonZeroU64::new(1 << 20));
    block_on(async {
        let started = Instant::now();
        drop(outgoing.chunk(2, 7, 200 << 10).await);
        let under_way = outgoing.chunk(3, 9, 100 << 10).await;
        drop(outgoing.chunk(2, 7, 1).await);
        assert!(started.elapsed() >= Duration::from_millis(292), "{:?}", started.elapsed());
        assert_eq!(outgoing.indices(), [7, 9]);
        drop(under_way);
        assert_eq!(outgoing.indices(), [7, 9]);
    });
}
