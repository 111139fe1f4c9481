//! The walk over the state, the pool of clones it consumes, and the queue it fills.

use std::sync::PoisonError;

use crate::budget::budget_for;
use crate::error::MemoryError;
use crate::handover::Handover;
use crate::memory::Words;
use crate::mutant::Mutant;
use crate::options::Options;
use crate::sink::BLOCK_WORDS;
use crate::sync::{AtomicUsize, Mutex, MutexGuard, Ordering};

/// Blocks that the queue holds.
pub(super) const QUEUE_BLOCKS: usize = if BLOCK_WORDS == 512 { 64 } else { 2 };
/// Bits of a stamp with the clone's position in the pool; those above hold the image.
pub(super) const SLOT_BITS: u32 = 24;

/// What the writer and the capture share.
#[derive(Debug)]
pub(super) struct SharedWalk {
    pub(super) walk: Mutex<Walk>,
    /// Blocks of the image under way that were put into the queue.
    pub(super) handed: AtomicUsize,
    /// Block `b` lies at position `b % QUEUE_BLOCKS`.
    pub(super) queue: Words,
    /// 1 when the state was dropped.
    pub(super) deserted: AtomicUsize,
}

/// The walk over the state as it was at begin.
#[derive(Debug)]
pub(super) struct Walk {
    pub(super) words: Words,
    pub(super) stamps: Words,
    pub(super) pool: Pool,
    pub(super) mark: u64,
    /// The next block.
    pub(super) next: usize,
}

/// Clones of units.
#[derive(Debug)]
pub(super) struct Pool {
    pub(super) words: Words,
    pub(super) shift: u32,
    /// See [`Options::budget_bytes`].
    budget: Option<usize>,
    /// Slots never used by this image start here.
    fresh: u64,
    /// Plus one, the slot freed last, which holds the same of the one before; 0 ends the list.
    freed: u64,
    /// Slots in use.
    pub(super) used: u64,
}

/// Words of the pool beside a state of `words` words: whole slots.
fn room(budget: Option<usize>, words: usize, shift: u32) -> usize {
    ((budget_for(budget, words) / 8) >> shift).min(1 << SLOT_BITS) << shift
}

impl Pool {
    pub(super) fn create(options: &Options, shift: u32) -> Result<Self, MemoryError> {
        let budget = options.budget_bytes;
        let room = options.resized(|words| room(budget, words, shift)).prefault(false);
        let words = Words::create(&room)?;
        Ok(Self { words, shift, budget, fresh: 0, freed: 0, used: 0 })
    }
    /// Frees all slots, for an image of this many words. Returns the words of all slots.
    pub(super) fn reset(&mut self, words: usize) -> usize {
        // What the system refuses is not used: the budget is then what there was.
        let _ = self.words.grow(room(self.budget, words, self.shift));
        (self.fresh, self.freed, self.used) = (0, 0, 0);
        self.words.len()
    }
    pub(super) fn at(&self, slot: u64) -> usize {
        (slot as usize) << self.shift
    }
    fn take(&mut self) -> Option<u64> {
        let slot = if self.freed > 0 {
            let slot = self.freed - 1;
            self.freed = self.words.load(self.at(slot));
            slot
        } else if self.fresh < (self.words.len() >> self.shift) as u64 {
            self.fresh += 1;
            self.fresh - 1
        } else {
            return None;
        };
        self.used += 1;
        Some(slot)
    }
    fn free(&mut self, slot: u64) {
        self.words.store(self.at(slot), self.freed);
        self.freed = slot + 1;
        self.used -= 1;
    }
}

impl Walk {
    pub(super) fn blocks(&self) -> usize {
        self.words.len().div_ceil(BLOCK_WORDS)
    }

    /// Clones a unit that is ahead of the walk, unless the pool is full.
    pub(super) fn clone_unit(&mut self, unit: usize) -> bool {
        let start = unit << self.pool.shift;
        if start >= self.words.len() {
            return true; // added after begin
        }
        let Some(slot) = self.pool.take() else { return false };
        let len = (self.words.len() - start).min(1 << self.pool.shift);
        self.pool.words.copy_from(self.pool.at(slot), &self.words, start, len);
        self.stamps.store(unit, self.mark | slot);
        true
    }

    /// Puts up to `most` blocks into the queue. Returns how many there was room for.
    pub(super) fn advance(
        &mut self,
        most: usize,
        shared: &SharedWalk,
        handover: &Handover,
    ) -> usize {
        // Acquire in `captured`: the capture has read what lies in the positions up to there (V3).
        let captured = handover.captured().div_ceil(BLOCK_WORDS);
        let mut end = self.blocks().min(captured + QUEUE_BLOCKS);
        if handover.is(Mutant::ValkeyOverrunsQueue) {
            end = self.blocks();
        }
        let end = end.min(self.next + most);
        let count = end.saturating_sub(self.next);
        for _ in 0..count {
            self.hand_over(shared, handover);
        }
        count
    }

    /// Puts the next block into the queue.
    fn hand_over(&mut self, shared: &SharedWalk, handover: &Handover) {
        let (start, shift) = (self.next * BLOCK_WORDS, self.pool.shift);
        let end = self.words.len().min(start + BLOCK_WORDS);
        let position = self.next % QUEUE_BLOCKS * BLOCK_WORDS;
        shared.queue.copy_from(position, &self.words, start, end - start);
        let first = start >> shift;
        let mut stamps = [0; BLOCK_WORDS];
        let stamps = &mut stamps[..end.div_ceil(1 << shift) - first];
        self.stamps.copy_to(first, stamps);
        for (unit, &stamp) in (first..).zip(&*stamps) {
            if stamp < self.mark {
                continue;
            }
            let (slot, at) = (stamp - self.mark, unit << shift);
            if !handover.is(Mutant::ValkeyForgetsClone) {
                let len = (end - at).min(1 << shift);
                let clone = self.pool.at(slot);
                shared.queue.copy_from(position + at - start, &self.pool.words, clone, len);
            }
            self.pool.free(slot);
        }
        self.next += 1;
        let relaxed = handover.is(Mutant::ValkeyRelaxedHandOver);
        let order = if relaxed { Ordering::Relaxed } else { Ordering::Release };
        shared.handed.store(self.next, order); // partner: `View::block`
    }
}

impl SharedWalk {
    // A poisoned lock is taken anyway: nothing that can panic is done while it is held.
    pub(super) fn lock(&self) -> MutexGuard<'_, Walk> {
        self.walk.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
