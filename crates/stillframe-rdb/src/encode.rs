//! The writer of RDB files.
//!
//! It decides the form of each string as Redis does: an integer of at most 32 bits, LZF if that
//! saves four bytes, plain otherwise.

use std::io::Write;

use crate::format::*;
use crate::sheet::{BUFFER_BYTES, Output, Sheet};
use crate::{Value, lzf};

/// What the aux fields tell about a file.
#[derive(Debug, Clone, Copy)]
pub struct Origin {
    /// When it was begun, in unix seconds.
    pub created_s: i64,
    /// Memory used by the process then, in bytes.
    pub used_memory_bytes: u64,
    /// Whether it is the base of an append-only file.
    pub aof_base: bool,
}

/// The version we claim to be compatible with, in the aux field `redis-ver`.
const REDIS_VERSION: &[u8] = b"7.0.15";

/// As in Redis: shorter strings are not compressed.
const LZF_BYTES_MIN: usize = 21;
/// Longer strings are not compressed, for want of preallocated room.
const LZF_BYTES_MAX: usize = 1 << 20;

/// Writes one RDB file. Allocates nothing after construction.
///
/// ```
/// use stillframe_rdb::{Encoder, Origin, Value};
/// let mut file = Vec::new();
/// let mut encoder = Encoder::new(&mut file);
/// encoder.begin(&Origin { created_s: 1_700_000_000, used_memory_bytes: 0, aof_base: false })?;
/// encoder.resize_db(0, 2, 1)?;
/// encoder.entry(0, b"counter", Value::Int(7), None)?;
/// encoder.entry(0, b"session", Value::Bytes(b"abc"), Some(1_700_000_060_000))?;
/// encoder.finish()?;
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct Encoder<O> {
    sheet: Sheet<O>,
    db: Option<u64>,
    compress: bool,
    lzf: lzf::Compressor,
    packed: Box<[u8]>,
}

/// The memory that an encoder works in, to be used by one encoder after another: fresh memory is
/// slow to touch.
pub struct Workspace {
    buffer: Box<[u8]>,
    lzf: lzf::Compressor,
    packed: Box<[u8]>,
}

impl Workspace {
    /// Allocates and touches it.
    #[must_use]
    pub fn new() -> Self {
        Workspace {
            buffer: vec![1; BUFFER_BYTES].into(),
            lzf: lzf::Compressor::new(),
            packed: vec![1; LZF_BYTES_MAX].into(),
        }
    }
}

impl Default for Workspace {
    fn default() -> Self {
        Self::new()
    }
}

impl<O: Output> Encoder<O> {
    /// An encoder that has not written anything yet. Everything it will need is allocated here.
    pub fn new(output: O) -> Self {
        Self::within(Workspace::new(), output)
    }

    /// As [`new`](Self::new), in memory that is there already: nothing is allocated.
    pub fn within(workspace: Workspace, output: O) -> Self {
        let Workspace { buffer, lzf, packed } = workspace;
        Encoder { sheet: Sheet::new(output, buffer), db: None, compress: true, lzf, packed }
    }

    /// Takes the memory away for the next encoder. Nothing more can be written through this one.
    pub fn take_workspace(&mut self) -> Workspace {
        let lzf = std::mem::replace(&mut self.lzf, lzf::Compressor::spent());
        Workspace {
            buffer: self.sheet.take_buffer(),
            lzf,
            packed: std::mem::take(&mut self.packed),
        }
    }

    /// Whether strings are compressed where that helps (`rdbcompression`); they are by default.
    #[must_use]
    pub fn compress(mut self, compress: bool) -> Self {
        self.compress = compress;
        self
    }

    /// Writes the header and the aux fields that Redis writes. To be called once, first.
    ///
    /// # Errors
    /// Those of the output, here and in all methods below.
    pub fn begin(&mut self, origin: &Origin) -> Result<(), O::Error> {
        debug_assert_eq!(self.written_bytes(), 0, "a file begins once");
        self.sheet.put(MAGIC)?;
        self.sheet.put(b"0010")?;
        let used = i64::try_from(origin.used_memory_bytes).unwrap_or(i64::MAX);
        self.aux(b"redis-ver", Value::Bytes(REDIS_VERSION))?;
        self.aux(b"redis-bits", Value::Int(usize::BITS.into()))?;
        self.aux(b"ctime", Value::Int(origin.created_s))?;
        self.aux(b"used-mem", Value::Int(used))?;
        self.aux(b"aof-base", Value::Int(origin.aof_base.into()))
    }

    /// Writes one aux field.
    ///
    /// # Errors
    /// Those of the output.
    pub fn aux(&mut self, name: &[u8], value: Value<'_>) -> Result<(), O::Error> {
        self.sheet.put(&[OP_AUX])?;
        self.string(name)?;
        self.value(value)
    }

    /// Selects database `db` and tells how many keys it will have, and how many of them expire, so
    /// that a reader can make room at once. A hint, best given before the entries.
    ///
    /// # Errors
    /// Those of the output.
    pub fn resize_db(&mut self, db: u64, keys: u64, expires: u64) -> Result<(), O::Error> {
        self.select_db(db)?;
        self.sheet.put(&[OP_RESIZE_DB])?;
        self.length(keys)?;
        self.length(expires)
    }

    /// Writes one key of database `db`. Databases may come in any order, several times.
    ///
    /// # Errors
    /// Those of the output.
    pub fn entry(
        &mut self,
        db: u64,
        key: &[u8],
        value: Value<'_>,
        expire_at_ms: Option<i64>,
    ) -> Result<(), O::Error> {
        self.select_db(db)?;
        if let Some(at) = expire_at_ms {
            self.sheet.put(&[OP_EXPIRE_MS])?;
            self.sheet.put(&at.to_le_bytes())?;
        }
        self.sheet.put(&[TYPE_STRING])?;
        self.string(key)?;
        self.value(value)
    }

    /// Ends the file: end mark, checksum, everything handed to the output. Returns its length in
    /// bytes. Nothing may be written after it.
    ///
    /// # Errors
    /// Those of the output.
    pub fn finish(&mut self) -> Result<u64, O::Error> {
        self.sheet.put(&[OP_EOF])?;
        self.sheet.flush()?;
        let checksum = self.sheet.flushed_checksum();
        self.sheet.put(&checksum.to_le_bytes())?;
        self.sheet.flush()?;
        Ok(self.sheet.put_bytes())
    }

    /// Bytes written so far, those in the buffer included.
    pub fn written_bytes(&self) -> u64 {
        self.sheet.put_bytes()
    }

    /// The output.
    pub fn output(&self) -> &O {
        &self.sheet.output
    }

    /// The output, for good.
    pub fn into_output(self) -> O {
        self.sheet.output
    }

    fn select_db(&mut self, db: u64) -> Result<(), O::Error> {
        if self.db != Some(db) {
            self.sheet.put(&[OP_SELECT_DB])?;
            self.length(db)?;
            self.db = Some(db);
        }
        Ok(())
    }

    fn value(&mut self, value: Value<'_>) -> Result<(), O::Error> {
        match value {
            Value::Bytes(bytes) => self.string(bytes),
            Value::Int(value) => match i32::try_from(value) {
                Ok(small) => self.small_integer(small),
                Err(_) => {
                    let mut text = [0u8; 20];
                    let mut rest = &mut text[..];
                    write!(rest, "{value}").expect("20 bytes hold any i64");
                    let length = 20 - rest.len();
                    self.plain(&text[..length])
                }
            },
        }
    }

    fn string(&mut self, bytes: &[u8]) -> Result<(), O::Error> {
        if let Some(value) = canonical_i32(bytes) {
            return self.small_integer(value);
        }
        if self.compress && (LZF_BYTES_MIN..=LZF_BYTES_MAX).contains(&bytes.len()) {
            // As in Redis, packing must save four bytes at least: about what telling it costs.
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

    fn length(&mut self, length: u64) -> Result<(), O::Error> {
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

/// The integer that `text` is the canonical decimal form of, if it is one of 32 bits.
fn canonical_i32(text: &[u8]) -> Option<i32> {
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    let canonical = match digits {
        [b'0'] => text.len() == 1,
        [b'1'..=b'9', ..] => digits.len() <= 10,
        _ => false,
    };
    if !canonical {
        return None;
    }
    std::str::from_utf8(text).ok()?.parse().ok()
}
