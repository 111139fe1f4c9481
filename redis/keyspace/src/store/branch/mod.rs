//! Branches: writable copies of what a view sees.
//!
//! A branch keeps what it has changed, and looks into its view for everything else: making one
//! copies nothing, and it pays for what is written. It is no keyspace. What works on keys runs on a
//! *bench*, a small keyspace that serves many branches: the keys that a request names are
//! [laid](Branch::lay) there and [taken back](Branch::take_back) when it is done. Large values are
//! shared with the view until they are changed, and then node by node.
//!
//! Invariants
//! - B1: a key that the branch has changed is kept: with its entry, or, if it is gone though the
//!   view has it, with a *mark*, an entry that has always been expired. Any other key is as the
//!   view has it, or absent in a database that was emptied.
//! - B2: between two requests the bench is bare. Its databases lie in the spaces of the branch
//!   whose keys are laid.
//! - B3: a key that is kept keeps its number. So a walk meets each key that is there throughout
//!   exactly once: in the view if that has it, and only else by its number.
//! - B4: `hidden` counts the keys kept that the view has, `marks` those of them that are gone.

pub(crate) mod mutants;

use std::cell::Cell;

use stillframe::{Algorithm, MemoryError};

use super::Keyspace;
use super::cursor::Cursor;
use super::lookup::Lookup;
use super::view::View;
use crate::DATABASES;
use crate::memory::chunks::Stack;
use crate::memory::entry::{Birth, Entry, New, Owned};
use crate::memory::index::below;
use crate::memory::kept::{Item, Kept};
use crate::memory::spaces::Spaces;
use mutants::Mutant;

/// The deadline of a mark.
const GONE: i64 = i64::MIN;
/// Choices of a random key before a walk looks for one.
const TRIES: usize = 100;
/// What is dropped at once; more goes to another thread.
const DROPPED_MAX: usize = 256;

/// See the head of this file. A branch belongs to one view: every call gets the same.
pub struct Branch {
    /// By space.
    layers: [Layer; DATABASES],
    spaces: Spaces,
    /// Where the keys that are laid came from, in their order.
    laid: Vec<Laid>,
}

/// What a branch has of one database.
struct Layer {
    /// The database of the view that shows through, unless this one was emptied.
    below: Option<usize>,
    kept: Kept,
    /// Numbers below have been handed out.
    used: u32,
    free: Stack,
    hidden: usize,
    marks: usize,
}

/// Where a key on the bench came from.
#[derive(Clone, Copy)]
enum Laid {
    /// From nowhere: there is none.
    Absent,
    /// The view.
    View,
    /// The branch, where it has this number.
    Own(u32),
    /// There is none, and the branch has a mark of this number.
    Mark(u32),
    /// It was laid before.
    Again,
}

/// What became of a key in a branch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// The view has no such key.
    Created,
    /// It was written.
    Changed,
    /// The view has the key, and the branch has none.
    Deleted,
}

/// How many keys of a database a branch has changed. A key that has expired counts as what it was.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Changes {
    /// Keys that the view does not have.
    pub created: usize,
    /// Keys that were written.
    pub changed: usize,
    /// Keys that are gone.
    pub deleted: usize,
    /// The database was emptied: what the view has does not show through any more.
    pub emptied: bool,
}

impl Default for Branch {
    /// A branch that has changed nothing.
    fn default() -> Self {
        let layers = std::array::from_fn(|space| Layer { below: Some(space), ..Layer::default() });
        Self { layers, spaces: Spaces::default(), laid: Vec::new() }
    }
}

impl Default for Layer {
    fn default() -> Self {
        let (kept, free) = (Kept::default(), Stack::default());
        Self { below: None, kept, used: 0, free, hidden: 0, marks: 0 }
    }
}

impl Layer {
    /// What the view has of a key with this hash.
    fn held<'a, A: Algorithm>(
        &self,
        view: &View<'a, A>,
        hash: u64,
        key: &[u8],
    ) -> Option<&'a Entry> {
        if Mutant::ReadsThePresent.is_made() {
            return view.present(self.below?, hash, key);
        }
        view.held(self.below?, hash, key)
    }

    fn add(&mut self, hash: u64, item: Item) {
        let number = self.free.pop().unwrap_or_else(|| {
            self.used += 1;
            self.used - 1
        });
        self.kept.insert(hash, number, item);
    }

    fn remove(&mut self, hash: u64, number: u32) {
        self.kept.lift(number);
        self.kept.forget(hash, number);
        self.free.push(number);
    }

    /// Puts a mark under the number of an entry that was lifted.
    fn mark(&mut self, number: u32, mark: Item) {
        self.kept.put(number, mark);
        self.marks += 1;
    }

    /// Keeps what has become of a key that was laid.
    fn keep<A: Algorithm>(
        &mut self,
        view: &View<'_, A>,
        laid: Laid,
        space: usize,
        hash: u64,
        key: &[u8],
        after: Option<Item>,
    ) {
        let held = self.held(view, hash, key);
        let mark = || {
            let entry = Owned::new(Birth { era: 0, space }, key, New::Int(0), GONE, 0);
            Item { bytes: entry.entry().bytes(), entry }
        };
        match (laid, after) {
            (Laid::Again, _) | (Laid::Absent | Laid::Mark(_), None) => {}
            (Laid::View, Some(after)) => {
                let is_unchanged = held.is_some_and(|it| it.is_unchanged(after.entry.entry()));
                if !is_unchanged && !Mutant::LosesTheFirstChange.is_made() {
                    self.add(hash, after);
                    self.hidden += 1;
                }
            }
            (Laid::View, None) => {
                if !Mutant::ForgetsDeletions.is_made() {
                    self.add(hash, mark());
                    self.hidden += 1;
                    self.marks += 1;
                }
            }
            (Laid::Own(number), Some(after)) => self.kept.put(number, after),
            (Laid::Own(number), None) => {
                if held.is_some() && !Mutant::ShowsTheViewAgain.is_made() {
                    self.mark(number, mark());
                } else {
                    self.hidden -= usize::from(held.is_some());
                    self.remove(hash, number);
                }
            }
            (Laid::Mark(number), Some(after)) => {
                self.kept.lift(number);
                self.kept.put(number, after);
                self.marks -= 1;
            }
            // The view may have a key that had expired when it was laid.
            (Laid::Absent, Some(after)) => {
                self.hidden += usize::from(held.is_some());
                self.add(hash, after);
            }
        }
    }

    fn copied(&self, hash: impl Fn(&[u8]) -> u64) -> Self {
        let mut copy = Self { used: self.used, ..Self::default() };
        (copy.below, copy.hidden, copy.marks) = (self.below, self.hidden, self.marks);
        for number in self.kept.numbers().iter() {
            let Some(Item { entry, bytes }) = self.kept.item(number) else { continue };
            let item = Item { entry: entry.entry().copy(), bytes: *bytes };
            copy.kept.insert(hash(entry.entry().key()), number, item);
        }
        (0..self.free.len()).for_each(|at| copy.free.push(self.free.get(at)));
        copy
    }
}

impl Branch {
    /// Lays keys of databases on the bench as they are in the branch at `now`, to be read and
    /// written there by code that knows nothing of branches. What it writes must be among these
    /// keys.
    ///
    /// # Errors
    /// [`MemoryError`] when the bench has no room; then nothing is laid.
    pub fn lay<A: Algorithm>(
        &mut self,
        view: &View<'_, A>,
        bench: &mut Keyspace<A>,
        keys: &[(usize, &[u8])],
        now: i64,
    ) -> Result<(), MemoryError> {
        debug_assert!(self.laid.is_empty() && bench.is_bare(), "B2");
        bench.spaces = self.spaces.clone();
        for &(db, key) in keys {
            match self.lay_one(view, bench, db, key, now) {
                Ok(laid) => self.laid.push(laid),
                Err(error) => {
                    self.take_back(view, bench, keys);
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    fn lay_one<A: Algorithm>(
        &mut self,
        view: &View<'_, A>,
        bench: &mut Keyspace<A>,
        db: usize,
        key: &[u8],
        now: i64,
    ) -> Result<Laid, MemoryError> {
        let (space, hash) = (self.spaces.of_db(db), bench.hash(key));
        let layer = &mut self.layers[space];
        if bench.slots.find(&bench.dbs[db].index, hash, key).is_some() {
            return Ok(Laid::Again);
        }
        let Some(number) = layer.kept.find(hash, space, key) else {
            let held = layer.held(view, hash, key).filter(|entry| !entry.is_expired(now));
            let Some(entry) = held else { return Ok(Laid::Absent) };
            let copy = entry.copy_born(bench.birth(db));
            bench.slots.provide()?;
            bench.lay(db, hash, copy, entry.outside_bytes());
            return Ok(Laid::View);
        };
        if layer.kept.entry(number).is_some_and(|entry| entry.deadline() == GONE) {
            return Ok(Laid::Mark(number));
        }
        // What was lifted is owned by nobody else: nothing may fail from there on.
        bench.slots.provide()?;
        if let Some(Item { entry, bytes }) = layer.kept.lift(number) {
            let shared_bytes = entry.entry().bytes().saturating_sub(bytes);
            bench.lay(db, hash, entry, shared_bytes);
        }
        Ok(Laid::Own(number))
    }

    /// Takes back the keys that were laid last, as they are on the bench now.
    pub fn take_back<A: Algorithm>(
        &mut self,
        view: &View<'_, A>,
        bench: &mut Keyspace<A>,
        keys: &[(usize, &[u8])],
    ) {
        let mut laid = std::mem::take(&mut self.laid);
        for (laid, &(db, key)) in laid.drain(..).zip(keys) {
            let (space, hash) = (self.spaces.of_db(db), bench.hash(key));
            let after = match laid {
                Laid::Again => None,
                _ => bench.take(db, hash, key),
            };
            self.layers[space].keep(view, laid, space, hash, key, after);
        }
        self.laid = laid;
        if !bench.is_bare() {
            debug_assert!(false, "keys were written that nobody named (B2)");
            bench.clear_all();
        }
        bench.tend();
    }

    /// The entry of a key, unless it has expired.
    #[must_use]
    pub fn get<'b, A: Algorithm>(
        &'b self,
        view: &View<'b, A>,
        db: usize,
        key: &[u8],
        now: i64,
    ) -> Option<&'b Entry> {
        let space = self.spaces.of_db(db);
        let found = self.find(view, space, view.hash(key), key);
        found.filter(|entry| !entry.is_expired(now))
    }

    /// The entry of a key, or its mark.
    fn find<'b, A: Algorithm>(
        &'b self,
        view: &View<'b, A>,
        space: usize,
        hash: u64,
        key: &[u8],
    ) -> Option<&'b Entry> {
        let layer = &self.layers[space];
        let own = layer.kept.find(hash, space, key).and_then(|number| layer.kept.entry(number));
        own.or_else(|| layer.held(view, hash, key))
    }

    /// Keys of a database, including expired ones that nothing has met.
    #[must_use]
    pub fn len<A: Algorithm>(&self, view: &View<'_, A>, db: usize) -> usize {
        let Layer { below, kept, hidden, marks, .. } = &self.layers[self.spaces.of_db(db)];
        let held = below.map_or(0, |below| view.len(below));
        held - hidden + kept.len() - marks
    }

    /// Calls `f` for the next keys of `db` from `cursor` on (0 to begin), `budget` at most, and
    /// returns the next cursor, 0 at the end. A step may find none and not be the last. A walk
    /// meets a key that is there from the first call to the last exactly once, whatever is written
    /// meanwhile.
    pub fn scan<A: Algorithm>(
        &self,
        view: &View<'_, A>,
        db: usize,
        cursor: u64,
        budget: usize,
        now: i64,
        mut f: impl FnMut(&Entry),
    ) -> u64 {
        let space = self.spaces.of_db(db);
        let layer = &self.layers[space];
        let left = Cell::new(budget.max(1));
        let mut show = |entry: &Entry| {
            let is_there = !entry.is_expired(now);
            if is_there {
                f(entry);
                left.set(left.get() - 1);
            }
            is_there
        };
        // Cursors of the view are numbers of slots; those behind are longer.
        let mut next = cursor;
        if u32::try_from(next).is_ok() {
            let in_view = layer.below.map_or(0, |below| {
                view.walk(below, next, budget, |entry| {
                    let hash = view.hash(entry.key());
                    self.find(view, space, hash, entry.key()).is_some_and(&mut show)
                })
            });
            if in_view != 0 || Mutant::MeetsNoCreated.is_made() {
                return in_view;
            }
            next = Cursor::read(0, layer.used as usize, false).write();
        }
        if left.get() == 0 || next == 0 {
            return next;
        }
        layer.walk(next, left.get(), |entry| {
            let is_met = layer.held(view, view.hash(entry.key()), entry.key()).is_some();
            (!is_met || Mutant::MeetsChangedTwice.is_made()) && show(entry)
        })
    }

    /// Calls `f` for every key of `db`, in no order.
    pub fn for_each<A: Algorithm>(
        &self,
        view: &View<'_, A>,
        db: usize,
        now: i64,
        mut f: impl FnMut(&Entry),
    ) {
        let mut cursor = 0;
        loop {
            cursor = self.scan(view, db, cursor, usize::MAX, now, &mut f);
            if cursor == 0 {
                return;
            }
        }
    }

    /// A key of `db` chosen by `random`, which yields 64 random bits a call.
    pub fn random<'b, A: Algorithm>(
        &'b self,
        view: &View<'b, A>,
        db: usize,
        now: i64,
        random: &mut impl FnMut() -> u64,
    ) -> Option<&'b Entry> {
        let space = self.spaces.of_db(db);
        let layer = &self.layers[space];
        let held = layer.below.map_or(0, |below| view.len(below));
        for _ in 0..TRIES {
            let is_own = below(random(), held + layer.kept.len()) >= held;
            let found = if is_own {
                layer.kept.random(random)
            } else {
                let found = layer.below.and_then(|below| view.random(below, random));
                let is_kept = |key| layer.kept.find(view.hash(key), space, key).is_some();
                found.filter(|entry| !is_kept(entry.key()))
            };
            if let Some(entry) = found.filter(|entry| !entry.is_expired(now)) {
                return Some(entry);
            }
        }
        let mut key = None;
        self.for_each(view, db, now, |entry| {
            key.get_or_insert_with(|| entry.key().to_vec());
        });
        self.get(view, db, &key?, now)
    }

    /// Deletes every key of a database. `bench` drops what was kept.
    pub fn clear<A: Algorithm>(&mut self, db: usize, bench: &mut Keyspace<A>) {
        let layer = &mut self.layers[self.spaces.of_db(db)];
        let below = if Mutant::ClearsOwnAlone.is_made() { layer.below } else { None };
        let Layer { kept, .. } = std::mem::replace(layer, Layer { below, ..Layer::default() });
        drop_kept(kept, bench);
    }

    /// Swaps two databases, in O(1).
    pub fn swap(&mut self, a: usize, b: usize) {
        self.spaces.swap(a, b);
    }

    /// Ends the branch; `bench` drops what was kept, on another thread if it is much.
    pub fn close<A: Algorithm>(self, bench: &mut Keyspace<A>) {
        self.layers.into_iter().for_each(|layer| drop_kept(layer.kept, bench));
    }

    /// A branch that begins as this one is, of the same view. It costs what was changed, but shares
    /// large values.
    #[must_use]
    pub fn copied<A: Algorithm>(&self, view: &View<'_, A>) -> Self {
        let layers = std::array::from_fn(|space| self.layers[space].copied(|key| view.hash(key)));
        Self { layers, spaces: self.spaces.clone(), laid: Vec::new() }
    }

    /// Bytes that it holds beside its view.
    #[must_use]
    pub fn bytes(&self) -> usize {
        size_of::<Self>() + self.layers.iter().map(|layer| layer.kept.bytes()).sum::<usize>()
    }

    /// How many keys of a database were changed.
    #[must_use]
    pub fn changes(&self, db: usize) -> Changes {
        let Layer { below, kept, hidden, marks, .. } = &self.layers[self.spaces.of_db(db)];
        let (created, changed) = (kept.len() - hidden, hidden - marks);
        Changes { created, changed, deleted: *marks, emptied: below.is_none() }
    }

    /// As [`scan`](Self::scan), over the keys that were changed.
    pub fn scan_changes<A: Algorithm>(
        &self,
        view: &View<'_, A>,
        db: usize,
        cursor: u64,
        budget: usize,
        now: i64,
        mut f: impl FnMut(Change, &Entry),
    ) -> u64 {
        let layer = &self.layers[self.spaces.of_db(db)];
        layer.walk(cursor, budget, |entry| {
            let is_held = layer.held(view, view.hash(entry.key()), entry.key()).is_some();
            let change = match (is_held, !entry.is_expired(now)) {
                (true, true) => Change::Changed,
                (true, false) => Change::Deleted,
                (false, true) => Change::Created,
                (false, false) => return false,
            };
            f(change, entry);
            true
        })
    }
}

impl Layer {
    /// Calls `f` for the next of what is kept, `budget` times at most.
    fn walk(&self, cursor: u64, budget: usize, mut f: impl FnMut(&Entry) -> bool) -> u64 {
        let mut cursor = Cursor::read(cursor, self.used as usize, false);
        let mut left = budget.max(1);
        while let Some(number) = self.kept.numbers().next(cursor.next)
            && (number as usize) < cursor.end()
        {
            cursor = cursor.at(number as usize);
            if left == 0 {
                return cursor.write();
            }
            cursor = cursor.at(number as usize + 1);
            left -= usize::from(self.kept.entry(number).is_some_and(&mut f));
        }
        0
    }
}

fn drop_kept<A: Algorithm>(kept: Kept, bench: &mut Keyspace<A>) {
    if kept.len() > DROPPED_MAX {
        let bytes = kept.bytes();
        bench.slots.reclaimer().drop_later(kept, bytes);
    }
}

impl<A: Algorithm> Keyspace<A> {
    fn is_bare(&self) -> bool {
        (0..DATABASES).all(|db| self.is_empty(db))
    }

    /// Puts an entry on this bench that shares so many bytes with one elsewhere. A slot was
    /// provided.
    fn lay(&mut self, db: usize, hash: u64, entry: Owned, shared_bytes: usize) {
        let put = self.put_entry(db, Lookup { hash, seat: None }, entry);
        self.slots.share(put.expect("a slot is free"), shared_bytes);
    }

    /// Takes an entry from this bench.
    fn take(&mut self, db: usize, hash: u64, key: &[u8]) -> Option<Item> {
        let seat = self.slots.find(&self.dbs[db].index, hash, key)?;
        self.unlist(seat.slot, hash);
        let (entry, shared_bytes) = self.slots.take(seat.slot);
        let bytes = entry.entry().bytes().saturating_sub(shared_bytes);
        Some(Item { entry, bytes })
    }
}

#[cfg(test)]
mod tests {
    use super::Branch;
    use crate::Expire;
    use crate::store::tests::keyspace;

    #[test]
    fn keys_that_find_no_room_on_the_bench_leave_it_bare() {
        let mut keyspace = keyspace();
        let keys: [(usize, &[u8]); 3] = [(0, b"a"), (0, b"b"), (1, b"c")];
        keys.iter().for_each(|(db, key)| keyspace.set(*db, key, b"v", Expire::Never).unwrap());
        keyspace.open_view(1, 0);
        let (view, mut bench) = (keyspace.view(1).unwrap(), keyspace.relative(2).unwrap());
        let mut branch = Branch::default();
        for _ in 0..2 {
            assert!(branch.lay(&view, &mut bench, &keys, 0).is_err());
            assert!(bench.is_bare());
        }
        branch.lay(&view, &mut bench, &keys[..2], 0).unwrap();
        assert_eq!(bench.len(0), 2);
        branch.take_back(&view, &mut bench, &keys[..2]);
        let lens = [0, 1].map(|db| branch.len(&view, db));
        assert_eq!(lens, [2, 1], "nothing was changed");
    }
}
