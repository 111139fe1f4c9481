//! Bytes and strings of any length.
//!
//! ```text
//! block    length in bytes << 24 | tag, then the bytes, zeros behind the last
//! handle   the word of the block << 24 | tag
//! ```
//!
//! - A tag is a number of 24 bits that rises with each string, and is not 0.
//! - What was a string's block is only ever a string's of the same slab, which keeps free ones in
//!   lists of its own: no other place can write a word where a handle looks. So a handle of what
//!   was removed names nothing until 2^24 - 1 strings later.

use std::fmt;

use stillframe::MemoryError;
use zerocopy::{FromBytes, Immutable, IntoBytes};

use crate::blocks::{self, LINK_SHIFT as TAG_BITS};
use crate::layout::{Layout, State};
use crate::mutant::Mutant;
use crate::record::{Record, part};
use crate::shape::Shape;
use crate::source::{Source, Target};

/// The bytes of a tag in a word.
const TAG: u64 = (1 << TAG_BITS) - 1;

/// Bytes and strings, each of any length below a terabyte, by handles that lie in records.
///
/// A handle is a word, and who throws the last copy of one away must
/// [remove](Self::remove) what it names: nothing else does. What was removed leaves its words, at
/// most a fourth more than it needs and two, to what is of that size next in this slab.
///
/// ```
/// use stillframe_state::{Map, Slab, State, Str};
///
/// #[derive(Clone, Copy, State)]
/// struct Names {
///     text: Slab,
///     by_number: Map<u64, Str>,
/// }
///
/// let mut words = vec![0; Names::layout().words()]; // or a store
/// let names = Names::attach(&mut words)?;
/// let ada = names.text.put_str(&mut words, "Ada")?;
/// names.by_number.insert(&mut words, 7, ada)?;
///
/// let found = names.by_number.get(&words, &7).and_then(|name| names.text.get_str(&words, name));
/// assert_eq!(found.as_deref(), Some("Ada"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Slab {
    at: usize,
}

// Words of the place.
/// The newest tag; above it the block with the lists of free blocks, 0 before the first string.
const NEWEST: usize = 0;
/// Strings there.
const COUNT: usize = 1;
/// Bytes in them.
const BYTES: usize = 2;
const WORDS: usize = 3;

/// Names bytes in a [`Slab`]: a word.
#[derive(Clone, Copy, PartialEq, Eq, Hash, FromBytes, IntoBytes, Immutable)]
#[repr(transparent)]
pub struct Bytes(u64);

/// Names a string in a [`Slab`]: a word.
#[derive(Clone, Copy, PartialEq, Eq, Hash, FromBytes, IntoBytes, Immutable)]
#[repr(transparent)]
pub struct Str(Bytes);

impl Bytes {
    /// Names nothing.
    pub const NONE: Self = Self(0);

    /// Whether it is [`NONE`](Self::NONE).
    #[must_use]
    pub fn is_none(self) -> bool {
        self == Self::NONE
    }

    /// Length in bytes, if it names something that is there, in whichever slab; see
    /// [`Slab::len_of`].
    #[must_use]
    pub fn len_in(self, source: &(impl Source + ?Sized)) -> Option<usize> {
        Slab::find(source, self).map(|(_, bytes)| bytes)
    }

    /// Replaces what is in `into` by what it names, if that is [there](Self::len_in).
    pub fn read_into(self, source: &(impl Source + ?Sized), into: &mut Vec<u8>) -> Option<()> {
        let (at, bytes) = Slab::find(source, self)?;
        into.clear();
        into.reserve(bytes.next_multiple_of(8));
        for word in at + 1..at + words(bytes) {
            into.extend_from_slice(&source.read(word).to_le_bytes());
        }
        into.truncate(bytes);
        Some(())
    }
}

impl Str {
    /// Names nothing.
    pub const NONE: Self = Self(Bytes::NONE);

    /// The same, as bytes.
    #[must_use]
    pub fn bytes(self) -> Bytes {
        self.0
    }

    /// Whether it is [`NONE`](Self::NONE).
    #[must_use]
    pub fn is_none(self) -> bool {
        self == Self::NONE
    }
}

impl From<Str> for Bytes {
    fn from(name: Str) -> Self {
        name.0
    }
}

impl Slab {
    /// Its lists of free blocks, and the newest tag. A slab that has none takes room for them.
    fn lists(&self, target: &mut impl Target) -> Result<(usize, u64), MemoryError> {
        let newest = target.read(self.at + NEWEST);
        let (lists, tag) = ((newest >> TAG_BITS) as usize, newest & TAG);
        if Mutant::SlabSharesItsBlocks.is_made() {
            return Ok((blocks::FREE, tag));
        }
        if lists != 0 {
            return Ok((lists, tag));
        }
        let lists = blocks::take(target, blocks::SIZES)?;
        target.write(self.at + NEWEST, (lists as u64) << TAG_BITS | tag);
        Ok((lists, tag))
    }

    /// The first free block that is not clear, if there is one.
    #[cfg(test)]
    pub(crate) fn unclear(&self, source: &(impl Source + ?Sized)) -> Option<usize> {
        let lists = (source.read(self.at + NEWEST) >> TAG_BITS) as usize;
        (lists != 0).then(|| blocks::unclear(source, lists)).flatten()
    }

    /// Keeps a copy of `bytes`, and names it.
    ///
    /// # Errors
    /// [`MemoryError`] if the state cannot grow; nothing changes.
    pub fn put(&self, target: &mut impl Target, bytes: &[u8]) -> Result<Bytes, MemoryError> {
        let (lists, newest) = self.lists(target)?;
        let at = blocks::take_of(target, lists, words(bytes.len()))?;
        let mut tag = if newest == TAG { 1 } else { newest + 1 };
        if Mutant::SlabKeepsTag.is_made() {
            tag = 1;
        }
        let kept = target.read(self.at + NEWEST) & !TAG;
        target.write(self.at + NEWEST, kept | tag);
        target.write(at, (bytes.len() as u64) << TAG_BITS | tag);
        for (index, bytes) in bytes.chunks(8).enumerate() {
            target.write(at + 1 + index, part(bytes));
        }
        self.count(target, |count, all| (count + 1, all + bytes.len() as u64));
        Ok(Bytes((at as u64) << TAG_BITS | tag))
    }

    /// Keeps a copy of `text`, and names it.
    ///
    /// # Errors
    /// [`MemoryError`] if the state cannot grow; nothing changes.
    pub fn put_str(&self, target: &mut impl Target, text: &str) -> Result<Str, MemoryError> {
        self.put(target, text.as_bytes()).map(Str)
    }

    /// The block that `name` names, and the length of its bytes.
    fn find(source: &(impl Source + ?Sized), name: Bytes) -> Option<(usize, usize)> {
        let (at, tag) = ((name.0 >> TAG_BITS) as usize, name.0 & TAG);
        let end = blocks::end(source);
        if tag == 0 || at < blocks::HEADER || at >= end {
            return None;
        }
        let head = source.read(at);
        let bytes = (head >> TAG_BITS) as usize;
        (head & TAG == tag && words(bytes) <= end - at).then_some((at, bytes))
    }

    /// Length in bytes, if `name` names something that is there. A handle of what was removed names
    /// nothing, until its words are used again after exactly 2^24 - 1 strings more.
    #[must_use]
    pub fn len_of(&self, source: &(impl Source + ?Sized), name: impl Into<Bytes>) -> Option<usize> {
        Self::find(source, name.into()).map(|(_, bytes)| bytes)
    }

    /// The bytes, if `name` names something that is [there](Self::len_of).
    #[must_use]
    pub fn get(&self, source: &(impl Source + ?Sized), name: impl Into<Bytes>) -> Option<Vec<u8>> {
        let mut bytes = Vec::new();
        self.read_into(source, name, &mut bytes).map(|()| bytes)
    }

    /// The string, if `name` names one that is [there](Self::len_of).
    #[must_use]
    pub fn get_str(&self, source: &(impl Source + ?Sized), name: Str) -> Option<String> {
        String::from_utf8(self.get(source, name)?).ok()
    }

    /// Replaces what is in `into` by the bytes, if `name` names something that is
    /// [there](Self::len_of).
    pub fn read_into(
        &self,
        source: &(impl Source + ?Sized),
        name: impl Into<Bytes>,
        into: &mut Vec<u8>,
    ) -> Option<()> {
        name.into().read_into(source, into)
    }

    /// Removes what `name` names. Returns `None`, and does nothing, if it is not there.
    pub fn remove(&self, target: &mut impl Target, name: impl Into<Bytes>) -> Option<()> {
        let (at, bytes) = Self::find(target, name.into())?;
        if !Mutant::SlabGivesBackUncleared.is_made() {
            for word in at..at + words(bytes) {
                target.write(word, 0);
            }
        }
        // A full state may have no room for the lists of strings from a version without them:
        // such a block is used no more.
        if let Ok((lists, _)) = self.lists(target) {
            blocks::give_back_to(target, lists, at, words(bytes));
        }
        let gone = if Mutant::SlabCountsRemoved.is_made() { 0 } else { bytes as u64 };
        self.count(target, |count, all| (count - 1, all - gone));
        Some(())
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self, source: &(impl Source + ?Sized)) -> usize {
        source.read(self.at + COUNT) as usize
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self, source: &(impl Source + ?Sized)) -> bool {
        self.len(source) == 0
    }

    /// How long they are together, in bytes.
    #[must_use]
    pub fn bytes(&self, source: &(impl Source + ?Sized)) -> u64 {
        source.read(self.at + BYTES)
    }

    fn count(&self, target: &mut impl Target, change: impl FnOnce(u64, u64) -> (u64, u64)) {
        let [count, bytes] = [COUNT, BYTES].map(|word| target.read(self.at + word));
        let (count, bytes) = change(count, bytes);
        target.write(self.at + COUNT, count);
        target.write(self.at + BYTES, bytes);
    }
}

/// Words of a block for so many bytes.
fn words(bytes: usize) -> usize {
    1 + bytes.div_ceil(8)
}

impl State for Slab {
    fn lay_out(layout: &mut Layout) -> Self {
        layout.shapes("slab", &[]);
        Self { at: layout.take(WORDS) }
    }
}

impl Record for Bytes {
    fn shape() -> Shape {
        Shape::Bytes
    }
}

impl Record for Str {
    fn shape() -> Shape {
        Shape::Str
    }
}

impl fmt::Debug for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.is_none() {
            true => f.write_str("Bytes(none)"),
            false => write!(f, "Bytes({}, tag {})", self.0 >> TAG_BITS, self.0 & TAG),
        }
    }
}

impl fmt::Debug for Str {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Str({:?})", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Copy, crate::State)]
    struct Root {
        slab: Slab,
    }

    #[test]
    fn tags_begin_anew_after_the_last_and_none_is_zero() {
        let mut words = vec![0; Root::layout().words()];
        let Root { slab } = Root::attach(&mut words).expect("it is new");
        let first = slab.put(&mut words, b"first").expect("memory");
        words[slab.at + NEWEST] = words[slab.at + NEWEST] & !TAG | (TAG - 1);
        let later = [1, 2, 3_u8].map(|byte| slab.put(&mut words, &[byte]).expect("memory"));
        assert_eq!(later.map(|name| name.0 & TAG), [TAG, 1, 2]);
        for (name, byte) in later.into_iter().zip([1, 2, 3_u8]) {
            assert_eq!(slab.get(&words, name).as_deref(), Some(&[byte][..]));
        }
        assert_eq!(slab.get(&words, first).as_deref(), Some(&b"first"[..]));
    }

    /// A handle is plain data: one from elsewhere may name what looks like a head.
    #[test]
    fn a_text_that_would_end_beyond_the_state_is_none() {
        let mut words = vec![0; Root::layout().words()];
        let Root { slab } = Root::attach(&mut words).expect("it is new");
        for bytes in [1_u64 << 39, 8 * 1000] {
            let head = bytes << TAG_BITS | 1;
            let name = slab.put(&mut words, &head.to_le_bytes()).expect("memory");
            let forged = Bytes(((name.0 >> TAG_BITS) + 1) << TAG_BITS | 1);
            assert_eq!((slab.len_of(&words, forged), slab.get(&words, forged)), (None, None));
            assert_eq!(slab.remove(&mut words, forged), None);
        }
    }

    #[test]
    fn a_string_gets_the_words_of_one_that_was_removed() {
        let mut words = vec![0; Root::layout().words()];
        let Root { slab } = Root::attach(&mut words).expect("it is new");
        let mut ends = Vec::new();
        for turn in 0..100_u8 {
            let names = [9, 90].map(|len| slab.put(&mut words, &vec![turn; len]).expect("memory"));
            ends.push(blocks::end(&words));
            for name in names {
                slab.remove(&mut words, name).expect("it is there");
            }
        }
        assert!(ends.iter().all(|end| *end == ends[0]), "{ends:?}");
    }

    #[test]
    fn what_is_read_replaces_what_was_there() {
        let mut words = vec![0; Root::layout().words()];
        let Root { slab } = Root::attach(&mut words).expect("it is new");
        let mut bytes = b"another text, and a longer one".to_vec();
        for text in [&b"text"[..], b"", b"twelve bytes"] {
            let name = slab.put(&mut words, text).expect("memory");
            slab.read_into(&words, name, &mut bytes).expect("it is there");
            assert_eq!(bytes, text);
        }
    }
}
