//! Writes of a batch: the records of its words are appended together and published once, behind one
//! fence, and then the words are stored.
//!
//! What a batch gains is that all its loads come before all its stores. The processor then waits
//! for many words at once, as it does for stores alone; a load and a store in turns wait for each
//! other (`docs/imprint.md`).
//!
//! A word that comes twice in a batch gets two records of the same value, or none: the oldest is
//! the image's, as ever (I3). A frame among them holds its block before any store of the batch.

use super::{CLOSED, ENTRY, Imprint, LIMIT};
use crate::mutant::Mutant;
use crate::sink::BLOCK_WORDS;
use crate::sync::Ordering;

/// Writes that go together: their lines must find room in the first cache until they are stored.
const BATCH: usize = if BLOCK_WORDS == 512 { 256 } else { 2 };
/// Words are asked for so many writes before they are loaded.
const AHEAD: usize = 32;

impl Imprint {
    /// Replaces words, all of them in bounds.
    pub(super) fn replace_many(&mut self, writes: &[(usize, u64)]) {
        for batch in writes.chunks(BATCH) {
            if self.span != 0 {
                self.save_many(batch);
            }
            for &(index, value) in batch {
                self.words.store(index, value);
            }
        }
    }

    /// Saves the words that a batch is about to replace, where images need them.
    fn save_many(&mut self, batch: &[(usize, u64)]) {
        let mut used = self.used();
        if used + ENTRY * batch.len() > self.limit {
            self.refresh();
        }
        let (mut rest, mut published) = (batch, used);
        if self.handover().is(Mutant::ImprintFencesBeforeBatch) {
            self.publish(used);
        }
        while let [(index, value), behind @ ..] = rest
            && used + ENTRY * rest.len() <= self.room
        {
            if let Some(&(next, _)) = rest.get(AHEAD) {
                self.words.prefetch(next);
            }
            let mark = self.volume.marks.of(index / BLOCK_WORDS);
            // Acquire: as in `replace`.
            let records = mark.get(Ordering::Acquire);
            if records < LIMIT {
                if self.handover().is(Mutant::ImprintPublishesBatchEarly) {
                    self.publish(used + ENTRY);
                }
                self.volume.log.store_pair(used, [self.words.load(*index), *index as u64]);
                mark.set(records + 1, Ordering::Relaxed);
                used += ENTRY;
            } else if records != CLOSED {
                // It gets a frame, behind the records.
                if used != published {
                    self.publish(used);
                }
                self.save_one(*index, *value);
                used = self.used();
                published = used;
            }
            rest = behind;
        }
        if self.handover().is(Mutant::ImprintFencesBeforeBatch) {
            self.handover().note_arena(used);
        } else if used != published {
            self.publish(used);
        }
        // There is little room: the budget decides about each.
        rest.iter().for_each(|&(index, value)| self.save_one(index, value));
    }

    /// Saves a word that is about to become `new`, unless no image needs it.
    fn save_one(&mut self, index: usize, new: u64) {
        let records = self.volume.marks.of(index / BLOCK_WORDS).get(Ordering::Acquire);
        if self.span != 0 && records != CLOSED {
            self.save_rarely(index, [self.words.load(index), new]);
        }
    }
}
