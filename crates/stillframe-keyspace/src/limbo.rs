//! Entries that have left their slots while an image may still read them.
//!
//! They wait in buckets by range of slots: when the capture has passed a range, its bucket goes to
//! the reclaimer whole, in O(1). The number of buckets is bounded, so that ending an image is too.
//!
//! Invariant: an entry in bucket `b` left a slot of range `b`, and that slot was not captured then.

use crate::entry::Owned;
use crate::reclaim::Reclaimer;

const BUCKETS: usize = if cfg!(any(test, miri)) { 8 } else { 512 };
const RANGE_BITS_MIN: u32 = if cfg!(any(test, miri)) { 3 } else { 9 };

#[derive(Default)]
pub(crate) struct Limbo {
    buckets: Vec<Bucket>,
    /// Buckets below are released.
    released: usize,
    range_bits: u32,
    entries: usize,
    bytes: usize,
}

#[derive(Default)]
struct Bucket {
    entries: Vec<Owned>,
    bytes: usize,
}

impl Limbo {
    /// Prepares for an image of `slots` slots. What an image before left was released.
    pub(crate) fn begin(&mut self, slots: usize) {
        debug_assert!(self.entries == 0, "limbo is empty between images");
        self.range_bits = RANGE_BITS_MIN.max((slots.div_ceil(BUCKETS)).next_power_of_two().ilog2());
        self.buckets.clear();
        self.buckets.resize_with(slots.div_ceil(1 << self.range_bits), Bucket::default);
        self.released = 0;
    }

    pub(crate) fn entries(&self) -> usize {
        self.entries
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Keeps an entry that left `slot`, which is part of the image and not captured.
    pub(crate) fn push(&mut self, slot: u32, entry: Owned) {
        let bytes = entry.entry().bytes();
        let bucket = &mut self.buckets[slot as usize >> self.range_bits];
        bucket.entries.push(entry);
        bucket.bytes += bytes;
        self.bytes += bytes;
        self.entries += 1;
    }

    /// Releases the ranges that lie wholly in the slots `0..captured`; bounded work.
    pub(crate) fn release(&mut self, captured: usize, reclaimer: &mut Reclaimer) {
        let end = (captured >> self.range_bits).min(self.buckets.len());
        if end <= self.released {
            return;
        }
        let buckets = self.buckets[self.released..end].iter_mut();
        let released: Vec<Bucket> =
            buckets.filter(|bucket| !bucket.entries.is_empty()).map(std::mem::take).collect();
        self.released = end;
        if !released.is_empty() {
            let bytes = released.iter().map(|bucket| bucket.bytes).sum();
            self.bytes -= bytes;
            self.entries -= released.iter().map(|bucket| bucket.entries.len()).sum::<usize>();
            reclaimer.drop_later(released, bytes); // one message: each wakes a thread
        }
    }

    /// Releases everything: the image is over.
    pub(crate) fn end(&mut self, reclaimer: &mut Reclaimer) {
        let rest = std::mem::take(self);
        if rest.entries != 0 {
            reclaimer.drop_later(rest.buckets, rest.bytes);
        }
    }

    /// What freeing everything would look like to a reader.
    #[cfg(test)]
    pub(crate) fn poison(&mut self) {
        let entries = self.buckets.iter_mut().flat_map(|bucket| &mut bucket.entries);
        entries.for_each(|entry| entry.poison());
    }
}
