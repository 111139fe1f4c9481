//! The same memory interface on the heap, for Miri, loom and shuttle, which know no `mmap`.

use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::Arc;

use super::Shareable;
use crate::error::MemoryError;
use crate::sync::AtomicU64;

const WORDS_MAX: usize = 1 << 24;

#[derive(Debug)]
pub(crate) struct Region {
    words: Box<[AtomicU64]>,
}

impl Region {
    pub(crate) fn reserve(words: usize, _huge_pages: bool) -> Result<Self, MemoryError> {
        if words > WORDS_MAX {
            return Err(MemoryError::TooLarge { words });
        }
        Ok(Self { words: zeros(words) })
    }
    pub(crate) fn base(&self) -> NonNull<AtomicU64> {
        NonNull::from(&*self.words).cast()
    }
    pub(crate) fn commit(&self, words: usize) -> Result<(), MemoryError> {
        let reserved = self.words.len();
        if words > reserved { Err(MemoryError::Reserved { words, reserved }) } else { Ok(()) }
    }
    #[allow(clippy::unused_self, clippy::unnecessary_wraps, reason = "the interface of map.rs")]
    pub(crate) fn prefault(&self, _from: usize, _to: usize) -> Result<(), MemoryError> {
        Ok(())
    }
    #[allow(clippy::unused_self, reason = "the interface of map.rs")]
    pub(crate) fn release(&self, _from: usize) {}
}

#[cfg(any(feature = "loom", feature = "shuttle"))]
fn zeros(words: usize) -> Box<[AtomicU64]> {
    (0..words).map(|_| AtomicU64::new(0)).collect()
}

/// Miri would take a second to make some thousands one by one.
#[cfg(not(any(feature = "loom", feature = "shuttle")))]
fn zeros(words: usize) -> Box<[AtomicU64]> {
    // SAFETY: an atomic word is valid as zeros.
    unsafe { Box::new_zeroed_slice(words).assume_init() }
}

/// A value with several handles; nothing is forked under these tools.
#[derive(Debug)]
pub struct Shared<T> {
    value: Arc<T>,
}

impl<T: Shareable> Shared<T> {
    /// Moves `value` into shared memory.
    ///
    /// # Errors
    /// None here.
    pub fn new(value: T) -> Result<Self, MemoryError> {
        Ok(Self { value: Arc::new(value) })
    }
}

impl<T> Deref for Shared<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> Clone for Shared<T> {
    fn clone(&self) -> Self {
        Self { value: Arc::clone(&self.value) }
    }
}
