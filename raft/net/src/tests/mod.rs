//! Groups of three over real sockets, through proxies that do what bad networks do.

mod certificates;
mod group;
mod hostile;
mod identities;
mod mutants;
mod requests;
mod snapshots;

use std::collections::BTreeMap;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use openraft::network::RaftNetworkFactory;
use openraft::{Config, Raft, SnapshotPolicy};
use stillframe_durability::{LogOptions, Policy};
use stillframe_openraft::{Machine, Options, SnapshotData, StateMachine, WordState, Words, open};
use tokio::runtime::Runtime;

use crate::proxy::Proxy;
use crate::{Identity, Link, Listener, Member, Network, Sender, Serving, Settings, Tls};

openraft::declare_raft_types!(
    pub(crate) Types: D = Vec<u8>, R = u64, Node = Member, SnapshotData = SnapshotData
);

const GROUP: &str = "test";

/// Counts how often each number was applied; a command begins with its number.
pub(crate) struct Counts;

impl Machine for Counts {
    type Command = Vec<u8>;
    type Reply = u64;
    fn open(_: &mut Words<'_>) -> Self {
        Self
    }
    fn apply(&mut self, words: &mut Words<'_>, command: Vec<u8>) -> u64 {
        let number = command.first_chunk().map_or(0, |number| u64::from_le_bytes(*number));
        let place = number as usize % words.len();
        words.write(place, words.read(place) + 1);
        words.read(place)
    }
}

/// A command of so many bytes.
fn command(number: u64, bytes: usize) -> Vec<u8> {
    let mut command = number.to_le_bytes().to_vec();
    command.resize(bytes.max(8), 7);
    command
}

type Counter = StateMachine<Types, WordState<Counts>>;

/// A network in which each node is reached at an address of the sender's own.
struct Routed {
    network: Network,
    routes: BTreeMap<u64, String>,
}

impl RaftNetworkFactory<Types> for Routed {
    type Network = Link;

    async fn new_client(&mut self, target: u64, node: &Member) -> Link {
        let raft = self.routes.get(&target).unwrap_or(&node.raft).clone();
        let node = Member { raft, client: node.client.clone() };
        RaftNetworkFactory::<Types>::new_client(&mut self.network, target, &node).await
    }
}

struct Node {
    raft: Raft<Types>,
    counter: Counter,
    network: Network,
    serving: Option<Serving>,
}

/// How the nodes of a group are kept.
#[derive(Clone)]
struct Plan {
    words: usize,
    tls: Option<Tls>,
    snapshots: SnapshotPolicy,
    /// Of node 1.
    identity: Identity,
    /// In milliseconds.
    heartbeat: u64,
    chunk: u64,
}

impl Default for Plan {
    fn default() -> Self {
        let (tls, snapshots) = (None, SnapshotPolicy::Never);
        let identity = Identity::default();
        Self { words: 20_000, tls, snapshots, identity, heartbeat: 100, chunk: 1 << 20 }
    }
}

impl Plan {
    /// Nobody is elected because the machine is busy.
    fn calm() -> Self {
        Self { heartbeat: 600, ..Self::default() }
    }

    fn settings(&self, node: u64) -> Settings {
        let mut settings = Settings::new(node, GROUP);
        settings.tls = self.tls.clone();
        if node == 1 {
            settings.identity = self.identity.clone();
        }
        settings.limits.silence = Duration::from_millis(1_000);
        settings.limits.handshake = Duration::from_millis(1_000);
        settings
    }

    fn config(&self) -> Arc<Config> {
        let config = Config {
            heartbeat_interval: self.heartbeat,
            election_timeout_min: self.heartbeat * 6,
            election_timeout_max: self.heartbeat * 12,
            install_snapshot_timeout: 20_000,
            snapshot_max_chunk_size: self.chunk,
            snapshot_policy: self.snapshots.clone(),
            max_in_snapshot_log_to_keep: 10,
            ..Config::default()
        };
        Arc::new(config.validate().expect("sound"))
    }
}

/// Three nodes in a folder, with a proxy on each way from one to another.
struct Group {
    folder: PathBuf,
    plan: Plan,
    proxies: BTreeMap<(u64, u64), Proxy>,
    nodes: BTreeMap<u64, Node>,
}

impl Group {
    /// Starts nodes 1 to 3 and makes `first` of them the group.
    async fn start(folder: &Path, plan: Plan, seed: u64, first: u64) -> Self {
        let (folder, proxies, nodes) = (folder.to_owned(), BTreeMap::new(), BTreeMap::new());
        let mut group = Self { folder, plan, proxies, nodes };
        let mut listeners = BTreeMap::new();
        for node in 1..=3 {
            let listener = Listener::bind("127.0.0.1:0", group.plan.settings(node)).await;
            listeners.insert(node, listener.expect("a port is free"));
        }
        for from in 1..=3 {
            for (&to, listener) in &listeners {
                let proxy = Proxy::start(listener.address(), seed ^ (from * 16 + to)).await;
                group.proxies.insert((from, to), proxy.expect("a port is free"));
            }
        }
        for (node, listener) in listeners {
            group.begin(node, listener).await;
        }
        let members = (1..=first).map(|node| (node, Self::member(node)));
        let members = members.collect::<BTreeMap<_, _>>();
        group.nodes[&1].raft.initialize(members).await.expect("it is new");
        group
    }

    /// Nobody is there: the routes lead elsewhere.
    fn member(node: u64) -> Member {
        Member { raft: format!("127.0.0.1:{node}"), client: format!("127.0.0.1:{node}") }
    }

    async fn begin(&mut self, node: u64, listener: Listener) {
        let settings = self.plan.settings(node);
        let network = Network::new(settings).expect("sound");
        let proxies = self.proxies.iter().filter(|((from, _), _)| *from == node);
        let routes = proxies.map(|((_, to), proxy)| (*to, proxy.address().to_string())).collect();
        let routed = Routed { network: network.clone(), routes };
        let words = stillframe_durability::Options::words(self.plan.words).load_threads(1);
        let log = LogOptions::policy(Policy::Always);
        let options = Options::<WordState<Counts>>::state(words).log(log);
        let (log, counter) = open(self.folder.join(node.to_string()), options).expect("sound");
        let raft = Raft::new(node, self.plan.config(), routed, log, counter.clone()).await;
        let raft = raft.expect("it starts");
        let echo = move |from: Sender, request: Vec<u8>| async move {
            let Sender { node: sender, is_of_group } = from;
            match request.first() {
                Some(b'!') => Err(format!("node {node} refuses node {sender}")),
                Some(b'?') if is_of_group => Ok(format!("{sender} is of the group").into_bytes()),
                Some(b'?') => Ok(format!("{sender} is not of the group").into_bytes()),
                _ => Ok(request),
            }
        };
        let serving = Some(listener.serve(raft.clone(), echo));
        self.nodes.insert(node, Node { raft, counter, network, serving });
    }

    /// Listens no longer, and cuts what is there; the node lives on.
    async fn deafen(&mut self, node: u64) {
        let serving = self.nodes.get_mut(&node).and_then(|node| node.serving.take());
        serving.expect("it listens").stop().await;
    }

    /// Listens again, at another port.
    async fn listen_again(&mut self, node: u64) {
        let settings = self.plan.settings(node);
        let listener = Listener::bind("127.0.0.1:0", settings).await.expect("a port is free");
        for (_, proxy) in self.proxies.iter().filter(|((_, to), _)| *to == node) {
            proxy.retarget(listener.address());
        }
        let kept = self.nodes.get_mut(&node).expect("it is there");
        let echo = |_, request| async move { Ok(request) };
        kept.serving = Some(listener.serve(kept.raft.clone(), echo));
    }

    fn heal(&self) {
        self.proxies.values().for_each(|proxy| proxy.heal());
    }

    fn term(&self) -> u64 {
        let terms = self.nodes.values().map(|node| node.raft.metrics().borrow().current_term);
        terms.max().unwrap_or_default()
    }

    /// A node that leads, as it says.
    fn leader(&self) -> Option<u64> {
        let leads =
            |node: &&u64| self.nodes[node].raft.metrics().borrow().current_leader == Some(**node);
        self.nodes.keys().find(leads).copied()
    }

    async fn led(&self) -> u64 {
        let started = Instant::now();
        loop {
            if let Some(leader) = self.leader()
                && self.nodes[&leader].raft.ensure_linearizable().await.is_ok()
            {
                return leader;
            }
            assert!(started.elapsed() < Duration::from_secs(60), "nobody leads for a minute");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    fn words(&self, node: u64) -> Vec<u64> {
        let words = self.plan.words;
        let all = |counter: &WordState<Counts>| (0..words).map(|at| counter.read(at)).collect();
        self.nodes[&node].counter.read(all).unwrap_or_default() // it installs a snapshot
    }

    /// Waits until all have applied what the leader has; compares them, and says what they have.
    async fn agreed(&self) -> Vec<u64> {
        let leader = self.led().await;
        let index = self.nodes[&leader].raft.metrics().borrow().last_log_index;
        for node in self.nodes.values() {
            let wait = node.raft.wait(Some(Duration::from_secs(60)));
            wait.applied_index_at_least(index, "all").await.expect("it catches up");
        }
        let words = self.words(leader);
        for &node in self.nodes.keys() {
            assert!(self.words(node) == words, "node {node} has other words than {leader}");
        }
        words
    }

    async fn end(self) {
        for node in self.nodes.into_values() {
            node.raft.shutdown().await.expect("it ends");
        }
    }
}

async fn until(what: &str, mut is: impl FnMut() -> bool) {
    let started = Instant::now();
    while !is() {
        assert!(started.elapsed() < Duration::from_secs(60), "not within a minute: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Runs `what` on a runtime of two threads, from this one: it makes what this thread is to make.
fn block_on<T>(what: impl Future<Output = T>) -> T {
    let runtime: Runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(what)
}
