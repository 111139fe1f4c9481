//! Members that apply random requests, against one that never stops.

mod group;
mod lives;
mod requests;

use std::future::Future;
use std::sync::{Arc, OnceLock};

use openraft::storage::{RaftSnapshotBuilder, RaftStateMachine, Snapshot};
use openraft::testing::{StoreBuilder, Suite};
use openraft::{BasicNode, CommittedLeaderId, Entry, EntryPayload, LogId, StorageError};
use stillframe_durability::disk::{Location, SimulatedDisk};
use stillframe_openraft::{Error, LogStore, SnapshotData, State, StateMachine, open};
use stillframe_peers::Random;
use tempfile::TempDir;

use crate::{Command, KeyspaceState, Options};

openraft::declare_raft_types!(
    pub(crate) Types: D = Command, R = Vec<u8>, Node = BasicNode, SnapshotData = SnapshotData
);

type Log = LogStore<Types>;
type Machine = StateMachine<Types, KeyspaceState>;

/// Entries of the history that members are compared with.
const ENTRIES: u64 = 700;
/// The time of its first command.
const START_MS: i64 = 1_000_000;

fn options() -> stillframe_openraft::Options<KeyspaceState> {
    let mut options = Options::default();
    options.keyspace.max_keys = 10_000;
    stillframe_openraft::Options::state(options)
}

fn location(disk: &SimulatedDisk) -> Location {
    Location::on("simulated", Arc::new(disk.clone()))
}

fn start(disk: &SimulatedDisk) -> Result<(Log, Machine), Error> {
    open(location(disk), options())
}

fn id(index: u64) -> LogId<u64> {
    LogId::new(CommittedLeaderId::new(1, 0), index)
}

fn end_of(id: Option<LogId<u64>>) -> u64 {
    id.map_or(0, |id| id.index + 1)
}

/// What the group commits at this index.
fn committed(index: u64) -> Entry<Types> {
    let payload = match index % 13 {
        5 => EntryPayload::Blank,
        _ => EntryPayload::Normal(random_command(index)),
    };
    Entry { log_id: id(index), payload }
}

/// A command of few keys, whose time goes on by some 50 ms, and now and then back by a second.
fn random_command(index: u64) -> Command {
    let mut random = Random::with_seed(index);
    let back = [0, 0, 0, 1_500][random.below(4)];
    let now_ms = START_MS + 50 * index as i64 - back;
    let is_transaction = random.below(6) == 0;
    let count = if is_transaction { 1 + random.below(4) } else { 1 };
    let requests = (0..count).map(|_| random_request(&mut random)).collect();
    let (seed, db, resp3) = (random.next(), random.below(2), random.below(2) == 0);
    Command { now_ms, seed, db, resp3, is_transaction, requests }
}

fn random_request(random: &mut Random) -> Vec<Vec<u8>> {
    let lines = [
        "SET s# n PX 400",
        "SET s# 5",
        "INCR s#",
        "APPEND s# xyz",
        "GETEX s# PX 300",
        "EXPIRE s# 1",
        "PEXPIRE set# 600",
        "PERSIST set#",
        "TTL s#",
        "GET s#",
        "GETDEL s#",
        "SADD set# n m n",
        "SPOP set#",
        "SPOP set# 3",
        "SRANDMEMBER set# 2",
        "SMEMBERS set#",
        "SPOP big# 7",
        "SRANDMEMBER big# 3",
        "SORT set# ALPHA BY nosort STORE list#",
        "SORT big# ALPHA BY same* STORE list#",
        "RPUSH list# n m",
        "LPOP list#",
        "DEL list#",
        "HSET hash# n 1 m 2",
        "HINCRBYFLOAT hash# n 1.25",
        "HDEL hash# n",
        "HRANDFIELD hash# 2",
        "ZADD sorted# 1.5 n 2 m",
        "ZPOPMIN sorted#",
        "ZUNIONSTORE sorted0 2 sorted1 set1",
        "XADD stream# MAXLEN ~ 20 * f n",
        "XADD stream# * f n",
        "XTRIM stream# MAXLEN 5",
        "XGROUP CREATE stream# g $ MKSTREAM",
        "XREADGROUP GROUP g c COUNT 2 STREAMS stream# >",
        "PFADD hll# n m",
        "SETBIT bits# 100 1",
        "GEOADD geo# 13.3 38.1 n",
        "RANDOMKEY",
        "DBSIZE",
        "SCAN 0",
        "SELECT 1",
        "MOVE s# 1",
        "RENAME s# s0",
        "COPY set# set0 REPLACE",
        "OBJECT ENCODING s#",
        "BLPOP list# 0",
        "CONFIG GET dir",
        "MULTI",
        "SET",
        "NOSUCH x",
        "INCR set#",
        "TIME",
    ];
    if random.below(9) == 0 {
        let members = (0..200).map(|member| format!("member-{member}").into_bytes());
        let head = [b"SADD".to_vec(), format!("big{}", random.below(3)).into_bytes()];
        return head.into_iter().chain(members).collect();
    }
    let word = |word: &str, random: &mut Random| match word {
        "n" | "m" => format!("{}", random.below(30)),
        word => word.replace('#', &random.below(3).to_string()),
    };
    let line = random.pick(&lines);
    line.split(' ').map(|it| word(it, random).into_bytes()).collect()
}

/// The digest after each number of entries, and the reply of each, of a member that never stops.
fn history() -> &'static [(String, Vec<u8>)] {
    static HISTORY: OnceLock<Vec<(String, Vec<u8>)>> = OnceLock::new();
    HISTORY.get_or_init(|| {
        let disk = SimulatedDisk::default();
        let (_log, mut machine) = start(&disk).expect("it is new");
        let mut states = vec![(digest(&machine), Vec::new())];
        for index in 0..ENTRIES {
            let replies = block_on(machine.apply([committed(index)])).expect("it is in memory");
            states.push((digest(&machine), replies.into_iter().flatten().collect()));
        }
        states
    })
}

fn digest(machine: &Machine) -> String {
    machine.read(KeyspaceState::digest).expect("it has a state")
}

fn block_on<T>(what: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
    runtime.expect("a runtime").block_on(what)
}

/// Sends a snapshot in chunks.
async fn send(
    from: &mut SnapshotData,
    to: &mut SnapshotData,
    random: &mut Random,
) -> std::io::Result<()> {
    use tokio::io::{AsyncReadExt, AsyncSeekExt, AsyncWriteExt};
    let end = from.seek(std::io::SeekFrom::End(0)).await?;
    let mut at = 0;
    while at < end {
        from.seek(std::io::SeekFrom::Start(at)).await?;
        let mut chunk = vec![0; (1 + random.below(20_000)).min((end - at) as usize)];
        from.read_exact(&mut chunk).await?;
        to.seek(std::io::SeekFrom::Start(at)).await?;
        to.write_all(&chunk).await?;
        at += chunk.len() as u64;
    }
    to.shutdown().await
}

struct Builder;

impl StoreBuilder<Types, Log, Machine, TempDir> for Builder {
    async fn build(&self) -> Result<(TempDir, Log, Machine), StorageError<u64>> {
        let folder = tempfile::tempdir().expect("a folder");
        let (log, machine) = open(folder.path(), options()).expect("it is new");
        Ok((folder, log, machine))
    }
}

#[test]
fn the_suite_of_openraft_passes() {
    let _watchdog = stillframe_peers::Watchdog::start();
    Suite::test_all(Builder).expect("all of it");
}

#[test]
fn the_history_does_what_it_should() {
    let history = history();
    let replies = |text: &str| {
        let holds = |reply: &[u8]| reply.windows(text.len()).any(|it| it == text.as_bytes());
        history.iter().filter(|(_, reply)| holds(reply)).count()
    };
    for text in [
        "+OK",
        "-WRONGTYPE",
        "does not wait",
        "unknown command",
        "EXECABORT",
        "wrong number",
        "$8\r\nmember-",
        "_\r\n",
    ] {
        assert!(replies(text) > 0, "no reply holds {text}");
    }
    let digests: std::collections::BTreeSet<&str> =
        history.iter().map(|(digest, _)| &digest[..]).collect();
    assert!(digests.len() > 200, "{} states", digests.len());
}
