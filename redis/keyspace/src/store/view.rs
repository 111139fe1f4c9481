//! Views: the keyspace as it was at an instant, read while it changes. See `memory::history`.
//!
//! - A view is found by the number that its opener gave it. The keyspace keeps no count of views
//!   and closes none: the caller bounds them.
//! - A walk goes from slot to slot, and takes from each what the view sees there. A key lies in one
//!   slot at an instant, so a walk meets each key of the view exactly once, whatever changes.

use std::sync::Arc;

use stillframe::algorithms::any::Selected;
use stillframe::{Algorithm, Point};

use super::{Dead, Keyspace};
use crate::memory::entry::Entry;
use crate::memory::history::mutants::Mutant;
use crate::memory::history::{AtOpen, Instant};
use crate::memory::index::{Index, below};
use crate::memory::kept::Kept;
use crate::memory::read_view::{ReadView, ReadViewError};
use crate::memory::shown::mutants as shown;
use crate::memory::slots::CreateError;
use crate::memory::word_sink::AtBegin;
use crate::{DATABASES, KeyspaceOptions};

/// Slots that a step of a walk looks at for each key that it may answer with.
const SLOTS_PER_KEY: usize = 16;
/// Slots that every step may look at.
const SLOTS_MIN: usize = if cfg!(any(test, miri)) { 4 } else { 256 };

/// The keyspace as it was when the view was opened. Keys that had expired by then are absent, and
/// none expires.
pub struct View<'a, A: Algorithm = Selected> {
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

    /// Opens a view that other threads read, as the keyspace is at `now`, in O(1): the state is
    /// valid, as at a [point](Point). It is there until its last handle is dropped, or it is [given
    /// up](Self::give_up_read_view); what is overwritten or deleted meanwhile takes memory, see
    /// `view_bytes` of [`stats`](Self::stats). `wake` is called when the handle is dropped, by the
    /// thread that does it: [`tend`](Self::tend) then gives memory back.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use stillframe::{Point, SinkError, algorithms::imprint::Imprint};
    /// use stillframe_keyspace::{Entry, EntrySink, Expire, Keyspace, KeyspaceOptions};
    ///
    /// struct Count(usize);
    ///
    /// impl EntrySink for Count {
    ///     fn entry(&mut self, _db: usize, _entry: &Entry) -> Result<(), SinkError> {
    ///         self.0 += 1;
    ///         Ok(())
    ///     }
    /// }
    ///
    /// let mut keyspace = Keyspace::<Imprint>::create(&KeyspaceOptions::default())?;
    /// keyspace.set(0, b"key", b"value", Expire::Never)?;
    /// let view = keyspace.read_view(Point::declare(), 0, Arc::new(|| ()))?;
    /// let reader = std::thread::spawn(move || {
    ///     let mut count = Count(0);
    ///     view.scan(0..view.slots(), &mut count).map(|()| count.0)
    /// });
    /// keyspace.remove(0, b"key");
    /// assert_eq!(reader.join().expect("no panic")?, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`ReadViewError`]; nothing changes.
    pub fn read_view(
        &mut self,
        point: Point,
        now: i64,
        wake: Arc<dyn Fn() + Send + Sync>,
    ) -> Result<ReadView<A>, ReadViewError> {
        let algorithm = self.algorithm();
        if !algorithm.several {
            return Err(ReadViewError::Algorithm { algorithm: algorithm.name });
        }
        self.slots.read_views().check()?;
        if !self.condemned.is_empty() {
            return Err(ReadViewError::Unswept); // R1
        }
        let (cleared, spaces, seen) = (self.cleared, self.spaces.clone(), self.access.seen());
        let shown = self.slots.shown().clone();
        let keys = std::array::from_fn(|db| self.len(db));
        let instant = self.slots.history_mut().own_id();
        let at = AtBegin { cleared, spaces, shown, seen, now };
        let view = self.slots.read_view(point, instant, at, keys, wake)?;
        self.open_instant(instant, now, false);
        Ok(view)
    }

    /// The number of the oldest open view, which is nobody's if other threads read it.
    #[must_use]
    pub fn oldest_view(&self) -> Option<u64> {
        self.slots.history().oldest()
    }

    /// Gives up the oldest view that other threads read, unless one that was given up is still
    /// read: its readers get errors, and its memory comes back when all have noticed. False if it
    /// gives up none.
    pub fn give_up_read_view(&mut self) -> bool {
        self.slots.read_views_mut().give_up()
    }

    /// Views that other threads read.
    #[must_use]
    pub fn read_views(&self) -> usize {
        self.slots.read_views().len()
    }

    pub(crate) fn open_instant(&mut self, id: u64, now: i64, is_image: bool) {
        let keys = std::array::from_fn(|db| self.len(db));
        let (cleared, spaces, used) = (self.cleared, self.spaces.clone(), self.slots.used());
        let shown = self.slots.shown().clone();
        let era = self.slots.end_era();
        self.slots.history_mut().open(
            id,
            era,
            is_image,
            AtOpen { cleared, spaces, shown, used, keys, now },
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

    /// An empty keyspace for up to `max_keys` keys: the bench of [branches](crate::Branch) of views
    /// of this one.
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
        let held = self.held(db, self.hash(key), key);
        held.filter(|entry| !entry.is_expired(self.now()))
    }

    pub(crate) fn hash(&self, key: &[u8]) -> u64 {
        self.keyspace.hash(key)
    }

    /// The entry of a key with this hash, though it may have expired by then.
    pub(crate) fn held(&self, db: usize, hash: u64, key: &[u8]) -> Option<&'a Entry> {
        let Self { keyspace, position, instant } = *self;
        let space = instant.at.spaces.of_db(db);
        self.spaces_of(space).find_map(|its| {
            let kept = keyspace.slots.history().kept_under(position, hash, its, key);
            let in_slots = self.indexes(its).filter_map(|it| keyspace.slots.find(it, hash, key));
            let mut found = kept.chain(in_slots.map(|seat| keyspace.slots.entry_of(seat)));
            found.find(|entry| instant.sees(entry) && self.is_in(space, entry))
        })
    }

    /// The spaces that have entries of a space: its own, and those of which it shows some.
    fn spaces_of(&self, space: usize) -> impl Iterator<Item = usize> {
        let most = if shown::Mutant::LooksInOwnSpace.is_made() { 0 } else { DATABASES };
        std::iter::once(space).chain(self.instant.at.shown.beneath(space).take(most))
    }

    /// Whether a space has, or shows, an entry.
    fn is_in(&self, space: usize, entry: &Entry) -> bool {
        self.instant.at.shown.is_in(space, entry)
    }

    /// What is there now under the key of a database of the view: no answer about the view.
    pub(crate) fn present(&self, db: usize, hash: u64, key: &[u8]) -> Option<&'a Entry> {
        let space = self.instant.at.spaces.of_db(db);
        let index = self.keyspace.index_in(space);
        self.keyspace.slots.find(index, hash, key).map(|seat| self.keyspace.slots.entry_of(seat))
    }

    /// The indexes that have slots of a space.
    fn indexes(&self, space: usize) -> impl Iterator<Item = &'a Index> {
        let keyspace = self.keyspace;
        let unswept = keyspace.condemned.iter().filter(move |it| it.space == space);
        let unswept = unswept.filter_map(|it| match &it.slots {
            Dead::Viewed(index, _) if !Mutant::OverlooksUnswept.is_made() => Some(index),
            _ => None,
        });
        unswept.chain([keyspace.index_in(space)])
    }

    /// An entry of a database chosen by `random`, which yields 64 random bits a call; all are
    /// equally likely. What is found may be no such entry, then ask again.
    pub(crate) fn random(&self, db: usize, random: &mut impl FnMut() -> u64) -> Option<&'a Entry> {
        let Self { keyspace, position, instant } = *self;
        let space = instant.at.spaces.of_db(db);
        let kept = || keyspace.slots.history().kept_from(position);
        let indexes = || self.spaces_of(space).flat_map(|space| self.indexes(space));
        let indexed: usize = indexes().map(Index::len).sum();
        let mut at = below(random(), indexed + kept().map(Kept::len).sum::<usize>());
        let mut holds = |len: usize| {
            let is_here = at < len;
            at = at.wrapping_sub(len);
            is_here
        };
        let found = match indexes().find(|index| holds(index.len())) {
            Some(index) => keyspace.slots.entry(index.random(random)?),
            None => kept().find(|kept| holds(kept.len()))?.random(random),
        };
        found.filter(|entry| self.is_in(space, entry) && instant.sees(entry))
    }

    /// Slots that it may see anything in.
    pub(crate) fn used(&self) -> usize {
        self.instant.at.used
    }

    /// The databases of an entry that it sees.
    pub(crate) fn dbs_of(&self, entry: &Entry) -> impl Iterator<Item = usize> {
        let AtOpen { spaces, shown, .. } = &self.instant.at;
        let showing = shown.showing(entry).map(|space| spaces.db_in(space));
        std::iter::once(spaces.db_of(entry)).chain(showing)
    }

    /// The class of an entry that it sees; `None` if no database shows entries of another one.
    pub(crate) fn class_of(&self, entry: &Entry) -> Option<u8> {
        let shown = &self.instant.at.shown;
        shown.is_any().then(|| shown.class(entry))
    }

    /// What the view sees in a slot.
    pub(crate) fn at(&self, slot: u32) -> Option<&'a Entry> {
        let slots = &self.keyspace.slots;
        let kept = slots.history().kept_of(self.position, slot);
        let kept = kept.take(if Mutant::WalksPresent.is_made() { 0 } else { usize::MAX });
        kept.chain(slots.entry(slot)).find(|entry| self.instant.sees(entry))
    }

    /// Calls `f` for the next keys of `db` from `cursor` on (0 to begin), `budget` at most, and
    /// returns the next cursor, 0 at the end. A step may find none and not be the last. A walk
    /// meets each key of the view exactly once.
    pub fn scan(&self, db: usize, cursor: u64, budget: usize, mut f: impl FnMut(&Entry)) -> u64 {
        self.walk(db, cursor, budget, |entry| {
            let is_there = !entry.is_expired(self.now());
            if is_there {
                f(entry);
            }
            is_there
        })
    }

    /// As [`scan`](Self::scan), over all that is [held](Self::held); `f` says what counts.
    pub(crate) fn walk(
        &self,
        db: usize,
        cursor: u64,
        budget: usize,
        mut f: impl FnMut(&'a Entry) -> bool,
    ) -> u64 {
        let space = self.instant.at.spaces.of_db(db);
        let used = self.used() as u64;
        let mut left = budget.max(1);
        let most = left.saturating_mul(SLOTS_PER_KEY).max(SLOTS_MIN) as u64;
        let end = cursor.saturating_add(most).min(used);
        for slot in cursor..end {
            if left == 0 {
                return slot;
            }
            let entry = self.at(slot as u32).filter(|entry| self.is_in(space, entry));
            left -= usize::from(entry.is_some_and(&mut f));
        }
        if end < used { end } else { 0 }
    }
}
