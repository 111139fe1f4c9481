//! What openraft keeps for a group of servers, and how it becomes what the loop knows.

use openraft::{CommittedLeaderId, Entry, EntryPayload, LogId, StoredMembership};
use serde::{Deserialize, Serialize};
use stillframe_openraft::SnapshotData;
use stillframe_raft_net::Member;
use stillframe_server::consensus::{self, Batch, Content, Reign};

openraft::declare_raft_types!(
    /// Types of a group.
    pub Types: D = Wire, R = (), Node = Member, SnapshotData = SnapshotData
);

/// A batch of effects in the log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wire {
    term: u64,
    leader: u64,
    stamp: u64,
    #[serde(with = "serde_bytes")]
    units: Vec<u8>,
}

impl Wire {
    /// Which batch it is.
    pub(crate) fn stamp(&self) -> u64 {
        self.stamp
    }

    /// The same batch, empty.
    pub(crate) fn without_units(&self) -> Self {
        Self { units: Vec::new(), ..*self }
    }
}

impl From<Batch> for Wire {
    fn from(Batch { reign: Reign { term, leader }, stamp, units }: Batch) -> Self {
        Self { term, leader, stamp, units }
    }
}

/// The reign in which an entry came into the log.
pub(crate) fn reign_of(id: &CommittedLeaderId<u64>) -> Reign {
    Reign { term: id.term, leader: id.node_id }
}

/// An entry as the loop knows it. A batch of another reign counts for nobody.
pub(crate) fn entry_of(entry: Entry<Types>) -> consensus::Entry {
    let reign = reign_of(&entry.log_id.leader_id);
    let content = match entry.payload {
        EntryPayload::Blank => Content::First,
        EntryPayload::Normal(Wire { term, leader, stamp, units }) => {
            let proposed = Reign { term, leader };
            if proposed == reign {
                Content::Batch(Batch { reign, stamp, units })
            } else {
                Content::Other
            }
        }
        EntryPayload::Membership(_) => Content::Other,
    };
    consensus::Entry { reign, index: entry.log_id.index, content }
}

/// What a state has applied: its name in the group.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Label {
    pub(crate) applied: Option<LogId<u64>>,
    pub(crate) membership: StoredMembership<u64, Member>,
}

impl Label {
    /// The label once this entry is applied, too.
    pub(crate) fn pass(&mut self, entry: &Entry<Types>) {
        self.applied = Some(entry.log_id);
        if let EntryPayload::Membership(membership) = &entry.payload {
            self.membership = StoredMembership::new(Some(entry.log_id), membership.clone());
        }
    }

    pub(crate) fn index(&self) -> u64 {
        self.applied.map_or(0, |id| id.index)
    }

    /// The index of the entry to be applied next. That of the first entry of a group, which names
    /// its members, is 0.
    pub(crate) fn next(&self) -> u64 {
        self.applied.map_or(0, |id| id.index + 1)
    }

    /// That of an image names the members: else a group that starts from it would have none.
    pub(crate) fn check(&self) -> Result<(), String> {
        match self.membership.membership().voter_ids().next() {
            Some(_) => Ok(()),
            None => Err("its label names no members".into()),
        }
    }

    /// As text, which `stillframe inspect` shows: hexadecimal.
    pub(crate) fn encode(&self) -> Result<Vec<u8>, String> {
        let bytes = postcard::to_allocvec(self).map_err(|error| error.to_string())?;
        Ok(bytes.iter().flat_map(|byte| format!("{byte:02x}").into_bytes()).collect())
    }

    pub(crate) fn decode(text: &[u8]) -> Result<Self, String> {
        let digit = |&digit: &u8| char::from(digit).to_digit(16);
        let byte = |pair: &[u8]| match pair {
            [high, low] => Some((digit(high)? * 16 + digit(low)?) as u8),
            _ => None,
        };
        let bytes: Option<Vec<u8>> = text.chunks(2).map(byte).collect();
        let bytes = bytes.ok_or("its label is not hexadecimal")?;
        match postcard::take_from_bytes(&bytes) {
            Ok((label, [])) => Ok(label),
            Ok((_, rest)) => Err(format!("its label has {} bytes too many", rest.len())),
            Err(error) => Err(format!("its label cannot be read: {error}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use openraft::Membership;

    use super::*;

    #[test]
    fn a_label_is_read_as_it_was_written() {
        let member = |n| Member { raft: format!("host{n}:7000"), client: format!("host{n}:6379") };
        let members: BTreeMap<u64, Member> = (1..=3).map(|n| (n, member(n))).collect();
        let voters: BTreeSet<u64> = members.keys().copied().collect();
        let applied = Some(LogId::new(CommittedLeaderId::new(3, 2), 41));
        let membership = Membership::new(vec![voters], members);
        let label = Label { applied, membership: StoredMembership::new(applied, membership) };
        let text = label.encode().expect("it is encoded");
        assert_eq!(Label::decode(&text).as_ref(), Ok(&label));
        assert_eq!(
            Label::decode(&Label::default().encode().expect("so is none")),
            Ok(Label::default())
        );
        for at in 0..text.len() {
            Label::decode(&text[..at]).expect_err("it is cut");
        }
        Label::decode(&[&text[..], b"00"].concat()).expect_err("more follows");
    }
}
