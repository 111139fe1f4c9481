//! Blocks of words behind the fields: where tables, lists, maps and strings grow.
//!
//! - A block has a size out of a fixed list, four sizes in each doubling: at most a fourth of it is
//!   lost. The first word of a free block links to the next free one of its size.
//! - What is taken is zero: who gives a block back has cleared all but its first word.
//! - Blocks are neither split nor joined. Taking one moves none, so that growth never rewrites what
//!   is there.
//! - A link is the word of the next block, shifted by [`LINK_SHIFT`]: the low bits of a free block
//!   are no tag of a string.
//! - Strings have lists of free blocks of their own (`slab`): a block that was a string's is never
//!   another place's, which could write a word there that looks like the head of a string.

use stillframe::MemoryError;

use crate::mutant::Mutant;
use crate::source::{Source, Target};

/// The word that holds the first one never given to a block.
const END: usize = 1;
/// The words that hold the newest free block of each size, but for strings.
pub(crate) const FREE: usize = 2;
/// Sizes of blocks: words of a list of free ones.
pub(crate) const SIZES: usize = 160;
/// The word that hashes of keys begin with.
pub(crate) const SEED: usize = FREE + SIZES;
/// Words before the fields.
pub(crate) const HEADER: usize = SEED + 1;
/// Below a link are so many bits.
pub(crate) const LINK_SHIFT: u32 = 24;

/// The size that holds `words` words: its number, and its words.
fn size(words: usize) -> (usize, usize) {
    let words = words.max(4);
    let shift = words.ilog2() - 2;
    let mut quarters = words.div_ceil(1 << shift); // 4 to 8
    if Mutant::BlocksRoundDown.is_made() {
        quarters = words >> shift;
    }
    (4 * shift as usize + quarters - 4, quarters << shift)
}

/// The write by which blocks begin at word `words`, unless they have begun.
pub(crate) fn begin_at(source: &(impl Source + ?Sized), words: usize) -> Option<(usize, u64)> {
    (source.read(END) == 0).then_some((END, words as u64))
}

#[cfg(test)]
pub(crate) fn begin(words: &mut [u64], at: usize) {
    let (word, value) = begin_at(words, at).expect("they have not begun");
    words[word] = value;
}

/// The first word that was never given to a block.
pub(crate) fn end(source: &(impl Source + ?Sized)) -> usize {
    source.read(END) as usize
}

/// Takes a block of `words` words at least, all zero.
///
/// # Errors
/// [`MemoryError`]; nothing changes.
pub(crate) fn take(target: &mut impl Target, words: usize) -> Result<usize, MemoryError> {
    take_of(target, FREE, words)
}

/// As [`take`], by the list of free blocks at `list`.
pub(crate) fn take_of(
    target: &mut impl Target,
    list: usize,
    words: usize,
) -> Result<usize, MemoryError> {
    let too_large = MemoryError::TooLarge { words };
    if words > 1 << 39 {
        return Err(too_large);
    }
    let (number, words) = size(words);
    let free = (target.read(list + number) >> LINK_SHIFT) as usize;
    if free != 0 {
        let next = target.read(free);
        target.write(list + number, next);
        target.write(free, 0);
        return Ok(free);
    }
    let at = end(target);
    let end = at + words;
    if end > target.words() {
        // Some more than needed, so that growth is rare, if there is room for that.
        let ample = end.saturating_add(target.words() / 8);
        target.grow(ample).or_else(|_| target.grow(end))?;
    }
    let forgets = Mutant::BlocksForgetEnd.is_made() && words > 200;
    target.write(END, if forgets { end - 1 } else { end } as u64);
    Ok(at)
}

/// Gives back a block that was taken for `words` words. All but its first word are zero.
pub(crate) fn give_back(target: &mut impl Target, at: usize, words: usize) {
    give_back_to(target, FREE, at, words);
}

/// As [`give_back`], to the list of free blocks at `list`.
pub(crate) fn give_back_to(target: &mut impl Target, list: usize, at: usize, words: usize) {
    let (number, _) = size(words);
    let next = target.read(list + number);
    target.write(at, next);
    target.write(list + number, (at as u64) << LINK_SHIFT);
}

/// The first free block of a list that is not clear, if there is one.
#[cfg(test)]
pub(crate) fn unclear(source: &(impl Source + ?Sized), list: usize) -> Option<usize> {
    (0..SIZES).find_map(|number| {
        let words = (4 + number % 4) << (number / 4);
        let link = |word| (source.read(word) >> LINK_SHIFT) as usize;
        let free = std::iter::successors(Some(link(list + number)), |&at| Some(link(at)));
        let mut free = free.take_while(|&at| at != 0);
        free.find(|&at| (at + 1..at + words).any(|word| source.read(word) != 0))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Words of which there can be only so many.
    struct Limited(Vec<u64>, usize);

    impl Source for Limited {
        fn words(&self) -> usize {
            self.0.len()
        }
        fn read(&self, index: usize) -> u64 {
            self.0[index]
        }
    }

    impl Target for Limited {
        fn write(&mut self, index: usize, value: u64) {
            self.0[index] = value;
        }
        fn grow(&mut self, words: usize) -> Result<(), MemoryError> {
            match words <= self.1 {
                true => self.0.grow(words),
                false => Err(MemoryError::TooLarge { words }),
            }
        }
    }

    #[test]
    fn a_state_can_be_filled_to_its_last_word() {
        for room in [10, 15, 100, 1000] {
            let mut words = Limited(vec![0; HEADER], HEADER + room);
            begin(&mut words.0, HEADER);
            let taken = (0..room).take_while(|_| take(&mut words, 5).is_ok()).count();
            assert_eq!((taken, words.words()), (room / 5, HEADER + room));
        }
    }

    #[test]
    fn each_size_holds_what_it_is_taken_for_and_little_more() {
        let mut last = 0;
        for words in (1..5000).chain([1 << 20, (1 << 20) + 1, 1 << 39]) {
            let (number, size) = self::size(words);
            assert!(size >= words && (size <= words + words / 4 || size == 4), "{words}: {size}");
            assert!(number >= last && number < SIZES, "{words}: {number}");
            assert_eq!(self::size(size), (number, size), "{words}");
            assert_eq!(size, (4 + number % 4) << (number / 4));
            last = number;
        }
    }

    #[test]
    fn a_block_is_taken_again_after_it_was_given_back_and_is_zero() {
        let mut words = vec![0; HEADER];
        begin(&mut words, HEADER);
        assert_eq!(begin_at(&words, HEADER), None);
        let first = take(&mut words, 9).expect("memory");
        let second = take(&mut words, 10).expect("memory");
        assert_eq!(second, first + 10);
        give_back(&mut words, first, 9);
        give_back(&mut words, second, 10);
        assert_eq!(take(&mut words, 10).expect("memory"), second);
        assert_eq!(take(&mut words, 9).expect("memory"), first);
        assert!(words[HEADER..].iter().all(|&word| word == 0));
        assert!(matches!(take(&mut words, usize::MAX), Err(MemoryError::TooLarge { .. })));
    }
}
