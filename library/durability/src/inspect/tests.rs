//! Every flip and truncation is found, and judged as recovery would judge it.

use std::io::Cursor;

use super::*;
use crate::application::Owner;
use crate::checkpoint;
use crate::checkpoint::writer::Writer;
use crate::log::{Header, RECORD_HEAD_BYTES, Record};

const NONCE: u64 = 0x5EED_0123_4567_89AB;

fn checkpoint_file(words: u64) -> Vec<u8> {
    let mut header = checkpoint::Header::new(words as usize, 7, 1_790_000_000_000, "imprint");
    header.words_per_block = 4;
    let mut file = Vec::new();
    let mut writer = Writer::new(&mut file, header);
    for word in 0..words {
        writer.push(word as usize, &[word.wrapping_mul(0x9E37_79B9_7F4A_7C15)]).expect("a Vec");
    }
    writer.finish().expect("a Vec takes all");
    file
}

fn examine_checkpoint(file: &[u8]) -> Examined<Checkpoint> {
    Checkpoint::examine(file, file.len() as u64, Some(7))
}

/// A segment from record 5 on. Each batch is synced and marked before the next is written.
fn segment_file(batches: &[&[&[u8]]]) -> Vec<u8> {
    let mut bytes = Header::new(5, 1_790_000_000_000, NONCE, Owner::default()).encode().to_vec();
    let (mut sequence, mut synced) = (5, 4);
    for batch in batches {
        for payload in *batch {
            let unsynced = (sequence - 1 - synced) as u32;
            Record { sequence, unsynced, time_ms: 9, payload }
                .encode(NONCE, &mut bytes)
                .expect("it is short");
            sequence += 1;
        }
        synced = sequence - 1;
        Record::mark(synced).encode(NONCE, &mut bytes).expect("it is short");
    }
    bytes
}

fn examine_segment(file: &[u8], until: Option<u64>) -> Examined<Segment> {
    let beside = Neighbours { named: Some(5), until, last: until };
    Segment::examine(Cursor::new(file), file.len() as u64, beside)
}

#[test]
fn every_flipped_bit_of_a_checkpoint_is_reported_with_its_offset() {
    let mut file = checkpoint_file(9);
    assert_eq!(examine_checkpoint(&file).flaws, []);
    for bit in 0..file.len() * 8 {
        file[bit / 8] ^= 1 << (bit % 8);
        let flaws = examine_checkpoint(&file).flaws;
        let byte = (bit / 8) as u64;
        assert!(flaws.iter().any(|it| it.bytes.contains(&byte)), "bit {bit}: {flaws:?}");
        file[bit / 8] ^= 1 << (bit % 8);
    }
}

#[test]
fn every_truncation_and_every_tail_of_a_checkpoint_is_reported() {
    let file = checkpoint_file(9);
    for length in 0..file.len() {
        let flaws = examine_checkpoint(&file[..length]).flaws;
        assert!(flaws.iter().any(|it| it.bytes.start == length as u64), "{length}: {flaws:?}");
    }
    let flaws = examine_checkpoint(&[&file[..], &[0]].concat()).flaws;
    assert_eq!(flaws[0].bytes, file.len() as u64..file.len() as u64 + 1);
}

#[test]
fn every_damaged_block_is_reported_and_too_many_end_the_reading() {
    let mut file = checkpoint_file(1000);
    let block = checkpoint::HEADER_BYTES + 2 * (16 + 32);
    file[block + 20] ^= 1;
    file[block + 48 + 20] ^= 1;
    let flaws = examine_checkpoint(&file).flaws;
    let ranges: Vec<_> = flaws.iter().map(|flaw| flaw.bytes.clone()).collect();
    let block = block as u64;
    assert_eq!(ranges, [block..block + 48, block + 48..block + 96]);
    file[checkpoint::HEADER_BYTES..].fill(0);
    let flaws = examine_checkpoint(&file).flaws;
    assert_eq!(flaws.len(), 101);
    assert_eq!(flaws[100].bytes.end, file.len() as u64);
}

#[test]
fn two_blocks_swapped_or_from_another_checkpoint_are_reported() {
    let (file, mut swapped) = (checkpoint_file(12), checkpoint_file(12));
    let first = checkpoint::HEADER_BYTES;
    swapped[first..first + 48].copy_from_slice(&file[first + 48..first + 96]);
    swapped[first + 48..first + 96].copy_from_slice(&file[first..first + 48]);
    assert_eq!(examine_checkpoint(&swapped).flaws.len(), 2);
    let mut other = checkpoint::Header::new(12, 7, 1_790_000_000_000, "imprint");
    other.words_per_block = 4;
    let mut foreign = Vec::new();
    let mut writer = Writer::new(&mut foreign, other);
    writer.push(0, &[1; 12]).expect("a Vec takes all");
    writer.finish().expect("a Vec takes all");
    let mut mixed = file.clone();
    mixed[first..first + 48].copy_from_slice(&foreign[first..first + 48]);
    let flaws = examine_checkpoint(&mixed).flaws;
    assert_eq!(flaws.len(), 1, "each block is sound, the digest is not: {flaws:?}");
}

#[test]
fn a_checkpoint_under_another_name_is_reported() {
    let file = checkpoint_file(1);
    let flaws = Checkpoint::examine(&file[..], file.len() as u64, Some(8)).flaws;
    assert_eq!(flaws[0].bytes, 24..32);
    assert_eq!(Checkpoint::examine(&file[..], file.len() as u64, None).flaws, []);
}

const BATCHES: &[&[&[u8]]] = &[&[b"one"], &[b"", b"three"], &[b"4444", b"five", b"6"]];

/// Both readers make the same of these bytes.
fn agree(file: &[u8], until: Option<u64>, context: &str) {
    let recovered = Segment::recover(file, Neighbours { named: Some(5), until, last: until });
    let examined = examine_segment(file, until);
    match (recovered, examined.flaws.is_empty(), examined.facts) {
        (Ok(recovered), true, Some(facts)) => {
            assert_eq!(recovered, (facts.records, facts.torn), "{context}");
        }
        (Err(_), false, _) => {}
        (found, _, facts) => panic!("{context}: {found:?}, {:?}, {facts:?}", examined.flaws),
    }
}

#[test]
fn every_flipped_bit_of_a_log_is_reported() {
    let mut file = segment_file(BATCHES);
    agree(&file, None, "sound");
    let sound = examine_segment(&file, None).facts.expect("it is sound");
    assert_eq!((sound.records, sound.marks, sound.proved), (6, 3, 10));
    let last_mark = file.len() - RECORD_HEAD_BYTES;
    for bit in 0..file.len() * 8 {
        file[bit / 8] ^= 1 << (bit % 8);
        agree(&file, None, &format!("bit {bit}"));
        let alone = examine_segment(&file, None);
        let torn = alone.facts.and_then(|facts| facts.torn);
        match bit / 8 < last_mark {
            true => assert_eq!((alone.flaws.len(), torn), (1, None), "bit {bit}"),
            false => assert_eq!(torn, Some(last_mark as u64..file.len() as u64), "bit {bit}"),
        }
        // Where the name of a later segment proves all, all is damage but what is behind.
        let flaws = examine_segment(&file, Some(11)).flaws;
        assert_eq!(flaws.len(), usize::from(bit / 8 < last_mark), "bit {bit}");
        file[bit / 8] ^= 1 << (bit % 8);
    }
}

#[test]
fn every_truncation_of_a_log_is_what_recovery_takes_it_for() {
    let file = segment_file(BATCHES);
    for length in 0..file.len() {
        agree(&file[..length], None, &format!("{length} bytes"));
        let flaws = examine_segment(&file[..length], Some(11)).flaws;
        let lacks_records = length < file.len() - RECORD_HEAD_BYTES;
        assert_eq!(flaws.len(), usize::from(lacks_records), "{length} bytes");
    }
}

#[test]
fn random_damage_to_a_larger_log_is_what_recovery_takes_it_for() {
    let seed = std::env::var("STILLFRAME_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed: u64 = seed.unwrap_or_else(|| u64::from(std::process::id()));
    println!("STILLFRAME_SEED={seed}");
    let mut state = seed | 1;
    let mut random = |below: usize| {
        state = state.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
        (state >> 33) as usize % below
    };
    let payloads: Vec<Vec<u8>> = (0..60).map(|at| vec![at as u8; random(9000)]).collect();
    let batches: Vec<Vec<&[u8]>> =
        payloads.chunks(7).map(|batch| batch.iter().map(Vec::as_slice).collect()).collect();
    let batches: Vec<&[&[u8]]> = batches.iter().map(Vec::as_slice).collect();
    let sound = segment_file(&batches);
    assert!(sound.len() > 2 * (64 << 10), "more than a window");
    for round in 0..200 {
        let mut file = sound.clone();
        match random(3) {
            0 => (0..=random(5)).for_each(|_| file[random(sound.len())] ^= 1 << random(8)),
            1 => {
                // Two sectors change places.
                let (a, b) = (random(sound.len() / 512), random(sound.len() / 512));
                file[a * 512..][..512].copy_from_slice(&sound[b * 512..][..512]);
                file[b * 512..][..512].copy_from_slice(&sound[a * 512..][..512]);
            }
            _ => file.truncate(random(sound.len())),
        }
        agree(&file, None, &format!("seed {seed}, round {round}"));
    }
}

#[test]
fn endless_candidates_end_the_search() {
    let mut file = segment_file(&[]);
    // Each place claims to be the record that is missing, as long as what is left.
    let record = |left: usize| {
        let mut head = [0; RECORD_HEAD_BYTES];
        head[4..8].copy_from_slice(&(left as u32).to_le_bytes());
        head[8..16].copy_from_slice(&5u64.to_le_bytes());
        head
    };
    let total = 200_000 * RECORD_HEAD_BYTES;
    for at in 0..total / RECORD_HEAD_BYTES {
        file.extend_from_slice(&record(total - (at + 1) * RECORD_HEAD_BYTES));
    }
    let flaws = examine_segment(&file, None).flaws;
    assert!(flaws[0].problem.contains("not looked at to the end"), "{flaws:?}");
}

#[test]
fn names_are_distinguished() {
    assert_eq!(Name::parse(&names::checkpoint(7)), Some(Name::Checkpoint(7)));
    assert_eq!(Name::parse(&names::damaged(7)), Some(Name::SetAside(7)));
    assert_eq!(Name::parse(&log::name(7)), Some(Name::Segment(7)));
    assert_eq!(Name::parse("checkpoint.tmp"), Some(Name::Unfinished));
    assert_eq!(Name::parse("dump.rdb"), None);
}
