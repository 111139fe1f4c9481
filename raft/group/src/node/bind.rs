//! Members are bound to their certificates in the log of the group.
//!
//! - The leader proposes what a member shows at its address, after it has said the group's id: its
//!   name, or on first use its key. A node that joins later has that from the log or the image, and
//!   takes no other for a member that it has never met.
//! - Nobody is bound while a member is of a version that does not know of it: such a one would lose
//!   the bindings with its next image. Afterwards none is taken in.
//! - A member that is to have another key says so by connections with the old one, and uses the new
//!   one once the log has it. A name in the new certificate needs no word.
//! - Who was away meanwhile refuses that member, which may lead and be the one to tell: it asks the
//!   others, whom it believes as it does a leader.

use std::time::Duration;

use stillframe_raft_net::{Bindings, Bound, Member, Tls};
use tokio::time::timeout;

use super::questions::Question;
use super::{Metrics, Running};
use crate::error::Error;
use crate::types::Wire;

/// How often the files of certificates are looked at.
const FILES: Duration = Duration::from_secs(2);
/// Pause before others are asked again for what they know of bindings.
const LEARN: Duration = Duration::from_secs(1);
/// Time for a binding to come into the log.
const PROPOSAL: Duration = Duration::from_secs(2);

impl Running {
    /// What is in the log of this member's group, as far as it is applied here.
    fn bound(&self, id: u64) -> Option<Bound> {
        self.identity.read(|it| it.bound.of.get(&id).copied()).flatten()
    }

    /// What is in the log of all members, as far as it is known here.
    pub(super) fn bindings(&self) -> Bindings {
        self.identity.read(|it| it.bound.clone()).unwrap_or_default()
    }

    /// Whether the log has bound anybody.
    pub(super) fn binds(&self) -> bool {
        self.identity.read(|it| !it.bound.of.is_empty()).unwrap_or_default()
    }

    /// As the leader, binds all members, those that come later, too.
    pub(super) async fn bind(self, tls: Tls, pause: Duration) {
        let metrics = self.raft.metrics();
        loop {
            let now = metrics.borrow().clone();
            if now.running_state.is_err() {
                return;
            }
            // By the id of the group a member shows that it is one.
            if now.current_leader == Some(self.id)
                && self.newest.has_identity()
                && let Err(why) = self.bind_members(&tls, &now).await
            {
                tracing::debug!("not all members are bound to their certificates yet: {why}");
            }
            tokio::time::sleep(pause).await;
        }
    }

    async fn bind_members(&self, tls: &Tls, now: &Metrics) -> Result<(), Error> {
        let known = now.membership_config.membership();
        let shown = |id| match id == self.id {
            true => Some(tls.bound(id)),
            false => self.network.shown(id),
        };
        let shown = known.nodes().filter_map(|(id, _)| Some((*id, shown(*id)?)));
        // A name takes the place of a key. Another key does not: it was not let in.
        let is_new = |(id, shown): &(u64, Bound)| match self.bound(*id) {
            None => true,
            Some(bound) => bound != *shown && *shown == Bound::Name,
        };
        let new: Vec<(u64, Bound)> = shown.filter(is_new).collect();
        if new.is_empty() {
            return Ok(());
        }
        // No node is taken in while the first is bound: it might not know of it.
        let mut naming = None;
        if !self.binds() {
            let locked = self.naming.try_lock().map_err(|_| Error::raft("a node is taken in"))?;
            naming = Some(locked);
            for (&id, member) in known.nodes().filter(|(id, _)| **id != self.id) {
                self.ask(id, member, &Question::Binds).await?;
            }
        }
        for (id, shown) in new {
            self.propose_binding(id, shown).await?;
            log_binding(id, shown);
        }
        drop(naming);
        Ok(())
    }

    async fn propose_binding(&self, id: u64, shown: Bound) -> Result<(), Error> {
        let proposed = timeout(PROPOSAL, self.raft.client_write(Wire::binding(id, shown))).await;
        let proposed = proposed.map_err(|_| Error::raft("most members have not agreed in time"))?;
        proposed.map(drop).map_err(Error::raft)
    }

    /// Another member is to have this key. It has asked by a connection with the one to which it is
    /// bound, as each message.
    pub(super) async fn renew(&self, sender: u64, key: [u8; 32]) -> Result<(), Error> {
        match self.bound(sender) {
            None => Ok(()), // it is bound to what it shows next
            Some(Bound::Name) => Err(Error::Nameless { id: sender }),
            Some(Bound::Key(_)) => self.propose_binding(sender, Bound::Key(key)).await,
        }
    }

    /// Asks the others for later bindings whenever a member was refused for its key.
    pub(super) async fn learn_bindings(self) {
        loop {
            self.identity.refused_key().await;
            let known = self.raft.metrics().borrow().membership_config.membership().clone();
            for (&id, member) in known.nodes().filter(|(id, _)| **id != self.id) {
                if let Err(why) = self.learn_bindings_from(id, member).await {
                    tracing::debug!("member {id} says nothing of bindings: {why}");
                }
            }
            tokio::time::sleep(LEARN).await;
        }
    }

    async fn learn_bindings_from(&self, id: u64, member: &Member) -> Result<(), Error> {
        let theirs = self.ask(id, member, &Question::Bindings).await?;
        let theirs: Bindings = postcard::from_bytes(&theirs)?;
        if self.identity.read(|it| it.bound.at < theirs.at).unwrap_or_default() {
            let kept = self.identity.change_soon(move |it| {
                if it.bound.at < theirs.at {
                    it.bound = theirs;
                }
            });
            kept.await.map_err(Error::Unwritten)?;
            tracing::info!("member {id} knows of later certificates of the members");
        }
        Ok(())
    }

    /// Uses certificates anew when their files have changed.
    pub(super) async fn follow_certificates(self, tls: Tls) {
        let node = &self;
        let permit = |next| async move {
            node.take_certificate(next).await.map_err(|error| error.to_string())
        };
        tls.follow(self.id, FILES, permit).await;
    }

    /// Whether this member may show another certificate: the group has to know of it first.
    async fn take_certificate(&self, next: Bound) -> Result<(), Error> {
        let Bound::Key(key) = next else { return Ok(()) };
        match self.bound(self.id) {
            Some(Bound::Name) => return Err(Error::Nameless { id: self.id }),
            Some(bound) if bound == next => return Ok(()),
            None if !self.binds() => return Ok(()),
            _ => {}
        }
        let now = self.raft.metrics().borrow().clone();
        match now.current_leader {
            Some(leader) if leader == self.id => self.renew(self.id, key).await,
            Some(leader) => {
                let known = now.membership_config.membership();
                let member = known.get_node(&leader).cloned().unwrap_or_default();
                self.ask(leader, &member, &Question::Renew(key)).await.map(drop)
            }
            None => Err(Error::raft("nobody leads the group, which has to know the new key")),
        }
    }
}

fn log_binding(id: u64, shown: Bound) {
    match shown {
        Bound::Name => tracing::info!("member {id} is bound to the name in its certificate"),
        Bound::Key(_) => tracing::info!(
            "member {id} is bound to the key of its certificate, which does not name it as \
             raft-member-{id}"
        ),
    }
}
