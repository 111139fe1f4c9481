//! What views see of entries that have left their slots.
//!
//! A *view* is the keyspace as it was at an instant. The writer reads it, in any order, for as long
//! as it is open; an image is read once, slot by slot, by another thread. Opening a view copies
//! nothing: entries born up to then are no longer changed in place, and each that leaves its slot
//! is kept by the newest view that sees it. (ZFS's dead lists; J. Bonwick, M. Ahrens, 2005.)
//!
//! A view sees an entry that was born in its era or before, in a database that was not cleared
//! since, if the entry was in its slot at that instant.
//!
//! Invariants
//! - H1: an entry that an open view sees is unchanged, and either in its slot or kept by the newest
//!   open view that saw it when it left. A view that passes slots has no need of what lies there.
//! - H2: so a view finds all that it sees in what it keeps, in what newer views keep, and in the
//!   slots. It sees at most one entry of a slot, or of a key of a space.
//! - H3: a view keeps at most one entry of a slot, which numbers it, and at most one of a key of a
//!   space: it saw all of them at one instant.
//! - H4: a closed view keeps what it has until [`tend`](History::tend) has handed each entry to the
//!   newest older view, if that sees it; otherwise no view does.

pub(crate) mod mutants;

use crate::DATABASES;
use crate::hash::Hasher;
use crate::memory::entry::{Entry, Owned};
use crate::memory::kept::{Item, Kept};
use crate::memory::reclaim::Reclaimer;
use crate::memory::shown::Shown;
use crate::memory::spaces::Spaces;
use crate::memory::word_sink::Cleared;
use mutants::Mutant;

/// Entries of a closed view that one call of [`History::tend`] hands on.
const HANDED_ON: usize = if cfg!(any(test, miri)) { 4 } else { 256 };

/// The open views, and what they keep.
pub(crate) struct History {
    /// The oldest first; closed ones too, until they keep nothing.
    instants: Vec<Instant>,
    /// The era of the newest open view; 0 if there is none.
    newest: u64,
    /// Views that the keyspace opened for itself.
    own: u64,
    hasher: Hasher,
}

/// A view.
pub(crate) struct Instant {
    pub(crate) id: u64,
    is_open: bool,
    /// An image is read from it.
    is_image: bool,
    era: u64,
    pub(crate) at: AtOpen,
    /// Slots below are no longer read.
    passed: usize,
    kept: Kept,
}

/// What a view knows of its instant, beside the entries.
pub(crate) struct AtOpen {
    pub(crate) cleared: Cleared,
    pub(crate) spaces: Spaces,
    pub(crate) shown: Shown,
    /// Slots handed out.
    pub(crate) used: usize,
    /// Keys of each database.
    pub(crate) keys: [usize; DATABASES],
    /// Unix milliseconds.
    pub(crate) now: i64,
}

impl Instant {
    /// Whether the view may still be asked for an entry that is in this slot.
    fn needs(&self, slot: u32, entry: &Entry) -> bool {
        self.is_open && self.sees(entry) && slot as usize >= self.passed
    }

    /// Whether the view sees an entry that is in its slot, or that it or a newer view keeps.
    pub(crate) fn sees(&self, entry: &Entry) -> bool {
        let is_older = entry.era() <= self.era;
        is_older && (entry.era() > self.at.cleared[entry.space()] || Mutant::ShowsCleared.is_made())
    }
}

impl History {
    pub(crate) fn new(hasher: Hasher) -> Self {
        Self { instants: Vec::new(), newest: 0, own: 0, hasher }
    }

    /// A number for a view of the keyspace's own: no caller counts so far.
    pub(crate) fn own_id(&mut self) -> u64 {
        self.own += 1;
        u64::MAX - self.own
    }

    /// Opens a view of the eras up to this one.
    pub(crate) fn open(&mut self, id: u64, era: u64, is_image: bool, at: AtOpen) {
        let (is_open, passed, kept) = (true, 0, Kept::default());
        self.instants.push(Instant { id, is_open, is_image, era, at, passed, kept });
        self.newest = era;
    }

    /// Closes a view, in O(1); false if none that is open has this number.
    pub(crate) fn close(&mut self, id: u64) -> bool {
        let mut instants = self.instants.iter_mut();
        let Some(instant) = instants.find(|it| it.is_open && it.id == id) else { return false };
        instant.is_open = false;
        let mut open = self.instants.iter().filter(|it| it.is_open);
        self.newest = open.next_back().map_or(0, |it| it.era);
        true
    }

    /// A view is no longer asked for what lies in slots below.
    pub(crate) fn pass(&mut self, id: u64, slots: usize) {
        if let Some(instant) = self.instants.iter_mut().find(|it| it.is_open && it.id == id) {
            instant.passed = slots;
        }
    }

    /// The oldest open view that no image is read from.
    pub(crate) fn oldest(&self) -> Option<u64> {
        self.instants.iter().find(|it| it.is_open && !it.is_image).map(|it| it.id)
    }

    /// Whether any view is open.
    pub(crate) fn is_open(&self) -> bool {
        self.newest != 0
    }

    /// An open view, and its position.
    pub(crate) fn find(&self, id: u64) -> Option<(usize, &Instant)> {
        self.instants.iter().enumerate().find(|(_, it)| it.is_open && it.id == id)
    }

    /// Entries kept for the view at this position, or for newer ones, that left `slot`.
    pub(crate) fn kept_of(&self, position: usize, slot: u32) -> impl Iterator<Item = &Entry> {
        self.instants[position..].iter().filter_map(move |it| it.kept.entry(slot))
    }

    /// Entries kept for the view at this position, or for newer ones, with this key.
    pub(crate) fn kept_under(
        &self,
        position: usize,
        hash: u64,
        space: usize,
        key: &[u8],
    ) -> impl Iterator<Item = &Entry> {
        let instants = self.instants[position..].iter();
        instants.filter_map(move |it| it.kept.entry(it.kept.find(hash, space, key)?))
    }

    /// What is kept for the view at this position, or for newer ones.
    pub(crate) fn kept_from(&self, position: usize) -> impl Iterator<Item = &Kept> {
        self.instants[position..].iter().map(|it| &it.kept)
    }

    /// Whether any open view needs an entry in a slot.
    #[inline]
    pub(crate) fn needs(&self, slot: u32, entry: &Entry) -> bool {
        entry.era() <= self.newest && self.keeper(slot, entry).is_some()
    }

    /// Whether an entry in a slot may not be changed.
    #[inline]
    pub(crate) fn freezes(&self, slot: u32, entry: &Entry) -> bool {
        self.needs(slot, entry) && !Mutant::ChangesInPlace.is_made()
    }

    /// The newest open view that needs an entry in a slot.
    fn keeper(&self, slot: u32, entry: &Entry) -> Option<usize> {
        self.instants.iter().rposition(|it| it.needs(slot, entry))
    }

    /// Keeps an entry that an open view needs and that leaves its slot, where one follows that
    /// shares this many bytes with it.
    pub(crate) fn keep(&mut self, slot: u32, entry: Owned, shared_bytes: usize) {
        let position = self.keeper(slot, entry.entry()).expect("a view needs the entry");
        let bytes = entry.entry().bytes().saturating_sub(shared_bytes);
        let hash = self.hasher.sip(entry.entry().key());
        self.instants[position].kept.insert(hash, slot, Item { entry, bytes });
    }

    /// The entry in `slot` no longer shares this many bytes, or any, with the one before.
    #[inline]
    pub(crate) fn give_back(&mut self, slot: u32, bytes: Option<usize>) {
        give_back(&mut self.instants, slot, bytes);
    }

    /// Hands on a few entries of closed views (H4); true if more are left.
    pub(crate) fn tend(&mut self, reclaimer: &mut Reclaimer) -> bool {
        let Some(closed) = self.instants.iter().position(|it| !it.is_open) else { return false };
        let (older, rest) = self.instants.split_at_mut(closed);
        let kept = &mut rest[0].kept;
        match older.last_mut() {
            // All of them go.
            None => {
                let bytes = kept.bytes();
                reclaimer.drop_later(std::mem::take(kept), bytes);
            }
            Some(_) => {
                let (mut unseen, mut bytes) = (Vec::new(), 0);
                for _ in 0..HANDED_ON {
                    let Some((slot, item)) = kept.pop(&self.hasher) else { break };
                    bytes += item.bytes;
                    unseen.extend(hand_on(older, slot, item, &self.hasher));
                }
                if !unseen.is_empty() {
                    reclaimer.drop_later(unseen, bytes);
                }
            }
        }
        if self.instants[closed].kept.len() == 0 {
            self.instants.remove(closed);
        }
        self.instants.iter().any(|it| !it.is_open)
    }

    /// Entries kept for images, or else for other views, and their bytes, about.
    pub(crate) fn totals(&self, for_images: bool) -> (usize, usize) {
        let instants = self.instants.iter().filter(|it| it.is_image == for_images);
        let kept = instants.map(|it| (it.kept.len(), it.kept.bytes()));
        kept.fold((0, 0), |(entries, bytes), it| (entries + it.0, bytes + it.1))
    }

    /// Bytes that are kept for an open view, about: newer views may need some of them, too.
    pub(crate) fn bytes_of(&self, id: u64) -> Option<usize> {
        self.find(id).map(|(_, instant)| instant.kept.bytes())
    }
}

/// Gives an entry of a closed view to the last of the views before it, all open; returns the entry
/// if that does not see it.
fn hand_on(older: &mut [Instant], slot: u32, item: Item, hasher: &Hasher) -> Option<Item> {
    let last = older.last_mut()?;
    if last.sees(item.entry.entry()) && !Mutant::ForgetsOlder.is_made() {
        last.kept.insert(hasher.sip(item.entry.entry().key()), slot, item);
        return None;
    }
    // What it shares with an older one is that one's now: how much that is, at most, is known.
    give_back(older, slot, Some(item.bytes));
    #[cfg(test)]
    if Mutant::ForgetsOlder.is_made() {
        item.entry.freed(); // another thread may look at it
        return None;
    }
    Some(item)
}

/// Counts bytes for the newest of the entries kept of `slot`, up to all that it has.
fn give_back(instants: &mut [Instant], slot: u32, bytes: Option<usize>) {
    if let Some(instant) = instants.iter_mut().rev().find(|it| it.kept.item(slot).is_some()) {
        instant.kept.count(slot, bytes);
    }
}
