//! Fields of records as columns of Arrow.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, BinaryBuilder, FixedSizeBinaryBuilder, FixedSizeListArray, NullArray, PrimitiveArray,
    StringBuilder, StructArray,
};
use arrow::datatypes::{
    ArrowPrimitiveType, DataType, Field as ArrowField, Fields, Float32Type, Float64Type, Int8Type,
    Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use datafusion::error::{DataFusionError, Result};
use stillframe_state::{Bytes, Field, Shape, Source};
use zerocopy::FromBytes;

/// A column that holds records of this shape.
pub(crate) fn type_of(name: &str, shape: &Shape) -> Result<ArrowField> {
    let len = |len: usize| {
        i32::try_from(len).map_err(|_| {
            DataFusionError::Plan(format!("{name} has {len} items a row, more than Arrow's"))
        })
    };
    let data_type = match shape {
        _ if shape.bytes() == 0 => DataType::Null,
        Shape::U8 => DataType::UInt8,
        Shape::U16 => DataType::UInt16,
        Shape::U32 => DataType::UInt32,
        Shape::U64 | Shape::Slot => DataType::UInt64,
        Shape::I8 => DataType::Int8,
        Shape::I16 => DataType::Int16,
        Shape::I32 => DataType::Int32,
        Shape::I64 => DataType::Int64,
        Shape::F32 => DataType::Float32,
        Shape::F64 => DataType::Float64,
        Shape::U128 | Shape::I128 | Shape::Str => DataType::Utf8,
        Shape::Bytes => DataType::Binary,
        Shape::Unit => DataType::Null,
        Shape::Array(item, count) if **item == Shape::U8 => DataType::FixedSizeBinary(len(*count)?),
        Shape::Array(item, count) => {
            DataType::FixedSizeList(Arc::new(type_of("item", item)?), len(*count)?)
        }
        Shape::Struct(fields) => DataType::Struct(types_of(fields)?),
    };
    let names = matches!(shape, Shape::Str | Shape::Bytes | Shape::Slot);
    let is_nullable = names || data_type == DataType::Null;
    Ok(ArrowField::new(name, data_type, is_nullable))
}

fn types_of(fields: &[Field]) -> Result<Fields> {
    fields.iter().map(|field| type_of(&field.name, &field.shape)).collect()
}

/// The bytes at which the values of a column begin.
pub(crate) enum Starts {
    /// `count` places, `step` bytes apart.
    Even { first: usize, step: usize, count: usize },
    /// These.
    Listed(Vec<usize>),
}

impl Starts {
    fn len(&self) -> usize {
        match self {
            Self::Even { count, .. } => *count,
            Self::Listed(all) => all.len(),
        }
    }

    fn each<T>(&self, value: impl Fn(usize) -> T) -> Vec<T> {
        match *self {
            Self::Even { first, step, count } => {
                (0..count).map(|number| value(first + number * step)).collect()
            }
            Self::Listed(ref all) => all.iter().map(|&at| value(at)).collect(),
        }
    }

    /// Where the values of a field begin.
    fn field(&self, offset: usize) -> Self {
        match *self {
            Self::Even { first, step, count } => Self::Even { first: first + offset, step, count },
            Self::Listed(ref all) => Self::Listed(all.iter().map(|at| at + offset).collect()),
        }
    }

    /// Where the items of arrays begin.
    fn items(&self, bytes: usize, len: usize) -> Self {
        let starts = self.each(|at| at);
        Self::Listed(starts.iter().flat_map(|at| (0..len).map(move |it| at + it * bytes)).collect())
    }
}

/// The values of a column, which lie in these bytes. Texts are those of `source`.
pub(crate) fn array_of(
    shape: &Shape,
    starts: &Starts,
    bytes: &[u8],
    source: &impl Source,
) -> Result<ArrayRef> {
    let number = |at| u64_at(bytes, at);
    Ok(match shape {
        _ if shape.bytes() == 0 => Arc::new(NullArray::new(starts.len())),
        Shape::Unit => Arc::new(NullArray::new(starts.len())),
        Shape::U8 => primitives::<UInt8Type>(starts, bytes),
        Shape::U16 => primitives::<UInt16Type>(starts, bytes),
        Shape::U32 => primitives::<UInt32Type>(starts, bytes),
        Shape::U64 => primitives::<UInt64Type>(starts, bytes),
        Shape::I8 => primitives::<Int8Type>(starts, bytes),
        Shape::I16 => primitives::<Int16Type>(starts, bytes),
        Shape::I32 => primitives::<Int32Type>(starts, bytes),
        Shape::I64 => primitives::<Int64Type>(starts, bytes),
        Shape::F32 => primitives::<Float32Type>(starts, bytes),
        Shape::F64 => primitives::<Float64Type>(starts, bytes),
        Shape::Slot => {
            let slots = starts.each(|at| Some(number(at)).filter(|&word| word != 0));
            Arc::new(PrimitiveArray::<UInt64Type>::from(slots))
        }
        Shape::U128 => texts(starts.each(|at| Some(wide(bytes, at).to_string()))),
        Shape::I128 => texts(starts.each(|at| Some(wide(bytes, at).cast_signed().to_string()))),
        Shape::Str | Shape::Bytes => named(shape, &starts.each(number), source),
        Shape::Array(item, len) if **item == Shape::U8 => {
            let size = i32::try_from(*len).unwrap_or(i32::MAX);
            let mut builder = FixedSizeBinaryBuilder::with_capacity(starts.len(), size);
            for at in starts.each(|at| at) {
                builder.append_value(&bytes[at..at + len])?;
            }
            Arc::new(builder.finish())
        }
        Shape::Array(item, len) => {
            let values = array_of(item, &starts.items(item.bytes(), *len), bytes, source)?;
            let (field, size) = (type_of("item", item)?, i32::try_from(*len).unwrap_or(i32::MAX));
            Arc::new(FixedSizeListArray::try_new(Arc::new(field), size, values, None)?)
        }
        Shape::Struct(fields) => {
            let array = |it: &Field| array_of(&it.shape, &starts.field(it.offset), bytes, source);
            let arrays: Result<Vec<ArrayRef>> = fields.iter().map(array).collect();
            Arc::new(StructArray::try_new(types_of(fields)?, arrays?, None)?)
        }
    })
}

fn primitives<T: ArrowPrimitiveType<Native: FromBytes>>(starts: &Starts, bytes: &[u8]) -> ArrayRef {
    let value = |at: usize| {
        let read = T::Native::read_from_prefix(&bytes[at..]);
        read.map_or_else(|_| T::Native::default(), |(value, _)| value)
    };
    Arc::new(PrimitiveArray::<T>::from_iter_values(starts.each(value)))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::read_from_prefix(&bytes[at..]).map_or(0, |(word, _)| word)
}

fn wide(bytes: &[u8], at: usize) -> u128 {
    u128::read_from_prefix(&bytes[at..]).map_or(0, |(number, _)| number)
}

fn texts(all: Vec<Option<String>>) -> ArrayRef {
    Arc::new(all.into_iter().collect::<arrow::array::StringArray>())
}

/// What handles name.
fn named(shape: &Shape, handles: &[u64], source: &impl Source) -> ArrayRef {
    let (mut bytes, mut strings, mut others) =
        (Vec::new(), StringBuilder::new(), BinaryBuilder::new());
    for handle in handles {
        let there = handle_of(*handle).read_into(source, &mut bytes);
        if *shape == Shape::Bytes {
            others.append_option(there.map(|()| &bytes));
        } else {
            strings.append_option(there.and_then(|()| std::str::from_utf8(&bytes).ok()));
        }
    }
    if *shape == Shape::Bytes { Arc::new(others.finish()) } else { Arc::new(strings.finish()) }
}

fn handle_of(word: u64) -> Bytes {
    Bytes::read_from_bytes(&word.to_le_bytes()).unwrap_or(Bytes::NONE)
}

/// The bytes of an item at which handles of texts lie.
pub(crate) fn handles(shape: &Shape, offset: usize, into: &mut Vec<usize>) {
    match shape {
        Shape::Str | Shape::Bytes => into.push(offset),
        Shape::Array(item, len) if !matches!(**item, Shape::U8) => {
            let before = into.len();
            (0..*len).for_each(|number| {
                // An array without handles has none in its first item.
                if number == 0 || into.len() > before {
                    handles(item, offset + number * item.bytes(), into);
                }
            });
        }
        Shape::Struct(fields) => {
            fields.iter().for_each(|it| handles(&it.shape, offset + it.offset, into));
        }
        _ => {}
    }
}

/// How long the texts are that an item names.
pub(crate) fn text_bytes(at: &[usize], item: &[u8], source: &impl Source) -> usize {
    let len = |&at: &usize| handle_of(u64_at(item, at)).len_in(source).unwrap_or(0);
    at.iter().map(len).sum()
}
