//! Writes of a batch: the records of its words are appended together and published once, behind one
//! fence, and then the words are stored.
//!
//! What a batch gains is that all its loads come before all its stores, and that each word is asked
//! for long before it is loaded. The processor then waits for many words at once, as it does for
//! stores alone; a load and a store in turns wait for each other (`docs/internals/imprint.md`).
//!
//! A word that comes twice in a batch gets two records of the same value, or none: the oldest is
//! the image's, as ever (I3). A frame among them holds its block before any store of the batch.

use super::{CLOSED, ENTRY, Imprint, LIMIT};
use crate::algorithm::GROUP;
use crate::mutant::Mutant;
use crate::sink::BLOCK_WORDS;
use crate::sync::Ordering;

impl Imprint {
    /// Replaces words, all of them in bounds.
    pub(super) fn replace_many(&mut self, writes: &[(usize, u64)]) {
        for group in writes.chunks(GROUP) {
            if self.span != 0 {
                self.save_many(group);
            }
            let words = self.words.as_slice();
            for &(index, value) in group {
                words[index].store(value, Ordering::Relaxed);
            }
        }
    }

    /// Saves the words that a group is about to replace, where images need them.
    ///
    /// All marks and words are asked for before any is looked at: the processor then waits for as
    /// many at once as it can (`docs/internals/imprint.md` has what other orders cost).
    fn save_many(&mut self, group: &[(usize, u64)]) {
        for (index, _) in group {
            self.volume.marks.prefetch(index / BLOCK_WORDS);
            self.words.prefetch(*index);
        }
        // The places of the writes whose block is not closed, chosen without a branch: half of the
        // guesses would be wrong in the middle of an image.
        let (mut places, mut count) = ([0_u8; GROUP], 0);
        let marks = self.volume.marks.all();
        for (place, (index, _)) in group.iter().enumerate() {
            places[count] = place as u8;
            // Acquire: as in `replace`.
            let records = marks.at(index / BLOCK_WORDS).get(Ordering::Acquire);
            count += usize::from(records != CLOSED);
        }
        let mut rest = &places[..count];
        if self.used() + ENTRY * count > self.reach.len() {
            self.refresh();
        }
        while self.span != 0 {
            rest = &rest[self.append_many(group, rest)..];
            let [place, behind @ ..] = rest else { return };
            // It is to get a frame, or there is little room, and the budget decides about it.
            let (index, value) = group[usize::from(*place)];
            self.save_one(index, value);
            rest = behind;
        }
    }

    /// Appends the records of the writes of a group at `places`, up to the first whose block is to
    /// get a frame, and as many as there is room for. Returns how many places that were.
    ///
    /// What the loop needs is at hand in registers: from memory it would be loaded again after each
    /// atomic store.
    fn append_many(&self, group: &[(usize, u64)], places: &[u8]) -> usize {
        let used = self.used();
        let room = self.room.saturating_sub(used).min(ENTRY * places.len());
        let (entries, _) = self.volume.log.range(used, room).as_chunks::<ENTRY>();
        let (words, marks) = (self.words.as_slice(), self.volume.marks.all());
        if self.handover().is(Mutant::ImprintFencesBeforeBatch) {
            self.publish(used);
        }
        let mut end = used;
        for (place, entry) in places.iter().zip(entries) {
            let (index, _) = group[usize::from(*place)];
            let mark = marks.at(index / BLOCK_WORDS);
            // Acquire: as in `replace`, for a mark that was closed meanwhile.
            let records = mark.get(Ordering::Acquire);
            if records >= LIMIT {
                break;
            }
            if self.handover().is(Mutant::ImprintPublishesBatchEarly) {
                self.publish(end + ENTRY);
            }
            entry[0].store(words[index].load(Ordering::Relaxed), Ordering::Relaxed);
            entry[1].store(index as u64, Ordering::Relaxed);
            mark.set(records + 1, Ordering::Relaxed);
            end += ENTRY;
        }
        if self.handover().is(Mutant::ImprintFencesBeforeBatch) {
            self.handover().note_arena(end);
        } else if end != used {
            self.publish(end);
        }
        (end - used) / ENTRY
    }

    /// Saves a word that is about to become `new`, unless no image needs it.
    fn save_one(&mut self, index: usize, new: u64) {
        let records = self.volume.marks.at(index / BLOCK_WORDS).get(Ordering::Acquire);
        if self.span != 0 && records != CLOSED {
            self.save_rarely(index, [self.words.load(index), new]);
        }
    }
}
