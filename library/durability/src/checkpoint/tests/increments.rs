//! Increments and packed files.

use std::collections::BTreeMap;

use super::*;

type Runs<'a> = &'a [(usize, &'a [u64])];

/// An increment of a state of `words` words; blocks hold four words.
fn increment(words: usize, packs: bool) -> Header {
    let base = Some(Link { number: 6, identity: 0x1234 });
    Header { base, packs, ..header(words, 4) }
}

fn write_runs(header: Header, runs: Runs<'_>) -> Vec<u8> {
    let mut file = Vec::new();
    let mut writer = Writer::new(&mut file, header);
    for (start, words) in runs {
        writer.push(*start, words).expect("a Vec takes all");
    }
    writer.finish().expect("a Vec takes all");
    file
}

/// What a file gives, word by word.
fn read_runs(file: &[u8]) -> Result<BTreeMap<usize, u64>, Damage> {
    let mut found = BTreeMap::new();
    load(file, file.len(), 1, |start, run| {
        for (index, &word) in run.iter().enumerate() {
            assert!(found.insert(start + index, word).is_none(), "word {start} + {index} twice");
        }
    })?;
    Ok(found)
}

fn expected(runs: Runs<'_>) -> BTreeMap<usize, u64> {
    let words = |(start, words): &(usize, &[u64])| {
        let start = *start;
        words
            .iter()
            .enumerate()
            .map(move |(index, &word)| (start + index, word))
            .collect::<Vec<_>>()
    };
    runs.iter().flat_map(words).collect()
}

/// Runs that touch, lie apart, go over several blocks, and end with the state.
const RUNS: Runs<'_> =
    &[(0, &[1]), (2, &[2, 3]), (4, &[4, 5, 6, 7, 8, 9, 10, 11, 12]), (20, &[13]), (29, &[14, 15])];

#[test]
fn every_increment_comes_back_as_it_was() {
    for packs in [false, true] {
        for count in 0..=RUNS.len() {
            let file = write_runs(increment(31, packs), &RUNS[..count]);
            assert_eq!(read_runs(&file), Ok(expected(&RUNS[..count])), "{count} runs");
        }
    }
    let long = words(200_000);
    let runs: Runs<'_> = &[(3, &long[..70_000]), (70_003, &long[..9]), (99_999, &long[..100_001])];
    for packs in [false, true] {
        let header = Header { words_per_block: WORDS_PER_BLOCK, ..increment(200_000, packs) };
        assert_eq!(read_runs(&write_runs(header, runs)), Ok(expected(runs)));
    }
}

#[test]
fn threads_pack_the_same_file() {
    for count in [0, 9, 1000, 20_000] {
        let header = Header { packs: true, ..header(count, 64) };
        let words: Vec<u64> = words(count).iter().map(|word| word >> (word % 60)).collect();
        let mut file = Vec::new();
        let mut writer = Writer::new(&mut file, header);
        writer.use_threads();
        words.chunks(512).enumerate().for_each(|(index, run)| {
            writer.push(index * 512, run).expect("a Vec takes all");
        });
        writer.finish().expect("a Vec takes all");
        assert!(file == write(header, &words, 500), "{count} words");
    }
}

#[test]
fn an_increment_says_what_it_builds_on() {
    let file = write_runs(increment(31, true), RUNS);
    let header = *Reader::open(&file[..], file.len() as u64).expect("sound").header();
    assert_eq!((header.base, header.packs), (Some(Link { number: 6, identity: 0x1234 }), true));
    let itself = Link { number: 7, identity: 0 };
    let file = Header { base: Some(itself), ..increment(1, false) }.encode();
    let damage = reader::peek(&file).expect_err("it builds on itself");
    assert!(matches!(damage, Damage::Field { offset: 104, value: 7, .. }), "{damage}");
}

#[test]
fn packed_files_are_shorter_and_come_back() {
    let words: Vec<u64> = (0..100_000).map(|index| index / 7).collect();
    let header = Header { packs: true, ..header(words.len(), WORDS_PER_BLOCK) };
    let file = write(header, &words, 512);
    assert!(file.len() < words.len() * 4, "{} bytes", file.len());
    assert_eq!(read(&file), Ok((header, words)));
    // What does not pack is left as it is.
    let header = Header { words: 9, words_per_block: 4, ..header };
    let file = write(header, &super::words(9), 512);
    assert_eq!(read(&file), Ok((header, super::words(9))));
}

fn files() -> Vec<Vec<u8>> {
    let repeated = [7; 31];
    vec![
        write_runs(increment(31, false), RUNS),
        write_runs(increment(31, true), RUNS),
        write_runs(increment(31, false), &[]),
        write_runs(Header { words_per_block: 32, ..increment(31, true) }, &[(0, &repeated)]),
        write(Header { packs: true, ..header(31, 32) }, &repeated, 512),
        write(Header { packs: true, ..header(9, 4) }, &words(9), 512),
    ]
}

#[test]
fn every_flipped_bit_of_an_increment_and_of_a_packed_file_is_found() {
    for (number, mut file) in files().into_iter().enumerate() {
        for bit in 0..file.len() * 8 {
            file[bit / 8] ^= 1 << (bit % 8);
            let damage = read_runs(&file).expect_err("a damaged file was read");
            assert!(!matches!(damage, Damage::NewerVersion { .. }), "{number}, {bit}: {damage}");
            file[bit / 8] ^= 1 << (bit % 8);
        }
        assert!(read_runs(&file).is_ok());
    }
}

#[test]
fn every_truncation_and_every_tail_of_an_increment_and_of_a_packed_file_is_found() {
    for (number, file) in files().into_iter().enumerate() {
        for length in 0..file.len() {
            let damage = read_runs(&file[..length]).expect_err("a truncated file was read");
            let is_reported = matches!(damage, Damage::Truncated { .. } | Damage::BlockCut { .. });
            assert!(is_reported, "file {number}, {length} bytes: {damage}");
        }
        let damage = read_runs(&[&file[..], &[0]].concat()).expect_err("a longer file was read");
        assert!(matches!(damage, Damage::Trailing { .. }), "{damage}");
    }
}

/// Checksums that are right prove that a program wrote it, not that it makes sense.
#[test]
fn blocks_that_make_no_sense_are_refused() {
    let sound = write_runs(increment(31, false), &[(2, &[5, 6]), (9, &[7])]);
    let at = HEADER_BYTES + BLOCK_HEADER_BYTES;
    let with_head = |head: u64, first: u64| {
        let mut file = sound.clone();
        file[at..at + 8].copy_from_slice(&head.to_le_bytes());
        file[HEADER_BYTES + 8..at].copy_from_slice(&first.to_le_bytes());
        let end = at + 3 * 8; // one run of two words
        let checksum = crc_fast::crc32_iscsi(&file[HEADER_BYTES + 4..end]);
        file[HEADER_BYTES..HEADER_BYTES + 4].copy_from_slice(&checksum.to_le_bytes());
        read_runs(&file).expect_err("nonsense was read")
    };
    let run = |first: u64, words: u64| first << 16 | words;
    for (head, first) in [
        (run(2, 0), 2),
        (run(2, 3), 2),
        (run(2, 2), 3),
        (run(30, 2), 30),
        (run(u64::MAX >> 16, 2), u64::MAX >> 16),
    ] {
        let damage = with_head(head, first);
        assert!(matches!(damage, Damage::BlockContent { block: 0, .. }), "{damage}");
    }
    // Two runs in the wrong order, each in a block of its own: the second comes too late.
    let block = |first: u64| {
        let file = write_runs(increment(31, false), &[(first as usize, &[1, 2, 3])]);
        file[HEADER_BYTES..HEADER_BYTES + BLOCK_HEADER_BYTES + 32].to_vec()
    };
    let mut file = write_runs(increment(31, false), &[(0, &[1, 2, 3]), (9, &[1, 2, 3])]);
    let blocks = [block(9), block(0)].concat();
    file[HEADER_BYTES..HEADER_BYTES + blocks.len()].copy_from_slice(&blocks);
    let damage = read_runs(&file).expect_err("blocks changed places");
    assert!(matches!(damage, Damage::BlockContent { block: 1, .. }), "{damage}");
}

#[test]
fn a_writer_refuses_runs_out_of_order() {
    let mut writer = Writer::new(Vec::new(), increment(9, false));
    writer.push(3, &[1, 2]).expect("the first");
    assert!(writer.push(4, &[0]).is_err(), "again");
    assert!(writer.push(8, &[0, 0]).is_err(), "too long");
    assert!(writer.push(10, &[]).is_err(), "beyond the end");
    writer.push(5, &[3]).expect("goes on");
    writer.finish().expect("an increment may end anywhere");
}
