//! Which entries of others a database shows: those of the database that it is a branch of.
//!
//! A database that is a *branch* of another has no copies of what it has in common with that one:
//! it *shows* the entries there that were born up to the era in which it was made. Whoever is about
//! to change such an entry, on either side, first gives each database that shows it a copy of its
//! own (see `store::layers`); what takes the place of the entry is younger, and is not shown.
//!
//! Numbers here are those of spaces, so that SWAPDB changes nothing.
//!
//! Invariants
//! - L1: an entry that is shown is live, and in its slot, and is not changed in place.
//! - L2: a database shows no key that it has an entry of, and at most one entry of a key.
//! - L3: `keys` counts the entries that a space shows, `mortal` those of them with a deadline. A
//!   space that shows none has no eras.

pub(crate) mod mutants;

use crate::DATABASES;
use crate::memory::entry::{Entry, NEVER};
use mutants::{Mutant, is_made};

/// See the head of this file. Most keyspaces have no branches, and pay a test for them.
#[derive(Clone, Default)]
pub(crate) struct Shown(Option<Box<Eras>>);

#[derive(Clone, Default)]
struct Eras {
    /// By space that shows, then by space whose entries are shown: the last of their eras.
    until: [[u64; DATABASES]; DATABASES],
    /// The last of the eras of any space that shows, by space whose entries are shown.
    last: [u64; DATABASES],
    keys: [usize; DATABASES],
    mortal: [usize; DATABASES],
}

impl Shown {
    /// Whether any other database shows an entry.
    #[inline]
    pub(crate) fn is_shown(&self, entry: &Entry) -> bool {
        self.0.as_ref().is_some_and(|it| entry.era() <= it.last[entry.space()])
    }

    /// Whether an entry may not be changed in place, since another database shows it.
    #[inline]
    pub(crate) fn freezes(&self, entry: &Entry) -> bool {
        self.is_shown(entry) && !is_made(Mutant::ChangesBeneath)
    }

    /// Whether a space shows an entry of another one.
    #[inline]
    pub(crate) fn shows(&self, space: usize, entry: &Entry) -> bool {
        self.0.as_ref().is_some_and(|it| entry.era() <= it.until[space][entry.space()])
    }

    /// Whether a space has an entry, or shows it.
    #[inline]
    pub(crate) fn is_in(&self, space: usize, entry: &Entry) -> bool {
        entry.space() == space || self.shows(space, entry)
    }

    /// The spaces that show an entry of another one.
    pub(crate) fn showing(&self, entry: &Entry) -> impl Iterator<Item = usize> {
        let is_shown = self.is_shown(entry);
        (0..if is_shown { DATABASES } else { 0 }).filter(|&space| self.shows(space, entry))
    }

    /// The spaces whose entries a space shows.
    pub(crate) fn beneath(&self, space: usize) -> impl Iterator<Item = usize> {
        let until = self.0.as_ref().map_or([0; DATABASES], |it| it.until[space]);
        (0..DATABASES).filter(move |&beneath| until[beneath] != 0)
    }

    /// Whether any space shows entries of this one.
    pub(crate) fn is_beneath(&self, space: usize) -> bool {
        self.0.as_ref().is_some_and(|it| it.last[space] != 0)
    }

    /// How many entries of others a space shows.
    #[inline]
    pub(crate) fn keys(&self, space: usize) -> usize {
        self.0.as_ref().map_or(0, |it| it.keys[space])
    }

    /// How many of them have a deadline.
    pub(crate) fn mortal(&self, space: usize) -> usize {
        self.0.as_ref().map_or(0, |it| it.mortal[space])
    }

    /// How many copies all spaces may need.
    #[inline]
    pub(crate) fn total(&self) -> usize {
        self.0.as_ref().map_or(0, |it| it.keys.iter().sum())
    }

    /// From now on an empty space shows what another one has, which was born up to this era: of its
    /// own and of others so many keys, and so many with a deadline.
    pub(crate) fn begin(&mut self, space: usize, of: usize, era: u64, counts: [usize; 2]) {
        if counts[0] == 0 {
            return;
        }
        let it = self.0.get_or_insert_default();
        it.until[space] = it.until[of];
        it.until[space][of] = era;
        it.until[space][space] = 0;
        [it.keys[space], it.mortal[space]] = counts;
        self.refresh();
    }

    /// A space has got its own copy of an entry that it shows.
    pub(crate) fn part(&mut self, space: usize, copy: &Entry) {
        let Some(it) = &mut self.0 else { return };
        it.keys[space] -= 1;
        it.mortal[space] -= usize::from(copy.deadline() != NEVER);
        if it.keys[space] == 0 {
            self.end(space);
        }
    }

    /// A space shows nothing of others any more.
    pub(crate) fn end(&mut self, space: usize) {
        let Some(it) = &mut self.0 else { return };
        it.until[space] = [0; DATABASES];
        (it.keys[space], it.mortal[space]) = (0, 0);
        self.refresh();
    }

    /// No space shows entries of this one any more: those that did have copies.
    pub(crate) fn cover(&mut self, space: usize) {
        let Some(it) = &mut self.0 else { return };
        it.until.iter_mut().for_each(|until| until[space] = 0);
        self.refresh();
    }

    fn refresh(&mut self) {
        let Some(it) = &mut self.0 else { return };
        for space in 0..DATABASES {
            it.last[space] = it.until.iter().map(|until| until[space]).max().unwrap_or(0);
        }
        if it.last == [0; DATABASES] {
            self.0 = None;
        }
    }
}
