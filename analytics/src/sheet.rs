//! Rows on their way into a batch of columns.

use std::borrow::Cow;
use std::ops::RangeInclusive;
use std::sync::Arc;

use arrow::array::{
    ArrayRef, BinaryBuilder, BooleanBuilder, Float64Builder, Int64Builder, ListArray, RecordBatch,
    RecordBatchOptions, StringBuilder, StructArray, TimestampMillisecondBuilder,
};
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::{DataType, Field, SchemaRef};
use arrow::error::ArrowError;

use crate::table::{Content, pair};

/// Texts, as they are or as UTF-8.
enum Texts {
    Binary(BinaryBuilder),
    Utf8(StringBuilder),
}

impl Texts {
    fn new(binary: bool) -> Self {
        if binary { Self::Binary(BinaryBuilder::new()) } else { Self::Utf8(StringBuilder::new()) }
    }

    /// Adds a text; true if it is no UTF-8 and was escaped.
    fn add(&mut self, bytes: &[u8]) -> bool {
        match self {
            Self::Binary(texts) => {
                texts.append_value(bytes);
                false
            }
            Self::Utf8(texts) => {
                let text = shown(bytes);
                texts.append_value(&text);
                matches!(text, Cow::Owned(_))
            }
        }
    }

    fn add_null(&mut self) {
        match self {
            Self::Binary(texts) => texts.append_null(),
            Self::Utf8(texts) => texts.append_null(),
        }
    }

    fn take(&mut self) -> ArrayRef {
        match self {
            Self::Binary(texts) => Arc::new(texts.finish()),
            Self::Utf8(texts) => Arc::new(texts.finish()),
        }
    }
}

/// The years 1 to 9999, which all readers of files know, in unix milliseconds.
pub const CALENDAR: RangeInclusive<i64> = -62_135_596_800_000..=253_402_300_799_999;

/// A text with `\xNN` for each byte that is part of no UTF-8, and for the backslash of what would
/// look like that: different bytes give different texts.
pub fn shown(bytes: &[u8]) -> Cow<'_, str> {
    let looks_escaped = |four: &[u8]| four.starts_with(b"\\x") && is_hex(&four[2..]);
    if let Ok(text) = std::str::from_utf8(bytes)
        && !bytes.windows(4).any(looks_escaped)
    {
        return Cow::Borrowed(text);
    }
    let mut text = String::with_capacity(bytes.len() + 16);
    for chunk in bytes.utf8_chunks() {
        let mut valid = chunk.valid();
        while let Some(at) = valid.find("\\x") {
            let (before, rest) = valid.split_at(at);
            let is_escaped = rest.as_bytes().get(2..4).is_some_and(is_hex);
            text.push_str(before);
            text.push_str(if is_escaped { "\\x5c" } else { "\\" });
            valid = &rest[1..];
        }
        text.push_str(valid);
        for byte in chunk.invalid() {
            text.push_str(&format!("\\x{byte:02x}"));
        }
    }
    Cow::Owned(text)
}

fn is_hex(bytes: &[u8]) -> bool {
    bytes.iter().all(u8::is_ascii_hexdigit)
}

enum Builder {
    Int(Int64Builder),
    Double(Float64Builder),
    Bool(BooleanBuilder),
    Time(TimestampMillisecondBuilder),
    Text(Texts),
    Pairs { names: Texts, values: Texts, lengths: Vec<usize> },
}

impl Builder {
    fn new(content: Content, binary: bool) -> Self {
        match content {
            Content::Int => Self::Int(Int64Builder::new()),
            Content::Double => Self::Double(Float64Builder::new()),
            Content::Bool => Self::Bool(BooleanBuilder::new()),
            Content::Text => Self::Text(Texts::new(binary)),
            Content::Time => Self::Time(TimestampMillisecondBuilder::new().with_timezone("UTC")),
            Content::Pairs => Self::Pairs {
                names: Texts::new(binary),
                values: Texts::new(binary),
                lengths: Vec::new(),
            },
        }
    }

    fn take(&mut self, binary: bool) -> ArrayRef {
        match self {
            Self::Int(it) => Arc::new(it.finish()),
            Self::Double(it) => Arc::new(it.finish()),
            Self::Bool(it) => Arc::new(it.finish()),
            Self::Time(it) => Arc::new(it.finish()),
            Self::Text(it) => it.take(),
            Self::Pairs { names, values, lengths } => {
                let fields = pair(binary);
                let pairs =
                    StructArray::new(fields.clone(), vec![names.take(), values.take()], None);
                let offsets = OffsetBuffer::from_lengths(std::mem::take(lengths));
                let item = Arc::new(Field::new("item", DataType::Struct(fields), false));
                Arc::new(ListArray::new(item, offsets, Arc::new(pairs), None))
            }
        }
    }
}

/// Columns that are being filled, row by row: each column gets one value a row. Those that nobody
/// asked for take nothing.
pub struct Sheet {
    schema: SchemaRef,
    binary: bool,
    builders: Vec<Builder>,
    /// For each column of the table, its place among the builders.
    places: Vec<Option<usize>>,
    rows: usize,
    /// About how much is in it.
    bytes: usize,
    escaped: u64,
    far: u64,
}

/// A value of a row.
#[derive(Debug, Clone, Copy)]
pub enum Cell<'a> {
    /// Nothing.
    Null,
    /// An integer, or a time in milliseconds.
    Int(i64),
    /// A float.
    Double(f64),
    /// Truth.
    Bool(bool),
    /// A text.
    Text(&'a [u8]),
}

impl Sheet {
    /// For a table of these columns, of which those in `projection` are wanted, in that order.
    pub fn new(
        schema: SchemaRef,
        contents: &[Content],
        projection: &[usize],
        binary: bool,
    ) -> Self {
        let mut places = vec![None; contents.len()];
        let mut builders = Vec::new();
        for &column in projection {
            places[column] = Some(builders.len());
            builders.push(Builder::new(contents[column], binary));
        }
        Self { schema, binary, builders, places, rows: 0, bytes: 0, escaped: 0, far: 0 }
    }

    /// Rows in it.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// About how many bytes are in it.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Texts so far that are not shown as they are.
    pub fn escaped(&self) -> u64 {
        self.escaped
    }

    /// Times so far that no calendar has, and that are null.
    pub fn far(&self) -> u64 {
        self.far
    }

    /// Whether a column is wanted.
    pub fn wants(&self, column: usize) -> bool {
        self.places[column].is_some()
    }

    /// Sets a column of the row.
    pub fn set(&mut self, column: usize, cell: Cell<'_>) {
        let Some(place) = self.places[column] else { return };
        self.bytes += 8;
        match (&mut self.builders[place], cell) {
            (Builder::Int(it), Cell::Int(value)) => it.append_value(value),
            (Builder::Int(it), _) => it.append_null(),
            (Builder::Time(it), Cell::Int(value)) if CALENDAR.contains(&value) => {
                it.append_value(value);
            }
            (Builder::Time(it), Cell::Int(_)) => {
                self.far += 1;
                it.append_null();
            }
            (Builder::Time(it), _) => it.append_null(),
            (Builder::Double(it), Cell::Double(value)) => it.append_value(value),
            (Builder::Double(it), _) => it.append_null(),
            (Builder::Bool(it), Cell::Bool(value)) => it.append_value(value),
            (Builder::Bool(it), _) => it.append_null(),
            (Builder::Text(it), Cell::Text(value)) => {
                self.bytes += value.len();
                self.escaped += u64::from(it.add(value));
            }
            (Builder::Text(it), _) => it.add_null(),
            (Builder::Pairs { lengths, .. }, _) => lengths.push(0),
        }
    }

    /// Sets a column of the row to pairs.
    pub fn set_pairs<'p>(&mut self, column: usize, pairs: impl Iterator<Item = [&'p [u8]; 2]>) {
        let Some(place) = self.places[column] else { return };
        let Builder::Pairs { names, values, lengths } = &mut self.builders[place] else { return };
        let mut count = 0;
        for [name, value] in pairs {
            self.bytes += name.len() + value.len() + 16;
            self.escaped += u64::from(names.add(name)) + u64::from(values.add(value));
            count += 1;
        }
        lengths.push(count);
    }

    /// Ends the row.
    pub fn end_row(&mut self) {
        self.rows += 1;
    }

    /// Takes the rows out.
    ///
    /// # Errors
    /// The columns do not fit together.
    pub fn take(&mut self) -> Result<RecordBatch, ArrowError> {
        let columns = self.builders.iter_mut().map(|it| it.take(self.binary)).collect();
        let options =
            RecordBatchOptions::new().with_row_count(Some(std::mem::take(&mut self.rows)));
        self.bytes = 0;
        RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn different_bytes_give_different_texts() {
        for (bytes, text) in [
            (&b"plain \\ and \\x and \\xg0"[..], "plain \\ and \\x and \\xg0"),
            (b"\xff", "\\xff"),
            (b"\\xff", "\\x5cxff"),
            (b"\\x5cxff\xfe", "\\x5cx5cxff\\xfe"),
            (b"\\x\xff", "\\x\\xff"),
        ] {
            assert_eq!(shown(bytes), text);
        }
    }
}
