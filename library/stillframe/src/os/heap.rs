//! The same memory interface on the heap, for systems other than Linux, and for Miri, loom and
//! shuttle, which know no `mmap`.
//!
//! Memory is asked for whole and as zeros, so that a system may put off giving it until the first
//! touch. Pages are what they are, and none is given back before the end.

use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::Arc;

use super::Shareable;
use crate::error::MemoryError;
use crate::sync::AtomicU64;

/// A checker would take for ever over more.
const WORDS_MAX: usize =
    if cfg!(any(miri, feature = "loom", feature = "shuttle")) { 1 << 24 } else { usize::MAX };

#[derive(Debug)]
pub(crate) struct Region {
    words: Box<[AtomicU64]>,
}

impl Region {
    pub(crate) fn reserve(words: usize, _huge_pages: bool) -> Result<Self, MemoryError> {
        if words > WORDS_MAX {
            return Err(MemoryError::TooLarge { words });
        }
        let words = zeros(words).ok_or(MemoryError::TooLarge { words })?;
        Ok(Self { words })
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
fn zeros(words: usize) -> Option<Box<[AtomicU64]>> {
    Some((0..words).map(|_| AtomicU64::new(0)).collect())
}

/// `None`: there is not so much.
#[cfg(not(any(feature = "loom", feature = "shuttle")))]
fn zeros(words: usize) -> Option<Box<[AtomicU64]>> {
    let layout = std::alloc::Layout::array::<AtomicU64>(words).ok()?;
    if words == 0 {
        return Some(Box::default());
    }
    // SAFETY: the size is not zero.
    let first = NonNull::new(unsafe { std::alloc::alloc_zeroed(layout) })?;
    let words = NonNull::slice_from_raw_parts(first.cast(), words);
    // SAFETY: the global allocator gave it by the layout of that slice, and zeros are atomic words.
    Some(unsafe { Box::from_raw(words.as_ptr()) })
}

/// A value with several handles; nothing is forked here.
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
