//! What a reply to XREAD or XREADGROUP may hold, of all its streams together: MAXCOUNT entries, and
//! about MAXSIZE bytes.
//!
//! - The first entry always fits: a reader gets past an entry that is larger than its limit.
//! - The limit of bytes is soft, as in Redis 8.10: the entry that reaches it is the last one. Bytes
//!   are those of entries and names, without the numbers of streams and of their entries in front.

use stillframe_keyspace::{IntText, StreamEntry, StreamId};
use stillframe_resp::parse_integer;

use super::id;
use crate::errors::{NOT_AN_INTEGER, Refusal};

/// See the head of this file.
#[derive(Debug, Clone, Copy)]
pub(super) struct Budget {
    entries: u64,
    /// `None`: no limit, and nothing is counted.
    bytes: Option<u64>,
    is_empty: bool,
}

impl Budget {
    /// By what a request gives as MAXCOUNT and MAXSIZE.
    pub(super) fn new(entries: Option<u64>, bytes: Option<u64>) -> Self {
        Self { entries: entries.unwrap_or(u64::MAX), bytes, is_empty: true }
    }

    /// Whether no further entry fits.
    pub(super) fn is_spent(&self) -> bool {
        self.entries == 0 || !self.is_empty && self.bytes == Some(0)
    }

    /// Whether every entry fits.
    pub(super) fn is_unlimited(&self) -> bool {
        self.entries == u64::MAX && self.bytes.is_none()
    }

    /// Counts the name of a stream, after its entries: no stream is named without one.
    pub(super) fn add_key(&mut self, key: &[u8]) {
        self.take(|| bulk_bytes(key.len()));
    }

    /// Counts an entry if it fits.
    pub(super) fn admit(&mut self, entry: &StreamEntry<'_>) -> bool {
        self.admit_pending(entry.id, Some(entry))
    }

    /// Counts what is pending if it fits, of which the stream may have no entry any more.
    pub(super) fn admit_pending(&mut self, id: StreamId, entry: Option<&StreamEntry<'_>>) -> bool {
        if self.is_unlimited() {
            return true;
        }
        if self.is_spent() {
            return false;
        }
        self.take(|| {
            let mut digits = IntText::default();
            let fields = entry.into_iter().flat_map(|entry| entry.fields);
            let texts = fields.flat_map(|(name, value)| [name, value]);
            let texts: usize = texts.map(|it| bulk_bytes(it.to_bytes(&mut digits).len())).sum();
            let fields = 2 * entry.map_or(0, |entry| entry.fields.count());
            array_bytes(2) + bulk_bytes(id::text(id).as_ref().len()) + array_bytes(fields) + texts
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

/// Bytes of a text of so many bytes in a reply.
fn bulk_bytes(length: usize) -> usize {
    array_bytes(length) + length + 2
}

/// Bytes in front of an array of so many elements.
fn array_bytes(length: usize) -> usize {
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
