//! The types of values.

use super::packed::Shape;

/// The type of a key's value.
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
    /// A stream.
    Stream,
    /// An array.
    Array,
}

impl Type {
    pub(crate) fn shape(self) -> Shape {
        match self {
            Self::String | Self::List | Self::Set => Shape::Single,
            Self::Hash => Shape::Pair,
            Self::Sorted | Self::Stream | Self::Array => Shape::Ranked,
        }
    }
}
