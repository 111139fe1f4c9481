//! The format against itself: what is written is read, and nothing else is.

mod increments;
mod threads;

use super::reader::Reader;
use super::writer::Writer;
use super::*;
use crate::fields::{documented_offsets, documented_section};

#[test]
fn the_byte_maps_in_the_documentation_are_those_of_the_code() {
    let owner = Owner { tag: padded("order-book"), layout: 9 };
    let mut header = Header { identity: 5, packs: true, owner, ..header(3, 4) };
    header.log_from = 8;
    header.base = Some(Link { number: 6, identity: 2 });
    let bytes = header.encode();
    let section = documented_section("The checkpoint file");
    let maps = documented_offsets(section);
    let at = |row: usize, field: usize| maps[row][field].parse::<usize>().expect("an offset");
    assert_eq!([1, 2, 3, 4].map(|row| at(row, maps[row].len() - 1)), HEADER_BYTES_BY_VERSION);
    assert_eq!([1, 2, 3, 4].map(|row| at(row, maps[row].len() - 2)), PARTS.map(|[_, end]| end - 4));
    let numbers = [(0, 3), (0, 4), (1, 0), (2, 0), (3, 0), (3, 1), (3, 2)];
    let numbers = numbers.map(|(row, field)| u64_at(&bytes, at(row, field)));
    assert_eq!(numbers, [3, 7, 1_790_000_000_000, 8, 5, 6, 2]);
    let short = [(0, 1), (0, 2), (3, 3), (4, 1)];
    let short = short.map(|(row, field)| u32_at(&bytes, at(row, field)));
    assert_eq!(short, [VERSION, 4, MAY_BE_PACKED, 9]);
    for (row, field, name) in [(1, 1, header.algorithm), (2, 1, header.creator), (4, 0, owner.tag)]
    {
        assert_eq!(bytes[at(row, field)..][..NAME_BYTES], name);
    }
    assert_eq!(maps[5][3], format!("+{BLOCK_HEADER_BYTES}"));
    assert_eq!(*maps[6].last().expect("the footer's end"), format!("+{FOOTER_BYTES}"));
    for magic in [MAGIC, FOOTER_MAGIC] {
        assert!(section.contains(&format!("| {:?} ", String::from_utf8_lossy(&magic))));
    }
    assert!(section.starts_with(&format!("The checkpoint file, version {VERSION}\n")));
    assert!(section.contains("| 1 to 131,072 (1 MiB) |") && WORDS_PER_BLOCK_MAX == 131_072);
}

fn header(words: usize, words_per_block: u32) -> Header {
    Header { words_per_block, ..Header::new(words, 7, 1_790_000_000_000, "imprint") }
}

/// Words that depend on their place, so that a swap shows.
fn words(count: usize) -> Vec<u64> {
    (1..=count as u64).map(|index| index.wrapping_mul(0x9E37_79B9_7F4A_7C15)).collect()
}

fn write(header: Header, words: &[u64], words_per_push: usize) -> Vec<u8> {
    let mut file = Vec::new();
    let mut writer = Writer::new(&mut file, header);
    for (index, run) in words.chunks(words_per_push).enumerate() {
        writer.push(index * words_per_push, run).expect("a Vec takes all");
    }
    writer.finish().expect("a Vec takes all");
    file
}

/// Loads what is left of a file that was once of `length` bytes.
fn load(
    file: &[u8],
    length: usize,
    threads: usize,
    take: impl FnMut(usize, &[u64]),
) -> Result<Header, Damage> {
    let reader = Reader::open(file, length as u64)?;
    let header = *reader.header();
    let at = |offset| file.get(offset as usize..).unwrap_or_default();
    reader.load(threads, at, None, take).map(|()| header)
}

fn read(file: &[u8]) -> Result<(Header, Vec<u64>), Damage> {
    let mut words = Vec::new();
    let header = load(file, file.len(), 1, |start, run| {
        assert_eq!(start, words.len());
        words.extend_from_slice(run);
    })?;
    Ok((header, words))
}

#[test]
fn every_size_comes_back_as_it_was() {
    let block = WORDS_PER_BLOCK as usize;
    for count in [0, 1, 2, 511, 512, 513, 1023, block - 1, block, block + 1, 3 * block + 77] {
        for words_per_push in [1, 512, 500] {
            let (header, words) = (header(count, WORDS_PER_BLOCK), words(count));
            let file = write(header, &words, words_per_push);
            assert_eq!(Some(file.len() as u128), header.file_bytes());
            assert_eq!(read(&file), Ok((header, words)), "{count} words");
        }
    }
}

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.bytes().filter(u8::is_ascii_hexdigit).collect();
    let pair = |pair: &[u8]| u8::from_str_radix(str::from_utf8(pair).expect("ASCII"), 16);
    digits.chunks(2).map(|digits| pair(digits).expect("hexadecimal")).collect()
}

#[test]
fn the_first_version_stays_readable() {
    let (header, words) = read(&bytes(include_str!("../version_1.hex"))).expect("it is sound");
    assert_eq!((words, header.number, header.log_from), (vec![1, 2, 3], 7, 0));
    assert_eq!(header.algorithm(), "imprint");
}

#[test]
fn the_second_version_stays_readable() {
    let (header, words) = read(&bytes(include_str!("../version_2.hex"))).expect("it is sound");
    assert_eq!((words, header.log_from, header.base), (vec![1, 2, 3], 0x0102_0304, None));
    assert_eq!(header.creator(), "test");
}

#[test]
fn the_third_version_stays_readable() {
    let (header, words) = read(&bytes(include_str!("../version_3.hex"))).expect("it is sound");
    assert_eq!(
        (words, header.identity, header.creator()),
        (vec![1, 2, 3], 0x0506_0708, "test".into())
    );
    assert!(header.owner.is_untagged());
}

#[test]
fn the_fourth_version_stays_readable_byte_for_byte() {
    let (log_from, identity) = (0x0102_0304, 0x0506_0708);
    let owner = Owner { tag: padded("order-book"), layout: 2 };
    let header = Header { log_from, identity, owner, creator: padded("test"), ..header(3, 2) };
    let file = write(header, &[1, 2, 3], 512);
    let hex: String = file.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(file, bytes(include_str!("../version_4.hex")), "{hex}");
    assert_eq!(read(&file), Ok((header, vec![1, 2, 3])));
}

#[test]
fn every_flipped_bit_is_found() {
    for count in [0, 1, 9] {
        let mut file = write(header(count, 4), &words(count), 512);
        for bit in 0..file.len() * 8 {
            file[bit / 8] ^= 1 << (bit % 8);
            let damage = read(&file).expect_err("a damaged file was read");
            assert!(!matches!(damage, Damage::NewerVersion { .. }), "bit {bit}: {damage}");
            file[bit / 8] ^= 1 << (bit % 8);
        }
        assert!(read(&file).is_ok());
    }
}

#[test]
fn every_truncation_and_every_tail_is_found() {
    let file = write(header(9, 4), &words(9), 512);
    for length in 0..file.len() {
        let damage = read(&file[..length]).expect_err("a truncated file was read");
        assert!(matches!(damage, Damage::Truncated { .. }), "{length}: {damage}");
    }
    let damage = read(&[&file[..], &[0]].concat()).expect_err("a longer file was read");
    assert!(matches!(damage, Damage::Trailing { .. }), "{damage}");
}

#[test]
fn a_file_that_shrinks_while_it_is_read_is_found() {
    let file = write(header(9, 4), &words(9), 512);
    for length in HEADER_BYTES..file.len() {
        let damage = load(&file[..length], file.len(), 1, |_, _| {});
        let damage = damage.expect_err("a shrunk file was read");
        assert!(matches!(damage, Damage::Unreadable { .. }), "{damage}");
    }
}

#[test]
fn damage_is_reported_with_its_offset() {
    let sound = write(header(9, 4), &words(9), 512);
    let block = BLOCK_HEADER_BYTES + 4 * 8;
    let damage = |at: usize| {
        let mut file = sound.clone();
        file[at] ^= 0x10;
        read(&file).expect_err("damaged").to_string()
    };
    let second = HEADER_BYTES + block;
    assert_eq!(
        damage(second + 20),
        "bytes 208 to 255: the checksum of block 1 does not match",
        "the second block"
    );
    let footer = sound.len() - FOOTER_BYTES;
    assert_eq!(damage(footer), "byte 280: the footer does not agree with the header");
    assert_eq!(damage(sound.len() - 1), "byte 312: the digest of all bytes before does not match");
}

#[test]
fn blocks_that_changed_places_are_found() {
    let mut file = write(header(8, 4), &words(8), 512);
    let block = BLOCK_HEADER_BYTES + 4 * 8;
    let (left, right) = file[HEADER_BYTES..].split_at_mut(block);
    left.swap_with_slice(&mut right[..block]);
    assert_eq!(read(&file), Err(Damage::BlockHead { offset: HEADER_BYTES as u64, block: 0 }));
}

#[test]
fn a_block_of_an_older_file_is_found_by_the_digest() {
    let mut file = write(header(4, 4), &[1, 2, 3, 4], 512);
    let other = write(header(4, 4), &[1, 2, 3, 5], 512);
    let block = HEADER_BYTES..HEADER_BYTES + BLOCK_HEADER_BYTES + 32;
    file[block.clone()].copy_from_slice(&other[block]);
    assert!(matches!(read(&file), Err(Damage::Digest { .. })));
}

/// A header with a right checksum is the writer's word; its sizes still need the file's length.
#[test]
fn huge_sizes_are_refused_before_memory_is_asked_for() {
    for words in [1 << 12, 1 << 20, 1 << 40, u64::MAX] {
        let header = Header { words, ..header(0, 4) };
        let mut file = header.encode().to_vec();
        file.resize(4096, 0);
        assert!(matches!(read(&file), Err(Damage::Truncated { .. })), "{words}");
        let mut file = Header { packs: true, ..header }.encode().to_vec();
        file.resize(4096, 0);
        assert!(read(&file).is_err(), "{words} packed");
    }
    for words_per_block in [0, WORDS_PER_BLOCK_MAX + 1, u32::MAX] {
        let file = header(0, words_per_block).encode();
        assert!(matches!(read(&file), Err(Damage::Field { offset: 12, .. })));
    }
}

#[test]
fn a_newer_version_is_distinguished_from_damage() {
    let mut file = write(header(9, 4), &words(9), 512);
    file[8] = 5;
    assert_eq!(read(&file), Err(Damage::HeaderChecksum));
    let checksum = crc_fast::crc32_iscsi(&file[..60]);
    file[60..64].copy_from_slice(&checksum.to_le_bytes());
    assert_eq!(read(&file), Err(Damage::NewerVersion { version: 5, supported: 4 }));
}

#[test]
fn a_writer_refuses_what_is_not_the_image() {
    let mut writer = Writer::new(Vec::new(), header(4, 4));
    assert!(writer.push(1, &[0]).is_err(), "a gap");
    assert!(writer.push(0, &[0; 5]).is_err(), "too many words");
    writer.push(0, &[0; 3]).expect("in order");
    let error = writer.finish().expect_err("one word is missing");
    assert_eq!(error.message(), "the image ended after 3 of 4 words");
}

#[test]
fn a_failed_write_is_reported_with_its_offset() {
    struct Full(usize);
    impl std::io::Write for Full {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            if self.0 == 0 {
                return Err(std::io::Error::from_raw_os_error(28)); // ENOSPC
            }
            let taken = bytes.len().min(self.0);
            self.0 -= taken;
            Ok(taken)
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let length = header(8, 4).file_bytes().expect("it is full") as usize;
    for room in 0..length {
        let mut writer = Writer::new(Full(room), header(8, 4));
        let result = writer.push(0, &words(8)).and_then(|()| writer.finish());
        assert_eq!(result.expect_err("the disk is full").errno(), 28, "{room}");
    }
}
