//! Which directory of which group a node works in: what it says of that in each handshake, and what
//! it remembers of the nodes that it has met.
//!
//! - A group has an id beside its name, so two groups of one name do not mix.
//! - A directory has an id, and draws a number at each start. Those who met it remember both. One
//!   that was replaced has another id; one that went back to an older copy lacks a start that
//!   others saw. Neither knows which votes it gave, so it is refused.
//! - A directory without data takes nothing from a group that counts on what it had.
//! - By TLS a node shows a certificate, too. The group's log binds each member to its own; what a
//!   node has seen by itself counts until then.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, watch};

use crate::directory::{Id, Met, Starts};
use crate::error::{Error, KeepError};
use crate::hello::{Lane, Statement};
use crate::mutant::{Mutant, Mutation};
use crate::tls::{Bindings, Bound};

/// What a node knows of itself and others. The first five parts are kept in its directory.
#[derive(Debug, Clone)]
pub struct Standing {
    /// The id of its group; `None` before the group begins, before this node has joined, and in
    /// groups of older versions.
    pub group: Option<Id>,
    /// Its directory.
    pub starts: Starts,
    /// The nodes that it has met in its group.
    pub met: BTreeMap<u64, Met>,
    /// Those of them whose certificates name them.
    pub named: BTreeSet<u64>,
    /// The certificates to which the log of its group has bound members, as far as it is applied.
    pub bound: Bindings,
    /// It has neither a vote nor a log.
    pub is_blank: bool,
    /// It waits to be taken into a group that exists.
    pub joins: bool,
    /// It takes part: its start is over.
    pub is_ready: bool,
    /// Those that have a vote, as it knows.
    pub voters: BTreeSet<u64>,
    /// Those that were removed from the group: one may call until it hears of that, and may be
    /// taken in again with another directory.
    pub removed: BTreeSet<u64>,
}

/// Writes what changed to the directory.
type Keep = dyn Fn(&Standing) -> Result<(), KeepError> + Send + Sync;

/// What a node knows of itself and others; clones share it. The default says nothing and takes all.
#[derive(Clone, Default)]
pub struct Identity(Option<Arc<Shared>>);

struct Shared {
    standing: Mutex<Standing>,
    keep: Box<Keep>,
    /// To keep it takes no time, so that no thread need wait for it.
    is_direct: bool,
    /// Held while the directory is written.
    keeps: Mutex<()>,
    went_back: watch::Sender<Option<String>>,
    refused_key: Notify,
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Identity").field(&self.read(Standing::clone)).finish()
    }
}

/// A node at the other end of a connection, and what it says of itself.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Peer<'a> {
    pub(crate) node: u64,
    /// Which end this node is.
    pub(crate) end: End,
    pub(crate) lane: Lane,
    /// `None`: it is of a version that says nothing.
    pub(crate) said: Option<&'a Statement>,
    /// To what of its certificate it can be bound; `None` without TLS.
    pub(crate) shown: Option<Bound>,
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
        Self::with(standing, keep, false)
    }

    /// As [`new`](Self::new); `is_direct`: to keep it takes no time.
    #[must_use]
    pub fn with(
        standing: Standing,
        keep: impl Fn(&Standing) -> Result<(), KeepError> + Send + Sync + 'static,
        is_direct: bool,
    ) -> Self {
        let (standing, keeps) = (Mutex::new(standing), Mutex::default());
        let (keep, went_back) = (Box::new(keep), watch::Sender::new(None));
        let refused_key = Notify::new();
        let shared = Shared { standing, keep, is_direct, keeps, went_back, refused_key };
        Self(Some(Arc::new(shared)))
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
        standing.group = changed.group;
        (standing.met, standing.named) = (changed.met, changed.named);
        standing.bound = changed.bound;
        Ok(())
    }

    /// As [`change`](Self::change), with a thread that waits for the files.
    ///
    /// # Errors
    /// As of [`change`](Self::change).
    pub async fn change_soon(
        &self,
        change: impl FnOnce(&mut Standing) + Send + 'static,
    ) -> Result<(), KeepError> {
        if self.0.as_ref().is_some_and(|shared| shared.is_direct) {
            return self.change(change);
        }
        let own = self.clone();
        let kept = tokio::task::spawn_blocking(move || own.change(change)).await;
        kept.unwrap_or_else(|error| Err(error.into()))
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

    /// Returns once a node was refused because the log has bound it to another key.
    pub async fn refused_key(&self) {
        match &self.0 {
            Some(shared) => shared.refused_key.notified().await,
            None => std::future::pending().await,
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

    /// What is said to a node that has said this. The ids of group and directory prove that a node
    /// belongs to the group, so those alone hear them that know the first.
    pub(crate) fn answer(&self, peer: u64, said: Option<&Statement>) -> Statement {
        let answer = self.statement(peer);
        match self.is_of_group(said) {
            true => answer,
            false => Statement { group: None, starts: None, ..answer },
        }
    }

    /// Whether one who says this knows the id of the group; every node does where there is none.
    pub(crate) fn is_of_group(&self, said: Option<&Statement>) -> bool {
        let group = self.read(|standing| standing.group).flatten();
        group.is_none_or(|group| said.is_some_and(|said| said.group == Some(group)))
    }

    /// Whether a node may still show this. Looked at for each message: a connection may have begun
    /// before the log has bound its other end to another certificate.
    pub(crate) fn check_shown(
        &self,
        node: u64,
        shown: Option<Bound>,
        mutation: Mutation,
    ) -> Result<(), Error> {
        if mutation.is(Mutant::BindsNewConnections) {
            return Ok(());
        }
        self.read(|standing| standing.check_shown(node, shown, mutation)).unwrap_or(Ok(()))
    }

    /// Whether what a node says of itself fits; remembers it if so.
    pub(crate) async fn meet(&self, peer: Peer<'_>, mutation: Mutation) -> Result<(), Error> {
        let judged = self.read(|standing| standing.judge(peer, mutation));
        if let (Some(shared), Some(Err(Error::OtherKey { .. }))) = (&self.0, &judged) {
            shared.refused_key.notify_one();
        }
        let Some(found) = judged.transpose()?.filter(|found| *found != Found::default()) else {
            return Ok(());
        };
        let (joins, node) = (found.group.is_some(), peer.node);
        let kept = self.change_soon(move |standing| {
            standing.group = standing.group.or(found.group);
            standing.remember(node, found);
        });
        match kept.await {
            Err(what) if joins => Err(Error::NotKept { what }),
            // It is known at least as long as this node runs.
            Err(what) => {
                tracing::warn!("that node {node} was started again cannot be kept: {what}");
                self.note(|standing| standing.remember(node, found));
                Ok(())
            }
            Ok(()) => Ok(()),
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
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Found {
    group: Option<Id>,
    met: Option<Met>,
    /// Whether its certificate names it, if that is new.
    is_named: Option<bool>,
}

impl Standing {
    fn remember(&mut self, node: u64, found: Found) {
        self.met.extend(found.met.map(|met| (node, met)));
        match found.is_named {
            Some(true) => drop(self.named.insert(node)),
            Some(false) => drop(self.named.remove(&node)),
            None => {}
        }
    }

    /// Whether a node may show this of its certificate.
    fn check_shown(
        &self,
        node: u64,
        shown: Option<Bound>,
        mutation: Mutation,
    ) -> Result<(), Error> {
        let was_removed = self.removed.contains(&node) && !mutation.is(Mutant::RemembersRemoved);
        let Some(shown) = shown.filter(|_| !was_removed) else { return Ok(()) };
        let seen = self.named.contains(&node).then_some(Bound::Name);
        match self.bound.of.get(&node).copied().or(seen) {
            Some(bound) if bound.fits(shown) => Ok(()),
            Some(Bound::Name) if !mutation.is(Mutant::ForgetsNames) => {
                Err(Error::NamelessCertificate { node })
            }
            Some(Bound::Key(_)) if !mutation.is(Mutant::TakesAnyKey) => {
                Err(Error::OtherKey { node })
            }
            _ => Ok(()),
        }
    }

    fn judge(&self, peer: Peer<'_>, mutation: Mutation) -> Result<Found, Error> {
        let Peer { node, end, lane, said, shown } = peer;
        let was_removed = self.removed.contains(&node) && !mutation.is(Mutant::RemembersRemoved);
        self.check_shown(node, shown, mutation)?;
        let is_named = shown.map(|shown| shown == Bound::Name);
        let Some(theirs) = said else {
            // Of an older version. A group that has an id has none of those any more.
            return match self.group {
                Some(_) => Err(Error::NoIdentity { node }),
                None if self.is_blank && !self.joins && lane != Lane::Forward => {
                    Err(Error::Blank { node: None })
                }
                None => Ok(Found::default()),
            };
        };
        match (self.group, theirs.group) {
            (Some(ours), Some(theirs)) if ours != theirs && !mutation.is(Mutant::MixesGroups) => {
                return Err(Error::OtherIdentity { ours });
            }
            // Of a group that has just got an id: it learns that by the log. It is known by its
            // directory; a stranger has nothing to show.
            (Some(_), None) if lane != Lane::Forward && !theirs.is_blank => {
                let is_known = self.met.contains_key(&node) && !was_removed;
                if !is_known && !mutation.is(Mutant::BelievesStrangers) {
                    return Err(Error::Stranger { node });
                }
                self.compare(node, theirs.starts.as_ref())?;
            }
            _ => {}
        }
        let mut found = Found::default();
        let belongs = self.group.is_some() || !self.is_blank;
        if lane != Lane::Forward {
            if theirs.is_blank && theirs.group.is_none() && end == End::Listener {
                return Err(Error::Blank { node: Some(node) });
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
        // Nodes of a group without an id know each other before it has one.
        let has_data = !theirs.is_blank && belongs;
        if group == theirs.group && (group.is_some() || has_data) {
            found.met = match self.compare(node, theirs.starts.as_ref()) {
                _ if mutation.is(Mutant::ForgetsWhomItMet) => None,
                Err(_) if was_removed => theirs.starts.as_ref().and_then(Starts::last),
                met => met?,
            };
            found.is_named = is_named.filter(|is_named| *is_named != self.named.contains(&node));
        }
        Ok(found)
    }

    /// What is new of a node that was met before, or for the first time.
    fn compare(&self, node: u64, starts: Option<&Starts>) -> Result<Option<Met>, Error> {
        let Some((starts, last)) = starts.and_then(|it| Some((it, it.last()?))) else {
            return Ok(None);
        };
        match self.met.get(&node) {
            Some(met) if met.directory != last.directory => Err(Error::OtherDirectory { node }),
            Some(met) if !starts.include(met) => Err(Error::WentBack { node }),
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
        let (named, bound, removed) = Default::default();
        Standing { group, starts, met, named, bound, is_blank, joins, is_ready, voters, removed }
    }

    fn statement(group: Option<Id>, count: u64, drawn: &[u64]) -> Statement {
        let starts = Some(Starts { directory: HOME, count, drawn: drawn.to_vec() });
        Statement { group, starts, ..Statement::default() }
    }

    /// One that was removed calls until it hears of that; it is not held against the directory with
    /// which it comes back.
    pub(crate) fn who_was_removed_comes_with_another_directory() -> Result<(), String> {
        let mut own = standing(Some(GROUP));
        let before = statement(Some(GROUP), 3, &[1, 2, 3]);
        let now = {
            let starts = Some(Starts { directory: OTHER, count: 1, drawn: vec![7] });
            Statement { starts, ..before.clone() }
        };
        let (name, key) = (Bound::Name, Bound::Key([4; 32]));
        let meet = |own: &mut Standing, said: &Statement, shown| {
            let peer = Peer { shown: Some(shown), ..peer(Lane::Control, Some(said)) };
            let found = own.judge(peer, Mutation::current()).map_err(|why| why.to_string())?;
            own.remember(2, found);
            Ok::<(), String>(())
        };
        meet(&mut own, &before, name)?;
        meet(&mut own, &now, name).expect_err("it is a member, and has lost its votes");
        own.removed.insert(2);
        meet(&mut own, &before, name)?;
        meet(&mut own, &now, key)?;
        // One that shows no id of the group is nobody, though its number was met.
        let nameless = Statement { group: None, ..now.clone() };
        meet(&mut own, &nameless, key).expect_err("a stranger");
        own.removed.remove(&2);
        meet(&mut own, &now, key)?;
        meet(&mut own, &before, name).expect_err("it is a member again");
        Ok(())
    }

    #[test]
    fn who_was_removed_and_calls_once_more_is_taken_in_again() {
        who_was_removed_comes_with_another_directory().expect("it is");
    }

    /// Node 2, which calls.
    fn peer(lane: Lane, said: Option<&Statement>) -> Peer<'_> {
        Peer { node: 2, end: End::Listener, lane, said, shown: None }
    }

    fn judge(own: &Standing, lane: Lane, theirs: &Statement) -> Result<Found, Error> {
        own.judge(peer(lane, Some(theirs)), Mutation::current())
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
            judge(&standing(None), lane, &statement(Some(GROUP), 1, &[5])).expect("it lags");
            let older = own.judge(peer(lane, None), Mutation::current());
            assert!(text(older).contains("older version"));
        }
    }

    #[test]
    fn who_does_not_know_the_group_asks_questions_or_shows_its_directory() {
        let own = standing(Some(GROUP));
        let (nameless, known) = (statement(None, 1, &[5]), statement(Some(GROUP), 1, &[5]));
        for lane in [Lane::Control, Lane::Entries, Lane::Snapshots] {
            let said = text(judge(&own, lane, &nameless));
            assert!(said.contains("does not know the id of this group"), "{said}");
            // Met when the group had no id, it has not applied the entry that names it.
            let mut before = standing(None);
            let found = judge(&before, lane, &nameless).expect("neither has an id");
            before.remember(2, found);
            let own = Standing { group: Some(GROUP), ..before };
            assert_eq!(judge(&own, lane, &nameless).expect("it is known"), Found::default());
            let mut other = nameless.clone();
            other.starts = Some(Starts { directory: OTHER, count: 1, drawn: vec![5] });
            assert!(text(judge(&own, lane, &other)).contains("another directory"));
        }
        judge(&own, Lane::Forward, &nameless).expect("a question");
        let own = Identity::new(own, |_| Ok(()));
        for said in [None, Some(&nameless), Some(&statement(Some(OTHER), 1, &[5]))] {
            assert!(!own.is_of_group(said), "{said:?}");
            let Statement { group, starts, .. } = own.answer(2, said);
            assert_eq!((group, starts), (None, None), "it learns nothing of this one");
        }
        assert!(own.is_of_group(Some(&known)));
        assert_eq!(own.answer(2, Some(&known)), own.statement(2));
        assert!(Identity::default().is_of_group(None), "no node here has an id");
    }

    #[test]
    fn who_has_shown_a_certificate_of_its_own_shows_no_other() {
        let mut own = standing(Some(GROUP));
        let known = statement(Some(GROUP), 1, &[5]);
        let (name, key) = (Some(Bound::Name), Some(Bound::Key([4; 32])));
        let shows = |own: &Standing, shown| {
            let peer = Peer { shown, ..peer(Lane::Forward, Some(&known)) };
            own.judge(peer, Mutation::current())
        };
        own.remember(2, shows(&own, key).expect("none had a name so far"));
        assert!(own.named.is_empty());
        own.remember(2, shows(&own, name).expect("from now on it has"));
        assert_eq!(own.named, BTreeSet::from([2]));
        let said = text(shows(&own, key));
        let node = 2;
        let wanted = format!("certificate of node {node} does not name it as raft-member-{node}");
        assert!(said.contains(&wanted), "{said}");
        assert_eq!(shows(&own, name).expect("as before"), Found::default());
        shows(&own, None).expect("the group does without TLS now");
    }

    #[test]
    fn who_is_bound_to_a_key_shows_that_or_its_name() {
        let of = BTreeMap::from([(2, Bound::Key([4; 32]))]);
        let own = Standing { bound: Bindings { at: 9, of }, ..standing(Some(GROUP)) };
        let shows = |own: &Standing, shown| own.check_shown(2, shown, Mutation::current());
        shows(&own, Some(Bound::Key([4; 32]))).expect("its own");
        shows(&own, Some(Bound::Name)).expect("by the word of the authority");
        let said = text(shows(&own, Some(Bound::Key([5; 32]))));
        assert!(said.contains("has another key than the one"), "{said}");
        let bound = Bindings { at: 10, of: BTreeMap::from([(2, Bound::Name)]) };
        let own = Standing { bound, ..own };
        let said = text(shows(&own, Some(Bound::Key([4; 32]))));
        let wanted = format!("does not name it as raft-member-{}", 2);
        assert!(said.contains(&wanted), "{said}");
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
