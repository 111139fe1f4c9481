//! The checkpoint file: one image, whole, with checksums. Version 2, little-endian throughout.
//!
//! ```text
//! byte  0                8        12         16              24              32
//!       +----------------+--------+----------+---------------+---------------+
//!       | "STILLCKP"     |version |words per | words         | number of the |
//!       |                | 2      |block     |               | checkpoint    |
//!       +----------------+--------+----------+---------------+------+--------+
//!       | created, ms    | algorithm's name, zero padded      | zero | CRC-32C|
//! byte  32               40                                   56     60       64
//!       +----------------+------------------------------------+------+--------+
//!       | log position   | creator, zero padded               | zero | CRC-32C|
//!       +----------------+------------------------------------+------+--------+
//! byte  64               72                                   88     92       96
//!
//! block +--------+--------+----------------+---------------------------------+
//!       | CRC-32C| bytes  | first word     | words, 8 bytes each             |
//!       +--------+--------+----------------+---------------------------------+
//! byte  +0       +4       +8               +16                       +16+bytes
//!       ... blocks until all words are there; all but the last hold `words per block`
//!
//! footer+----------------+----------------+---------------+----------------+------------+
//!       | "STILLEND"     | number         | words         | blocks         | CRC-64/NVME|
//!       +----------------+----------------+---------------+----------------+------------+
//! byte  +0               +8               +16             +24              +32        +40
//! ```
//!
//! Version 1 has no second half of the header: blocks begin at byte 64, and there is no log.
//!
//! Invariants, each checked by the [`reader`]:
//! - The log position is the number of the first record of the log that is *not* in the state, or 0
//!   if no log was kept. The CRC-32C at byte 92 covers bytes 64..92.
//! - The CRC-32C at byte 60 covers bytes 0..60. *Every* later version keeps magic, version and this
//!   checksum where they are, so that a newer file is told from a damaged one.
//! - The length of the file follows from `words` and `words per block`: a reader knows it before
//!   it trusts any of the two with memory.
//! - A block's CRC-32C covers all of the block but itself: its length and its place too, so a block
//!   that landed elsewhere, or twice, is found.
//! - The footer repeats what the header says, and the digest covers every byte of the file before
//!   it. A file without its footer is not a checkpoint.
//! - The number is also the file's name: a file renamed over another is found.

pub(crate) mod damage;
pub(crate) mod reader;
pub(crate) mod writer;

use crate::fields::{NAME_BYTES, padded, u32_at, u64_at, unpadded};
use damage::Damage;

/// Bytes of the header.
pub(crate) const HEADER_BYTES: usize = 96;
/// Bytes of its first half, which is all of it in version 1.
pub(crate) const HEADER_HALF_BYTES: usize = 64;
/// Bytes before the words of a block.
pub(crate) const BLOCK_HEADER_BYTES: usize = 16;
/// Bytes of the footer.
pub(crate) const FOOTER_BYTES: usize = 40;
/// Words in a block as written by [`crate::Store`]: 64 KiB, a fair size for one write call.
pub(crate) const WORDS_PER_BLOCK: u32 = 8192;
/// Most words in a block that a reader accepts: it holds one block in memory.
pub(crate) const WORDS_PER_BLOCK_MAX: u32 = 1 << 17;
/// The version written, and the newest one read.
pub(crate) const VERSION: u32 = 2;

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
    /// Milliseconds since 1970, as told by whoever began the checkpoint.
    pub(crate) created_ms: u64,
    algorithm: [u8; NAME_BYTES],
    /// The first record of the log that is not in the state; 0 if there is no log.
    pub(crate) log_from: u64,
    creator: [u8; NAME_BYTES],
}

impl Header {
    /// The header of checkpoint `number` of `words` words, without a log.
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
        }
    }

    /// Name of the algorithm that took the image.
    pub(crate) fn algorithm(&self) -> String {
        unpadded(self.algorithm)
    }

    /// The program that wrote the file.
    pub(crate) fn creator(&self) -> String {
        unpadded(self.creator)
    }

    /// Blocks in the file.
    pub(crate) fn blocks(&self) -> u64 {
        self.words.div_ceil(u64::from(self.words_per_block.max(1)))
    }

    /// Length of the file in bytes: u128, because the fields may be anything.
    pub(crate) fn file_bytes(&self) -> u128 {
        u128::from(self.words) * 8
            + u128::from(self.blocks()) * BLOCK_HEADER_BYTES as u128
            + (self.header_bytes() + FOOTER_BYTES) as u128
    }

    /// Bytes of the header.
    fn header_bytes(&self) -> usize {
        if self.version == 1 { HEADER_HALF_BYTES } else { HEADER_BYTES }
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
        let checksum = crc_fast::crc32_iscsi(&bytes[..60]);
        bytes[60..64].copy_from_slice(&checksum.to_le_bytes());
        bytes[64..72].copy_from_slice(&self.log_from.to_le_bytes());
        bytes[72..88].copy_from_slice(&self.creator);
        let checksum = crc_fast::crc32_iscsi(&bytes[64..92]);
        bytes[92..96].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// Reads the first half.
    fn decode(bytes: &[u8; HEADER_HALF_BYTES]) -> Result<Self, Damage> {
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
        let words_per_block = u32_at(bytes, 12);
        if version == 0 {
            return Err(Damage::Field { offset: 8, field: "version", value: 0 });
        }
        if !(1..=WORDS_PER_BLOCK_MAX).contains(&words_per_block) {
            let value = u64::from(words_per_block);
            return Err(Damage::Field { offset: 12, field: "number of words per block", value });
        }
        if u32_at(bytes, 56) != 0 {
            let value = u64::from(u32_at(bytes, 56));
            return Err(Damage::Field { offset: 56, field: "reserved field", value });
        }
        let mut algorithm = [0; NAME_BYTES];
        algorithm.copy_from_slice(&bytes[40..56]);
        Ok(Self {
            version,
            words_per_block,
            words: u64_at(bytes, 16),
            number: u64_at(bytes, 24),
            created_ms: u64_at(bytes, 32),
            algorithm,
            log_from: 0,
            creator: [0; NAME_BYTES],
        })
    }

    /// Adds what the second half says, if the version has one.
    fn decode_second(
        &mut self,
        bytes: &[u8; HEADER_BYTES - HEADER_HALF_BYTES],
    ) -> Result<(), Damage> {
        if crc_fast::crc32_iscsi(&bytes[..28]) != u32_at(bytes, 28) {
            return Err(Damage::PositionChecksum);
        }
        if u32_at(bytes, 24) != 0 {
            let value = u64::from(u32_at(bytes, 24));
            return Err(Damage::Field { offset: 88, field: "reserved field", value });
        }
        self.log_from = u64_at(bytes, 0);
        self.creator.copy_from_slice(&bytes[8..24]);
        Ok(())
    }
}

/// The block's header; `block` starts with room for it.
fn seal_block(block: &mut [u8], start: u64) {
    let bytes = (block.len() - BLOCK_HEADER_BYTES) as u32;
    block[4..8].copy_from_slice(&bytes.to_le_bytes());
    block[8..16].copy_from_slice(&start.to_le_bytes());
    let checksum = crc_fast::crc32_iscsi(&block[4..]);
    block[0..4].copy_from_slice(&checksum.to_le_bytes());
}

/// The footer but for the digest, which covers these bytes too.
fn encode_footer(header: &Header) -> [u8; FOOTER_BYTES - 8] {
    let mut bytes = [0; FOOTER_BYTES - 8];
    bytes[0..8].copy_from_slice(&FOOTER_MAGIC);
    bytes[8..16].copy_from_slice(&header.number.to_le_bytes());
    bytes[16..24].copy_from_slice(&header.words.to_le_bytes());
    bytes[24..32].copy_from_slice(&header.blocks().to_le_bytes());
    bytes
}

fn digest() -> crc_fast::Digest {
    crc_fast::Digest::new(crc_fast::CrcAlgorithm::Crc64Nvme)
}

#[cfg(test)]
mod tests;
