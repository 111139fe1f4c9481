//! Copy-on-Update, latched: `cou`, `cou-reset` and, bit-packed, `bacou`. Sources: Li et al., "A
//! Comparative Study of Consistent Snapshot Algorithms for Main-Memory Database Systems", section
//! 3.1.2; Cao et al., "Fast Checkpoint Recovery Algorithms for Frequently Consistent Applications",
//! section 4.1 (BACOU).
//!
//! Idea: the first write of a unit during an image copies the whole unit, with its old values, into
//! a shadow; later ones write freely. The capture takes the shadow of the units that were copied
//! and the live words of all others. A latch a unit keeps a writer's first touch and the capture's
//! look apart.
//!
//! - Memory: 2 copies, and a word (`cou`), a byte (`cou-reset`) or two bits (`bacou`) a unit. Full
//!   image.
//! - Unit: word, line or page; all of it is saved, so partial writes need no care.
//! - Begin: O(1) for `cou`: a unit's state carries the number of its image, and one of an older
//!   image counts as free. The numbers only rise and have 62 bits. The papers reset the states:
//!   `cou-reset` a byte a unit, for figures that judge Li et al.'s algorithm; `bacou` 32 units at a
//!   time, as Cao et al. do. Write: a load and a branch; on first touch the latch and a copy. Read:
//!   nothing; but `bacou` interleaves live and shadow units, which costs two shifts.
//! - A unit is *free*, *latched*, *copied* (its shadow is its image) or *saved* (captured).
//! - C1: only who holds the latch touches the live words of a free unit for the image; each latch
//!   is held for a copy of one unit (`bacou`: for the copy of at most 32 units within a block).
//! - C2: copied and saved last until the image ends, and from then on no thread reads the unit's
//!   live words for the image: the writer needs no latch.
//! - C3: what the writer stores follows in its program after it saw or made its unit copied or
//!   saved.
//! - C4: only the writer makes a unit copied, only the capture makes it saved.
//!
//! The cases for a first write that races with the capture: the writer latches first: the capture
//! waits for the latch and finds the unit copied, and its Acquire meets the Release that let go, so
//! it sees the whole shadow. The capture latches first: its loads precede the Release that made the
//! unit saved, which the writer's Acquire meets before it stores (C3). A look outside the latch
//! that says *free* is a hint; the exchange that takes the latch looks again.
//!
//! Deviations: the writer need not distinguish copied from saved, so three bits become two;
//! O(1) begin for `cou`, where the papers reset the bits; the unit's state is looked at only while
//! an image is wanted; the writer's own reads take no latch, since nothing changes behind its back
//! (Cao et al. latch "the blocks it references").

use std::ops::Range;

use crate::algorithm::{Algorithm, New, write_by_replace};
use crate::error::{BeginError, MemoryError};
use crate::handover::{Handover, Progress};
use crate::image::{Held, InProcess, Lease, View};
use crate::info::Info;
use crate::memory::{Item, Words, out_of_bounds};
use crate::mutant::Mutant;
use crate::options::Options;
use crate::os::Shared;
use crate::point::Point;
use crate::sink::{BLOCK_WORDS, Sink};
use crate::sync::Ordering;

mod states;

use states::{COPIED, FREE, Home, States, home};
pub use states::{Cleared, Packed, Stamped};

/// Copy-on-Update with a state word a unit and the shadow in an array of its own.
pub type Cou = CopyOnUpdate<Stamped>;
/// Copy-on-Update with a byte a unit, reset at begin: the papers' cost of begin.
pub type CouReset = CopyOnUpdate<Cleared>;
/// Copy-on-Update with two bits a unit and each unit's shadow beside it.
pub type Bacou = CopyOnUpdate<Packed>;

/// State words with copy-on-update; `S` is where the units' states lie.
#[derive(Debug)]
pub struct CopyOnUpdate<S> {
    homes: Homes,
    states: S,
    handover: Shared<Handover>,
    /// Words of state.
    words: usize,
    max_words: usize,
    /// Words of the image under way.
    image_words: usize,
    /// Whether a write may have to save its unit.
    active: bool,
}

/// The live words and their shadow.
#[derive(Debug)]
struct Homes {
    live: Words,
    /// The same memory as `live` if interleaved.
    shadow: Words,
    /// A unit is `1 << shift` words.
    shift: u32,
    interleaved: bool,
}

impl Homes {
    /// Words of memory that `words` words of state take.
    fn spread(words: usize, shift: u32, interleaved: bool) -> usize {
        if interleaved { words.div_ceil(1 << shift).saturating_mul(2 << shift) } else { words }
    }
    fn create(options: &Options, shift: u32, interleaved: bool) -> Result<Self, MemoryError> {
        let spacious = options.resized(|words| Self::spread(words, shift, interleaved));
        let live = Words::create(&spacious)?;
        let shadow = if interleaved { live.view() } else { Words::create(&spacious)? };
        Ok(Self { live, shadow, shift, interleaved })
    }
    fn grow(&mut self, words: usize) -> Result<(), MemoryError> {
        let spread = Self::spread(words, self.shift, self.interleaved);
        if !self.interleaved {
            self.shadow.grow(spread)?;
        }
        self.live.grow(spread)?;
        if self.interleaved {
            self.shadow = self.live.view();
        }
        Ok(())
    }
    fn view(&self) -> Self {
        let (live, shadow) = (self.live.view(), self.shadow.view());
        Self { live, shadow, ..*self }
    }
    /// Where a live word lies.
    #[inline]
    fn live_at(&self, index: usize) -> usize {
        if self.interleaved { index + (index >> self.shift << self.shift) } else { index }
    }
    /// Where the shadow of a word lies.
    #[inline]
    fn shadow_at(&self, index: usize) -> usize {
        self.live_at(index) + if self.interleaved { 1 << self.shift } else { 0 }
    }
    /// Brings a word and its shadow near.
    #[inline]
    fn prefetch(&self, index: usize) {
        self.live.prefetch(self.live_at(index));
        self.shadow.prefetch(self.shadow_at(index));
    }
    /// Copies `words`, which lie in one unit, into the shadow.
    fn save(&self, words: Range<usize>) {
        let (to, from) = (self.shadow_at(words.start), self.live_at(words.start));
        self.shadow.copy_from(to, &self.live, from, words.len());
    }
    /// Copies the words from `index` on, which lie in one unit, out of one of its homes.
    #[inline]
    fn copy_to(&self, home: Home, index: usize, into: &mut [u64]) {
        let (words, at) = match home {
            Home::Live => (&self.live, self.live_at(index)),
            Home::Shadow => (&self.shadow, self.shadow_at(index)),
        };
        match into {
            [word] => *word = words.load(at), // the only one of the unit, as a rule
            into => words.copy_to(at, into),
        }
    }
}

// SAFETY: the conformance suite proves it.
unsafe impl<S: States> Algorithm for CopyOnUpdate<S> {
    type Image<K: Sink + 'static> = InProcess<K, Frozen<S>>;
    const INFO: Info = S::INFO;

    fn create(options: &Options) -> Result<Self, MemoryError> {
        let shift = Self::INFO.unit(options.unit).words().trailing_zeros();
        Ok(Self {
            homes: Homes::create(options, shift, S::INTERLEAVED)?,
            states: S::create(options, shift)?,
            handover: Shared::new(Handover::new())?,
            words: options.words,
            max_words: options.max_words.max(options.words),
            image_words: 0,
            active: false,
        })
    }

    fn words(&self) -> usize {
        self.words
    }

    fn grow(&mut self, words: usize) -> Result<(), MemoryError> {
        if words > self.max_words {
            return Err(MemoryError::Reserved { words, reserved: self.max_words });
        }
        self.states.grow(words.div_ceil(1 << self.homes.shift))?;
        self.homes.grow(words)?;
        self.words = self.words.max(words);
        Ok(())
    }

    #[inline]
    fn read(&self, index: usize) -> u64 {
        self.homes.live.load(self.position(index))
    }

    write_by_replace!(in_place);

    #[inline]
    fn approach(&self, index: usize) {
        if self.active {
            self.homes.prefetch(index);
            self.states.prefetch(index >> self.homes.shift);
        } else {
            self.homes.live.prefetch(self.homes.live_at(index));
        }
    }

    fn begin<K: Sink + 'static>(
        &mut self,
        _point: Point,
        sink: K,
    ) -> Result<InProcess<K, Frozen<S>>, BeginError> {
        self.handover.check_idle()?;
        if !self.handover.is(Mutant::CouKeepsOldBits) {
            self.states.begin();
        }
        self.image_words = self.words;
        self.active = true;
        let frozen = Frozen {
            homes: self.homes.view(),
            states: self.states.view(),
            handover: self.handover.clone(),
        };
        let lease = Lease::publish(&self.handover, self.words);
        Ok(InProcess::new(frozen, Held::new(sink, lease)))
    }

    fn progress(&self) -> Progress {
        Progress::new(&self.handover)
    }
}

/// The order in which a latch is let go.
fn release_order(handover: &Handover) -> Ordering {
    if handover.is(Mutant::CouRelaxedRelease) { Ordering::Relaxed } else { Ordering::Release }
}

impl<S: States> CopyOnUpdate<S> {
    /// Where a word lies. Panics if it is out of bounds.
    #[inline]
    fn position(&self, index: usize) -> usize {
        if index >= self.words {
            out_of_bounds(index, self.words);
        }
        if S::INTERLEAVED { self.homes.live_at(index) } else { index }
    }

    /// Replaces a word, or half of one, and first saves its unit if the image needs that. A thread
    /// that reads live words of the unit holds its latch, so stores of halves race with no one.
    #[inline(always)]
    fn replace<T: Item>(&mut self, index: usize, new: impl New<T>) {
        let word = index / T::PER_WORD;
        let at = self.position(word) * T::PER_WORD + index % T::PER_WORD;
        let new = new.resolve(|| T::load(&self.homes.live, at));
        if self.active && !self.states.is_done(word >> self.homes.shift) {
            if self.handover.is(Mutant::CouSavesNewValue) {
                T::store(&self.homes.live, at, new);
            }
            self.active = self.first_touch(word);
        }
        T::store(&self.homes.live, at, new);
    }

    /// Saves the unit of word `index`, which is about to be replaced, unless the capture has it.
    /// Returns whether later writes must look, too.
    #[cold]
    #[inline(never)]
    fn first_touch(&self, index: usize) -> bool {
        if !self.handover.running() {
            return false;
        }
        let unit = index >> self.homes.shift;
        // The exchange below waits for every load before it and holds up every one after it.
        self.homes.prefetch(index);
        if self.states.latch(unit) != FREE {
            return true;
        }
        let start = unit << self.homes.shift;
        // A unit added after begin has nothing to save.
        let end = (start + (1 << self.homes.shift)).min(self.image_words).max(start);
        self.homes.save(start..end);
        self.states.release(unit, COPIED, release_order(&self.handover));
        true
    }
}

/// The snapshotter's side.
#[derive(Debug)]
pub struct Frozen<S> {
    homes: Homes,
    states: S,
    handover: Shared<Handover>,
}

impl<S: States> View for Frozen<S> {
    fn block(&self, block: usize, into: &mut [u64]) {
        let (start, shift) = (block * BLOCK_WORDS, self.homes.shift);
        let end = start + into.len();
        let units = start >> shift..end.div_ceil(1 << shift);
        let mut take = |unit: usize, home| {
            let first = unit << shift;
            let last = end.min(first + (1 << shift));
            self.homes.copy_to(home, first, &mut into[first - start..last - start]);
        };
        if self.handover.is(Mutant::CouSkipsLatch) {
            let look = |unit| if self.states.is_done(unit) { Home::Shadow } else { Home::Live };
            return units.for_each(|unit| take(unit, look(unit)));
        }
        self.states.save(units, release_order(&self.handover), take);
    }

    /// The writer goes on to save the units of the block, which will not be read.
    fn pass(&self, _block: usize, _len: usize) {}

    fn word(&self, index: usize) -> u64 {
        let unit = index >> self.homes.shift;
        let state = self.states.latch(unit);
        let mut word = [0];
        self.homes.copy_to(home(state), index, &mut word);
        if state == FREE {
            self.states.release(unit, FREE, release_order(&self.handover));
        }
        word[0]
    }
}
