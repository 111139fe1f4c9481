//! The scanner: agrees with the decoder on what both read, counts the real Redis's files of every
//! type, finds every flip and truncation, and holds nothing of what it reads.

use std::io::Cursor;

use crate::common::*;
use proptest::prelude::*;
use stillframe_rdb::{Crc64, DecodeError, Summary, VALUE_TYPES, scan, scan_keys};

fn scanned(file: &[u8]) -> Result<Summary, DecodeError> {
    let (summary, error) = scan(file, file.len() as u64);
    error.map_or(Ok(summary), Err)
}

fn sample() -> Vec<u8> {
    write(&[
        (0, b"plain".to_vec(), Owned::Bytes(b"value".to_vec()), None),
        (3, b"list".to_vec(), Owned::List(vec![b"a".to_vec(), b"bc".repeat(5000)]), None),
        (0, b"expiring".to_vec(), Owned::Int(-70_000), Some(1_700_000_000_000)),
        (9, b"packed".to_vec(), Owned::Bytes(b"abc".repeat(30)), Some(5)),
        (9, b"long".to_vec(), Owned::Bytes(noise(5, 100)), None),
    ])
}

#[test]
fn what_a_file_holds_is_counted() {
    let summary = scanned(&sample()).expect("it is sound");
    assert_eq!((summary.version, summary.verified), (10, true));
    assert_eq!(summary.aux[0], ("redis-ver".to_owned(), "7.0.15".to_owned()));
    assert!(summary.aux.contains(&("ctime".to_owned(), "1700000000".to_owned())));
    let databases: Vec<_> =
        summary.databases.iter().map(|it| (it.number, it.keys[0], it.expire_at_ms)).collect();
    let (first, second) = ((1_700_000_000_000, 1_700_000_000_000), (5, 5));
    assert_eq!(databases, [(0, 2, Some(first)), (3, 0, None), (9, 2, Some(second))]);
}

#[test]
fn every_flipped_bit_and_every_truncation_is_found() {
    let mut file = sample();
    for bit in 0..file.len() * 8 {
        file[bit / 8] ^= 1 << (bit % 8);
        assert!(scanned(&file).is_err(), "bit {} of byte {}", bit % 8, bit / 8);
        file[bit / 8] ^= 1 << (bit % 8);
    }
    for length in 0..file.len() {
        assert!(scanned(&file[..length]).is_err(), "cut to {length} bytes");
    }
    file.push(0);
    assert!(matches!(scanned(&file), Err(DecodeError::TrailingBytes { .. })));
}

/// A file with `body` before its end mark, and a right checksum.
fn sealed(body: &[u8]) -> Vec<u8> {
    let mut bytes = [b"REDIS0010", body, b"\xff"].concat();
    let mut crc = Crc64::new();
    crc.update(&bytes);
    bytes.extend_from_slice(&crc.value().to_le_bytes());
    bytes
}

#[test]
fn every_type_is_stepped_over() {
    let id = [b"\x10", &1u128.to_be_bytes()[..]].concat();
    // One entry, 0-1, with one field.
    let node = b"\x1d\x1d\0\0\0\x0a\0\x01\x01\0\x01\x01\x01\x81a\x02\0\x01\x02\x01\0\x01\0\x01\x81v\x02\x04\x01\xff";
    let group = [
        &b"\x01\x01g\x01\x02\x03\x01"[..],
        &[7; 24], // an id and a time
        b"\x05\x01\x01c",
        &[0; 8],
        b"\x01",
        &[7; 16],
    ]
    .concat();
    let stream = |first: &[u8]| [b"\x01", &id[..], node, b"\x01\x02\x03", first, &group].concat();
    let first_group = group.clone();
    // The first form has no count of entries read in a group.
    let old =
        [&b"\x01"[..], &id, node, b"\x01\x02\x03\x01\x01g\x01\x02", &first_group[6..]].concat();
    let values: Vec<(u8, Vec<u8>, &str)> = vec![
        (0, b"\x01v".to_vec(), "string"),
        (1, b"\x02\x01a\x01b".to_vec(), "list"),
        (2, b"\x01\x01a".to_vec(), "set"),
        (3, b"\x03\x01a\x011\x01b\xfe\x01c\xff".to_vec(), "sorted set"),
        (4, b"\x01\x01a\x01b".to_vec(), "hash"),
        (5, b"\x01\x01a12345678".to_vec(), "sorted set"),
        (9, b"\x07\x01\x01f\x01\0v\xff".to_vec(), "hash"),
        (10, b"\x0e\x0e\0\0\0\x0a\0\0\0\x01\0\0\x01a\xff".to_vec(), "list"),
        (11, b"\x0a\x02\0\0\0\x01\0\0\0\x05\0".to_vec(), "set"),
        (12, b"\x10\x10\0\0\0\x0d\0\0\0\x02\0\0\x01a\x03\xf2\xff".to_vec(), "sorted set"),
        (13, b"\x10\x10\0\0\0\x0d\0\0\0\x02\0\0\x01a\x03\xf2\xff".to_vec(), "hash"),
        (14, b"\x01\x0e\x0e\0\0\0\x0a\0\0\0\x01\0\0\x01a\xff".to_vec(), "list"),
        (15, old, "stream"),
        (16, b"\x0c\x0c\0\0\0\x02\0\x81a\x02\x05\x01\xff".to_vec(), "hash"),
        (17, b"\x0c\x0c\0\0\0\x02\0\x81a\x02\x05\x01\xff".to_vec(), "sorted set"),
        (18, b"\x02\x01\x01a\x02\x0a\x0a\0\0\0\x01\0\x81a\x02\xff".to_vec(), "list"),
        (19, stream(b"\x01\x02\x03\x04\x05"), "stream"),
        (
            7,
            b"\x81\0\0\0\0\0\0\0\x01\x01\x05\x02\x06\x031234\x0412345678\x05\x01s\0".to_vec(),
            "module",
        ),
    ];
    for (kind, value, name) in values {
        let file = sealed(&[&[kind][..], b"\x01k", &value].concat());
        let summary = scanned(&file).unwrap_or_else(|error| panic!("type {kind}: {error}"));
        let place = VALUE_TYPES.iter().position(|it| *it == name).expect("a type");
        assert_eq!(summary.databases[0].keys[place], 1, "type {kind}");
        assert_eq!(summary.databases[0].total(), 1, "type {kind}");
    }
    let mut miscounted = stream(b"\x01\x02\x03\x04\x05");
    miscounted[1 + id.len() + node.len()] = 12;
    let error = scanned(&sealed(&[b"\x13\x01k", &miscounted[..]].concat()));
    let error = error.expect_err("it has one entry").to_string();
    assert!(error.contains("a stream of 1 entries that says 12"), "{error}");
    let functions = sealed(b"\xf5\x03lib\xf7\x01\x02\x01\x02\x01\0");
    let summary = scanned(&functions).expect("it is sound");
    assert_eq!((summary.functions, summary.modules), (1, 1));
}

#[test]
fn claims_cost_neither_time_nor_memory() {
    let huge = b"\x81\x7f\xff\xff\xff\xff\xff\xff\xff";
    for kind in [0u8, 1, 4, 5, 15, 18, 19] {
        let file = sealed(&[&[kind][..], b"\x01k", huge].concat());
        assert!(scanned(&file).is_err(), "type {kind}");
    }
    // A string of a terabyte, from a reader that gives zeros for ever, ends with the file.
    let start = [&b"REDIS0010\x00\x01k\x81"[..], &(1u64 << 40).to_be_bytes()].concat();
    let (_, error) = scan(std::io::Read::chain(&start[..], std::io::repeat(0)), 1 << 30);
    let error = error.expect("it is longer than the file").to_string();
    assert!(error.contains("runs past the end of the file"), "{error}");
    // Many databases are counted together.
    let many: Vec<u8> = (0..2000u32)
        .flat_map(|db| [&b"\xfe\x80"[..], &db.to_be_bytes(), b"\x00\x01k\x01v"].concat())
        .collect();
    let summary = scanned(&sealed(&many)).expect("it is sound");
    assert_eq!((summary.databases.len(), summary.keys_elsewhere), (1024, 976));
}

#[test]
fn damage_inside_packed_bytes_is_reported_as_by_the_decoder() {
    let body = b"\xfe\x05\x10\x01k\x0c\x0c\0\0\0\x02\0\x81a\x02\x05\x02\xff";
    let error = scanned(&sealed(body)).expect_err("an element's length is wrong").to_string();
    assert!(error.contains("key \"k\" of database 5 holds a damaged listpack"), "{error}");
    assert_eq!(read(&sealed(body)[..]).expect_err("here too").to_string(), error);
}

#[test]
fn keys_that_are_there_twice_are_found() {
    let find = |entries: &[Entry]| {
        let file = write(entries);
        let (summary, error) = scan_keys(Cursor::new(&file), file.len() as u64);
        assert_eq!(scanned(&file).expect("its structure is sound"), summary);
        error.map(|error| error.to_string())
    };
    let text =
        |db, key: &[u8], bytes: &[u8]| (db, key.to_vec(), Owned::Bytes(bytes.to_vec()), None);
    let list = |db, key: &[u8]| (db, key.to_vec(), Owned::List(vec![b"a".to_vec()]), None);
    let once = [text(0, b"k", b"v"), text(1, b"k", b"v"), list(0, b"l"), text(0, b"kk", b"v")];
    assert_eq!(find(&once), None);
    for second in [text(1, b"k", b"w"), list(1, b"k"), text(0, b"l", b"v")] {
        let (db, key) = (second.0, second.1.escape_ascii().to_string());
        let mut twice = once.to_vec();
        twice.insert(3, second);
        let found = find(&twice).expect("it is there twice");
        assert!(found.starts_with(&format!("key \"{key}\" of database {db} at byte ")), "{found}");
        assert!(found.ends_with(" is there for a second time"), "{found}");
    }
}

#[test]
fn an_unknown_kind_is_reported_with_its_offset() {
    let text = |body: &[u8]| scanned(&sealed(body)).expect_err("refused").to_string();
    let unknown = "damaged at byte 9: byte 0x21 is no type of value that this server knows";
    assert_eq!(text(b"\x21\x01k"), unknown);
    assert!(text(b"\xfc12345678\xff").contains("stands between a key's expiry and the key"));
    assert!(text(b"\x06\x01k").contains("pre-release of Redis 4"));
    assert!(text(b"\xf6\x01k").contains("pre-release of Redis 7"));
    assert!(text(b"\x07\x01k\x01\x09").contains("9 is no kind of a module's operand"));
}

proptest! {
    #[test]
    fn the_scanner_agrees_with_the_decoder(
        entries in prop::collection::vec(entry(), 0..20),
        damage in prop::collection::vec((any::<prop::sample::Index>(), 0u8..8), 0..4)
    ) {
        let mut file = write(&entries);
        for (at, bit) in &damage {
            let at = at.index(file.len());
            file[at] ^= 1 << bit;
        }
        match (scanned(&file), read(&file[..])) {
            (Ok(summary), Ok((entries, verified))) => {
                let keys: u64 = summary.databases.iter().map(|it| it.total()).sum();
                prop_assert_eq!(keys, entries.len() as u64);
                prop_assert_eq!(summary.verified, verified);
            }
            (Err(_), Err(_)) => {}
            (scanned, read) => prop_assert!(false, "{:?}, {:?}", scanned, read.err()),
        }
    }

    #[test]
    fn random_bytes_never_panic(body in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = scanned(&sealed(&body));
    }
}
