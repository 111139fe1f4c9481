//! Walks through a segment of a log, record by record, as `docs/reference/formats.md` describes it:
//! where it ends, and up to where it proves itself. Checksums are left to the reader of the log.

use std::io::{self, BufReader, ErrorKind, Read};

use stillframe_durability::disk::Input;

/// Bytes of the header.
pub(crate) const HEADER_BYTES: u64 = 64;
const HEAD_BYTES: u64 = 28;
const MARK: u32 = u32::MAX;

/// Where a walk is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    /// The offset behind the last whole record or mark.
    pub(crate) offset: u64,
    /// The last record before it.
    pub(crate) last: u64,
}

/// The ends of a segment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Walked {
    /// Behind the last mark: all before it is on the disk.
    pub(crate) proved: Place,
    /// Behind the last record.
    pub(crate) end: Place,
}

/// Walks from a place that is behind a mark, or behind the header.
pub(crate) fn walk(input: &Input, from: Place) -> io::Result<Walked> {
    let mut reader = BufReader::with_capacity(256 << 10, input.at(from.offset));
    let (mut proved, mut end) = (from, from);
    loop {
        let mut head = [0; HEAD_BYTES as usize];
        match reader.read_exact(&mut head) {
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => break,
            read => read?,
        }
        let bytes = u64::from(number(&head[4..8]) as u32);
        let (sequence, unsynced) = (number(&head[8..16]), number(&head[16..20]) as u32);
        match unsynced {
            MARK if bytes == 0 && sequence == end.last => {
                end.offset += HEAD_BYTES;
                proved = end;
            }
            MARK => break,
            _ if sequence != end.last.wrapping_add(1) => break,
            _ => {
                let copied = io::copy(&mut reader.by_ref().take(bytes), &mut io::sink())?;
                if copied < bytes {
                    break;
                }
                end = Place { offset: end.offset + HEAD_BYTES + bytes, last: sequence };
            }
        }
    }
    Ok(Walked { proved, end })
}

fn number(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte))
}
