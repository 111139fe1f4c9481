//! Views: the keyspace as it was at an instant, read while it changes. See `memory::history`.
//!
//! - A view is found by the number that its opener gave it. The keyspace keeps no count of views
//!   and closes none: the caller bounds them.
//! - A walk goes from slot to slot, and takes from each what the view sees there. A key lies in one
//!   slot at an instant, so a walk meets each key of the view exactly once, whatever changes.

use stillframe::Algorithm;
use stillframe::algorithms::any::Any;

use super::{Dead, Keyspace};
use crate::memory::entry::{Entry, Owned};
use crate::memory::history::mutants::{Mutant, is_made};
use crate::memory::history::{AtOpen, Instant};
use crate::memory::slots::CreateError;
use crate::{DATABASES, KeyspaceOptions};

/// Slots that a step of a walk looks at for each key that it may answer with.
const SLOTS_PER_KEY: usize = 16;
/// Slots that every step may look at.
const SLOTS_MIN: usize = if cfg!(any(test, miri)) { 4 } else { 256 };

/// The keyspace as it was when the view was opened. Keys that had expired by then are absent, and
/// none expires.
pub struct View<'a, A: Algorithm = Any> {
    keyspace: &'a Keyspace<A>,
    position: usize,
    instant: &'a Instant,
}

impl<A: Algorithm> Keyspace<A> {
    /// Opens a view of the keyspace as it is at `now`, in O(1). `id` is the caller's, and of no
    /// other open view. What is overwritten or deleted from now on takes memory until the view is
    /// [closed](Self::close_view): see `view_bytes` of [`stats`](Self::stats).
    pub fn open_view(&mut self, id: u64, now: i64) {
        self.open_instant(id, now, false);
    }

    pub(crate) fn open_instant(&mut self, id: u64, now: i64, is_image: bool) {
        let keys = std::array::from_fn(|db| self.len(db));
        let (cleared, spaces, used) = (self.cleared, self.spaces.clone(), self.slots.used());
        let era = self.slots.end_era();
        self.slots.history_mut().open(
            id,
            era,
            is_image,
            AtOpen { cleared, spaces, used, keys, now },
        );
    }

    /// Closes a view, in O(1); false if there is none. Memory comes back as [`tend`](Self::tend) is
    /// called.
    pub fn close_view(&mut self, id: u64) -> bool {
        self.slots.history_mut().close(id)
    }

    /// An open view.
    #[must_use]
    pub fn view(&self, id: u64) -> Option<View<'_, A>> {
        let (position, instant) = self.slots.history().find(id)?;
        Some(View { keyspace: self, position, instant })
    }

    /// An empty keyspace for up to `max_keys` keys, which can [adopt](Self::adopt) entries of this
    /// one.
    ///
    /// # Errors
    /// As for [`create`](Self::create).
    pub fn relative(&self, max_keys: usize) -> Result<Self, CreateError> {
        let algorithm = self.algorithm().name;
        let options = KeyspaceOptions { max_keys, algorithm, ..KeyspaceOptions::default() };
        let mut relative = Self::create_with(&options, self.hasher.clone())?;
        relative.limits = self.limits;
        Ok(relative)
    }

    /// Sets a key to the value and deadline of an entry of a [relative](Self::relative), which it
    /// shares where it does not lie in the entry itself: at most some kilobytes are copied.
    ///
    /// # Errors
    /// [`MemoryError`](crate::MemoryError) when no slot can be had; nothing changes.
    pub fn adopt(&mut self, db: usize, entry: &Entry) -> Result<(), crate::MemoryError> {
        let birth = self.birth(db);
        let copy = Owned::new(birth, entry.key(), entry.share(), entry.deadline(), 0);
        let lookup = self.lookup(db, entry.key());
        self.put_entry(db, lookup, copy).map(drop)
    }
}

impl<'a, A: Algorithm> View<'a, A> {
    /// When it was opened, in unix milliseconds.
    #[must_use]
    pub fn now(&self) -> i64 {
        self.instant.at.now
    }

    /// Keys of a database, including expired ones that nothing had met.
    #[must_use]
    pub fn len(&self, db: usize) -> usize {
        self.instant.at.keys[db]
    }

    /// Whether no database had keys.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        (0..DATABASES).all(|db| self.len(db) == 0)
    }

    /// Bytes that are held for it, about. Closing it gives back those that no other view needs.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.keyspace.slots.history().bytes_of(self.instant.id).unwrap_or(0)
    }

    /// The entry of a key.
    #[must_use]
    pub fn get(&self, db: usize, key: &[u8]) -> Option<&'a Entry> {
        let Self { keyspace, position, instant } = *self;
        let space = instant.at.spaces.of_db(db);
        let hash = keyspace.hash(key);
        let kept = keyspace.slots.history().kept_under(position, hash, (space, key));
        let unswept = keyspace.condemned.iter().filter(|it| it.space == space);
        let unswept = unswept.filter_map(|it| match &it.slots {
            Dead::Viewed(index, _) if !is_made(Mutant::OverlooksUnswept) => Some(index),
            _ => None,
        });
        let present = &keyspace.dbs[keyspace.spaces.db_in(space)].index;
        let indexes = unswept.chain([present]);
        let in_slots = indexes.filter_map(|index| keyspace.slots.find(index, hash, key));
        let in_slots = in_slots.map(|seat| keyspace.slots.entry_of(seat));
        let mut found = kept.chain(in_slots);
        found.find(|entry| instant.sees(entry) && !entry.is_expired(self.now()))
    }

    /// Slots that it may see anything in.
    pub(crate) fn used(&self) -> usize {
        self.instant.at.used
    }

    /// The database of an entry that it sees.
    pub(crate) fn db_of(&self, entry: &Entry) -> usize {
        self.instant.at.spaces.db_of(entry)
    }

    /// What the view sees in a slot.
    pub(crate) fn at(&self, slot: u32) -> Option<&'a Entry> {
        let slots = &self.keyspace.slots;
        let kept = slots.history().kept_of(self.position, slot);
        let kept = kept.take(if is_made(Mutant::WalksPresent) { 0 } else { usize::MAX });
        kept.chain(slots.entry(slot)).find(|entry| self.instant.sees(entry))
    }

    /// Calls `f` for the next keys of `db` from `cursor` on (0 to begin), `budget` at most, and
    /// returns the next cursor, 0 at the end. A step may find none and not be the last. A walk
    /// meets each key of the view exactly once.
    pub fn scan(&self, db: usize, cursor: u64, budget: usize, mut f: impl FnMut(&Entry)) -> u64 {
        let space = self.instant.at.spaces.of_db(db);
        let used = self.instant.at.used as u64;
        let mut left = budget.max(1);
        let most = left.saturating_mul(SLOTS_PER_KEY).max(SLOTS_MIN) as u64;
        let end = cursor.saturating_add(most).min(used);
        for slot in cursor..end {
            if left == 0 {
                return slot;
            }
            let entry = self.at(slot as u32).filter(|entry| entry.space() == space);
            if let Some(entry) = entry.filter(|entry| !entry.is_expired(self.now())) {
                left -= 1;
                f(entry);
            }
        }
        if end < used { end } else { 0 }
    }
}
