//! The one owner of an entry: how it is born and freed, and how it lies in a slot.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::mem::ManuallyDrop;
use std::ptr::{self, NonNull};
use std::sync::Arc;

use super::word::{Link, New};
use super::{
    Blob, DEADLINE, ERA_AT, Entry, Header, KEY_BYTES_MAX, KEY_LEN_AT, KEY_LEN_MAX, LEN_AT, LENGTHS,
    LINK, MORTAL, PAD, TAIL, UNIT, UNITS_AT, UNITS_MAX, WIDE, fat,
};
use crate::collection::packed::NEVER;
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

/// When and where an entry is born.
#[derive(Clone, Copy)]
pub(crate) struct Birth {
    pub(crate) era: u64,
    pub(crate) space: usize,
}

impl Owned {
    /// A new entry. `reserve` is room for the inline value to grow into, beyond what it needs.
    pub(crate) fn new(
        Birth { era, space }: Birth,
        key: &[u8],
        value: New<'_>,
        deadline: i64,
        reserve: usize,
    ) -> Self {
        assert!(space < 16 && key.len() <= KEY_BYTES_MAX, "a key or database out of bounds");
        let (facts, mut front) = (value.facts(), Front { bytes: [0; _], len: 0 });
        let is_linked = facts.kind.is_linked();
        let has_place = deadline != NEVER || is_linked;
        let needed = TAIL
            + if is_linked { LINK } else { 0 }
            + if has_place { DEADLINE } else { 0 }
            + key.len()
            + facts.len
            + reserve;
        let is_wide = key.len() > KEY_LEN_MAX || needed > UNITS_MAX * UNIT;
        let layout = layout(needed + if is_wide { LENGTHS } else { 0 });
        let units = layout.size() / UNIT; // what rounding up adds is room as well
        let mut stamp = era << ERA_AT | facts.bits() | space as u64;
        let mut info = 0;
        if is_wide {
            stamp |= WIDE;
            let lengths = [key.len(), units, facts.len, facts.count];
            lengths.iter().for_each(|&length| front.push(&(length as u32).to_ne_bytes()));
        } else {
            stamp |= (key.len() as u64) << KEY_LEN_AT;
            info = (units << UNITS_AT | facts.len << LEN_AT | facts.count) as u32;
        }
        let link_at = TAIL + front.len + PAD;
        if is_linked {
            front.push(&[0; LINK]);
        }
        if has_place {
            stamp |= MORTAL;
            front.push(&deadline.to_ne_bytes());
        }
        // SAFETY: the layout is not empty, the header is in it.
        let Some(start) = NonNull::new(unsafe { alloc(layout) }) else {
            handle_alloc_error(layout)
        };
        // SAFETY: the allocation is aligned and large enough for the header.
        unsafe { start.cast::<Header>().write(Header { stamp, info, tail: [] }) };
        let mut left = layout.size() - TAIL;
        // SAFETY: the allocation goes on behind the header.
        let mut at = unsafe { start.as_ptr().add(TAIL) };
        let mut int = [0; 8];
        let [first, second] = value.inline(&mut int);
        for part in [&front.bytes[..front.len], key, first, second] {
            assert!(part.len() <= left, "the layout has room for all parts");
            // SAFETY: `left` bytes from `at` on belong to the allocation, which is new, so that
            // nothing overlaps it.
            unsafe { ptr::copy_nonoverlapping(part.as_ptr(), at, part.len()) };
            // SAFETY: as above: this is at most the end of the allocation.
            at = unsafe { at.add(part.len()) };
            left -= part.len();
        }
        // SAFETY: as above.
        unsafe { ptr::write_bytes(at, 0, left) };
        if let Some(link) = value.into_link() {
            // SAFETY: the front has room for it there.
            let place = unsafe { start.as_ptr().add(link_at) };
            // SAFETY: as above; it is a multiple of 8 bytes from the start.
            unsafe { place.cast::<Link>().write(link) };
        }
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
        let entry = unsafe { &mut *entry };
        let key_at = entry.key_at(); // what freeing it needs stays
        entry.0.tail[key_at..].fill(0xdd);
    }

    /// As [`poison`](Self::poison).
    #[cfg(test)]
    pub(crate) fn poisoned(mut self) -> Self {
        self.poison();
        self
    }

    /// Leaks it, and makes it look freed to a reader. As [`poison`](Self::poison).
    #[cfg(test)]
    pub(crate) fn freed(self) {
        std::mem::forget(self.poisoned());
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
        // SAFETY: allocated with this layout by `new`: the size is that of all units, and needs no
        // rounding.
        unsafe { dealloc(self.0.as_ptr(), layout) };
    }
}

/// What lies between the header and the key.
struct Front {
    bytes: [u8; LENGTHS + LINK + DEADLINE],
    len: usize,
}

impl Front {
    fn push(&mut self, bytes: &[u8]) {
        self.bytes[self.len..][..bytes.len()].copy_from_slice(bytes);
        self.len += bytes.len();
    }
}

fn layout(bytes: usize) -> Layout {
    let bytes = bytes.next_multiple_of(UNIT);
    Layout::from_size_align(bytes, ALIGN).expect("lengths are bounded")
}
