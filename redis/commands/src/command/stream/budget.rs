//! What a reply to XREAD or XREADGROUP may hold, of all its streams together: MAXCOUNT entries, and
//! about MAXSIZE bytes.
//!
//! - The first entry always fits: a reader gets past an entry that is larger than its limit.
//! - The limit of bytes is soft, as in Redis 8.10: what reaches it is the last of the reply, be it
//!   an entry or the name of a stream, which then has none. Bytes are those of the reply behind the
//!   number of its streams; the number of a stream's entries counts behind them.

use stillframe_keyspace::{IntText, StreamEntry, StreamId};
use stillframe_resp::{Protocol, parse_integer};

use super::id;
use crate::errors::{NOT_AN_INTEGER, Refusal};

/// See the head of this file.
#[derive(Debug, Clone, Copy)]
pub(super) struct Budget {
    entries: u64,
    /// `None`: no limit, and nothing is counted.
    bytes: Option<u64>,
    protocol: Protocol,
    is_empty: bool,
}

impl Budget {
    /// By what a request gives as MAXCOUNT and MAXSIZE.
    pub(super) fn new(entries: Option<u64>, bytes: Option<u64>, protocol: Protocol) -> Self {
        Self { entries: entries.unwrap_or(u64::MAX), bytes, protocol, is_empty: true }
    }

    /// Whether no further entry fits.
    pub(super) fn is_spent(&self) -> bool {
        self.entries == 0 || !self.is_empty && self.bytes == Some(0)
    }

    /// Whether every entry fits.
    pub(super) fn is_unlimited(&self) -> bool {
        self.entries == u64::MAX && self.bytes.is_none()
    }

    /// Counts the name of a stream, before its entries.
    pub(super) fn begin_stream(&mut self, key: &[u8]) {
        let head = if self.protocol == Protocol::Resp2 { header_bytes(2) } else { 0 };
        self.take(|| head + bulk_bytes(key.len()));
    }

    /// Counts the number of a stream's entries, behind them.
    pub(super) fn end_stream(&mut self, entries: usize) {
        self.take(|| header_bytes(entries));
    }

    /// Counts an entry if it fits.
    pub(super) fn admit(&mut self, entry: &StreamEntry<'_>) -> bool {
        self.admit_part(entry.id, Some(entry), &[])
    }

    /// Counts an entry, with numbers behind it, if it fits.
    pub(super) fn admit_with(&mut self, entry: &StreamEntry<'_>, numbers: &[i64]) -> bool {
        self.admit_part(entry.id, Some(entry), numbers)
    }

    /// Counts what is pending if it fits, of which the stream may have no entry any more.
    pub(super) fn admit_pending(&mut self, id: StreamId, entry: Option<&StreamEntry<'_>>) -> bool {
        self.admit_part(id, entry, &[])
    }

    fn admit_part(
        &mut self,
        id: StreamId,
        entry: Option<&StreamEntry<'_>>,
        numbers: &[i64],
    ) -> bool {
        if self.is_unlimited() {
            return true;
        }
        if self.is_spent() {
            return false;
        }
        let null = if self.protocol == Protocol::Resp2 { "*-1\r\n" } else { "_\r\n" };
        self.take(|| {
            let fields = entry.map_or(null.len(), fields_bytes);
            let numbers = numbers.iter().map(|it| 3 + it.to_string().len());
            let head = header_bytes(2 + numbers.len());
            head + bulk_bytes(id::text(id).as_ref().len()) + fields + numbers.sum::<usize>()
        });
        self.entries -= 1;
        self.is_empty = false;
        true
    }

    fn take(&mut self, bytes: impl FnOnce() -> usize) {
        if let Some(left) = &mut self.bytes {
            *left = left.saturating_sub(bytes() as u64);
        }
    }
}

/// Bytes of the fields of an entry in a reply.
fn fields_bytes(entry: &StreamEntry<'_>) -> usize {
    let mut digits = IntText::default();
    let texts = entry.fields.flat_map(|(name, value)| [name, value]);
    let texts = texts.map(|it| bulk_bytes(it.to_bytes(&mut digits).len()));
    header_bytes(2 * entry.fields.count()) + texts.sum::<usize>()
}

/// Bytes of a text of so many bytes in a reply.
fn bulk_bytes(length: usize) -> usize {
    header_bytes(length) + length + 2
}

/// Bytes of the length in front of a text or an array.
fn header_bytes(length: usize) -> usize {
    4 + length.checked_ilog10().unwrap_or(0) as usize
}

/// A limit as a request has it.
pub(super) fn limit(option: &str, text: &[u8]) -> Result<u64, Refusal> {
    match parse_integer(text).map(u64::try_from) {
        None => Err(NOT_AN_INTEGER),
        Some(Ok(limit)) if limit > 0 => Ok(limit),
        Some(_) => Err(format!("ERR {option} must be a positive integer").into()),
    }
}
