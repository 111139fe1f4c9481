//! The oracle: makes all updates again in a plain array, after the run, and compares the digests of
//! every image with those of the state at its begin. It shares nothing with an algorithm.

use stillframe::{BLOCK_WORDS, Unit};

use crate::case::workload::{Tick, Ticks, value};
use crate::case::{Case, Verify};
use crate::trial::digest::digest;

/// An image that was captured.
#[derive(Debug)]
pub(crate) struct Taken {
    /// The image holds the state before the updates of this tick.
    pub(crate) tick: u64,
    /// Whether a timed tick began it.
    pub(crate) timed: bool,
    /// The digest of each block as the sink saw it; zero for a block that it did not see.
    pub(crate) digests: Vec<u64>,
}

/// The findings of the oracle.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    pub(crate) verified_images: u32,
    pub(crate) mismatched_words: u64,
    pub(crate) units_per_period: Option<f64>,
    pub(crate) pages_per_period: Option<f64>,
}

/// Compares the images, given in the order in which they were begun. If what is read in the end is
/// given as a last one of them, reads are verified as well.
pub(crate) fn verify(case: &Case, unit: Unit, images: &[Taken], live: Option<Taken>) -> Findings {
    let mut ticks = Ticks::new(case);
    let words = if case.verify == Verify::Off { 0 } else { case.words() };
    let mut state: Vec<u64> = (0..words as u64).map(|index| ticks.initial(index)).collect();
    let mut touched = Touched::new(case, unit);
    let mut findings = Findings::default();
    for image in images.iter().chain(&live) {
        while ticks.number() < image.tick {
            apply(case, ticks.tick(), &mut state, &mut touched);
            ticks.advance(|| ());
        }
        findings.mismatched_words += mismatched_words(case.verify, &state, &image.digests);
        touched.begin_period(image.timed);
    }
    if case.verify != Verify::Off {
        findings.verified_images = u32::try_from(images.len()).unwrap_or(u32::MAX);
    }
    findings.units_per_period = touched.units.mean();
    findings.pages_per_period = touched.pages.mean();
    findings
}

fn apply(case: &Case, tick: &Tick, state: &mut [u64], touched: &mut Touched) {
    for (number, &item) in tick.updates.iter().enumerate() {
        let (item, value) = (item as usize, value(tick.key, number as u64));
        if case.item_bytes == 4 {
            touched.note(item);
            if let Some(word) = state.get_mut(item / 2) {
                let shift = 32 * (item % 2);
                *word = *word & !(u64::from(u32::MAX) << shift) | (value >> 32) << shift;
            }
        } else {
            touched.note_word(item);
            if let Some(word) = state.get_mut(item) {
                *word = value;
            }
        }
    }
}

/// Words in blocks whose digests differ.
fn mismatched_words(verify: Verify, state: &[u64], digests: &[u64]) -> u64 {
    let blocks = state.chunks(BLOCK_WORDS).enumerate();
    let wrong = blocks.filter(|&(block, words)| {
        verify.looks_at(block) && digests.get(block) != Some(&digest(words))
    });
    wrong.map(|(_, words)| words.len() as u64).sum()
}

/// Distinct units and pages of the period under way.
#[derive(Debug)]
struct Touched {
    counting: bool,
    units: Distinct,
    pages: Distinct,
}

impl Touched {
    fn new(case: &Case, unit: Unit) -> Self {
        let distinct = |bytes: usize| Distinct::new(2 * case.words(), bytes / 4);
        Self { counting: false, units: distinct(unit.bytes()), pages: distinct(8 * BLOCK_WORDS) }
    }
    /// Half a word is written.
    fn note(&mut self, half: usize) {
        if self.counting {
            self.units.note(half);
            self.pages.note(half);
        }
    }
    fn note_word(&mut self, word: usize) {
        self.note(2 * word);
        self.note(2 * word + 1);
    }
    /// A period ends, another begins; the one after an untimed image does not count.
    fn begin_period(&mut self, timed: bool) {
        if self.counting {
            self.units.end();
            self.pages.end();
        }
        self.counting = timed;
    }
}

/// Counts distinct units that are written.
#[derive(Debug)]
pub(crate) struct Distinct {
    shift: u32,
    seen: Vec<u64>,
    count: u64,
    total: u64,
    periods: u64,
}

impl Distinct {
    /// For units of so many halves.
    pub(crate) fn new(halves: usize, in_unit: usize) -> Self {
        let seen = vec![0; halves.div_ceil(in_unit).div_ceil(64)];
        Self { shift: in_unit.trailing_zeros(), seen, count: 0, total: 0, periods: 0 }
    }
    pub(crate) fn note(&mut self, half: usize) {
        let unit = half >> self.shift;
        let (bits, bit) = (&mut self.seen[unit / 64], 1 << (unit % 64));
        self.count += u64::from(*bits & bit == 0);
        *bits |= bit;
    }
    /// In the period so far.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }
    fn end(&mut self) {
        self.total += std::mem::take(&mut self.count);
        self.periods += 1;
        self.seen.fill(0);
    }
    fn mean(&self) -> Option<f64> {
        (self.periods > 0).then(|| self.total as f64 / self.periods as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The digests of a state at tick 3, with one block wrong and one missing.
    #[test]
    fn what_differs_is_found() {
        let case = Case { size_bytes: 10_000, updates_per_tick: 100, ..Case::default() };
        let mut ticks = Ticks::new(&case);
        let mut state: Vec<u64> = (0..1250).map(|index| ticks.initial(index)).collect();
        let mut touched = Touched::new(&case, Unit::Word);
        for _ in 0..3 {
            apply(&case, ticks.tick(), &mut state, &mut touched);
            ticks.advance(|| ());
        }
        let right: Vec<u64> = state.chunks(BLOCK_WORDS).map(digest).collect();
        let found = |tick, digests: Vec<u64>| {
            let images = [Taken { tick, timed: true, digests }];
            verify(&case, Unit::Word, &images, None).mismatched_words
        };
        assert_eq!(found(3, right.clone()), 0);
        assert_eq!(found(3, vec![right[0], right[1] ^ 1, right[2]]), 512);
        assert_eq!(found(3, vec![right[0], right[1], 0]), 1250 - 1024);
        assert_eq!(found(3, right[..2].to_vec()), 1250 - 1024);
        assert_eq!(found(2, right), 1250);
    }

    #[test]
    fn a_period_counts_each_unit_once() {
        let case = Case { size_bytes: 3 * 4096, ..Case::default() };
        let mut touched = Touched::new(&case, Unit::Line);
        touched.note_word(0);
        touched.begin_period(true);
        for word in [0, 1, 7, 8, 511, 512, 0] {
            touched.note_word(word);
        }
        touched.begin_period(true);
        touched.note_word(3);
        touched.begin_period(false);
        touched.note_word(900);
        touched.begin_period(true);
        assert_eq!(touched.units.mean(), Some(2.5));
        assert_eq!(touched.pages.mean(), Some(1.5));
    }

    #[test]
    fn halves_of_a_word_are_two_units_where_units_are_halves() {
        for (unit, items, words) in [(Unit::Half, 3.0, 4.0), (Unit::Word, 2.0, 2.0)] {
            let mut touched = Touched::new(&Case::default(), unit);
            touched.begin_period(true);
            [6, 7, 9, 7].into_iter().for_each(|half| touched.note(half));
            touched.begin_period(true);
            assert_eq!(touched.units.mean(), Some(items), "{unit:?}");
            [3, 4].into_iter().for_each(|word| touched.note_word(word));
            touched.begin_period(false);
            assert_eq!(touched.units.mean(), Some((items + words) / 2.0), "{unit:?}");
        }
    }
}
