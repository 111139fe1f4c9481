//! What a key holds.
//!
//! A value that reads as a canonical 64-bit integer is kept as one, so that counters cost no text.
//! Canonical text and integer are the same value; outside, only the encoding distinguishes them.

use crate::collection::array::Array;
use crate::collection::form::Collection;
use crate::collection::kind::Type;
use crate::collection::stream::Stream;
use crate::collection::views::{Hash, List, Set, Sorted};
use crate::integer::{IntText, decimal_len};

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
    /// A stream.
    Stream(Stream<'a>),
    /// An array.
    Array(Array<'a>),
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
            Self::Stream(_) => Type::Stream,
            Self::Array(_) => Type::Array,
        }
    }

    /// Length of the text, in bytes; elements of a collection, entries of a stream.
    #[must_use]
    #[allow(clippy::len_without_is_empty, reason = "a length of text, not a container")]
    pub fn len(self) -> usize {
        match self {
            Self::Int(int) => decimal_len(int),
            Self::Bytes(bytes) => bytes.len(),
            Self::Array(array) => array.len(),
            Self::List(_) | Self::Hash(_) | Self::Set(_) | Self::Sorted(_) | Self::Stream(_) => {
                self.as_collection().map_or(0, Collection::len)
            }
        }
    }

    /// The text; an integer is written into `text`. The text of a collection is empty.
    #[must_use]
    pub fn to_bytes(self, text: &'a mut IntText) -> &'a [u8] {
        match self {
            Self::Int(int) => text.format(int),
            Self::Bytes(bytes) => bytes,
            Self::List(_) | Self::Hash(_) | Self::Set(_) => &[],
            Self::Sorted(_) | Self::Stream(_) | Self::Array(_) => &[],
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
            Type::Hash => Self::Hash(Hash::whole(collection)),
            Type::Set => Self::Set(Set(collection)),
            Type::Sorted => Self::Sorted(Sorted(collection)),
            Type::Stream => Self::Stream(Stream(collection)),
            Type::Array => Self::Array(Array(collection)),
        }
    }

    pub(crate) fn as_collection(self) -> Option<Collection<'a>> {
        match self {
            Self::Int(_) | Self::Bytes(_) => None,
            Self::List(List(it)) => Some(it),
            Self::Hash(hash) => Some(hash.collection),
            Self::Set(Set(it)) | Self::Sorted(Sorted(it)) => Some(it),
            Self::Stream(Stream(it)) | Self::Array(Array(it)) => Some(it),
        }
    }
}
