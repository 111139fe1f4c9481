//! What the log holds, in memory: the entries since the last purge, and the head.

use std::collections::VecDeque;
use std::ops::{Bound, RangeBounds};

use openraft::{LogId, RaftLogId, RaftTypeConfig};

use super::record::{Head, Record};

/// The contents, with the number of the record of each part.
pub(crate) struct Contents<C: RaftTypeConfig> {
    /// Index of the first entry.
    first: u64,
    entries: VecDeque<Kept<C>>,
    /// Of the records of these entries.
    bytes: u64,
    pub(crate) head: Head<C>,
    /// The record of the head, 0 if there is none.
    head_at: u64,
}

/// An entry as its record has it: read seldom, and shorter so.
pub(crate) struct Kept<C: RaftTypeConfig> {
    /// Number of the record.
    pub(crate) sequence: u64,
    pub(crate) id: LogId<C::NodeId>,
    pub(crate) record: Box<[u8]>,
}

/// Bytes of the records of entries.
fn bytes<C: RaftTypeConfig>(entries: impl Iterator<Item = Kept<C>>) -> u64 {
    entries.map(|entry| entry.record.len() as u64).sum()
}

impl<C: RaftTypeConfig> Default for Contents<C> {
    fn default() -> Self {
        Self { first: 0, entries: VecDeque::new(), bytes: 0, head: Head::default(), head_at: 0 }
    }
}

impl<C: RaftTypeConfig> Contents<C> {
    /// A record was read from the log.
    pub(crate) fn replay(&mut self, sequence: u64, bytes: &[u8]) -> Result<(), String> {
        match Record::<C>::decode(bytes)? {
            Record::Entry(entry) => {
                let id = entry.get_log_id().clone();
                let index = id.index;
                // A purge may have removed all before, and a truncation what came between.
                let next = self.next().filter(|_| !self.entries.is_empty());
                if next.is_some_and(|next| next != index) {
                    return Err(format!("entry {index} follows entry {}", self.end() - 1));
                }
                self.push(Kept { sequence, id, record: bytes.into() });
            }
            Record::Truncate(from) => self.truncate(from),
            Record::Head(head) => self.set_head(sequence, head),
        }
        Ok(())
    }

    /// Checks what was replayed.
    pub(crate) fn check(&self) -> Result<(), String> {
        let expected = self.head.purged.as_ref().map(|purged| purged.index + 1);
        let first = self.entries.front().map(|_| self.first);
        match (expected, first) {
            (Some(expected), Some(first)) if first != expected => {
                Err(format!("its first entry is {first}, and {expected} was expected"))
            }
            // The first entry of a group has index 0, or 1 after a test's own start.
            _ => Ok(()),
        }
    }

    fn end(&self) -> u64 {
        self.first + self.entries.len() as u64
    }

    /// The index that the next entry must have; `None`: any.
    pub(crate) fn next(&self) -> Option<u64> {
        match self.entries.is_empty() {
            true => self.head.purged.as_ref().map(|purged| purged.index + 1),
            false => Some(self.end()),
        }
    }

    /// Adds an entry behind the others.
    pub(crate) fn push(&mut self, entry: Kept<C>) {
        if self.entries.is_empty() {
            self.first = entry.id.index;
        }
        self.bytes += entry.record.len() as u64;
        self.entries.push_back(entry);
    }

    /// Drops the entries from this index on.
    pub(crate) fn truncate(&mut self, from: u64) {
        let keep = from.saturating_sub(self.first).min(self.entries.len() as u64);
        self.bytes -= bytes(self.entries.drain(keep as usize..)); // at most its length
    }

    /// Replaces the head, and drops what it says was purged.
    pub(crate) fn set_head(&mut self, sequence: u64, head: Head<C>) {
        (self.head, self.head_at) = (head, sequence);
        let Some(purged) = &self.head.purged else { return };
        let gone = (purged.index + 1).saturating_sub(self.first).min(self.entries.len() as u64);
        self.bytes -= bytes(self.entries.drain(..gone as usize)); // at most its length
        self.first += gone;
    }

    /// Bytes of the entries.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Memory that the entries take.
    pub(crate) fn memory_bytes(&self) -> u64 {
        self.bytes + (self.entries.capacity() * size_of::<Kept<C>>()) as u64
    }

    /// The end of the entries from `start` on that have `most` bytes together, but for one that has
    /// more by itself, and are before `end`.
    pub(crate) fn end_within(&self, start: u64, end: u64, most: u64) -> u64 {
        let from = start.saturating_sub(self.first).min(self.entries.len() as u64);
        let sums = self.entries.range(from as usize..).scan(0, |sum, entry| {
            *sum += entry.record.len() as u64;
            Some(*sum)
        });
        let count = sums.take_while(|&sum| sum <= most).count() as u64;
        end.min(start.saturating_add(count.max(1)))
    }

    /// The first record that is needed.
    pub(crate) fn needed_from(&self) -> u64 {
        let entry = self.entries.front().map_or(u64::MAX, |entry| entry.sequence);
        entry.min(self.head_at)
    }

    /// The id of the last entry, or of the last purged one.
    pub(crate) fn last(&self) -> Option<LogId<C::NodeId>> {
        let last = self.entries.back().map(|entry| entry.id.clone());
        last.or_else(|| self.head.purged.clone())
    }

    /// The entries of a range of indices, as far as they are there.
    ///
    /// # Errors
    /// What is wrong with one.
    pub(crate) fn range(&self, range: &impl RangeBounds<u64>) -> Result<Vec<C::Entry>, String> {
        let start = match range.start_bound() {
            Bound::Included(&start) => start,
            Bound::Excluded(&start) => start.saturating_add(1),
            Bound::Unbounded => 0,
        };
        let end = match range.end_bound() {
            Bound::Included(&end) => end.saturating_add(1),
            Bound::Excluded(&end) => end,
            Bound::Unbounded => u64::MAX,
        };
        let count = self.entries.len() as u64;
        let from = start.saturating_sub(self.first).min(count);
        let to = end.saturating_sub(self.first).clamp(from, count);
        let entries = self.entries.range(from as usize..to as usize); // at most its length
        let decode = |entry: &Kept<C>| match Record::<C>::decode(&entry.record)? {
            Record::Entry(entry) => Ok(entry),
            other => Err(format!("{other:?} is no entry")),
        };
        entries.map(decode).collect()
    }
}
