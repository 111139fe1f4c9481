//! Handles: numbers that name what is open, so that a wrong one gets an answer.
//!
//! ```text
//! bits 56 to 63   the kind: store, view, ...
//! bits 24 to 55   the generation of the slot, odd while something is open in it
//! bits  0 to 23   the slot
//! ```
//!
//! - A slot is never freed, so it can be looked at whatever the number. Its generation rises when
//!   it is filled and when it is emptied: a number names one thing for ever.
//! - One word of a slot, its *state*, has the generation, a bit for the thread that has the thing
//!   for itself, and how many threads share it. Each enters and leaves by one atomic operation.
//! - A slot holds two parts: `S` is shared, `X` belongs to the thread that took the bit. Both may
//!   be entered at once; a thing is removed only while nobody is inside.
//!
//! ```text
//! state:  generation (32) | exclusive (1) | threads that share (31)
//! ```

use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread::panicking;

use crate::door::{count_forks, forks};
use crate::error::{Failure, sf_code};

const SLOT_BITS: u32 = 24;
const KIND_SHIFT: u32 = 56;
const EXCLUSIVE: u64 = 1 << 31;
const GENERATION: u64 = !0 << 32;
const ONE_GENERATION: u64 = 1 << 32;
/// Slots of the first chunk; each further one has twice as many.
const FIRST_CHUNK: usize = 64;
const CHUNKS: usize = 18;

/// All things of a kind that are open in this process.
pub(crate) struct Table<S, X> {
    /// In the number of each handle; from 1, so that no handle is 0.
    kind: u8,
    /// For messages.
    name: &'static str,
    chunks: [Chunk<S, X>; CHUNKS],
    free: Mutex<Free>,
}

type Chunk<S, X> = OnceLock<Box<[Slot<S, X>]>>;

/// Slots without a thing.
struct Free {
    emptied: Vec<usize>,
    /// From here on none was ever used.
    fresh: usize,
}

struct Slot<S, X> {
    state: AtomicU64,
    is_poisoned: AtomicBool,
    /// The process that opened it; see [`forks`].
    forks: AtomicU32,
    shared: UnsafeCell<Option<S>>,
    exclusive: UnsafeCell<Option<X>>,
}

// SAFETY: `S` is reached by shared references from any thread, and `X` by one thread at a time: the
// one that took the bit of the state (acquire) and gives it back (release).
unsafe impl<S: Send + Sync, X: Send> Sync for Slot<S, X> {}
// SAFETY: a slot owns what it holds.
unsafe impl<S: Send, X: Send> Send for Slot<S, X> {}

impl<S, X> Slot<S, X> {
    fn empty() -> Self {
        Self {
            state: AtomicU64::new(0),
            is_poisoned: AtomicBool::new(false),
            forks: AtomicU32::new(0),
            shared: UnsafeCell::new(None),
            exclusive: UnsafeCell::new(None),
        }
    }
}

impl<S: Send + Sync, X: Send> Table<S, X> {
    pub(crate) const fn new(kind: u8, name: &'static str) -> Self {
        let free = Mutex::new(Free { emptied: Vec::new(), fresh: 0 });
        Self { kind, name, chunks: [const { OnceLock::new() }; CHUNKS], free }
    }

    /// Opens a thing, and returns its number.
    pub(crate) fn insert(&self, shared: S, exclusive: X) -> Result<u64, Failure> {
        count_forks();
        let index = self.take_free()?;
        let slot = self.slot(index).expect("a free slot is in a chunk");
        let generation = (slot.state.load(Ordering::Relaxed) >> 32) + 1;
        fill(slot, Parts { shared, exclusive });
        slot.is_poisoned.store(false, Ordering::Relaxed);
        slot.forks.store(forks(), Ordering::Relaxed);
        // Pairs with the acquire of those who enter.
        slot.state.store(generation << 32, Ordering::Release);
        Ok(u64::from(self.kind) << KIND_SHIFT | generation << SLOT_BITS | index as u64)
    }

    /// Shares what `id` names, with other threads and with one that has it for itself.
    #[inline]
    pub(crate) fn share(&self, id: u64) -> Result<Shared<'_, S, X>, Failure> {
        let (slot, open) = self.find(id)?;
        let mut state = slot.state.load(Ordering::Relaxed);
        loop {
            if state & GENERATION != open {
                return Err(self.unknown());
            }
            // The count has 31 bits, more than there are threads.
            match slot.state.compare_exchange_weak(
                state,
                state + 1,
                Ordering::Acquire,
                Ordering::Relaxed,
            ) {
                Ok(_) => break,
                Err(now) => state = now,
            }
        }
        let shared = Shared { slot };
        self.check_sound(slot)?;
        Ok(shared)
    }

    /// Takes what `id` names for this thread alone.
    #[inline]
    pub(crate) fn take(&self, id: u64) -> Result<Exclusive<'_, S, X>, Failure> {
        let (slot, open) = self.find(id)?;
        let mut state = slot.state.load(Ordering::Relaxed);
        loop {
            if state & GENERATION != open {
                return Err(self.unknown());
            }
            if state & EXCLUSIVE != 0 {
                return Err(self.busy());
            }
            match slot.state.compare_exchange_weak(
                state,
                state | EXCLUSIVE,
                Ordering::Acquire,
                Ordering::Relaxed,
            ) {
                Ok(_) => break,
                Err(now) => state = now,
            }
        }
        let taken = Exclusive { slot };
        self.check_sound(slot)?;
        Ok(taken)
    }

    /// Ends what `id` names, poisoned or not, if no thread is inside. Its number names nothing
    /// from now on.
    pub(crate) fn remove(&self, id: u64) -> Result<Parts<S, X>, Failure> {
        let (slot, open) = self.find(id)?;
        let parts = self.empty(slot, open)?;
        self.give_free(id, open);
        Ok(parts)
    }

    /// Ends what `id` names by `close`, if it is sound and no thread is inside. If that fails, `id`
    /// names it again; meanwhile it names nothing.
    pub(crate) fn remove_if(
        &self,
        id: u64,
        close: impl FnOnce(Parts<S, X>) -> Result<(), Kept<S, X>>,
    ) -> Result<(), Failure> {
        let (slot, open) = self.find(id)?;
        self.check_sound(slot)?;
        // After a panic of `close` the slot stays empty for ever.
        match close(self.empty(slot, open)?) {
            Ok(()) => {
                self.give_free(id, open);
                Ok(())
            }
            Err(Kept { parts, failure }) => {
                fill(slot, parts);
                slot.state.store(open, Ordering::Release);
                Err(failure)
            }
        }
    }

    /// Takes what is in a slot of the state `open`, if no thread is inside.
    fn empty(&self, slot: &Slot<S, X>, open: u64) -> Result<Parts<S, X>, Failure> {
        // Odd becomes even. Pairs with the release of those who left.
        let emptied = slot.state.compare_exchange(
            open,
            open + ONE_GENERATION,
            Ordering::Acquire,
            Ordering::Relaxed,
        );
        if let Err(now) = emptied {
            return Err(if now & GENERATION == open { self.busy() } else { self.unknown() });
        }
        // SAFETY: the state was that of a thing with nobody inside, and nobody enters an even one;
        // the slot is on no list of free ones yet.
        let shared = unsafe { (*slot.shared.get()).take() };
        // SAFETY: as above.
        let exclusive = unsafe { (*slot.exclusive.get()).take() };
        let shared = shared.expect("a slot of an odd generation is full");
        Ok(Parts { shared, exclusive: exclusive.expect("both parts are") })
    }

    fn give_free(&self, id: u64, open: u64) {
        // A slot that has had all generations is left alone: its numbers would come again.
        if open < GENERATION - 2 * ONE_GENERATION {
            self.free().emptied.push((id & ((1 << SLOT_BITS) - 1)) as usize);
        }
    }

    /// The slot that `id` means, and its state if that is open and nobody is inside.
    #[inline]
    fn find(&self, id: u64) -> Result<(&Slot<S, X>, u64), Failure> {
        let generation = id >> SLOT_BITS & 0xFFFF_FFFF;
        let is_ours = id >> KIND_SHIFT == u64::from(self.kind) && generation % 2 == 1;
        let index = (id & ((1 << SLOT_BITS) - 1)) as usize;
        let slot = if is_ours { self.slot(index) } else { None };
        let slot = slot.ok_or_else(|| self.unknown())?;
        if slot.forks.load(Ordering::Relaxed) != forks()
            && slot.state.load(Ordering::Relaxed) >> 32 == generation
        {
            return Err(self.inherited());
        }
        Ok((slot, generation << 32))
    }

    #[inline]
    fn slot(&self, index: usize) -> Option<&Slot<S, X>> {
        let chunk = (index / FIRST_CHUNK + 1).ilog2() as usize;
        let offset = index - FIRST_CHUNK * ((1 << chunk) - 1);
        self.chunks.get(chunk)?.get()?.get(offset)
    }

    fn take_free(&self) -> Result<usize, Failure> {
        let mut free = self.free();
        if let Some(index) = free.emptied.pop() {
            return Ok(index);
        }
        let index = free.fresh;
        let chunk = (index / FIRST_CHUNK + 1).ilog2() as usize;
        let Some(chunk_cell) = self.chunks.get(chunk) else {
            let message = format!("{index} handles of a {} are open", self.name);
            return Err(Failure::new(sf_code::SF_MEMORY, message));
        };
        chunk_cell.get_or_init(|| (0..FIRST_CHUNK << chunk).map(|_| Slot::empty()).collect());
        free.fresh += 1;
        Ok(index)
    }

    // A poisoned lock is taken anyway: each change is one step.
    fn free(&self) -> std::sync::MutexGuard<'_, Free> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[inline]
    fn check_sound(&self, slot: &Slot<S, X>) -> Result<(), Failure> {
        if slot.is_poisoned.load(Ordering::Relaxed) { Err(self.poisoned()) } else { Ok(()) }
    }

    #[cold]
    fn poisoned(&self) -> Failure {
        let message = format!(
            "an earlier call panicked within this {}; discard or close it, and open it again",
            self.name
        );
        Failure::new(sf_code::SF_POISONED, message)
    }

    #[cold]
    fn unknown(&self) -> Failure {
        let message = format!("no {} that is open has this handle", self.name);
        Failure::new(sf_code::SF_HANDLE, message)
    }

    #[cold]
    fn busy(&self) -> Failure {
        let message = format!("another thread uses this {}; one at a time may", self.name);
        Failure::new(sf_code::SF_BUSY, message)
    }

    #[cold]
    fn inherited(&self) -> Failure {
        let message = format!(
            "this process inherited the {} by fork, without its threads; open one of its own",
            self.name
        );
        Failure::new(sf_code::SF_FORKED, message)
    }
}

/// Fills an empty slot, which only this thread knows to be free.
fn fill<S, X>(slot: &Slot<S, X>, parts: Parts<S, X>) {
    // SAFETY: the slot is empty, so nobody enters it; it is on no list, so no other thread fills
    // it.
    unsafe { *slot.shared.get() = Some(parts.shared) };
    // SAFETY: as above.
    unsafe { *slot.exclusive.get() = Some(parts.exclusive) };
}

/// What is open.
pub(crate) struct Parts<S, X> {
    pub(crate) shared: S,
    pub(crate) exclusive: X,
}

/// What could not be closed, and why.
pub(crate) struct Kept<S, X> {
    pub(crate) parts: Parts<S, X>,
    pub(crate) failure: Failure,
}

/// A share of what is open.
pub(crate) struct Shared<'a, S, X> {
    slot: &'a Slot<S, X>,
}

impl<S, X> Shared<'_, S, X> {
    pub(crate) fn get(&self) -> &S {
        // SAFETY: the state counts this thread, so the slot stays full, and `S` is only shared.
        let shared = unsafe { &*self.slot.shared.get() };
        shared.as_ref().expect("what is entered is full")
    }
}

impl<S, X> Drop for Shared<'_, S, X> {
    #[inline]
    fn drop(&mut self) {
        poison_if_panicking(self.slot);
        self.slot.state.fetch_sub(1, Ordering::Release);
    }
}

/// What is open, for this thread alone.
pub(crate) struct Exclusive<'a, S, X> {
    slot: &'a Slot<S, X>,
}

impl<S, X> Exclusive<'_, S, X> {
    #[inline]
    pub(crate) fn get(&mut self) -> &mut X {
        // SAFETY: this thread took the bit of the state, so the slot stays full and no other thread
        // reaches `X`; the borrow of `self` keeps this one from reaching it twice.
        let exclusive = unsafe { &mut *self.slot.exclusive.get() };
        exclusive.as_mut().expect("what is entered is full")
    }
}

impl<S, X> Drop for Exclusive<'_, S, X> {
    #[inline]
    fn drop(&mut self) {
        poison_if_panicking(self.slot);
        self.slot.state.fetch_and(!EXCLUSIVE, Ordering::Release);
    }
}

#[inline]
fn poison_if_panicking<S, X>(slot: &Slot<S, X>) {
    if panicking() {
        slot.is_poisoned.store(true, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::Arc;
    use std::thread;

    use super::*;

    fn code<T>(result: Result<T, Failure>) -> sf_code {
        result.map_or_else(|failure| failure.code, |_| sf_code::SF_OK)
    }

    #[test]
    fn a_number_names_one_thing_for_ever() {
        let table: Table<u32, u32> = Table::new(3, "thing");
        let first = table.insert(1, 10).expect("room");
        assert_eq!(*table.share(first).expect("open").get(), 1);
        *table.take(first).expect("open").get() += 1;
        let Parts { shared, exclusive } = table.remove(first).expect("open");
        assert_eq!([shared, exclusive], [1, 11]);
        assert_eq!(code(table.remove(first)), sf_code::SF_HANDLE);
        let second = table.insert(2, 20).expect("room");
        assert_eq!(first & 0xFF_FFFF, second & 0xFF_FFFF, "the slot is used again");
        assert_eq!(code(table.share(first)), sf_code::SF_HANDLE);
        assert_eq!(code(table.take(first)), sf_code::SF_HANDLE);
        assert_eq!(*table.share(second).expect("open").get(), 2);
    }

    #[test]
    fn numbers_that_nothing_ever_had_are_refused() {
        let table: Table<(), ()> = Table::new(3, "thing");
        let id = table.insert((), ()).expect("room");
        let other = Table::<(), ()>::new(4, "other").insert((), ()).expect("room");
        let wrong = (0..64).map(|bit| id ^ 1 << bit).chain([0, 1, u64::MAX, other]);
        for wrong in wrong {
            assert_eq!(code(table.share(wrong)), sf_code::SF_HANDLE, "{wrong:x}");
            assert_eq!(code(table.take(wrong)), sf_code::SF_HANDLE, "{wrong:x}");
            assert_eq!(code(table.remove(wrong)), sf_code::SF_HANDLE, "{wrong:x}");
        }
        assert_eq!(code(table.share(id)), sf_code::SF_OK);
    }

    #[test]
    fn one_thread_takes_and_others_share_and_nobody_removes_meanwhile() {
        let table: Table<u32, u32> = Table::new(1, "thing");
        let id = table.insert(1, 10).expect("room");
        let taken = table.take(id).expect("open");
        assert_eq!(code(table.take(id)), sf_code::SF_BUSY);
        let shared = [table.share(id), table.share(id)];
        assert_eq!(code(table.remove(id)), sf_code::SF_BUSY);
        drop(taken);
        assert_eq!(code(table.remove(id)), sf_code::SF_BUSY);
        drop(shared);
        assert_eq!(code(table.remove(id)), sf_code::SF_OK);
    }

    #[test]
    fn a_panic_poisons_what_it_had_in_hand() {
        let table: Table<(), u32> = Table::new(1, "thing");
        let [id, other] = [1, 2].map(|value| table.insert((), value).expect("room"));
        let panics = || {
            let _taken = table.take(id);
            std::panic::resume_unwind(Box::new("half-way"));
        };
        catch_unwind(AssertUnwindSafe(panics)).expect_err("it panics");
        assert_eq!(code(table.take(id)), sf_code::SF_POISONED);
        assert_eq!(code(table.share(id)), sf_code::SF_POISONED);
        assert_eq!(code(table.take(other)), sf_code::SF_OK);
        assert_eq!(code(table.remove(id)), sf_code::SF_OK);
    }

    #[test]
    fn what_cannot_be_closed_keeps_its_number() {
        let table: Table<u32, u32> = Table::new(1, "thing");
        let id = table.insert(1, 10).expect("room");
        let failure = || Failure::argument("the disk is full");
        let refused = table.remove_if(id, |parts| {
            assert_eq!(code(table.share(id)), sf_code::SF_HANDLE);
            Err(Kept { parts, failure: failure() })
        });
        assert_eq!(code(refused), sf_code::SF_ARGUMENT);
        assert_eq!(*table.take(id).expect("open").get(), 10);
        table.remove_if(id, |_| Ok(())).expect("it closes");
        assert_eq!(code(table.take(id)), sf_code::SF_HANDLE);
    }

    #[test]
    fn thousands_are_open_at_once() {
        let table: Table<usize, ()> = Table::new(1, "thing");
        const THINGS: usize = if cfg!(miri) { 200 } else { 5000 };
        let ids: Vec<u64> = (0..THINGS).map(|n| table.insert(n, ()).expect("room")).collect();
        for (n, &id) in ids.iter().enumerate() {
            assert_eq!(*table.share(id).expect("open").get(), n);
        }
    }

    #[test]
    fn threads_that_race_lose_no_update_and_meet_no_closed_thing() {
        const ROUNDS: u64 = if cfg!(miri) { 50 } else { 20_000 };
        let table: Arc<Table<u64, u64>> = Arc::new(Table::new(1, "thing"));
        let id = table.insert(7, 0).expect("room");
        let threads: Vec<_> = (0..3)
            .map(|_| {
                let table = Arc::clone(&table);
                thread::spawn(move || {
                    let mut done = 0;
                    while done < ROUNDS {
                        assert_eq!(*table.share(id).expect("open").get(), 7);
                        if let Ok(mut taken) = table.take(id) {
                            *taken.get() += 1;
                            done += 1;
                        }
                        let mine = table.insert(done, done).expect("room");
                        assert_eq!(*table.share(mine).expect("open").get(), done);
                        assert_eq!(table.remove(mine).expect("open").exclusive, done);
                        assert_eq!(code(table.take(mine)), sf_code::SF_HANDLE);
                    }
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().expect("it ends"));
        assert_eq!(table.remove(id).expect("open").exclusive, 3 * ROUNDS);
    }
}
