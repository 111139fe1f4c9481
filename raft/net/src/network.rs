//! The way from one node to the others, as openraft asks for it.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use openraft::error::{
    InstallSnapshotError, NetworkError, RPCError, RaftError, RemoteError, Timeout, Unreachable,
};
use openraft::network::{Backoff, RPCOption, RPCTypes, RaftNetwork, RaftNetworkFactory};
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, InstallSnapshotRequest, InstallSnapshotResponse,
    VoteRequest, VoteResponse,
};
use openraft::{LogId, RaftLogId, RaftTypeConfig, Vote};
use serde::de::DeserializeOwned;
use tokio::time::{Instant, sleep_until};

use crate::error::{Error, ForwardError};
use crate::frame::Kind;
use crate::hello::Lane;
use crate::lane::{Failure, LaneHandle, LaneState, Outcome};
use crate::member::Member;
use crate::message::{self, Message};
use crate::mutant::Mutant;
use crate::outgoing::Outgoing;
use crate::settings::Settings;
use crate::tls::Bound;
use crate::window::Window;

/// The lanes of a link.
const CONTROL: usize = 0;
const ENTRIES: usize = 1;
const SNAPSHOTS: usize = 2;

/// Most bytes of a piece of a snapshot: small beside what a listener holds at once.
const PIECE_BYTES_MAX: usize = 1 << 20;
/// A piece of a snapshot takes a fraction of this, so that what comes behind it, on a way that they
/// share, is hardly late.
const PIECE_TIME: Duration = Duration::from_millis(200);

/// A connection: the node, what it is for, and whether it is the one for large requests.
type Place = (u64, Lane, bool);

/// The way from this node to the others. Clones share the connections, which are made when they are
/// needed; all end with the last clone and [`Link`].
#[derive(Clone)]
pub struct Network {
    settings: Arc<Settings>,
    snapshots: Arc<Outgoing>,
    lanes: Arc<Mutex<BTreeMap<Place, LaneHandle>>>,
}

/// The way to one node.
pub struct Link {
    node: Node,
    /// Of all snapshots of this node.
    snapshots: Arc<Outgoing>,
    /// Of entries in an append.
    window: Window,
    /// Of pieces of a snapshot.
    pieces: Window,
    /// When a heartbeat was sent beside a snapshot last.
    beaten: Instant,
    under_way: Option<UnderWay>,
}

/// The node at the other end.
struct Node {
    settings: Arc<Settings>,
    target: u64,
    lanes: [LaneHandle; 3],
}

/// An append with entries that is on its way. It outlives the calls of openraft, which drops one
/// that has no reply within a heartbeat: what has been sent so far would have to be sent again.
struct UnderWay {
    vote: Vote<u64>,
    /// The entry before the first.
    prev: Option<LogId<u64>>,
    /// The last entry of it.
    last: Option<LogId<u64>>,
    bytes: usize,
    began: Instant,
    reply: Pin<Box<dyn Future<Output = Outcome> + Send + Sync>>,
}

impl UnderWay {
    /// Whether it is what is asked for, or its beginning.
    fn is_for<C: RaftTypeConfig<NodeId = u64>>(&self, request: &AppendEntriesRequest<C>) -> bool {
        (self.vote, self.prev) == (request.vote, request.prev_log_id)
    }
}

type Failed<E = openraft::error::Infallible> = RPCError<u64, Member, RaftError<u64, E>>;

impl Debug for Network {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Network").field("settings", &self.settings).finish_non_exhaustive()
    }
}

impl Debug for Link {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Link").field("target", &self.node.target).finish_non_exhaustive()
    }
}

impl Network {
    /// The network of a node.
    ///
    /// # Errors
    /// [`Error::GroupName`].
    pub fn new(settings: Settings) -> Result<Self, Error> {
        settings.check()?;
        let snapshots = Arc::new(Outgoing::new(settings.limits.snapshot_rate));
        Ok(Self { settings: Arc::new(settings), snapshots, lanes: Arc::default() })
    }

    /// Sends bytes to the [`Listener`](crate::Listener) of a node, whose callback answers them.
    /// Runs on a tokio runtime, as all calls do.
    ///
    /// # Errors
    /// [`ForwardError`], which says whether the request may have been answered.
    pub async fn forward(
        &self,
        node: u64,
        member: &Member,
        request: &[u8],
        time: Duration,
    ) -> Result<Vec<u8>, ForwardError> {
        self.forward_on((node, Lane::Forward, false), member, request, time).await
    }

    /// As [`forward`](Self::forward), on a connection of its own: for what is large, so that no
    /// small request waits behind it.
    ///
    /// # Errors
    /// As of [`forward`](Self::forward).
    pub async fn forward_bulk(
        &self,
        node: u64,
        member: &Member,
        request: &[u8],
        time: Duration,
    ) -> Result<Vec<u8>, ForwardError> {
        let is_bulk = !self.settings.mutation.is(Mutant::SharesBulk);
        self.forward_on((node, Lane::Forward, is_bulk), member, request, time).await
    }

    /// As [`forward`](Self::forward), on the connection of votes and heartbeats: for what is small
    /// and may not wait behind other requests.
    ///
    /// # Errors
    /// As of [`forward`](Self::forward).
    pub async fn forward_first(
        &self,
        node: u64,
        member: &Member,
        request: &[u8],
        time: Duration,
    ) -> Result<Vec<u8>, ForwardError> {
        self.forward_on((node, Lane::Control, false), member, request, time).await
    }

    async fn forward_on(
        &self,
        place: Place,
        member: &Member,
        request: &[u8],
        time: Duration,
    ) -> Result<Vec<u8>, ForwardError> {
        let most = self.settings.limits.frame_bytes_max;
        let lane = self.lane(place, &member.raft);
        let message = || message::plain(request, most);
        let body =
            lane.call(Kind::Forward, message, time).await.map_err(|failure| match failure {
                Failure::NotSent(error) => ForwardError::NotSent(error),
                Failure::Lost(error) => ForwardError::Lost(error),
                Failure::Timeout => ForwardError::Timeout,
            })?;
        match body.split_first() {
            Some((0, answer)) => Ok(answer.to_vec()),
            Some((1, text)) => {
                Err(ForwardError::Refused(String::from_utf8_lossy(text).into_owned()))
            }
            _ => Err(ForwardError::Lost(Arc::new(Error::Nonsense { what: "an answer" }))),
        }
    }

    /// What is known of each connection that was needed so far.
    #[must_use]
    pub fn states(&self) -> Vec<LaneState> {
        let lanes = self.lanes.lock().unwrap_or_else(PoisonError::into_inner);
        lanes.values().map(LaneHandle::state).collect()
    }

    /// The nodes to which the last attempt to send votes and heartbeats has failed.
    #[must_use]
    pub fn lost(&self) -> Vec<u64> {
        let lost = |state: &LaneState| {
            let failed = state.error.as_ref().is_some_and(|error| !error.is_by_choice());
            state.lane == Lane::Control && !state.connected && failed
        };
        self.states().iter().filter(|state| lost(state)).map(|state| state.node).collect()
    }

    /// Why a node does not take what raft sends it, though it answers.
    #[must_use]
    pub fn refusal(&self, node: u64) -> Option<Arc<Error>> {
        let states = self.states().into_iter();
        let mut refused = states.filter(|state| state.node == node && !state.connected);
        refused.find_map(|state| state.error.filter(|error| error.is_refusal()))
    }

    /// To what of its certificate a node can be bound that takes votes and entries by a connection
    /// which there is, and has said that it is of this group.
    #[must_use]
    pub fn shown(&self, node: u64) -> Option<Bound> {
        let states = self.states().into_iter();
        let mut shown = states.filter(|it| it.node == node && it.lane != Lane::Forward);
        shown.find_map(|it| it.shown)
    }

    /// The index of the last entry of each snapshot that is being sent, or was until a few seconds
    /// ago: the member that gets it needs the log behind it.
    #[must_use]
    pub fn snapshots(&self) -> Vec<u64> {
        self.snapshots.indices()
    }

    /// The lane to a node, begun anew if the node has moved.
    fn lane(&self, place: Place, address: &str) -> LaneHandle {
        let mut lanes = self.lanes.lock().unwrap_or_else(PoisonError::into_inner);
        let (node, lane, _) = place;
        let start = || LaneHandle::start(Arc::clone(&self.settings), node, address, lane);
        let handle = lanes.entry(place).or_insert_with(start);
        if handle.state().address != address {
            *handle = start();
        }
        handle.clone()
    }
}

impl<C: RaftTypeConfig<NodeId = u64, Node = Member>> RaftNetworkFactory<C> for Network {
    type Network = Link;

    async fn new_client(&mut self, target: u64, node: &Member) -> Link {
        let lane = |lane| self.lane((target, lane, false), &node.raft);
        let snapshots = match self.settings.mutation.is(Mutant::SharesLane) {
            true => Lane::Control,
            false => Lane::Snapshots,
        };
        let lanes = [lane(Lane::Control), lane(Lane::Entries), lane(snapshots)];
        let window = Window::up_to(self.settings.limits.append_bytes_max);
        let pieces = Window::up_to(PIECE_BYTES_MAX);
        let (settings, snapshots) = (Arc::clone(&self.settings), Arc::clone(&self.snapshots));
        let node = Node { settings, target, lanes };
        let beaten = Instant::now();
        Link { node, snapshots, window, pieces, beaten, under_way: None }
    }
}

impl Node {
    async fn call<T: DeserializeOwned, E>(
        &self,
        lane: usize,
        kind: Kind,
        action: RPCTypes,
        message: impl FnOnce() -> Result<Message, Error>,
        time: Duration,
    ) -> Result<T, Failed<E>>
    where
        E: std::error::Error + DeserializeOwned,
    {
        let outcome = self.lanes[lane].call(kind, message, time).await;
        self.decode(outcome, action, time)
    }

    /// The reply of openraft's that came, or what openraft is to know in its place.
    fn decode<T: DeserializeOwned, E>(
        &self,
        outcome: Outcome,
        action: RPCTypes,
        timeout: Duration,
    ) -> Result<T, Failed<E>>
    where
        E: std::error::Error + DeserializeOwned,
    {
        let body = outcome.map_err(|failure| match failure {
            // So is what fits into no message: it will not the next time, either.
            Failure::NotSent(error) => {
                if matches!(*error, Error::TooLarge { .. } | Error::Encode(_)) {
                    tracing::error!("node {} cannot get a message: {error}", self.target);
                }
                RPCError::Unreachable(Unreachable::new(&*error))
            }
            Failure::Lost(error) => RPCError::Network(NetworkError::new(&*error)),
            Failure::Timeout => {
                let (id, target) = (self.settings.node, self.target);
                RPCError::Timeout(Timeout { action, id, target, timeout })
            }
        })?;
        let reply: Result<Result<T, RaftError<u64, E>>, Error> = message::decode(&body);
        match reply {
            Ok(reply) => reply.map_err(|error| RemoteError::new(self.target, error).into()),
            Err(error) => Err(RPCError::Network(NetworkError::new(&error))),
        }
    }

    /// Sends an append without entries, beside those with entries.
    async fn beat<C: RaftTypeConfig<NodeId = u64, Node = Member>>(
        &self,
        request: &AppendEntriesRequest<C>,
        time: Duration,
    ) -> Result<AppendEntriesResponse<u64>, Failed> {
        let AppendEntriesRequest { vote, prev_log_id, leader_commit, .. } = *request;
        let empty =
            AppendEntriesRequest::<C> { vote, prev_log_id, leader_commit, entries: Vec::new() };
        let most = self.settings.limits.frame_bytes_max;
        let message = || message::append(&empty, 0, most).map(|(message, _)| message);
        self.call(CONTROL, Kind::Append, RPCTypes::AppendEntries, message, time).await
    }

    /// Begins to send entries, as many as go into `window` bytes.
    async fn begin_append<C: RaftTypeConfig<NodeId = u64, Node = Member>>(
        &self,
        request: &AppendEntriesRequest<C>,
        window: usize,
    ) -> Result<UnderWay, Failure> {
        let lane = &self.lanes[ENTRIES];
        lane.connect().await?;
        let most = self.settings.limits.frame_bytes_max;
        let message = message::append(request, window, most);
        let (message, count) = message.map_err(|error| Failure::NotSent(Arc::new(error)))?;
        let (vote, prev, bytes) = (request.vote, request.prev_log_id, message.len());
        let last = request.entries.get(count - 1).map(|entry| *entry.get_log_id()); // at least one
        let reply = Box::pin(lane.send(Kind::Append, message));
        Ok(UnderWay { vote, prev, last, bytes, began: Instant::now(), reply })
    }
}

impl Link {
    /// Sends entries. While they take their time, so that openraft would give them up, tells the
    /// node by messages of their own that its leader lives, and openraft that nothing has arrived
    /// so far; it asks again, and the same append goes on.
    async fn append<C: RaftTypeConfig<NodeId = u64, Node = Member>>(
        &mut self,
        request: &AppendEntriesRequest<C>,
        time: Duration,
    ) -> Result<AppendEntriesResponse<u64>, Failed> {
        let Self { node, window, under_way, .. } = self;
        let (action, until) = (RPCTypes::AppendEntries, Instant::now() + time * 3 / 4);
        let keeps = !node.settings.mutation.is(Mutant::GivesUpAppends);
        let current = match under_way.take().filter(|it| keeps && it.is_for(request)) {
            Some(current) => current,
            None => match node.begin_append(request, window.bytes()).await {
                Ok(begun) => begun,
                Err(failure) => return node.decode(Err(failure), action, time),
            },
        };
        let current = under_way.insert(current); // openraft may drop this call at any moment
        let alive = async {
            sleep_until(until - time / 2).await;
            let beat = node.beat(request, time / 2).await;
            if matches!(beat, Ok(AppendEntriesResponse::Success)) {
                sleep_until(until).await;
            }
            beat
        };
        let outcome = tokio::select! {
            biased;
            outcome = &mut current.reply => outcome,
            beat = alive => return match (beat?, current.prev) {
                // Openraft panics where nothing at all has succeeded.
                (AppendEntriesResponse::Success, None) => {
                    node.decode(Err(Failure::Timeout), action, time)
                }
                (AppendEntriesResponse::Success, prev) => {
                    Ok(AppendEntriesResponse::PartialSuccess(prev))
                }
                (other, _) => Ok(other),
            },
        };
        let (last, bytes, took) = (current.last, current.bytes, current.began.elapsed());
        *under_way = None;
        let reply: AppendEntriesResponse<u64> = node.decode(outcome, action, time)?;
        window.note(bytes, took, time);
        let hides = node.settings.mutation.is(Mutant::HidesCut);
        let asked = request.entries.last().map(|entry| *entry.get_log_id());
        match reply {
            AppendEntriesResponse::Success if last < asked && !hides => {
                Ok(AppendEntriesResponse::PartialSuccess(last))
            }
            reply => Ok(reply),
        }
    }
}

/// Sends a chunk of a snapshot in pieces.
async fn send_pieces<C: RaftTypeConfig<NodeId = u64, Node = Member>>(
    node: &Node,
    snapshots: &Outgoing,
    pieces: &mut Window,
    request: InstallSnapshotRequest<C>,
    time: Duration,
) -> Result<InstallSnapshotResponse<u64>, Failed<InstallSnapshotError>> {
    let most = node.settings.limits.frame_bytes_max;
    let InstallSnapshotRequest { vote, meta, mut offset, mut data, done } = request;
    let index = meta.last_log_id.map_or(0, |id| id.index);
    loop {
        let rest = data.split_off(data.len().min(pieces.bytes()));
        let (bytes, is_last) = (data.len(), rest.is_empty());
        let (meta, done) = (meta.clone(), done && is_last);
        let piece = InstallSnapshotRequest::<C> { vote, meta, offset, data, done };
        let _chunk = snapshots.chunk(node.target, index, bytes).await;
        let began = Instant::now();
        let message = || message::snapshot(&piece, most);
        let call = node.call(SNAPSHOTS, Kind::Snapshot, RPCTypes::InstallSnapshot, message, time);
        let reply: InstallSnapshotResponse<u64> = call.await?;
        if is_last || reply.vote > vote {
            return Ok(reply);
        }
        pieces.note(bytes, began.elapsed(), PIECE_TIME);
        (offset, data) = (offset + bytes as u64, rest);
    }
}

impl<C: RaftTypeConfig<NodeId = u64, Node = Member>> RaftNetwork<C> for Link {
    async fn append_entries(
        &mut self,
        request: AppendEntriesRequest<C>,
        option: RPCOption,
    ) -> Result<AppendEntriesResponse<u64>, Failed> {
        match request.entries.is_empty() {
            true => self.node.beat(&request, option.hard_ttl()).await,
            false => self.append(&request, option.hard_ttl()).await,
        }
    }

    async fn install_snapshot(
        &mut self,
        request: InstallSnapshotRequest<C>,
        option: RPCOption,
    ) -> Result<InstallSnapshotResponse<u64>, Failed<InstallSnapshotError>> {
        let Self { node, snapshots, pieces, beaten, .. } = self;
        let (vote, pause) = (request.vote, node.settings.limits.heartbeat);
        // While a snapshot is under way openraft sends no heartbeats, so that a member which takes
        // longer to get it would ask for votes.
        let beats = async {
            let (prev_log_id, leader_commit, entries) = (None, None, Vec::new());
            let empty = AppendEntriesRequest::<C> { vote, prev_log_id, leader_commit, entries };
            loop {
                sleep_until(*beaten + pause).await;
                *beaten = Instant::now();
                let _ = node.beat(&empty, pause).await; // a later term is in the other replies
            }
        };
        let silent = node.settings.mutation.is(Mutant::SilentBesideSnapshots);
        tokio::select! {
            reply = send_pieces(node, snapshots, pieces, request, option.hard_ttl()) => reply,
            never = beats, if !silent => never,
        }
    }

    async fn vote(
        &mut self,
        request: VoteRequest<u64>,
        option: RPCOption,
    ) -> Result<VoteResponse<u64>, Failed> {
        let most = self.node.settings.limits.frame_bytes_max;
        let message = move || message::encode(&request, most);
        self.node.call(CONTROL, Kind::Vote, RPCTypes::Vote, message, option.hard_ttl()).await
    }

    fn backoff(&self) -> Backoff {
        Backoff::new(self.node.settings.limits.backoff())
    }
}
