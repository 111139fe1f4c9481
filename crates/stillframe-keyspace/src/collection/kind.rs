//! What kinds of values there are.

use super::packed::Shape;

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
