//! How large the state is, and why it cannot be.

/// How the state is laid out: the record is the unit of locking, of an algorithm's flags, and of
/// images.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// Records.
    pub records: usize,
    /// Words of 8 bytes in a record.
    pub words: usize,
}

impl Shape {
    /// The parts of its records.
    pub(crate) fn split(self) -> Split {
        let bits = self.words.div_ceil(32).next_power_of_two().ilog2();
        let count = self.words.div_ceil(1 << bits);
        let all = Parts(u32::MAX.checked_shr(32 - count as u32).unwrap_or(0));
        Split { words: self.words, bits, all }
    }
}

/// How records are divided into parts: 32 at most, so that some of them are a word of bits.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Split {
    /// Of a record.
    words: usize,
    /// Words of a part, as a power of two.
    bits: u32,
    pub(crate) all: Parts,
}

impl Split {
    /// Words of a part; the last one may have fewer.
    pub(crate) fn part_words(self) -> usize {
        1 << self.bits
    }
    /// The part of a word.
    #[inline]
    pub(crate) fn part(self, word: usize) -> Parts {
        Parts(1 << (word >> self.bits))
    }
    /// Calls `each` with the words of some parts, in rising order.
    #[inline]
    pub(crate) fn words_of(self, parts: Parts, mut each: impl FnMut(usize)) {
        let mut rest = parts.0;
        while rest != 0 {
            let first = (rest.trailing_zeros() as usize) << self.bits;
            rest &= rest - 1;
            match self.bits {
                0 => each(first),
                bits => (first..(first + (1 << bits)).min(self.words)).for_each(&mut each),
            }
        }
    }
}

/// Some parts of a record, a bit each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Parts(pub(crate) u32);

impl Parts {
    pub(crate) const NONE: Self = Self(0);

    #[inline]
    pub(crate) fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
    #[inline]
    pub(crate) fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }
    #[inline]
    pub(crate) fn is_empty(self) -> bool {
        self.0 == 0
    }
}

/// An engine could not be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CreateError {
    /// Memory for the state could not be had.
    #[error("{bytes} bytes of memory for the state could not be had")]
    Memory {
        /// Size asked for.
        bytes: usize,
    },
    /// The algorithm numbers its before-images by worker and record in 32 bits.
    #[error("{records} records for {workers} workers are too many; at most {most} are possible")]
    Records {
        /// Records asked for.
        records: usize,
        /// Workers asked for.
        workers: usize,
        /// Most records for so many workers.
        most: usize,
    },
}

#[cfg(all(test, not(feature = "loom"), not(feature = "shuttle")))]
mod tests {
    use super::*;

    #[test]
    fn parts_are_all_words_once() {
        for words in [1, 2, 3, 8, 31, 32, 33, 63, 64, 65, 100, 512, 1000] {
            let split = Shape { records: 1, words }.split();
            let words_of = |parts| {
                let mut all = Vec::new();
                split.words_of(parts, |word| all.push(word));
                all
            };
            assert_eq!(words_of(split.all), (0..words).collect::<Vec<_>>());
            for word in 0..words {
                let part = split.part(word);
                let (own, others) = (words_of(part), words_of(split.all.without(part)));
                assert!(own.contains(&word) && others.len() == words - own.len());
            }
        }
    }
}
