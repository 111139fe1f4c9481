//! The one owner of an entry: how it is born and freed, and how it lies in a slot.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::mem::ManuallyDrop;
use std::ptr::{self, NonNull};
use std::sync::Arc;

use super::word::New;
use super::{Blob, Entry, HEADER, Header, KEY_BYTES_MAX, fat};
use crate::collection::trunk::Trunk;

const ALIGN: usize = 8;

/// Owns an entry.
pub(crate) struct Owned(NonNull<u8>);

// SAFETY: an entry is plain bytes and an `Arc` of something that may be read and dropped by any
// thread (see below), and there is one owner.
unsafe impl Send for Owned {}

const _: () = {
    const fn shareable<T: Send + Sync>() {}
    shareable::<Blob>();
    shareable::<Arc<Trunk>>();
};

impl Owned {
    /// A new entry. `reserve` is room for the inline value to grow into, beyond what it needs.
    pub(crate) fn new(
        (era, space): (u64, usize),
        key: &[u8],
        value: New<'_>,
        deadline: i64,
        reserve: usize,
    ) -> Self {
        assert!(space < 16 && key.len() <= KEY_BYTES_MAX, "a key or database out of bounds");
        let parts = value.inline();
        let inline = parts[0].len() + parts[1].len();
        let layout = layout(key.len() + inline + reserve);
        let room = layout.size() - HEADER; // what rounding up adds is room as well
        // SAFETY: the layout is not empty, the header is in it.
        let Some(start) = NonNull::new(unsafe { alloc(layout) }) else {
            handle_alloc_error(layout)
        };
        let (kind, word) = value.into_word();
        let header = Header {
            stamp: era << 8 | kind.bits() << 4 | space as u64,
            expire_at: deadline,
            key_len: key.len() as u32,
            room: room as u32,
            value: word,
            tail: [],
        };
        // SAFETY: the allocation is aligned and large enough for the header.
        unsafe { start.cast::<Header>().write(header) };
        let mut left = room;
        // SAFETY: the allocation goes on behind the header.
        let mut at = unsafe { start.as_ptr().add(HEADER) };
        for part in [key, parts[0], parts[1]] {
            assert!(part.len() <= left, "the layout has room for key and value");
            // SAFETY: `left` bytes from `at` on belong to the allocation, which is new, so that
            // nothing overlaps it.
            unsafe { ptr::copy_nonoverlapping(part.as_ptr(), at, part.len()) };
            // SAFETY: as above: this is at most the end of the allocation.
            at = unsafe { at.add(part.len()) };
            left -= part.len();
        }
        // SAFETY: as above.
        unsafe { ptr::write_bytes(at, 0, left) };
        Self(start)
    }

    pub(crate) fn entry(&self) -> &Entry {
        // SAFETY: the owner keeps it alive.
        let entry = unsafe { fat(self.0.as_ptr()) };
        // SAFETY: mutable references are made of slot words only, and an entry that an `Owned`
        // holds is in no slot.
        unsafe { &*entry }
    }

    /// What freeing the entry would look like to a reader. For tests that know that nobody reads it
    /// at this moment.
    #[cfg(test)]
    pub(crate) fn poison(&mut self) {
        // SAFETY: the owner keeps it alive.
        let entry = unsafe { fat(self.0.as_ptr()) };
        // SAFETY: as the caller says.
        unsafe { &mut *entry }.0.tail.fill(0xdd);
    }

    /// As [`poison`](Self::poison).
    #[cfg(test)]
    pub(crate) fn poisoned(mut self) -> Self {
        self.poison();
        self
    }

    /// The word of a slot that owns the entry from now on; never 0.
    pub(crate) fn into_word(self) -> u64 {
        ManuallyDrop::new(self).0.as_ptr().expose_provenance() as u64
    }

    /// Takes an entry back from its slot.
    ///
    /// # Safety
    /// `word` came from [`into_word`](Self::into_word) and is given back once.
    pub(crate) unsafe fn from_word(word: u64) -> Self {
        let pointer = ptr::with_exposed_provenance_mut::<u8>(word as usize);
        Self(NonNull::new(pointer).expect("words of entries are never 0"))
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        // SAFETY: the owner is the last user: the entry is alive.
        let entry = unsafe { fat(self.0.as_ptr()) };
        // SAFETY: as above.
        let layout = Layout::for_value(unsafe { &*entry });
        // SAFETY: as above, and it is dropped once.
        unsafe { ptr::drop_in_place(entry) };
        // SAFETY: allocated with this layout by `new`: the size is the header plus `room`, which
        // was chosen so that it needs no rounding.
        unsafe { dealloc(self.0.as_ptr(), layout) };
    }
}

fn layout(room: usize) -> Layout {
    Layout::from_size_align(HEADER + room, ALIGN).expect("lengths are bounded").pad_to_align()
}
