//! A network within one process, for tests and first steps: requests are calls of the other node's
//! methods.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use openraft::error::{InstallSnapshotError, RPCError, RaftError, RemoteError, Unreachable};
use openraft::network::{RPCOption, RaftNetwork, RaftNetworkFactory};
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, InstallSnapshotRequest, InstallSnapshotResponse,
    VoteRequest, VoteResponse,
};
use openraft::{Raft, RaftTypeConfig};

/// The nodes of a group that run in this process. Clones are the same group.
pub struct Local<C: RaftTypeConfig> {
    nodes: Arc<Mutex<BTreeMap<C::NodeId, Raft<C>>>>,
}

/// The way to one of them.
pub struct LocalLink<C: RaftTypeConfig> {
    group: Local<C>,
    target: C::NodeId,
}

type Failed<C, E = openraft::error::Infallible> = RPCError<
    <C as RaftTypeConfig>::NodeId,
    <C as RaftTypeConfig>::Node,
    RaftError<<C as RaftTypeConfig>::NodeId, E>,
>;

impl<C: RaftTypeConfig> Default for Local<C> {
    fn default() -> Self {
        Self { nodes: Arc::default() }
    }
}

impl<C: RaftTypeConfig> Clone for Local<C> {
    fn clone(&self) -> Self {
        Self { nodes: Arc::clone(&self.nodes) }
    }
}

impl<C: RaftTypeConfig> std::fmt::Debug for Local<C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Local").field("nodes", &self.lock().keys()).finish()
    }
}

impl<C: RaftTypeConfig> Local<C> {
    /// From now on the node can be reached.
    pub fn add(&self, id: C::NodeId, node: Raft<C>) {
        self.lock().insert(id, node);
    }

    /// The node can be reached no longer.
    pub fn remove(&self, id: &C::NodeId) -> Option<Raft<C>> {
        self.lock().remove(id)
    }

    /// A node that can be reached.
    #[must_use]
    pub fn get(&self, id: &C::NodeId) -> Option<Raft<C>> {
        self.lock().get(id).cloned()
    }

    /// The nodes that can be reached.
    #[must_use]
    pub fn ids(&self) -> Vec<C::NodeId> {
        self.lock().keys().cloned().collect()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<C::NodeId, Raft<C>>> {
        // Taken though poisoned: it is whole between statements.
        self.nodes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<C: RaftTypeConfig> LocalLink<C> {
    fn node<E: std::error::Error>(&self) -> Result<Raft<C>, Failed<C, E>> {
        let gone = || Unreachable::new(&io::Error::from(io::ErrorKind::ConnectionRefused)).into();
        self.group.get(&self.target).ok_or_else(gone)
    }

    fn failed<E: std::error::Error>(&self, error: RaftError<C::NodeId, E>) -> Failed<C, E> {
        RemoteError::new(self.target.clone(), error).into()
    }
}

impl<C: RaftTypeConfig> RaftNetworkFactory<C> for Local<C> {
    type Network = LocalLink<C>;

    async fn new_client(&mut self, target: C::NodeId, _: &C::Node) -> LocalLink<C> {
        LocalLink { group: self.clone(), target }
    }
}

impl<C: RaftTypeConfig> RaftNetwork<C> for LocalLink<C> {
    async fn append_entries(
        &mut self,
        request: AppendEntriesRequest<C>,
        _: RPCOption,
    ) -> Result<AppendEntriesResponse<C::NodeId>, Failed<C>> {
        self.node()?.append_entries(request).await.map_err(|error| self.failed(error))
    }

    async fn install_snapshot(
        &mut self,
        request: InstallSnapshotRequest<C>,
        _: RPCOption,
    ) -> Result<InstallSnapshotResponse<C::NodeId>, Failed<C, InstallSnapshotError>> {
        self.node()?.install_snapshot(request).await.map_err(|error| self.failed(error))
    }

    async fn vote(
        &mut self,
        request: VoteRequest<C::NodeId>,
        _: RPCOption,
    ) -> Result<VoteResponse<C::NodeId>, Failed<C>> {
        self.node()?.vote(request).await.map_err(|error| self.failed(error))
    }
}

impl<C: RaftTypeConfig> std::fmt::Debug for LocalLink<C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LocalLink").field("target", &self.target).finish_non_exhaustive()
    }
}
