//! Ids in requests and replies.

use stillframe_keyspace::StreamId;
use stillframe_resp::format_integer;

use crate::errors::Refusal;
use crate::number::integers::parse_unsigned;

const INVALID: Refusal = Refusal::new("ERR Invalid stream ID specified as stream command argument");

/// An id, or its milliseconds with the sequence number left to the stream: `5-*`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Given {
    Whole(StreamId),
    Millis(u64),
}

/// The text of an id.
pub(super) fn text(id: StreamId) -> IdText {
    let mut text = IdText { bytes: [0; ID_BYTES_MAX], len: 0 };
    text.push(id.ms);
    text.bytes[text.len] = b'-';
    text.len += 1;
    text.push(id.seq);
    text
}

const ID_BYTES_MAX: usize = 41;

/// See [`text`].
#[derive(Debug, Clone, Copy)]
pub(super) struct IdText {
    bytes: [u8; ID_BYTES_MAX],
    len: usize,
}

impl IdText {
    /// Appends a number; two numbers of 64 bits and a dash fit.
    fn push(&mut self, number: u64) {
        let mut digits = [0; 20];
        let Ok(signed) = i64::try_from(number) else {
            self.push(number / 10);
            return self.push(number % 10);
        };
        let digits = format_integer(signed, &mut digits);
        self.bytes[self.len..self.len + digits.len()].copy_from_slice(digits);
        self.len += digits.len();
    }
}

impl AsRef<[u8]> for IdText {
    fn as_ref(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

/// The parts of `ms-seq`; Redis looks at what comes before a zero byte alone.
fn parts(text: &[u8]) -> Result<(u64, Option<&[u8]>), Refusal> {
    const BYTES_MAX: usize = 127;
    if text.len() > BYTES_MAX {
        return Err(INVALID);
    }
    let text = text.split(|byte| *byte == 0).next().unwrap_or_default();
    let (ms, seq) = match text.iter().position(|byte| *byte == b'-') {
        Some(dash) => (&text[..dash], Some(&text[dash + 1..])),
        None => (text, None),
    };
    Ok((parse_unsigned(ms).ok_or(INVALID)?, seq))
}

/// An id; without a sequence number it has that one.
pub(super) fn strict(text: &[u8], missing: u64) -> Result<StreamId, Refusal> {
    let (ms, seq) = parts(text)?;
    let seq = seq.map_or(Some(missing), parse_unsigned).ok_or(INVALID)?;
    Ok(StreamId { ms, seq })
}

/// As [`strict`], with `-` and `+` for the least and the greatest.
pub(super) fn any(text: &[u8], missing: u64) -> Result<StreamId, Refusal> {
    match text {
        b"-" => Ok(StreamId::MIN),
        b"+" => Ok(StreamId::MAX),
        text => strict(text, missing),
    }
}

/// The id of a new entry.
pub(super) fn given(text: &[u8]) -> Result<Given, Refusal> {
    match parts(text)? {
        (ms, Some(b"*")) => Ok(Given::Millis(ms)),
        (ms, seq) => {
            let seq = seq.map_or(Some(0), parse_unsigned).ok_or(INVALID)?;
            Ok(Given::Whole(StreamId { ms, seq }))
        }
    }
}

/// The first id of an interval, itself excluded behind `(`.
pub(super) fn start(text: &[u8]) -> Result<StreamId, Refusal> {
    match excluded(text) {
        Some(text) => {
            let invalid = || Refusal::new("ERR invalid start ID for the interval");
            strict(text, 0)?.next().ok_or_else(invalid)
        }
        None => any(text, 0),
    }
}

/// The last id of an interval, itself excluded behind `(`.
pub(super) fn end(text: &[u8]) -> Result<StreamId, Refusal> {
    match excluded(text) {
        Some(text) => {
            let invalid = || Refusal::new("ERR invalid end ID for the interval");
            strict(text, u64::MAX)?.previous().ok_or_else(invalid)
        }
        None => any(text, u64::MAX),
    }
}

fn excluded(text: &[u8]) -> Option<&[u8]> {
    text.strip_prefix(b"(").filter(|rest| !rest.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_read_as_c_reads_numbers() {
        let read = |text: &[u8]| strict(text, 9).ok().map(|id| (id.ms, id.seq));
        let most = u64::MAX;
        for (text, expected) in [
            (&b"5"[..], Some((5, 9))),
            (b"5-7", Some((5, 7))),
            (b" 05-+7", Some((5, 7))),
            (b"18446744073709551615-18446744073709551615", Some((most, most))),
            (b"18446744073709551616", None),
            (b"1--5", None),
            (b"1--05", Some((1, most - 4))),
            (b"5\0x", Some((5, 9))),
            (b"-", None),
            (b"", None),
            (b"5-", None),
            (b"x", None),
        ] {
            assert_eq!(read(text), expected, "{}", text.escape_ascii());
        }
        assert_eq!(given(b"5-*"), Ok(Given::Millis(5)));
        assert_eq!(any(b"+", 0), Ok(StreamId::MAX));
        assert_eq!(start(b"(5-7"), Ok(StreamId { ms: 5, seq: 8 }));
        assert_eq!(end(b"(5-0"), Ok(StreamId { ms: 4, seq: most }));
        assert!(end(b"(0-0").is_err() && start(b"(").is_err());
        assert_eq!(text(StreamId::MAX).as_ref().len(), ID_BYTES_MAX);
        for number in [0, 7, 10, 99, i64::MAX as u64, i64::MAX as u64 + 1, most - 1, most] {
            let id = StreamId { ms: number, seq: most - number };
            assert_eq!(text(id).as_ref(), format!("{}-{}", id.ms, id.seq).as_bytes());
        }
    }
}
