//! The format against itself: what is written is read, and damage is found.

use std::io::{Read, Write};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use super::reader::{Report, Segment, Torn, recover};
use super::writer::Writer;
use super::*;
use crate::disk::SimulatedDisk;
use crate::fields::{documented_offsets, documented_section, padded};

const NONCE: u64 = 0x5EED_0123_4567_89AB;
const TIME: u64 = 1_790_000_000_000;

fn owner() -> Owner {
    Owner { tag: padded("order-book"), layout: 2 }
}

#[test]
fn the_byte_maps_in_the_documentation_are_those_of_the_code() {
    let section = documented_section("The logical log");
    let maps = documented_offsets(section);
    let at = |row: usize, field: usize| {
        let offset = maps[row][field].trim_start_matches('+');
        offset.parse::<usize>().expect("an offset")
    };
    let bytes = Header::new(5, TIME, NONCE, owner()).encode();
    assert_eq!([at(1, 4), at(1, 3)], [HEADER_BYTES, HEADER_BYTES - 4]);
    assert_eq!([at(0, 1), at(0, 2)].map(|at| u32_at(&bytes, at)), [VERSION, owner().layout]);
    let numbers = [at(0, 3), at(0, 4), at(1, 0)].map(|at| u64_at(&bytes, at));
    assert_eq!(numbers, [5, TIME, NONCE]);
    assert_eq!(bytes[at(1, 1)..][..NAME_BYTES], owner().tag);
    let mut bytes = Vec::new();
    let record = Record { sequence: 7, unsynced: 2, time_ms: TIME, payload: b"abc" };
    record.encode(NONCE, &mut bytes).expect("it is short");
    assert_eq!([at(2, 5), at(3, 5)], [RECORD_HEAD_BYTES; 2], "a record and a mark");
    assert_eq!([at(2, 1), at(2, 3)].map(|at| u32_at(&bytes, at)), [3, 2]);
    assert_eq!([at(2, 2), at(2, 4)].map(|at| u64_at(&bytes, at)), [7, TIME]);
    assert!(section.starts_with(&format!("The logical log, version {VERSION}\n")));
    assert!(section.contains(&format!("| {:?} ", String::from_utf8_lossy(&MAGIC))));
    assert!(section.contains("less than 2^32 - 1, which is a mark") && MARK == u32::MAX);
}

/// A segment from record 5 on, and where its records and marks start, each with the number of the
/// record that is or comes there. Each batch is synced and marked before the next is written.
fn pieces(batches: &[&[&[u8]]]) -> (Vec<u8>, Vec<(usize, u64)>) {
    let mut bytes = Header::new(5, TIME, NONCE, owner()).encode().to_vec();
    let mut pieces = Vec::new();
    let (mut sequence, mut synced) = (5, 4);
    for batch in batches {
        for payload in *batch {
            pieces.push((bytes.len(), sequence));
            let unsynced = (sequence - 1 - synced) as u32;
            let record = Record { sequence, unsynced, time_ms: TIME + sequence, payload };
            record.encode(NONCE, &mut bytes).expect("it is short");
            sequence += 1;
        }
        synced = sequence - 1;
        pieces.push((bytes.len(), sequence));
        Record::mark(synced).encode(NONCE, &mut bytes).expect("it is short");
    }
    (bytes, pieces)
}

/// The segment of a process that was killed while it synced the last batch.
fn segment(batches: &[&[&[u8]]]) -> Vec<u8> {
    let (mut bytes, pieces) = pieces(batches);
    bytes.truncate(pieces.last().map_or(HEADER_BYTES, |&(mark, _)| mark));
    bytes
}

type Found = Result<(Vec<Vec<u8>>, Option<Torn>), Damage>;

/// Reads a segment that nothing is known of but its name.
fn read(bytes: &[u8], until: Option<u64>) -> Found {
    let proved = until.map_or(4, |until| until - 1);
    let mut payloads = Vec::new();
    let mut segment = Segment::open(5, until, proved, bytes)?;
    while let Some(record) = segment.next()? {
        assert_eq!(record.sequence, 5 + payloads.len() as u64);
        assert_eq!(record.time_ms, TIME + record.sequence);
        payloads.push(record.payload.to_vec());
    }
    Ok((payloads, segment.torn()))
}

const BATCHES: &[&[&[u8]]] = &[&[b"one"], &[b"", b"three"], &[b"4444", b"five", b"6"]];

fn payloads(count: usize) -> Vec<Vec<u8>> {
    let payloads = BATCHES.iter().flat_map(|batch| *batch);
    payloads.take(count).map(|payload| payload.to_vec()).collect()
}

#[test]
fn records_come_back_as_they_were() {
    for bytes in [segment(BATCHES), pieces(BATCHES).0] {
        assert_eq!(read(&bytes, None), Ok((payloads(6), None)));
        assert_eq!(read(&bytes, Some(11)), Ok((payloads(6), None)));
        let superseded = read(&bytes, Some(9));
        assert_eq!(superseded, Ok((payloads(4), None)), "what is superseded is not read");
    }
    assert_eq!(read(&segment(&[]), None), Ok((payloads(0), None)));
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn from_hex(hex: &str) -> Vec<u8> {
    let digits: Vec<u32> = hex.chars().filter_map(|digit| digit.to_digit(16)).collect();
    digits.chunks_exact(2).map(|pair| (pair[0] * 16 + pair[1]) as u8).collect()
}

#[test]
fn the_fourth_version_stays_readable_byte_for_byte() {
    let is = pieces(&[&[b"ab"]]).0;
    assert_eq!(hex(&is), hex(&from_hex(include_str!("version_4.hex"))));
    assert_eq!(Header::decode(&is).map(|header| header.owner), Ok(owner()));
}

#[test]
fn older_versions_have_a_creator_and_no_application_but_for_the_server() {
    let third = from_hex(include_str!("version_3.hex"));
    let second = from_hex(include_str!("version_2.hex"));
    for file in [&third, &second] {
        assert_eq!(read(file, None), Ok((vec![b"ab".to_vec()], None)));
        let header = Header::decode(file).expect("it is sound");
        assert_eq!((header.creator().as_str(), header.owner), ("test", Owner::default()));
    }
    assert_eq!(second[HEADER_BYTES..], third[HEADER_BYTES..third.len() - RECORD_HEAD_BYTES]);
    // Encoded, the tag lies where the creator did.
    let server = Owner { tag: padded("server"), layout: 0 };
    let old = Header { version: 3, ..Header::new(5, TIME, NONCE, server) }.encode();
    let found = Header::decode(&old).expect("it is sound").owner;
    assert_eq!(Ok(found), crate::Application::server().owner().map_err(|e| e.to_string()));
    let laid_out = Owner { layout: 1, ..server };
    let wrong = Header { version: 3, ..Header::new(5, TIME, NONCE, laid_out) }.encode();
    assert_eq!(Header::decode(&wrong), Err(Damage::Fields));
}

/// Records 5 to 7 are proved by marks and by the records of the last batch, those by their mark, if
/// it was written before the process was killed.
#[test]
fn every_flipped_bit_is_damage_where_it_is_proved_and_else_a_torn_tail() {
    let (whole, pieces) = pieces(BATCHES);
    for (mut bytes, last) in [(segment(BATCHES), 7), (whole, 10)] {
        for bit in 0..bytes.len() * 8 {
            bytes[bit / 8] ^= 1 << (bit % 8);
            let found = read(&bytes, None);
            match pieces.iter().rfind(|(start, _)| *start <= bit / 8) {
                None => assert!(found.is_err(), "bit {bit}, in the header"),
                Some(&(offset, sequence)) if sequence <= last => {
                    let damage = Damage::Record { offset, sequence, last };
                    assert_eq!(found, Err(damage), "bit {bit}");
                }
                Some(&(offset, sequence)) => {
                    let torn = Torn { segment: 5, offset, bytes: bytes.len() - offset };
                    let count = sequence as usize - 5;
                    assert_eq!(found, Ok((payloads(count), Some(torn))), "bit {bit}");
                }
            }
            // Where the name of a later segment proves all, all records and what is between them
            // count; what follows them is not read.
            let is_behind = pieces.last().is_some_and(|(start, _)| *start <= bit / 8);
            assert_eq!(read(&bytes, Some(11)).is_err(), !is_behind, "bit {bit}");
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
    }
}

#[test]
fn every_truncation_gives_a_prefix_or_damage() {
    let (bytes, mut pieces) = pieces(BATCHES);
    pieces.push((bytes.len(), 11));
    for length in 0..bytes.len() {
        let cut = &bytes[..length];
        if length < HEADER_BYTES {
            assert_eq!(read(cut, None), Err(Damage::HeaderCut { length }));
            continue;
        }
        let whole = pieces.iter().rfind(|(start, _)| *start <= length);
        let &(offset, sequence) = whole.expect("the first starts after the header");
        let (count, rest) = (sequence as usize - 5, length - offset);
        let torn = (rest > 0).then_some(Torn { segment: 5, offset, bytes: rest });
        assert_eq!(read(cut, None), Ok((payloads(count), torn)), "{length} bytes");
        let damage = Err(Damage::Record { offset, sequence, last: 10 });
        let all = Ok((payloads(6), None));
        let found = if sequence <= 10 { damage } else { all };
        assert_eq!(read(cut, Some(11)), found, "{length} bytes");
    }
}

#[test]
fn a_mark_out_of_its_place_is_no_mark() {
    let (bytes, _) = pieces(&[&[b"one"]]);
    let torn = Torn { segment: 5, offset: bytes.len(), bytes: RECORD_HEAD_BYTES };
    let torn = Ok((payloads(1), Some(torn)));
    // It says that there was a record 6.
    let damage = Err(Damage::Record { offset: bytes.len(), sequence: 6, last: 6 });
    for (number, found) in [(0, &torn), (4, &torn), (6, &damage), (u64::MAX, &torn)] {
        let mut with = bytes.clone();
        Record::mark(number).encode(NONCE, &mut with).expect("it is short");
        assert_eq!(&read(&with, None), found, "{number}");
    }
    let mut with = bytes;
    let mark = Record { payload: b"!", ..Record::mark(5) };
    mark.encode(NONCE, &mut with).expect("it is short");
    let Ok((_, Some(torn))) = read(&with, None) else { panic!("a mark has no payload") };
    assert_eq!(torn.bytes, RECORD_HEAD_BYTES + 1);
}

#[test]
fn a_tail_of_anything_is_torn() {
    let bytes = segment(&[&[b"one"]]);
    let tails = [vec![0; 1], vec![0; 5000], vec![0xFF; 5000], bytes.clone(), bytes[64..].to_vec()];
    for tail in tails {
        let torn = Torn { segment: 5, offset: bytes.len(), bytes: tail.len() };
        assert_eq!(read(&[&bytes[..], &tail].concat(), None), Ok((payloads(1), Some(torn))));
    }
}

#[test]
fn records_within_a_payload_prove_nothing() {
    let mut fake = Vec::new();
    let record = Record { sequence: 6, unsynced: 0, time_ms: 0, payload: b"fake" };
    record.encode(NONCE + 1, &mut fake).expect("it is short");
    let mut bytes = segment(&[&[&fake]]);
    bytes[HEADER_BYTES] ^= 1;
    assert!(matches!(read(&bytes, None), Ok((records, Some(_))) if records.is_empty()));
}

#[test]
fn a_segment_under_another_name_or_of_a_newer_version_is_reported() {
    let mut bytes = segment(BATCHES);
    let other = Segment::open(6, None, 5, &bytes).err();
    assert_eq!(other, Some(Damage::Misnamed { first: 5, named: 6 }));
    let mut of_version = |version| {
        bytes[8] = version;
        let checksum = crc_fast::crc32_iscsi(&bytes[..60]);
        bytes[60..64].copy_from_slice(&checksum.to_le_bytes());
        read(&bytes, None).expect_err("it is another version")
    };
    assert_eq!(of_version(5), Damage::NewerVersion { version: 5, supported: 4 });
    assert_eq!(of_version(1), Damage::Fields, "no store ever wrote it");
}

// ---- several segments

/// Segments of records 1 to 3, 4 to 6, and 7 to 9, the last one in doubt.
fn log() -> Arc<Directory> {
    let disk = Arc::new(SimulatedDisk::default());
    let directory = Directory::open(Path::new("simulated"), Some(disk)).expect("it is there");
    let directory = Arc::new(directory);
    let header = Header::new(0, 0, NONCE, Owner::default());
    let found = Report { next: 1, ..Report::default() };
    let mut writer =
        Writer::resume(Arc::clone(&directory), &found, header).expect("the disk is sound");
    for number in 1..=9u64 {
        assert_eq!(writer.append(TIME, &number.to_le_bytes()).expect("it is short"), number);
        match number {
            3 | 6 => writer = writer.rotate(0, NONCE + number).expect("the disk is sound"),
            9 => writer.write().expect("the disk is sound"),
            _ => assert_eq!(writer.sync().expect("the disk is sound"), number),
        }
    }
    directory
}

fn recover_from(directory: &Directory, from: u64) -> Result<(Vec<u64>, Report), Error> {
    recover_with(directory, from, false)
}

fn recover_with(
    directory: &Directory,
    from: u64,
    accept_loss: bool,
) -> Result<(Vec<u64>, Report), Error> {
    let mut numbers = Vec::new();
    let report = recover(directory, from, accept_loss, |record, progress| {
        assert_eq!(record.payload, record.sequence.to_le_bytes());
        assert!(progress.bytes <= progress.total_bytes);
        numbers.push(record.sequence);
        Ok(ControlFlow::Continue(()))
    })?;
    Ok((numbers, report))
}

#[test]
fn a_log_is_read_from_any_record_on() {
    let directory = log();
    for from in 1..=10 {
        let (numbers, report) = recover_from(&directory, from).expect("it is sound");
        assert_eq!(numbers, Vec::from_iter(from..10));
        assert_eq!((report.next, report.torn), (10, None));
        // The mark behind 8 says that it was on the disk; of 9 only a checkpoint is proof.
        let unproved = (TIME, 9u64.to_le_bytes().to_vec());
        assert_eq!(report.unproved, Vec::from_iter((from < 10).then_some(unproved)));
    }
}

#[test]
fn a_log_that_ends_before_the_checkpoint_is_damaged() {
    let directory = log();
    let error = recover_from(&directory, 20).expect_err("10 to 19 are nowhere").to_string();
    assert!(error.contains("log-00000000000000000007 is damaged"), "{error}");
    assert!(error.contains("record 10 is not what was written, and records up to 19"), "{error}");
    let empty = Directory::open(Path::new("empty"), Some(Arc::new(SimulatedDisk::default())));
    let empty = empty.expect("it is there");
    let error = recover_from(&empty, 20).expect_err("there is no log").to_string();
    assert!(error.contains("the log from record 20 on is in no file"), "{error}");
    assert!(recover_from(&empty, 1).is_err(), "there was one");
    assert_eq!(recover_from(&empty, 0).expect("it never had any").1.next, 1);
}

#[test]
fn an_accepted_loss_is_reported_and_stays_behind() {
    for (segment, index, from, kept, last) in
        [(4, 0, 1, 3, 9), (4, 1, 1, 4, 9), (1, 2, 2, 2, 9), (7, 0, 7, 6, 9), (7, 1, 10, 9, 9)]
    {
        let directory = log();
        let (mut input, _) = directory.open_file(&name(segment)).expect("it is there");
        let mut bytes = Vec::new();
        input.read_to_end(&mut bytes).expect("it is sound");
        bytes[HEADER_BYTES + index * (2 * RECORD_HEAD_BYTES + 8) + 3] ^= 1; // marks between
        let mut output = directory.create(&name(segment)).expect("the disk is sound");
        output.write_all(&bytes).expect("the disk is sound");
        recover_from(&directory, from).expect_err("by default nothing is lost");

        let (numbers, report) = recover_with(&directory, from, true).expect("it was accepted");
        assert_eq!(numbers, Vec::from_iter(from..=kept), "segment {segment}, record {index}");
        let lost = report.lost.clone().expect("reported");
        assert_eq!((report.next, lost.segment, lost.last), (kept + 1, segment, last));
        assert!(report.unproved.is_empty());
        set_aside(&directory, report.next).expect("the disk is sound");
        let header = Header::new(0, 0, NONCE, Owner::default());
        let mut writer = Writer::resume(Arc::clone(&directory), &report, header).expect("sound");
        let next = report.next;
        assert_eq!(writer.append(TIME, &next.to_le_bytes()).expect("it is short"), next);
        writer.sync().expect("the disk is sound");
        let (numbers, report) = recover_from(&directory, from).expect("it is whole again");
        assert_eq!((numbers, report.next), (Vec::from_iter(from..=next), next + 1));
    }
}

#[test]
fn a_missing_segment_is_reported() {
    let directory = log();
    directory.remove(&name(4)).expect("it is there");
    let error = recover_from(&directory, 1).expect_err("4 to 6 are gone").to_string();
    assert!(error.contains("record 4 is not what was written, and records up to 6"), "{error}");
    assert_eq!(recover_from(&directory, 7).expect("not needed").0, [7, 8, 9]);
    directory.remove(&name(1)).expect("it is there");
    let error = recover_from(&directory, 1).expect_err("1 to 6 are gone").to_string();
    assert!(error.contains("records 1 to 6 are in no file"), "{error}");
}
