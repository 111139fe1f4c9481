//! Writes of a batch: their words are asked for together, their records are appended together and
//! published once, behind one fence, and then the words are stored.
//!
//! A word that comes twice in a batch gets two records of the same value, or none: the oldest is
//! the image's, as ever (I3). A frame among them holds its block before any store of the batch.

use super::{CLOSED, ENTRY, Imprint, LIMIT};
use crate::mutant::Mutant;
use crate::sink::BLOCK_WORDS;
use crate::sync::Ordering;

/// Writes that go together: enough to wait for all their words at once, few enough for the caches.
const BATCH: usize = if BLOCK_WORDS == 512 { 32 } else { 2 };

impl Imprint {
    /// Replaces words, all of them in bounds.
    pub(super) fn replace_many(&mut self, writes: &[(usize, u64)]) {
        let mut batches = writes.chunks(BATCH).peekable();
        while let Some(batch) = batches.next() {
            // While this batch is saved and stored the words of the next one come.
            let next = batches.peek().into_iter().flat_map(|next| next.iter());
            next.for_each(|&(index, _)| self.words.prefetch(index));
            self.save_many(batch);
            for &(index, value) in batch {
                self.words.store(index, value);
            }
        }
    }

    /// Saves the words that a batch is about to replace, where images need them.
    #[inline]
    fn save_many(&mut self, batch: &[(usize, u64)]) {
        if self.span == 0 {
            return;
        }
        let needed = ENTRY * batch.len();
        if self.used() + needed > self.limit {
            self.refresh();
        }
        let mut used = self.used();
        let mut left = batch;
        if used + needed <= self.limit {
            if self.handover().is(Mutant::ImprintFencesBeforeBatch) {
                self.publish(used);
            }
            while let [(index, _), behind @ ..] = left {
                let mark = self.volume.marks.of(index / BLOCK_WORDS);
                // Acquire: as in `replace`.
                let records = mark.get(Ordering::Acquire);
                if records != CLOSED {
                    if records >= LIMIT {
                        break;
                    }
                    if self.handover().is(Mutant::ImprintPublishesBatchEarly) {
                        self.publish(used + ENTRY);
                    }
                    self.volume.log.store_pair(used, [self.words.load(*index), *index as u64]);
                    mark.set(records + 1, Ordering::Relaxed);
                    used += ENTRY;
                }
                left = behind;
            }
            if self.handover().is(Mutant::ImprintFencesBeforeBatch) {
                self.handover().note_arena(used);
            } else {
                self.publish(used);
            }
        }
        // A block is to get a frame, or there is little room.
        left.iter().for_each(|&(index, value)| self.save_one(index, value));
    }

    /// Saves a word that is about to become `new`, unless no image needs it.
    fn save_one(&mut self, index: usize, new: u64) {
        let records = self.volume.marks.of(index / BLOCK_WORDS).get(Ordering::Acquire);
        if self.span == 0 || records == CLOSED {
            return;
        }
        let values = [self.words.load(index), new];
        let used = self.used();
        if records < LIMIT && used < self.limit {
            self.append(used, index, values);
            self.mark(index / BLOCK_WORDS, records + 1);
        } else {
            self.save_rarely(index, values);
        }
    }
}
