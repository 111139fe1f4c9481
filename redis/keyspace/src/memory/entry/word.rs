//! The value word of an entry, and values on their way into one.

use std::mem::ManuallyDrop;
use std::sync::Arc;

use super::{Blob, INLINE_MAX};
use crate::collection::chunk::Chunk;
use crate::collection::kind::Type;
use crate::collection::packed::NEVER;
use crate::collection::trunk::Trunk;

#[repr(C)]
pub(super) union Word {
    pub(super) int: i64,
    pub(super) len: u64,
    pub(super) blob: ManuallyDrop<Blob>,
    pub(super) packed: Packed,
    pub(super) trunk: ManuallyDrop<Arc<Trunk>>,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Packed {
    pub(super) len: u32,
    /// Elements; the highest bits are `loose` and `timed`.
    pub(super) count: u32,
}

pub(super) const LOOSE: u32 = 1 << 31;
pub(super) const TIMED: u32 = 1 << 30;

impl Packed {
    pub(super) fn elements(self) -> usize {
        (self.count & !(LOOSE | TIMED)) as usize
    }

    pub(super) fn is_loose(self) -> bool {
        self.count & LOOSE != 0
    }

    pub(super) fn is_timed(self) -> bool {
        self.count & TIMED != 0
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

    /// Its four bits of the stamp.
    pub(super) fn bits(self) -> u64 {
        match self {
            Self::Int => 0,
            Self::Inline => 1,
            Self::Blob => 2,
            Self::Packed(kind) => 4 + collection_bits(kind),
            Self::Trunk(kind) => 8 + collection_bits(kind),
        }
    }

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
            4..8 => Self::Packed(kind),
            8..12 => Self::Trunk(kind),
            12 => Self::Trunk(Type::Stream),
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
        let timed = timed && chunk.run(kind.shape()).soonest() != NEVER;
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

    /// What lies in the entry, in two parts.
    pub(super) fn inline(&self) -> [&'a [u8]; 2] {
        match self {
            Self::Inline(first, second) => [first, second],
            Self::Packed { run, .. } => [run, &[]],
            Self::Int(_) | Self::Blob(_) | Self::Trunk(..) => [&[], &[]],
        }
    }

    pub(super) fn into_word(self) -> (Kind, Word) {
        match self {
            Self::Int(int) => (Kind::Int, Word { int }),
            Self::Inline(a, b) => (Kind::Inline, Word { len: (a.len() + b.len()) as u64 }),
            Self::Blob(blob) => (Kind::Blob, Word { blob: ManuallyDrop::new(blob) }),
            Self::Packed { kind, run, count, loose, timed } => {
                let flags = if loose { LOOSE } else { 0 } | if timed { TIMED } else { 0 };
                let count = count as u32 | flags;
                let packed = Packed { len: run.len() as u32, count };
                (Kind::Packed(kind), Word { packed })
            }
            Self::Trunk(kind, trunk) => {
                (Kind::Trunk(kind), Word { trunk: ManuallyDrop::new(trunk) })
            }
        }
    }
}
