//! The snapshotter's side: copies blocks, and puts old values back.

use super::volume::{Index, Link, Restored};
use crate::image::View;
use crate::memory::Words;
use crate::mutant::Mutant;
use crate::sink::BLOCK_WORDS;
use crate::sync::{Arc, Mutex, Ordering, fence};

/// The live words and what is needed to undo their changes. Any number of threads may read it.
#[derive(Debug)]
pub struct Before {
    pub(super) words: Words,
    /// Leads to the volume of this image's begin, which those of later ones follow; nowhere once
    /// the image was given up.
    pub(super) start: Arc<Link>,
    /// Whether no other image was held at begin: only then may what this one has captured be
    /// closed.
    pub(super) alone: bool,
    /// Where the images start that were held at begin, the oldest first.
    pub(super) others: Vec<Arc<Link>>,
    /// Held while volumes are merged.
    pub(super) merging: Arc<Mutex<()>>,
}

impl Before {
    /// Comes between the copy of words and a look at what was saved: if a copied word is newer than
    /// the image, an entry before the end of the log holds its old value (I2;
    /// `litmus/imprint-log`).
    fn fence(index: &Index) {
        if !index.is(Mutant::ImprintNoAcquireFence) {
            fence(Ordering::Acquire);
        }
    }

    /// The volumes that an image is restored from, each with its log indexed, in the order of
    /// begins from `first` on. `end` is that of the first, if it is known. A later volume is looked
    /// for before the end of the log, which is then the last one, and before its entries: so what
    /// is found is the beginning of all that was saved, without a gap, and the oldest entry of a
    /// word among it, though volumes are merged meanwhile.
    fn volumes(first: Arc<Index>, mut end: Option<usize>) -> impl Iterator<Item = Arc<Index>> {
        let mut following = Some(first);
        std::iter::from_fn(move || {
            let index = following.take()?;
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
    fn restore(first: Arc<Index>, block: usize, from: usize, into: &mut [u64], end: Option<usize>) {
        let mut volumes = Self::volumes(first, end);
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

/// An image that was given up leads to no volume, and gives any words: who asked for them looks at
/// the stop next.
impl View for Before {
    fn block(&self, block: usize, into: &mut [u64]) {
        let Some(index) = self.start.follow() else { return };
        let start = block * BLOCK_WORDS;
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
        Self::fence(&index);
        index.keep_ahead(self.words.len());
        Self::restore(index, block, 0, into, early);
    }

    /// The progress shows the writer that it need not save the block, whose mark stays open.
    fn pass(&self, _block: usize, _len: usize) {}

    fn word(&self, index: usize) -> u64 {
        let (block, offset) = (index / BLOCK_WORDS, index % BLOCK_WORDS);
        let Some(first) = self.start.follow() else { return 0 };
        let live = self.words.load(index);
        Self::fence(&first);
        Self::volumes(first, None).find_map(|volume| volume.find(block, offset)).unwrap_or(live)
    }

    fn run(&self, start: usize, into: &mut [u64]) {
        let Some(first) = self.start.follow() else { return };
        let mut at = start;
        let mut rest = into;
        while !rest.is_empty() {
            let (block, from) = (at / BLOCK_WORDS, at % BLOCK_WORDS);
            let (part, others) = rest.split_at_mut(rest.len().min(BLOCK_WORDS - from));
            self.words.copy_to(at, part);
            Self::fence(&first);
            Self::restore(Arc::clone(&first), block, from, part, None);
            at += part.len();
            rest = others;
        }
    }
}

impl Drop for Before {
    /// Lets go of what only this image needed, and of what images that were given up still hold,
    /// and merges the volumes that no image begins in any more: here, since an image ends on a
    /// thread that has the time for it.
    fn drop(&mut self) {
        self.start.end();
        let Ok(_merging) = self.merging.try_lock() else { return }; // another thread does so
        let mut first = None;
        for start in &self.others {
            match start.follow() {
                Some(index) if index.is_lost() => start.end(),
                other => first = first.or(other),
            }
        }
        if let Some(first) = first {
            Index::merge(first);
        }
    }
}
