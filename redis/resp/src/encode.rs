//! The reply encoder: appends replies to a buffer, in the protocol that the client chose.
//!
//! A type that RESP2 lacks becomes what Redis sends instead: a map is a flat array, a set or a push
//! an array, a double or a big number or a verbatim text a bulk string, a boolean an integer.

use std::sync::Arc;

use crate::insets::Insets;
use crate::{ProtocolError, format_double, format_integer};

/// The version of the protocol on one connection; `HELLO` changes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Protocol {
    /// The protocol of every new connection.
    #[default]
    Resp2,
    /// With maps, sets, doubles, nulls of one kind, pushes.
    Resp3,
}

/// Appends replies to `buffer`.
#[derive(Debug)]
pub struct Out<'a> {
    /// Where replies go.
    pub buffer: &'a mut Vec<u8>,
    /// The form they take.
    pub protocol: Protocol,
    /// Bytes of `buffer` above which the encoder adds nothing more: a request for an unbounded
    /// reply must not fill memory. Never send a reply that was cut short.
    pub limit: usize,
    /// Where long texts go that a reply contains by reference, if it may.
    pub insets: Option<&'a mut Insets>,
}

impl<'a> Out<'a> {
    /// Replies in `protocol`, appended to `buffer`, without a limit.
    pub fn new(buffer: &'a mut Vec<u8>, protocol: Protocol) -> Self {
        Out { buffer, protocol, limit: usize::MAX, insets: None }
    }

    /// Whether the buffer is beyond its limit, so that the encoder adds nothing more.
    #[inline]
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.buffer.len() > self.limit
    }

    /// The same place for replies, for as long as it is borrowed.
    #[inline]
    #[must_use]
    pub fn reborrow(&mut self) -> Out<'_> {
        let insets = self.insets.as_deref_mut();
        Out { buffer: self.buffer, protocol: self.protocol, limit: self.limit, insets }
    }

    /// An array of status lines: the reply of HELP sub-commands.
    pub fn lines(&mut self, lines: &[&str]) {
        self.array(lines.len());
        lines.iter().for_each(|line| self.simple(line));
    }

    /// Bytes up to the limit.
    #[must_use]
    pub fn room(&self) -> usize {
        self.limit.saturating_sub(self.buffer.len())
    }

    fn is_resp3(&self) -> bool {
        self.protocol == Protocol::Resp3
    }

    /// `+OK`.
    #[inline]
    pub fn ok(&mut self) {
        self.raw(b"+OK\r\n");
    }

    /// A status such as `PONG`; `text` holds no line end.
    pub fn simple(&mut self, text: &str) {
        debug_assert!(!text.contains(['\r', '\n']), "a status is one line");
        self.line(b'+', text.as_bytes());
    }

    /// An error, with its code first: `ERR syntax error`. Line ends in it become blanks.
    pub fn error(&mut self, text: impl AsRef<[u8]>) {
        let text = text.as_ref();
        if self.is_full() {
            return;
        }
        self.buffer.push(b'-');
        self.buffer.extend(text.iter().map(|&b| if matches!(b, b'\r' | b'\n') { b' ' } else { b }));
        self.buffer.extend_from_slice(b"\r\n");
    }

    /// The reply to a malformed request. Close the connection after it.
    pub fn protocol_error(&mut self, error: &ProtocolError) {
        match error {
            // A case of its own, because the byte goes back as it came, not as UTF-8.
            ProtocolError::ExpectedBulk(byte) => {
                let mut text = b"ERR Protocol error: expected '$', got ' '".to_vec();
                let last = text.len() - 2;
                text[last] = *byte;
                self.error(text);
            }
            other => self.error(format!("ERR {other}")),
        }
    }

    /// An integer.
    #[inline]
    pub fn integer(&mut self, value: i64) {
        self.header(b':', value);
    }

    /// A string of bytes.
    #[inline]
    pub fn bulk(&mut self, bytes: impl AsRef<[u8]>) {
        let bytes = bytes.as_ref();
        if self.is_full() {
            return;
        }
        self.buffer.reserve(bytes.len() + 32);
        self.header(b'$', bytes.len() as i64);
        self.buffer.extend_from_slice(bytes);
        self.buffer.extend_from_slice(b"\r\n");
    }

    /// A string, or no value.
    #[inline]
    pub fn bulk_or_null(&mut self, bytes: Option<impl AsRef<[u8]>>) {
        match bytes {
            Some(bytes) => self.bulk(bytes),
            None => self.null(),
        }
    }

    /// A string of bytes that others hold, too: by reference, if the reply may contain it so.
    pub fn bulk_shared(&mut self, text: &Arc<Vec<u8>>) {
        let all = self.insets.as_ref().map(|insets| insets.bytes() + text.len());
        if all.is_none_or(|all| all >= self.room()) {
            return self.bulk(&text[..]);
        }
        self.header(b'$', text.len() as i64);
        let place = self.buffer.len();
        if let Some(insets) = &mut self.insets {
            insets.add(place, text);
        }
        self.raw(b"\r\n");
    }

    /// An integer as a string of bytes: the reply of `GET` for a counter.
    pub fn bulk_integer(&mut self, value: i64) {
        self.bulk(format_integer(value, &mut [0; 20]));
    }

    /// No value.
    #[inline]
    pub fn null(&mut self) {
        self.raw(if self.is_resp3() { b"_\r\n" } else { b"$-1\r\n" });
    }

    /// No array (an aborted `EXEC`).
    pub fn null_array(&mut self) {
        self.raw(if self.is_resp3() { b"_\r\n" } else { b"*-1\r\n" });
    }

    /// An array; its `length` replies follow.
    pub fn array(&mut self, length: usize) {
        self.header(b'*', length as i64);
    }

    /// An array of the `length` replies written from [`position`](Self::position) on.
    pub fn array_at(&mut self, position: usize, length: usize) {
        let start = self.buffer.len();
        self.array(length);
        let header = self.buffer.len() - start;
        self.buffer[position..].rotate_right(header);
    }

    /// Where the next reply will start, for [`array_at`](Self::array_at).
    pub fn position(&self) -> usize {
        self.buffer.len()
    }

    /// A map; `length` times two replies follow, key and value.
    pub fn map(&mut self, length: usize) {
        match self.protocol {
            Protocol::Resp2 => self.array(length * 2),
            Protocol::Resp3 => self.header(b'%', length as i64),
        }
    }

    /// A set; its `length` replies follow.
    pub fn set(&mut self, length: usize) {
        self.header(if self.is_resp3() { b'~' } else { b'*' }, length as i64);
    }

    /// A push; its `length` replies follow.
    pub fn push(&mut self, length: usize) {
        self.header(if self.is_resp3() { b'>' } else { b'*' }, length as i64);
    }

    /// Attributes of the reply behind them; `length` times two replies follow. RESP2 has none:
    /// never send them there.
    pub fn attribute(&mut self, length: usize) {
        debug_assert!(self.is_resp3(), "RESP2 has no attributes");
        self.header(b'|', length as i64);
    }

    /// A floating-point number.
    pub fn double(&mut self, value: f64) {
        let mut text = Vec::with_capacity(32);
        format_double(value, &mut text);
        self.number_text(&text);
    }

    /// A floating-point number whose text is given.
    pub fn number_text(&mut self, text: &[u8]) {
        match self.protocol {
            Protocol::Resp2 => self.bulk(text),
            Protocol::Resp3 => self.line(b',', text),
        }
    }

    /// A truth value.
    pub fn boolean(&mut self, value: bool) {
        match self.protocol {
            Protocol::Resp2 => self.integer(value.into()),
            Protocol::Resp3 => self.line(b'#', if value { b"t" } else { b"f" }),
        }
    }

    /// An integer of any size, in decimal.
    pub fn big_number(&mut self, digits: &str) {
        match self.protocol {
            Protocol::Resp2 => self.bulk(digits),
            Protocol::Resp3 => self.line(b'(', digits.as_bytes()),
        }
    }

    /// A verbatim string, with a `format` of three bytes: `txt` or `mkd`.
    pub fn verbatim(&mut self, format: &[u8; 3], text: impl AsRef<[u8]>) {
        let text = text.as_ref();
        match self.protocol {
            Protocol::Resp2 => self.bulk(text),
            Protocol::Resp3 if self.is_full() => {}
            Protocol::Resp3 => {
                self.header(b'=', text.len() as i64 + 4);
                self.buffer.extend_from_slice(format);
                self.buffer.push(b':');
                self.buffer.extend_from_slice(text);
                self.buffer.extend_from_slice(b"\r\n");
            }
        }
    }

    /// Encoded bytes of a reply, or of the start of one.
    #[inline]
    pub fn raw(&mut self, bytes: &[u8]) {
        if !self.is_full() {
            self.buffer.extend_from_slice(bytes);
        }
    }

    #[inline]
    fn header(&mut self, kind: u8, number: i64) {
        if let 0..10 = number {
            self.raw(&[kind, b'0' + number as u8, b'\r', b'\n']);
        } else {
            self.line(kind, format_integer(number, &mut [0; 20]));
        }
    }

    fn line(&mut self, kind: u8, text: &[u8]) {
        if self.is_full() {
            return;
        }
        self.buffer.reserve(text.len() + 3);
        self.buffer.push(kind);
        self.buffer.extend_from_slice(text);
        self.buffer.extend_from_slice(b"\r\n");
    }
}
