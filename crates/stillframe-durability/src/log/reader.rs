//! Reads a log, and tells a torn tail from damage; the rule is argued at the head of [`super`].
//!
//! - Records are handed out in order, without gaps, each once, as soon as they are known to be
//!   valid; whatever comes later, they are a prefix of what was written.
//! - One segment is held in memory at a time.

use std::collections::VecDeque;
use std::io::Read;

use super::damage::Damage;
use super::{HEADER_BYTES, Header, RECORD_HEAD_BYTES, Record, name, segments, u64_at};
use crate::disk::directory::Directory;
use crate::error::Error;

/// What was read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Report {
    /// The number of the next record.
    pub(crate) next: u64,
    /// The last records, of which nothing proves that they are on the disk.
    pub(crate) unproved: VecDeque<Vec<u8>>,
    /// What lay beyond the last record, if anything.
    pub(crate) torn: Option<Torn>,
}

/// The tail that a crash left.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Torn {
    /// The segment, by its first record.
    pub(crate) segment: u64,
    /// Where the tail starts.
    pub(crate) offset: usize,
    /// Its length.
    pub(crate) bytes: usize,
}

/// Hands every record from `from` on to `take(number, payload)`. Changes nothing on the disk:
/// [`Writer::resume`](super::writer::Writer::resume) goes on from what is found.
pub(crate) fn recover(
    directory: &Directory,
    from: u64,
    mut take: impl FnMut(u64, &[u8]),
) -> Result<Report, Error> {
    let all = segments(directory)?;
    // The segment that holds `from` is the last that begins no later.
    let needed = &all[all.partition_point(|&first| first <= from).saturating_sub(1)..];
    if let Some(&first) = needed.first().filter(|&&first| first > from) {
        let damage = Damage::Missing { from, to: first - 1 };
        return Err(Error::Log { path: directory.at(&name(first)), damage });
    }
    let proved = all.last().map_or(0, |last| last - 1);
    let mut report = Report { next: from, ..Report::default() };
    for (index, &first) in needed.iter().enumerate() {
        let until = needed.get(index + 1).copied();
        let bytes = read(directory, first)?;
        let mut unproved = VecDeque::new();
        let read = Segment { first, until, proved, bytes: &bytes }.read(|record| {
            if record.sequence >= from {
                take(record.sequence, record.payload);
            }
            if until.is_some() {
                return; // the name of the next segment proves it
            }
            unproved.push_back(record.payload.to_vec());
            // The oldest of them has the number `record.sequence + 1 - unproved.len()`.
            let proved = proved.max(record.proves());
            let most = usize::try_from(record.sequence.saturating_sub(proved));
            unproved.drain(..unproved.len().saturating_sub(most.unwrap_or(usize::MAX)));
        });
        let (next, torn) =
            read.map_err(|damage| Error::Log { path: directory.at(&name(first)), damage })?;
        if next < from {
            unproved.clear(); // the log ends before what the caller has already
        }
        report = Report { next: next.max(from), unproved, torn };
    }
    Ok(report)
}

fn read(directory: &Directory, first: u64) -> Result<Vec<u8>, Error> {
    let name = name(first);
    let (mut input, length) = directory.open_file(&name)?;
    let mut bytes = Vec::new();
    // No more than the disk says there is, and an error if that is more than there is memory.
    let reserved = usize::try_from(length).ok().map(|length| bytes.try_reserve_exact(length));
    let read = match reserved {
        Some(Ok(())) => input.read_to_end(&mut bytes),
        _ => Err(std::io::ErrorKind::OutOfMemory.into()),
    };
    read.map_err(Error::file("reading", directory.at(&name)))?;
    Ok(bytes)
}

/// One segment with what its neighbours tell of it.
pub(crate) struct Segment<'a> {
    /// The number in its name.
    pub(crate) first: u64,
    /// The number in the name of the next segment.
    pub(crate) until: Option<u64>,
    /// Records up to this number were on the disk, by the names of the segments (W1).
    pub(crate) proved: u64,
    pub(crate) bytes: &'a [u8],
}

impl Segment<'_> {
    /// Hands out the records; tells the number of the next one, and the torn tail, if there is one.
    pub(crate) fn read(
        &self,
        mut take: impl FnMut(Record<'_>),
    ) -> Result<(u64, Option<Torn>), Damage> {
        let header = Header::decode(self.bytes)?;
        if header.first != self.first {
            return Err(Damage::Misnamed { first: header.first, named: self.first });
        }
        let (mut sequence, mut offset) = (self.first, HEADER_BYTES);
        while self.until.is_none_or(|until| sequence < until) {
            let rest = &self.bytes[offset..];
            let record = Record::decode(rest, header.nonce).filter(|it| it.sequence == sequence);
            if let Some(record) = record {
                take(record);
                offset += record.bytes();
                sequence = sequence.saturating_add(1); // a forged number is no reason to panic
                continue;
            }
            let last = self.proved.max(proved_by(rest, sequence, header.nonce));
            if last >= sequence {
                return Err(Damage::Record { offset, sequence, last });
            }
            let torn = Torn { segment: self.first, offset, bytes: rest.len() };
            return Ok((sequence, (!rest.is_empty()).then_some(torn)));
        }
        Ok((sequence, None))
    }
}

/// The highest number that a valid record in `bytes` proves to have been on the disk. `bytes`
/// begins where record `sequence` should.
fn proved_by(bytes: &[u8], sequence: u64, nonce: u64) -> u64 {
    let (mut at, mut proved) = (0, 0);
    while let Some(rest) = bytes.get(at..).filter(|rest| rest.len() >= RECORD_HEAD_BYTES) {
        // So many records may lie between; a cheap test first, for nearly every place fails it.
        let most = (at / RECORD_HEAD_BYTES) as u64;
        let ahead = u64_at(rest, 8).wrapping_sub(sequence);
        let record = if ahead <= most { Record::decode(rest, nonce) } else { None };
        at += record.map_or(1, |record| record.bytes());
        proved = proved.max(record.map_or(0, |record| record.proves()));
    }
    proved
}
