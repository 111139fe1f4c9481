//! When this member asks for votes.
//!
//! - It asks the others first (*pre-vote*): it stands only if most of those that vote have missed
//!   their leader, too, and have no newer log. openraft 0.9 would stand as soon as its own time is
//!   over, and a member that was away for a while would end the reign of a leader that is well. Its
//!   timer is off.
//! - To ask changes nothing, so a member that is refused asks again soon.
//! - A member of a version that does not know the question is taken to agree.
//! - Elections that nobody wins make the next ones longer: [`Pace`].

use std::collections::BTreeSet;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use openraft::{LeaderId, LogId, Raft, ServerState};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::questions::Opinion;
use super::votes::{Pace, are_most};
use super::{Metrics, Running};
use crate::error::Error;
use crate::mutant::{Mutant, Mutation};
use crate::types::Types;

/// What a member knows of its leader.
#[derive(Debug, Clone, Copy)]
struct Seen {
    /// The last vote was won: it names a leader.
    is_won: bool,
    /// How long ago that vote was given, or its leader heard.
    silence: Duration,
}

/// What an opinion depends on.
struct Known {
    seen: Seen,
    /// If this member leads: whether it has heard of most members of late.
    leads: Option<bool>,
    last: Option<LogId<u64>>,
    /// The one that asks votes, or no members are known.
    is_voter: bool,
}

#[derive(Clone)]
pub(super) struct Elections {
    pub(super) raft: Raft<Types>,
    timeout: Duration,
    pub(super) pace: Arc<Pace>,
    /// Its start is over.
    is_ready: Arc<AtomicBool>,
    /// It was let go from the group.
    is_over: Arc<AtomicBool>,
    /// The leader that this member misses.
    missed: Arc<watch::Sender<Option<LeaderId<u64>>>>,
}

impl Elections {
    pub(super) fn new(raft: &Raft<Types>, timeout_ms: u64) -> Self {
        let (is_ready, is_over) = (Arc::default(), Arc::default());
        let (timeout, missed) =
            (Duration::from_millis(timeout_ms), Arc::new(watch::Sender::new(None)));
        let pace = Arc::new(Pace::new(timeout));
        Self { raft: raft.clone(), timeout, pace, is_ready, is_over, missed }
    }

    /// The start of this member is over: it asks for votes when a leader is missed.
    pub(super) fn begin(&self) {
        self.is_ready.store(true, Ordering::SeqCst);
    }

    /// This member was let go: it does not ask for votes any more.
    pub(super) fn end(&self, leader: u64) {
        self.is_over.store(true, Ordering::SeqCst);
        tracing::warn!(
            "this member was removed from its group by member {leader}: it serves nobody any more, \
             and can be stopped"
        );
    }

    /// The leader that this member misses, if it does.
    pub(super) fn missed(&self) -> watch::Receiver<Option<LeaderId<u64>>> {
        self.missed.subscribe()
    }

    /// What openraft knows; `None` if it has ended.
    async fn raft_state(&self) -> Option<(Seen, LeaderId<u64>)> {
        let seen = self.raft.with_raft_state(|state| {
            let vote = *state.vote_ref();
            let silence = state.vote_last_modified().map_or(Duration::MAX, |at| at.elapsed());
            (Seen { is_won: vote.committed, silence }, vote.leader_id)
        });
        seen.await.ok()
    }

    /// Says what this member thinks of the candidacy of another, whose log ends with `theirs`.
    pub(super) async fn opinion(
        &self,
        sender: u64,
        theirs: Option<LogId<u64>>,
    ) -> Result<Opinion, Error> {
        let (seen, _) =
            self.raft_state().await.ok_or_else(|| Error::raft("this member has ended"))?;
        let metrics = self.raft.metrics().borrow().clone();
        let patience_ms = self.pace.patience().as_millis() as u64;
        let is_heard = metrics.millis_since_quorum_ack.is_none_or(|age| age <= patience_ms);
        let membership = metrics.membership_config.membership();
        let known = Known {
            seen,
            leads: (metrics.state == ServerState::Leader).then_some(is_heard),
            last: self.raft.data_metrics().borrow().last_log,
            is_voter: membership.voter_ids().next().is_none()
                || membership.voter_ids().any(|voter| voter == sender),
        };
        Ok(known.opinion(self.timeout, self.pace.election(), theirs))
    }
}

impl Known {
    fn opinion(
        &self,
        timeout: Duration,
        election: Duration,
        theirs: Option<LogId<u64>>,
    ) -> Opinion {
        let mutation = Mutation::current();
        let Seen { is_won, silence } = self.seen;
        // As long as openraft refuses every vote.
        let lease = timeout * 3 / 5;
        let has_leader = self.leads.unwrap_or(is_won && silence < lease);
        let opinion = if has_leader && !mutation.is(Mutant::DeniesLeader) {
            Opinion::HasLeader
        } else if !is_won && silence < election / 2 {
            Opinion::HasVoted
        } else if theirs < self.last && !mutation.is(Mutant::AgreesToLess) {
            Opinion::HasMore
        } else {
            return Opinion::Agrees;
        };
        if self.is_voter { opinion } else { Opinion::Removed }
    }
}

/// How long a member is silent before it asks, with `chance` from 0 to 1. Who has voted or stood
/// waits for the end of that election alone.
fn patience(timeout: Duration, election: Duration, is_won: bool, chance: f64) -> Duration {
    if is_won { timeout.mul_f64(1.0 + chance / 5.0) } else { election.mul_f64(1.0 + chance / 2.0) }
}

/// From 0 to 1.
fn chance() -> f64 {
    (RandomState::new().hash_one(0) >> 40) as f64 / f64::from(1 << 24)
}

impl Running {
    /// Stands for election whenever most members miss their leader.
    pub(super) async fn stand(self) {
        let Elections { timeout, pace, missed, is_ready, is_over, raft } = self.elections.clone();
        let (mut drawn, mut told) = (chance(), false);
        while let Some((seen, leader)) = self.elections.raft_state().await {
            let metrics = raft.metrics().borrow().clone();
            let leads = metrics.state == ServerState::Leader;
            let voters: BTreeSet<u64> = metrics.membership_config.voter_ids().collect();
            let wait = match voters == BTreeSet::from([self.id]) {
                true => Duration::ZERO, // nobody else can lead
                false => {
                    let patience = patience(timeout, pace.election(), seen.is_won, drawn);
                    patience.saturating_sub(seen.silence)
                }
            };
            if seen.is_won {
                pace.is_won();
            }
            let misses = (seen.is_won && !leads && wait.is_zero()).then_some(leader);
            missed.send_if_modified(|before| std::mem::replace(before, misses) != misses);
            if !wait.is_zero() {
                // Another may lead long before an election that is given much time would be over.
                sleep(wait.min(timeout)).await;
                continue;
            }
            // As a member starts, nobody knows how long ago its last vote was given.
            if !seen.is_won && seen.silence < Duration::MAX {
                pace.is_lost(leader);
            }
            let takes_part = is_ready.load(Ordering::SeqCst) && !is_over.load(Ordering::SeqCst);
            let may_stand = !leads && voters.contains(&self.id) && takes_part;
            if may_stand {
                let asks = !Mutation::current().is(Mutant::StandsUnasked);
                let agreed = if asks { self.ask_others(&metrics).await } else { Some(true) };
                match agreed {
                    Some(true) if !self.elect(&metrics).await => return,
                    Some(false) if !std::mem::replace(&mut told, true) => self.tell_removed(),
                    _ => {}
                }
            }
            drawn = chance();
            sleep(timeout.mul_f64(0.1 + chance() / 10.0)).await;
        }
    }

    fn tell_removed(&self) {
        tracing::warn!(
            "the others say that member {} does not belong to their group any more, and it gets no \
             vote: it was removed while it was away. Stop it; to take it back, start it in an \
             empty directory with raft-join yes, and ADD it",
            self.id
        );
    }

    /// Whether most members agree that this one stands. `Some(false)`: most say that it was
    /// removed.
    async fn ask_others(&self, metrics: &Metrics) -> Option<bool> {
        let membership = metrics.membership_config.membership();
        let sets = membership.get_joint_config();
        let last = self.raft.data_metrics().borrow().last_log;
        let time = self.elections.pace.election();
        let (mut agree, mut removed) = (BTreeSet::from([self.id]), BTreeSet::new());
        let mut asked = JoinSet::new();
        let voters: BTreeSet<u64> = membership.voter_ids().filter(|&id| id != self.id).collect();
        for id in voters {
            let (node, member) = (self.clone(), membership.get_node(&id).cloned());
            asked.spawn(async move {
                (id, node.ask_opinion(id, &member.unwrap_or_default(), last, time).await)
            });
        }
        loop {
            if are_most(&agree, sets) {
                return Some(true);
            }
            match asked.join_next().await {
                None => break,
                Some(Err(_)) => {} // it has panicked: no answer
                Some(Ok((id, Some(Opinion::Agrees)))) => drop(agree.insert(id)),
                Some(Ok((id, Some(Opinion::Removed)))) => drop(removed.insert(id)),
                Some(Ok(_)) => {}
            }
        }
        are_most(&removed, sets).then_some(false)
    }
}

#[cfg(test)]
mod tests {
    use openraft::CommittedLeaderId;

    use super::*;
    use crate::mutant::with_mutant;

    const TIMEOUT: Duration = Duration::from_millis(1000);

    fn log(term: u64, index: u64) -> Option<LogId<u64>> {
        Some(LogId::new(CommittedLeaderId::new(term, 1), index))
    }

    /// What a member says that follows a leader heard so many milliseconds ago, and has a log of
    /// term 3 with 10 entries.
    fn opinion(silence: u64, is_won: bool, theirs: Option<LogId<u64>>) -> Opinion {
        let seen = Seen { is_won, silence: Duration::from_millis(silence) };
        let known = Known { seen, leads: None, last: log(3, 10), is_voter: true };
        known.opinion(TIMEOUT, TIMEOUT * 2 / 5, theirs)
    }

    fn opinions_are_right() -> Result<(), String> {
        use Opinion::{Agrees, HasLeader, HasMore, HasVoted};
        for (silence, is_won, theirs, expected) in [
            (0, true, log(9, 99), HasLeader),
            (599, true, log(9, 99), HasLeader),
            (600, true, log(3, 10), Agrees),
            (600, true, log(3, 9), HasMore),
            (600, true, log(2, 99), HasMore),
            (600, true, None, HasMore),
            (600, true, log(4, 1), Agrees),
            (0, false, log(9, 99), HasVoted),
            (199, false, log(9, 99), HasVoted),
            (200, false, log(3, 11), Agrees),
            (200, false, log(3, 9), HasMore),
        ] {
            let found = opinion(silence, is_won, theirs);
            if found != expected {
                return Err(format!("{silence} {is_won} {theirs:?}: {found:?}"));
            }
        }
        let seen = Seen { is_won: true, silence: Duration::from_secs(60) };
        for (leads, is_voter, theirs, expected) in [
            (Some(true), true, log(9, 9), HasLeader),
            // It hears of nobody: any member that can replace it may.
            (Some(false), true, log(9, 9), Agrees),
            (Some(false), true, log(1, 1), HasMore),
            (Some(true), false, log(9, 9), Opinion::Removed),
            (None, false, log(1, 1), Opinion::Removed),
            // A member that was just taken in may have what this one lacks.
            (None, false, log(9, 9), Agrees),
        ] {
            let known = Known { seen, leads, last: log(3, 10), is_voter };
            let found = known.opinion(TIMEOUT, TIMEOUT * 2 / 5, theirs);
            if found != expected {
                return Err(format!("{leads:?} {is_voter} {theirs:?}: {found:?}"));
            }
        }
        let sets = [BTreeSet::from([1, 2, 3]), BTreeSet::from([1, 4, 5])];
        for (agree, expected) in [
            (vec![1, 2], false),
            (vec![1, 4], false),
            (vec![1, 2, 4], true),
            (vec![2, 4, 5], false),
        ] {
            if are_most(&agree.iter().copied().collect(), &sets) != expected {
                return Err(format!("{agree:?}"));
            }
        }
        Ok(())
    }

    #[test]
    fn a_member_agrees_if_it_misses_its_leader_and_has_no_more() {
        opinions_are_right().expect("it does");
        let judged = [Mutant::DeniesLeader, Mutant::AgreesToLess, Mutant::CountsOneSet];
        for mutant in judged {
            with_mutant(mutant, || {
                opinions_are_right().expect_err(&format!("{mutant:?} was not found"))
            });
        }
    }

    #[test]
    fn a_member_that_asks_has_waited_as_long_as_is_promised() {
        for _ in 0..1000 {
            let drawn = chance();
            assert!((0.0..=1.0).contains(&drawn), "{drawn}");
            let election = TIMEOUT * 2 / 5;
            let wait = patience(TIMEOUT, election, true, drawn);
            assert!((1000..=1200).contains(&wait.as_millis()), "{wait:?}");
            assert!((400..=600).contains(&patience(TIMEOUT, election, false, drawn).as_millis()));
        }
    }
}
