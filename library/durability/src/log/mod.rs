//! The logical log: records in segments, each segment one file. Version 4, little-endian.
//! `docs/reference/formats.md` has the byte maps, each field, and how a torn tail differs from
//! damage; a test compares the maps with the constants below.
//!
//! Invariants of the writer:
//! - W1: A segment gets its name, `log-` and the number of its first record, after its header and
//!   the records it starts with were synced, which happens after every record of a lower number was
//!   synced. So a name alone proves that all records below it were on the disk, and a bad header is
//!   damage, never a crash.
//! - W2: `unsynced` counts the records before this one that were not known to be on the disk when
//!   it was written. So a record with number `s` proves that all up to `s - 1 - unsynced` were.
//! - W3: Within the log each record is one more than the one before. A record's CRC covers the
//!   segment's nonce and all of the record but itself: bytes of another segment, and payloads that
//!   look like records, are none.
//! - W4: `time` never falls from one record to the next, whatever the clock does; so "until that
//!   time" is a prefix of the log.
//! - W5: A checkpoint is published after every record below its position was synced. So the
//!   position proves, as a name does, that they were on the disk.
//! - W6: After each sync that succeeded, and before any record is acknowledged for it, a *mark* is
//!   written: all records before it are on the disk, in a segment whose name is. The mark itself is
//!   not synced: it outlives a process that is killed, and if a loss of power takes it, the log is
//!   as sound as without it. It may share a sector with records that it covers. A sector is written
//!   whole or not at all, and their bytes are the same in either.
//!
//! A segment is read up to the first record of the next one. Let `k` be the first number without a
//! valid record. If a name (W1), the checkpoint (W5), or a valid record (W2) or mark (W6) further
//! on proves that `k` was on the disk, it is **damage**; otherwise a **torn tail**, in which valid
//! records may follow, because a disk reorders what was not synced. A rule "something valid
//! follows" would take such a crash for damage and refuse to start after it.
//!
//! What follows `k` is left where it is: the log goes on in a new segment, which supersedes what an
//! older one holds from its first number on. It starts with a copy of the records that were found
//! valid and are *not* proved. They may lie in the page cache alone, and a sync would not show
//! that: it may have failed once, in a process that is gone.

pub(crate) mod ahead;
pub(crate) mod handle;
pub(crate) mod logger;
pub(crate) mod options;
pub(crate) mod reader;
pub(crate) mod writer;

use std::io::Read;

use crate::damage::log::Damage;

use crate::application::Owner;
use crate::disk::Directory;
use crate::error::Error;
use crate::fields::{NAME_BYTES, u32_at, u64_at, unpadded};
use crate::names;

/// Bytes of the header of a segment.
pub(crate) const HEADER_BYTES: usize = 64;
/// Bytes before the payload of a record.
pub(crate) const RECORD_HEAD_BYTES: usize = 28;
/// The version written.
pub(crate) const VERSION: u32 = 4;
/// The oldest one read. It had no marks.
const OLDEST_VERSION: u32 = 2;
/// The first with a tag.
const TAGGED_VERSION: u32 = 4;
/// `unsynced` of a mark, and of no record.
pub(crate) const MARK: u32 = u32::MAX;

const MAGIC: [u8; 8] = *b"STILLLOG";
pub(crate) const PREFIX: &str = "log-";
/// The file of a segment that is being made.
pub(crate) const TEMPORARY: &str = "log.tmp";

/// The head of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) version: u32,
    /// Sequence number of the first record, from 1.
    pub(crate) first: u64,
    /// Milliseconds since 1970, for people.
    pub(crate) created_ms: u64,
    /// A number that writers of payloads cannot know.
    pub(crate) nonce: u64,
    /// The application whose actions these are.
    pub(crate) owner: Owner,
    /// The program that wrote it, before version 4.
    creator: [u8; NAME_BYTES],
}

impl Header {
    pub(crate) fn new(first: u64, created_ms: u64, nonce: u64, owner: Owner) -> Self {
        let creator = [0; NAME_BYTES];
        Self { version: VERSION, first, created_ms, nonce, owner, creator }
    }

    /// The program that wrote the segment; empty since version 4.
    pub(crate) fn creator(&self) -> String {
        unpadded(self.creator)
    }

    pub(crate) fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[0..8].copy_from_slice(&MAGIC);
        bytes[8..12].copy_from_slice(&self.version.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.owner.layout.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.first.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.created_ms.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.nonce.to_le_bytes());
        bytes[40..56].copy_from_slice(&self.owner.tag);
        let checksum = crc_fast::crc32_iscsi(&bytes[..60]);
        bytes[60..64].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, Damage> {
        let Some(bytes) = bytes.first_chunk::<HEADER_BYTES>() else {
            return Err(Damage::HeaderCut { length: bytes.len() });
        };
        if bytes[0..8] != MAGIC {
            return Err(Damage::Magic);
        }
        if crc_fast::crc32_iscsi(&bytes[..60]) != u32_at(bytes, 60) {
            return Err(Damage::HeaderChecksum);
        }
        let version = u32_at(bytes, 8);
        if version > VERSION {
            return Err(Damage::NewerVersion { version, supported: VERSION });
        }
        let layout = u32_at(bytes, 12);
        let is_zero = u32_at(bytes, 56) == 0 && (version >= TAGGED_VERSION || layout == 0);
        if version < OLDEST_VERSION || !is_zero || u64_at(bytes, 16) == 0 {
            return Err(Damage::Fields);
        }
        let mut name = [0; NAME_BYTES];
        name.copy_from_slice(&bytes[40..56]);
        let (owner, creator) = match version {
            ..TAGGED_VERSION => (Owner::by_creator(name), name),
            _ => (Owner { tag: name, layout }, [0; NAME_BYTES]),
        };
        Ok(Self {
            version,
            first: u64_at(bytes, 16),
            created_ms: u64_at(bytes, 24),
            nonce: u64_at(bytes, 32),
            owner,
            creator,
        })
    }
}

/// One record or mark, checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Record<'a> {
    pub(crate) sequence: u64,
    pub(crate) unsynced: u32,
    /// Milliseconds since 1970, when it was added.
    pub(crate) time_ms: u64,
    pub(crate) payload: &'a [u8],
}

impl<'a> Record<'a> {
    /// States that all records up to `sequence` are on the disk (W6).
    pub(crate) fn mark(sequence: u64) -> Self {
        Self { sequence, unsynced: MARK, time_ms: 0, payload: &[] }
    }

    /// The record or mark at the start of `bytes`, if there is a valid one.
    fn decode(bytes: &'a [u8], nonce: u64) -> Option<Self> {
        let head = bytes.first_chunk::<RECORD_HEAD_BYTES>()?;
        let payload = bytes[RECORD_HEAD_BYTES..].get(..u32_at(head, 4) as usize)?;
        let unsynced = u32_at(head, 16);
        if !is_form(unsynced, u32_at(head, 4))
            || checksum(nonce, &head[4..], payload) != u32_at(head, 0)
        {
            return None;
        }
        Some(Self { sequence: u64_at(head, 8), unsynced, time_ms: u64_at(head, 20), payload })
    }

    /// Appends the record to `bytes`, if the format can hold its length.
    pub(crate) fn encode(&self, nonce: u64, bytes: &mut Vec<u8>) -> Option<()> {
        let length = u32::try_from(self.payload.len()).ok()?;
        let mut head = [0; RECORD_HEAD_BYTES];
        head[4..8].copy_from_slice(&length.to_le_bytes());
        head[8..16].copy_from_slice(&self.sequence.to_le_bytes());
        head[16..20].copy_from_slice(&self.unsynced.to_le_bytes());
        head[20..28].copy_from_slice(&self.time_ms.to_le_bytes());
        let checksum = checksum(nonce, &head[4..], self.payload);
        head[0..4].copy_from_slice(&checksum.to_le_bytes());
        bytes.extend_from_slice(&head);
        bytes.extend_from_slice(self.payload);
        Some(())
    }

    fn bytes(&self) -> usize {
        RECORD_HEAD_BYTES + self.payload.len()
    }

    /// The highest number that this proves to have been on the disk (W2, W6).
    fn proves(&self) -> u64 {
        proves(self.sequence, self.unsynced)
    }
}

/// What a valid record or mark with these fields proves (W2, W6).
pub(crate) fn proves(sequence: u64, unsynced: u32) -> u64 {
    match unsynced {
        MARK => sequence,
        _ => sequence.saturating_sub(1).saturating_sub(u64::from(unsynced)),
    }
}

/// Whether there are records, or marks, with these fields: a mark has no payload.
pub(crate) fn is_form(unsynced: u32, payload_bytes: u32) -> bool {
    unsynced != MARK || payload_bytes == 0
}

/// What lies where a record should.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The record.
    Record,
    /// A mark before it.
    Mark,
    /// Something that does not belong there.
    Stranger,
}

/// What a valid record or mark with these fields is where record `next` should be.
pub(crate) fn kind(sequence: u64, unsynced: u32, next: u64) -> Kind {
    match unsynced {
        MARK if sequence == next.saturating_sub(1) => Kind::Mark,
        MARK => Kind::Stranger,
        _ if sequence == next => Kind::Record,
        _ => Kind::Stranger,
    }
}

fn checksum(nonce: u64, head: &[u8], payload: &[u8]) -> u32 {
    let mut digest = crc_fast::Digest::new(crc_fast::CrcAlgorithm::Crc32Iscsi);
    digest.update(&nonce.to_le_bytes());
    digest.update(head);
    digest.update(payload);
    digest.finalize() as u32 // a CRC-32 in a u64
}

/// The name of the segment whose first record is `first`.
pub(crate) fn name(first: u64) -> String {
    names::numbered(PREFIX, first)
}

/// The name of a segment that recovery does without, as its options allow.
pub(crate) fn damaged_name(first: u64) -> String {
    name(first) + names::DAMAGED
}

/// A number that writers of payloads cannot know: the keys of a hash table of the standard
/// library come from the operating system.
pub(crate) fn nonce() -> u64 {
    use std::hash::{BuildHasher, Hasher, RandomState};
    RandomState::new().build_hasher().finish()
}

/// The first numbers of the segments, rising.
pub(crate) fn segments(directory: &Directory) -> Result<Vec<u64>, Error> {
    let names = directory.names()?;
    let ours = names.iter().filter_map(|name| names::digits(name.strip_prefix(PREFIX)?));
    let mut firsts: Vec<u64> = ours.filter(|&first| first > 0).collect();
    firsts.sort_unstable();
    Ok(firsts)
}

/// The owner of a segment; `None` if its header is damaged, which its reader reports.
pub(crate) fn owner(directory: &Directory, first: u64) -> Result<Option<Owner>, Error> {
    let (input, _) = directory.open_file(&name(first))?;
    let mut head = Vec::with_capacity(HEADER_BYTES);
    let read = input.take(HEADER_BYTES as u64).read_to_end(&mut head);
    read.map_err(Error::file("reading", directory.at(&name(first))))?;
    Ok(Header::decode(&head).ok().map(|header| header.owner))
}

/// Refuses segments of another application. The newest decides: those before it may be untagged.
pub(crate) fn check_owners(directory: &Directory, firsts: &[u64]) -> Result<(), Error> {
    let Some(claim) = directory.claim() else { return Ok(()) };
    let mut is_newest = true;
    for &first in firsts.iter().rev() {
        let Some(found) = owner(directory, first)? else { continue };
        let path = || directory.at(&name(first));
        if is_newest {
            claim.check(found, path)?
        } else {
            claim.check_older(found, path)?
        }
        is_newest = false;
    }
    Ok(())
}

/// Moves all segments from record `next` on out of the way, newest first: those that are left
/// report the damage until the last one is gone.
pub(crate) fn set_aside(directory: &Directory, next: u64) -> Result<(), Error> {
    for first in segments(directory)?.into_iter().rev().take_while(|&first| first >= next) {
        directory.rename(&name(first), &damaged_name(first))?;
    }
    directory.sync()
}

#[cfg(test)]
mod tests;
