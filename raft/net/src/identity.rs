//! Which directory of which group a node works in: what it says of that in each handshake, and what
//! it remembers of the nodes that it has met.
//!
//! - A group has an id beside its name, so two groups of one name do not mix.
//! - A directory has an id, and draws a number at each start. Those who met it remember both. One
//!   that was replaced has another id; one that went back to an older copy lacks a start that
//!   others saw. Neither knows which votes it gave, so it is refused.
//! - A directory without data takes nothing from a group that counts on what it had.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use crate::directory::{Id, Met, Starts};
use crate::error::{Error, KeepError};
use crate::hello::{Lane, Statement};
use crate::mutant::{Mutant, Mutation};

/// What a node knows of itself and others. The first three parts are kept in its directory.
#[derive(Debug, Clone)]
pub struct Standing {
    /// The id of its group; `None` before the group begins, before this node has joined, and in
    /// groups of older versions.
    pub group: Option<Id>,
    /// Its directory.
    pub starts: Starts,
    /// The nodes that it has met in its group.
    pub met: BTreeMap<u64, Met>,
    /// It has neither a vote nor a log.
    pub is_blank: bool,
    /// It waits to be taken into a group that exists.
    pub joins: bool,
    /// It takes part: its start is over.
    pub is_ready: bool,
    /// Those that have a vote, as it knows.
    pub voters: BTreeSet<u64>,
}

/// Writes what changed to the directory.
type Keep = dyn Fn(&Standing) -> Result<(), KeepError> + Send + Sync;

/// What a node knows of itself and others; clones share it. The default says nothing and takes all.
#[derive(Clone, Default)]
pub struct Identity(Option<Arc<Shared>>);

struct Shared {
    standing: Mutex<Standing>,
    keep: Box<Keep>,
    /// Held while the directory is written.
    keeps: Mutex<()>,
    went_back: watch::Sender<Option<String>>,
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Identity").field(&self.read(Standing::clone)).finish()
    }
}

/// Which end of a connection this node is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    Caller,
    Listener,
}

impl Identity {
    /// This standing, whose changes are kept by `keep`.
    #[must_use]
    pub fn new(
        standing: Standing,
        keep: impl Fn(&Standing) -> Result<(), KeepError> + Send + Sync + 'static,
    ) -> Self {
        let (standing, keeps) = (Mutex::new(standing), Mutex::default());
        let (keep, went_back) = (Box::new(keep), watch::Sender::new(None));
        Self(Some(Arc::new(Shared { standing, keep, keeps, went_back })))
    }

    /// Reads the standing, if there is one.
    pub fn read<T>(&self, what: impl FnOnce(&Standing) -> T) -> Option<T> {
        self.0.as_ref().map(|shared| what(&shared.standing()))
    }

    /// Changes what is not kept.
    pub fn note(&self, change: impl FnOnce(&mut Standing)) {
        if let Some(shared) = &self.0 {
            change(&mut shared.standing());
        }
    }

    /// Changes what is kept, and keeps it. Writes files.
    ///
    /// # Errors
    /// Why it is not kept; then it is not changed.
    pub fn change(&self, change: impl FnOnce(&mut Standing)) -> Result<(), KeepError> {
        let Some(shared) = &self.0 else { return Ok(()) };
        let _one = shared.keeps.lock().unwrap_or_else(PoisonError::into_inner);
        let mut changed = shared.standing().clone();
        change(&mut changed);
        (shared.keep)(&changed)?;
        let mut standing = shared.standing();
        (standing.group, standing.met) = (changed.group, changed.met);
        Ok(())
    }

    /// Says so once another node knows that the directory of this one went back to an older copy.
    #[must_use]
    pub fn went_back(&self) -> Option<watch::Receiver<Option<String>>> {
        self.0.as_ref().map(|shared| shared.went_back.subscribe())
    }

    pub(crate) fn tell_went_back(&self, why: &Error) {
        if let Some(shared) = &self.0 {
            shared.went_back.send_replace(Some(why.to_string()));
        }
    }

    /// What this node says of itself to node `peer`.
    pub(crate) fn statement(&self, peer: u64) -> Statement {
        let statement = |standing: &Standing| Statement {
            group: standing.group,
            starts: Some(standing.starts.clone()),
            is_blank: standing.is_blank,
            counts_on_you: standing.voters.contains(&peer),
        };
        self.read(statement).unwrap_or_default()
    }

    /// Whether what node `peer` says of itself fits; remembers it if so. `None`: the peer is of a
    /// version that says nothing.
    pub(crate) async fn meet(
        &self,
        peer: u64,
        end: End,
        lane: Lane,
        theirs: Option<&Statement>,
        mutation: Mutation,
    ) -> Result<(), Error> {
        let judged = self.read(|standing| standing.judge(peer, end, lane, theirs, mutation));
        let Some(found) = judged.transpose()?.filter(|found| *found != Found::default()) else {
            return Ok(());
        };
        let (own, joins, met) = (self.clone(), found.group.is_some(), found.met);
        let kept = tokio::task::spawn_blocking(move || {
            own.change(|standing| {
                standing.group = standing.group.or(found.group);
                standing.met.extend(found.met.map(|met| (peer, met)));
            })
        });
        let kept = kept.await.unwrap_or_else(|error| Err(error.into()));
        match (kept, met) {
            (Err(what), _) if joins => Err(Error::NotKept { what }),
            // It is known at least as long as this node runs.
            (Err(what), Some(met)) => {
                tracing::warn!("that node {peer} was started again cannot be kept: {what}");
                self.note(|standing| {
                    standing.met.insert(peer, met);
                });
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

impl Shared {
    fn standing(&self) -> MutexGuard<'_, Standing> {
        // Taken though poisoned: it is whole between statements.
        self.standing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What there is to remember of a handshake.
#[derive(Debug, Default, PartialEq, Eq)]
struct Found {
    group: Option<Id>,
    met: Option<Met>,
}

impl Standing {
    fn judge(
        &self,
        peer: u64,
        end: End,
        lane: Lane,
        theirs: Option<&Statement>,
        mutation: Mutation,
    ) -> Result<Found, Error> {
        let Some(theirs) = theirs else {
            // Of an older version. A group that has an id has none of those any more.
            return match self.group {
                Some(_) => Err(Error::NoIdentity { node: peer }),
                None if self.is_blank && !self.joins && lane != Lane::Forward => {
                    Err(Error::Blank { node: None })
                }
                None => Ok(Found::default()),
            };
        };
        if let (Some(ours), Some(theirs)) = (self.group, theirs.group)
            && ours != theirs
            && !mutation.is(Mutant::MixesGroups)
        {
            return Err(Error::OtherIdentity { theirs, ours });
        }
        let mut found = Found::default();
        let belongs = self.group.is_some() || !self.is_blank;
        if lane != Lane::Forward {
            if theirs.is_blank && theirs.group.is_none() && end == End::Listener {
                return Err(Error::Blank { node: Some(peer) });
            }
            if !belongs {
                let counted_on = theirs.counts_on_you && !mutation.is(Mutant::TakesWhileCountedOn);
                if !self.joins || counted_on {
                    return Err(Error::Blank { node: None });
                }
                found.group = theirs.group;
            }
            if end == End::Listener && !self.is_ready {
                return Err(Error::NotReady);
            }
        }
        let group = self.group.or(found.group);
        if group.is_some() && group == theirs.group && !mutation.is(Mutant::ForgetsWhomItMet) {
            found.met = self.compare(peer, theirs.starts.as_ref())?;
        }
        Ok(found)
    }

    /// What is new of a node that was met before, or for the first time.
    fn compare(&self, peer: u64, starts: Option<&Starts>) -> Result<Option<Met>, Error> {
        let Some((starts, last)) = starts.and_then(|it| Some((it, it.last()?))) else {
            return Ok(None);
        };
        match self.met.get(&peer) {
            Some(met) if met.directory != last.directory => {
                Err(Error::OtherDirectory { node: peer })
            }
            Some(met) if !starts.include(met) => Err(Error::WentBack { node: peer }),
            Some(met) if *met == last => Ok(None),
            _ => Ok(Some(last)),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    const GROUP: Id = Id::from_array([1; 16]);
    const OTHER: Id = Id::from_array([2; 16]);
    const HOME: Id = Id::from_array([3; 16]);

    fn standing(group: Option<Id>) -> Standing {
        let starts = Starts { directory: Id::from_array([9; 16]), count: 1, drawn: vec![1] };
        let (met, voters) = (BTreeMap::new(), BTreeSet::new());
        let (is_blank, joins, is_ready) = (false, false, true);
        Standing { group, starts, met, is_blank, joins, is_ready, voters }
    }

    fn statement(group: Option<Id>, count: u64, drawn: &[u64]) -> Statement {
        let starts = Some(Starts { directory: HOME, count, drawn: drawn.to_vec() });
        Statement { group, starts, ..Statement::default() }
    }

    fn judge(own: &Standing, lane: Lane, theirs: &Statement) -> Result<Found, Error> {
        own.judge(2, End::Listener, lane, Some(theirs), Mutation::current())
    }

    fn text<T: fmt::Debug>(result: Result<T, Error>) -> String {
        result.map_or_else(|error| error.to_string(), |done| format!("{done:?}"))
    }

    #[test]
    fn groups_of_one_name_do_not_mix() {
        let own = standing(Some(GROUP));
        for lane in Lane::ALL {
            let said = text(judge(&own, lane, &statement(Some(OTHER), 1, &[5])));
            assert!(said.contains("another group"), "{said}");
            judge(&own, lane, &statement(Some(GROUP), 1, &[5])).expect("it is of the group");
            // One that has not applied the entry that names the group.
            judge(&own, lane, &statement(None, 1, &[5])).expect("it is of the group");
            judge(&standing(None), lane, &statement(Some(GROUP), 1, &[5])).expect("it lags");
            let older = own.judge(2, End::Caller, lane, None, Mutation::current());
            assert!(text(older).contains("older version"));
        }
    }

    #[test]
    fn a_directory_without_data_takes_nothing_that_counts_on_it() {
        let founder = Standing { is_blank: true, ..standing(None) };
        let joins = Standing { joins: true, ..founder.clone() };
        let learner = statement(Some(GROUP), 1, &[5]);
        let voter = Statement { counts_on_you: true, ..learner.clone() };
        for lane in [Lane::Control, Lane::Entries, Lane::Snapshots] {
            for (own, theirs) in [(&founder, &learner), (&founder, &voter), (&joins, &voter)] {
                let said = text(judge(own, lane, theirs));
                assert!(said.contains("raft-join yes"), "{said}");
            }
            let found = judge(&joins, lane, &learner).expect("it joins");
            assert_eq!(found.group, Some(GROUP), "the group of the first who calls");
            let blank = Statement { is_blank: true, ..statement(None, 1, &[5]) };
            let said = text(judge(&standing(Some(GROUP)), lane, &blank));
            assert!(said.contains("raft-join yes"), "{said}");
        }
        // Questions are answered.
        assert_eq!(judge(&founder, Lane::Forward, &voter).expect("a question"), Found::default());
    }

    #[test]
    fn directories_that_were_replaced_or_went_back_are_refused() {
        let mut own = standing(Some(GROUP));
        let mut meet = |count: u64, drawn: &[u64]| {
            let found = judge(&own, Lane::Control, &statement(Some(GROUP), count, drawn));
            if let Ok(Found { met: Some(met), .. }) = found {
                own.met.insert(2, met);
            }
            text(found)
        };
        assert!(meet(3, &[1, 2, 3]).contains("met: Some"), "the first time");
        assert!(meet(3, &[1, 2, 3]).contains("met: None"), "again");
        assert!(meet(5, &[1, 2, 3, 4, 5]).contains("met: Some"), "it was started again");
        // A copy of its third start, started once, twice and thrice.
        for drawn in [&[1, 2, 3, 14][..], &[1, 2, 3, 14, 15], &[1, 2, 3, 14, 15, 16]] {
            let said = meet(drawn.len() as u64, drawn);
            assert!(said.contains("older copy"), "{said}");
        }
        assert!(meet(5, &[5]).contains("met: None"), "it goes on");
        // Not met for more starts than are told.
        assert!(meet(99, &[98, 99]).contains("met: Some"));
        let own = Standing {
            met: BTreeMap::from([(2, Met { directory: OTHER, count: 1, drawn: 1 })]),
            ..own
        };
        let said = text(judge(&own, Lane::Control, &statement(Some(GROUP), 1, &[1])));
        assert!(said.contains("another directory"), "{said}");
    }
}
