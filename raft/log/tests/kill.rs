//! SIGKILL of a member at any moment of an install: between any two chunks of a snapshot, and
//! while the files are checked and become the state.
//!
//! This program runs itself: the child is a member with a directory of its own, a learner that the
//! parent, who leads and writes without pause, reaches by TCP. The leader's log is short, so what
//! comes back always needs a snapshot.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use openraft::error::{InstallSnapshotError, RPCError, RaftError, RemoteError, Unreachable};
use openraft::network::{RPCOption, RaftNetwork, RaftNetworkFactory};
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, InstallSnapshotRequest, InstallSnapshotResponse,
    VoteRequest, VoteResponse,
};
use openraft::{BasicNode, Config, Raft, SnapshotPolicy};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use stillframe_durability::Increments;
use stillframe_openraft::{Machine, Options, SnapshotData, StateMachine, WordState, Words, open};
use stillframe_peers::Random;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

openraft::declare_raft_types!(
    pub(crate) Types: D = u64, R = u64, Node = BasicNode, SnapshotData = SnapshotData
);

const WORDS: usize = 60_000;
/// The directory of the child.
const JOB: &str = "STILLFRAME_RAFT_KILL";
const NAME: &str = "a_member_that_is_killed_while_it_installs_ends_equal";

/// Counts commands, and mixes each into some word.
struct Mix;

impl Machine for Mix {
    type Command = u64;
    type Reply = u64;
    fn open(_: &mut Words<'_>) -> Self {
        Self
    }
    fn apply(&mut self, words: &mut Words<'_>, command: u64) -> u64 {
        let place = 1 + (command % (WORDS as u64 - 1)) as usize;
        words.write(place, words.read(place).rotate_left(7) ^ command);
        words.write(0, words.read(0) + 1);
        words.read(0)
    }
}

type Bank = StateMachine<Types, WordState<Mix>>;

fn options() -> Options<WordState<Mix>> {
    let words = stillframe_durability::Options::words(WORDS).load_threads(1);
    Options::state(words.increments(Increments::at_most(2)))
}

fn config() -> Arc<Config> {
    let config = Config {
        heartbeat_interval: 50,
        election_timeout_min: 5_000,
        election_timeout_max: 6_000,
        install_snapshot_timeout: 10_000,
        snapshot_max_chunk_size: 32 << 10,
        snapshot_policy: SnapshotPolicy::LogsSinceLast(100),
        max_in_snapshot_log_to_keep: 2,
        ..Config::default()
    };
    Arc::new(config.validate().expect("sound"))
}

/// Commands applied, and a sum of all words.
fn digest(bank: &Bank) -> Option<(u64, u64)> {
    let sum = |bank: &WordState<Mix>| {
        let mix = |sum: u64, at| sum.rotate_left(5).wrapping_mul(31) ^ bank.read(at);
        (bank.read(0), (0..WORDS).fold(0, mix))
    };
    bank.read(sum).ok()
}

// ---- what goes over the wire: a length, and JSON

#[derive(Serialize, Deserialize)]
enum Asked {
    Append(AppendEntriesRequest<Types>),
    Install(InstallSnapshotRequest<Types>),
    Vote(VoteRequest<u64>),
    Digest,
}

async fn put(stream: &mut TcpStream, value: &impl Serialize) -> io::Result<()> {
    let bytes = serde_json::to_vec(value)?;
    stream.write_u32(u32::try_from(bytes.len()).map_err(io::Error::other)?).await?;
    stream.write_all(&bytes).await
}

async fn take<T: DeserializeOwned>(stream: &mut TcpStream) -> io::Result<T> {
    let mut bytes = vec![0; stream.read_u32().await? as usize];
    stream.read_exact(&mut bytes).await?;
    Ok(serde_json::from_slice(&bytes)?)
}

/// The way from the leader to the child. Clones are the same.
#[derive(Clone, Default)]
struct Wire {
    port: Arc<Mutex<Option<u16>>>,
    /// Chunks that were sent to this child.
    chunks: Arc<AtomicU64>,
    /// Last chunks of snapshots among them.
    lasts: Arc<AtomicU64>,
}

struct Link(Wire, Option<TcpStream>);

impl RaftNetworkFactory<Types> for Wire {
    type Network = Link;
    async fn new_client(&mut self, _: u64, _: &BasicNode) -> Link {
        Link(self.clone(), None)
    }
}

type Failed<E = openraft::error::Infallible> = RPCError<u64, BasicNode, RaftError<u64, E>>;

impl Link {
    async fn send<T: DeserializeOwned>(&mut self, asked: &Asked) -> io::Result<T> {
        let port = *self.0.port.lock().expect("no panic");
        let port = port.ok_or(io::ErrorKind::NotConnected)?;
        let mut stream = match self.1.take() {
            Some(stream) => stream,
            None => TcpStream::connect(("127.0.0.1", port)).await?,
        };
        put(&mut stream, asked).await?;
        let answer = take(&mut stream).await?;
        self.1 = Some(stream);
        Ok(answer)
    }

    async fn ask<T, E>(&mut self, asked: Asked) -> Result<T, Failed<E>>
    where
        T: DeserializeOwned,
        E: std::error::Error + DeserializeOwned,
    {
        match self.send::<Result<T, RaftError<u64, E>>>(&asked).await {
            Ok(answer) => answer.map_err(|error| RemoteError::new(2, error).into()),
            Err(error) => Err(Unreachable::new(&error).into()),
        }
    }
}

impl RaftNetwork<Types> for Link {
    async fn append_entries(
        &mut self,
        request: AppendEntriesRequest<Types>,
        _: RPCOption,
    ) -> Result<AppendEntriesResponse<u64>, Failed> {
        self.ask(Asked::Append(request)).await
    }

    async fn install_snapshot(
        &mut self,
        request: InstallSnapshotRequest<Types>,
        _: RPCOption,
    ) -> Result<InstallSnapshotResponse<u64>, Failed<InstallSnapshotError>> {
        self.0.lasts.fetch_add(request.done.into(), Ordering::Relaxed);
        self.0.chunks.fetch_add(1, Ordering::Relaxed);
        self.ask(Asked::Install(request)).await
    }

    async fn vote(
        &mut self,
        request: VoteRequest<u64>,
        _: RPCOption,
    ) -> Result<VoteResponse<u64>, Failed> {
        self.ask(Asked::Vote(request)).await
    }
}

// ---- the child

async fn member(directory: &Path) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let (log, bank) = open::<Types, WordState<Mix>>(directory, options()).expect("it is whole");
    let raft = Raft::new(2, config(), Wire::default(), log, bank.clone()).await;
    let raft = raft.expect("it starts");
    let port = listener.local_addr().expect("it is bound").port();
    let named = directory.with_extension("port.tmp");
    std::fs::write(&named, port.to_string()).expect("writable");
    std::fs::rename(named, directory.with_extension("port")).expect("writable");
    while let Ok((mut stream, _)) = listener.accept().await {
        let (raft, bank) = (raft.clone(), bank.clone());
        tokio::spawn(async move {
            while let Ok(asked) = take(&mut stream).await {
                let answered = match asked {
                    Asked::Append(it) => put(&mut stream, &raft.append_entries(it).await).await,
                    Asked::Install(it) => put(&mut stream, &raft.install_snapshot(it).await).await,
                    Asked::Vote(it) => put(&mut stream, &raft.vote(it).await).await,
                    Asked::Digest => put(&mut stream, &digest(&bank)).await,
                };
                if answered.is_err() {
                    break;
                }
            }
        });
    }
}

fn start(directory: &Path) -> Child {
    let _ = std::fs::remove_file(directory.with_extension("port")); // of the one before
    let mut child = Command::new(std::env::current_exe().expect("this program has a path"));
    child.args(["--exact", NAME, "--nocapture"]).env(JOB, directory);
    child.stdout(Stdio::null()).spawn().expect("it runs")
}

// ---- the parent

/// Waits until the child listens.
async fn port(child: &mut Child, directory: &Path) -> Option<u16> {
    loop {
        if let Ok(text) = std::fs::read_to_string(directory.with_extension("port")) {
            return Some(text.parse().expect("a port"));
        }
        let ended = child.try_wait().expect("it is ours");
        assert!(ended.is_none(), "the member does not start: {ended:?}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

#[test]
fn a_member_that_is_killed_while_it_installs_ends_equal() {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(2).enable_all().build().expect("a runtime");
    if let Some(directory) = std::env::var_os(JOB).map(PathBuf::from) {
        return runtime.block_on(member(&directory));
    }
    let _watchdog = stillframe_peers::Watchdog::start();
    let mut random = Random::new("kill");
    let all = stillframe_peers::rounds(25, 1_000);
    runtime.block_on(async {
        // A member that starts or installs mostly waits: two groups at a time.
        let groups = [all.div_ceil(2), all / 2]
            .map(|rounds| tokio::spawn(kill_often(rounds, Random::with_seed(random.next()))));
        for group in groups {
            group.await.expect("no panic");
        }
    });
}

/// A group whose second member is killed so many times.
async fn kill_often(rounds: usize, mut random: Random) {
    let folder = tempfile::tempdir().expect("a folder");
    let (wire, directory) = (Wire::default(), folder.path().join("child"));
    let (log, bank) =
        open::<Types, WordState<Mix>>(folder.path().join("leader"), options()).expect("it is new");
    let raft = Raft::new(1, config(), wire.clone(), log, bank.clone()).await.expect("it starts");
    raft.initialize(BTreeMap::from([(1, BasicNode::default())])).await.expect("it is new");
    raft.wait(None).current_leader(1, "it votes for itself").await.expect("it does");
    raft.add_learner(2, BasicNode::default(), false).await.expect("it leads");
    let writer = tokio::spawn(write(raft.clone()));
    let mut killed = [0, 0];
    for round in 0..rounds {
        let mut child = start(&directory);
        wire.chunks.store(0, Ordering::Relaxed);
        wire.lasts.store(0, Ordering::Relaxed);
        let port = port(&mut child, &directory).await;
        *wire.port.lock().expect("no panic") = port;
        let is_whole = some_of_a_snapshot(&wire, &mut random, round).await;
        child.kill().expect("it is ours");
        *wire.port.lock().expect("no panic") = None;
        child.wait().expect("it is dead");
        killed[usize::from(is_whole)] += 1;
    }
    println!("{} killed between chunks, {} at the end of a snapshot", killed[0], killed[1]);
    let mut child = start(&directory);
    let port = port(&mut child, &directory).await;
    *wire.port.lock().expect("no panic") = port;
    writer.abort();
    let _ = writer.await; // aborted
    raft.client_write(7).await.expect("it leads");
    ends_equal(&wire, &bank).await;
    child.kill().expect("it is ours");
    child.wait().expect("it is dead");
    raft.shutdown().await.expect("it ends");
}

/// Returns after some chunk, or, as often, some time behind the last one; whether that was sent.
async fn some_of_a_snapshot(wire: &Wire, random: &mut Random, round: usize) -> bool {
    let chunks = [1 + random.below(24) as u64, u64::MAX][random.below(2)];
    let behind = Duration::from_micros(random.below(30_000) as u64);
    let waits = Instant::now();
    let sent = || (wire.chunks.load(Ordering::Relaxed), wire.lasts.load(Ordering::Relaxed) > 0);
    while sent().0 < chunks && !sent().1 {
        assert!(waits.elapsed() < Duration::from_secs(60), "round {round}: no snapshot comes");
        tokio::time::sleep(Duration::from_micros(200)).await;
    }
    let is_whole = sent().1;
    if is_whole {
        tokio::time::sleep(behind).await;
    }
    is_whole
}

/// The child comes to have what the leader has.
async fn ends_equal(wire: &Wire, bank: &Bank) {
    let wanted = digest(bank);
    assert!(wanted.is_some(), "the leader has a state");
    let mut link = Link(wire.clone(), None);
    let waits = Instant::now();
    loop {
        let found: Option<(u64, u64)> = link.send(&Asked::Digest).await.expect("it answers");
        if found == wanted {
            return;
        }
        assert!(waits.elapsed() < Duration::from_secs(60), "{found:?} and not {wanted:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Writes as long as it is not aborted.
async fn write(raft: Raft<Types>) {
    let mut random = Random::with_seed(1);
    loop {
        raft.client_write(random.next()).await.expect("it is a majority by itself");
    }
}
