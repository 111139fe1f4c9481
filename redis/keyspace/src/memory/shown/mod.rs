//! Which entries of others a database shows: those of the database that it is a branch of.
//!
//! A database that is a *branch* of another has no copies of what it has in common with that one:
//! it *shows* the entries there that were born up to the era in which it was made. A database about
//! to change such an entry, on either side, first gives each database that shows it a copy of its
//! own (see `store::layers`); what takes the place of the entry is younger, and is not shown.
//!
//! Numbers here are those of spaces, so that SWAPDB changes nothing.
//!
//! Invariants
//! - L1: an entry that is shown is live, and in its slot, and is not changed in place.
//! - L2: a database shows no key that it has an entry of, and at most one entry of a key.
//! - L3: what a space shows is counted. A space that shows nothing has no eras, but while an image
//!   is loaded.

pub(crate) mod mutants;

use crate::DATABASES;
use crate::collection::packed::NEVER;
use crate::memory::entry::{Entry, KEY_BYTES};
use mutants::Mutant;

/// See the head of this file. Most keyspaces have no branches, and pay a test for them.
#[derive(Clone, Default)]
pub(crate) struct Shown(Option<Box<Eras>>);

#[derive(Clone, Default)]
struct Eras {
    /// By space that shows, then by space whose entries are shown: the last of their eras.
    until: [[u64; DATABASES]; DATABASES],
    /// The last of the eras of any space that shows, by space whose entries are shown.
    last: [u64; DATABASES],
    /// What each space shows.
    counts: [Counts; DATABASES],
    /// While an image is loaded: the era before those of its classes.
    base: Option<u64>,
}

/// Entries.
#[derive(Clone, Copy, Default)]
pub(crate) struct Counts {
    pub(crate) keys: usize,
    /// Those with a deadline.
    pub(crate) mortal: usize,
    /// What copies of them would take.
    pub(crate) bytes: usize,
}

impl Eras {
    fn class_of(&self, space: usize, era: u64) -> u8 {
        let mut eras = self.until.map(|until| until[space]);
        eras.sort_unstable();
        let mut before = 0;
        let is_older = |&until: &u64| {
            let is_new = until > before;
            before = until;
            is_new && until < era
        };
        1 + eras.into_iter().filter(is_older).count() as u8
    }
}

impl Counts {
    /// Those of one entry.
    pub(crate) fn from_entry(entry: &Entry) -> Self {
        let mortal = usize::from(entry.deadline() != NEVER);
        Self { keys: 1, mortal, bytes: entry.bytes() + KEY_BYTES }
    }
}

/// By space that shows, then by space whose entries are shown: the last of their classes.
pub(crate) type Classes = [[u8; DATABASES]; DATABASES];

impl Shown {
    /// Whether any other database shows an entry.
    #[inline]
    pub(crate) fn is_shown(&self, entry: &Entry) -> bool {
        self.0.as_ref().is_some_and(|it| entry.era() <= it.last[entry.space()])
    }

    /// Whether an entry may not be changed in place, since another database shows it.
    #[inline]
    pub(crate) fn freezes(&self, entry: &Entry) -> bool {
        self.is_shown(entry) && !Mutant::ChangesBeneath.is_made()
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
        self.0.as_ref().map_or(0, |it| it.counts[space].keys)
    }

    /// How many of them have a deadline.
    pub(crate) fn mortal(&self, space: usize) -> usize {
        self.0.as_ref().map_or(0, |it| it.counts[space].mortal)
    }

    /// How many copies all spaces may need.
    #[inline]
    pub(crate) fn total(&self) -> usize {
        self.0.as_ref().map_or(0, |it| it.counts.iter().map(|counts| counts.keys).sum())
    }

    /// What copies of all that spaces show would take.
    pub(crate) fn bytes(&self) -> usize {
        self.0.as_ref().map_or(0, |it| it.counts.iter().map(|counts| counts.bytes).sum())
    }

    /// What a space shows.
    pub(crate) fn counts(&self, space: usize) -> Counts {
        self.0.as_ref().map_or(Counts::default(), |it| it.counts[space])
    }

    /// Whether any space shows anything.
    #[inline]
    pub(crate) fn is_any(&self) -> bool {
        self.0.is_some()
    }

    /// The class of an entry: how many of the eras up to which its space is shown it is not older
    /// than, and one more; 0 if nobody shows it.
    pub(crate) fn class(&self, entry: &Entry) -> u8 {
        let Some(it) = self.0.as_ref().filter(|_| self.is_shown(entry)) else { return 0 };
        it.class_of(entry.space(), entry.era())
    }

    /// Up to which class each space shows entries of each other one.
    pub(crate) fn classes(&self) -> Option<Classes> {
        let it = self.0.as_ref()?;
        let class = |space: usize, of: usize| match it.until[space][of] {
            0 => 0,
            era => it.class_of(of, era),
        };
        Some(std::array::from_fn(|space| std::array::from_fn(|of| class(space, of))))
    }

    /// An image is loaded whose entries of class `n` will be of the era `base + n`.
    pub(crate) fn begin_loading(&mut self, base: u64, classes: &Classes) {
        let it = self.0.insert(Box::default());
        it.base = Some(base);
        for (until, classes) in it.until.iter_mut().zip(classes) {
            for (until, class) in until.iter_mut().zip(classes).filter(|(_, class)| **class != 0) {
                *until = base + u64::from(*class);
            }
        }
        self.refresh();
    }

    /// The era of a class, while an image is loaded.
    pub(crate) fn era_of_class(&self, class: u8) -> Option<u64> {
        let base = self.0.as_ref()?.base?;
        (1..DATABASES as u8).contains(&class).then(|| base + u64::from(class))
    }

    /// The era of what is born while an image is loaded.
    pub(crate) fn era_while_loading(&self) -> Option<u64> {
        self.0.as_ref()?.base.map(|base| base + DATABASES as u64)
    }

    /// The spaces that show entries of this space and era, a bit each.
    pub(crate) fn spaces_of_era(&self, of: usize, era: u64) -> u16 {
        let shows = |space: &usize| self.0.as_ref().is_some_and(|it| era <= it.until[*space][of]);
        (0..DATABASES).filter(shows).fold(0, |spaces, space| spaces | 1 << space)
    }

    /// A space shows one entry more.
    pub(crate) fn show(&mut self, space: usize, counts: Counts) {
        let Some(it) = &mut self.0 else { return };
        let all = &mut it.counts[space];
        all.keys += counts.keys;
        all.mortal += counts.mortal;
        all.bytes += counts.bytes;
    }

    /// The image is loaded.
    pub(crate) fn end_loading(&mut self) {
        let Some(it) = &mut self.0 else { return };
        it.base = None;
        let idle: Vec<usize> = (0..DATABASES).filter(|&at| it.counts[at].keys == 0).collect();
        idle.into_iter().for_each(|space| self.end(space));
    }

    /// From now on an empty space shows what another one has, which was born up to this era: of its
    /// own and of others so much.
    pub(crate) fn begin(&mut self, space: usize, of: usize, era: u64, counts: Counts) {
        if counts.keys == 0 {
            return;
        }
        let it = self.0.get_or_insert_default();
        it.until[space] = it.until[of];
        it.until[space][of] = era;
        it.until[space][space] = 0;
        it.counts[space] = counts;
        self.refresh();
    }

    /// A space has got its own copy of an entry that it shows.
    pub(crate) fn part(&mut self, space: usize, counts: Counts) {
        let Some(it) = &mut self.0 else { return };
        let left = &mut it.counts[space];
        left.keys -= counts.keys;
        left.mortal -= counts.mortal;
        left.bytes -= counts.bytes;
        if left.keys == 0 && it.base.is_none() {
            self.end(space);
        }
    }

    /// A space shows nothing of others any more.
    pub(crate) fn end(&mut self, space: usize) {
        let Some(it) = &mut self.0 else { return };
        it.until[space] = [0; DATABASES];
        it.counts[space] = Counts::default();
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
