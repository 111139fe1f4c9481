//! The words of a view, laid out once for all who read them.
//!
//! - A word of a view that was not written since lies in the store, whose writer may replace it at
//!   any moment: nobody can be given it in place. So each block of a view is copied once, when it
//!   is first asked for, to its own place in address space; all who read it later share that copy.
//!   What nobody reads takes no memory.
//! - No byte is written once a [`Memory`] upon it was given out: blocks are filled under a lock,
//!   each once, and a `Memory` is made when all of its blocks are.
//! - The copy lives as long as one array upon it, whether the view is closed or not.

use std::ops::Range;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, PoisonError};

use pyo3::exceptions::PyMemoryError;
use pyo3::prelude::*;
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

use crate::memory::Memory;

/// Words of a block.
const BLOCK: usize = 512;

/// Room for words, zero and without memory at first.
pub(crate) struct Room {
    first: NonNull<u64>,
    words: usize,
}

// SAFETY: it is memory of nobody's but its own, and knows of no thread.
unsafe impl Send for Room {}
// SAFETY: `&Room` gives a pointer alone; who writes through it says why nobody reads there.
unsafe impl Sync for Room {}

impl Room {
    fn new(words: usize) -> PyResult<Self> {
        let bytes = words.max(1).saturating_mul(size_of::<u64>());
        let (rights, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
        // SAFETY: a new mapping where there is room for it touches nothing that is there.
        let place = unsafe {
            mmap_anonymous(std::ptr::null_mut(), bytes, rights, flags | MapFlags::NORESERVE)
        };
        let first = place.ok().and_then(|place| NonNull::new(place.cast()));
        let first = first.ok_or_else(|| {
            PyMemoryError::new_err(format!("there is no memory to read a view of {bytes} bytes"))
        })?;
        Ok(Self { first, words })
    }

    pub(crate) fn as_ptr(&self) -> *const u64 {
        self.first.as_ptr()
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        let bytes = self.words.max(1) * size_of::<u64>();
        // SAFETY: this mapping was made by `new`, and each of its readers holds this.
        let unmapped = unsafe { munmap(self.first.as_ptr().cast(), bytes) };
        debug_assert!(unmapped.is_ok(), "a mapping of one's own can be removed");
    }
}

/// The words of a view, as far as they were read.
pub(crate) struct Frozen(Mutex<Option<Filled>>);

struct Filled {
    room: Arc<Room>,
    /// A bit for each block that is there.
    blocks: Vec<u64>,
}

impl Frozen {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(None))
    }

    /// Bytes of a state of `words` words, each block of which `read` gives when it is first asked
    /// for. The caller has checked the bounds.
    pub(crate) fn bytes(
        &self,
        words: usize,
        start: usize,
        len: usize,
        read: impl Fn(usize, &mut [u64]) -> PyResult<()>,
    ) -> PyResult<Memory> {
        // A panic leaves the block that it hit unmarked.
        let mut filled = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if filled.is_none() {
            let blocks = vec![0; words.div_ceil(BLOCK).div_ceil(64)];
            *filled = Some(Filled { room: Arc::new(Room::new(words)?), blocks });
        }
        let filled = filled.as_mut().expect("it was made above");
        filled.fill(start / 8 / BLOCK..(start + len).div_ceil(8 * BLOCK), read)?;
        Ok(Memory::frozen(Arc::clone(&filled.room), start, len))
    }
}

impl Filled {
    fn has(&self, block: usize) -> bool {
        self.blocks[block / 64] >> (block % 64) & 1 == 1
    }

    /// Fills those of the blocks that are not there, in runs.
    fn fill(
        &mut self,
        blocks: Range<usize>,
        read: impl Fn(usize, &mut [u64]) -> PyResult<()>,
    ) -> PyResult<()> {
        let mut next = blocks.start;
        while let Some(first) = (next..blocks.end).find(|&block| !self.has(block)) {
            let end = (first..blocks.end).find(|&block| self.has(block)).unwrap_or(blocks.end);
            let words = first * BLOCK..(end * BLOCK).min(self.room.words);
            // SAFETY: the words lie in the room, since `words` ends there.
            let place = unsafe { self.room.first.add(words.start) };
            // SAFETY: they are zero or what a failed read left, and in none of the blocks that are
            // there, so nobody else knows of them while `&mut self` is held.
            let run = unsafe { std::slice::from_raw_parts_mut(place.as_ptr(), words.len()) };
            read(words.start, run)?;
            (first..end).for_each(|block| self.blocks[block / 64] |= 1 << (block % 64));
            next = end;
        }
        Ok(())
    }
}
