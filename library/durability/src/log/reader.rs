//! Reads a log, and separates a torn tail from damage; the rule is argued at the head of [`super`].
//!
//! - Records are handed out in order, without gaps, each once, as soon as they are known to be
//!   valid; whatever comes later, they are a prefix of what was written.
//! - Reading changes nothing on the disk: it may be interrupted and repeated at will.
//! - One segment is held in memory at a time.

use std::collections::VecDeque;
use std::io::Read;
use std::ops::ControlFlow;

use super::{
    HEADER_BYTES, Header, Kind, RECORD_HEAD_BYTES, Record, check_owners, kind, name, segments,
};
use crate::damage::log::Damage;
use crate::disk::Directory;
use crate::error::Error;
use crate::fields::u64_at;

/// What was read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Report {
    /// The number of the next record.
    pub(crate) next: u64,
    /// Time of the last record.
    pub(crate) time_ms: u64,
    /// The last records, with their times, that nothing proves to be on the disk.
    pub(crate) unproved: VecDeque<(u64, Vec<u8>)>,
    /// What lay beyond the last record, if anything.
    pub(crate) torn: Option<Torn>,
    /// What is damaged, if that was to be accepted.
    pub(crate) lost: Option<Lost>,
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

/// Records that are gone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Lost {
    /// The segment, by its first record.
    pub(crate) segment: u64,
    /// What is wrong with it.
    pub(crate) damage: Damage,
    /// The last record with a trace in the log; below the next one if there is none.
    pub(crate) last: u64,
}

/// How far a recovery has come, in bytes of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Progress {
    /// Bytes read.
    pub bytes: u64,
    /// Bytes to read, those of a torn tail included.
    pub total_bytes: u64,
}

/// Hands every record from `log_from` on to `take`, until that breaks off. That is the position of
/// the checkpoint, which holds the records before; 0 if it knows of no log. Damage is an error, or,
/// if the loss is accepted, the end of the log.
pub(crate) fn recover(
    directory: &Directory,
    log_from: u64,
    accept_loss: bool,
    mut take: impl FnMut(Record<'_>, Progress) -> Result<ControlFlow<()>, Error>,
) -> Result<Report, Error> {
    let all = segments(directory)?;
    let from = log_from.max(1);
    // The segment that holds `from` is the last that begins no later.
    let needed = &all[all.partition_point(|&first| first <= from).saturating_sub(1)..];
    check_owners(directory, needed)?;
    let mut report = Report { next: from, ..Report::default() };
    let missing = match needed.first() {
        Some(&first) => (first > from).then(|| (first, Damage::Missing { from, to: first - 1 })),
        // A store with a log always has a segment.
        None => (log_from > 0).then_some((from, Damage::Gone { from })),
    };
    if let Some((segment, damage)) = missing {
        let lost = Lost { segment, damage, last: 0 };
        return loss(directory, accept_loss, needed, lost, report);
    }
    let proved = all.last().map_or(0, |last| last - 1).max(from - 1);
    let mut progress = Progress { bytes: 0, total_bytes: 0 };
    for &first in needed {
        progress.total_bytes += directory.open_file(&name(first))?.1;
    }
    for (index, &first) in needed.iter().enumerate() {
        let until = needed.get(index + 1).copied();
        let bytes = read(directory, first)?;
        let read = Segment::open(first, until, proved, &bytes).and_then(|mut segment| {
            report.unproved.clear();
            while let Some(record) = segment.next()? {
                (report.next, report.time_ms) = (record.sequence.saturating_add(1), record.time_ms);
                if record.sequence >= from {
                    let bytes = progress.bytes + segment.offset as u64;
                    match take(record, Progress { bytes, ..progress }) {
                        Ok(ControlFlow::Continue(())) => {}
                        stop => return Ok(Some(stop)),
                    }
                }
                if until.is_none() {
                    report.unproved.push_back((record.time_ms, record.payload.to_vec()));
                    report.forget_proved(segment.proved);
                } // else the next name proves it
            }
            report.forget_proved(segment.proved);
            report.torn = segment.torn();
            Ok(None)
        });
        match read {
            Ok(None) => {}
            Ok(Some(stop)) => return stop.map(|_| report),
            Err(damage) => {
                let last = highest(&bytes, &damage);
                let lost = Lost { segment: first, damage, last };
                report.next = report.next.max(from);
                return loss(directory, accept_loss, &needed[index + 1..], lost, report);
            }
        }
        progress.bytes += bytes.len() as u64;
    }
    Ok(report)
}

impl Report {
    /// Records up to `proved` need not be written anew.
    fn forget_proved(&mut self, proved: u64) {
        let most = usize::try_from(self.next.saturating_sub(1).saturating_sub(proved));
        let known = self.unproved.len().saturating_sub(most.unwrap_or(usize::MAX));
        self.unproved.drain(..known);
    }
}

/// The log ends before its `lost` records; `rest` are the segments after it.
fn loss(
    directory: &Directory,
    is_accepted: bool,
    rest: &[u64],
    mut lost: Lost,
    mut report: Report,
) -> Result<Report, Error> {
    let path = directory.at(&name(lost.segment));
    if let Damage::NewerVersion { version, supported } = lost.damage {
        return Err(Error::NewerVersion { path, version, supported });
    }
    if !is_accepted {
        return Err(Error::Log { path, damage: lost.damage });
    }
    for &first in rest {
        lost.last = lost.last.max(first - 1);
        let bytes = read(directory, first)?;
        if let Ok(mut segment) = Segment::open(first, None, 0, &bytes) {
            while let Ok(Some(record)) = segment.next() {
                lost.last = lost.last.max(record.sequence);
            }
        }
    }
    report.unproved.clear(); // all before the damage is proved by what proves the damage
    report.lost = Some(lost);
    Ok(report)
}

/// The highest number of a valid record in or after the damage.
fn highest(bytes: &[u8], damage: &Damage) -> u64 {
    let &Damage::Record { offset, sequence, last } = damage else { return 0 };
    let Ok(header) = Header::decode(bytes) else { return last };
    let rest = bytes.get(offset..).unwrap_or_default();
    last.max(traces(rest, sequence, header.nonce).highest)
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

/// One segment with what its neighbours say of it.
pub(crate) struct Segment<'a> {
    first: u64,
    until: Option<u64>,
    /// Records up to this one were on the disk, by what was read so far.
    proved: u64,
    bytes: &'a [u8],
    nonce: u64,
    /// Number and place of the next record.
    sequence: u64,
    offset: usize,
}

impl<'a> Segment<'a> {
    /// The segment whose name says `first`; the next one's says `until`. Records up to `proved`
    /// were on the disk, by names and checkpoints.
    pub(crate) fn open(
        first: u64,
        until: Option<u64>,
        proved: u64,
        bytes: &'a [u8],
    ) -> Result<Self, Damage> {
        let header = Header::decode(bytes)?;
        if header.first != first {
            return Err(Damage::Misnamed { first: header.first, named: first });
        }
        let (nonce, sequence, offset) = (header.nonce, first, HEADER_BYTES);
        Ok(Self { first, until, proved, bytes, nonce, sequence, offset })
    }

    /// The next record; `None` where the next segment or the torn tail begins.
    pub(crate) fn next(&mut self) -> Result<Option<Record<'a>>, Damage> {
        while self.until.is_none_or(|until| self.sequence < until) {
            let (rest, sequence) = (&self.bytes[self.offset..], self.sequence);
            let found = Record::decode(rest, self.nonce)
                .map(|found| (kind(found.sequence, found.unsynced, sequence), found));
            let Some((kind @ (Kind::Record | Kind::Mark), found)) = found else {
                let last = self.proved.max(traces(rest, sequence, self.nonce).proved);
                if last >= sequence {
                    return Err(Damage::Record { offset: self.offset, sequence, last });
                }
                break;
            };
            self.offset += found.bytes();
            self.proved = self.proved.max(found.proves());
            if kind == Kind::Record {
                // A forged number is no reason to panic.
                self.sequence = sequence.saturating_add(1);
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// After the last record: the torn tail, if there is one.
    pub(crate) fn torn(&self) -> Option<Torn> {
        let bytes = self.bytes.len() - self.offset;
        (self.until.is_none() && bytes > 0).then_some(Torn {
            segment: self.first,
            offset: self.offset,
            bytes,
        })
    }
}

/// What the valid records and marks beyond an offset prove.
#[derive(Debug, Clone, Copy, Default)]
struct Traces {
    /// The highest number that they prove to have been on the disk.
    proved: u64,
    /// Their own highest number.
    highest: u64,
}

/// Searches `bytes`, which begin where record `sequence` should.
fn traces(bytes: &[u8], sequence: u64, nonce: u64) -> Traces {
    let (mut at, mut traces) = (0, Traces::default());
    while let Some(rest) = bytes.get(at..).filter(|rest| rest.len() >= RECORD_HEAD_BYTES) {
        // A cheap test first, which nearly every offset fails: few records fit in between.
        let most = (at / RECORD_HEAD_BYTES) as u64;
        let ahead = u64_at(rest, 8).wrapping_sub(sequence);
        let record = if ahead <= most { Record::decode(rest, nonce) } else { None };
        at += record.map_or(1, |record| record.bytes());
        if let Some(record) = record {
            traces.proved = traces.proved.max(record.proves());
            traces.highest = traces.highest.max(record.sequence);
        }
    }
    traces
}
