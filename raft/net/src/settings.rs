//! How a node takes part in the network of its group.

use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::Duration;

use crate::carrier::{Carrier, Sockets};
use crate::error::Error;
use crate::hello::GROUP_BYTES_MAX;
use crate::identity::Identity;
use crate::mutant::Mutation;
use crate::tls::Tls;

/// How a node takes part in the network of its group: for [`Network`](crate::Network) and
/// [`Listener`](crate::Listener) alike.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Settings {
    /// The id of this node.
    pub node: u64,
    /// The name of the group, 1 to 255 bytes. Nodes of another group are refused.
    pub group: String,
    /// Which directory of which group this node works in.
    pub identity: Identity,
    /// Certificates; without them connections are plain, and only allowed on this machine.
    pub tls: Option<Tls>,
    /// Allows plain connections beyond this machine. Anybody who reaches the port can then
    /// read and change everything.
    pub unprotected: bool,
    /// What carries bytes: sockets, unless a test puts something in their place.
    pub carrier: Arc<dyn Carrier>,
    /// Sizes and times.
    pub limits: Limits,
    pub(crate) mutation: Mutation,
}

impl Settings {
    /// Node `node` of a group, without TLS.
    #[must_use]
    pub fn new(node: u64, group: impl Into<String>) -> Self {
        let (group, limits, mutation) = (group.into(), Limits::default(), Mutation::current());
        let (identity, tls) = (Identity::default(), None);
        let carrier = Arc::new(Sockets);
        Self { node, group, identity, tls, unprotected: false, carrier, limits, mutation }
    }

    /// In this directory.
    #[must_use]
    pub fn identity(self, identity: Identity) -> Self {
        Self { identity, ..self }
    }

    /// With TLS by these certificates.
    #[must_use]
    pub fn tls(self, tls: Tls) -> Self {
        Self { tls: Some(tls), ..self }
    }

    /// Whether plain connections beyond this machine are allowed.
    #[must_use]
    pub fn unprotected(self, unprotected: bool) -> Self {
        Self { unprotected, ..self }
    }

    /// Over this carrier.
    #[must_use]
    pub fn carrier(self, carrier: Arc<dyn Carrier>) -> Self {
        Self { carrier, ..self }
    }

    /// With these limits.
    #[must_use]
    pub fn limits(self, limits: Limits) -> Self {
        Self { limits, ..self }
    }

    /// Whether they can be used.
    pub(crate) fn check(&self) -> Result<(), Error> {
        let length = self.group.len();
        if !(1..=GROUP_BYTES_MAX).contains(&length) {
            return Err(Error::GroupName { length });
        }
        Ok(())
    }
}

/// Sizes and times. Nodes of a group may differ in all of them but `frame_bytes_max`.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Limits {
    /// Most bytes of one message. A single entry of the log has to fit, and a chunk of a snapshot.
    pub frame_bytes_max: u32,
    /// Bytes of entries after which an append is cut; the rest follows in the next one. A slow
    /// connection shortens appends by itself.
    pub append_bytes_max: usize,
    /// Most bytes of snapshots a second that this node sends, to all nodes together; the rest of
    /// the group shares its disks and its network with them. `None`: as fast as they go.
    pub snapshot_rate: Option<NonZeroU64>,
    /// Most bytes of large messages (above 64 KiB) that a listener holds at once: of each as much
    /// as has come, up to 2 MiB; the rest of a message is held for one at a time.
    pub memory_bytes_max: usize,
    /// Most connections of a listener.
    pub connections_max: usize,
    /// Most connections of one node to a listener: the oldest makes room for a new one.
    pub connections_per_node_max: usize,
    /// Most connections that have not said who they are: the oldest makes room for a new one.
    pub handshakes_max: usize,
    /// Most requests of a connection under way, of raft's own kinds.
    pub requests_max: usize,
    /// Most forwarded requests under way, of all connections of a listener, and of one lane.
    pub forwards_max: usize,
    /// Time to connect, shake hands and learn who is there.
    pub handshake: Duration,
    /// Time between heartbeats beside a snapshot: well below the election timeout.
    pub heartbeat: Duration,
    /// A connection on which nothing was heard for so long is given up.
    pub silence: Duration,
    /// A connection that was not used for so long is closed.
    pub idle: Duration,
    /// Time for one message to come in.
    pub frame: Duration,
    /// Pause before a connection is tried again, at first.
    pub backoff_min: Duration,
    /// And at most; keep it well below the election timeout.
    pub backoff_max: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            frame_bytes_max: 64 << 20,
            append_bytes_max: 1 << 20,
            snapshot_rate: None,
            memory_bytes_max: 256 << 20,
            connections_max: 256,
            connections_per_node_max: 16,
            handshakes_max: 64,
            requests_max: 64,
            forwards_max: 1024,
            handshake: Duration::from_secs(3),
            heartbeat: Duration::from_millis(200),
            silence: Duration::from_secs(3),
            idle: Duration::from_secs(60),
            frame: Duration::from_secs(60),
            backoff_min: Duration::from_millis(20),
            backoff_max: Duration::from_millis(200),
        }
    }
}

impl Limits {
    /// The pauses before attempts to connect, one after the other.
    pub(crate) fn backoff(&self) -> impl Iterator<Item = Duration> + Send + 'static {
        let most = self.backoff_max.max(self.backoff_min);
        std::iter::successors(Some(self.backoff_min), move |last| Some((*last * 2).min(most)))
    }
}
