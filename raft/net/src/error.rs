//! What goes wrong between nodes.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use crate::directory::Id;

/// Why a change was not written to the directory.
pub type KeepError = Box<dyn std::error::Error + Send + Sync>;

/// Why a node cannot listen, is not reached, or is refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A group's name is empty or too long.
    #[error("the name of a raft group has 1 to 255 bytes, not {length}")]
    GroupName {
        /// Bytes of the name.
        length: usize,
    },
    /// An address cannot be listened at.
    #[error("cannot listen for raft at {address}: {source}")]
    Bind {
        /// The address.
        address: String,
        /// The operating system's error.
        source: io::Error,
    },
    /// A plain port beyond this machine.
    #[error(
        "raft at {address} would be open to everybody who reaches this machine: give the nodes TLS \
         certificates (of a server: raft-tls-cert-file, raft-tls-key-file and \
         raft-tls-ca-cert-file), or listen on 127.0.0.1"
    )]
    UnprotectedListener {
        /// The address.
        address: SocketAddr,
    },
    /// A plain connection beyond this machine.
    #[error(
        "raft to {address} would go over the network in plain text: give the nodes TLS \
         certificates (of a server: raft-tls-cert-file, raft-tls-key-file and raft-tls-ca-cert-file)"
    )]
    UnprotectedPeer {
        /// The address.
        address: SocketAddr,
    },
    /// A text is no `HOST:PORT`.
    #[error("'{address}' is not HOST:PORT")]
    Address {
        /// The text.
        address: String,
    },
    /// Nobody answers at an address.
    #[error("cannot connect to {address}: {source}")]
    Connect {
        /// The address.
        address: String,
        /// The operating system's error.
        source: io::Error,
    },
    /// TLS does not come about.
    #[error("no TLS connection with {peer}: {source}")]
    Tls {
        /// The address of the peer.
        peer: String,
        /// The reason.
        source: io::Error,
    },
    /// The peer did not say who it is in time.
    #[error("{peer} did not shake hands in time")]
    HandshakeTimeout {
        /// The address of the peer.
        peer: String,
    },
    /// The peer speaks something else.
    #[error("the peer is no raft port of stillframe")]
    NotOurs,
    /// The peer speaks another version.
    #[error("the peer speaks version {theirs} of the raft protocol, this node version {ours}")]
    OtherVersion {
        /// Of the peer.
        theirs: u32,
        /// Of this node.
        ours: u32,
    },
    /// The peer belongs to another group.
    #[error("the peer belongs to raft group '{theirs}', this node to '{ours}'")]
    OtherGroup {
        /// Of the peer.
        theirs: String,
        /// Of this node.
        ours: String,
    },
    /// The peer belongs to another group of the same name.
    #[error(
        "the peer belongs to another group of the same name: the id of its group is not {ours}"
    )]
    OtherIdentity {
        /// Of this node's group.
        ours: Id,
    },
    /// The peer does not say the id of the group, and was not met before.
    #[error("node {node} does not know the id of this group")]
    Stranger {
        /// The peer.
        node: u64,
    },
    /// The peer's certificate names no node, and an earlier one did.
    #[error(
        "the certificate of node {node} does not name it as raft-member-{node}, as one that it has \
         shown before does"
    )]
    NamelessCertificate {
        /// The peer.
        node: u64,
    },
    /// The peer's certificate has another public key than the one to which it is bound.
    #[error(
        "the certificate of node {node} has another key than the one to which its group has bound it, \
         and does not name it as raft-member-{node}"
    )]
    OtherKey {
        /// The peer.
        node: u64,
    },
    /// The peer does not take this node's certificate for its own.
    #[error(
        "the peer says that the certificate of node {node} is not its own: it names other members, or \
         is not the one to which the group has bound it"
    )]
    RefusedCertificate {
        /// This node.
        node: u64,
    },
    /// The peer has an older version, which says nothing of its group's id.
    #[error(
        "node {node} is of an older version, which cannot say which group it belongs to: upgrade it"
    )]
    NoIdentity {
        /// The peer.
        node: u64,
    },
    /// A node has neither a vote nor a log, though it would have to.
    #[error(
        "the directory of {} is empty, so it does not know its votes: REMOVE it from the group, and \
         ADD it with raft-join yes",
        node.map_or_else(|| "this node".to_owned(), |node| format!("node {node}"))
    )]
    Blank {
        /// Which; `None`: this one.
        node: Option<u64>,
    },
    /// The peer has another directory than before.
    #[error(
        "node {node} has another directory than before, so it does not know its votes: REMOVE it from \
         the group, and ADD it with an empty one and raft-join yes"
    )]
    OtherDirectory {
        /// The peer.
        node: u64,
    },
    /// A directory went back to an older copy.
    #[error(
        "the directory of node {node} went back to an older copy, or a copy of it runs elsewhere, so \
         it does not know its votes: REMOVE the node from the group, and ADD it with an empty \
         directory and raft-join yes"
    )]
    WentBack {
        /// Whose.
        node: u64,
    },
    /// The peer has not finished its start.
    #[error("the peer has not finished its start")]
    NotReady,
    /// What a handshake said could not be kept.
    #[error("what a peer said of itself cannot be kept: {what}")]
    NotKept {
        /// Why.
        what: KeepError,
    },
    /// A certificate names other members.
    #[error("the certificate of node {node} is not its own: it names {names}")]
    OtherCertificate {
        /// Who showed it.
        node: u64,
        /// The names in it.
        names: String,
    },
    /// The peer is another node than the one that was wanted.
    #[error("the peer is node {found}, not node {wanted}")]
    OtherNode {
        /// Which was wanted.
        wanted: u64,
        /// Which is there.
        found: u64,
    },
    /// A listener has all the connections that it takes.
    #[error("the peer takes no more connections")]
    Full,
    /// A listener works on all the requests that it takes.
    #[error("the peer takes no more requests for now")]
    Busy,
    /// Bytes are not what their sender wrote.
    #[error("damaged bytes from the peer: {what}")]
    Damaged {
        /// What is wrong.
        what: &'static str,
    },
    /// A message that makes no sense.
    #[error("a message that no node sends: {what}")]
    Nonsense {
        /// What is wrong.
        what: &'static str,
    },
    /// A message does not fit into a frame.
    #[error("a message of {bytes} bytes; this node takes at most {most}")]
    TooLarge {
        /// Its bytes.
        bytes: u64,
        /// What is allowed.
        most: u32,
    },
    /// A message cannot be encoded.
    #[error("a message cannot be encoded: {0}")]
    Encode(postcard::Error),
    /// The connection broke.
    #[error("the connection broke: {0}")]
    Broken(#[from] io::Error),
    /// The peer closed the connection.
    #[error("the peer closed the connection")]
    Closed,
    /// Nothing was heard of the peer.
    #[error("nothing was heard of the peer for too long")]
    Silent,
    /// A message did not come in as a whole in time.
    #[error("a message did not come in as a whole in time")]
    Slow,
    /// The connection was not used.
    #[error("the connection was not used for long")]
    Idle,
    /// This node has learnt its group or has got data, or the other has another certificate.
    #[error("what its ends said when the connection began has changed")]
    Outdated,
    /// A newer connection of the same node took the place.
    #[error("a newer connection took the place")]
    Replaced,
    /// This node's network has ended.
    #[error("the network of this node has ended")]
    Ended,
}

impl Error {
    /// Whether one of two nodes refuses the other for what it is.
    pub(crate) fn is_refusal(&self) -> bool {
        matches!(
            self,
            Self::OtherIdentity { .. }
                | Self::NoIdentity { .. }
                | Self::Blank { .. }
                | Self::OtherDirectory { .. }
                | Self::WentBack { .. }
                | Self::OtherCertificate { .. }
                | Self::NamelessCertificate { .. }
                | Self::OtherKey { .. }
                | Self::RefusedCertificate { .. }
                | Self::Stranger { .. }
        )
    }

    /// Whether this end has closed the connection, though it works.
    pub(crate) fn is_by_choice(&self) -> bool {
        matches!(self, Self::Idle | Self::Outdated)
    }

    /// Whether the peer is away, or on its way: it stopped, starts, or the network is cut.
    pub(crate) fn is_absence(&self) -> bool {
        matches!(
            self,
            Self::Connect { .. }
                | Self::HandshakeTimeout { .. }
                | Self::Broken(_)
                | Self::Closed
                | Self::Silent
                | Self::Slow
                | Self::NotReady
        )
    }
}

/// Why a forwarded request has no answer.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum ForwardError {
    /// The request did not reach the node: nothing was done.
    #[error("the node was not reached: {0}")]
    NotSent(Arc<Error>),
    /// The connection broke: the node may have answered the request, or not.
    #[error("no answer: {0}")]
    Lost(Arc<Error>),
    /// No answer in time: the node may have answered the request, or may yet.
    #[error("no answer in time")]
    Timeout,
    /// The node answered that it refuses the request.
    #[error("{0}")]
    Refused(String),
}
