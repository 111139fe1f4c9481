//! The readers of the log: the one of the tools, and the one of recovery beside it.

use std::io::Cursor;

use stillframe_durability::inspect::{Neighbours, Segment};

use crate::fields::{put_u32, seal_header, u32_at, u64_at};

const HEADER_BYTES: usize = 64;
const RECORD_HEAD_BYTES: usize = 28;

/// Reads `data` as a segment of a log, as it is and with right checksums; the last and alone, and
/// as one that others follow.
pub fn log(data: &[u8]) {
    examine(data);
    let mut sealed = data.to_vec();
    seal(&mut sealed);
    examine(&sealed);
}

fn examine(file: &[u8]) {
    let first = u64_at(file, 16).unwrap_or_default();
    let followed = first.saturating_add(u64::from(file.last().copied().unwrap_or_default()) / 16);
    for until in [None, Some(followed)] {
        let beside = Neighbours { named: Some(first), until, last: until };
        let examined = Segment::examine(Cursor::new(file), file.len() as u64, beside);
        let recovered = Segment::recover(file, beside);
        match (examined.flaws.is_empty(), examined.facts, recovered) {
            (true, Some(facts), Ok(recovered)) => {
                assert_eq!((facts.records, &facts.torn), (recovered.0, &recovered.1));
                let read = HEADER_BYTES as u64
                    + (facts.records + facts.marks) * RECORD_HEAD_BYTES as u64
                    + facts.payload_bytes;
                let torn = facts.torn.map_or(0, |torn| torn.end - torn.start);
                assert!(until.is_some() || read + torn == file.len() as u64, "bytes are left over");
            }
            (false, _, Err(_)) => {}
            // Only the tool gives up a search.
            (false, _, Ok(_)) if examined.flaws[0].problem.contains("not looked at") => {}
            (sound, facts, recovered) => panic!("{sound}, {facts:?}, {recovered:?}"),
        }
    }
}

/// Makes the checksums of the header, the records and the marks right; in most files the numbers as
/// well.
fn seal(file: &mut [u8]) {
    let Some(nonce) = u64_at(file, 32) else { return };
    let version = if nonce % 8 == 0 { 2 + (nonce / 8 % 2) as u32 } else { 4 };
    put_u32(file, 8, version);
    if version < 4 {
        put_u32(file, 12, 0); // no layout
    }
    put_u32(file, 56, 0);
    seal_header(file, b"STILLLOG");
    let mut sequence = u64_at(file, 16).unwrap_or_default();
    let mut at = HEADER_BYTES;
    while let Some(bytes) = u32_at(file, at + 4) {
        let Some(end) = at.checked_add(RECORD_HEAD_BYTES + bytes as usize) else { return };
        let Some(record) = file.get_mut(at..end) else { return };
        // The old checksum is the fuzzer's choice.
        let leave = record[0];
        let is_mark = record[16..20] == [0xFF; 4];
        if leave % 8 != 0 {
            let number = sequence.wrapping_sub(u64::from(is_mark));
            record[8..16].copy_from_slice(&number.to_le_bytes());
        }
        if leave % 8 != 1 {
            let mut digest = crc_fast::Digest::new(crc_fast::CrcAlgorithm::Crc32Iscsi);
            digest.update(&nonce.to_le_bytes());
            digest.update(&record[4..]);
            let checksum = digest.finalize() as u32;
            record[..4].copy_from_slice(&checksum.to_le_bytes());
        }
        (at, sequence) = (end, sequence.wrapping_add(u64::from(!is_mark)));
    }
}
