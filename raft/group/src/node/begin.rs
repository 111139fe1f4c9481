//! The start of a member: a new group begins, or the others are told that this one is back.
//!
//! - A group begins when all who are to begin it answer, are without data, and name the same
//!   members. Fewer could be a majority that has lost its directories, and would begin a second
//!   group in which nothing is of what the first had acknowledged.
//! - The one with the lowest number draws the id of the group and has all keep it, then begins.
//! - A member that was there before takes part when those who answer have met this start of it: one
//!   whose directory went back to an older copy learns so before it gives a vote.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{MutexGuard, PoisonError};
use std::time::Duration;

use openraft::error::{InitializeError, RaftError};
use serde::{Deserialize, Serialize};
use stillframe_raft_net::{Id, Member};
use stillframe_server::consensus::{Event, Settings};
use tokio::time::{Instant, sleep, timeout};

use super::questions::Question;
use super::{Running, member};
use crate::error::Error;

/// How often those who are to begin a group are asked.
const PAUSE: Duration = Duration::from_millis(200);
/// How often to look whether the group has an id.
const LOOK: Duration = Duration::from_secs(1);
/// Pause before those who did not answer are told again, at most.
const PAUSE_MAX: Duration = Duration::from_secs(30);

/// Members by number, with their addresses.
pub(super) type Members = BTreeMap<u64, String>;

/// What a member says of the group that it is in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Belonging {
    /// None yet; it is to begin one with these.
    ToNone { founders: Members },
    /// None yet; it is to be taken into one.
    Joins,
    /// To one with these members, as far as it knows.
    To { members: BTreeSet<u64> },
}

fn members_of(settings: &Settings) -> Members {
    settings.peers.iter().map(|it| (it.id, member(it).to_string())).collect()
}

impl Running {
    /// What this member says of itself.
    pub(super) async fn belonging(&self, settings: &Settings) -> Result<Belonging, Error> {
        if self.raft.is_initialized().await.map_err(Error::raft)? {
            let metrics = self.raft.metrics().borrow().membership_config.clone();
            let members = metrics.membership().nodes().map(|(id, _)| *id).collect();
            return Ok(Belonging::To { members });
        }
        if settings.joins {
            return Ok(Belonging::Joins);
        }
        Ok(Belonging::ToNone { founders: members_of(settings) })
    }

    /// Another one begins the group: keeps its id, if this member can take part.
    pub(super) async fn found_with(
        &self,
        sender: u64,
        id: Id,
        settings: &Settings,
    ) -> Result<(), Error> {
        let first = settings.peers.iter().map(|it| it.id).min();
        match self.belonging(settings).await? {
            Belonging::ToNone { .. } if first == Some(sender) => {}
            other => {
                return Err(Error::CannotBegin { id: self.id, is: format!("{other:?}") });
            }
        }
        self.keep_group(id).await
    }

    async fn keep_group(&self, id: Id) -> Result<(), Error> {
        let kept = self.identity.change_soon(move |standing| standing.group = Some(id));
        kept.await.map_err(Error::Unwritten)
    }

    fn group(&self) -> Option<Id> {
        self.identity.read(|standing| standing.group).flatten()
    }

    /// Has this member take part.
    pub(super) async fn begin(self, settings: Settings) {
        let is_blank = self.identity.read(|it| it.is_blank).unwrap_or_default();
        let first = settings.peers.iter().map(|it| it.id).min();
        if is_blank && !settings.joins && (self.group().is_none() || first == Some(self.id)) {
            self.identity.note(|it| it.is_ready = true);
            if let Err(why) = self.found(&settings).await {
                self.events.send(Event::Failed(why.to_string()));
            }
        } else {
            self.announce(&settings).await;
        }
    }

    /// Tells the others of this start, and takes part once those who answer know of it.
    async fn announce(&self, settings: &Settings) {
        let known = self.raft.metrics().borrow().membership_config.clone();
        let known = known.membership().nodes().map(|(id, member)| (*id, member.clone()));
        let mut others: BTreeMap<u64, Member> = known.collect();
        if others.is_empty() {
            others = settings.peers.iter().map(|it| (it.id, member(it))).collect();
        }
        others.remove(&self.id);
        let most = Duration::from_millis(2 * settings.election_timeout_ms);
        // Who does not answer in time may be away.
        let _ = timeout(most, self.tell_start(&mut others)).await;
        self.identity.note(|it| it.is_ready = true);
        self.elections.begin();
        let mut pause = PAUSE;
        while !others.is_empty() {
            sleep(pause).await;
            pause = (pause * 2).min(PAUSE_MAX);
            self.tell_start(&mut others).await;
        }
    }

    /// Asks others anything, so that they meet this start; those who answered are done.
    async fn tell_start(&self, others: &mut BTreeMap<u64, Member>) {
        let asked = others.iter().map(|(&id, member)| {
            let (node, member) = (self.clone(), member.clone());
            tokio::spawn(async move { (id, node.ask(id, &member, &Question::Belongs).await) })
        });
        for asked in asked.collect::<Vec<_>>() {
            if let Ok((id, Ok(_))) = asked.await {
                others.remove(&id);
            }
        }
    }

    /// Begins a group with all that are to begin it, or waits for the one that does.
    async fn found(&self, settings: &Settings) -> Result<(), Error> {
        let founders = members_of(settings);
        let leads = founders.keys().min() == Some(&self.id);
        let mut told = None;
        loop {
            if self.group().is_some() && !leads {
                self.elections.begin();
                return Ok(());
            }
            match self.can_begin(settings, &founders).await? {
                None if leads => match self.found_all(settings).await {
                    Ok(()) => return Ok(()),
                    Err(why) => tell_once(&mut told, &why.to_string()),
                },
                None => {}
                Some(why) => tell_once(&mut told, &why),
            }
            sleep(PAUSE).await;
        }
    }

    /// Why the group cannot begin yet, if it cannot.
    ///
    /// # Errors
    /// There is a group already: this directory has lost what it had, or was never in that group.
    async fn can_begin(
        &self,
        settings: &Settings,
        founders: &Members,
    ) -> Result<Option<String>, Error> {
        let others = settings.peers.iter().filter(|it| it.id != self.id);
        let asked = others.map(|it| {
            let (node, id, member) = (self.clone(), it.id, member(it));
            let asked = async move { (id, node.ask_belonging(id, &member).await) };
            tokio::spawn(asked)
        });
        let (mut waits, leads) = (None, founders.keys().min() == Some(&self.id));
        for asked in asked.collect::<Vec<_>>() {
            let Ok((id, answer)) = asked.await else { continue };
            let waits_for = match answer {
                Ok(Belonging::ToNone { founders: theirs }) if theirs == *founders => continue,
                Ok(Belonging::ToNone { founders: theirs }) => {
                    format!("member {id} has other raft-peers: {}", shown(&theirs))
                }
                Ok(Belonging::Joins) => format!("member {id} was started with raft-join yes"),
                // It began while this was asked.
                Ok(Belonging::To { .. }) if self.group().is_some() && !leads => return Ok(None),
                Ok(Belonging::To { members }) => return Err(self.is_there(id, members)),
                Err(why) => why.to_string(),
            };
            waits.get_or_insert(format!(
                "a new group begins when all of its members answer, so that none is begun beside one \
                 that exists: {waits_for}"
            ));
        }
        Ok(waits)
    }

    fn is_there(&self, other: u64, members: BTreeSet<u64>) -> Error {
        match members.contains(&self.id) {
            true => Error::Forgotten { other, id: self.id },
            false => Error::GroupExists { other, id: self.id, members },
        }
    }

    async fn ask_belonging(&self, id: u64, member: &Member) -> Result<Belonging, Error> {
        let answer = self.ask(id, member, &Question::Belonging).await?;
        Ok(postcard::from_bytes(&answer)?)
    }

    /// Has all keep the id of the new group, then begins it.
    async fn found_all(&self, settings: &Settings) -> Result<(), Error> {
        let id = self.group().map_or_else(Id::draw, Ok)?;
        self.keep_group(id).await?;
        for other in settings.peers.iter().filter(|it| it.id != self.id) {
            let question = Question::Found(id.to_bytes());
            self.ask(other.id, &member(other), &question).await?;
        }
        let members = settings.peers.iter().map(|it| (it.id, member(it)));
        match self.raft.initialize(members.collect::<BTreeMap<_, _>>()).await {
            Ok(()) | Err(RaftError::APIError(InitializeError::NotAllowed(_))) => {
                self.elections.begin();
                Ok(())
            }
            Err(error) => Err(Error::raft(error)),
        }
    }

    /// Ends the member when another one knows a later state of its directory.
    pub(super) async fn watch_directory(self) {
        let Some(mut told) = self.identity.went_back() else { return };
        if let Ok(why) = told.wait_for(Option::is_some).await {
            let why = why.clone().unwrap_or_default();
            self.events.send(Event::Failed(why));
        }
    }

    /// Keeps what handshakes say up to date, and has the leader of a group without an id give it
    /// one once all of its members can keep it.
    pub(super) async fn agree_on_identity(self, settings: Settings) {
        let metrics = self.raft.metrics();
        let mut changes = self.raft.server_metrics();
        let mut asks_at = Instant::now();
        loop {
            changes.mark_unchanged();
            let now = metrics.borrow().clone();
            let voters = now.membership_config.membership().voter_ids().collect();
            let has_log = now.last_log_index.is_some() || now.vote != openraft::Vote::default();
            self.identity.note(|it| {
                (it.voters, it.is_blank) = (voters, it.is_blank && !has_log);
            });
            let lacks = !self.newest.has_identity();
            if now.current_leader == Some(self.id) && lacks && asks_at <= Instant::now() {
                if let Err(why) = self.propose_identity(&now).await {
                    tracing::debug!("the group has no id in its log yet: {why}");
                }
                asks_at = Instant::now() + Duration::from_millis(settings.election_timeout_ms);
            }
            let changed = timeout(LOOK, changes.changed()).await;
            if matches!(changed, Ok(Err(_))) {
                return;
            }
        }
    }

    async fn propose_identity(&self, now: &super::Metrics) -> Result<(), Error> {
        let _naming = self.naming.try_lock().map_err(|_| Error::raft("a node is taken in"))?;
        let known = now.membership_config.membership();
        let members: BTreeSet<u64> = known.nodes().map(|(id, _)| *id).collect();
        let is_named = self.group().is_some();
        let unmet = |id| Error::raft(format!("others have not met member {id}"));
        if !is_named && !self.has_met(&members) {
            return Err(unmet(self.id));
        }
        for (&id, member) in known.nodes().filter(|(id, _)| **id != self.id) {
            // One of an older version does not know the question.
            self.ask_belonging(id, member).await?;
            let question = Question::HasMet(members.clone());
            if !is_named && self.ask(id, member, &question).await? != [1] {
                return Err(unmet(id));
            }
        }
        let id = self.group().map_or_else(Id::draw, Ok)?;
        let proposed = self.raft.client_write(crate::types::Wire::identity(id)).await;
        proposed.map(drop).map_err(Error::raft)
    }

    /// In a group without an id nodes know each other by their directories. Has all members meet
    /// this one, those that come later, too: who has not met it would take it for a stranger once
    /// there is an id, which one hears of before the other.
    pub(super) async fn introduce(self, settings: Settings) {
        if !settings.joins && self.identity.read(|it| it.is_blank) == Some(true) {
            return; // who begins a group has its id before there is anybody to meet
        }
        let (metrics, mut changes) = (self.raft.metrics(), self.raft.server_metrics());
        while self.group().is_none() {
            changes.mark_unchanged();
            let known = metrics.borrow().membership_config.clone();
            let told = self.told().clone();
            let others = known.membership().nodes().filter(|(id, _)| !told.contains(id));
            let others = others.map(|(id, member)| (*id, member.clone()));
            let others: BTreeMap<u64, Member> = others.filter(|(id, _)| *id != self.id).collect();
            // A directory without data is nobody's yet.
            if self.identity.read(|it| it.is_blank) == Some(false) {
                let mut silent = others.clone();
                self.tell_start(&mut silent).await;
                self.told().extend(others.keys().filter(|id| !silent.contains_key(id)));
            }
            if let Ok(Err(_)) = timeout(LOOK, changes.changed()).await {
                return;
            }
        }
    }

    fn told(&self) -> MutexGuard<'_, BTreeSet<u64>> {
        // Taken though poisoned: it is whole between statements.
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether these members have met this directory as it is now.
    pub(super) fn has_met(&self, members: &BTreeSet<u64>) -> bool {
        let told = self.told();
        members.iter().all(|id| *id == self.id || told.contains(id))
    }
}

/// Logs what is waited for when it changes.
fn tell_once(told: &mut Option<String>, why: &str) {
    if told.as_deref() != Some(why) {
        tracing::info!("{why}");
        *told = Some(why.to_owned());
    }
}

fn shown(members: &Members) -> String {
    let shown = members.iter().map(|(id, member)| format!("{id}={member}"));
    shown.collect::<Vec<_>>().join(",")
}
