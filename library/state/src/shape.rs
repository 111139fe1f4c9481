//! What lies where in a record, for programs that do not know its type.

use std::fmt;

/// The shape of a [`Record`](crate::Record). As text it is part of the description of a
/// [layout](crate::Layout).
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "each number is named as its type is")]
pub enum Shape {
    U8,
    U16,
    U32,
    U64,
    U128,
    I8,
    I16,
    I32,
    I64,
    I128,
    F32,
    F64,
    /// `()`: nothing.
    Unit,
    /// A [`Slot`](crate::Slot): a word.
    Slot,
    /// [`Bytes`](crate::Bytes) in a slab: a word.
    Bytes,
    /// A [`Str`](crate::Str) in a slab: a word.
    Str,
    /// An array: the shape of its items, and their number.
    Array(Box<Shape>, usize),
    /// A struct, with its fields in order.
    Struct(Vec<Field>),
}

/// A field of a struct of records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field {
    /// Its name; its number if it has none.
    pub name: String,
    /// The byte at which it begins.
    pub offset: usize,
    /// What it is.
    pub shape: Shape,
}

impl Shape {
    /// Bytes that it takes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        match self {
            Self::Unit => 0,
            Self::U8 | Self::I8 => 1,
            Self::U16 | Self::I16 => 2,
            Self::U32 | Self::I32 | Self::F32 => 4,
            Self::U64 | Self::I64 | Self::F64 | Self::Slot | Self::Bytes | Self::Str => 8,
            Self::U128 | Self::I128 => 16,
            Self::Array(item, len) => item.bytes().saturating_mul(*len),
            Self::Struct(fields) => fields.last().map_or(0, |it| it.offset + it.shape.bytes()),
        }
    }
}

/// As the description of a layout has it: fingerprints depend on each letter.
impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self {
            Self::U8 => "u8",
            Self::U16 => "u16",
            Self::U32 => "u32",
            Self::U64 => "u64",
            Self::U128 => "u128",
            Self::I8 => "i8",
            Self::I16 => "i16",
            Self::I32 => "i32",
            Self::I64 => "i64",
            Self::I128 => "i128",
            Self::F32 => "f32",
            Self::F64 => "f64",
            Self::Unit => "()",
            Self::Slot => "slot",
            Self::Bytes => "bytes",
            Self::Str => "str",
            Self::Array(item, len) => return write!(f, "[{item};{len}]"),
            Self::Struct(fields) => {
                f.write_str("{")?;
                for field in fields {
                    write!(f, "{}:{},", field.name, field.shape)?;
                }
                "}"
            }
        };
        f.write_str(name)
    }
}
