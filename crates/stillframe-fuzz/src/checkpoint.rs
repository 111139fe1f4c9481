//! The reader of checkpoints.

use stillframe_durability::inspect::Checkpoint;

use crate::{put_u32, seal_header, u32_at, u64_at};

const HEADER_BYTES: usize = 64;
/// What version 2 adds to it.
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
    let bytes = facts.words * 8
        + facts.blocks * BLOCK_HEADER_BYTES as u64
        + (HEADER_BYTES + FOOTER_BYTES) as u64
        + if facts.version == 1 { 0 } else { HEADER_MORE_BYTES as u64 };
    assert_eq!(bytes, file.len() as u64, "a sound file has the length that its header says");
    // One bit of a sound file changed is found, wherever it is.
    let bit = u32_at(file, HEADER_BYTES).unwrap_or_default() as usize % (file.len() * 8);
    let mut damaged = file.to_vec();
    damaged[bit / 8] ^= 1 << (bit % 8);
    let flaws = Checkpoint::examine(&damaged[..], file.len() as u64, None).flaws;
    assert!(!flaws.is_empty(), "bit {bit} flipped is not found");
}

/// Makes the checksums of header, blocks and footer right, and the heads of blocks as well in two
/// of three files.
fn seal(file: &mut [u8]) {
    let Some(per_block) = u32_at(file, 12) else { return };
    if per_block % 3 != 0 {
        put_u32(file, 8, 1);
        put_u32(file, 56, 0);
    }
    seal_header(file, b"STILLCKP");
    let Some(words) = u64_at(file, 16) else { return };
    let per_block = u64::from(per_block.max(1));
    let (mut at, mut start) = (HEADER_BYTES, 0);
    while start < words {
        let count = per_block.min(words - start);
        let bytes = usize::try_from(count).unwrap_or(usize::MAX).saturating_mul(8);
        let Some(block) = at
            .checked_add(BLOCK_HEADER_BYTES)
            .and_then(|from| from.checked_add(bytes))
            .and_then(|end| file.get_mut(at..end))
        else {
            return;
        };
        if per_block % 3 != 0 {
            block[4..8].copy_from_slice(&(bytes as u32).to_le_bytes());
            block[8..16].copy_from_slice(&start.to_le_bytes());
        }
        let checksum = crc_fast::crc32_iscsi(&block[4..]);
        block[..4].copy_from_slice(&checksum.to_le_bytes());
        (at, start) = (at + BLOCK_HEADER_BYTES + bytes, start + count);
    }
    seal_footer(file, at, words, start.div_ceil(per_block));
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
