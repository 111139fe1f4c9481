//! Settings of a member of a group.

use stillframe::algorithms::ALL;

use super::error::ValueError;
use super::kinds::{bytes, one_of, text, whole, words, yes_or_no};
use super::setting::settings;
use super::{Config, INT_MAX};
use crate::consensus::{Peer, Settings, address};

/// Which reads a member that follows serves itself.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reads {
    /// None: the leader serves all, in one order with the writes.
    #[default]
    Linearizable,
    /// Those of clients that said READONLY: they may see an older state.
    Local,
}

settings! {
    /// How a server takes part in a group that agrees by raft. All names are this server's own.
    pub(crate) struct RaftSettings, entries RAFT of config[.raft];

    /// The number of this member; 0: it belongs to no group.
    id: u64 = 0,
        "raft-id": whole(0, i64::MAX as u64) .own_at_start()
        .help("N", "take part in a group as member N");
    /// Where it hears the other members.
    listen: String = String::new(),
        "raft-listen": text() .own_at_start()
        .help("HOST:PORT", "where the other members reach this one");
    /// The members that begin a group.
    peers: Vec<Peer> = Vec::new(),
        "raft-peers": words(peers, show_peers) .own_at_start()
        .help("1=RAFT/CLIENT,...", "members that begin a group, two HOST:PORT each");
    /// The group is there already, and takes this member in.
    joins: bool = false,
        "raft-join": yes_or_no() .own_at_start();
    /// The name of the group.
    group: String = "stillframe".to_owned(),
        "raft-group": text() .own_at_start();
    /// Which reads are served by whom.
    reads: Reads = Reads::Linearizable,
        "raft-read": one_of([("linearizable", Reads::Linearizable), ("local", Reads::Local)])
        .own_at_start();
    /// Whether a member that follows passes requests on to the leader.
    forward: bool = false,
        "raft-forward": yes_or_no() .own_at_start();
    /// How long a leader may be silent.
    election_timeout_ms: u64 = 1000,
        "raft-election-timeout": whole(50, INT_MAX as u64) .own_at_start();
    /// An image is taken when the log has so many bytes, and as many as the last image.
    log_min_bytes: u64 = 64 << 20,
        "raft-log-min-size": bytes(1 << 20, i64::MAX as u64) .own_at_start();
    /// What one request, transaction or script changes has so many bytes at most.
    write_bytes_max: u64 = 1 << 30,
        "raft-write-max-size": bytes(1 << 20, WRITE_BYTES_LIMIT) .own_at_start();
    /// Entries that stay behind an image, for members that lag.
    entries_kept: u64 = 1000,
        "raft-log-keep-entries": whole(0, i64::MAX as u64) .own_at_start();
    /// Bytes of images a second sent to other members; 0: as fast as they go.
    image_rate: u64 = 64 << 20,
        "raft-image-rate": bytes(0, i64::MAX as u64) .own_at_start();
    /// Certificate, key and authority of members.
    cert_file: String = String::new(),
        "raft-tls-cert-file": text() .own_at_start();
    key_file: String = String::new(),
        "raft-tls-key-file": text() .own_at_start();
    ca_cert_file: String = String::new(),
        "raft-tls-ca-cert-file": text() .own_at_start();
}

impl Config {
    /// What a member of a group cannot have, if it is to be one.
    pub(crate) fn problem_of_member(&self) -> Option<&'static str> {
        if self.raft.id == 0 {
            None
        } else if self.appendonly {
            Some("appendonly: the log of a member is the group's; leave it at no")
        } else if self.replication.primary.is_some() {
            Some("replicaof: a member of a group follows the leader of the group")
        } else if self.replication.min_replicas > 0 {
            Some("min-replicas-to-write: a reply of a member waits for most members; leave it at 0")
        } else if ALL.iter().any(|info| info.name == self.snapshot && !info.in_process) {
            Some("snapshot: a member takes its images itself; choose another algorithm")
        } else {
            None
        }
    }
}

impl Config {
    /// Ports in this member's entry of `raft-peers` that it does not listen at: behind a gateway
    /// they may be right.
    pub(crate) fn strange_ports(&self) -> Option<String> {
        let own = self.raft.peers.iter().find(|peer| peer.id == self.raft.id)?;
        let port = |text: &str| address(text).map(|(_, port)| port);
        let [raft, client] = [port(&own.raft)?, port(&own.client)?];
        let listens = port(&self.raft.listen)?;
        let serves = [self.port, self.tls.port];
        if raft == listens && serves.contains(&client) {
            return None;
        }
        Some(format!(
            "raft-peers sends the others to port {raft} of this member and clients to port {client}; \
             it listens at {listens} (raft-listen) and {} (port)",
            self.port
        ))
    }
}

/// The length of a unit has four bytes in the log, and its signed kin elsewhere.
const WRITE_BYTES_LIMIT: u64 = (2 << 30) - (1 << 20);
/// Images go in pieces of 3 MiB, each of which should arrive in seconds.
const IMAGE_RATE_MIN: u64 = 1 << 20;
/// Longest name of a group.
const GROUP_BYTES_MAX: usize = 255;

/// Entries after which openraft asks for an image by itself; the size of the log decides before.
const ENTRIES_PER_IMAGE: u64 = 10_000_000;

impl RaftSettings {
    /// The settings of the member, if the server is one.
    pub(crate) fn of_member(&self) -> Option<Settings> {
        let files = [&self.cert_file, &self.key_file, &self.ca_cert_file];
        (self.id > 0).then(|| Settings {
            id: self.id,
            listen: self.listen.clone(),
            peers: self.peers.clone(),
            joins: self.joins,
            group: self.group.clone(),
            election_timeout_ms: self.election_timeout_ms,
            entries_per_image: ENTRIES_PER_IMAGE,
            entries_kept: self.entries_kept,
            log_min_bytes: self.log_min_bytes,
            image_rate: self.image_rate,
            tls: files.iter().any(|file| !file.is_empty()).then(|| files.map(String::clone)),
        })
    }

    /// What keeps a server with these settings from being a member, if it is to be one.
    pub(crate) fn problem(&self) -> Option<&'static str> {
        if self.id == 0 {
            return None;
        }
        let is_peer = self.peers.iter().any(|peer| peer.id == self.id);
        let files = [&self.cert_file, &self.key_file, &self.ca_cert_file];
        let missing = files.iter().filter(|file| file.is_empty()).count();
        if (1..=2).contains(&missing) {
            Some("raft-tls-cert-file, -key-file and -ca-cert-file: name all three, or none")
        } else if !(1..=GROUP_BYTES_MAX).contains(&self.group.len()) {
            Some("raft-group: the name of a group has 1 to 255 bytes")
        } else if (1..IMAGE_RATE_MIN).contains(&self.image_rate) {
            Some("raft-image-rate: at least 1mb a second, or 0 for no bound")
        } else if self.listen.is_empty() {
            Some("raft-listen: name the HOST:PORT at which the other members reach this one")
        } else if !self.joins && !is_peer {
            Some(
                "raft-peers: name the members that begin the group, this one among them; or \
                  raft-join yes, to be taken in by a group that is there",
            )
        } else {
            None
        }
    }
}

/// Reads `ID=RAFT/CLIENT,...`, as `raft-peers` does.
///
/// # Errors
/// [`ValueError::Peer`], [`ValueError::SharedAddress`].
pub fn read_peers(value: &str) -> Result<Vec<Peer>, ValueError> {
    peers(value)
}

fn peers(value: &str) -> Result<Vec<Peer>, ValueError> {
    let mut peers: Vec<Peer> = Vec::new();
    for text in value.split([',', ' ']).filter(|text| !text.is_empty()) {
        let peer = peer(text).ok_or(ValueError::Peer)?;
        if peers.iter().any(|other| other.id == peer.id) {
            return Err(ValueError::Peer);
        }
        if peers.iter().any(|other| other.raft == peer.raft || other.client == peer.client) {
            return Err(ValueError::SharedAddress);
        }
        peers.push(peer);
    }
    Ok(peers)
}

/// Reads `ID=HOST:PORT/HOST:PORT`.
pub(crate) fn peer(text: &str) -> Option<Peer> {
    let (id, addresses) = text.split_once('=')?;
    let id = id.parse().ok().filter(|&id| id > 0)?;
    let (raft, client) = addresses.split_once('/')?;
    let [raft, client] = [raft, client].map(|text| address(text).map(|_| text.to_owned()));
    Some(Peer { id, raft: raft?, client: client? })
}

#[expect(clippy::ptr_arg, reason = "a kind of value shows the value itself")]
fn show_peers(peers: &Vec<Peer>) -> String {
    let show = |Peer { id, raft, client }: &Peer| format!("{id}={raft}/{client}");
    peers.iter().map(show).collect::<Vec<_>>().join(",")
}
