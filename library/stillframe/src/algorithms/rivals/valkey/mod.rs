//! Valkey's shape: the writer's own thread walks the state. Source: Valkey's forkless save (2026),
//! from its public description; the bounds and the code are ours.
//!
//! Idea: each unit carries the number of the image it was last saved for. The writer's thread walks
//! the state in slices ([`Algorithm::tend`]) and hands blocks to one background serialiser, the
//! capture, through a bounded queue. A write to a unit that the walk has not reached saves it
//! first: it clones the old unit into a bounded pool, from which the walk puts it into its block.
//! If the pool is full the writer walks, and waits for the serialiser.
//!
//! - Memory: 1 copy, 8 bytes a unit, the queue (256 KiB), and a pool of at most the budget for
//!   clones whose turn has not come. Begin: O(1). Read: nothing. Full image.
//! - Write: a compare and a load; on first touch ahead of the walk a lock that nobody contends for,
//!   and a clone. Beside that the writer's thread copies the whole state, a slice at a time.
//! - Unit: word, line or page.
//! - V1: the walk, the pool and the stamps belong to the holder of the lock of `Walk`.
//! - V2: a unit ahead of the walk is live or, if its stamp is of this image, in the pool; a block
//!   behind the walk is in the queue until the capture has pushed it.
//! - V3: the capture reads the queue alone. `handed` (Release, Acquire) orders a block's words
//!   before its reading; the progress of the hand-over orders the reading before the place is used
//!   again.
//! - V4: a unit's stamp, once of this image, stays; the walk only goes on. So what the writer knows
//!   without the lock may be old, never wrong.
//!
//! **Who walks.** The holder of the lock, which must be the writer's thread, or this would be
//! another algorithm: an image captured by another thread makes no progress while the writer does
//! not tend. In two cases no thread tends and the capture walks itself: it runs on the thread
//! that began the image (were the state moved to yet another thread, the lock would keep V1), or
//! the state was dropped. A write does no slice: like Valkey's it pays for its own unit alone, and
//! slices belong into the idle time between actions.
//!
//! The cases for a first write ahead of the walk: there is a clone before the new word is stored,
//! by the same thread, so the walk finds it (V2). Behind the walk: the block was copied before.
//! Given up (over its budget, cancelled): the writer learns or decides it under the lock, so a
//! thread that later reads an unsaved word under the lock finds the stop when it looks afterwards.
//!
//! Deviations from Valkey: its file takes keys in any order, so a key saved early leaves the pool
//! (1 MiB, small strings only) at once, and other writers wait for the serialiser. A sink takes
//! blocks in order, so a clone waits in the pool for its block's turn; the pool is therefore as
//! large as every algorithm's budget, and `Options::budget` sets Valkey's figure where it is
//! wanted.

use std::sync::Arc;

use crate::algorithm::{Algorithm, New, write_by_replace};
use crate::budget::OnFull;
use crate::error::{BeginError, MemoryError};
use crate::handover::{Handover, Progress, Waiting};
use crate::image::{Held, InProcess, Lease, View};
use crate::info::Info;
use crate::memory::Words;
use crate::mutant::Mutant;
use crate::options::Options;
use crate::os::Shared;
use crate::point::Point;
use crate::sink::{BLOCK_WORDS, Sink};
use crate::sync::{AtomicUsize, Backoff, Mutex, Ordering, thread};

mod walk;

use walk::{Pool, QUEUE_BLOCKS, SLOT_BITS, SharedWalk, Walk};

/// Blocks in a slice of the walk: some microseconds.
const SLICE_BLOCKS: usize = if BLOCK_WORDS == 512 { 4 } else { 1 };
/// Pool that stays with the process between images, in words (1 MiB).
const KEPT_WORDS: usize = 1 << 17;

/// State words whose images the writer's thread walks for.
#[derive(Debug)]
pub struct Valkey {
    words: Words,
    /// A unit's last image and, ahead of the walk, the place of its clone.
    stamps: Words,
    shared: Arc<SharedWalk>,
    handover: Shared<Handover>,
    on_full: OnFull,
    /// A unit is `1 << shift` words.
    shift: u32,
    /// Whether a write may have to save its unit.
    active: bool,
    /// Stamps of the image under way are not below.
    mark: u64,
    /// Blocks below are walked, for all the writer knows.
    walked: usize,
    /// Blocks of the image under way; those beyond were added later.
    blocks: usize,
}

// SAFETY: the conformance suite proves it.
unsafe impl Algorithm for Valkey {
    type Image<S: Sink + 'static> = InProcess<S, Serialiser>;
    const INFO: Info = Self::REGISTERED;

    fn create(options: &Options) -> Result<Self, MemoryError> {
        let shift = Self::INFO.unit(options.unit).words().trailing_zeros();
        let stamps = options.resized(|words| words.div_ceil(1 << shift));
        let queue = Options::words(QUEUE_BLOCKS * BLOCK_WORDS).prefault(options.prefault);
        let (words, stamps) = (Words::create(options)?, Words::create(&stamps)?);
        let (views, pool) = ((words.view(), stamps.view()), Pool::create(options, shift)?);
        let walk = Walk { words: views.0, stamps: views.1, pool, mark: 0, next: 0 };
        let shared = SharedWalk {
            walk: Mutex::new(walk),
            handed: AtomicUsize::new(0),
            queue: Words::create(&queue)?,
            deserted: AtomicUsize::new(0),
        };
        Ok(Self {
            words,
            stamps,
            shared: Arc::new(shared),
            handover: Shared::new(Handover::new())?,
            on_full: options.on_full,
            shift,
            active: false,
            mark: 0,
            walked: 0,
            blocks: 0,
        })
    }

    fn words(&self) -> usize {
        self.words.len()
    }

    fn grow(&mut self, words: usize) -> Result<(), MemoryError> {
        self.stamps.grow(words.div_ceil(1 << self.shift))?;
        self.words.grow(words)
    }

    #[inline]
    fn read(&self, index: usize) -> u64 {
        self.words.load(index)
    }

    write_by_replace!();

    #[inline]
    fn approach(&self, index: usize) {
        self.words.prefetch(index);
        if self.active {
            self.stamps.prefetch(index >> self.shift);
        }
    }

    fn begin<S: Sink + 'static>(
        &mut self,
        _point: Point,
        sink: S,
    ) -> Result<InProcess<S, Serialiser>, BeginError> {
        self.handover.check_idle()?;
        self.mark += 1 << SLOT_BITS;
        if self.handover.is(Mutant::ValkeyStampsWrap) {
            self.mark &= (1 << (SLOT_BITS + 16)) - 1;
        }
        self.walked = 0;
        self.active = true;
        let mut walk = self.shared.lock();
        walk.words = self.words.view();
        walk.stamps = self.stamps.view();
        let room = walk.pool.reset(self.words.len());
        self.handover.set_arena_room(room);
        walk.mark = self.mark;
        walk.next = 0;
        self.blocks = walk.blocks();
        drop(walk);
        self.shared.handed.store(0, Ordering::Relaxed); // nobody captures; edge 1 publishes it
        let lease = Lease::publish(&self.handover, self.words.len());
        let serialiser = Serialiser {
            shared: Arc::clone(&self.shared),
            handover: self.handover.clone(),
            epoch: lease.epoch,
            begun_on: thread::current().id(),
        };
        Ok(InProcess::new(serialiser, Held::new(sink, lease)))
    }

    /// Walks a slice. There is nothing more to do when the walk is over, and for now when the queue
    /// is full.
    fn tend(&mut self) -> bool {
        if !self.active {
            return false;
        }
        let mut walk = self.shared.lock();
        if self.handover.is_over() {
            self.active = false;
            return false;
        }
        let count = walk.advance(SLICE_BLOCKS, &self.shared, &self.handover);
        self.walked = walk.next;
        self.active = self.walked < self.blocks;
        self.active && count > 0
    }

    fn progress(&self) -> Progress {
        Progress::new(&self.handover)
    }
}

impl Valkey {
    /// Replaces a word, whose unit is saved first if the walk has yet to come to it.
    #[inline(always)]
    fn replace(&mut self, index: usize, new: impl New<u64>) {
        let new = new.resolve(|| self.words.load(index));
        if self.active
            && !self.is_walked(index / BLOCK_WORDS)
            && self.stamps.load(index >> self.shift) < self.mark
        {
            self.first_touch(index, new);
        }
        self.words.store(index, new);
    }

    /// Whether the image needs nothing more of a block: walked, or added after begin.
    #[inline]
    fn is_walked(&self, block: usize) -> bool {
        block.wrapping_sub(self.walked) >= self.blocks - self.walked
    }

    /// Saves the unit of word `index`, which is about to become `new`.
    #[cold]
    #[inline(never)]
    fn first_touch(&mut self, index: usize, new: u64) {
        // The exchange in the lock holds up every load after it.
        self.words.prefetch(index);
        if self.handover.is(Mutant::ValkeySavesAfterWrite) {
            self.words.store(index, new);
        }
        let mut waits = Backoff::default();
        let mut waiting = None;
        loop {
            let mut walk = self.shared.lock();
            if self.handover.is_over() {
                self.active = false;
                return;
            }
            self.walked = walk.next;
            if self.is_walked(index / BLOCK_WORDS) || walk.clone_unit(index >> self.shift) {
                return self.handover.note_arena(walk.pool.at(walk.pool.used));
            }
            if self.on_full == OnFull::Cancel {
                self.handover.stop_over_budget();
                self.active = false;
                return;
            }
            let count = walk.advance(SLICE_BLOCKS, &self.shared, &self.handover);
            drop(walk);
            waiting.get_or_insert_with(|| Waiting::begin(&self.handover, &self.handover));
            if count == 0 {
                waits.wait();
            }
        }
    }
}

impl Drop for Valkey {
    /// No thread tends any more: the capture walks itself.
    fn drop(&mut self) {
        self.shared.deserted.store(1, Ordering::Release); // partner: `Serialiser::walks`
    }
}

/// The snapshotter's side: it takes blocks out of the queue.
#[derive(Debug)]
pub struct Serialiser {
    shared: Arc<SharedWalk>,
    handover: Shared<Handover>,
    epoch: u64,
    begun_on: thread::ThreadId,
}

impl Serialiser {
    /// Whether no other thread does the walk.
    fn walks(&self) -> bool {
        self.shared.deserted.load(Ordering::Acquire) == 1 || thread::current().id() == self.begun_on
    }
}

impl View for Serialiser {
    fn block(&self, block: usize, into: &mut [u64]) {
        let mut backoff = Backoff::default();
        // Acquire; partner: `Walk::hand_over`.
        while self.shared.handed.load(Ordering::Acquire) <= block {
            if self.handover.check_stop(self.epoch).is_err() {
                return; // the pushing thread looks again, and pushes nothing
            }
            if self.walks() {
                self.shared.lock().advance(SLICE_BLOCKS, &self.shared, &self.handover);
            } else {
                backoff.wait();
            }
        }
        self.shared.queue.copy_to(block % QUEUE_BLOCKS * BLOCK_WORDS, into);
    }

    /// The progress lets the walk use the block's place again. A walk that comes later puts the
    /// block there for nobody.
    fn pass(&self, _block: usize, _len: usize) {}

    fn word(&self, index: usize) -> u64 {
        let walk = self.shared.lock();
        if index / BLOCK_WORDS < walk.next {
            return self.shared.queue.load(index % (QUEUE_BLOCKS * BLOCK_WORDS));
        }
        let shift = walk.pool.shift;
        match walk.stamps.load(index >> shift).checked_sub(walk.mark) {
            Some(slot) => walk.pool.words.load(walk.pool.at(slot) + index % (1 << shift)),
            None => walk.words.load(index),
        }
    }
}

impl Drop for Serialiser {
    /// The image is over, so no clone is read again before the next begin, which starts a new list
    /// of free slots. A slot that the writer still takes does no harm.
    fn drop(&mut self) {
        self.shared.lock().pool.words.release(KEPT_WORDS);
    }
}
