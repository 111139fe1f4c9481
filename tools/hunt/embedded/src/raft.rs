//! A state machine of openraft, on one node: a transaction is an entry of its log, and an image is
//! a snapshot that openraft asks for while it applies entries.
//!
//! - `Honest` holds the lock of its state while it reads the last applied index and serialises.
//! - `Naive` is a canary: it reads the index before it takes the lock to serialise. Its snapshots
//!   are whole, but belong to a later index, so that a follower would apply entries twice.
//!
//! A snapshot is labelled right if it is what the log makes up to the index of its label.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::fmt::Debug;
use std::io::Cursor;
use std::marker::PhantomData;
use std::ops::RangeBounds;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use openraft::error::{InstallSnapshotError, RPCError, RaftError, Unreachable};
use openraft::network::{RPCOption, RaftNetwork, RaftNetworkFactory};
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, InstallSnapshotRequest, InstallSnapshotResponse,
    VoteRequest, VoteResponse,
};
use openraft::storage::{
    LogFlushed, LogState, RaftLogReader, RaftLogStorage, RaftSnapshotBuilder, RaftStateMachine,
    Snapshot,
};
use openraft::{
    Config, Entry, EntryPayload, LogId, OptionalSend, Raft, ServerState, SnapshotMeta,
    SnapshotPolicy, StorageError, StoredMembership, Vote,
};
use stillframe_hunt::{Class, Contents, Fault};
use tokio::runtime::Runtime;

use crate::maps::{lock, run};
use crate::{Store, bytes};

openraft::declare_raft_types!(
    /// The requests of a transaction as an entry; nodes without addresses.
    pub(crate) TypeConfig: D = Vec<Vec<String>>, R = (), Node = (),
);

type NodeId = u64;
type Log = BTreeMap<u64, Vec<Vec<String>>>;

/// Longest wait for a snapshot.
const PATIENCE: Duration = Duration::from_secs(60);

/// How a state machine takes its snapshot.
pub(crate) trait Manner: Send + Sync + Default + 'static {
    /// Label and contents.
    fn take_image(state: &Mutex<State>) -> (Label, Vec<u8>);
}

type Label = (Option<LogId<NodeId>>, StoredMembership<NodeId, ()>);

/// What entries are applied to.
#[derive(Default)]
pub(crate) struct State {
    applied: Option<LogId<NodeId>>,
    membership: StoredMembership<NodeId, ()>,
    contents: Contents,
}

impl State {
    fn label(&self) -> Label {
        (self.applied, self.membership.clone())
    }
    fn serialised(&self) -> Vec<u8> {
        let pair = |(name, content)| (bytes::key(name), bytes::value(content));
        let pairs: Vec<_> = self.contents.iter().map(pair).collect();
        serde_json::to_vec(&pairs).expect("plain data")
    }
}

#[derive(Default)]
pub(crate) struct Honest;

impl Manner for Honest {
    fn take_image(state: &Mutex<State>) -> (Label, Vec<u8>) {
        let state = lock(state);
        (state.label(), state.serialised())
    }
}

#[derive(Default)]
pub(crate) struct Naive;

impl Manner for Naive {
    fn take_image(state: &Mutex<State>) -> (Label, Vec<u8>) {
        let label = lock(state).label();
        // As long as it takes to open a file.
        thread::sleep(Duration::from_millis(1));
        let serialised = lock(state).serialised();
        (label, serialised)
    }
}

/// Snapshots that were built, and the newest.
#[derive(Default)]
struct Built {
    count: u64,
    newest: Option<(SnapshotMeta<NodeId, ()>, Vec<u8>)>,
}

struct Machine<M> {
    state: Arc<Mutex<State>>,
    built: Arc<Mutex<Built>>,
    manner: PhantomData<M>,
}

impl<M> Clone for Machine<M> {
    fn clone(&self) -> Self {
        Self { state: self.state.clone(), built: self.built.clone(), manner: PhantomData }
    }
}

impl<M: Manner> RaftSnapshotBuilder<TypeConfig> for Machine<M> {
    async fn build_snapshot(&mut self) -> Result<Snapshot<TypeConfig>, StorageError<NodeId>> {
        let ((last_log_id, last_membership), data) = M::take_image(&self.state);
        let mut built = lock(&self.built);
        built.count += 1;
        let snapshot_id = built.count.to_string();
        let meta = SnapshotMeta { last_log_id, last_membership, snapshot_id };
        built.newest = Some((meta.clone(), data.clone()));
        Ok(Snapshot { meta, snapshot: Box::new(Cursor::new(data)) })
    }
}

impl<M: Manner> RaftStateMachine<TypeConfig> for Machine<M> {
    type SnapshotBuilder = Self;

    async fn applied_state(&mut self) -> Result<Label, StorageError<NodeId>> {
        Ok(lock(&self.state).label())
    }

    async fn apply<I>(&mut self, entries: I) -> Result<Vec<()>, StorageError<NodeId>>
    where
        I: IntoIterator<Item = Entry<TypeConfig>> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        let mut replies = Vec::new();
        for entry in entries {
            let mut state = lock(&self.state);
            state.applied = Some(entry.log_id);
            match entry.payload {
                EntryPayload::Blank => {}
                EntryPayload::Normal(requests) => run(&mut state.contents, &requests),
                EntryPayload::Membership(members) => {
                    state.membership = StoredMembership::new(Some(entry.log_id), members);
                }
            }
            replies.push(());
        }
        Ok(replies)
    }

    async fn get_snapshot_builder(&mut self) -> Self {
        self.clone()
    }

    async fn begin_receiving_snapshot(
        &mut self,
    ) -> Result<Box<Cursor<Vec<u8>>>, StorageError<NodeId>> {
        Ok(Box::default())
    }

    async fn install_snapshot(
        &mut self,
        _: &SnapshotMeta<NodeId, ()>,
        _: Box<Cursor<Vec<u8>>>,
    ) -> Result<(), StorageError<NodeId>> {
        unreachable!("one node sends itself no snapshot")
    }

    async fn get_current_snapshot(
        &mut self,
    ) -> Result<Option<Snapshot<TypeConfig>>, StorageError<NodeId>> {
        let newest = lock(&self.built).newest.clone();
        Ok(newest.map(|(meta, data)| Snapshot { meta, snapshot: Box::new(Cursor::new(data)) }))
    }
}

/// The log, in memory.
#[derive(Clone, Default)]
struct Entries(Arc<Mutex<Inner>>);

#[derive(Default)]
struct Inner {
    entries: BTreeMap<u64, Entry<TypeConfig>>,
    purged: Option<LogId<NodeId>>,
    vote: Option<Vote<NodeId>>,
}

impl RaftLogReader<TypeConfig> for Entries {
    async fn try_get_log_entries<R: RangeBounds<u64> + Clone + Debug + OptionalSend>(
        &mut self,
        range: R,
    ) -> Result<Vec<Entry<TypeConfig>>, StorageError<NodeId>> {
        Ok(lock(&self.0).entries.range(range).map(|(_, entry)| entry.clone()).collect())
    }
}

impl RaftLogStorage<TypeConfig> for Entries {
    type LogReader = Self;

    async fn get_log_state(&mut self) -> Result<LogState<TypeConfig>, StorageError<NodeId>> {
        let inner = lock(&self.0);
        let last = inner.entries.values().next_back().map(|entry| entry.log_id);
        Ok(LogState { last_purged_log_id: inner.purged, last_log_id: last.or(inner.purged) })
    }
    async fn get_log_reader(&mut self) -> Self {
        self.clone()
    }
    async fn save_vote(&mut self, vote: &Vote<NodeId>) -> Result<(), StorageError<NodeId>> {
        lock(&self.0).vote = Some(*vote);
        Ok(())
    }
    async fn read_vote(&mut self) -> Result<Option<Vote<NodeId>>, StorageError<NodeId>> {
        Ok(lock(&self.0).vote)
    }
    async fn append<I>(
        &mut self,
        entries: I,
        callback: LogFlushed<TypeConfig>,
    ) -> Result<(), StorageError<NodeId>>
    where
        I: IntoIterator<Item = Entry<TypeConfig>> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        let numbered = entries.into_iter().map(|entry| (entry.log_id.index, entry));
        lock(&self.0).entries.extend(numbered);
        callback.log_io_completed(Ok(()));
        Ok(())
    }
    async fn truncate(&mut self, from: LogId<NodeId>) -> Result<(), StorageError<NodeId>> {
        lock(&self.0).entries.split_off(&from.index);
        Ok(())
    }
    async fn purge(&mut self, last: LogId<NodeId>) -> Result<(), StorageError<NodeId>> {
        let mut inner = lock(&self.0);
        inner.entries = inner.entries.split_off(&(last.index + 1));
        inner.purged = Some(last);
        Ok(())
    }
}

/// The network of one node: nobody is there.
struct Alone;

impl RaftNetworkFactory<TypeConfig> for Alone {
    type Network = Self;

    async fn new_client(&mut self, _: NodeId, (): &()) -> Self {
        Self
    }
}

fn nobody<E: Error>() -> RPCError<NodeId, (), E> {
    RPCError::Unreachable(Unreachable::new(&std::io::Error::other("there is one node")))
}

impl RaftNetwork<TypeConfig> for Alone {
    async fn append_entries(
        &mut self,
        _: AppendEntriesRequest<TypeConfig>,
        _: RPCOption,
    ) -> Result<AppendEntriesResponse<NodeId>, RPCError<NodeId, (), RaftError<NodeId>>> {
        Err(nobody())
    }
    async fn install_snapshot(
        &mut self,
        _: InstallSnapshotRequest<TypeConfig>,
        _: RPCOption,
    ) -> Result<
        InstallSnapshotResponse<NodeId>,
        RPCError<NodeId, (), RaftError<NodeId, InstallSnapshotError>>,
    > {
        Err(nobody())
    }
    async fn vote(
        &mut self,
        _: VoteRequest<NodeId>,
        _: RPCOption,
    ) -> Result<VoteResponse<NodeId>, RPCError<NodeId, (), RaftError<NodeId>>> {
        Err(nobody())
    }
}

/// One node whose state machine takes snapshots in that manner.
pub(crate) struct Node<M> {
    runtime: Runtime,
    raft: Raft<TypeConfig>,
    built: Arc<Mutex<Built>>,
    /// Acknowledged transactions that are not in `replayed` yet, by index.
    log: Mutex<Log>,
    /// What the log makes up to the label of the last image.
    replayed: Mutex<Contents>,
    manner: PhantomData<M>,
}

impl<M: Manner> Default for Node<M> {
    fn default() -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .expect("a runtime");
        let built = Arc::new(Mutex::new(Built::default()));
        let machine =
            Machine::<M> { state: Arc::default(), built: Arc::clone(&built), manner: PhantomData };
        let raft = runtime.block_on(async {
            let config = Config { snapshot_policy: SnapshotPolicy::Never, ..Config::default() };
            let config = Arc::new(config.validate().expect("a configuration"));
            let raft =
                Raft::new(1, config, Alone, Entries::default(), machine).await.expect("a node");
            raft.initialize(BTreeSet::from([1])).await.expect("a cluster of one");
            let wait = raft.wait(Some(PATIENCE));
            wait.state(ServerState::Leader, "it leads").await.expect("a leader");
            raft
        });
        let (log, replayed) = (Mutex::default(), Mutex::default());
        Self { runtime, raft, built, log, replayed, manner: PhantomData }
    }
}

impl<M: Manner> Store for Node<M> {
    fn transact(&self, requests: &[Vec<String>]) {
        let written = self.raft.client_write(requests.to_vec());
        let done = self.runtime.block_on(written).expect("acknowledged");
        lock(&self.log).insert(done.log_id.index, requests.to_vec());
    }

    fn image(&self) -> Contents {
        let before = lock(&self.built).count;
        self.runtime.block_on(self.raft.trigger().snapshot()).expect("the node runs");
        let started = Instant::now();
        loop {
            let built = lock(&self.built);
            if let Some((_, data)) = built.newest.as_ref().filter(|_| built.count > before) {
                let pairs: Vec<(Vec<u8>, Vec<u8>)> = serde_json::from_slice(data).expect("ours");
                let pair =
                    |(key, value): &(Vec<u8>, Vec<u8>)| (bytes::name(key), bytes::content(value));
                return pairs.iter().map(pair).collect();
            }
            drop(built);
            assert!(started.elapsed() < PATIENCE, "no snapshot within {} s", PATIENCE.as_secs());
            thread::sleep(Duration::from_millis(1));
        }
    }

    fn mislabelled(&self, image: &Contents) -> Option<Fault> {
        let newest = lock(&self.built).newest.clone();
        let index = newest.and_then(|(meta, _)| meta.last_log_id).map_or(0, |id| id.index);
        let mut replayed = lock(&self.replayed);
        let mut log = lock(&self.log);
        let rest = log.split_off(&(index + 1));
        for requests in std::mem::replace(&mut *log, rest).into_values() {
            run(&mut *replayed, &requests);
        }
        let differs = |(name, content): &(_, _)| replayed.get(*name) != Some(*content);
        let count = image.iter().filter(differs).count() + replayed.len().abs_diff(image.len());
        let text = format!("{count} keys are not what the log makes up to {index}");
        (count > 0).then_some(Fault { class: Class::Mislabelled, text, count: count as u64 })
    }
}
