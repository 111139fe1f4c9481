//! The request parser: multibulk (`*2\r\n$3\r\nGET\r\n$1\r\nk\r\n`) and inline (`GET k\r\n`).
//!
//! Invariants, between calls for one unfinished request:
//! - Everything before `position` is parsed and never read again; `args` holds the arguments found
//!   there, as ranges of the buffer.
//! - `scanned` bytes of the unfinished line at `position` hold no line end.
//! - `bulk` is the length of the argument whose bytes start at `position`, if its header is read.
//!
//! Like Redis, the two bytes that end a header or an argument are skipped, not inspected.

use std::ops::{Range, RangeInclusive};

use crate::{ProtocolError, inline, parse_integer};

/// Longest inline request, and longest header line, in bytes.
const LINE_BYTES_MAX: usize = 64 * 1024;

/// Least room to reserve for an argument under way, in bytes.
const RESERVE_BYTES_MIN: usize = 16 * 1024;

/// An argument list longer than this is given back after its request.
const ARGS_KEPT_MAX: usize = 1024;

/// Most arguments of a [`Plain`] request.
pub(crate) const PLAIN_ARGS_MAX: usize = 8;
/// Longest argument of a [`Plain`] request, in bytes.
pub(crate) const PLAIN_BULK_BYTES_MAX: usize = Limits::UNAUTHENTICATED_BULK_BYTES_MAX;

/// Limits of one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Arguments of one request.
    pub args_max: usize,
    /// Bytes of one argument (`proto-max-bulk-len`).
    pub bulk_bytes_max: usize,
    /// Whether the client may use all of that; if not, 10 arguments of 16 KiB are the limit.
    pub authenticated: bool,
}

impl Limits {
    /// Redis's defaults for a client that has authenticated, or need not.
    pub const OPEN: Limits =
        Limits { args_max: i32::MAX as usize, bulk_bytes_max: 512 << 20, authenticated: true };
    /// Redis's defaults for a client that must authenticate first.
    pub const UNAUTHENTICATED: Limits = Limits { authenticated: false, ..Limits::OPEN };

    const UNAUTHENTICATED_ARGS_MAX: usize = 10;
    const UNAUTHENTICATED_BULK_BYTES_MAX: usize = 16 * 1024;
}

impl Default for Limits {
    fn default() -> Self {
        Limits::OPEN
    }
}

/// A request of few arguments of moderate length that has arrived as a whole: nearly all of them.
#[derive(Debug, Clone, Copy)]
pub struct Plain<'b> {
    args: [&'b [u8]; PLAIN_ARGS_MAX],
    count: usize,
    bytes: usize,
}

impl<'b> Plain<'b> {
    pub(crate) fn new(args: [&'b [u8]; PLAIN_ARGS_MAX], count: usize, bytes: usize) -> Self {
        Self { args, count, bytes }
    }

    /// Its arguments, at least one.
    #[must_use]
    pub fn args(&self) -> &[&'b [u8]] {
        &self.args[..self.count]
    }

    /// How many bytes it takes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

/// Finds requests in a stream of bytes, for one connection.
///
/// ```
/// use stillframe_resp::{Limits, Parser};
/// let mut parser = Parser::new(Limits::OPEN);
/// let mut input = b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\nPI".to_vec();
/// let used = parser.parse(&mut input)?.expect("a whole request");
/// let args: Vec<&[u8]> = parser.args().iter().map(|range| &input[range.clone()]).collect();
/// assert_eq!(args, [&b"GET"[..], b"k"]);
/// input.drain(..used);
/// assert_eq!(parser.parse(&mut input)?, None);
/// input.extend_from_slice(b"NG\r\n");
/// assert_eq!(parser.parse(&mut input)?, Some(6));
/// # Ok::<(), stillframe_resp::ProtocolError>(())
/// ```
#[derive(Debug, Default)]
pub struct Parser {
    limits: Limits,
    args: Vec<Range<usize>>,
    args_missing: usize,
    position: usize,
    scanned: usize,
    bulk: Option<usize>,
    wanted: usize,
}

impl Parser {
    /// A parser at the start of a stream.
    pub fn new(limits: Limits) -> Self {
        Parser { limits, ..Parser::default() }
    }

    /// Changes the limits, for example after `AUTH`. Holds from the next header on.
    pub fn set_limits(&mut self, limits: Limits) {
        self.limits = limits;
    }

    /// Looks for one whole request at the start of `buffer`.
    ///
    /// - `Ok(Some(n))`: [`args`](Self::args) are the request; drop `n` bytes before the next call.
    ///   No arguments at all (an empty line, `*0`) means a request that gets no reply.
    /// - `Ok(None)`: more bytes are needed. Call again with the same bytes and more behind them;
    ///   they may have moved in memory.
    /// - `Err`: the stream is malformed from here on.
    ///
    /// The buffer is only written to for an inline request with quotes, unescaped in place.
    pub fn parse(&mut self, buffer: &mut [u8]) -> Result<Option<usize>, ProtocolError> {
        self.wanted = 0;
        if self.args_missing == 0 {
            self.args.clear();
            match buffer.first() {
                None => return Ok(None),
                Some(b'*') => {}
                Some(_) => return self.inline(buffer),
            }
            if self.args.capacity() > ARGS_KEPT_MAX {
                self.args = Vec::new();
            }
            if self.scanned == 0 {
                let args = &mut self.args;
                if let Some((_, bytes)) =
                    plain_args(buffer, &self.limits, |_, range| args.push(range))
                {
                    return Ok(Some(bytes));
                }
                self.args.clear();
            }
            match self.multibulk_header(buffer)? {
                None => return Ok(None),
                Some(0) => return Ok(Some(self.finish())),
                Some(count) => self.args_missing = count,
            }
        }
        while self.args_missing > 0 {
            if !self.bulk(buffer)? {
                return Ok(None);
            }
        }
        Ok(Some(self.finish()))
    }

    /// The arguments of the request found last: ranges of the buffer it was found in.
    pub fn args(&self) -> &[Range<usize>] {
        &self.args
    }

    /// Bytes of memory that the parser holds: where the arguments of a request under way are.
    pub fn memory(&self) -> usize {
        self.args.capacity() * size_of::<Range<usize>>()
    }

    /// Bytes of the unfinished request that stand before a large argument under way; 0 if none is.
    pub fn before_large(&self) -> usize {
        const LARGE_BYTES: usize = 32 * 1024;
        self.bulk.filter(|&length| length >= LARGE_BYTES).map_or(0, |_| self.position)
    }

    /// How many more bytes to make room for before reading on: those missing of the argument under
    /// way, 0 if none is. It never exceeds what has arrived of that argument (or 16 KiB), so a
    /// client that announces much and sends little costs little.
    pub fn wanted(&self) -> usize {
        self.wanted
    }

    /// The request at the start of `buffer`, if it is plain. [`parse`](Self::parse) takes all
    /// others, and the rest of an unfinished one. Several plain requests can be parsed before the
    /// first one runs, because a plain request exceeds no limit that a request could change.
    #[inline]
    #[must_use]
    pub fn plain<'b>(&self, buffer: &'b [u8]) -> Option<Plain<'b>> {
        if self.args_missing > 0 || self.scanned > 0 || buffer.first() != Some(&b'*') {
            return None;
        }
        let mut args = [&[][..]; PLAIN_ARGS_MAX];
        let show = |at: usize, range| args[at] = &buffer[range];
        let (count, bytes) = plain_args(buffer, &self.limits, show)?;
        Some(Plain { args, count, bytes })
    }

    fn finish(&mut self) -> usize {
        self.scanned = 0;
        std::mem::take(&mut self.position)
    }

    /// `*<count>\r\n`: the number of arguments that follow, 0 for none or less; `None`: not whole.
    fn multibulk_header(&mut self, buffer: &[u8]) -> Result<Option<usize>, ProtocolError> {
        use ProtocolError as E;
        let Some(count) =
            self.number(buffer, E::TooBigMultibulkCount, E::InvalidMultibulkLength)?
        else {
            return Ok(None);
        };
        let count = usize::try_from(count).unwrap_or(0);
        if count > self.limits.args_max {
            return Err(E::InvalidMultibulkLength);
        }
        if count > Limits::UNAUTHENTICATED_ARGS_MAX && !self.limits.authenticated {
            return Err(E::UnauthenticatedMultibulkLength);
        }
        Ok(Some(count))
    }

    /// `$<length>\r\n<bytes>\r\n`: takes one argument; `false`: not whole.
    #[inline]
    fn bulk(&mut self, buffer: &[u8]) -> Result<bool, ProtocolError> {
        let length = match self.bulk {
            Some(length) => length,
            None => match self.bulk_header(buffer)? {
                None => return Ok(false),
                Some(length) => length,
            },
        };
        let arrived = buffer.len().saturating_sub(self.position);
        let whole = length.saturating_add(2);
        if arrived < whole {
            self.bulk = Some(length);
            self.wanted = (whole - arrived).min(arrived.max(RESERVE_BYTES_MIN));
            return Ok(false);
        }
        self.args.push(self.position..self.position + length);
        self.position += whole;
        self.bulk = None;
        self.args_missing -= 1;
        Ok(true)
    }

    #[inline]
    fn bulk_header(&mut self, buffer: &[u8]) -> Result<Option<usize>, ProtocolError> {
        use ProtocolError as E;
        match buffer.get(self.position) {
            None => return Ok(None),
            Some(b'$') => {}
            // As in Redis, an error once the line is whole.
            Some(&other) => {
                let line = self.header_line(&buffer[self.position..], E::TooBigBulkCount)?;
                return if line.is_some() { Err(E::ExpectedBulk(other)) } else { Ok(None) };
            }
        }
        let Some(length) = self.number(buffer, E::TooBigBulkCount, E::InvalidBulkLength)? else {
            return Ok(None);
        };
        let length = usize::try_from(length).map_err(|_| E::InvalidBulkLength)?;
        if length > self.limits.bulk_bytes_max {
            return Err(E::InvalidBulkLength);
        }
        if length > Limits::UNAUTHENTICATED_BULK_BYTES_MAX && !self.limits.authenticated {
            return Err(E::UnauthenticatedBulkLength);
        }
        Ok(Some(length))
    }

    /// Reads the line `?<number>\r\n` at `position` and steps behind it; `None`: not whole.
    #[inline]
    fn number(
        &mut self,
        buffer: &[u8],
        too_big: ProtocolError,
        invalid: ProtocolError,
    ) -> Result<Option<i64>, ProtocolError> {
        let line = buffer.get(self.position..).unwrap_or_default();
        // The common case needs no look for the line end first.
        let (number, length) = match short_number(line) {
            Some((number, rest)) => (number as i64, line.len() - rest.len() - 2),
            None => {
                let Some(length) = self.header_line(line, too_big)? else { return Ok(None) };
                (line.get(1..length).and_then(parse_integer).ok_or(invalid)?, length)
            }
        };
        self.position += length + 2;
        self.scanned = 0;
        Ok(Some(number))
    }

    /// The length of the header line at the start of `line`, without its end; `None`: not whole.
    fn header_line(
        &mut self,
        line: &[u8],
        too_big: ProtocolError,
    ) -> Result<Option<usize>, ProtocolError> {
        let length = self.line_end(line, b'\r', too_big)?;
        Ok(length.filter(|length| length + 2 <= line.len()))
    }

    /// Where `end` stands in `line`; remembers what was searched in vain.
    fn line_end(
        &mut self,
        line: &[u8],
        end: u8,
        too_big: ProtocolError,
    ) -> Result<Option<usize>, ProtocolError> {
        let searched = &line[..line.len().min(LINE_BYTES_MAX + 1)];
        let fresh = searched.get(self.scanned..).unwrap_or_default();
        match fresh.iter().position(|&byte| byte == end) {
            Some(at) => {
                // Found, but what follows may not have arrived: find it here again.
                self.scanned += at;
                Ok(Some(self.scanned))
            }
            None if line.len() > LINE_BYTES_MAX => Err(too_big),
            None => {
                self.scanned = searched.len();
                Ok(None)
            }
        }
    }

    fn inline(&mut self, buffer: &mut [u8]) -> Result<Option<usize>, ProtocolError> {
        let Some(newline) = self.line_end(buffer, b'\n', ProtocolError::TooBigInline)? else {
            return Ok(None);
        };
        let mut line = &mut buffer[..newline];
        if let [text @ .., b'\r'] = line {
            line = text;
        }
        inline::split(line, &mut self.args)?;
        self.position = newline + 1;
        Ok(Some(self.finish()))
    }
}

/// Shows the arguments of a request that is [`Plain`], which starts with an asterisk; returns how
/// many there are, and the bytes of all. `None`: it is something else, and what was shown means
/// nothing.
#[inline]
pub(crate) fn plain_args(
    buffer: &[u8],
    limits: &Limits,
    mut show: impl FnMut(usize, Range<usize>),
) -> Option<(usize, usize)> {
    let most = PLAIN_BULK_BYTES_MAX.min(limits.bulk_bytes_max);
    let (count, mut rest) = short_number(buffer)?;
    if count == 0 || count > PLAIN_ARGS_MAX.min(limits.args_max) {
        return None;
    }
    for at in 0..count {
        if rest.first() != Some(&b'$') {
            return None;
        }
        let (length, after) = short_number(rest)?;
        let start = buffer.len() - after.len();
        rest = after.get(length + 2..).filter(|_| length <= most)?;
        show(at, start..start + length);
    }
    Some((count, buffer.len() - rest.len()))
}

/// Whether `bytes`, in which no plain request is whole, may become one with more behind them.
pub(crate) fn begins_plain(bytes: &[u8]) -> bool {
    let Some((count, mut rest)) = short_number(bytes) else { return is_cut_line(bytes) };
    if count == 0 || count > PLAIN_ARGS_MAX {
        return false;
    }
    for _ in 0..count {
        match rest.first() {
            None => return true,
            Some(b'$') => {}
            Some(_) => return false,
        }
        let Some((length, after)) = short_number(rest) else { return is_cut_line(rest) };
        if length > PLAIN_BULK_BYTES_MAX {
            return false;
        }
        match after.get(length + 2..) {
            None => return true,
            Some(next) => rest = next,
        }
    }
    false
}

/// Whether these are the first bytes of a line with a short number.
fn is_cut_line(line: &[u8]) -> bool {
    let digits = line.get(1..).unwrap_or_default();
    let digits = digits.strip_suffix(b"\r").unwrap_or(digits);
    digits.len() <= 5 && digits.iter().all(u8::is_ascii_digit)
}

/// The number of a line that has few digits of it behind one byte, and what follows the line.
#[inline]
fn short_number(line: &[u8]) -> Option<(usize, &[u8])> {
    let digit = |byte: u8| usize::from(byte - b'0');
    match line {
        [_, a @ b'0'..=b'9', b'\r', _, rest @ ..] => Some((digit(*a), rest)),
        [_, a @ b'1'..=b'9', b @ b'0'..=b'9', b'\r', _, rest @ ..] => {
            Some((digit(*a) * 10 + digit(*b), rest))
        }
        [_, digits @ ..] => longer_number(digits),
        [] => None,
    }
}

/// As [`short_number`], of three to five digits.
fn longer_number(line: &[u8]) -> Option<(usize, &[u8])> {
    const DIGITS: RangeInclusive<usize> = 3..=5;
    let digits = line.iter().take(DIGITS.end() + 1).take_while(|byte| byte.is_ascii_digit());
    let length = digits.count();
    let (digits, rest) = line.split_at(length);
    let [b'\r', _, rest @ ..] = rest else { return None };
    let is_short = DIGITS.contains(&length) && digits[0] != b'0';
    let value = |sum, byte: &u8| sum * 10 + usize::from(byte - b'0');
    is_short.then(|| (digits.iter().fold(0, value), rest))
}
