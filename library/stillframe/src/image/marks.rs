//! Which words of a block changed, as bits.

use std::ops::Range;

use crate::info::Grain;
use crate::sink::BLOCK_WORDS;

/// Groups of 64 words in a block; the model checkers' blocks are smaller than one.
const GROUPS: usize = BLOCK_WORDS.div_ceil(64);
const GROUP_WORDS: usize = BLOCK_WORDS / GROUPS;

/// One bit for each word of a block: whether it changed since the image before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Marks([u64; GROUPS]);

impl Marks {
    pub(crate) const ALL: Self = Self([u64::MAX; GROUPS]);

    /// The marks of one word after the other.
    pub(crate) fn of_words(marks: impl Iterator<Item = bool>) -> Self {
        let mut groups = [0; GROUPS];
        for (word, mark) in marks.enumerate() {
            groups[word / 64] |= u64::from(mark) << (word % 64);
        }
        Self(groups)
    }

    /// The words of `block` whose unit, of `1 << shift` words, is flagged: `flags(i)` gives the
    /// flags of units `64 * i..64 * i + 64`.
    #[inline]
    pub(crate) fn of_units(block: usize, shift: u32, flags: impl Fn(usize) -> u64) -> Self {
        let units = (GROUP_WORDS >> shift).max(1); // in a group; a power of two
        Self(std::array::from_fn(|group| {
            let first = (block * BLOCK_WORDS + group * GROUP_WORDS) >> shift;
            let flags = flags(first / 64) >> (first % 64) & low(units);
            if shift == 0 { flags } else { spread(flags, 1 << shift) }
        }))
    }

    /// The words of `block` of which a unit is flagged, and for `whole` all of it: `flags(i)` gives
    /// the flags of units `64 * i..64 * i + 64`.
    #[inline]
    pub(crate) fn from_flags(
        block: usize,
        grain: Grain,
        whole: bool,
        flags: impl Fn(usize) -> u64,
    ) -> Self {
        if grain.halves {
            Self::of_halves(block, whole, flags)
        } else {
            Self::of_units(block, grain.shift, flags)
        }
    }

    fn of_halves(block: usize, whole: bool, flags: impl Fn(usize) -> u64) -> Self {
        // What 64 flags say of 32 words.
        let words = |half: usize| {
            let flags = flags(half / 64) >> (half % 64);
            squeeze(if whole { flags & flags >> 1 } else { flags | flags >> 1 })
        };
        Self(std::array::from_fn(|group| {
            let first = 2 * (block * BLOCK_WORDS + group * GROUP_WORDS);
            let high = if GROUP_WORDS > 32 { words(first + 64) << 32 } else { 0 };
            (words(first) | high) & low(GROUP_WORDS)
        }))
    }

    /// What is marked here and not there.
    pub(crate) fn without(self, other: Self) -> Self {
        Self(std::array::from_fn(|group| self.0[group] & !other.0[group]))
    }

    /// Whether each of the first `len` words is marked.
    #[inline]
    pub(crate) fn are_all(&self, len: usize) -> bool {
        self.find(0, len, u64::MAX) == len
    }

    /// Whether a word is marked.
    pub(crate) fn has(&self, word: usize) -> bool {
        self.0[word / 64] >> (word % 64) & 1 != 0
    }

    /// The runs of marked words among the first `len`, in order.
    #[inline]
    pub(crate) fn runs(self, len: usize) -> impl Iterator<Item = Range<usize>> {
        let mut at = 0;
        std::iter::from_fn(move || {
            let start = self.find(at, len, 0);
            at = self.find(start, len, u64::MAX);
            (start < len).then_some(start..at)
        })
    }

    /// The first word from `at` on whose mark differs from `flip`'s bits, or `len`. Looks at 64
    /// words at a time.
    #[inline]
    fn find(&self, mut at: usize, len: usize, flip: u64) -> usize {
        while at < len {
            let rest = (self.0[at / 64] ^ flip) >> (at % 64);
            if rest != 0 {
                return len.min(at + rest.trailing_zeros() as usize);
            }
            at = (at / 64 + 1) * 64;
        }
        len
    }
}

/// The lowest `count` bits, at most 64.
#[inline]
pub(crate) fn low(count: usize) -> u64 {
    u64::MAX >> (64 - count)
}

/// Every second bit, side by side.
fn squeeze(bits: u64) -> u64 {
    let mut bits = bits & 0x5555_5555_5555_5555;
    bits = (bits | bits >> 1) & 0x3333_3333_3333_3333;
    bits = (bits | bits >> 2) & 0x0f0f_0f0f_0f0f_0f0f;
    bits = (bits | bits >> 4) & 0x00ff_00ff_00ff_00ff;
    bits = (bits | bits >> 8) & 0x0000_ffff_0000_ffff;
    (bits | bits >> 16) & 0xffff_ffff
}

/// Each bit `width` times; what does not fit in a group falls off.
fn spread(mut bits: u64, width: usize) -> u64 {
    if width >= 64 {
        return if bits & 1 == 0 { 0 } else { u64::MAX };
    }
    let mut wide = 0;
    while bits != 0 {
        wide |= low(width) << (bits.trailing_zeros() as usize * width);
        bits &= bits - 1;
    }
    wide
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_what_is_marked() {
        let marked = |word: usize| word.is_multiple_of(7) || (60..70).contains(&word) || word > 500;
        let marks = Marks::of_words((0..BLOCK_WORDS).map(marked));
        for len in 0..=BLOCK_WORDS {
            let mut found = vec![false; len];
            let mut end = None;
            for run in marks.runs(len) {
                assert!(end.is_none_or(|end| end < run.start), "runs are as long as can be");
                end = Some(run.end);
                found[run].fill(true);
            }
            assert!((0..len).all(|word| found[word] == marked(word)), "the first {len}");
            assert_eq!(marks.are_all(len), (0..len).all(marked), "the first {len}");
        }
        assert!((0..BLOCK_WORDS).all(|word| marks.has(word) == marked(word)));
    }

    #[test]
    fn a_half_marks_its_word_and_both_the_whole_of_it() {
        let flagged = |half: usize| (half * half + half / 5) % 3 == 1;
        let flags =
            |i: usize| (0..64).fold(0, |f, bit| f | u64::from(flagged(64 * i + bit)) << bit);
        let grain = Grain::from_unit(crate::Unit::Half);
        for block in 0..70 {
            let words = block * BLOCK_WORDS..(block + 1) * BLOCK_WORDS;
            let any = words.clone().map(|word| flagged(2 * word) || flagged(2 * word + 1));
            let both = words.map(|word| flagged(2 * word) && flagged(2 * word + 1));
            assert_eq!(Marks::from_flags(block, grain, false, flags), Marks::of_words(any));
            assert_eq!(Marks::from_flags(block, grain, true, flags), Marks::of_words(both));
        }
    }

    #[test]
    fn a_unit_marks_all_its_words() {
        let flagged = |unit: usize| (unit * unit) % 3 == 1;
        let flags =
            |i: usize| (0..64).fold(0, |f, bit| f | u64::from(flagged(64 * i + bit)) << bit);
        for unit in crate::Unit::ALL {
            let shift = unit.words().trailing_zeros();
            for block in 0..70 {
                let expected =
                    (0..BLOCK_WORDS).map(|word| flagged((block * BLOCK_WORDS + word) >> shift));
                assert_eq!(Marks::of_units(block, shift, flags), Marks::of_words(expected));
            }
        }
    }
}
