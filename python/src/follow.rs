//! Memory of others that a store follows: what changed there is copied while the program stands
//! still.

use std::ops::Range;

use pyo3::buffer::PyBuffer;

use crate::dirty::{Dirty, PAGE_BYTES};

/// Memory of Python, and where it goes in the store.
pub(crate) struct Followed {
    /// Keeps the memory where it is.
    source: PyBuffer<u8>,
    /// Its first byte in the store.
    start: usize,
    /// `None` where the kernel does not tell: then all is compared.
    dirty: Option<Dirty>,
}

impl Followed {
    /// Contiguous memory.
    pub(crate) fn new(source: PyBuffer<u8>, start: usize) -> Self {
        let first = source.buf_ptr().addr();
        let end = first + source.len_bytes();
        let pages = first.next_multiple_of(PAGE_BYTES)..end / PAGE_BYTES * PAGE_BYTES;
        let dirty = (!pages.is_empty()).then(|| Dirty::watch(pages).ok()).flatten();
        Self { source, start, dirty }
    }

    pub(crate) fn is_told(&self) -> bool {
        self.dirty.is_some()
    }

    /// First byte in the store, and length.
    pub(crate) fn place(&self) -> Range<usize> {
        self.start..self.start + self.source.len_bytes()
    }

    /// Where something may have changed since this was last asked, as ranges of its bytes.
    pub(crate) fn changes(&self) -> Vec<Range<usize>> {
        let (first, len) = (self.source.buf_ptr().addr(), self.source.len_bytes());
        let everything = std::iter::once(0..len).collect();
        let Some(dirty) = &self.dirty else { return everything };
        // Memory that was mapped anew, say, is not watched any more.
        let Ok(pages) = dirty.take() else { return everything };
        let inner = first.next_multiple_of(PAGE_BYTES) - first;
        let behind = (first + len) / PAGE_BYTES * PAGE_BYTES - first;
        // The parts of pages at both ends are never watched.
        let pages = pages.into_iter().map(|page| page.start - first..page.end - first);
        pages.chain([0..inner, behind..len]).collect()
    }

    /// Copies bytes from `at` on. Panics out of bounds.
    pub(crate) fn read(&self, at: usize, into: &mut [u8]) {
        let len = self.source.len_bytes();
        assert!(at <= len && into.len() <= len - at, "{} bytes at {at} of {len}", into.len());
        let from = self.source.buf_ptr().cast::<u8>().cast_const().wrapping_add(at);
        // SAFETY: the buffer is held, contiguous and `len` bytes long, so what is copied lies in
        // it. The caller's program stands still, by the contract of `Store.snapshot`; were it to
        // write there all the same, what is copied is bytes, of which each is valid.
        unsafe { std::ptr::copy_nonoverlapping(from, into.as_mut_ptr(), into.len()) };
    }
}
