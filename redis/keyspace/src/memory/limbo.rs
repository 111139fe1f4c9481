//! Entries that have left their slots while an image may still read them.
//!
//! They wait in buckets by range of slots: when the capture has passed a range, its bucket goes to
//! the reclaimer whole, in O(1). The number of buckets is bounded, so that ending an image is too.
//!
//! Limbo counts only what it alone holds: bytes that an entry shares with one in a slot cost
//! nothing to keep. A large collection that is edited under an image begins as a *loan* of all
//! its nodes to the entry that follows it; each node that the follower copies or drops is limbo's
//! alone from then on, and so is the rest when the follower goes.
//!
//! Invariants
//! - An entry in bucket `b` left a slot of range `b`, and that slot was not captured then.
//! - A loan is to an entry younger than the image, so that it is never itself in limbo. There are
//!   no more loans than entries in limbo, but for those of a keyspace that no image is taken of:
//!   they count what its entries share with another's ([`Limbo::share`]).

use std::collections::BTreeMap;

use crate::memory::entry::Owned;

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
    /// By the slot of the entry that shares.
    loans: BTreeMap<u32, Loan>,
}

/// Bytes that an entry in limbo shares with one in a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Loan {
    /// The slot that the entry in limbo left.
    pub(crate) holder: u32,
    pub(crate) bytes: usize,
}

#[derive(Default)]
pub(crate) struct Bucket {
    entries: Vec<Owned>,
    bytes: usize,
}

#[cfg(test)]
impl Bucket {
    /// Makes it look freed to a reader.
    pub(crate) fn poison(&mut self) {
        self.entries.iter_mut().for_each(Owned::poison);
    }
}

impl Limbo {
    /// Prepares for an image of `slots` slots, after the release of the image before.
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

    /// Counts a loan to the entry in `slot`; limbo counts its bytes only when the loan is over.
    pub(crate) fn lend(&mut self, slot: u32, loan: Loan) {
        if let Some(bucket) = self.bucket_of(loan.holder) {
            bucket.bytes -= loan.bytes;
            self.bytes -= loan.bytes;
            self.loans.insert(slot, loan);
        }
    }

    /// Counts what the entry in `slot` shares with one that lies in no slot here.
    pub(crate) fn share(&mut self, slot: u32, bytes: usize) {
        if bytes > 0 {
            self.loans.insert(slot, Loan { holder: u32::MAX, bytes });
        }
    }

    /// Ends the count of what the entry in `slot` [shares](Self::share); returns what is left.
    pub(crate) fn unshare(&mut self, slot: u32) -> usize {
        self.loans.remove(&slot).map_or(0, |loan| loan.bytes)
    }

    pub(crate) fn loan(&self, slot: u32) -> Option<Loan> {
        self.loans.get(&slot).copied()
    }

    /// Takes back this many bytes, or all, of the loan to the entry in `slot`.
    pub(crate) fn give_back(&mut self, slot: u32, bytes: Option<usize>) {
        let Some(loan) = self.loans.get_mut(&slot) else { return };
        let bytes = bytes.unwrap_or(usize::MAX).min(loan.bytes);
        loan.bytes -= bytes;
        let Loan { holder, bytes: left } = *loan;
        if left == 0 {
            self.loans.remove(&slot);
        }
        if let Some(bucket) = self.bucket_of(holder) {
            bucket.bytes += bytes;
            self.bytes += bytes;
        }
    }

    /// The bucket of a slot, if it was not released.
    fn bucket_of(&mut self, slot: u32) -> Option<&mut Bucket> {
        let at = slot as usize >> self.range_bits;
        self.buckets.get_mut(at).filter(|_| at >= self.released)
    }

    /// Releases the ranges that lie wholly in the slots `0..captured` to `retire`, with their
    /// bytes; bounded work.
    pub(crate) fn release(&mut self, captured: usize, retire: impl FnOnce(Vec<Bucket>, usize)) {
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
            retire(released, bytes); // at once: each message wakes a thread
        }
    }

    /// Releases everything: the image is over.
    pub(crate) fn end(&mut self, retire: impl FnOnce(Vec<Bucket>, usize)) {
        let rest = std::mem::take(self);
        if rest.entries != 0 {
            retire(rest.buckets, rest.bytes);
        }
    }

    /// Makes these buckets look freed to a reader.
    #[cfg(test)]
    pub(crate) fn poison(
        &mut self,
        buckets: impl std::slice::SliceIndex<[Bucket], Output = [Bucket]>,
    ) {
        let buckets = self.buckets.get_mut(buckets).into_iter().flatten();
        buckets.for_each(Bucket::poison);
    }

    /// Makes mistakes about the end of a range visible to a reader.
    #[cfg(test)]
    pub(crate) fn release_wrongly(&mut self, captured: usize) {
        use crate::mutants::Mutant;
        if Mutant::ReleasesEarly.is_made() {
            self.poison(..);
        }
        if Mutant::ReleasesPart.is_made() {
            self.poison(..captured.div_ceil(1 << self.range_bits).min(self.buckets.len()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collection::packed::NEVER;
    use crate::memory::entry::{Birth, New};

    #[test]
    fn what_is_given_back_to_a_range_that_is_released_counts_no_more() {
        let mut limbo = Limbo::default();
        limbo.begin(BUCKETS << RANGE_BITS_MIN);
        let entry =
            Owned::new(Birth { era: 1, space: 0 }, b"key", New::text(&[b'x'; 500]), NEVER, 0);
        let bytes = entry.entry().bytes();
        limbo.push(0, entry);
        limbo.lend(20, Loan { holder: 0, bytes: 300 });
        assert_eq!(limbo.bytes(), bytes - 300);
        limbo.give_back(20, Some(100));
        assert_eq!(limbo.bytes(), bytes - 200);
        limbo.release(1 << RANGE_BITS_MIN, |_, _| {});
        limbo.give_back(20, None);
        assert_eq!((limbo.entries(), limbo.bytes()), (0, 0));
        limbo.end(|_, _| {});
    }
}
