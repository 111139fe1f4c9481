//! A group at one moment, as one of its members knows it.

use std::fmt::Write as _;

use sha2::{Digest, Sha256};

/// A group at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct View {
    /// The name of the group, the same at every member and at every start.
    pub(crate) name: String,
    /// The number of this server.
    pub(crate) me: u64,
    /// The number of the leader, if one is known. The server itself only if it may serve as one.
    pub(crate) leader: Option<u64>,
    /// The term.
    pub(crate) term: u64,
    /// The members, this one included.
    pub(crate) members: Vec<MemberView>,
}

/// A member of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MemberView {
    /// Its number.
    pub(crate) id: u64,
    /// The address at which clients reach it.
    pub(crate) host: String,
    /// The port at which clients reach it.
    pub(crate) port: u16,
    /// The port at which members reach it.
    pub(crate) raft_port: u16,
    /// Whether it has been heard of lately.
    pub(crate) reachable: bool,
    /// Whether it votes.
    pub(crate) voter: bool,
    /// The last entry that it is known to have applied.
    pub(crate) applied: u64,
}

impl View {
    /// Whether this server leads.
    #[inline]
    pub(crate) fn leads(&self) -> bool {
        self.leader == Some(self.me)
    }

    /// The member with this number.
    pub(crate) fn member(&self, id: u64) -> Option<&MemberView> {
        self.members.iter().find(|member| member.id == id)
    }

    /// Whether a member answers, as far as is known here.
    pub(crate) fn answers(&self, member: &MemberView) -> bool {
        member.id == self.me || member.reachable
    }

    /// The identifier of a member for clients, 40 hexadecimal digits: the same as long as the group
    /// lives.
    pub(crate) fn node(&self, id: u64) -> String {
        let digest = Sha256::new()
            .chain_update(b"stillframe member\0")
            .chain_update(id.to_be_bytes())
            .chain_update(self.name.as_bytes())
            .finalize();
        digest.iter().take(20).fold(String::new(), |mut text, byte| {
            let _ = write!(text, "{byte:02x}");
            text
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers_are_those_of_a_member_of_one_group() {
        let of = |name: &str, id| {
            let (me, leader, term, members) = (1, None, 0, Vec::new());
            View { name: name.to_owned(), me, leader, term, members }.node(id)
        };
        let first = of("shop", 1);
        assert_eq!(first.len(), 40);
        assert!(first.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')));
        // Clients know a member by it from one start to the next.
        assert_eq!(first, "8cef9acd25d361463878b5bbe66f8b1bcf94d0aa");
        assert_ne!(first, of("shop", 2));
        assert_ne!(first, of("shops", 1));
    }
}
