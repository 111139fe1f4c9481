//! What messages say: openraft's requests and replies as bytes, by postcard.
//!
//! - Entries stand one behind the other up to the end of the message, so an append can be cut at
//!   any of them.
//! - The bytes of a snapshot are the end of their message, as they are.
//! - A request is believed only as far as openraft needs it not to panic: entries follow one
//!   another, and the vote is the sender's.

use openraft::raft::{AppendEntriesRequest, InstallSnapshotRequest, VoteRequest};
use openraft::{LogId, RaftLogId, RaftTypeConfig, SnapshotMeta, Vote};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::Error;
use crate::frame;
use crate::member::Member;
use crate::mutant::{Mutant, Mutation};

/// A message ready to be sealed.
pub(crate) type Message = Vec<u8>;

fn put(message: Message, value: &impl Serialize) -> Result<Message, Error> {
    postcard::to_extend(value, message).map_err(Error::Encode)
}

/// The value at the start of `bytes`, which is moved behind it.
fn take<T: DeserializeOwned>(bytes: &mut &[u8]) -> Result<T, Error> {
    let nonsense = |_| Error::Nonsense { what: "its encoding" };
    let (value, rest) = postcard::take_from_bytes(bytes).map_err(nonsense)?;
    *bytes = rest;
    Ok(value)
}

/// A message of one value.
pub(crate) fn encode(value: &impl Serialize, most: u32) -> Result<Message, Error> {
    fits(put(frame::begin(), value)?, most)
}

/// The value of a message that holds nothing else.
pub(crate) fn decode<T: DeserializeOwned>(mut body: &[u8]) -> Result<T, Error> {
    let value = take(&mut body)?;
    if body.is_empty() { Ok(value) } else { Err(Error::Nonsense { what: "bytes behind its end" }) }
}

/// A message of these bytes.
pub(crate) fn plain(bytes: &[u8], most: u32) -> Result<Message, Error> {
    let mut message = frame::begin();
    message.extend_from_slice(bytes);
    fits(message, most)
}

fn fits(message: Message, most: u32) -> Result<Message, Error> {
    let bytes = (message.len() - frame::HEAD_BYTES) as u64;
    if bytes > u64::from(most) { Err(Error::TooLarge { bytes, most }) } else { Ok(message) }
}

/// An append with as many of its entries as fit into `window` bytes, at least one; and how many.
pub(crate) fn append<C: RaftTypeConfig<NodeId = u64>>(
    request: &AppendEntriesRequest<C>,
    window: usize,
    most: u32,
) -> Result<(Message, usize), Error> {
    let AppendEntriesRequest { vote, prev_log_id, leader_commit, entries } = request;
    let mut message = put(frame::begin(), &(vote, prev_log_id, leader_commit))?;
    for (count, entry) in entries.iter().enumerate() {
        let before = message.len();
        message = put(message, entry)?;
        if count > 0 && message.len() - frame::HEAD_BYTES > window.min(most as usize) {
            message.truncate(before);
            return Ok((fits(message, most)?, count));
        }
    }
    Ok((fits(message, most)?, entries.len()))
}

pub(crate) fn append_of<C: RaftTypeConfig<NodeId = u64>>(
    mut body: &[u8],
    sender: u64,
) -> Result<AppendEntriesRequest<C>, Error> {
    let (vote, prev_log_id, leader_commit) = take(&mut body)?;
    check_vote(&vote, sender)?;
    let prev: Option<LogId<u64>> = prev_log_id;
    let mut next = prev.map_or(Some(0), |id| id.index.checked_add(1));
    let mut entries = Vec::new();
    while !body.is_empty() {
        let entry: C::Entry = take(&mut body)?;
        if next != Some(entry.get_log_id().index) {
            return Err(Error::Nonsense { what: "entries that do not follow one another" });
        }
        next = next.and_then(|index| index.checked_add(1));
        entries.push(entry);
    }
    Ok(AppendEntriesRequest { vote, prev_log_id, leader_commit, entries })
}

pub(crate) fn vote_of(body: &[u8], sender: u64) -> Result<VoteRequest<u64>, Error> {
    let request: VoteRequest<u64> = decode(body)?;
    check_vote(&request.vote, sender)?;
    Ok(request)
}

pub(crate) fn snapshot<C: RaftTypeConfig<NodeId = u64, Node = Member>>(
    request: &InstallSnapshotRequest<C>,
    most: u32,
) -> Result<Message, Error> {
    let InstallSnapshotRequest { vote, meta, offset, data, done } = request;
    let mut message = put(frame::begin(), &(vote, meta, offset, done))?;
    message.extend_from_slice(data);
    fits(message, most)
}

pub(crate) fn snapshot_of<C: RaftTypeConfig<NodeId = u64, Node = Member>>(
    mut body: Vec<u8>,
    sender: u64,
) -> Result<InstallSnapshotRequest<C>, Error> {
    type Head = (Vote<u64>, SnapshotMeta<u64, Member>, u64, bool);
    let mut rest = &body[..];
    let (vote, meta, offset, done): Head = take(&mut rest)?;
    let head = body.len() - rest.len();
    check_vote(&vote, sender)?;
    body.drain(..head);
    Ok(InstallSnapshotRequest { vote, meta, offset, data: body, done })
}

/// A node speaks for itself alone.
fn check_vote(vote: &Vote<u64>, sender: u64) -> Result<(), Error> {
    let believes = Mutation::current().is(Mutant::BelievesVotes);
    match vote.leader_id().voted_for() {
        Some(node) if node == sender || believes => Ok(()),
        _ => Err(Error::Nonsense { what: "a vote of another node" }),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::io::Cursor;

    use openraft::SnapshotMeta;

    use super::*;

    openraft::declare_raft_types!(
        Types: D = u64, R = u64, Node = Member, SnapshotData = Cursor<Vec<u8>>
    );

    /// What says that a message of each kind is not the sender's, or that none does.
    fn refusals(sender: u64) -> Vec<Option<String>> {
        let (vote, most) = (Vote::new(3, 2), 1 << 20);
        let body = |message: Message| message[frame::HEAD_BYTES..].to_vec();
        let asks = encode(&VoteRequest::new(vote, None), most).expect("it is small");
        let entries = AppendEntriesRequest::<Types> {
            vote,
            prev_log_id: None,
            leader_commit: None,
            entries: Vec::new(),
        };
        let (entries, _) = append(&entries, 0, most).expect("it is small");
        let (meta, data) = (SnapshotMeta::default(), vec![7]);
        let image = InstallSnapshotRequest::<Types> { vote, meta, offset: 0, data, done: true };
        let image = snapshot(&image, most).expect("it is small");
        vec![
            vote_of(&body(asks), sender).err().map(|why| why.to_string()),
            append_of::<Types>(&body(entries), sender).err().map(|why| why.to_string()),
            snapshot_of::<Types>(body(image), sender).err().map(|why| why.to_string()),
        ]
    }

    pub(crate) fn nodes_speak_for_themselves() -> Result<(), String> {
        assert_eq!(refusals(2), [None, None, None]);
        let found = refusals(3);
        let is_refused = |why: &Option<String>| {
            why.as_ref().is_some_and(|why| why.contains("a vote of another node"))
        };
        if found.iter().all(is_refused) { Ok(()) } else { Err(format!("{found:?}")) }
    }

    #[test]
    fn a_node_speaks_for_itself_alone() {
        nodes_speak_for_themselves().expect("it does");
    }
}
