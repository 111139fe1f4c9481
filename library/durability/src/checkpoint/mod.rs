//! The checkpoint file, version 4, little-endian. `docs/reference/formats.md` has the byte maps
//! and each field; a test compares the maps with the constants below.
//!
//! A *full* checkpoint has every word. An *increment* has what changed since its base, the
//! checkpoint that it names by number and identity, which may be an increment too.
//!
//! Invariants, each checked by the [`reader`]:
//! - The identity is a random number that distinguishes this image from any other with its
//!   number; merging a chain into a full checkpoint keeps it. So an increment names its base
//!   beyond doubt, and may stay when the base is replaced by an equal state.
//! - Words that the base does not have are zero unless an increment has them.
//! - *Every* version keeps magic, version and the CRC-32C at byte 60 where they are, so that a
//!   newer file does not look damaged. Each later CRC-32C of the header covers the bytes since the
//!   one before.
//! - The length of a full file that is not packed follows from `words` and `words per block`: a
//!   reader knows it before it trusts either with memory. Any other file is as long as its blocks
//!   say, and `words per block` bounds each of them.
//! - A block's CRC-32C covers all of the block but itself: its length and its place too, so a block
//!   that landed elsewhere, or twice, is found.
//! - The footer repeats what the header says, and the digest covers every byte of the file before
//!   it. A file without its footer is not a checkpoint.
//! - The number is also the file's name: a file renamed over another is found.

pub(crate) mod block;
mod digest;
mod load;
mod packing;
pub(crate) mod reader;
pub(crate) mod writer;

use crate::application::Owner;
use crate::damage::checkpoint::Damage;
use crate::fields::{NAME_BYTES, padded, u32_at, u64_at, unpadded};

/// Bytes of the header, by version, from 1: each begins with the one before.
pub(crate) const HEADER_BYTES_BY_VERSION: [usize; 4] = [64, 96, 128, 160];
/// Bytes of the header as it is written.
pub(crate) const HEADER_BYTES: usize = HEADER_BYTES_BY_VERSION[VERSION as usize - 1];
/// Bytes before the words of a block.
pub(crate) const BLOCK_HEADER_BYTES: usize = 16;
/// Bytes of the footer.
pub(crate) const FOOTER_BYTES: usize = 40;
/// Words in a block as written by [`crate::Store`]: 64 KiB, a fair size for one write call.
pub(crate) const WORDS_PER_BLOCK: u32 = 8192;
/// Most words in a block that a reader accepts: it holds one block in memory.
pub(crate) const WORDS_PER_BLOCK_MAX: u32 = 1 << 17;
/// The version written, and the newest one read.
pub(crate) const VERSION: u32 = 4;
/// Set in `bytes` of a block that is packed.
const PACKED: u32 = 1 << 31;
/// Bytes before the packed payload: the length of the true one.
const PACKED_HEAD_BYTES: usize = 4;
/// Flag: blocks may be packed.
const MAY_BE_PACKED: u32 = 1;
/// Words at most in one run.
const RUN_WORDS_MAX: usize = u16::MAX as usize;

const MAGIC: [u8; 8] = *b"STILLCKP";
const FOOTER_MAGIC: [u8; 8] = *b"STILLEND";
/// The program that writes.
const CREATOR: &str =
    concat!("stillframe ", env!("CARGO_PKG_VERSION_MAJOR"), ".", env!("CARGO_PKG_VERSION_MINOR"));

/// What the head of a checkpoint says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) version: u32,
    pub(crate) words_per_block: u32,
    pub(crate) words: u64,
    /// Number of the checkpoint, rising over the life of the directory.
    pub(crate) number: u64,
    /// Milliseconds since 1970, by the clock of the process that began the checkpoint.
    pub(crate) created_ms: u64,
    algorithm: [u8; NAME_BYTES],
    /// The first record of the log that is not in the state; 0 if there is no log.
    pub(crate) log_from: u64,
    creator: [u8; NAME_BYTES],
    /// Distinguishes the image from any other with its number; 0 before version 3.
    pub(crate) identity: u64,
    /// The checkpoint that this one adds to; `None` if it is full.
    pub(crate) base: Option<Link>,
    /// Whether blocks may be packed.
    pub(crate) packs: bool,
    /// Whose state it is.
    pub(crate) owner: Owner,
}

/// One checkpoint, beyond doubt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Link {
    pub(crate) number: u64,
    pub(crate) identity: u64,
}

impl Header {
    /// The header of full checkpoint `number` of `words` words, without a log.
    pub(crate) fn new(words: usize, number: u64, created_ms: u64, algorithm: &str) -> Self {
        Self {
            version: VERSION,
            words_per_block: WORDS_PER_BLOCK,
            words: words as u64,
            number,
            created_ms,
            algorithm: padded(algorithm),
            log_from: 0,
            creator: padded(CREATOR),
            identity: 0,
            base: None,
            packs: false,
            owner: Owner::default(),
        }
    }

    /// What an increment names to build on this one.
    pub(crate) fn link(&self) -> Link {
        Link { number: self.number, identity: self.identity }
    }

    /// The header of the same image as a full checkpoint.
    pub(crate) fn as_full(&self, packs: bool) -> Self {
        let (version, words_per_block) = (VERSION, WORDS_PER_BLOCK);
        let creator = padded(CREATOR);
        Self { version, words_per_block, creator, base: None, packs, ..*self }
    }

    /// Name of the algorithm that took the image.
    pub(crate) fn algorithm(&self) -> String {
        unpadded(self.algorithm)
    }

    /// The program that wrote the file.
    pub(crate) fn creator(&self) -> String {
        unpadded(self.creator)
    }

    /// Blocks in a full file.
    pub(crate) fn blocks(&self) -> u64 {
        self.words.div_ceil(u64::from(self.words_per_block.max(1)))
    }

    /// Length of the file in bytes, if it follows from the header: u128, because the fields may be
    /// anything.
    pub(crate) fn file_bytes(&self) -> Option<u128> {
        let bytes = u128::from(self.words) * 8
            + u128::from(self.blocks()) * BLOCK_HEADER_BYTES as u128
            + (self.header_bytes() + FOOTER_BYTES) as u128;
        (self.base.is_none() && !self.packs).then_some(bytes)
    }

    /// The first word of a block of a full file, or the end.
    fn first_word(&self, block: u64) -> u64 {
        self.words.min(block.saturating_mul(u64::from(self.words_per_block)))
    }

    /// Where a block of a full file that is not packed starts, or the footer.
    fn offset(&self, block: u64) -> u64 {
        let heads = self.blocks().min(block) * BLOCK_HEADER_BYTES as u64;
        self.header_bytes() as u64 + heads + self.first_word(block) * 8
    }

    /// Bytes of the header.
    fn header_bytes(&self) -> usize {
        HEADER_BYTES_BY_VERSION[self.version as usize - 1] // decoded or ours: 1 to 4
    }

    fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[0..8].copy_from_slice(&MAGIC);
        bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.words_per_block.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.words.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.number.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.created_ms.to_le_bytes());
        bytes[40..56].copy_from_slice(&self.algorithm);
        bytes[64..72].copy_from_slice(&self.log_from.to_le_bytes());
        bytes[72..88].copy_from_slice(&self.creator);
        bytes[96..104].copy_from_slice(&self.identity.to_le_bytes());
        let base = self.base.unwrap_or(Link { number: 0, identity: 0 });
        bytes[104..112].copy_from_slice(&base.number.to_le_bytes());
        bytes[112..120].copy_from_slice(&base.identity.to_le_bytes());
        let flags = if self.packs { MAY_BE_PACKED } else { 0 };
        bytes[120..124].copy_from_slice(&flags.to_le_bytes());
        bytes[128..144].copy_from_slice(&self.owner.tag);
        bytes[144..148].copy_from_slice(&self.owner.layout.to_le_bytes());
        for [start, end] in PARTS {
            let checksum = crc_fast::crc32_iscsi(&bytes[start..end - 4]);
            bytes[end - 4..end].copy_from_slice(&checksum.to_le_bytes());
        }
        bytes
    }

    /// Reads a header; `bytes` is as long as its version demands, see [`header_bytes`].
    fn decode(bytes: &[u8; HEADER_BYTES]) -> Result<Self, Damage> {
        let version = version(bytes)?;
        let field = |offset: usize, field| {
            let value = u64::from(u32_at(bytes, offset));
            Damage::Field { offset: offset as u64, field, value }
        };
        for [start, end] in PARTS.into_iter().take(version as usize).skip(1) {
            if crc_fast::crc32_iscsi(&bytes[start..end - 4]) != u32_at(bytes, end - 4) {
                return Err(Damage::PartChecksum { start: start as u64, end: end as u64 });
            }
        }
        let words_per_block = u32_at(bytes, 12);
        if !(1..=WORDS_PER_BLOCK_MAX).contains(&words_per_block) {
            return Err(field(12, "number of words per block"));
        }
        if u32_at(bytes, 56) != 0 {
            return Err(field(56, "reserved field"));
        }
        if version > 1 && u32_at(bytes, 88) != 0 {
            return Err(field(88, "reserved field"));
        }
        let flags = if version > 2 { u32_at(bytes, 120) } else { 0 };
        if flags & !MAY_BE_PACKED != 0 {
            return Err(field(120, "field of flags"));
        }
        if version > 3 && u64_at(bytes, 148) != 0 {
            return Err(field(148, "reserved field"));
        }
        let number = u64_at(bytes, 24);
        let base = Link { number: u64_at(bytes, 104), identity: u64_at(bytes, 112) };
        if version > 2 && base.number >= number && base.number > 0 {
            return Err(field(104, "number of the base"));
        }
        let name = |at| {
            let mut name = [0; NAME_BYTES];
            name.copy_from_slice(&bytes[at..at + NAME_BYTES]);
            name
        };
        Ok(Self {
            version,
            words_per_block,
            words: u64_at(bytes, 16),
            number,
            created_ms: u64_at(bytes, 32),
            algorithm: name(40),
            log_from: if version > 1 { u64_at(bytes, 64) } else { 0 },
            creator: if version > 1 { name(72) } else { [0; NAME_BYTES] },
            identity: if version > 2 { u64_at(bytes, 96) } else { 0 },
            base: (version > 2 && base.number > 0).then_some(base),
            packs: flags & MAY_BE_PACKED != 0,
            owner: match version {
                ..4 => Owner::default(),
                _ => Owner { tag: name(128), layout: u32_at(bytes, 144) },
            },
        })
    }
}

/// Where the parts of the header start and end, each with a checksum of its own at its end. Version
/// n has the first n.
const PARTS: [[usize; 2]; 4] = [
    [0, HEADER_BYTES_BY_VERSION[0]],
    [HEADER_BYTES_BY_VERSION[0], HEADER_BYTES_BY_VERSION[1]],
    [HEADER_BYTES_BY_VERSION[1], HEADER_BYTES_BY_VERSION[2]],
    [HEADER_BYTES_BY_VERSION[2], HEADER_BYTES_BY_VERSION[3]],
];

/// The version, from the first part of a header.
fn version(bytes: &[u8]) -> Result<u32, Damage> {
    if bytes[0..8] != MAGIC {
        return Err(Damage::Magic);
    }
    if crc_fast::crc32_iscsi(&bytes[..60]) != u32_at(bytes, 60) {
        return Err(Damage::HeaderChecksum);
    }
    match u32_at(bytes, 8) {
        0 => Err(Damage::Field { offset: 8, field: "version", value: 0 }),
        version if version > VERSION => Err(Damage::NewerVersion { version, supported: VERSION }),
        version => Ok(version),
    }
}

/// The block's header; `block` starts with room for it.
fn seal_block(block: &mut [u8], start: u64, packed: bool) {
    let bytes = (block.len() - BLOCK_HEADER_BYTES) as u32 | if packed { PACKED } else { 0 };
    block[4..8].copy_from_slice(&bytes.to_le_bytes());
    block[8..16].copy_from_slice(&start.to_le_bytes());
    let checksum = crc_fast::crc32_iscsi(&block[4..]);
    block[0..4].copy_from_slice(&checksum.to_le_bytes());
}

/// The footer without the digest, which covers these bytes too.
fn encode_footer(header: &Header, blocks: u64) -> [u8; FOOTER_BYTES - 8] {
    let mut bytes = [0; FOOTER_BYTES - 8];
    bytes[0..8].copy_from_slice(&FOOTER_MAGIC);
    bytes[8..16].copy_from_slice(&header.number.to_le_bytes());
    bytes[16..24].copy_from_slice(&header.words.to_le_bytes());
    bytes[24..32].copy_from_slice(&blocks.to_le_bytes());
    bytes
}

#[cfg(test)]
mod tests;
