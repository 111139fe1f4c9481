//! The decoder's input: buffers a reader, counts offsets, computes the checksum of the consumed
//! bytes, and reads lengths and strings.

use std::io::{ErrorKind, Read};

use crate::crc64::Crc64;
use crate::format::*;
use crate::{DecodeError, Value, lzf};

const BUFFER_BYTES: usize = 128 * 1024;
/// The least: a file may be longer than its stated length.
const BUFFER_BYTES_MIN: usize = 1024;

/// Invariant: `buffer[..start]` is consumed, of it `buffer[..hashed]` is in `crc`;
/// `buffer[start..end]` is read and waits. `hashed <= start <= end`.
#[derive(Debug)]
pub(crate) struct Source<R> {
    reader: R,
    /// Empty before the first read.
    buffer: Box<[u8]>,
    hashed: usize,
    start: usize,
    end: usize,
    /// The offset in the file of `buffer[0]`.
    origin: u64,
    file_bytes: Option<u64>,
    dialect: Dialect,
    crc: Crc64,
    packed: Vec<u8>,
}

/// A length, or one of the special forms of a string.
enum Length {
    Plain(u64),
    Special(u8),
}

impl<R: Read> Source<R> {
    pub(crate) fn new(reader: R) -> Self {
        Source {
            reader,
            buffer: Box::default(),
            hashed: 0,
            start: 0,
            end: 0,
            origin: 0,
            file_bytes: None,
            dialect: Dialect::Redis,
            crc: Crc64::new(),
            packed: Vec::new(),
        }
    }

    pub(crate) fn set_file_bytes(&mut self, bytes: u64) {
        self.file_bytes = Some(bytes);
    }

    /// Bytes consumed so far.
    pub(crate) fn offset(&self) -> u64 {
        self.origin + self.start as u64
    }

    /// The checksum of everything consumed so far.
    pub(crate) fn checksum(&mut self) -> u64 {
        self.crc.update(&self.buffer[self.hashed..self.start]);
        self.hashed = self.start;
        self.crc.value()
    }

    /// Reads on if nothing waits; `false`: the file has ended.
    fn fill(&mut self) -> Result<bool, DecodeError> {
        if self.start < self.end {
            return Ok(true);
        }
        if self.buffer.is_empty() {
            // A short file needs no more, and a payload is in memory already.
            let bytes = self.file_bytes.and_then(|bytes| usize::try_from(bytes).ok());
            let bytes = bytes.unwrap_or(BUFFER_BYTES).clamp(BUFFER_BYTES_MIN, BUFFER_BYTES);
            self.buffer = vec![0; bytes].into();
        }
        self.checksum();
        self.origin = self.offset();
        (self.hashed, self.start, self.end) = (0, 0, 0);
        loop {
            match self.reader.read(&mut self.buffer) {
                Ok(bytes) => {
                    self.end = bytes;
                    return Ok(bytes > 0);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(source) => return Err(DecodeError::Read { offset: self.origin, source }),
            }
        }
    }

    /// The next byte, or `None` at the end of the file.
    pub(crate) fn next_byte(&mut self) -> Result<Option<u8>, DecodeError> {
        if !self.fill()? {
            return Ok(None);
        }
        self.start += 1;
        Ok(Some(self.buffer[self.start - 1]))
    }

    /// A field of `N` bytes that starts here; `what` names it.
    pub(crate) fn array<const N: usize>(&mut self, what: &str) -> Result<[u8; N], DecodeError> {
        let offset = self.offset();
        let mut bytes = [0; N];
        if let Some(waiting) = self.buffer[self.start..self.end].first_chunk() {
            bytes = *waiting;
            self.start += N;
            return Ok(bytes);
        }
        for byte in &mut bytes {
            *byte = self.next_byte()?.ok_or_else(|| {
                damaged(offset, format!("{what} of {N} bytes runs past the end of the file"))
            })?;
        }
        Ok(bytes)
    }

    /// The magic and the version.
    pub(crate) fn header(&mut self) -> Result<u32, DecodeError> {
        let header = self.array::<HEADER_BYTES>("the header").map_err(|error| match error {
            DecodeError::Damaged { .. } => DecodeError::NotRdb,
            other => other,
        })?;
        self.dialect = dialect_of(&header);
        check_header(&header)
    }

    /// Whose types and opcodes follow.
    pub(crate) fn dialect(&self) -> Dialect {
        self.dialect
    }

    pub(crate) fn set_dialect(&mut self, dialect: Dialect) {
        self.dialect = dialect;
    }

    /// The byte that names the next part.
    pub(crate) fn op(&mut self) -> Result<u8, DecodeError> {
        let at = self.offset();
        self.next_byte()?.ok_or_else(|| {
            damaged(at, "the file ends where a key or the end mark is expected".into())
        })
    }

    /// Reads the checksum behind the end mark; returns whether there is one, which is then right.
    pub(crate) fn end(&mut self, version: u32) -> Result<bool, DecodeError> {
        if version < FIRST_VERSION_WITH_CHECKSUM {
            return Ok(false);
        }
        let computed = self.checksum();
        let offset = self.offset();
        let written = u64::from_le_bytes(self.array("the checksum")?);
        if written != 0 && written != computed {
            return Err(DecodeError::Checksum { offset, computed, written });
        }
        Ok(written != 0)
    }

    /// The time at which a key expires, in unix milliseconds; `None` if it never does.
    pub(crate) fn expiry_ms(&mut self) -> Result<Option<i64>, DecodeError> {
        let at = i64::from_le_bytes(self.array("an expiry")?);
        // Redis keeps a key with this number: there it stands for "none".
        Ok((at != NO_EXPIRY).then_some(at))
    }

    fn length_or_special(&mut self) -> Result<Length, DecodeError> {
        let offset = self.offset();
        let [first] = self.array("a length")?;
        Ok(match first {
            0x00..0x40 => Length::Plain(first.into()),
            0x40..0x80 => {
                let [low] = self.array("the rest of a length")?;
                Length::Plain(u64::from(first & 0x3f) << 8 | u64::from(low))
            }
            LENGTH_32 => Length::Plain(u32::from_be_bytes(self.array("a 32-bit length")?).into()),
            LENGTH_64 => Length::Plain(u64::from_be_bytes(self.array("a 64-bit length")?)),
            0xC0.. => Length::Special(first),
            _ => return Err(damaged(offset, format!("no length starts with byte 0x{first:02x}"))),
        })
    }

    /// Steps over a hint about a slot of a cluster: its number, keys, and those that expire.
    pub(crate) fn slot_info(&mut self) -> Result<(), DecodeError> {
        for what in ["the number of a slot", "the number of keys", "the number of expiring keys"] {
            self.length(what)?;
        }
        Ok(())
    }

    /// A length or other number; `what` names it.
    pub(crate) fn length(&mut self, what: &str) -> Result<u64, DecodeError> {
        let offset = self.offset();
        match self.length_or_special()? {
            Length::Plain(length) => Ok(length),
            Length::Special(form) => {
                let text = format!("{what} is expected, but 0x{form:02x} starts a string");
                Err(damaged(offset, text))
            }
        }
    }

    /// A string in any encoding: returns an integer, leaves all others in `out`.
    pub(crate) fn string(&mut self, out: &mut Vec<u8>) -> Result<Option<i64>, DecodeError> {
        let offset = self.offset();
        match self.length_or_special()? {
            Length::Plain(length) => self.bytes(offset, length, out).map(|()| None),
            Length::Special(STRING_LZF) => {
                self.packed_string_up_to(offset, u64::MAX, out).map(|_| None)
            }
            Length::Special(form) => self.integer(offset, form).map(Some),
        }
    }

    /// The integer that a string of the special form `form` is.
    fn integer(&mut self, offset: u64, form: u8) -> Result<i64, DecodeError> {
        Ok(match form {
            STRING_INT8 => i8::from_le_bytes(self.array("an integer")?).into(),
            STRING_INT16 => i16::from_le_bytes(self.array("an integer")?).into(),
            STRING_INT32 => i32::from_le_bytes(self.array("an integer")?).into(),
            _ => return Err(damaged(offset, format!("no string starts with byte 0x{form:02x}"))),
        })
    }

    /// A string in any encoding, as bytes in `out`.
    pub(crate) fn text(&mut self, out: &mut Vec<u8>) -> Result<(), DecodeError> {
        self.text_up_to(u64::MAX, out).map(drop)
    }

    /// The compressed string whose encoding starts at `offset`, if it has no more than `most`
    /// bytes.
    fn packed_string_up_to(
        &mut self,
        offset: u64,
        most: u64,
        out: &mut Vec<u8>,
    ) -> Result<bool, DecodeError> {
        let packed_length = self.length("the packed length of a string")?;
        let length = self.length("the unpacked length of a string")?;
        if length.max(packed_length) > most {
            return self.skip_packed(offset, packed_length, length).map(|()| false);
        }
        let mut packed = std::mem::take(&mut self.packed);
        let result = self.bytes(offset, packed_length, &mut packed);
        let unpacked = result.is_ok().then(|| lzf::decompress(&packed, length, out)).flatten();
        trim(&mut packed);
        self.packed = packed;
        result?;
        unpacked.ok_or_else(|| not_lzf(offset, packed_length, length)).map(|()| true)
    }

    /// `length` bytes of the string whose encoding starts at `offset`. Memory follows the bytes
    /// that arrive.
    pub(crate) fn bytes(
        &mut self,
        offset: u64,
        length: u64,
        out: &mut Vec<u8>,
    ) -> Result<(), DecodeError> {
        out.clear();
        self.pieces(offset, length, |piece| out.extend_from_slice(piece))
    }

    /// `length` bytes of the string whose encoding starts at `offset`, piece by piece.
    fn pieces(
        &mut self,
        offset: u64,
        length: u64,
        mut take: impl FnMut(&[u8]),
    ) -> Result<(), DecodeError> {
        let past_end =
            || damaged(offset, format!("string of {length} bytes runs past the end of the file"));
        let end = self.offset().checked_add(length);
        if self.file_bytes.is_some_and(|bytes| end.is_none_or(|end| end > bytes)) {
            return Err(past_end());
        }
        let mut missing = length;
        while missing > 0 {
            if !self.fill()? {
                return Err(past_end());
            }
            let waiting = &self.buffer[self.start..self.end];
            let step = usize::try_from(missing).map_or(waiting.len(), |m| m.min(waiting.len()));
            take(&waiting[..step]);
            self.start += step;
            missing -= step as u64;
        }
        Ok(())
    }

    /// Steps over `length` bytes of what starts at `offset`.
    pub(crate) fn skip(&mut self, offset: u64, length: u64) -> Result<(), DecodeError> {
        self.pieces(offset, length, |_| {})
    }

    /// Steps over a string in any encoding; checks a packed one.
    pub(crate) fn skip_string(&mut self) -> Result<(), DecodeError> {
        let mut nothing = Vec::new();
        self.string_up_to(0, &mut nothing).map(drop)
    }

    /// A string in any encoding; `None` if it has more than `most` bytes: then it is only checked.
    pub(crate) fn string_up_to<'a>(
        &mut self,
        most: u64,
        out: &'a mut Vec<u8>,
    ) -> Result<Option<Value<'a>>, DecodeError> {
        let offset = self.offset();
        match self.length_or_special()? {
            Length::Plain(length) if length <= most => {
                self.bytes(offset, length, out)?;
                Ok(Some(Value::Bytes(out)))
            }
            Length::Plain(length) => self.skip(offset, length).map(|()| None),
            Length::Special(STRING_LZF) => {
                let held = self.packed_string_up_to(offset, most, out)?;
                Ok(held.then_some(Value::Bytes(out)))
            }
            Length::Special(form) => self.integer(offset, form).map(|int| Some(Value::Int(int))),
        }
    }

    /// A string in any encoding, as bytes in `out`; `false` if it has more than `most` bytes: then
    /// it is only checked.
    pub(crate) fn text_up_to(&mut self, most: u64, out: &mut Vec<u8>) -> Result<bool, DecodeError> {
        out.clear();
        match self.string_up_to(most, out)? {
            None => return Ok(false),
            Some(Value::Bytes(_)) => {}
            Some(Value::Int(value)) => {
                out.extend_from_slice(number_text(&mut [0; 32], format_args!("{value}")));
            }
        }
        Ok(true)
    }

    fn skip_packed(&mut self, offset: u64, packed: u64, length: u64) -> Result<(), DecodeError> {
        let mut check = lzf::Check::new(length);
        self.pieces(offset, packed, |piece| check.update(piece))?;
        if check.is_whole() { Ok(()) } else { Err(not_lzf(offset, packed, length)) }
    }
}

/// Whether files with this head can be read.
///
/// # Errors
/// [`DecodeError::NotRdb`] and [`DecodeError::UnsupportedVersion`].
pub fn check_header(head: &[u8]) -> Result<u32, DecodeError> {
    let found = file_version(head).ok_or(DecodeError::NotRdb)?;
    let dialect = dialect_of(head);
    let known = match dialect {
        Dialect::Redis => 1..=VERSION_READ_MAX,
        Dialect::Valkey => VALKEY_VERSION..=VALKEY_VERSION,
    };
    if !known.contains(&found) {
        return Err(DecodeError::UnsupportedVersion { writer: dialect.word(), found });
    }
    Ok(found)
}

fn dialect_of(head: &[u8]) -> Dialect {
    if head.starts_with(VALKEY_MAGIC) { Dialect::Valkey } else { Dialect::Redis }
}

fn not_lzf(offset: u64, packed: u64, length: u64) -> DecodeError {
    damaged(offset, format!("{packed} bytes of LZF do not unpack to a string of {length} bytes"))
}

pub(crate) fn damaged(offset: u64, what: String) -> DecodeError {
    DecodeError::Damaged { offset, what }
}

/// Empties a buffer for its next use, and frees the room of a rare huge string.
pub(crate) fn trim(buffer: &mut Vec<u8>) {
    const KEPT_BYTES_MAX: usize = 1 << 20;
    buffer.clear();
    buffer.shrink_to(KEPT_BYTES_MAX);
}
