//! What a key holds.
//!
//! A value that reads as a canonical 64-bit integer is kept as one, so that counters cost no text.
//! Canonical text and integer are the same value: nothing outside may tell them apart except by
//! asking for the encoding.

use crate::collection::Collection;
use crate::packed::Shape;
use crate::views::{Hash, List, Set, Sorted};

/// What kind of value a key holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Type {
    /// Text or an integer.
    String,
    /// A list.
    List,
    /// A hash.
    Hash,
    /// A set.
    Set,
    /// A sorted set.
    Sorted,
}

impl Type {
    pub(crate) fn shape(self) -> Shape {
        match self {
            Self::String | Self::List | Self::Set => Shape::Single,
            Self::Hash => Shape::Pair,
            Self::Sorted => Shape::Scored,
        }
    }
}

/// A value as it lies in an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Value<'a> {
    /// An integer; its text is its canonical decimal form.
    Int(i64),
    /// Any other string.
    Bytes(&'a [u8]),
    /// A list.
    List(List<'a>),
    /// A hash.
    Hash(Hash<'a>),
    /// A set.
    Set(Set<'a>),
    /// A sorted set.
    Sorted(Sorted<'a>),
}

impl<'a> Value<'a> {
    /// Its type.
    #[must_use]
    pub fn kind(self) -> Type {
        match self {
            Self::Int(_) | Self::Bytes(_) => Type::String,
            Self::List(_) => Type::List,
            Self::Hash(_) => Type::Hash,
            Self::Set(_) => Type::Set,
            Self::Sorted(_) => Type::Sorted,
        }
    }

    /// Length of the text, in bytes; elements of a collection.
    #[must_use]
    #[allow(clippy::len_without_is_empty, reason = "a length of text, not a container")]
    pub fn len(self) -> usize {
        match self {
            Self::Int(int) => decimal_len(int),
            Self::Bytes(bytes) => bytes.len(),
            Self::List(_) | Self::Hash(_) | Self::Set(_) | Self::Sorted(_) => {
                self.as_collection().map_or(0, Collection::len)
            }
        }
    }

    /// The text; an integer is written into `text`. That of a collection is empty.
    #[must_use]
    pub fn to_bytes(self, text: &'a mut IntText) -> &'a [u8] {
        match self {
            Self::Int(int) => text.format(int),
            Self::Bytes(bytes) => bytes,
            Self::List(_) | Self::Hash(_) | Self::Set(_) | Self::Sorted(_) => &[],
        }
    }

    /// The integer, if the value is one.
    #[must_use]
    pub fn as_int(self) -> Option<i64> {
        match self {
            Self::Int(int) => Some(int),
            _ => None,
        }
    }

    pub(crate) fn collection(kind: Type, collection: Collection<'a>) -> Self {
        match kind {
            Type::List | Type::String => Self::List(List(collection)),
            Type::Hash => Self::Hash(Hash(collection)),
            Type::Set => Self::Set(Set(collection)),
            Type::Sorted => Self::Sorted(Sorted(collection)),
        }
    }

    pub(crate) fn as_collection(self) -> Option<Collection<'a>> {
        match self {
            Self::Int(_) | Self::Bytes(_) => None,
            Self::List(List(it)) | Self::Hash(Hash(it)) => Some(it),
            Self::Set(Set(it)) | Self::Sorted(Sorted(it)) => Some(it),
        }
    }
}

/// Room for the decimal text of an integer.
#[derive(Debug, Clone, Copy, Default)]
pub struct IntText([u8; Self::BYTES_MAX]);

impl IntText {
    const BYTES_MAX: usize = 20; // "-9223372036854775808"

    /// The canonical decimal text of `int`.
    pub fn format(&mut self, int: i64) -> &[u8] {
        let mut rest = int.unsigned_abs();
        let mut at = Self::BYTES_MAX;
        loop {
            at -= 1;
            self.0[at] = b'0' + (rest % 10) as u8;
            rest /= 10;
            if rest == 0 {
                break;
            }
        }
        if int < 0 {
            at -= 1;
            self.0[at] = b'-';
        }
        &self.0[at..]
    }
}

/// The integer whose canonical decimal text is `text`: no sign but a leading minus, no leading
/// zeros, no spaces, within 64 bits.
#[must_use]
pub fn parse_int(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    if digits.len() > 19 {
        return None;
    }
    match digits {
        [] => return None,
        [b'0'] => return if negative { None } else { Some(0) },
        [b'0', ..] => return None,
        _ => {}
    }
    let mut magnitude = 0_u64; // 19 digits fit
    for &digit in digits {
        let digit = digit.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        magnitude = magnitude * 10 + u64::from(digit);
    }
    if negative { 0_i64.checked_sub_unsigned(magnitude) } else { i64::try_from(magnitude).ok() }
}

fn decimal_len(int: i64) -> usize {
    let digits = int.unsigned_abs().checked_ilog10().map_or(1, |log| log as usize + 1);
    digits + usize::from(int < 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_integer_are_each_others_inverse() {
        let mut samples = vec![0, 1, -1, 9, 10, -10, 99, 100, i64::MAX, i64::MIN, i64::MIN + 1];
        samples.extend((0..63).flat_map(|shift| [1 << shift, -(1 << shift), (1 << shift) - 1]));
        for int in samples {
            let text = int.to_string();
            assert_eq!(IntText::default().format(int), text.as_bytes());
            assert_eq!(decimal_len(int), text.len());
            assert_eq!(parse_int(text.as_bytes()), Some(int));
        }
    }

    #[test]
    fn only_canonical_text_is_an_integer() {
        let not_canonical = [
            "",
            "-",
            "+1",
            "01",
            "-0",
            "-01",
            "00",
            " 1",
            "1 ",
            "1a",
            "a",
            "1.0",
            "0x1",
            "9223372036854775808",
            "-9223372036854775809",
            "99999999999999999999",
        ];
        for text in not_canonical {
            assert_eq!(parse_int(text.as_bytes()), None, "{text:?}");
        }
    }
}
