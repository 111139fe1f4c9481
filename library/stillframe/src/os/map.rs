//! Memory from the operating system.

use std::ffi::c_void;
use std::fmt;
use std::ops::{Deref, Range};
use std::ptr::{self, NonNull};
use std::sync::Arc;

use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, MprotectFlags, ProtFlags};

use super::Shareable;
use crate::error::MemoryError;
use crate::sync::AtomicU64;

const WORD_BYTES: usize = size_of::<AtomicU64>();
const PAGE_BYTES: usize = 4096;
const HUGE_PAGE_BYTES: usize = 2 << 20;

/// Reserved address space with a committed prefix.
#[derive(Debug)]
pub(crate) struct Region {
    base: NonNull<AtomicU64>,
    reserved_words: usize,
    /// Size of the pages asked for: what is committed is a whole number of them, or the last one
    /// could not be huge.
    page_bytes: usize,
    mapping: NonNull<c_void>,
    mapping_bytes: usize,
}

// SAFETY: the region is owned memory; what it hands out are atomics.
unsafe impl Send for Region {}
// SAFETY: `&self` methods change protection and residency, which the kernel serialises.
unsafe impl Sync for Region {}

impl Region {
    pub(crate) fn reserve(words: usize, huge_pages: bool) -> Result<Self, MemoryError> {
        let align = if huge_pages { HUGE_PAGE_BYTES } else { PAGE_BYTES };
        let mapping_bytes = words
            .max(1)
            .checked_mul(WORD_BYTES)
            .and_then(|bytes| bytes.checked_next_multiple_of(align))
            // Room to align the base: the kernel aligns to small pages only.
            .and_then(|bytes| bytes.checked_add(if huge_pages { align } else { 0 }))
            .filter(|&bytes| bytes <= isize::MAX as usize)
            .ok_or(MemoryError::TooLarge { words })?;
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        let mapping = map("reserving", mapping_bytes, ProtFlags::empty(), flags)?;
        let padding = mapping.as_ptr().cast::<u8>().align_offset(align);
        // SAFETY: `padding < align`, and the mapping is longer than the words by `align` whenever
        // the kernel's own alignment may be smaller.
        let base = unsafe { mapping.byte_add(padding) };
        let base = base.cast();
        let page_bytes = align;
        let region = Self { base, reserved_words: words, page_bytes, mapping, mapping_bytes };
        if huge_pages {
            // A kernel without huge pages refuses the advice; ordinary pages serve as well.
            let _ = region.advise(0, words, Advice::LinuxHugepage);
        }
        Ok(region)
    }

    pub(crate) fn base(&self) -> NonNull<AtomicU64> {
        self.base
    }

    /// The addresses of the reserved words, whole pages.
    pub(crate) fn bytes(&self) -> Range<usize> {
        let start = self.base.as_ptr().addr();
        start..start + (self.reserved_words * WORD_BYTES).next_multiple_of(self.page_bytes)
    }

    /// Makes words `0..words` readable and writable.
    pub(crate) fn commit(&self, words: usize) -> Result<(), MemoryError> {
        if words > self.reserved_words {
            return Err(MemoryError::Reserved { words, reserved: self.reserved_words });
        }
        let bytes = (words * WORD_BYTES).next_multiple_of(self.page_bytes);
        let access = MprotectFlags::READ | MprotectFlags::WRITE;
        // SAFETY: the range lies in this region's own mapping, of which the part from `base` on
        // holds the reserved words rounded up to whole pages; access is granted, none taken away.
        unsafe { rustix::mm::mprotect(self.base.as_ptr().cast(), bytes, access) }
            .map_err(|errno| refused("committing", bytes, errno))
    }

    /// Makes words `from..to`, which are committed, resident.
    pub(crate) fn prefault(&self, from: usize, to: usize) -> Result<(), MemoryError> {
        match self.advise(from, to, Advice::LinuxPopulateWrite) {
            // Kernels before 5.14 do not know the advice: first touches then pay, as without it.
            Ok(()) | Err(Errno::INVAL) => Ok(()),
            Err(errno) => Err(refused("prefaulting", (to - from) * WORD_BYTES, errno)),
        }
    }

    /// Gives whole pages from word `from` on back; they read as zero when touched again.
    pub(crate) fn release(&self, from: usize) {
        let from = from.next_multiple_of(PAGE_BYTES / WORD_BYTES);
        // The kernel has no reason to refuse; if it did, the memory would only stay resident.
        let _ = self.advise(from, self.reserved_words, Advice::LinuxDontNeed);
    }

    fn advise(&self, from: usize, to: usize, advice: Advice) -> Result<(), Errno> {
        let start = from * WORD_BYTES / PAGE_BYTES * PAGE_BYTES;
        let end = (to.min(self.reserved_words) * WORD_BYTES).next_multiple_of(PAGE_BYTES);
        if start >= end {
            return Ok(());
        }
        // SAFETY: `start` is below the region's length.
        let address = unsafe { self.base.byte_add(start) };
        // SAFETY: the range lies in this region's own mapping, and its words are atomics of which
        // every value is valid.
        unsafe { rustix::mm::madvise(address.as_ptr().cast(), end - start, advice) }
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, whole, and nothing borrows from it any more.
        let result = unsafe { rustix::mm::munmap(self.mapping.as_ptr(), self.mapping_bytes) };
        debug_assert!(result.is_ok(), "unmapping our own mapping");
    }
}

/// A value in memory that a forked child shares with its parent: what one stores in its atomics,
/// the other sees. Cloning gives another handle on the same value.
pub struct Shared<T> {
    /// Of the mapping, kept here because it is followed on hot paths.
    value: NonNull<T>,
    mapping: Arc<Mapping<T>>,
}

// SAFETY: as of the mapping, of which it is a share.
unsafe impl<T: Send + Sync> Send for Shared<T> {}
// SAFETY: as above.
unsafe impl<T: Send + Sync> Sync for Shared<T> {}

struct Mapping<T> {
    value: NonNull<T>,
    bytes: usize,
}

// SAFETY: the mapping owns its `T`.
unsafe impl<T: Send> Send for Mapping<T> {}
// SAFETY: `&Mapping<T>` gives `&T` only.
unsafe impl<T: Sync> Sync for Mapping<T> {}

impl<T: Shareable> Shared<T> {
    /// Moves `value` into shared memory.
    ///
    /// # Errors
    /// [`MemoryError`] when no memory can be mapped.
    pub fn new(value: T) -> Result<Self, MemoryError> {
        const { assert!(align_of::<T>() <= PAGE_BYTES) };
        let bytes = size_of::<T>().max(1).next_multiple_of(PAGE_BYTES);
        let access = ProtFlags::READ | ProtFlags::WRITE;
        let start: NonNull<T> = map("sharing", bytes, access, MapFlags::SHARED)?.cast();
        // SAFETY: the start is mapped, writable, page-aligned and large enough.
        unsafe { start.write(value) };
        Ok(Self { value: start, mapping: Arc::new(Mapping { value: start, bytes }) })
    }
}

impl<T> Drop for Mapping<T> {
    fn drop(&mut self) {
        // SAFETY: the value was written by `new` and is dropped once, here.
        unsafe { self.value.drop_in_place() };
        // SAFETY: the mapping is ours, whole, and its value is gone.
        let result = unsafe { rustix::mm::munmap(self.value.as_ptr().cast(), self.bytes) };
        debug_assert!(result.is_ok(), "unmapping our own mapping");
    }
}

impl<T> Deref for Shared<T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the value lives as long as the mapping, which `self` holds a share of.
        unsafe { self.value.as_ref() }
    }
}

impl<T> Clone for Shared<T> {
    fn clone(&self) -> Self {
        Self { value: self.value, mapping: Arc::clone(&self.mapping) }
    }
}

impl<T: fmt::Debug> fmt::Debug for Shared<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

/// A new anonymous mapping.
fn map(
    what: &'static str,
    bytes: usize,
    access: ProtFlags,
    flags: MapFlags,
) -> Result<NonNull<c_void>, MemoryError> {
    // SAFETY: a new anonymous mapping at an address of the kernel's choice aliases nothing.
    let address = unsafe { rustix::mm::mmap_anonymous(ptr::null_mut(), bytes, access, flags) }
        .map_err(|errno| refused(what, bytes, errno))?;
    NonNull::new(address).ok_or_else(|| refused(what, bytes, Errno::NOMEM))
}

fn refused(what: &'static str, bytes: usize, errno: Errno) -> MemoryError {
    MemoryError::Refused { what, bytes, errno: errno.raw_os_error() }
}
