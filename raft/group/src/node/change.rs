//! Changes of the group: who belongs to it, and who leads it.
//!
//! - One change at a time. What would leave the group without a majority that answers is refused
//!   before it begins: a change that is in the log cannot be called off.
//! - A leader that is lost between the two steps of a change leaves the group with both sets of
//!   voters; the next leader ends the change.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use std::time::Duration;

use openraft::ChangeMembers;
use stillframe_raft_net::Member;
use stillframe_server::consensus::Change;

use super::questions::{QUESTION, Question, is_unknown};
use super::{Metrics, Running, matched, member};
use crate::error::Error;

/// How often a member that joins is asked whether it is still there.
const LOOK: Duration = Duration::from_secs(1);
/// A member that joins and does not answer for so many looks is given up.
const LOOKS_MAX: u32 = 30;
/// Time for the id of the group to come into its log, if that has begun.
const NAMING: Duration = Duration::from_secs(5);
/// Time for a change of the voters, which most of them have to answer.
const CHANGE: Duration = Duration::from_secs(30);
/// Time for a member that is to lead to catch up, while nothing is written.
const CATCH_UP: Duration = Duration::from_secs(2);

/// Why the group was not changed.
#[derive(Debug, thiserror::Error)]
pub(super) enum ChangeError {
    #[error("the group is being changed already; ask again later")]
    UnderWay,
    #[error("most members have not agreed in time: the change may yet be made")]
    NotAgreed,
    #[error("there is a member {id} already, at {raft}/{client}")]
    IdTaken { id: u64, raft: String, client: String },
    #[error("member {0} belongs to the group already")]
    Belongs(u64),
    #[error("member {0} has one of these addresses already")]
    AddressTaken(u64),
    #[error(
        "the server at {raft} belongs to a group already: start member {id} in an empty directory, \
         with raft-join yes"
    )]
    OfAnotherGroup { id: u64, raft: String },
    #[error(
        "member {0} does not know of the certificates to which the log of this group binds members: \
         it is of an older version"
    )]
    OlderVersion(u64),
    #[error("this member leads no more; ask the next leader again")]
    LeadsNoMore,
    #[error("{0}; it has no vote yet: ADD or REMOVE it")]
    Silent(String),
    #[error("there is no member {0}")]
    NoMember(u64),
    #[error("member {0} is the last one with a vote")]
    LastVoter(u64),
    #[error(
        "without member {id} the group would have {rest} members with a vote, of which {answer} \
         answer: no majority"
    )]
    NoMajority { id: u64, rest: usize, answer: usize },
    #[error("it leads already")]
    LeadsAlready,
    #[error("member {0} has no vote yet")]
    NoVote(u64),
    #[error("what was written before is not agreed to yet")]
    WritesUnderWay,
    #[error("member {0} lags behind")]
    Lags(u64),
    #[error("member {0} was not elected in time")]
    NotElected(u64),
    #[error(transparent)]
    Member(#[from] Error),
}

type Changed = Result<(), ChangeError>;

impl Running {
    /// Does a change that a client asked for.
    pub(super) async fn change(&self, change: Change) -> Changed {
        let Ok(_one) = self.changes.try_lock() else { return Err(ChangeError::UnderWay) };
        let metrics = self.metrics();
        let known = metrics.membership_config.membership();
        // One that was let go leads until the others know so.
        if known.get_node(&self.id).is_none() {
            return Err(ChangeError::LeadsNoMore);
        }
        // Another leader began it, and its end may let this one go.
        if known.get_joint_config().len() > 1 {
            return Err(ChangeError::UnderWay);
        }
        match change {
            Change::Add(peer) => self.add(peer.id, member(&peer)).await,
            Change::Remove(id) => self.remove(id).await,
            Change::Transfer(id) => self.transfer(id).await,
        }
    }

    fn metrics(&self) -> Metrics {
        self.raft.metrics().borrow().clone()
    }

    /// Takes in a member: first without a vote, and with one when it has what the others have.
    async fn add(&self, id: u64, member: Member) -> Changed {
        let naming = tokio::time::timeout(NAMING, self.naming.lock()).await;
        let _naming = naming.map_err(|_| ChangeError::UnderWay)?;
        let metrics = self.metrics();
        let known = metrics.membership_config.membership();
        match known.get_node(&id) {
            Some(found) if *found != member => {
                let Member { raft, client } = found.clone();
                return Err(ChangeError::IdTaken { id, raft, client });
            }
            Some(_) if known.voter_ids().any(|voter| voter == id) => {
                return Err(ChangeError::Belongs(id));
            }
            Some(_) => {}
            None => {
                let same = known
                    .nodes()
                    .find(|(_, it)| it.raft == member.raft || it.client == member.client);
                if let Some((other, _)) = same {
                    return Err(ChangeError::AddressTaken(*other));
                }
                if self.ask(id, &member, &Question::Belongs).await? != [0] {
                    return Err(ChangeError::OfAnotherGroup { id, raft: member.raft });
                }
                if self.binds() {
                    match self.ask(id, &member, &Question::Binds).await {
                        Err(Error::Unanswered { why, .. }) if is_unknown(&why) => {
                            return Err(ChangeError::OlderVersion(id));
                        }
                        answer => drop(answer?),
                    }
                }
            }
        }
        let added = self.raft.add_learner(id, member.clone(), false);
        let added = tokio::time::timeout(CHANGE, added).await;
        let added = added.map_err(|_| ChangeError::NotAgreed)?.map_err(Error::raft)?;
        self.await_learner(id, &member, added.log_id.index).await?;
        self.change_voters(ChangeMembers::AddVoterIds(BTreeSet::from([id]))).await
    }

    /// Waits until a member without a vote has what the others have.
    async fn await_learner(&self, id: u64, member: &Member, index: u64) -> Changed {
        let lag_max = self.raft.config().replication_lag_threshold;
        let is_near = |metrics: &Metrics| {
            let last = metrics.last_log_index.unwrap_or(0);
            let is_near = |has: u64| has >= index && has + lag_max >= last;
            matched(metrics, id).is_some_and(|has| is_near(has.index))
        };
        let mut silent = 0;
        loop {
            let lost = |metrics: &Metrics| metrics.current_leader != Some(self.id);
            let waited = self.raft.wait(Some(LOOK));
            let waited = waited.metrics(|it| is_near(it) || lost(it), "a member catches up").await;
            match waited {
                Ok(metrics) if lost(&metrics) => {
                    return Err(ChangeError::LeadsNoMore);
                }
                Ok(_) => return Ok(()),
                Err(_) => match self.ask(id, member, &Question::Belongs).await {
                    Ok(_) if self.network.refusal(id).is_none() => silent = 0,
                    answer => {
                        let refused = self.network.refusal(id).map(|why| why.to_string());
                        let why = answer.err().map(|error| error.to_string()).or(refused);
                        silent += 1;
                        if silent >= LOOKS_MAX {
                            return Err(ChangeError::Silent(why.unwrap_or_default()));
                        }
                    }
                },
            }
        }
    }

    /// Lets a member go.
    async fn remove(&self, id: u64) -> Changed {
        let metrics = self.metrics();
        let known = metrics.membership_config.membership();
        let gone = known.get_node(&id).ok_or(ChangeError::NoMember(id))?.clone();
        let voters: BTreeSet<u64> = known.voter_ids().collect();
        if !voters.contains(&id) {
            let change = ChangeMembers::RemoveNodes(BTreeSet::from([id]));
            self.change_voters(change).await?;
        } else {
            let rest: Vec<u64> = voters.into_iter().filter(|&voter| voter != id).collect();
            self.refuse_minority(id, &rest, &metrics).await?;
            self.change_voters(ChangeMembers::RemoveVoters(BTreeSet::from([id]))).await?;
        }
        if id == self.id {
            self.end_own(metrics);
        } else {
            // If it does not hear of it, its votes are refused.
            let _ = self.ask(id, &gone, &Question::LetGo).await;
        }
        Ok(())
    }

    /// Refuses to let a member go if too few of the rest answer.
    async fn refuse_minority(&self, id: u64, rest: &[u64], metrics: &Metrics) -> Changed {
        if rest.is_empty() {
            return Err(ChangeError::LastVoter(id));
        }
        let asked = rest.iter().filter(|&&other| other != self.id).map(|&other| {
            let (node, known) = (self.clone(), metrics.membership_config.membership());
            let member = known.get_node(&other).cloned().unwrap_or_default();
            tokio::spawn(async move {
                node.ask(other, &member, &Question::Belongs).await.map(|_| other)
            })
        });
        let mut answer = usize::from(rest.contains(&self.id));
        for asked in asked.collect::<Vec<_>>() {
            answer += usize::from(matches!(asked.await, Ok(Ok(_))));
        }
        if answer <= rest.len() / 2 {
            return Err(ChangeError::NoMajority { id, rest: rest.len(), answer });
        }
        Ok(())
    }

    async fn change_voters(&self, change: ChangeMembers<u64, Member>) -> Changed {
        let changed = tokio::time::timeout(CHANGE, self.raft.change_membership(change, false));
        match changed.await {
            Ok(changed) => Ok(changed.map(drop).map_err(Error::raft)?),
            Err(_) => Err(ChangeError::NotAgreed),
        }
    }

    /// Ends a change that a former leader has begun, if there is one.
    pub(super) async fn end_change(&self) {
        let Ok(_one) = self.changes.try_lock() else { return };
        let metrics = self.metrics();
        let sets = metrics.membership_config.membership().get_joint_config();
        let [_, .., last] = &sets[..] else { return };
        let change = ChangeMembers::ReplaceAllVoters(last.clone());
        tracing::info!("ending the change to the members {last:?}, which another leader began");
        match self.change_voters(change).await {
            Ok(()) if !last.contains(&self.id) => self.end_own(metrics.clone()),
            Ok(()) => {}
            Err(why) => tracing::warn!("the change has not ended: {why}"),
        }
    }

    /// This leader was let go.
    fn end_own(&self, metrics: Metrics) {
        self.elections.end(self.id);
        let node = self.clone();
        tokio::spawn(async move { node.leave_lead(&metrics).await });
    }

    /// Hands the lead on. Requests wait meanwhile, so nothing is proposed.
    async fn transfer(&self, id: u64) -> Changed {
        let metrics = self.metrics();
        let known = metrics.membership_config.membership();
        let target = known.get_node(&id).ok_or(ChangeError::NoMember(id))?;
        if id == self.id {
            return Err(ChangeError::LeadsAlready);
        }
        if !known.voter_ids().any(|voter| voter == id) {
            return Err(ChangeError::NoVote(id));
        }
        self.ask(id, target, &Question::Belongs).await?;
        let mut queued = self.queued.subscribe();
        let proposed =
            tokio::time::timeout(CATCH_UP, queued.wait_for(|queued| queued.batches == 0));
        proposed.await.map_err(|_| ChangeError::WritesUnderWay)?.map_err(Error::raft)?;
        let has_all =
            |metrics: &Metrics| matched(metrics, id).map(|has| has.index) == metrics.last_log_index;
        let waited = self.raft.wait(Some(CATCH_UP)).metrics(has_all, "it has all").await;
        waited.map_err(|_| ChangeError::Lags(id))?;
        self.raft.runtime_config().heartbeat(false);
        let outcome = self.have_elected(id, target).await;
        self.raft.runtime_config().heartbeat(true);
        outcome
    }

    /// Falls silent until another member may be elected, and has it stand.
    async fn have_elected(&self, id: u64, target: &Member) -> Changed {
        self.hands_over.store(true, Ordering::SeqCst);
        let outcome = self.fall_silent_for(id, target).await;
        self.hands_over.store(false, Ordering::SeqCst);
        outcome
    }

    async fn fall_silent_for(&self, id: u64, target: &Member) -> Changed {
        // A leader that is heard of bars others from being elected for so long.
        let silence =
            self.raft.config().election_timeout_max + self.raft.config().heartbeat_interval;
        tokio::time::sleep(Duration::from_millis(silence)).await;
        self.ask(id, target, &Question::Elect).await?;
        let leads = |metrics: &Metrics| metrics.current_leader == Some(id);
        let waited = self.raft.wait(Some(QUESTION)).metrics(leads, "another leader").await;
        waited.map(drop).map_err(|_| ChangeError::NotElected(id))
    }

    /// This leader was let go: has the member stand that has most, which is sooner than to wait
    /// until the others miss a leader.
    async fn leave_lead(&self, metrics: &Metrics) {
        let known = metrics.membership_config.membership();
        let others = known.voter_ids().filter(|&voter| voter != self.id);
        let Some(id) = others.max_by_key(|&id| matched(metrics, id)) else { return };
        let Some(target) = known.get_node(&id) else { return };
        // If it fails, they elect one by themselves.
        let _ = self.have_elected(id, target).await;
    }
}
