//! The way from one node to the others, as openraft asks for it.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::atomic::{AtomicUsize, Ordering};
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
use openraft::{RaftLogId, RaftTypeConfig};
use serde::de::DeserializeOwned;

use crate::error::{Error, ForwardError};
use crate::frame::Kind;
use crate::hello::Lane;
use crate::lane::{Failure, LaneHandle, LaneState};
use crate::member::Member;
use crate::message::{self, Message};
use crate::mutant::Mutant;
use crate::outgoing::Outgoing;
use crate::settings::Settings;

/// Appends are not cut below so many bytes of entries.
const WINDOW_BYTES_MIN: usize = 16 << 10;

/// The way from this node to the others. Clones share the connections, which are made when they are
/// needed; all end with the last clone and [`Link`].
#[derive(Clone)]
pub struct Network {
    settings: Arc<Settings>,
    snapshots: Arc<Outgoing>,
    lanes: Arc<Mutex<BTreeMap<(u64, Lane), LaneHandle>>>,
}

/// The way to one node.
pub struct Link {
    settings: Arc<Settings>,
    target: u64,
    lanes: [LaneHandle; 3],
    /// Of all snapshots of this node.
    snapshots: Arc<Outgoing>,
    /// Bytes of entries in an append: halved when one does not arrive in time.
    window: usize,
}

type Failed<E = openraft::error::Infallible> = RPCError<u64, Member, RaftError<u64, E>>;

impl Debug for Network {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Network").field("settings", &self.settings).finish_non_exhaustive()
    }
}

impl Debug for Link {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Link").field("target", &self.target).finish_non_exhaustive()
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
        self.forward_on(Lane::Forward, (node, member), request, time).await
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
        self.forward_on(Lane::Control, (node, member), request, time).await
    }

    async fn forward_on(
        &self,
        lane: Lane,
        (node, member): (u64, &Member),
        request: &[u8],
        time: Duration,
    ) -> Result<Vec<u8>, ForwardError> {
        let most = self.settings.limits.frame_bytes_max;
        let lane = self.lane(node, &member.raft, lane);
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
            let failed = state.error.as_ref().is_some_and(|error| !matches!(**error, Error::Idle));
            state.lane == Lane::Control && !state.connected && failed
        };
        self.states().iter().filter(|state| lost(state)).map(|state| state.node).collect()
    }

    /// The index of the last entry of each snapshot that is being sent, or was until a few seconds
    /// ago: whoever gets it needs the log behind it.
    #[must_use]
    pub fn snapshots(&self) -> Vec<u64> {
        self.snapshots.indices()
    }

    /// The lane to a node, begun anew if the node has moved.
    fn lane(&self, node: u64, address: &str, lane: Lane) -> LaneHandle {
        let mut lanes = self.lanes.lock().unwrap_or_else(PoisonError::into_inner);
        let start = || LaneHandle::start(Arc::clone(&self.settings), node, address, lane);
        let handle = lanes.entry((node, lane)).or_insert_with(start);
        if handle.state().address != address {
            *handle = start();
        }
        handle.clone()
    }
}

impl<C: RaftTypeConfig<NodeId = u64, Node = Member>> RaftNetworkFactory<C> for Network {
    type Network = Link;

    async fn new_client(&mut self, target: u64, node: &Member) -> Link {
        let lane = |lane| self.lane(target, &node.raft, lane);
        let snapshots = match self.settings.mutation.is(Mutant::SharesLane) {
            true => Lane::Control,
            false => Lane::Snapshots,
        };
        let lanes = [lane(Lane::Control), lane(Lane::Entries), lane(snapshots)];
        let window = self.settings.limits.append_bytes_max;
        let (settings, snapshots) = (Arc::clone(&self.settings), Arc::clone(&self.snapshots));
        Link { settings, target, lanes, snapshots, window }
    }
}

impl Link {
    async fn call<T: DeserializeOwned, E>(
        &self,
        lane: usize,
        (kind, action): (Kind, RPCTypes),
        message: impl FnOnce() -> Result<Message, Error>,
        option: RPCOption,
    ) -> Result<T, Failed<E>>
    where
        E: std::error::Error + DeserializeOwned,
    {
        let timeout = option.hard_ttl();
        let body = self.lanes[lane].call(kind, message, timeout).await;
        let body = body.map_err(|failure| match failure {
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
}

impl<C: RaftTypeConfig<NodeId = u64, Node = Member>> RaftNetwork<C> for Link {
    async fn append_entries(
        &mut self,
        request: AppendEntriesRequest<C>,
        option: RPCOption,
    ) -> Result<AppendEntriesResponse<u64>, Failed> {
        let Settings { limits, mutation, .. } = &*self.settings;
        let (most, window_max) = (limits.frame_bytes_max, limits.append_bytes_max);
        let kind = (Kind::Append, RPCTypes::AppendEntries);
        let (hides, total) = (mutation.is(Mutant::HidesCut), request.entries.len());
        let (lane, sent) = (usize::from(total > 0), AtomicUsize::new(0));
        let window = self.window;
        let message = || {
            let (message, count) = message::append(&request, window, most)?;
            sent.store(count, Ordering::Relaxed); // read by the same task
            Ok(message)
        };
        if total == 0 {
            return self.call(lane, kind, message, option).await;
        }
        // Until it is answered in time; openraft drops this future when it is not.
        self.window = WINDOW_BYTES_MIN.max(window / 2);
        let reply = self.call(lane, kind, message, option).await;
        match &reply {
            Ok(_) | Err(RPCError::RemoteError(_)) => self.window = (window * 2).min(window_max),
            Err(RPCError::Timeout(_)) => {}
            Err(_) => self.window = window,
        }
        let count = sent.into_inner();
        match reply? {
            AppendEntriesResponse::Success if count < total && !hides => {
                let last = request.entries.get(count - 1); // an append has at least one
                Ok(AppendEntriesResponse::PartialSuccess(last.map(|entry| *entry.get_log_id())))
            }
            reply => Ok(reply),
        }
    }

    async fn install_snapshot(
        &mut self,
        request: InstallSnapshotRequest<C>,
        option: RPCOption,
    ) -> Result<InstallSnapshotResponse<u64>, Failed<InstallSnapshotError>> {
        let most = self.settings.limits.frame_bytes_max;
        let index = request.meta.last_log_id.map_or(0, |id| id.index);
        let _chunk = self.snapshots.chunk(self.target, index, request.data.len()).await;
        let message = || message::snapshot(&request, most);
        self.call(2, (Kind::Snapshot, RPCTypes::InstallSnapshot), message, option).await
    }

    async fn vote(
        &mut self,
        request: VoteRequest<u64>,
        option: RPCOption,
    ) -> Result<VoteResponse<u64>, Failed> {
        let most = self.settings.limits.frame_bytes_max;
        let message = move || message::encode(&request, most);
        self.call(0, (Kind::Vote, RPCTypes::Vote), message, option).await
    }

    fn backoff(&self) -> Backoff {
        Backoff::new(self.settings.limits.backoff())
    }
}
