//! The reader of checkpoints.

use stillframe_durability::inspect::Checkpoint;

use crate::fields::{put_u32, seal_header, u32_at, u64_at};

const HEADER_BYTES: usize = 64;
/// The bytes that each of the versions 2 to 4 adds.
const HEADER_MORE_BYTES: usize = 32;
const BLOCK_HEADER_BYTES: usize = 16;
const FOOTER_BYTES: usize = 40;

/// Reads `data` as a checkpoint, as it is and with right checksums.
pub fn checkpoint(data: &[u8]) {
    examine(data);
    let mut sealed = data.to_vec();
    seal(&mut sealed);
    examine(&sealed);
}

fn examine(file: &[u8]) {
    let examined = Checkpoint::examine(file, file.len() as u64, None);
    let Some(facts) = examined.facts else {
        assert!(!examined.flaws.is_empty(), "no facts and nothing wrong");
        return;
    };
    for flaw in &examined.flaws {
        assert!(flaw.bytes.start <= flaw.bytes.end, "{flaw:?}");
    }
    if !examined.flaws.is_empty() {
        return;
    }
    if let Some(blocks) = facts.blocks.filter(|_| !facts.packed) {
        let header = HEADER_BYTES + HEADER_MORE_BYTES * (facts.version as usize - 1);
        let bytes =
            facts.words * 8 + blocks * BLOCK_HEADER_BYTES as u64 + (header + FOOTER_BYTES) as u64;
        assert_eq!(bytes, file.len() as u64, "a sound file has the length that its header says");
    }
    // The reader finds one changed bit of a sound file, wherever it is.
    let bit = u32_at(file, HEADER_BYTES).unwrap_or_default() as usize % (file.len() * 8);
    let mut damaged = file.to_vec();
    damaged[bit / 8] ^= 1 << (bit % 8);
    let flaws = Checkpoint::examine(&damaged[..], file.len() as u64, None).flaws;
    assert!(!flaws.is_empty(), "bit {bit} flipped is not found");
}

/// Makes the checksums of header, blocks and footer right, and in two of three files the heads of
/// the blocks of a full checkpoint as well.
fn seal(file: &mut [u8]) {
    let Some(per_block) = u32_at(file, 12) else { return };
    let is_kind = per_block % 3 != 0;
    if is_kind {
        let version = if per_block & 1 == 0 { 1 } else { 3 + (per_block >> 8 & 1) };
        put_u32(file, 8, version);
        put_u32(file, 56, 0);
    }
    seal_header(file, b"STILLCKP");
    let version = u32_at(file, 8).unwrap_or(1).clamp(1, 4) as usize;
    let header = HEADER_BYTES + HEADER_MORE_BYTES * (version - 1);
    if is_kind && version >= 3 {
        put_u32(file, 88, 0);
        put_u32(file, 120, u32_at(file, 120).unwrap_or(0) & 1);
    }
    if is_kind && version == 4 {
        put_u32(file, 148, 0);
        put_u32(file, 152, 0);
    }
    for end in (HEADER_BYTES + HEADER_MORE_BYTES..=header).step_by(HEADER_MORE_BYTES) {
        seal_part(file, end - HEADER_MORE_BYTES, end);
    }
    let is_increment = version >= 3 && u64_at(file, 104) != Some(0);
    let is_packed = version >= 3 && u32_at(file, 120) == Some(1);
    let Some(words) = u64_at(file, 16) else { return };
    let per_block = u64::from(per_block.max(1));
    let (mut at, mut start, mut blocks) = (header, 0, 0);
    while is_increment || start < words {
        if file
            .get(at..at.saturating_add(8))
            .is_none_or(|magic| is_increment && magic == b"STILLEND")
        {
            break;
        }
        let count = per_block.min(words.saturating_sub(start));
        if is_kind && !is_increment && !is_packed {
            put_u32(file, at + 4, (count * 8) as u32);
        }
        if is_kind && !is_increment {
            put_u64(file, at + 8, start);
        }
        let Some(bytes) = u32_at(file, at + 4) else { return };
        let end = at.saturating_add(BLOCK_HEADER_BYTES + (bytes & !(1 << 31)) as usize);
        let Some(block) = file.get_mut(at..end) else { return };
        let checksum = crc_fast::crc32_iscsi(&block[4..]);
        block[..4].copy_from_slice(&checksum.to_le_bytes());
        (at, start, blocks) = (end, start + count, blocks + 1);
    }
    seal_footer(file, at, words, blocks);
}

/// Makes the checksum at the end of a part of the header right.
fn seal_part(file: &mut [u8], start: usize, end: usize) {
    if let Some(part) = file.get(start..end - 4) {
        let checksum = crc_fast::crc32_iscsi(part);
        put_u32(file, end - 4, checksum);
    }
}

fn put_u64(file: &mut [u8], at: usize, value: u64) {
    if let Some(field) = file.get_mut(at..at + 8) {
        field.copy_from_slice(&value.to_le_bytes());
    }
}

fn seal_footer(file: &mut [u8], at: usize, words: u64, blocks: u64) {
    let Some(number) = u64_at(file, 24) else { return };
    let Some(footer) = file.get_mut(at..at + FOOTER_BYTES) else { return };
    footer[..8].copy_from_slice(b"STILLEND");
    footer[8..16].copy_from_slice(&number.to_le_bytes());
    footer[16..24].copy_from_slice(&words.to_le_bytes());
    footer[24..32].copy_from_slice(&blocks.to_le_bytes());
    let mut digest = crc_fast::Digest::new(crc_fast::CrcAlgorithm::Crc64Nvme);
    digest.update(&file[..at + 32]);
    let digest = digest.finalize();
    file[at + 32..at + FOOTER_BYTES].copy_from_slice(&digest.to_le_bytes());
}
