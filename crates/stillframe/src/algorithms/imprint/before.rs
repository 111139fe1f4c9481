//! The snapshotter's side: copies blocks, and puts old values back.

use super::volume::{Index, Restored, Volume};
use crate::image::View;
use crate::memory::Words;
use crate::mutant::Mutant;
use crate::sink::BLOCK_WORDS;
use crate::sync::{Arc, Ordering, fence};

/// The live words and what is needed to undo their changes. Any number of threads may read it.
#[derive(Debug)]
pub struct Before {
    words: Words,
    /// The volume of this image's begin; those of later ones follow.
    index: Arc<Index>,
    /// Whether no other image was held at begin: only then may what this one has captured be
    /// closed.
    alone: bool,
}

impl Before {
    pub(super) fn new(words: &Words, volume: &Volume, alone: bool) -> Self {
        Self { words: words.view(), index: Arc::new(Index::new(volume)), alone }
    }

    pub(super) fn index(&self) -> &Arc<Index> {
        &self.index
    }

    /// Comes between the copy of words and a look at what was saved: if a copied word is newer than
    /// the image, an entry before the end of the log holds its old value (I2;
    /// `litmus/imprint-log`).
    fn fence(&self) {
        if !self.index.is(Mutant::ImprintNoAcquireFence) {
            fence(Ordering::Acquire);
        }
    }

    /// The volumes that the image is restored from, each with its log indexed, in the order of
    /// begins. `end` is that of the first, if it is known. A later volume is looked for before the
    /// end of the log, which is then the last one: so what is found is the beginning of all that
    /// was saved, without a gap, and the oldest entry of a word among it.
    fn volumes(&self, mut end: Option<usize>) -> impl Iterator<Item = &Index> {
        let mut following = Some(&*self.index);
        std::iter::from_fn(move || {
            let index = following?;
            following = index.next();
            index.extend(end.take().unwrap_or_else(|| index.end()));
            if index.is(Mutant::ImprintLooksForVolumesLast) {
                following = index.next();
            }
            if index.is(Mutant::ImprintForgetsLaterVolumes) {
                following = None;
            }
            Some(index)
        })
    }

    /// Puts the old values of words of a block back into their copy, from offset `from` on.
    fn restore(&self, block: usize, from: usize, into: &mut [u64], end: Option<usize>) {
        let mut volumes = self.volumes(end);
        let Some(ours) = volumes.next() else { return };
        let Some(next) = volumes.next() else { return ours.restore(block, from, into) };
        let mut restored = Restored::default();
        for volume in [ours, next].into_iter().chain(volumes) {
            if volume.is(Mutant::ImprintNewestVolumeWins) {
                restored = Restored::default();
            }
            volume.restore_rest(block, from, into, &mut restored);
        }
    }
}

impl View for Before {
    fn block(&self, block: usize, into: &mut [u64]) {
        let start = block * BLOCK_WORDS;
        let index = &*self.index;
        if index.is(Mutant::ImprintPublishesCursorEarly) {
            index.handover().advance(start + into.len());
        }
        let closes_early = index.is(Mutant::ImprintClosesEarly);
        let captured = if closes_early { Some(block) } else { block.checked_sub(1) };
        if let Some(captured) = captured
            && (self.alone || index.is(Mutant::ImprintClosesForOthers))
        {
            index.close(captured);
        }
        let early = index.is(Mutant::ImprintReadsEndFirst).then(|| index.end());
        self.words.copy_to(start, into);
        self.fence();
        self.restore(block, 0, into, early);
        index.keep_ahead(self.words.len());
    }

    /// The progress shows the writer that it need not save the block, whose mark stays open.
    fn pass(&self, _block: usize, _len: usize) {}

    fn word(&self, index: usize) -> u64 {
        let (block, offset) = (index / BLOCK_WORDS, index % BLOCK_WORDS);
        let live = self.words.load(index);
        self.fence();
        self.volumes(None).find_map(|volume| volume.find(block, offset)).unwrap_or(live)
    }

    fn run(&self, start: usize, into: &mut [u64]) {
        let mut at = start;
        let mut rest = into;
        while !rest.is_empty() {
            let (block, from) = (at / BLOCK_WORDS, at % BLOCK_WORDS);
            let (part, others) = rest.split_at_mut(rest.len().min(BLOCK_WORDS - from));
            self.words.copy_to(at, part);
            self.fence();
            self.restore(block, from, part, None);
            at += part.len();
            rest = others;
        }
    }
}
