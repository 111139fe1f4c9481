//! The memory model: which entry lies in which slot, and who may change or free it when.
//!
//! A slot word is 0 or the handle of the entry that the slot owns. *Era* counts images and clears:
//! an entry carries the era it was born in; beginning an image freezes the eras up to the present
//! one (`frozen`) and starts a new era. An image can see an entry exactly if the entry is of a
//! frozen era, was in its slot at begin, and the capture has not passed that slot.
//!
//! Invariants
//! - M1: a word that is not 0 is the handle of a live entry, owned by this slot alone. An entry
//!   lives in one slot and never moves, so its slot shows whether it was captured.
//! - M2: an entry is changed or freed only if no image can see it: no image is held, or the entry
//!   is younger than the frozen eras, or its slot lies below `captured`. Otherwise a new entry
//!   replaces it, and it waits in limbo. Nor is it while an open view sees it: the history keeps
//!   it, or a copy if an image can see it too.
//! - M3: what leaves a slot was overwritten there first, and only then retired.
//! - M4: limbo releases a range when the capture has passed all of it (`Engine::captured`, Acquire:
//!   the sink has let go of those entries), and everything when the image is over (Acquire too).
//! - M5: images of another process (fork) see that process's entries: nothing is frozen here.
//! - M6: a slot in an index is in use: code that inserts or removes an entry here does the same
//!   there before the next lookup.
//! - M7: a seat that a lookup found is used up to the next write of its slot: until then its word
//!   is the slot's. Only this room makes seats, and they live in the locals of one method of the
//!   keyspace: what a keyspace remembers of a key is its slot. A stale seat would name an entry
//!   that may be freed. Debug builds check each use, and every build checks before it changes an
//!   entry: nothing waits for that load (`examples/dispatch.rs` shows no cost beyond its noise of a
//!   few percent).
//!
//! A slot freed and reused while an image is held, by cases (old entry `o`, frozen, not captured):
//! - `o` leaves and the slot is empty: the algorithm keeps `o`'s handle for the image, limbo keeps
//!   `o` itself.
//! - A new entry `n` comes into the slot: it is young; the image still sees `o`, as the
//!   algorithm keeps the *oldest* word. `n` changes in place and is freed at once: no image has
//!   its handle. `n` cannot have `o`'s address: `o` is not freed yet.
//! - So a slot puts at most one entry in limbo per image, and limbo is never larger than the image.
//! - The capture passes the slot: whatever is in it now is invisible (it was pushed, or is young).
//!   The next image freezes `n` as it finds it.
//! - The image fails or is cancelled: the capture stops anywhere; `captured` no longer rises, and
//!   everything stays until the image is let go.
//! - A slot handed out for the first time after begin lies beyond the image, and so do its entries:
//!   they are young.

use std::io;

use stillframe::{
    Algorithm, BeginError, Begun, CaptureError, CaptureReport, Engine, MemoryError, OnFull,
    Options, Point, Progress, Publication, Unread,
};

use crate::DATABASES;
use crate::collection::kind::Type;
use crate::hash::Hasher;
use crate::memory::chunks::Stack;
use crate::memory::entry::{Entry, Owned};
use crate::memory::history::{History, mutants as mistakes};
use crate::memory::index::Index;
use crate::memory::limbo::{Limbo, Loan};
use crate::memory::read_view::{ReadView, ReadViewError, ReadViews, Wake};
use crate::memory::reclaim::Reclaimer;
use crate::memory::shown::{Shown, mutants as shown};
use crate::memory::word_sink::{AtBegin, EntrySink, WordSink};
use crate::mutants::Mutant;

/// Entries of this size or more are dropped by the reclaimer: unmapping them takes long.
const LARGE_BYTES: usize = 256 << 10;
/// Above this much garbage the writer drops long texts itself: it must not outrun the reclaimer. It
/// cannot with collections, which take longer to fill than to drop.
const PENDING_BYTES_MAX: usize = 64 << 20;
/// Growth of the slot array: an eighth, and at least this.
const GROWTH_MIN: usize = if cfg!(any(test, miri)) { 16 } else { 8192 };
/// A slot's number has 32 bits wherever one is kept.
const KEYS_MAX: usize = u32::MAX as usize;

/// A slot in use and the word in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Seat {
    pub(crate) slot: u32,
    word: u64,
}

/// Slots with their entries.
pub(crate) struct Slots<A: Algorithm> {
    engine: Engine<A>,
    progress: Progress,
    /// Slots below have been handed out.
    used: usize,
    free: Stack,
    slots_max: usize,
    era: u64,
    /// An image was begun and its end not noticed yet.
    imaging: bool,
    /// Eras up to this one belong to the image under way; 0 if there is none in this process.
    frozen: u64,
    /// Slots below are captured, as far as was noticed.
    captured: usize,
    limbo: Limbo,
    history: History,
    read_views: ReadViews,
    shown: Shown,
    reclaimer: Reclaimer,
}

#[cfg(test)]
mod tests;

impl<A: Algorithm> Slots<A> {
    pub(crate) fn create(options: &Options, hasher: Hasher) -> Result<Self, CreateError> {
        let max_keys = options.max_words;
        if max_keys > KEYS_MAX {
            return Err(CreateError::TooManyKeys { max_keys });
        }
        let engine = Engine::new(A::create(options)?).map_err(CreateError::Thread)?;
        Ok(Self {
            progress: engine.progress(),
            engine,
            used: 0,
            free: Stack::default(),
            slots_max: max_keys,
            era: 1,
            imaging: false,
            frozen: 0,
            captured: 0,
            limbo: Limbo::default(),
            history: History::new(hasher),
            read_views: ReadViews::default(),
            shown: Shown::default(),
            reclaimer: Reclaimer::default(),
        })
    }

    /// The algorithm that takes the images.
    pub(crate) fn algorithm(&self) -> &'static stillframe::Info {
        self.engine.algorithm().info()
    }

    /// The era in which entries are born now.
    pub(crate) fn era(&self) -> u64 {
        self.era
    }

    /// Starts a new era and returns the one that ended.
    pub(crate) fn end_era(&mut self) -> u64 {
        self.era += 1;
        self.era - 1
    }

    /// Slots that were ever handed out.
    pub(crate) fn used(&self) -> usize {
        self.used
    }

    pub(crate) fn limbo(&self) -> &Limbo {
        &self.limbo
    }

    pub(crate) fn history(&self) -> &History {
        &self.history
    }

    pub(crate) fn history_mut(&mut self) -> &mut History {
        &mut self.history
    }

    pub(crate) fn read_views(&self) -> &ReadViews {
        &self.read_views
    }

    pub(crate) fn read_views_mut(&mut self) -> &mut ReadViews {
        &mut self.read_views
    }

    /// Which entries databases show of others.
    #[inline]
    pub(crate) fn shown(&self) -> &Shown {
        &self.shown
    }

    pub(crate) fn shown_mut(&mut self) -> &mut Shown {
        &mut self.shown
    }

    pub(crate) fn reclaimer(&mut self) -> &mut Reclaimer {
        &mut self.reclaimer
    }

    pub(crate) fn garbage_bytes(&self) -> usize {
        self.reclaimer.pending_bytes()
    }

    #[inline]
    pub(crate) fn entry(&self, slot: u32) -> Option<&Entry> {
        match self.engine.read(slot as usize) {
            0 => None,
            // SAFETY: M1. It stays alive and unchanged for the borrow: freeing and changing entries
            // takes `&mut self`, and nothing else drops entries in slots.
            word => Some(unsafe { Entry::from_word(word) }),
        }
    }

    /// The seat of a slot, if it is in use.
    #[inline]
    pub(crate) fn seat(&self, slot: u32) -> Option<Seat> {
        let word = self.engine.read(slot as usize);
        (word != 0).then_some(Seat { slot, word })
    }

    /// The slot of `index` that holds `key`.
    #[inline]
    pub(crate) fn find(&self, index: &Index, hash: u64, key: &[u8]) -> Option<Seat> {
        index.find(hash, |slot| {
            let seat = self.seat(slot)?; // M6
            (self.entry_of(seat).key() == key).then_some(seat)
        })
    }

    /// The entry of a seat (M7).
    #[inline]
    pub(crate) fn entry_of(&self, seat: Seat) -> &Entry {
        debug_assert_eq!(self.engine.read(seat.slot as usize), seat.word, "M7");
        // SAFETY: M1 by M7; as in `entry`.
        unsafe { Entry::from_word(seat.word) }
    }

    /// The entry of a seat, to be changed in place, if no image can see it (M2), and no other
    /// database shows it.
    #[inline]
    pub(crate) fn entry_mut(&mut self, seat: Seat) -> Option<&mut Entry> {
        assert!(self.engine.read(seat.slot as usize) == seat.word, "a seat is stale (M7)");
        let entry = self.entry_of(seat);
        let is_imaged = self.is_imaged(seat.slot, entry) && !Mutant::ChangesInPlace.is_made();
        if is_imaged || self.history.freezes(seat.slot, entry) || self.shown.freezes(entry) {
            return None;
        }
        // SAFETY: M1 by M7, and M2: the image under way never gives this handle to the
        // snapshotter, or it has let go of it; no other reference outlives the borrow of `self`.
        Some(unsafe { Entry::from_word_mut(seat.word) })
    }

    /// Whether an image can see the entry in this slot.
    fn is_imaged(&self, slot: u32, entry: &Entry) -> bool {
        let captured = self.captured + usize::from(Mutant::SeesOneSlotLess.is_made());
        entry.era() <= self.frozen && slot as usize >= captured
    }

    /// Whether so many slots can still be had.
    ///
    /// # Errors
    /// [`MemoryError::Reserved`].
    pub(crate) fn check_room(&self, slots: usize) -> Result<(), MemoryError> {
        let words = (self.used - self.free.len()).saturating_add(slots);
        let reserved = self.slots_max;
        if words > reserved { Err(MemoryError::Reserved { words, reserved }) } else { Ok(()) }
    }

    /// Puts an entry into a free slot.
    pub(crate) fn insert(&mut self, entry: Owned) -> Result<Seat, MemoryError> {
        let slot = match self.free.pop() {
            Some(slot) => slot,
            None => self.hand_out()?,
        };
        let word = entry.into_word();
        self.engine.write(slot as usize, word);
        Ok(Seat { slot, word })
    }

    pub(crate) fn has_free(&self) -> bool {
        self.free.len() != 0
    }

    fn hand_out(&mut self) -> Result<u32, MemoryError> {
        let words = self.engine.words();
        if self.used == words {
            let grown = words + GROWTH_MIN.max(words / 8);
            // The last step may be shorter; beyond it the library reports the reserved size.
            self.engine.grow(grown.min(self.slots_max).max(words + 1))?;
        }
        self.used += 1;
        Ok((self.used - 1) as u32)
    }

    /// Has a slot free for the next entry.
    pub(crate) fn provide(&mut self) -> Result<(), MemoryError> {
        if !self.has_free() {
            let slot = self.hand_out()?;
            self.free.push(slot);
        }
        Ok(())
    }

    /// The entry in `slot` shares this many bytes with one that is not here.
    pub(crate) fn share(&mut self, slot: u32, bytes: usize) {
        self.limbo.share(slot, bytes);
    }

    /// Takes the entry out of a slot that no image and no view ever saw, with the bytes that it
    /// still [shares](Self::share).
    pub(crate) fn take(&mut self, slot: u32) -> (Owned, usize) {
        assert!(!self.imaging && !self.history.is_open(), "nobody else sees the entry");
        let word = self.engine.read(slot as usize);
        assert!(word != 0, "a slot in use holds an entry");
        self.engine.write(slot as usize, 0);
        self.free.push(slot);
        let shared_bytes = self.limbo.unshare(slot);
        // SAFETY: M1: the slot owned it, and its word is gone; M2: no image is held, and no view is
        // open.
        (unsafe { Owned::from_word(word) }, shared_bytes)
    }

    /// Puts another entry into a slot in use, which shares this many bytes with the one before.
    pub(crate) fn replace(&mut self, slot: u32, entry: Owned, shared_bytes: usize) -> Seat {
        let word = entry.into_word();
        self.exchange(slot, word, shared_bytes);
        Seat { slot, word }
    }

    /// Empties a slot in use.
    pub(crate) fn remove(&mut self, slot: u32) {
        self.exchange(slot, 0, 0);
        self.free.push(slot);
    }

    /// The bytes that limbo would share with an entry that shares all of the one in `slot`, if that
    /// left now.
    pub(crate) fn loan(&self, slot: u32) -> Option<Loan> {
        let entry = self.entry(slot)?;
        if !self.is_imaged(slot, entry) {
            return self.limbo.loan(slot);
        }
        let bytes = entry.outside_bytes();
        (bytes > 0).then_some(Loan { holder: slot, bytes })
    }

    /// Notes that the entry in `slot` shares something with one in limbo.
    pub(crate) fn lend(&mut self, slot: u32, loan: Loan) {
        self.limbo.lend(slot, loan);
    }

    /// Notes that the entry in `slot` no longer shares nodes of this many bytes.
    pub(crate) fn give_back(&mut self, slot: u32, bytes: usize) {
        self.limbo.give_back(slot, Some(bytes));
        self.history.give_back(slot, Some(bytes));
    }

    fn exchange(&mut self, slot: u32, word: u64, shared_bytes: usize) {
        let old = self.engine.read(slot as usize);
        assert!(old != 0, "a slot in use holds an entry");
        self.engine.write(slot as usize, word); // M3
        // SAFETY: M1: the slot owned it, and its word is gone.
        let old = unsafe { Owned::from_word(old) };
        let is_imaged = self.is_imaged(slot, old.entry());
        if self.history.needs(slot, old.entry()) {
            if !is_imaged {
                self.limbo.give_back(slot, None);
                return self.history.keep(slot, old, shared_bytes);
            }
            if !mistakes::Mutant::KeepsForImage.is_made() {
                self.history.keep(slot, old.entry().copy(), shared_bytes);
            }
        } else {
            self.history.give_back(slot, None);
        }
        if is_imaged {
            self.limbo.push(slot, old);
            if shared_bytes > 0 {
                self.limbo.lend(slot, Loan { holder: slot, bytes: shared_bytes });
            }
            #[cfg(test)]
            if Mutant::FreesAtOnce.is_made() {
                self.limbo.poison(..);
            }
            return;
        }
        #[cfg(test)]
        if Mutant::SeesOneSlotLess.is_made() && slot as usize == self.captured {
            return self.limbo.push(slot, old.poisoned()); // freed, as far as a reader can see
        }
        self.limbo.give_back(slot, None);
        #[cfg(test)]
        if mistakes::Mutant::PassesEarly.is_made() {
            return old.freed(); // another thread may look at it
        }
        if old.entry().bytes() >= LARGE_BYTES
            && (self.reclaimer.pending_bytes() < PENDING_BYTES_MAX
                || old.entry().value().kind() != Type::String)
        {
            let bytes = old.entry().bytes();
            self.reclaimer.drop_later(old, bytes);
        }
    }

    /// Whether only this thread can see entries: no image is held, and no view is open.
    pub(crate) fn is_alone(&self) -> bool {
        !self.imaging && !self.history.is_open() && self.read_views.is_empty()
            || Mutant::MovesWhatIsSeen.is_made()
    }

    /// Moves the entry in `slot` to other memory if its own is sparse; `None` if there is none.
    pub(crate) fn move_entry(
        &mut self,
        slot: u32,
        is_sparse: &dyn Fn(*const u8) -> bool,
    ) -> Option<bool> {
        assert!(self.is_alone(), "others can see what would move");
        let word = self.engine.read(slot as usize);
        let entry = self.entry(slot)?;
        if !entry.is_sparse(is_sparse) {
            return Some(false);
        }
        let moved = entry.moved();
        self.engine.write(slot as usize, moved.into_word()); // M3
        // SAFETY: M1: the slot owned it, and its word is gone; M2: no image is held, and no view is
        // open.
        let old = unsafe { Owned::from_word(word) };
        #[cfg(test)]
        if Mutant::MovesWhatIsSeen.is_made() && self.imaging {
            self.limbo.push(slot, old.poisoned()); // freed, as far as a reader can see
            return Some(true);
        }
        drop(old);
        Some(true)
    }

    /// As [`Trunk::move_leaf`](crate::collection::trunk::Trunk::move_leaf) for the entry in `slot`;
    /// `None` if there is no large collection that is its alone.
    pub(crate) fn move_leaf(
        &mut self,
        slot: u32,
        place: usize,
        is_sparse: &dyn Fn(*const u8) -> bool,
    ) -> Option<(usize, bool)> {
        assert!(self.is_alone(), "others can see what would move");
        let word = self.seat(slot)?.word;
        // SAFETY: M1, and M2: no image is held, and no view is open; no other reference outlives
        // the borrow of `self`.
        let entry = unsafe { Entry::from_word_mut(word) };
        entry.own_trunk_mut()?.move_leaf(place, is_sparse)
    }

    /// Empties up to `budget` of `slots`, which are in use; false when there are no more. Without
    /// images and views the reclaimer drops their entries together, unseen here.
    pub(crate) fn sweep(&mut self, slots: &mut dyn Iterator<Item = u32>, budget: usize) -> bool {
        let mut batch = Vec::with_capacity(budget);
        let mut swept = 0;
        for slot in slots.take(budget) {
            swept += 1;
            if self.frozen != 0 || self.history.is_open() {
                self.remove(slot);
                continue;
            }
            let word = self.engine.read(slot as usize);
            assert!(word != 0, "a slot in use holds an entry");
            self.engine.write(slot as usize, 0);
            self.free.push(slot);
            // SAFETY: M1: the slot owned it, and its word is gone; M2: no image is held,
            // and no view is open.
            batch.push(unsafe { Owned::from_word(word) });
        }
        if !batch.is_empty() {
            let bytes = size_of_val(&batch[..]); // those of the entries are known to the caller
            self.reclaimer.drop_later(batch, bytes);
        }
        swept == budget
    }

    /// Begins an image of the entries that are not dead.
    pub(crate) fn snapshot<E: EntrySink + 'static>(
        &mut self,
        point: Point,
        sink: E,
        mut at_begin: AtBegin,
        publish: impl FnOnce(&mut E, Result<CaptureReport, CaptureError>) + Send + 'static,
    ) -> Result<Begun, BeginError> {
        if Mutant::ShowsCleared.is_made() {
            at_begin.cleared = [0; DATABASES];
        }
        if shown::Mutant::ImagesLackBranches.is_made() {
            at_begin.shown = Shown::default();
        }
        let words = WordSink { sink, at_begin };
        let begun = self.engine.snapshot(point, words, |words, captured| {
            publish(&mut words.sink, captured);
            Publication::Failed // every image is whole: none builds on it
        })?;
        // The image before is over, or this one would not have begun. An earlier check would miss
        // an end between the check and the begin.
        self.end_image();
        self.progress = self.engine.under_way();
        self.imaging = true;
        let ended = self.end_era();
        if self.algorithm().in_process {
            self.frozen = ended;
            self.captured = 0;
            self.limbo.begin(self.engine.words());
        }
        Ok(begun)
    }

    /// Begins an image of the words for other threads, at the instant of the view of this number.
    pub(crate) fn read_view(
        &mut self,
        point: Point,
        instant: u64,
        at: AtBegin,
        keys: [usize; DATABASES],
        wake: Wake,
    ) -> Result<ReadView<A>, ReadViewError> {
        let image = self.engine.begin(point, Unread::new(OnFull::Cancel))?;
        Ok(self.read_views.open::<A>(instant, image, at, keys, self.used, wake))
    }

    /// Notices the progress of the image and frees what it (M4), and what closed views no longer
    /// hold. O(1) when idle. True if more is left.
    pub(crate) fn tend(&mut self) -> bool {
        self.tend_image();
        while let Some(instant) = self.read_views.over() {
            self.history.close(instant);
        }
        self.read_views.tend(&mut self.reclaimer);
        self.history.tend(&mut self.reclaimer)
    }

    fn tend_image(&mut self) {
        if !self.imaging {
            return;
        }
        if !self.progress.running() {
            self.end_image();
        } else if self.frozen != 0 {
            self.captured = self.progress.captured_words();
            #[cfg(test)]
            self.limbo.release_wrongly(self.captured);
            let (views, reclaimer) = (&mut self.read_views, &mut self.reclaimer);
            self.limbo.release(self.captured, |released, bytes| {
                views.retire(reclaimer, released, bytes);
            });
        }
    }

    /// Frees what the image before had (M4): only the one begun just now is held.
    fn end_image(&mut self) {
        self.imaging = false;
        self.frozen = 0;
        let (views, reclaimer) = (&mut self.read_views, &mut self.reclaimer);
        self.limbo.end(|released, bytes| views.retire(reclaimer, released, bytes));
    }

    pub(crate) fn progress(&self) -> &Progress {
        &self.progress
    }

    /// Waits until no image is held.
    pub(crate) fn wait(&mut self) {
        self.engine.wait();
        self.tend_image();
    }
}

impl<A: Algorithm> Drop for Slots<A> {
    fn drop(&mut self) {
        self.progress.cancel();
        self.wait(); // M4: from here on no snapshotter reads entries
        self.read_views.clear(); // R4: nor does any other thread
        for slot in 0..self.used {
            let word = self.engine.read(slot);
            if word != 0 {
                self.engine.write(slot, 0);
                // SAFETY: M1: the slot owned it, and its word is gone; M2: no image is held.
                drop(unsafe { Owned::from_word(word) });
            }
        }
    }
}

/// A keyspace could not be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CreateError {
    /// More keys than slots can be numbered.
    #[error(
        "`max_keys` is {max_keys}, but slots are numbered in 32 bits: give at most {KEYS_MAX}, or \
         spread the keys over several keyspaces"
    )]
    TooManyKeys {
        /// The number asked for.
        max_keys: usize,
    },
    /// No memory for the slots.
    #[error("no memory for the slots of the keyspace: {0}")]
    Memory(#[from] MemoryError),
    /// No thread.
    #[error("the snapshotter thread could not be started: {0}")]
    Thread(#[source] io::Error),
}
