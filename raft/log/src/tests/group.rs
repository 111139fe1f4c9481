//! Groups of three, with openraft between them: images while entries are applied, members that
//! fall behind and come back, by a network in memory.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Instant;

use openraft::{Config, Raft, SnapshotPolicy};

use super::*;
use crate::{Batched, Local, Writer};

/// A group in a folder, one directory a member.
struct Group<'f> {
    folder: &'f Path,
    nodes: Local<Types>,
    banks: BTreeMap<u64, Bank>,
    policy: SnapshotPolicy,
}

impl<'f> Group<'f> {
    fn new(folder: &'f Path, policy: SnapshotPolicy) -> Self {
        Self { folder, nodes: Local::default(), banks: BTreeMap::new(), policy }
    }

    async fn start(&mut self, node: u64) {
        let config = Config {
            heartbeat_interval: 100,
            election_timeout_min: 1_000,
            election_timeout_max: 2_000,
            install_snapshot_timeout: 5_000,
            snapshot_max_chunk_size: 16 << 10,
            snapshot_policy: self.policy.clone(),
            max_in_snapshot_log_to_keep: 10,
            ..Config::default()
        };
        let folder = self.folder.join(node.to_string());
        let (log, bank) = open(folder, options(true)).expect("it is sound");
        self.banks.insert(node, bank.clone());
        let network = self.nodes.clone();
        let config = Arc::new(config.validate().expect("sound"));
        let raft = Raft::new(node, config, network, log, bank).await.expect("it starts");
        self.nodes.add(node, raft);
    }

    async fn stop(&mut self, node: u64) {
        let raft = self.nodes.remove(&node).expect("it runs");
        raft.shutdown().await.expect("it ends");
        drop(raft);
        self.banks.remove(&node);
        // Its tasks let go of the directory a little later.
        let folder = self.folder.join(node.to_string());
        let free = || {
            let opened = open::<Types, WordState<Chain>>(&folder, options(true));
            !matches!(opened, Err(Error::Durability(stillframe_durability::Error::Locked { .. })))
        };
        until("the directory is free", free).await;
    }

    fn node(&self, node: u64) -> Raft<Types> {
        self.nodes.get(&node).expect("it runs")
    }

    async fn leader(&self) -> Raft<Types> {
        loop {
            let metrics = self.node(self.nodes.ids()[0]).metrics().borrow().clone();
            match metrics.current_leader.and_then(|leader| self.nodes.get(&leader)) {
                Some(leader) if leader.ensure_linearizable().await.is_ok() => return leader,
                _ => tokio::time::sleep(Duration::from_millis(20)).await,
            }
        }
    }

    fn words(&self, node: u64) -> Vec<u64> {
        let all = |bank: &WordState<Chain>| (0..WORDS).map(|at| bank.read(at)).collect();
        self.banks[&node].read(all).unwrap_or_else(|_| vec![0; WORDS]) // it installs a snapshot
    }
}

async fn until(what: &str, mut is: impl FnMut() -> bool) {
    let started = Instant::now();
    while !is() {
        assert!(started.elapsed() < Duration::from_secs(120), "not within two minutes: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Members fall behind the log, and come back by a snapshot, under writes, with images all the
/// time; in the end all have the same, and all that was acknowledged.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn members_that_fall_behind_come_back_by_a_snapshot() {
    let _watchdog = stillframe_peers::Watchdog::start();
    let folder = tempfile::tempdir().expect("a folder");
    let mut group = Group::new(folder.path(), SnapshotPolicy::LogsSinceLast(50));
    for node in 1..=3 {
        group.start(node).await;
    }
    let members = (1..=3).map(|node| (node, BasicNode::default()));
    group.node(1).initialize(members.collect::<BTreeMap<_, _>>()).await.expect("it is new");
    let mut random = Random::new("group");
    let mut acknowledged = 0;
    for round in 0..stillframe_peers::rounds(4, 60) {
        let leader = group.leader().await;
        let down = (1..=3).filter(|&node| node != leader.metrics().borrow().id);
        let down = down.collect::<Vec<_>>()[random.below(2)];
        group.stop(down).await;
        let leader = group.leader().await;
        for _ in 0..300 {
            leader.client_write(random.next()).await.expect("two of three are a majority");
            acknowledged += 1;
        }
        let index = |raft: &Raft<Types>| {
            let metrics = raft.metrics().borrow().clone();
            (end_of(metrics.snapshot), end_of(metrics.purged))
        };
        until("the log is cut", || index(&leader).1 > 0).await;
        group.start(down).await;
        for _ in 0..50 {
            leader.client_write(random.next()).await.expect("there is a majority");
            acknowledged += 1;
        }
        let here = |node| group.words(node)[0];
        until("all have applied all", || (1..=3).all(|node| here(node) == acknowledged)).await;
        let words = group.words(1);
        assert!((2..=3).all(|node| group.words(node) == words), "round {round}");
        println!("round {round}: node {down} was down, images and purged: {:?}", index(&leader));
    }
    for node in 1..=3 {
        group.stop(node).await;
    }
    for node in 1..=3 {
        group.start(node).await; // from images and logs alone
    }
    let leader = group.leader().await;
    leader.client_write(7).await.expect("they are all there");
    let here = |node| group.words(node)[0];
    until("all is there again", || (1..=3).all(|node| here(node) == acknowledged + 1)).await;
}

/// Clients at full speed while images follow one another: each image is what the log makes up to
/// its label, and nobody is elected because of them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn images_are_those_of_their_labels_while_entries_are_applied() {
    let _watchdog = stillframe_peers::Watchdog::start();
    let folder = tempfile::tempdir().expect("a folder");
    let mut group = Group::new(folder.path(), SnapshotPolicy::Never);
    group.start(1).await;
    let members = BTreeMap::from([(1, BasicNode::default())]);
    group.node(1).initialize(members).await.expect("it is new");
    let leader = group.leader().await;
    // The machine's words after each number of commands.
    let mut states = vec![vec![0; WORDS]];
    let commands: Vec<u64> = (0..3_000).map(|index| Random::with_seed(index).next()).collect();
    for &command in &commands {
        let mut words = states[states.len() - 1].clone();
        let (count, sum, place) = step(words[0], words[1], command);
        (words[0], words[1]) = (count, sum);
        words[place] = words[place].wrapping_add(command);
        states.push(words);
    }
    let writer = {
        let leader = leader.clone();
        tokio::spawn(async move {
            for command in commands {
                leader.client_write(command).await.expect("it is the leader");
            }
        })
    };
    let mut bank = group.banks[&1].clone();
    let (mut images, mut counts) = (0, BTreeSet::new());
    while !writer.is_finished() {
        let before = bank.applied_state().await.expect("sound").0;
        leader.trigger().snapshot().await.expect("it runs");
        let metrics = leader.wait(Some(Duration::from_secs(60)));
        let is_new = |snapshot: Option<LogId<u64>>| snapshot >= before;
        metrics.metrics(|metrics| is_new(metrics.snapshot), "the image").await.expect("it comes");
        let mut sent = bank.get_current_snapshot().await.expect("sound").expect("one is there");
        let copy = tempfile::tempdir().expect("a folder");
        let (_log, mut other): (Log, Bank) = open(copy.path(), options(true)).expect("it is new");
        let mut coming = other.begin_receiving_snapshot().await.expect("sound");
        let mut random = Random::with_seed(images);
        send(&mut sent.snapshot, &mut coming, &mut random).await.expect("sound");
        // Compares the label with what is in the state.
        other.install_snapshot(&sent.meta, coming).await.expect("it is what it says");
        let words: Vec<u64> =
            other.read(|bank| (0..WORDS).map(|at| bank.read(at)).collect()).expect("sound");
        assert!(words == states[words[0] as usize], "no state that ever was");
        // Index 0 is the membership, 1 the leader's blank entry.
        assert_eq!(end_of(sent.meta.last_log_id), words[0] + 2, "the label is another's");
        counts.insert(words[0]);
        images += 1;
    }
    writer.await.expect("all were written");
    println!("{images} images, {} of different moments", counts.len());
    assert!(counts.len() > 3, "the writer was over too soon");
    assert_eq!(leader.metrics().borrow().current_term, 1);
}

/// Commands that come while an entry is on its way share the next one, and each gets its own reply.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_writer_puts_several_commands_into_an_entry() {
    openraft::declare_raft_types!(
        pub(crate) Many: D = Vec<u64>, R = Vec<u64>, Node = BasicNode, SnapshotData = SnapshotData
    );
    let _watchdog = stillframe_peers::Watchdog::start();
    let folder = tempfile::tempdir().expect("a folder");
    let words = stillframe_durability::Options::words(WORDS);
    let opened = open::<Many, WordState<Batched<Chain>>>(folder.path(), Options::state(words));
    let (log, bank) = opened.expect("it is new");
    let config = Arc::new(Config::default().validate().expect("sound"));
    let raft = Raft::new(1, config, Local::<Many>::default(), log, bank.clone()).await;
    let raft = raft.expect("it starts");
    let writer = Writer::new(raft.clone(), 100);
    writer.write(1).await.expect_err("there is no leader yet");
    raft.initialize(BTreeMap::from([(1, BasicNode::default())])).await.expect("it is new");
    raft.wait(None).current_leader(1, "it votes for itself").await.expect("it does");
    let before = raft.metrics().borrow().last_log_index.unwrap_or(0);
    let writes = (0..1_000).map(|command| {
        let writer = writer.clone();
        tokio::spawn(async move { writer.write(command).await.expect("it leads") })
    });
    let mut replies = Vec::new();
    for write in writes.collect::<Vec<_>>() {
        replies.push(write.await.expect("no panic"));
    }
    replies.sort_unstable();
    assert!(replies.into_iter().eq(1..=1_000), "each has counted once");
    let entries = raft.metrics().borrow().last_log_index.unwrap_or(0) - before;
    println!("1000 commands in {entries} entries");
    assert!((10..1_000).contains(&entries), "at most 100 in one, and some together");
    raft.shutdown().await.expect("it ends");
}
