//! Elections and reigns on slow disks and links.
//!
//! openraft 0.9 gives every vote the same time, two fifths of `raft-election-timeout`, in which the
//! voter has to make it durable. Where votes steadily take longer nobody would ever lead. So:
//! - An election that nobody wins doubles the time of the next, for all who have seen it: how long
//!   they wait for its end, and for each other's answers ([`Pace`]).
//! - From then on a candidate first asks all, itself too, to make the vote durable that openraft is
//!   about to ask for, with that time. Who is asked then by openraft waits for no sync.
//! - openraft hears nobody while it waits for a sync, so acknowledgements come seldom, and a leader
//!   waits for the next twice as long as for the last ones.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use openraft::{LeaderId, Vote};
use tokio::task::JoinSet;

use super::questions::Question;
use super::{Metrics, Running};
use crate::mutant::{Mutant, Mutation};

/// The most that an election grows to.
const ELECTION_MAX: Duration = Duration::from_secs(30);
/// The number of elections in a row without a winner at which the log says so.
const WORTH_A_LINE: u32 = 3;

/// How long a member waits for the others.
#[derive(Debug)]
pub(super) struct Pace {
    timeout: Duration,
    lost: Mutex<Lost>,
    /// The time from one acknowledgement by most members to the next, in milliseconds.
    delay: AtomicU64,
}

/// Elections since the last leader that nobody has won.
#[derive(Debug, Default)]
struct Lost {
    count: u32,
    last: Option<LeaderId<u64>>,
}

impl Pace {
    pub(super) fn new(timeout: Duration) -> Self {
        Self { timeout, lost: Mutex::default(), delay: AtomicU64::new(0) }
    }

    /// `raft-election-timeout`.
    pub(super) fn timeout(&self) -> Duration {
        self.timeout
    }

    /// A leader has heard of most members, for the first time since so long.
    pub(super) fn is_heard(&self, since: Duration) {
        // Not for long once it was out of reach.
        let since = since.min(self.patience() * 2).as_millis() as u64;
        let faded = self.delay.load(Ordering::Relaxed) * 3 / 4;
        self.delay.store(since.max(faded), Ordering::Relaxed);
    }

    /// How long a leader waits until it hears of most members, and then serves nobody any more.
    pub(super) fn patience(&self) -> Duration {
        let delay = Duration::from_millis(self.delay.load(Ordering::Relaxed));
        (delay * 2).clamp(self.timeout, self.timeout * 10)
    }

    fn lost(&self) -> u32 {
        let lost = self.lost.lock().unwrap_or_else(PoisonError::into_inner).count;
        if Mutation::current().is(Mutant::NeverSlowsDown) { 0 } else { lost }
    }

    /// How long an election may take until the next.
    pub(super) fn election(&self) -> Duration {
        let least = self.timeout * 2 / 5;
        least.saturating_mul(1 << self.lost().min(16)).min(ELECTION_MAX.max(least))
    }

    /// There is a leader.
    pub(super) fn is_won(&self) {
        *self.lost.lock().unwrap_or_else(PoisonError::into_inner) = Lost::default();
    }

    /// Nobody has won the election in which this vote was given.
    pub(super) fn is_lost(&self, vote: LeaderId<u64>) {
        let mut lost = self.lost.lock().unwrap_or_else(PoisonError::into_inner);
        if lost.last.replace(vote) == Some(vote) {
            return;
        }
        lost.count += 1;
        if lost.count == WORTH_A_LINE {
            let (count, least) = (lost.count, self.timeout * 2 / 5);
            tracing::warn!(
                "nobody has won the last {count} elections: votes may take longer than the {} ms \
                 that raft-election-timeout leaves them, on a slow disk, a slow link or a busy \
                 machine. The next elections are given more time; a larger raft-election-timeout \
                 makes them shorter again",
                least.as_millis()
            );
        }
    }
}

/// Whether these are most of each set of voters.
pub(super) fn are_most(agree: &BTreeSet<u64>, sets: &[BTreeSet<u64>]) -> bool {
    let any = Mutation::current().is(Mutant::CountsOneSet);
    let is_most = |set: &BTreeSet<u64>| set.intersection(agree).count() > set.len() / 2;
    !sets.is_empty() && if any { sets.iter().any(is_most) } else { sets.iter().all(is_most) }
}

impl Running {
    /// Stands for election. `false`: openraft has ended.
    pub(super) async fn elect(&self, metrics: &Metrics) -> bool {
        if self.elections.pace.lost() > 0 {
            let Some(before) = self.vote().await else { return false };
            if before.committed {
                return true; // there is a leader by now
            }
            self.prepare_votes(metrics, before.leader_id.term + 1).await;
            if self.vote().await != Some(before) {
                return true; // another leads, or stands
            }
        }
        self.raft.trigger().elect().await.is_ok()
    }

    async fn vote(&self) -> Option<Vote<u64>> {
        self.raft.with_raft_state(|state| *state.vote_ref()).await.ok()
    }

    /// Waits until most members have answered: those that agree have their vote on the disk.
    async fn prepare_votes(&self, metrics: &Metrics, term: u64) {
        let question = Question::Prepare(term, self.raft.data_metrics().borrow().last_log);
        let (time, question) = (self.elections.pace.election(), Arc::new(question));
        let membership = metrics.membership_config.membership();
        let mut asked = JoinSet::new();
        for id in membership.voter_ids() {
            let (node, question) = (self.clone(), Arc::clone(&question));
            let member = membership.get_node(&id).cloned().unwrap_or_default();
            asked.spawn(async move {
                let has_answered = match id == node.id {
                    true => node.log.prepare_vote(Vote::new(term, id)).await.is_ok(),
                    false => node.ask_within(id, &member, &question, time).await.is_ok(),
                };
                (id, has_answered)
            });
        }
        let mut answered = BTreeSet::new();
        while !are_most(&answered, membership.get_joint_config()) {
            match asked.join_next().await {
                None => break,
                Some(Ok((id, true))) => drop(answered.insert(id)),
                Some(_) => {} // no answer
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mutant::with_mutant;

    fn elections_grow() -> Result<(), String> {
        let pace = Pace::new(Duration::from_millis(1000));
        let mut found = vec![pace.election().as_millis()];
        for term in [7, 7, 8, 9, 10, 11, 12, 13, 14] {
            pace.is_lost(LeaderId::new(term, 1));
            found.push(pace.election().as_millis());
        }
        pace.is_won();
        found.push(pace.election().as_millis());
        let expected = [400, 800, 800, 1600, 3200, 6400, 12_800, 25_600, 30_000, 30_000, 400];
        if found == expected { Ok(()) } else { Err(format!("{found:?}")) }
    }

    #[test]
    fn a_leader_waits_longer_for_members_that_are_slow() {
        let pace = Pace::new(Duration::from_millis(1000));
        let steps = [(3, 1000), (500, 1000), (900, 1800), (9000, 7200), (9000, 10_000)];
        let fades = [(1, 10_000), (1, 10_000), (1, 7592), (1, 5694), (7000, 10_000)];
        for (since, expected) in steps.into_iter().chain(fades) {
            pace.is_heard(Duration::from_millis(since));
            assert_eq!(pace.patience().as_millis(), expected, "after {since} ms");
        }
    }

    #[test]
    fn each_election_that_nobody_wins_gives_the_next_more_time() {
        elections_grow().expect("they do");
        with_mutant(Mutant::NeverSlowsDown, || elections_grow().expect_err("it is found"));
        let pace = Pace::new(Duration::from_secs(100));
        (0..u64::from(u16::MAX)).for_each(|term| pace.is_lost(LeaderId::new(term, 1)));
        assert_eq!(pace.election(), Duration::from_secs(40));
    }
}
