//! Groups of three: random requests by several clients, members that lag and come back by a
//! snapshot under load, restarts; in the end all are equal.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use openraft::{Config, Raft, SnapshotPolicy};
use stillframe_openraft::Local;

use super::*;

struct Group<'f> {
    folder: &'f Path,
    nodes: Local<Types>,
    machines: BTreeMap<u64, Machine>,
}

impl Group<'_> {
    async fn start(&mut self, node: u64) {
        let config = Config {
            heartbeat_interval: 100,
            election_timeout_min: 1_000,
            election_timeout_max: 2_000,
            install_snapshot_timeout: 5_000,
            snapshot_max_chunk_size: 8 << 10,
            snapshot_policy: SnapshotPolicy::LogsSinceLast(60),
            max_in_snapshot_log_to_keep: 10,
            ..Config::default()
        };
        let started = Instant::now();
        let (log, machine) = loop {
            match open(self.folder.join(node.to_string()), options()) {
                Ok(opened) => break opened,
                // Tasks of its last life let go of the directory a little later.
                Err(Error::Durability(stillframe_durability::Error::Locked { .. }))
                    if started.elapsed() < Duration::from_secs(60) =>
                {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
                Err(error) => panic!("node {node}: {error}"),
            }
        };
        self.machines.insert(node, machine.clone());
        let config = Arc::new(config.validate().expect("sound"));
        let raft = Raft::new(node, config, self.nodes.clone(), log, machine).await;
        self.nodes.add(node, raft.expect("it starts"));
    }

    async fn stop(&mut self, node: u64) {
        self.machines.remove(&node);
        let raft = self.nodes.remove(&node).expect("it runs");
        raft.shutdown().await.expect("it ends");
    }

    async fn leader(&self) -> Raft<Types> {
        loop {
            for id in self.nodes.ids() {
                let Some(node) = self.nodes.get(&id) else { continue };
                if node.ensure_linearizable().await.is_ok() {
                    return node;
                }
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Waits until all have applied what the leader has, and compares them.
    async fn agree(&self, what: &str) {
        let leader = self.leader().await;
        let done = leader.client_write(Command::new(&[b"INCR", b"agree"])).await.expect("it leads");
        for (node, machine) in &self.machines {
            let raft = self.nodes.get(node).expect("it runs");
            let wait = raft.wait(Some(Duration::from_secs(60)));
            let all = wait.applied_index_at_least(Some(done.log_id.index), "all").await;
            all.unwrap_or_else(|error| panic!("{what}: node {node}: {error}"));
            let (found, wanted) = (digest(machine), digest(&self.machines[&1]));
            assert_eq!(found, wanted, "{what}: node {node} and 1 at {:?}", done.log_id);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn members_that_lag_and_restart_end_equal() {
    let _watchdog = stillframe_peers::Watchdog::start();
    let folder = tempfile::tempdir().expect("a folder");
    let (nodes, machines) = (Local::default(), BTreeMap::new());
    let mut group = Group { folder: folder.path(), nodes, machines };
    for node in 1..=3 {
        group.start(node).await;
    }
    let members = (1..=3).map(|node| (node, BasicNode::default()));
    let first = group.nodes.get(&1).expect("it runs");
    first.initialize(members.collect::<BTreeMap<_, _>>()).await.expect("it is new");
    let mut random = Random::new("group");
    for round in 0..stillframe_peers::rounds(4, 60) {
        let leader = group.leader().await;
        let down = 1 + random.below(3) as u64;
        group.stop(down).await;
        let leader =
            if leader.metrics().borrow().id == down { group.leader().await } else { leader };
        let seed = random.next() % 1_000_000;
        write(&leader, seed, 250).await;
        let purged = leader.metrics().borrow().purged;
        let load = tokio::spawn(async move { write(&leader, seed + 1_000, 100).await });
        group.start(down).await;
        load.await.expect("no panic");
        group.agree(&format!("round {round}")).await;
        println!("round {round}: node {down} was down, the log was cut at {purged:?}");
    }
    for node in 1..=3 {
        group.stop(node).await;
    }
    for node in 1..=3 {
        group.start(node).await; // from images and logs alone
    }
    group.agree("after the restart").await;
    for node in 1..=3 {
        group.stop(node).await;
    }
}

/// Commands of several clients, stamped by clocks that differ.
async fn write(leader: &Raft<Types>, seed: u64, count: u64) {
    let clients = (0..4).map(|client| {
        let leader = leader.clone();
        tokio::spawn(async move {
            for index in 0..count / 4 {
                let mut command = random_command(seed + index * 4 + client);
                command.now_ms += 1_000_000 * (client as i64 % 2) / 1_000;
                // A leader that has just been elected may not know it yet.
                let _ = leader.client_write(command).await;
            }
        })
    });
    for client in clients.collect::<Vec<_>>() {
        client.await.expect("no panic");
    }
}
