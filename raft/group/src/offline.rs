//! The directory of a member that does not run: made from a dump, and read with the log behind it.

use std::path::Path;
use std::sync::Arc;

use openraft::storage::{RaftLogReader, RaftLogStorage};
use openraft::{CommittedLeaderId, LogId, Membership, StoredMembership};
use stillframe_durability::disk::Directory;
use stillframe_durability::{Application, LogOptions};
use stillframe_openraft::LogStore;
use stillframe_raft_net::Id;
use stillframe_server::consensus::{self, Batch, Content, Peer, Reign};

use crate::error::Error;
use crate::identity::{self, LOG};
use crate::node::member;
use crate::received;
use crate::types::{Label, Types, entry_of, reign_of};

/// The label of a dump from which one member begins a group: entry 1 of no leader, which names that
/// member and the group, by a random id. What follows is later, and who has nothing is sent the
/// dump.
///
/// # Errors
/// It cannot be encoded, or the system has no chance.
pub fn first_label(peer: &Peer) -> Result<Vec<u8>, Error> {
    let applied = Some(LogId::new(CommittedLeaderId::new(0, 0), 1));
    let nodes = [(peer.id, member(peer))];
    let membership =
        Membership::new(vec![[peer.id].into()], std::collections::BTreeMap::from(nodes));
    let (membership, group) = (StoredMembership::new(applied, membership), Some(Id::draw()?));
    Label { applied, membership, group, ..Label::default() }.encode()
}

/// Makes a directory with a dump that has its first label that of a member.
///
/// # Errors
/// [`Error`]: the directory is somebody's already, or cannot be written.
pub fn begin_group(directory: &Path, dump: &str, group: &str, id: u64) -> Result<(), Error> {
    let files = Directory::existing(directory)?;
    let label = received::check(&files, dump)?;
    label.check()?;
    let owner = identity::Member { group: group.to_owned(), id };
    // There is a dump, so nobody's directory is as good as a stranger's.
    if owner.find(&files, false)?.is_some() || files.holds(LOG)? {
        return Err(Error::Begun { directory: directory.to_owned() });
    }
    files.create_below(LOG)?;
    files.sync()?;
    let (server, options) = (Application::server(), LogOptions::default());
    LogStore::<Types>::open(files.below(LOG)?, true, &server, options)?;
    owner.begin(Arc::new(files), None, Some(&label), false, false).map(drop)
}

/// What the directory of a member has.
#[derive(Debug, Clone)]
pub struct Member {
    /// Its last entry.
    pub last: Last,
    /// The members that vote, as far as it knows.
    pub voters: Vec<u64>,
    /// Its number.
    pub id: u64,
    /// The name of its group.
    pub group: String,
    /// The random id of its group, if it has met one.
    pub group_id: Option<String>,
    /// The batches of its log behind its dump, in order.
    pub batches: Vec<Vec<u8>>,
}

/// The last entry of a log. The greatest of most members has all that was ever acknowledged.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Last {
    /// The term of its leader.
    pub term: u64,
    /// Who led.
    pub leader: u64,
    /// Its number.
    pub index: u64,
}

/// Reads the directory of a member that does not run.
///
/// # Errors
/// [`Error`]: it is no member's, it runs, or its dump or log cannot be read.
pub fn read_member(directory: &Path, dump: &str) -> Result<Member, Error> {
    let files = Directory::existing(directory)?;
    let identity::Owned { member, group: group_id, .. } = identity::Owned::read(&files)?;
    let identity::Member { group, id } = member;
    let label = match files.holds(dump)? {
        true => received::check(&files, dump)?,
        false => Label::default(),
    };
    let (server, options) = (Application::server(), LogOptions::default());
    let log = LogStore::<Types>::open(files.below(LOG)?, false, &server, options)?;
    let runtime = tokio::runtime::Builder::new_current_thread().build().map_err(Error::Threads)?;
    runtime.block_on(read_log(log, label)).map(|(last, voters, batches)| Member {
        last,
        voters,
        id,
        group,
        group_id: group_id.map(|id| id.to_string()),
        batches,
    })
}

/// The last entry, the voters, and the batches behind a label.
async fn read_log(
    mut log: LogStore<Types>,
    mut label: Label,
) -> Result<(Last, Vec<u64>, Vec<Vec<u8>>), Error> {
    let state = log.get_log_state().await.map_err(Error::entries)?;
    if state.last_purged_log_id.map_or(0, |id| id.index + 1) > label.next() {
        let what =
            format!("its log begins behind entry {}, with which its dump ends", label.index());
        return Err(Error::entries(what));
    }
    let from = label.next();
    let entries = log.try_get_log_entries(from..).await.map_err(Error::entries)?;
    let (mut batches, mut parts) = (Vec::new(), None::<(Reign, Vec<u8>)>);
    for entry in entries {
        label.pass(&entry);
        let consensus::Entry { reign, content, .. } = entry_of(entry);
        // A unit whose last part did not come counts for nothing.
        parts.take_if(|(of, _)| *of != reign);
        let Content::Batch(Batch { splits_unit, units, .. }) = content else { continue };
        let mut whole = parts.take().map_or_else(Vec::new, |(_, bytes)| bytes);
        whole.extend(units);
        match splits_unit {
            true => parts = Some((reign, whole)),
            false => batches.push(whole),
        }
    }
    let last = label.applied.map_or_else(Last::default, |id| {
        let reign = reign_of(&id.leader_id);
        Last { term: reign.term, leader: reign.leader, index: id.index }
    });
    Ok((last, label.membership.membership().voter_ids().collect(), batches))
}
