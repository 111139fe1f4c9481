//! The client's side: reads replies of RESP2 and RESP3, for tests and load generators.
//!
//! One call reads one whole reply from the start of a buffer, borrowing its bytes. It keeps no
//! state: an array that arrives in many pieces is read from its start each time.

use thiserror::Error;

use crate::parse_integer;

/// How deep replies may nest.
const DEPTH_MAX: usize = 64;

/// One reply.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Reply<'a> {
    /// A status.
    Simple(&'a [u8]),
    /// An error (RESP3's long errors too).
    Error(&'a [u8]),
    /// An integer.
    Integer(i64),
    /// A string of bytes.
    Bulk(&'a [u8]),
    /// No value: `$-1` or `_`.
    Null,
    /// No array: `*-1`.
    NullArray,
    /// An array.
    Array(Vec<Reply<'a>>),
    /// A map, in the order sent.
    Map(Vec<(Reply<'a>, Reply<'a>)>),
    /// A set, in the order sent.
    Set(Vec<Reply<'a>>),
    /// A push.
    Push(Vec<Reply<'a>>),
    /// A floating-point number.
    Double(f64),
    /// A truth value.
    Boolean(bool),
    /// An integer of any size, in decimal.
    BigNumber(&'a [u8]),
    /// A text with its format.
    Verbatim([u8; 3], &'a [u8]),
}

/// A malformed reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ReplyError {
    /// No reply starts with this byte.
    #[error("unknown reply type byte 0x{0:02x} at offset {1}")]
    UnknownType(u8, usize),
    /// A number or length, or the text of a fixed type, is malformed.
    #[error("malformed reply at offset {0}")]
    Malformed(usize),
    /// Replies nest too deep.
    #[error("reply nests deeper than 64 levels at offset {0}")]
    TooDeep(usize),
}

/// Reads the reply at the start of `buffer`: it and its length in bytes; `None`: not whole yet.
/// Attributes (`|`) before a reply are skipped.
pub fn decode_reply(buffer: &[u8]) -> Result<Option<(Reply<'_>, usize)>, ReplyError> {
    let mut reader = Reader { buffer, at: 0 };
    match reader.reply(0) {
        Ok(reply) => Ok(Some((reply, reader.at))),
        Err(Stop::Incomplete) => Ok(None),
        Err(Stop::Wrong(error)) => Err(error),
    }
}

enum Stop {
    Incomplete,
    Wrong(ReplyError),
}

struct Reader<'a> {
    buffer: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn reply(&mut self, depth: usize) -> Result<Reply<'a>, Stop> {
        if depth > DEPTH_MAX {
            return Err(Stop::Wrong(ReplyError::TooDeep(self.at)));
        }
        loop {
            let start = self.at;
            let wrong = Stop::Wrong(ReplyError::Malformed(start));
            let kind = *self.buffer.get(start).ok_or(Stop::Incomplete)?;
            if !b"+-:$*_,#(!=%~>|".contains(&kind) {
                return Err(Stop::Wrong(ReplyError::UnknownType(kind, start)));
            }
            self.at += 1;
            let line = self.line()?;
            let length = || parse_integer(line).and_then(|n| usize::try_from(n).ok());
            return Ok(match kind {
                b'+' => Reply::Simple(line),
                b'-' => Reply::Error(line),
                b':' => Reply::Integer(parse_integer(line).ok_or(wrong)?),
                b'$' if line == b"-1" => Reply::Null,
                b'$' => Reply::Bulk(self.bytes(length().ok_or(wrong)?)?),
                b'!' => Reply::Error(self.bytes(length().ok_or(wrong)?)?),
                b'=' => match self.bytes(length().ok_or(wrong)?)? {
                    [a, b, c, b':', text @ ..] => Reply::Verbatim([*a, *b, *c], text),
                    _ => return Err(Stop::Wrong(ReplyError::Malformed(start))),
                },
                b'*' if line == b"-1" => Reply::NullArray,
                b'*' => Reply::Array(self.replies(length().ok_or(wrong)?, depth)?),
                b'~' => Reply::Set(self.replies(length().ok_or(wrong)?, depth)?),
                b'>' => Reply::Push(self.replies(length().ok_or(wrong)?, depth)?),
                b'%' => Reply::Map(self.pairs(length().ok_or(wrong)?, depth)?),
                b'|' => {
                    self.pairs(length().ok_or(wrong)?, depth)?;
                    continue;
                }
                b'_' if line.is_empty() => Reply::Null,
                b'#' if line == b"t" => Reply::Boolean(true),
                b'#' if line == b"f" => Reply::Boolean(false),
                b',' => Reply::Double(double(line).ok_or(wrong)?),
                b'(' => Reply::BigNumber(line),
                _ => return Err(wrong),
            });
        }
    }

    /// The rest of the line, without its end.
    fn line(&mut self) -> Result<&'a [u8], Stop> {
        let rest = &self.buffer[self.at..];
        let length = rest.iter().position(|&b| b == b'\r').ok_or(Stop::Incomplete)?;
        match rest.get(length + 1) {
            None => Err(Stop::Incomplete),
            Some(b'\n') => {
                self.at += length + 2;
                Ok(&rest[..length])
            }
            Some(_) => Err(Stop::Wrong(ReplyError::Malformed(self.at + length))),
        }
    }

    /// `length` bytes and the line end behind them.
    fn bytes(&mut self, length: usize) -> Result<&'a [u8], Stop> {
        let rest = &self.buffer[self.at..];
        match rest.get(length..) {
            None | Some([]) | Some([b'\r']) => Err(Stop::Incomplete),
            Some([b'\r', b'\n', ..]) => {
                self.at += length + 2;
                Ok(&rest[..length])
            }
            Some(_) => Err(Stop::Wrong(ReplyError::Malformed(self.at + length))),
        }
    }

    /// Grows with the bytes received, whatever `length` says.
    fn replies(&mut self, length: usize, depth: usize) -> Result<Vec<Reply<'a>>, Stop> {
        let mut replies = Vec::new();
        for _ in 0..length {
            replies.push(self.reply(depth + 1)?);
        }
        Ok(replies)
    }

    fn pairs(&mut self, length: usize, depth: usize) -> Result<Vec<(Reply<'a>, Reply<'a>)>, Stop> {
        let mut pairs = Vec::new();
        for _ in 0..length {
            pairs.push((self.reply(depth + 1)?, self.reply(depth + 1)?));
        }
        Ok(pairs)
    }
}

fn double(text: &[u8]) -> Option<f64> {
    std::str::from_utf8(text).ok()?.parse().ok()
}
