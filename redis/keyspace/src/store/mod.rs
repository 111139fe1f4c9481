//! The keyed store: databases over one array of slots, reading, images, housekeeping.
//!
//! Invariants
//! - K1: the index of a database holds exactly the slots of its live entries, under the hash of
//!   their keys. An entry is live if it is younger than the last clear of its database.
//! - K2: a live entry's slot is in the `expiries` of its database exactly if it has a deadline, and
//!   in the `timed` exactly if it is a hash with a field that has one.
//! - K3: dead entries stay in their slots until swept, a few at a time: clearing a database is
//!   O(1). Images, which walk over all slots, know them by their era.
//! - K4: an entry carries not the number of its database but its *space*; the two are permutations
//!   of each other, so that databases are swapped in O(1). An image has the permutation of its
//!   beginning.
//!
//! Keys are hashed by SipHash-1-3 under a key from the operating system, as an attacker chooses
//! them: 8 ns for a key of 16 bytes, where a hash that resists no attacker takes 1 to 2.

pub(crate) mod beside;
pub(crate) mod branch;
mod cursor;
pub(crate) mod defragment;
pub(crate) mod edit;
pub(crate) mod evict;
mod expiries;
pub(crate) mod expiry;
mod layers;
mod lookup;
mod mistakes;
pub(crate) mod options;
mod panics;
pub(crate) mod sharing;
#[cfg(test)]
mod shrunk;
#[cfg(test)]
mod tests;
pub(crate) mod view;
pub(crate) mod warm;
pub(crate) mod write;

use std::collections::VecDeque;
use std::hash::RandomState;
use std::sync::Arc;

use stillframe::algorithms::any::Selected;
use stillframe::{
    Algorithm, BeginError, Begun, CaptureError, CaptureReport, Options, Point, Progress,
};

use crate::DATABASES;
use crate::collection::chunk::Chunk;
use crate::collection::limits::Limits;
use crate::collection::packed::NEVER;
use crate::collection::traits::{Counts, Traits};
use crate::hash::Hasher;
use crate::libraries::Libraries;
use crate::memory::access::{Access, Counting};
use crate::memory::chunks::Sparse;
use crate::memory::entry::{Entry, KEY_BYTES};
use crate::memory::index::{Index, below};
use crate::memory::read_view::READ_VIEWS_MAX;
use crate::memory::slots::Seat;
use crate::memory::slots::{CreateError, Slots};
use crate::memory::spaces::Spaces;
use crate::memory::word_sink::{AtBegin, Cleared, EntrySink};
use beside::ViewImages;
use cursor::Cursor;
use evict::Pool;
use expiries::Expiries;
use expiry::Expired;
use lookup::{Known, Lookup};
use mistakes::Mutant;
use options::{KeyspaceOptions, KeyspaceStats};

/// Dead entries swept in one call of [`Keyspace::tend`].
const SWEEP: usize = if cfg!(any(test, miri)) { 16 } else { 512 };

/// Sixteen databases of keys, with images by algorithm `A`; by default, by the one that
/// [`KeyspaceOptions::algorithm`] names.
///
/// `db` is below [`DATABASES`] everywhere (else a call panics); keys are at most 1 GiB. Instants
/// are unix milliseconds. Calls that take `now` treat a key whose time has come as absent, and
/// delete it. Calls that do not take it act on whatever is stored: look the key up first where that
/// matters; looking up and then changing one key hashes it once.
pub struct Keyspace<A: Algorithm = Selected> {
    pub(crate) slots: Slots<A>,
    pub(crate) dbs: [Db; DATABASES],
    pub(crate) spaces: Spaces,
    /// The position of each slot in the `expiries` of its database.
    pub(crate) expiry_positions: Sparse,
    /// The position of each slot in the `timed` of its database.
    pub(crate) timed_positions: Sparse,
    cleared: Cleared,
    condemned: VecDeque<Condemned>,
    pub(crate) hasher: Hasher,
    pub(crate) limits: Limits,
    /// Scratch for edits of small collections.
    pub(crate) scratch: Chunk,
    known: Known,
    pub(crate) access: Access,
    pub(crate) pool: Pool,
    pub(crate) expired_total: u64,
    pub(crate) expired_fields_total: u64,
    /// What expired since it was last taken, if it is collected.
    pub(crate) expired: Vec<Expired>,
    pub(crate) keeps_expired: bool,
    /// Expired keys count as absent, and stay until the caller deletes them.
    pub(crate) spares_expired: bool,
    /// The database whose turn it is in the search for expired keys, and for expired fields.
    pub(crate) expire_turn: usize,
    pub(crate) field_turn: usize,
    libraries: Libraries,
    view_images: ViewImages,
}

#[derive(Default)]
pub(crate) struct Db {
    pub(crate) index: Index,
    pub(crate) expiries: Expiries,
    /// Hashes with fields that expire, and streams that know messages of producers.
    pub(crate) timed: Expiries,
    pub(crate) counts: Counts,
    pub(crate) bytes: usize,
}

/// Slots of dead entries.
struct Condemned {
    slots: Dead,
    space: usize,
    bytes: usize,
}

enum Dead {
    /// Nothing looks for them any more.
    Slots(Box<dyn Iterator<Item = u32> + Send>),
    /// Views may: the index of those from this slot on.
    Viewed(Index, usize),
}

impl<A: Algorithm> Keyspace<A> {
    /// An empty keyspace.
    ///
    /// # Errors
    /// [`CreateError`] when memory or threads cannot be had.
    pub fn create(options: &KeyspaceOptions) -> Result<Self, CreateError> {
        Self::create_with(options, Hasher(RandomState::new()))
    }

    fn create_with(options: &KeyspaceOptions, hasher: Hasher) -> Result<Self, CreateError> {
        let words = Options::words(0)
            .max_words(options.max_keys)
            .huge_pages(options.huge_pages)
            .algorithm(options.algorithm)
            .images(READ_VIEWS_MAX + 1)
            .budget(options.budget_bytes, options.on_full);
        Ok(Self {
            slots: Slots::create(&words, hasher.clone())?,
            dbs: Default::default(),
            spaces: Spaces::default(),
            expiry_positions: Sparse::default(),
            timed_positions: Sparse::default(),
            cleared: [0; DATABASES],
            condemned: VecDeque::new(),
            hasher,
            limits: Limits::default(),
            scratch: Chunk::default(),
            known: Known::default(),
            access: Access::default(),
            pool: Pool::default(),
            expired_total: 0,
            expired_fields_total: 0,
            expired: Vec::new(),
            keeps_expired: false,
            spares_expired: false,
            expire_turn: 0,
            field_turn: 0,
            libraries: Libraries::default(),
            view_images: ViewImages::default(),
        })
    }

    /// The entry of a key. Of a hash, some fields whose time has come are deleted, as many as one
    /// command may take time for; [`Hash::as_of`](crate::Hash::as_of) hides the others.
    #[inline]
    pub fn get(&mut self, db: usize, key: &[u8], now: i64) -> Option<&Entry> {
        let seat = self.find(db, key, now)?;
        self.fresh(db, key, seat, now)
    }

    /// The entry that a lookup has found, once fields that have expired are gone. Each read passes
    /// here, and few find a field that is due.
    #[inline(always)]
    fn fresh(&mut self, db: usize, key: &[u8], seat: Seat, now: i64) -> Option<&Entry> {
        if self.slots.entry_of(seat).has_due(now) {
            return self.refreshed(db, key, seat, now);
        }
        Some(self.slots.entry_of(seat))
    }

    #[cold]
    fn refreshed(&mut self, db: usize, key: &[u8], seat: Seat, now: i64) -> Option<&Entry> {
        let is_changed = self.expire_fields(db, key, now) > 0;
        let seat = if is_changed { self.lookup_again(db, key).seat? } else { seat };
        Some(self.slots.entry_of(seat))
    }

    /// As [`get`](Self::get), for a caller that is about to edit: edits of one collection often
    /// follow each other, so this looks first at the key that was looked up last.
    pub fn get_to_edit(&mut self, db: usize, key: &[u8], now: i64) -> Option<&Entry> {
        let lookup = self.lookup_again(db, key);
        let seat = self.use_key(db, lookup, now)?;
        self.fresh(db, key, seat, now)
    }

    /// As [`get`](Self::get), but it does not count as a use of the key.
    pub fn peek(&mut self, db: usize, key: &[u8], now: i64) -> Option<&Entry> {
        let lookup = self.lookup(db, key);
        let seat = self.unexpired(db, lookup, now)?;
        self.fresh(db, key, seat, now)
    }

    /// Whether lookups are no uses of keys from now on; returns whether they were none.
    pub fn spare_uses(&mut self, spares: bool) -> bool {
        self.access.spare_uses(spares)
    }

    /// Memory that deleting all keys would give back, in bytes: entries and their place in the
    /// index. O(1).
    #[must_use]
    pub fn data_bytes(&self) -> usize {
        self.dbs.iter().map(|db| db.bytes + db.index.len() * KEY_BYTES).sum()
    }

    /// Whether the key exists.
    pub fn contains(&mut self, db: usize, key: &[u8], now: i64) -> bool {
        let found = self.find(db, key, now);
        found.is_some_and(|seat| self.fresh(db, key, seat, now).is_some())
    }

    /// Milliseconds since a key was last used, in steps of 100; meant for
    /// [`Counting::Recency`].
    #[must_use]
    pub fn idle_ms(&self, db: usize, key: &[u8]) -> Option<u64> {
        Some(self.access.idle_ms(self.seek(db, key)?))
    }

    /// How often a key is used, from 0 to 255; 0 without [`Counting::Frequency`].
    #[must_use]
    pub fn frequency(&self, db: usize, key: &[u8]) -> Option<u8> {
        Some(self.access.frequency(self.seek(db, key)?))
    }

    /// Makes a key look unused for so long, with [`Counting::Recency`].
    pub fn set_idle_ms(&mut self, db: usize, key: &[u8], idle_ms: u64) {
        if let Some(slot) = self.seek(db, key) {
            self.access.set_idle_ms(slot, idle_ms);
        }
    }

    /// Makes a key look used so often, with [`Counting::Frequency`].
    pub fn set_frequency(&mut self, db: usize, key: &[u8], frequency: u8) {
        if let Some(slot) = self.seek(db, key) {
            self.access.set_frequency(slot, frequency);
        }
    }

    /// The slot of a key.
    fn seek(&self, db: usize, key: &[u8]) -> Option<u32> {
        let hash = self.hash(key);
        let own = self.slots.find(&self.dbs[db].index, hash, key);
        Some(own.or_else(|| self.find_shown(db, hash, key))?.slot)
    }

    /// How uses of keys are counted from now on.
    pub fn count_uses(&mut self, counting: Counting) {
        if self.access.counting() != counting {
            self.access.set_counting(counting);
        }
    }

    /// Sets the clock that dates uses: milliseconds since any fixed instant.
    pub fn set_clock(&mut self, milliseconds: u64) {
        self.access.set_clock(milliseconds);
    }

    /// Keys of a database, including expired ones that nothing has met yet.
    #[must_use]
    pub fn len(&self, db: usize) -> usize {
        self.dbs[db].index.len() + self.shown_keys(db)
    }

    /// Whether a database has no keys.
    #[must_use]
    pub fn is_empty(&self, db: usize) -> bool {
        self.len(db) == 0
    }

    /// Keys of a database that have a time to live.
    #[must_use]
    pub fn expires(&self, db: usize) -> usize {
        self.dbs[db].expiries.len() + self.slots.shown().mortal(self.spaces.of_db(db))
    }

    /// Calls `f` for the next `budget` keys of `db` from `cursor` on (0 to begin), and returns the
    /// next cursor, 0 at the end. Empty slots and those of other databases count for nothing. A
    /// scan meets a key that exists from the first call to the last exactly once, whatever else
    /// changes; in a branch, twice if it is changed meanwhile.
    pub fn scan(
        &mut self,
        db: usize,
        cursor: u64,
        budget: usize,
        now: i64,
        mut f: impl FnMut(&Entry),
    ) -> u64 {
        let used = self.slots.used();
        let mut cursor = Cursor::read(cursor, used, self.shown_keys(db) > 0);
        let mut left = budget.max(1);
        if cursor.is_beneath {
            if let Some(next) = self.scan_beneath(db, cursor, &mut left, now, &mut f) {
                return next.write();
            }
            cursor = cursor.second_part(used);
        }
        let end = cursor.end().min(used);
        while let Some(slot) = self.dbs[db].index.slots().next(cursor.next)
            && (slot as usize) < end
        {
            cursor = cursor.at(slot as usize);
            if left == 0 {
                let skips = usize::from(Mutant::ScanSkipsKey.is_made());
                return cursor.at(slot as usize + skips).write();
            }
            left -= 1;
            cursor = cursor.at(slot as usize + 1);
            if !self.delete_if_expired(slot, now) {
                f(self.at(slot));
            }
        }
        0
    }

    /// A key of `db` chosen by `random`, which yields 64 random bits a call.
    pub fn random(
        &mut self,
        db: usize,
        now: i64,
        random: &mut impl FnMut() -> u64,
    ) -> Option<&Entry> {
        /// Tries where expired keys are spared and there may be no other.
        const TRIES_MAX: usize = 100;
        let mut tries = 0;
        loop {
            let (own, shown) = (self.dbs[db].index.len(), self.shown_keys(db));
            let slot = if shown > 0 && below(random(), own + shown) >= own {
                self.random_beneath(db, random)?
            } else {
                self.dbs[db].index.random(random)?
            };
            tries += usize::from(self.spares_expired);
            if !self.delete_if_expired(slot, now) || tries == TRIES_MAX {
                return self.slots.entry(slot);
            }
        }
    }

    /// Calls `f` for every key of `db`, in no order.
    pub fn for_each(&mut self, db: usize, now: i64, f: impl FnMut(&Entry)) {
        let own = self.dbs[db].index.slots().iter().map(|slot| self.at(slot));
        let entries = own.chain(self.entries_beneath(db));
        entries.filter(|entry| !entry.is_expired(now)).for_each(f);
    }

    /// Deletes every key of a database, in O(1), unless it has branches, which keep what they show
    /// of it. Images and views stay whole. Memory comes back as [`tend`](Self::tend) is called.
    pub fn clear(&mut self, db: usize) {
        if self.is_empty(db) {
            return;
        }
        let space = self.spaces.of_db(db);
        self.slots.shown_mut().end(space);
        self.part_all(db);
        self.cleared[space] = self.slots.end_era(); // K3: all that live now are dead
        self.known.forget_all(); // K5
        let Db { index, expiries, timed, bytes, counts: _ } = std::mem::take(&mut self.dbs[db]);
        if Mutant::ClearKeepsBytes.is_made() {
            self.dbs[db].bytes = bytes;
        }
        let expiry_bytes = (expiries.len() + timed.len()) * size_of::<u32>();
        let expiries = (expiries, timed);
        let slots = if self.slots.history().is_open() {
            self.slots.reclaimer().drop_later(expiries, expiry_bytes);
            Dead::Viewed(index, 0)
        } else {
            let (slots, index, index_bytes) = index.into_slots();
            self.slots.reclaimer().drop_later((index, expiries), index_bytes + expiry_bytes);
            Dead::Slots(Box::new(slots.into_slots()))
        };
        self.condemned.push_back(Condemned { slots, space, bytes });
    }

    /// Deletes every key, like [`clear`](Self::clear).
    pub fn clear_all(&mut self) {
        // No branch needs to keep what another database has.
        (0..DATABASES).for_each(|space| self.slots.shown_mut().end(space));
        (0..DATABASES).for_each(|db| self.clear(db));
    }

    /// Deletes all keys, and all libraries: another data set follows.
    pub fn reset(&mut self) {
        self.clear_all();
        self.libraries.set(Vec::new());
    }

    /// The libraries of functions, which no command on keys touches.
    #[must_use]
    pub fn libraries(&self) -> &Libraries {
        &self.libraries
    }

    /// Adds a library.
    pub fn add_library(&mut self, source: &[u8]) {
        self.libraries.add(source);
    }

    /// Replaces all libraries.
    pub fn set_libraries(&mut self, sources: Vec<Arc<[u8]>>) {
        self.libraries.set(sources);
    }

    /// Takes over the libraries of another keyspace.
    pub fn share_libraries(&mut self, of: &Self) {
        if self.libraries.version() != of.libraries.version() {
            self.libraries = of.libraries.clone();
        }
    }

    /// Swaps the contents of two databases, in O(1). Images and views show them as they were.
    pub fn swap(&mut self, a: usize, b: usize) {
        self.dbs.swap(a, b);
        if !Mutant::SwapForgetsSpaces.is_made() {
            self.spaces.swap(a, b);
        }
    }

    /// Begins an image of all databases. The snapshotter thread pushes its entries into `sink`,
    /// then runs `publish` while the image is still held, then lets it go.
    ///
    /// # Errors
    /// [`BeginError`], for instance while an image is under way: nothing changes, the sink is
    /// dropped, `publish` is not called.
    pub fn snapshot<E: EntrySink + 'static>(
        &mut self,
        point: Point,
        sink: E,
        publish: impl FnOnce(&mut E, Result<CaptureReport, CaptureError>) + Send + 'static,
    ) -> Result<Begun, BeginError> {
        let (cleared, spaces, seen) = (self.cleared, self.spaces.clone(), self.access.seen());
        let shown = self.slots.shown().clone();
        let at_begin = AtBegin { cleared, spaces, shown, seen, now: i64::MIN };
        self.slots.snapshot(point, sink, at_begin, publish)
    }

    /// Frees what images and closed views no longer hold, and sweeps cleared databases: bounded
    /// work, next to none when idle. Call it once per turn of the event loop. True if more is left
    /// to do, so that an idle loop should not sleep.
    pub fn tend(&mut self) -> bool {
        let fed = self.walks() && self.feed();
        let more = self.slots.tend() || fed;
        self.sweep(SWEEP);
        more || !self.condemned.is_empty()
    }

    /// Whether an image is under way.
    #[must_use]
    pub fn saving(&self) -> bool {
        self.slots.progress().running() || self.walks()
    }

    /// Waits until no image is under way.
    pub fn wait_image(&mut self) {
        self.slots.wait();
        self.wait_for_walks();
    }

    /// How far the image that the library takes is, in slots (words); any thread may ask, or cancel
    /// it.
    #[must_use]
    pub fn progress(&self) -> Progress {
        self.slots.progress().clone()
    }

    /// The limits of compact encodings.
    #[must_use]
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// The limits up to which collections count as packed; see [`Limits`].
    pub fn limits_mut(&mut self) -> &mut Limits {
        &mut self.limits
    }

    /// The algorithm that takes the images.
    #[must_use]
    pub fn algorithm(&self) -> &'static stillframe::Info {
        self.slots.algorithm()
    }

    /// Figures of this instant.
    #[must_use]
    pub fn stats(&self) -> KeyspaceStats {
        let [for_images, (view_entries, view_bytes)] =
            [true, false].map(|for_images| self.slots.history().totals(for_images));
        let view_bytes = view_bytes + self.slots.read_views().held_bytes();
        let condemned: usize = self.condemned.iter().map(|condemned| condemned.bytes).sum();
        KeyspaceStats {
            keys: (0..DATABASES).map(|db| self.len(db)).sum(),
            expires: (0..DATABASES).map(|db| self.expires(db)).sum(),
            expired_total: self.expired_total,
            timed_hashes: self.timed_hashes(),
            expired_fields_total: self.expired_fields_total,
            slots: self.slots.used(),
            entry_bytes: self.dbs.iter().map(|db| db.bytes).sum(),
            limbo_entries: self.slots.limbo().entries() + for_images.0,
            limbo_bytes: self.slots.limbo().bytes() + for_images.1,
            view_entries,
            view_bytes,
            garbage_bytes: condemned + self.slots.garbage_bytes(),
        }
    }

    pub(crate) fn hash(&self, key: &[u8]) -> u64 {
        self.hasher.hash_key(key)
    }

    pub(crate) fn is_live(&self, entry: &Entry) -> bool {
        entry.era() > self.cleared[entry.space()]
    }

    #[inline]
    fn find(&mut self, db: usize, key: &[u8], now: i64) -> Option<Seat> {
        let lookup = self.lookup(db, key);
        self.use_key(db, lookup, now)
    }

    /// As [`unexpired`](Self::unexpired); it counts as a use of the key.
    #[inline]
    fn use_key(&mut self, db: usize, lookup: Lookup, now: i64) -> Option<Seat> {
        let seat = self.unexpired(db, lookup, now)?;
        self.access.touch(seat.slot);
        Some(seat)
    }

    /// The seat of a key just looked up, if it is there and its time has not come.
    #[inline]
    fn unexpired(&mut self, db: usize, lookup: Lookup, now: i64) -> Option<Seat> {
        let seat = lookup.seat?;
        let late = i64::from(Mutant::ExpiresLate.is_made());
        if self.slots.entry_of(seat).is_expired(now - late) {
            self.expire_in(db, seat, lookup.hash);
            return None;
        }
        Some(seat)
    }

    /// Deletes the live entry in `slot`, whose key has this hash.
    pub(crate) fn delete(&mut self, slot: u32, hash: u64) {
        self.part(slot, hash);
        self.unlist(slot, hash);
        self.slots.remove(slot);
    }

    /// Takes the live entry in `slot` from all lists: it is about to leave.
    pub(crate) fn unlist(&mut self, slot: u32, hash: u64) {
        let entry = self.slots.entry(slot).expect("a slot in the index is in use");
        let db = &mut self.dbs[self.spaces.db_of(entry)];
        db.index.remove(hash, slot);
        db.bytes -= entry.bytes();
        if entry.deadline() != NEVER {
            db.expiries.remove(slot, &mut self.expiry_positions);
        }
        let traits = entry.traits();
        db.counts.change(traits, Traits::NONE);
        if traits.is_timed() {
            db.timed.remove(slot, &mut self.timed_positions);
        }
        self.known.forget(slot); // K5
    }

    /// The live entry in `slot`.
    pub(crate) fn at(&self, slot: u32) -> &Entry {
        self.slots.entry(slot).expect("a slot in the index is in use")
    }

    /// The hash of the key in `slot`, for callers that have not looked it up.
    pub(crate) fn hash_in(&self, slot: u32) -> u64 {
        self.hash(self.at(slot).key())
    }

    pub(crate) fn sweep(&mut self, budget: usize) {
        let Some(condemned) = self.condemned.front_mut() else { return };
        let more = match &mut condemned.slots {
            Dead::Slots(slots) => self.slots.sweep(slots, budget),
            Dead::Viewed(index, from) => {
                let mut next = *from;
                let found = || index.slots().next(next).inspect(|slot| next = *slot as usize + 1);
                let batch: Vec<u32> = std::iter::from_fn(found).take(budget).collect();
                *from = next;
                for &slot in &batch {
                    let entry = self.slots.entry(slot).expect("a slot in an index is in use");
                    index.remove(self.hasher.sip(entry.key()), slot);
                }
                self.slots.sweep(&mut batch.into_iter(), budget)
            }
        };
        if !more {
            self.condemned.pop_front();
        }
    }
}
