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
    group.proxies[&(leader, 3)].set(crate::proxy::Way::There, faults);
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
