//! The group of replicated servers that this one may belong to, as its clients see it: a Redis
//! cluster of one shard, whose primary is the leader and whose replicas are those who follow it.
//!
//! - A [`View`] is all that is known of the group; a server
//!   without a view belongs to no group, and answers as one does that is no node of a cluster.
//! - All slots are the leader's. So requests over several slots are served there, and a request
//!   is redirected by the slot of its first key.
//! - Between two leaders the last one still stands for the slots in what describes the group, as
//!   in Redis while a primary is out of reach: clients drop those they no longer find there.

mod identifier;
mod member;
mod slot;

use stillframe_commands::{Effects, Refusal};

use crate::consensus::{MemberView, View};
use crate::node::config::Reads;

pub(crate) use member::{Member, Whose};
pub use slot::slot;
pub(crate) use slot::{SLOTS, tag_of};

/// What this server knows of its group.
#[derive(Default)]
pub(crate) struct Group {
    /// Its name, the same at every member and at every start.
    name: String,
    reads: Reads,
    /// Requests for the leader are passed on to it.
    forwards: bool,
    /// The group as clients see it: this server is the leader only if it serves as one.
    view: Option<Box<View>>,
    /// The leader of the view, or the last one.
    last_leader: Option<u64>,
    /// What this server does as a member; a view that a test has given has none.
    member: Option<Box<Member>>,
}

impl Group {
    /// This server takes part in a group from now on.
    pub(crate) fn join(&mut self, member: Member) {
        self.member = Some(Box::new(member));
    }

    /// What this server does as a member.
    #[inline]
    pub(crate) fn member(&self) -> Option<&Member> {
        self.member.as_deref()
    }

    /// As [`member`](Self::member), to be changed.
    #[inline]
    pub(crate) fn member_mut(&mut self) -> Option<&mut Member> {
        self.member.as_deref_mut()
    }

    /// Proposes the effects of a turn to the group, if there is one.
    pub(crate) fn propose(&mut self, effects: &Effects) {
        if let Some(member) = &mut self.member {
            member.propose(effects);
        }
    }

    /// At the end of a turn: what was read is covered, as [`Reads`] says.
    pub(crate) fn cover_reads(&mut self) {
        match &mut self.member {
            Some(member) if self.reads == Reads::Linearizable => member.cover_reads(),
            Some(member) => member.leave_reads(),
            None => {}
        }
    }

    /// Whether this server hands on the lead of its group.
    #[inline]
    pub(crate) fn hands_over(&self) -> bool {
        self.member.as_ref().is_some_and(|member| member.hands_over())
    }

    /// Whether requests on data wait: the lead is being handed on, or too much waits for the group.
    /// All others are served meanwhile.
    #[inline]
    pub(crate) fn holds_data(&self) -> bool {
        self.member.as_ref().is_some_and(|member| member.hands_over() || member.lags())
    }

    /// Whether the server belongs to a group.
    #[inline]
    pub(crate) fn is_member(&self) -> bool {
        self.view.is_some()
    }

    /// What is known of the group, if there is one.
    pub(crate) fn view(&self) -> Option<&View> {
        self.view.as_deref()
    }

    /// Sets the name of the group.
    pub(crate) fn set_name(&mut self, name: &str) {
        self.name = name.to_owned();
    }

    /// The identifier of a member for clients.
    pub(crate) fn node(&self, id: u64) -> String {
        identifier::identifier(&self.name, id)
    }

    /// The identifier of the group for clients, as that of a shard.
    pub(crate) fn shard(&self) -> String {
        identifier::of_group(&self.name)
    }

    /// Replaces what is known of the group. Returns whether the server follows from now on and did
    /// not before.
    pub(crate) fn see(&mut self, view: Option<View>) -> bool {
        let followed = self.follows();
        match view.as_ref() {
            Some(view) => self.last_leader = view.leader.or(self.last_leader),
            None => self.last_leader = None,
        }
        self.view = view.map(Box::new);
        self.follows() && !followed
    }

    /// Passes requests for the leader on to it, or not.
    pub(crate) fn forward(&mut self, forwards: bool) {
        self.forwards = forwards;
    }

    /// Whether requests for the leader are passed on to it now.
    #[inline]
    pub(crate) fn forwards(&self) -> bool {
        self.forwards && self.followed().is_some()
    }

    /// Sets which reads a member that follows serves itself.
    pub(crate) fn serve_reads(&mut self, reads: Reads) {
        self.reads = reads;
    }

    /// Whether a member that follows serves reads of clients that ask for it.
    pub(crate) fn reads_locally(&self) -> bool {
        self.reads == Reads::Local
    }

    /// Whether the server belongs to a group and does not lead it.
    #[inline]
    pub(crate) fn follows(&self) -> bool {
        self.view.as_ref().is_some_and(|view| !view.leads())
    }

    /// Whether expired keys stay until the leader deletes them.
    pub(crate) fn spares_expired(&self) -> bool {
        self.follows() && !self.member().is_some_and(Member::expires_by_own_clock)
    }

    /// The leader that this server follows, if it knows one.
    pub(crate) fn followed(&self) -> Option<&MemberView> {
        let view = self.view.as_deref().filter(|view| !view.leads())?;
        view.member(view.leader?)
    }

    /// The member that stands for the slots: the leader, or the last one.
    pub(crate) fn holder(&self) -> Option<&MemberView> {
        self.view.as_deref()?.member(self.last_leader?)
    }

    /// The refusal of a request with keys, the first of which is in this slot, at a server that
    /// follows.
    pub(crate) fn moved(&self, slot: u16) -> Refusal {
        let Some(leader) = self.followed() else { return DOWN };
        format!("MOVED {slot} {}:{}", leader.host(), leader.port()).into()
    }

    /// The refusal of a request on all data at a server that follows.
    pub(crate) fn not_here(&self) -> Refusal {
        let Some(leader) = self.followed() else { return DOWN };
        format!("{NOT_HERE} {}:{}", leader.host(), leader.port()).into()
    }
}

const NOT_HERE: &str = "READONLY You can't do this at a member that follows; the leader is";

/// The refusal while no leader is known.
pub(crate) const DOWN: Refusal = Refusal::new("CLUSTERDOWN The cluster is down");

/// The refusal of requests that waited when the server began to follow another.
pub(crate) const NO_PRIMARY_ANY_MORE: Refusal = Refusal::new(
    "UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)",
);

/// Whether a refusal says that the leader serves the request.
pub(crate) fn is_of_leader(refusal: &Refusal) -> bool {
    let text = refusal.text();
    text.starts_with(b"MOVED ") || text.starts_with(NOT_HERE.as_bytes())
}

/// Whether a refusal sends its client elsewhere.
pub(crate) fn is_redirect(refusal: &Refusal) -> bool {
    refusal.text().starts_with(b"MOVED ") || *refusal == DOWN
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::consensus::Peer;

    fn view(me: u64, leader: Option<u64>) -> Option<View> {
        let member = |id: u64| MemberView {
            peer: Peer { id, raft: "h:17000".to_owned(), client: format!("h:{}", 7000 + id) },
            reachable: true,
            votes: true,
            matched: None,
        };
        let members = (1..=3).map(member).collect();
        Some(View { id: me, leader, term: 1, members, ..View::default() })
    }

    #[test]
    fn leadership_is_lost_once() {
        let mut group = Group::default();
        assert!(!group.is_member() && !group.follows());
        assert!(!group.see(view(1, Some(1))), "it leads");
        assert!(group.see(view(1, None)), "it leads no more");
        assert!(!group.see(view(1, Some(2))), "it has followed before");
        assert!(!group.see(view(1, Some(1))));
        assert!(group.see(view(1, Some(3))));
        assert!(!group.see(None) && !group.follows());
    }

    #[test]
    fn a_request_goes_to_the_leader_and_to_none_before_there_is_one() {
        let mut group = Group::default();
        group.see(view(1, None));
        assert_eq!(group.moved(5), DOWN);
        assert_eq!(group.not_here(), DOWN);
        assert!(group.holder().is_none());
        group.see(view(1, Some(2)));
        assert_eq!(group.moved(5).text(), b"MOVED 5 h:7002");
        assert!(group.not_here().text().ends_with(b"the leader is h:7002"));
        group.see(view(1, None));
        assert_eq!(group.moved(5), DOWN);
        assert_eq!(group.holder().map(MemberView::id), Some(2), "it stands for the slots");
        group.see(view(1, Some(9)));
        assert_eq!(group.moved(5), DOWN, "a leader that is no member is no address");
    }
}
