//! Writing lengths and strings.
//!
//! Each string gets the form that Redis gives it: an integer of at most 32 bits, LZF if that saves
//! four bytes, plain otherwise.

use crate::format::*;
use crate::sheet::{Output, Sheet};
use crate::{Value, lzf};

/// As in Redis: shorter strings are not compressed.
const LZF_BYTES_MIN: usize = 21;
/// Longer strings are not compressed: no room is reserved for them.
pub(crate) const LZF_BYTES_MAX: usize = 1 << 20;

#[derive(Debug)]
pub(crate) struct Strings<O> {
    pub(crate) sheet: Sheet<O>,
    pub(crate) compress: bool,
    pub(crate) lzf: lzf::Compressor,
    /// Room for LZF's output.
    pub(crate) packed: Box<[u8]>,
}

impl<O: Output> Strings<O> {
    pub(crate) fn value(&mut self, value: Value<'_>) -> Result<(), O::Error> {
        match value {
            Value::Bytes(bytes) => self.string(bytes),
            Value::Int(value) => match i32::try_from(value) {
                Ok(small) => self.small_integer(small),
                Err(_) => self.plain(number_text(&mut [0; 32], format_args!("{value}"))),
            },
        }
    }

    pub(crate) fn string(&mut self, bytes: &[u8]) -> Result<(), O::Error> {
        match canonical_int(bytes).map(i32::try_from) {
            Some(Ok(value)) => self.small_integer(value),
            _ => self.blob(bytes),
        }
    }

    /// A string that is no integer.
    pub(crate) fn blob(&mut self, bytes: &[u8]) -> Result<(), O::Error> {
        if self.compress && (LZF_BYTES_MIN..=LZF_BYTES_MAX).contains(&bytes.len()) {
            // As in Redis, packing must save at least four bytes, about its two lengths.
            let room = bytes.len() - 4;
            if let Some(length) = self.lzf.compress(bytes, &mut self.packed[..room]) {
                self.sheet.put(&[STRING_LZF])?;
                self.length(length as u64)?;
                self.length(bytes.len() as u64)?;
                return self.sheet.put(&self.packed[..length]);
            }
        }
        self.plain(bytes)
    }

    fn plain(&mut self, bytes: &[u8]) -> Result<(), O::Error> {
        self.length(bytes.len() as u64)?;
        self.sheet.put(bytes)
    }

    fn small_integer(&mut self, value: i32) -> Result<(), O::Error> {
        if let Ok(value) = i8::try_from(value) {
            self.sheet.put(&[STRING_INT8, value as u8])
        } else if let Ok(value) = i16::try_from(value) {
            let [a, b] = value.to_le_bytes();
            self.sheet.put(&[STRING_INT16, a, b])
        } else {
            let [a, b, c, d] = value.to_le_bytes();
            self.sheet.put(&[STRING_INT32, a, b, c, d])
        }
    }

    pub(crate) fn length(&mut self, length: u64) -> Result<(), O::Error> {
        if length < 1 << 6 {
            self.sheet.put(&[length as u8])
        } else if length < 1 << 14 {
            self.sheet.put(&[0x40 | (length >> 8) as u8, length as u8])
        } else if let Ok(length) = u32::try_from(length) {
            self.sheet.put(&[LENGTH_32])?;
            self.sheet.put(&length.to_be_bytes())
        } else {
            self.sheet.put(&[LENGTH_64])?;
            self.sheet.put(&length.to_be_bytes())
        }
    }
}
