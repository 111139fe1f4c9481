//! A segment of the log, through a window.
//!
//! A torn tail differs from damage by the rule at the head of `log`, and a test compares the two
//! readers. This one holds 64 KiB instead of the segment, and does not hand records out.

use std::io::{self, ErrorKind, Read, Seek, SeekFrom};
use std::ops::Range;

use super::{Examined, Flaw};
use crate::damage::log::Damage;
use crate::fields::{u32_at, u64_at};
use crate::log::{HEADER_BYTES, Header, Kind, RECORD_HEAD_BYTES, is_form, kind, proves, reader};

const WINDOW_BYTES: usize = 64 << 10;

/// What a segment holds.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Segment {
    /// Version of the format.
    pub version: u32,
    /// Sequence number of its first record.
    pub first: u64,
    /// When it was begun, in milliseconds since 1970 by the clock of then.
    pub created_ms: u64,
    /// The program that wrote it; empty since version 4.
    pub creator: String,
    /// Tag and layout of the application whose actions these are, if it bears one.
    pub application: Option<(String, u32)>,
    /// Valid records from the first on. Those that a later segment supersedes do not count.
    pub records: u64,
    /// Bytes of their payloads.
    pub payload_bytes: u64,
    /// When the first and the last of them were logged, in milliseconds since 1970.
    pub times_ms: Option<(u64, u64)>,
    /// Marks between and behind them, each of 28 bytes.
    pub marks: u64,
    /// Records up to this number were on the disk, as those and the marks that were read prove.
    pub proved: u64,
    /// Bytes behind the last record that a crash tore: nothing proves that they ever were records
    /// on the disk. Recovery leaves them out.
    pub torn: Option<Range<u64>>,
}

/// What is known of a segment from outside: its name, and the segments after it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Neighbours {
    /// The number in its name.
    pub named: Option<u64>,
    /// The number in the name of the next segment, which supersedes this one from there on.
    pub until: Option<u64>,
    /// The number in the name of the last segment, which proves that all before were on the disk.
    pub last: Option<u64>,
}

impl Neighbours {
    /// Records up to this number were on the disk, by the name of the last segment.
    fn proved(&self) -> u64 {
        self.last.map_or(0, |last| last.saturating_sub(1))
    }
}

impl Segment {
    /// Reads a file of `length` bytes to its end.
    pub fn examine(input: impl Read + Seek, length: u64, beside: Neighbours) -> Examined<Self> {
        let mut window =
            Window { input, length, bytes: Vec::new(), start: 0, crc_bytes_left: None };
        match examine(&mut window, beside) {
            Ok(examined) => examined,
            Err(error) => {
                let problem = format!("reading failed: {error}");
                let flaws = vec![Flaw { bytes: window.start..length.max(window.start), problem }];
                Examined { facts: None, flaws, newer: false }
            }
        }
    }

    /// Takes what lies where record `next` should, if it belongs there.
    fn take(&mut self, head: &Head, next: u64) -> bool {
        match kind(head.sequence, head.unsynced, next) {
            Kind::Stranger => return false,
            Kind::Mark => self.marks += 1,
            Kind::Record => {
                self.records += 1;
                self.payload_bytes += head.bytes - RECORD_HEAD_BYTES as u64;
                let from = self.times_ms.map_or(head.time_ms, |(from, _)| from);
                self.times_ms = Some((from, head.time_ms));
            }
        }
        self.proved = self.proved.max(proves(head.sequence, head.unsynced));
        true
    }

    /// How many records recovery would take from these bytes, and what tail it would leave out.
    /// For tests that compare the two readers.
    #[doc(hidden)]
    pub fn recover(
        bytes: &[u8],
        beside: Neighbours,
    ) -> Result<(u64, Option<Range<u64>>), crate::LogDamage> {
        let (first, until) = (beside.named.unwrap_or_default(), beside.until);
        let proved = beside.proved();
        let mut records = 0;
        let mut segment = reader::Segment::open(first, until, proved, bytes)?;
        while segment.next()?.is_some() {
            records += 1;
        }
        let torn = segment.torn();
        Ok((records, torn.map(|torn| torn.offset as u64..(torn.offset + torn.bytes) as u64)))
    }
}

fn examine<R: Read + Seek>(
    window: &mut Window<R>,
    beside: Neighbours,
) -> io::Result<Examined<Segment>> {
    let length = window.length;
    let header = match Header::decode(window.get(0, HEADER_BYTES)?) {
        Ok(header) => header,
        Err(damage) => {
            let newer = matches!(damage, Damage::NewerVersion { .. });
            return Ok(Examined { facts: None, flaws: vec![flaw(&damage, length)], newer });
        }
    };
    let mut facts = Segment {
        version: header.version,
        first: header.first,
        created_ms: header.created_ms,
        creator: header.creator(),
        application: header.owner.shown(),
        records: 0,
        payload_bytes: 0,
        times_ms: None,
        marks: 0,
        proved: 0,
        torn: None,
    };
    if let Some(named) = beside.named.filter(|&named| named != header.first) {
        let damage = Damage::Misnamed { first: header.first, named };
        return Ok(Examined {
            facts: Some(facts),
            flaws: vec![flaw(&damage, length)],
            newer: false,
        });
    }
    let (mut sequence, mut offset) = (header.first, HEADER_BYTES as u64);
    let mut flaws = Vec::new();
    while beside.until.is_none_or(|until| sequence < until) {
        if let Some(head) = window.record(offset, header.nonce)?
            && facts.take(&head, sequence)
        {
            offset += head.bytes;
            sequence = header.first.saturating_add(facts.records);
            continue;
        }
        let proved = beside.proved();
        match window.proved_by(offset, sequence, header.nonce)? {
            None => flaws.push(Flaw {
                bytes: offset..length,
                problem: format!(
                    "record {sequence} is missing or damaged, and what follows looks like so many \
                     records that it was not looked at to the end"
                ),
            }),
            Some(found) if found.max(proved) >= sequence => {
                let last = found.max(proved);
                flaws.push(Flaw {
                    bytes: offset..length.max(offset),
                    problem: format!(
                        "record {sequence} is not what was written, and records up to {last} were \
                         on the disk"
                    ),
                });
            }
            Some(_) => facts.torn = (offset < length).then_some(offset..length),
        }
        break;
    }
    Ok(Examined { facts: Some(facts), flaws, newer: false })
}

fn flaw(damage: &Damage, length: u64) -> Flaw {
    let bytes = match damage {
        Damage::HeaderCut { length } => *length as u64..HEADER_BYTES as u64,
        Damage::Magic => 0..8,
        Damage::NewerVersion { .. } => 8..12,
        Damage::HeaderChecksum | Damage::Fields => 0..HEADER_BYTES as u64,
        Damage::Misnamed { .. } => 16..24,
        _ => 0..length,
    };
    let text = damage.to_string();
    // The place stands beside it.
    let problem = text.split_once(": ").map_or(text.clone(), |(_, problem)| problem.to_owned());
    Flaw { bytes, problem }
}

/// The head of a valid record or mark.
struct Head {
    sequence: u64,
    unsynced: u32,
    time_ms: u64,
    /// Of all of it.
    bytes: u64,
}

/// A part of a file in memory.
struct Window<R> {
    input: R,
    length: u64,
    bytes: Vec<u8>,
    /// Where `bytes` starts in the file.
    start: u64,
    /// While searching: bytes of candidates that may still be looked at.
    crc_bytes_left: Option<u64>,
}

impl<R: Read + Seek> Window<R> {
    /// The `count` bytes at `offset`, at most a window's, fewer at the end of the file.
    fn get(&mut self, offset: u64, count: usize) -> io::Result<&[u8]> {
        let count = count.min(WINDOW_BYTES);
        let wanted = offset.saturating_add(count as u64).min(self.length);
        let end = self.start + self.bytes.len() as u64;
        if offset < self.start || wanted > end {
            self.bytes.clear();
            self.start = offset;
            self.input.seek(SeekFrom::Start(offset))?;
            let room = (self.length.saturating_sub(offset)).min(WINDOW_BYTES as u64);
            self.input.by_ref().take(room).read_to_end(&mut self.bytes)?;
            if (self.bytes.len() as u64) < room {
                return Err(io::Error::new(ErrorKind::UnexpectedEof, "the file became shorter"));
            }
        }
        let from = usize::try_from(offset - self.start).unwrap_or(usize::MAX);
        let rest = self.bytes.get(from..).unwrap_or_default();
        Ok(&rest[..rest.len().min(count)])
    }

    /// The record or mark at `offset`, if there is a valid one.
    fn record(&mut self, offset: u64, nonce: u64) -> io::Result<Option<Head>> {
        let Some(head) = self.get(offset, RECORD_HEAD_BYTES)?.first_chunk::<RECORD_HEAD_BYTES>()
        else {
            return Ok(None);
        };
        let head = *head;
        let payload_bytes = u64::from(u32_at(&head, 4));
        let bytes = RECORD_HEAD_BYTES as u64 + payload_bytes;
        if self.length - offset < bytes || !is_form(u32_at(&head, 16), u32_at(&head, 4)) {
            return Ok(None);
        }
        if let Some(left) = &mut self.crc_bytes_left {
            *left = left.saturating_sub(payload_bytes);
            if *left == 0 {
                return Ok(None);
            }
        }
        let mut digest = crc_fast::Digest::new(crc_fast::CrcAlgorithm::Crc32Iscsi);
        digest.update(&nonce.to_le_bytes());
        digest.update(&head[4..]);
        let (mut at, end) = (offset + RECORD_HEAD_BYTES as u64, offset + bytes);
        while at < end {
            let count = usize::try_from(end - at).unwrap_or(WINDOW_BYTES);
            let piece = self.get(at, count)?;
            digest.update(piece);
            at += piece.len() as u64;
        }
        if digest.finalize() as u32 != u32_at(&head, 0) {
            return Ok(None);
        }
        let (sequence, unsynced) = (u64_at(&head, 8), u32_at(&head, 16));
        Ok(Some(Head { sequence, unsynced, time_ms: u64_at(&head, 20), bytes }))
    }

    /// The highest number that a valid record or mark from `offset` on proves to have been on the
    /// disk; record `sequence` should be there. `None`: the writer of the file made so many places
    /// look like the start of a long record that looking at all would take for ever.
    fn proved_by(&mut self, offset: u64, sequence: u64, nonce: u64) -> io::Result<Option<u64>> {
        let (mut at, mut proved) = (offset, 0);
        self.crc_bytes_left = Some((self.length - offset).saturating_mul(16).max(64 << 20));
        while self.length - at >= RECORD_HEAD_BYTES as u64 {
            // A cheap test first, which nearly every offset fails: few records fit in between.
            let most = (at - offset) / RECORD_HEAD_BYTES as u64;
            let named = u64_at(self.get(at, RECORD_HEAD_BYTES)?, 8);
            let likely = named.wrapping_sub(sequence) <= most;
            let record = if likely { self.record(at, nonce)? } else { None };
            if self.crc_bytes_left == Some(0) {
                return Ok(None);
            }
            let proves = |it: &Head| proves(it.sequence, it.unsynced);
            proved = proved.max(record.as_ref().map_or(0, proves));
            at += record.map_or(1, |record| record.bytes);
        }
        Ok(Some(proved))
    }
}
