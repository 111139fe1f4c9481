//! The snapshotter's side: copies blocks, sorts the log by block, and puts old values back.

use std::cell::Cell;

use super::{CLOSED, ENTRY, FRAME, Imprint};
use crate::handover::Handover;
use crate::image::View;
use crate::memory::{Tags, Words};
use crate::mutant::Mutant;
use crate::os::Shared;
use crate::sink::BLOCK_WORDS;
use crate::sync::{Ordering, fence};

/// Words of log that the process keeps between images (1 MiB).
const KEPT_WORDS: usize = 1 << 17;
/// Log that is made resident ahead of the writer, which then pays for no first touches: this part
/// of the state, at most `AHEAD_WORDS_MAX` words (4 MiB), a chunk at a time.
const AHEAD_PART: usize = 64;
const AHEAD_WORDS_MAX: usize = 1 << 19;
const CHUNK_WORDS: usize = 1 << 15;
/// In a link: the entry is a frame.
const WHOLE: u64 = 1 << 15;

const _: () = assert!(BLOCK_WORDS <= 1 << 15);

/// The live words and what is needed to undo their changes.
///
/// The index: a block's head is the position of its newest entry, and the second word of an indexed
/// entry is a link, `next << 16 | offset`, where `next` is the position of the block's entry before
/// in the log plus one, or 0, and `offset` that of the word in the block, or `WHOLE`.
#[derive(Debug)]
pub struct Before {
    words: Words,
    log: Words,
    heads: Words,
    /// Position of the log's first word in this image (I5).
    base: u64,
    /// Words of the log that are indexed.
    indexed: Cell<usize>,
    /// Words of the log that are resident, or used.
    resident: Cell<usize>,
    marks: Tags,
    next_marks: Tags,
    handover: Shared<Handover>,
}

impl Before {
    pub(super) fn new(state: &Imprint) -> Self {
        Self {
            words: state.words.view(),
            log: state.log.view(),
            heads: state.heads.view(),
            base: state.base,
            indexed: Cell::new(0),
            resident: Cell::new(0),
            marks: state.marks.view(),
            next_marks: state.next_marks.view(),
            handover: state.handover.clone(),
        }
    }

    /// The end of the log after the caller has copied words: if a copied word is newer than the
    /// image, an entry before this end holds its old value (I2; `litmus/imprint-log`).
    fn end_after_copy(&self) -> usize {
        if !self.handover.is(Mutant::ImprintNoAcquireFence) {
            fence(Ordering::Acquire);
        }
        self.handover.arena_words()
    }

    /// Closes the mark of a block that is copied and handed over (I5). Release: partner of the
    /// writer's load of the mark. The copy's loads come before, so none of them reads a word that
    /// the writer stores because it saw the mark (`litmus/imprint-close`).
    fn close(&self, block: usize) {
        self.marks.of(block).set(CLOSED, Ordering::Release);
    }

    /// Indexes the log up to `end`.
    fn index(&self, end: usize) {
        let mut at = self.indexed.get();
        while at < end {
            let key = self.log.load(at + 1);
            let (block, offset, words) = if key & FRAME == 0 {
                let index = key as usize;
                (index / BLOCK_WORDS, (index % BLOCK_WORDS) as u64, ENTRY)
            } else {
                ((key & !FRAME) as usize, WHOLE, ENTRY + BLOCK_WORDS)
            };
            self.log.store(at + 1, self.position(block) << 16 | offset);
            self.heads.store(block, self.base + at as u64);
            at += words;
        }
        self.indexed.set(at);
    }

    /// Place of a block's newest indexed entry plus one, or 0 if it has none in this image.
    fn position(&self, block: usize) -> u64 {
        let head = self.heads.load(block);
        if head < self.base { 0 } else { head - self.base + 1 }
    }

    /// Puts back what the index has of a block, newest to oldest: the oldest wins (I3, I4).
    fn restore(&self, block: usize, buffer: &mut [u64]) {
        let mut position = self.position(block);
        while position != 0 {
            let at = position as usize - 1;
            let link = self.log.load(at + 1);
            let offset = link & 0xffff;
            if offset == WHOLE {
                self.log.copy_to(at + ENTRY, buffer);
            } else if let Some(word) = buffer.get_mut(offset as usize) {
                *word = self.log.load(at);
            } // else a word added after begin
            let alone = self.handover.is(Mutant::ImprintAppliesNewestOnly)
                || self.handover.is(Mutant::ImprintFrameWithoutChain) && offset == WHOLE;
            // Links lead back, so this ends whatever the log holds.
            position = if alone || link >> 16 >= position { 0 } else { link >> 16 };
        }
    }

    /// Makes another chunk of the log resident if the writer will soon need it.
    fn keep_ahead(&self, end: usize) {
        let ahead = (self.words.len() / AHEAD_PART).min(AHEAD_WORDS_MAX);
        let resident = self.resident.get().max(end);
        let until = (resident + CHUNK_WORDS).min(self.log.len());
        if until <= end + ahead && resident < until {
            self.log.populate(resident, until);
            self.resident.set(until);
        }
    }
}

impl View for Before {
    fn block(&self, block: usize, into: &mut [u64]) {
        let start = block * BLOCK_WORDS;
        if self.handover.is(Mutant::ImprintPublishesCursorEarly) {
            self.handover.advance(start + into.len());
        }
        let closes_early = self.handover.is(Mutant::ImprintClosesEarly);
        if let Some(captured) = if closes_early { Some(block) } else { block.checked_sub(1) } {
            self.close(captured);
        }
        let first = self.handover.is(Mutant::ImprintReadsEndFirst);
        let early = first.then(|| self.handover.arena_words());
        self.words.copy_to(start, into);
        let end = early.unwrap_or_else(|| self.end_after_copy());
        self.index(end);
        self.restore(block, into);
        self.keep_ahead(end);
    }

    /// The progress shows the writer that it need not save the block, whose mark stays open.
    fn pass(&self, _block: usize, _len: usize) {}

    fn word(&self, index: usize) -> u64 {
        let mut buffer = [0; BLOCK_WORDS];
        let block = index / BLOCK_WORDS;
        let offset = index % BLOCK_WORDS;
        buffer[offset] = self.words.load(index);
        self.index(self.end_after_copy());
        self.restore(block, &mut buffer);
        buffer[offset]
    }
}

impl Drop for Before {
    /// The image is over: nothing reads its log again, and the writer does not look at the marks of
    /// the next image before the next begin. The writer may not know of the end yet and still
    /// append: a record that then reads as zero does no harm.
    fn drop(&mut self) {
        self.handover.end_early(Mutant::ImprintEndsBeforeClear);
        self.next_marks.clear();
        self.log.release(KEPT_WORDS);
    }
}
