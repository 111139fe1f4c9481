//! What an entry links, and values on their way into one.

use std::mem::ManuallyDrop;
use std::sync::Arc;

use super::{Blob, INLINE_MAX, KIND_AT, LINKED, LOOSE, TIMED};
use crate::collection::chunk::Chunk;
use crate::collection::kind::Type;
use crate::collection::packed::NEVER;
use crate::collection::trunk::Trunk;

/// The value of an entry, where it does not lie inline.
#[repr(C)]
pub(super) union Link {
    pub(super) blob: ManuallyDrop<Blob>,
    pub(super) trunk: ManuallyDrop<Arc<Trunk>>,
}

/// What an entry says of its value.
#[derive(Clone, Copy)]
pub(super) struct Facts {
    pub(super) kind: Kind,
    /// Bytes inline.
    pub(super) len: usize,
    /// Elements of a small collection.
    pub(super) count: usize,
    loose: bool,
    timed: bool,
}

impl Facts {
    /// Those that are bits of the stamp.
    pub(super) fn bits(self) -> u64 {
        let loose = if self.loose { LOOSE } else { 0 };
        let timed = if self.timed { TIMED } else { 0 };
        self.kind.bits() << KIND_AT | loose | timed
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Int,
    Inline,
    Blob,
    /// A collection of this type in one inline run.
    Packed(Type),
    /// A collection of this type as a [`Trunk`].
    Trunk(Type),
}

impl Kind {
    pub(super) fn value_type(self) -> Type {
        match self {
            Self::Int | Self::Inline | Self::Blob => Type::String,
            Self::Packed(kind) | Self::Trunk(kind) => kind,
        }
    }

    /// Whether the value does not lie inline.
    pub(super) fn is_linked(self) -> bool {
        self.bits() << KIND_AT & LINKED != 0
    }

    /// Its four bits of the stamp; the highest says whether it is linked.
    pub(super) fn bits(self) -> u64 {
        match self {
            Self::Int => 0,
            Self::Inline => 1,
            Self::Blob => 13,
            Self::Packed(Type::Array) => 3,
            Self::Trunk(Type::Array) => 14,
            Self::Packed(kind) => 4 + collection_bits(kind),
            Self::Trunk(kind) => 8 + collection_bits(kind),
        }
    }

    #[inline]
    pub(super) fn of_bits(bits: u64) -> Self {
        let kind = match bits & 3 {
            0 => Type::List,
            1 => Type::Hash,
            2 => Type::Set,
            _ => Type::Sorted,
        };
        match bits {
            0 => Self::Int,
            1 => Self::Inline,
            3 => Self::Packed(Type::Array),
            4..8 => Self::Packed(kind),
            8..12 => Self::Trunk(kind),
            12 => Self::Trunk(Type::Stream),
            14 => Self::Trunk(Type::Array),
            _ => Self::Blob,
        }
    }
}

fn collection_bits(kind: Type) -> u64 {
    match kind {
        Type::List | Type::String => 0, // a string is never kept so
        Type::Hash => 1,
        Type::Set => 2,
        Type::Sorted => 3,
        Type::Stream => 4, // never packed
        Type::Array => 0,  // has bits of its own
    }
}

/// A value on its way into an entry.
pub(crate) enum New<'a> {
    Int(i64),
    /// Two parts one after the other, together at most [`INLINE_MAX`] bytes.
    Inline(&'a [u8], &'a [u8]),
    Blob(Blob),
    /// A collection in one run of at most [`INLINE_MAX`] bytes.
    Packed {
        kind: Type,
        run: &'a [u8],
        count: usize,
        loose: bool,
        timed: bool,
    },
    Trunk(Type, Arc<Trunk>),
}

impl<'a> New<'a> {
    /// A small collection; `timed` if elements may have deadlines.
    pub(crate) fn packed(kind: Type, chunk: &'a Chunk, loose: bool, timed: bool) -> Self {
        let timed = timed && chunk.run(kind.shape()).times().soonest != NEVER;
        Self::Packed { kind, run: &chunk.bytes, count: chunk.count, loose, timed }
    }

    /// `text`, kept inline or as a blob by its length.
    pub(crate) fn text(text: &'a [u8]) -> Self {
        if text.len() <= INLINE_MAX {
            Self::Inline(text, &[])
        } else {
            Self::Blob(Arc::new(text.to_vec()))
        }
    }

    /// What the entry says of it.
    pub(super) fn facts(&self) -> Facts {
        let facts = |kind, len| Facts { kind, len, count: 0, loose: false, timed: false };
        match *self {
            Self::Int(int) => facts(Kind::Int, int_bytes(int)),
            Self::Inline(first, second) => facts(Kind::Inline, first.len() + second.len()),
            Self::Blob(_) => facts(Kind::Blob, 0),
            Self::Packed { kind, run, count, loose, timed } => {
                Facts { count, loose, timed, ..facts(Kind::Packed(kind), run.len()) }
            }
            Self::Trunk(kind, _) => facts(Kind::Trunk(kind), 0),
        }
    }

    /// What lies in the entry, in two parts; `int` holds an integer.
    pub(super) fn inline<'b>(&self, int: &'b mut [u8; 8]) -> [&'b [u8]; 2]
    where
        'a: 'b,
    {
        match *self {
            Self::Int(number) => {
                *int = number.to_le_bytes();
                [&int[..int_bytes(number)], &[]]
            }
            Self::Inline(first, second) => [first, second],
            Self::Packed { run, .. } => [run, &[]],
            Self::Blob(_) | Self::Trunk(..) => [&[], &[]],
        }
    }

    /// What does not.
    pub(super) fn into_link(self) -> Option<Link> {
        match self {
            Self::Int(_) | Self::Inline(..) | Self::Packed { .. } => None,
            Self::Blob(blob) => Some(Link { blob: ManuallyDrop::new(blob) }),
            Self::Trunk(_, trunk) => Some(Link { trunk: ManuallyDrop::new(trunk) }),
        }
    }
}

/// Bytes that an integer takes.
fn int_bytes(int: i64) -> usize {
    match int {
        -0x80..0x80 => 1,
        -0x8000..0x8000 => 2,
        -0x8000_0000..0x8000_0000 => 4,
        _ => 8,
    }
}
