//! Files that are cut, changed, hand-made or foreign: each gives an event or one clear sentence.

use crate::common::*;
use proptest::prelude::*;
use stillframe_rdb::{Crc64, DecodeError, Decoder, Event, Value};

/// A file of version 10 with `body` before its end mark, and a right checksum.
fn file(body: &[u8]) -> Vec<u8> {
    sealed([b"REDIS0010", body, b"\xff"].concat())
}

fn sealed(mut bytes: Vec<u8>) -> Vec<u8> {
    let mut crc = Crc64::new();
    crc.update(&bytes);
    bytes.extend_from_slice(&crc.value().to_le_bytes());
    bytes
}

fn error(file: &[u8]) -> String {
    read(file).expect_err("the file is not whole").to_string()
}

/// The number of a module's type: nine characters of six bits, ten bits of version.
fn module_id(name: &str, version: u64) -> u64 {
    let alphabet = ('A'..='Z').chain('a'..='z').chain('0'..='9').chain(['-', '_']);
    let digit = |c| alphabet.clone().position(|a| a == c).expect("in the alphabet") as u64;
    name.chars().fold(0, |id, c| id << 6 | digit(c)) << 10 | version
}

fn sample() -> Vec<u8> {
    write(&[
        (0, b"plain".to_vec(), Owned::Bytes(b"value".to_vec()), None),
        (0, b"expiring".to_vec(), Owned::Int(-70_000), Some(1_700_000_000_000)),
        (9, b"packed".to_vec(), Owned::Bytes(b"abc".repeat(30)), None),
        (9, b"long".to_vec(), Owned::Bytes(noise(5, 100)), None),
    ])
}

/// A small file for each layout of a collection.
fn collections() -> Vec<Vec<u8>> {
    let texts = |n: usize| (0..n).map(|n| format!("text {n}").into_bytes());
    let numbers = || [70_000i64, -3, 5].into_iter().map(|n| n.to_string().into_bytes());
    let long = vec![b'z'; 70];
    let score = |n: usize| Score(n as f64 / 3.0);
    let values = [
        Owned::List(texts(3).chain([vec![b'y'; 9000]]).collect()),
        Owned::Set(numbers().collect()),
        Owned::Set(texts(3).collect()),
        Owned::Hash(texts(2).zip(numbers()).collect()),
        Owned::Hash(texts(2).zip([long.clone(), b"1".to_vec()]).collect()),
        Owned::Sorted(texts(3).enumerate().map(|(n, member)| (member, score(n))).collect()),
        Owned::Sorted([(long, Score(-0.0))].into()),
    ];
    values.into_iter().map(|value| write(&[(2, b"k".to_vec(), value, Some(5))])).collect()
}

#[test]
fn every_flipped_bit_is_found() {
    for mut file in collections().into_iter().chain([sample()]) {
        for bit in 0..file.len() * 8 {
            file[bit / 8] ^= 1 << (bit % 8);
            assert!(read(&file[..]).is_err(), "bit {} of byte {}", bit % 8, bit / 8);
            file[bit / 8] ^= 1 << (bit % 8);
        }
        assert!(read(&file[..]).is_ok());
    }
}

#[test]
fn every_truncation_is_found() {
    for file in collections().into_iter().chain([sample()]) {
        for length in 0..file.len() {
            let cut = &file[..length];
            assert!(read(cut).is_err(), "cut to {length} bytes");
            // The same with the file's length given, which may find the damage earlier.
            let mut decoder = Decoder::new(cut).with_file_bytes(length as u64);
            let found = loop {
                match decoder.next() {
                    Ok(Some(Event::Eof { .. }) | None) => break false,
                    Ok(Some(_)) => {}
                    Err(_) => break true,
                }
            };
            assert!(found, "cut to {length} bytes");
        }
    }
}

#[test]
fn other_files_and_newer_ones_are_refused_by_their_head() {
    let cases: &[(&[u8], &str)] = &[
        (
            b"",
            "not an RDB file: it does not start with \"REDIS\" and four digits, or \"VALKEY\" and three",
        ),
        (
            b"REDIS001",
            "not an RDB file: it does not start with \"REDIS\" and four digits, or \"VALKEY\" and three",
        ),
        (
            b"REDIS00x0",
            "not an RDB file: it does not start with \"REDIS\" and four digits, or \"VALKEY\" and three",
        ),
        (
            b"*3\r\n$3\r\nSET",
            "not an RDB file: it does not start with \"REDIS\" and four digits, or \"VALKEY\" and three",
        ),
        (
            b"REDIS0016\xff",
            "RDB version 16 cannot be read: RDB versions 1 to 15 and VALKEY version 80 \
             can; a newer server wrote it: import the append-only file that it writes with \
             aof-use-rdb-preamble no",
        ),
        (
            b"REDIS0000\xff",
            "RDB version 0 cannot be read: RDB versions 1 to 15 and VALKEY version 80 can",
        ),
        (
            b"VALKEY081\xff",
            "VALKEY version 81 cannot be read: RDB versions 1 to 15 and VALKEY version 80 \
             can; a newer server wrote it: import the append-only file that it writes with \
             aof-use-rdb-preamble no",
        ),
    ];
    for (bytes, sentence) in cases {
        assert_eq!(error(bytes), *sentence);
    }
}

#[test]
fn damage_is_reported_with_its_offset() {
    let string_end = "damaged at byte 11: string of 99 bytes runs past the end of the file";
    let cases: &[(&[u8], &str)] = &[
        (b"REDIS0010", "damaged at byte 9: the file ends where a key or the end mark is expected"),
        (
            b"REDIS0010\x00\xc0\x07\x40\x63abc",
            "damaged at byte 12: string of 99 bytes runs past the end of the file",
        ),
        (b"REDIS0010\x00\x00\x40\x63abc", string_end),
        (b"REDIS0010\x00\x82", "damaged at byte 10: no length starts with byte 0x82"),
        (b"REDIS0010\x00\xc4", "damaged at byte 10: no string starts with byte 0xc4"),
        (
            b"REDIS0010\xfe\xc0",
            "damaged at byte 10: the number of a database is expected, but 0xc0 starts a string",
        ),
        (
            b"REDIS0010\xfc123",
            "damaged at byte 10: an expiry of 8 bytes runs past the end of the file",
        ),
        (
            b"REDIS0010\xfc12345678\xff",
            "damaged at byte 18: byte 0xff stands between a key's expiry and the key",
        ),
        (
            b"REDIS0010\x00\x01k\xc3\x02\x40\x64\x00a",
            "damaged at byte 12: 2 bytes of LZF do not unpack to a string of 100 bytes",
        ),
        (
            b"REDIS0010\x21",
            "damaged at byte 9: byte 0x21 is no type of value that this server knows",
        ),
        (
            b"REDIS0010\xff1234",
            "damaged at byte 10: the checksum of 8 bytes runs past the end of the file",
        ),
    ];
    for (bytes, sentence) in cases {
        assert_eq!(error(bytes), *sentence);
    }
    let mut changed = file(b"\x00\x01k\x01v");
    changed[13] = b'w';
    let text = error(&changed);
    assert!(
        text.starts_with("damaged somewhere before byte 15: the bytes have checksum "),
        "{text}"
    );
}

#[test]
fn what_is_not_held_is_refused_by_name() {
    let module = module_id("ReJSON-RL", 3);
    let id = [&b"\x81"[..], &module.to_be_bytes()].concat();
    let key = |kind: u8| [b"\xfe\x05\xfc\x01\0\0\0\0\0\0\0", &[kind][..], b"\x06my\nkey"].concat();
    let refused = |kind: u8, words: &str| {
        let sentence = format!(
            "key \"my\\nkey\" of database 5 at byte 11 is {words}, which this server cannot hold"
        );
        assert_eq!(error(&file(&[key(kind), id.clone()].concat())), sentence);
    };
    refused(7, "a value of module type \"ReJSON-RL\" (there are no modules)");

    let suffix = ", at byte 9, cannot be loaded by this server";
    let function = file(b"\xf6\x1b#!lua name=mylib\nredis.regi");
    assert_eq!(
        error(&function),
        format!("function library \"#!lua name=mylib\" of a pre-release of Redis 7{suffix}")
    );
    let aux = file(&[b"\xf7", &id[..]].concat());
    assert_eq!(
        error(&aux),
        format!("data of module type \"ReJSON-RL\" (there are no modules){suffix}")
    );
    let long = file(&[&b"\x07\x40\xc8"[..], &[b'k'; 200], &id[..]].concat());
    assert!(error(&long).contains(&format!("key \"{}...\" of", "k".repeat(100))));
}

#[test]
fn damage_inside_a_value_is_reported_with_its_key_and_offset() {
    let key = |kind: u8, value: &[u8]| {
        error(&file(&[b"\xfe\x05", &[kind][..], b"\x02k\n", value].concat()))
    };
    let packed = |kind: u8, bytes: &[u8]| key(kind, &[&[bytes.len() as u8], bytes].concat());
    let head = "damaged at byte 15: key \"k\\n\" of database 5 holds ";
    let listpack = "a damaged listpack: its length differs from the one in its head (byte 0 of its 7; \
                    Hash listpack integrity check failed)";
    assert_eq!(packed(16, b"\x08\0\0\0\0\0\xff"), format!("{head}{listpack}"));
    let cases: &[(u8, &[u8], &str)] = &[
        (16, b"\x0a\0\0\0\x01\0\x81f\x02\xff", "a field that nothing follows"),
        (17, b"\x0a\0\0\0\x01\0\x81f\x02\xff", "a member that nothing follows"),
        (17, b"\x0d\0\0\0\x02\0\x81f\x02\x81f\x02\xff", "a score that is no number"),
        (16, b"\x0a\0\0\0\x02\0\x81f\x02\xff", "the number of elements is not the one announced"),
        (16, b"\x0a\0\0\0\x01\0\x81f\x03\xff", "length differs from the one behind it (byte 8"),
        (16, b"\x0a\0\0\0\x01\0\x84f\x02\xff", "a text runs past the end (byte 7"),
        (16, b"\x0a\0\0\0\x01\0\x81f\x02\xfe", "there is no end mark (byte 9"),
        (10, b"\x0e\0\0\0\x0a\0\0\0\x01\0\0\x01a\xfe", "a damaged ziplist: there is no end mark"),
        (10, b"\x0e\0\0\0\x0b\0\0\0\x01\0\0\x01a\xff", "the last entry is not where the head says"),
        (10, b"\x0e\0\0\0\x0a\0\0\0\x01\0\x01\x01a\xff", "the entry before has another length"),
        (11, b"\x02\0\0\0\x02\0\0\0\x05\0\x05\0", "a damaged intset: its integers do not rise"),
        (11, b"\x03\0\0\0\0\0\0\0", "a width other than 2, 4 and 8 bytes"),
        (11, b"\x02\0\0\0\x02\0\0\0\x05\0", "its length is not that of the integers announced"),
        (9, b"\x02\x01f\x01\0v\xff", "the number of elements is not the one announced"),
        (9, b"\x01\x01f\x03\0v\xff", "a damaged zipmap: a text runs past the end"),
        (9, b"\xfe\x01f\xff", "a damaged zipmap: a field has no value"),
        (9, b"\0\xff", "a damaged zipmap: it holds no field (byte 0 of its 2; Zipmap integrity"),
        (9, b"\x01\xfe\x01\0\0\0f\x01\0v\xff", "a length takes five bytes where one would do"),
        (9, b"\x01\x01f\xfe\x01\0\0\0\0v\xff", "a length takes five bytes where one would do"),
        (12, b"\x0e\0\0\0\x0b\0\0\0\x01\0\0\x01a\xff", "Zset ziplist integrity check failed"),
    ];
    for (kind, bytes, words) in cases {
        let text = packed(*kind, bytes);
        assert!(text.starts_with(head) && text.contains(words), "type {kind}: {text}");
    }
    let plain: &[(u8, &[u8], &str)] = &[
        (3, b"\x01\x01m\xfd", "a score that is no number"),
        (3, b"\x01\x01m\x02xy", "a score that is no number"),
        (5, b"\x01\x01m\0\0\0\0\0\0\xf8\x7f", "a score that is no number"),
        (18, b"\x01\x03\x01a", "a node with container 3"),
    ];
    for (kind, bytes, words) in plain {
        let text = key(*kind, bytes);
        assert!(text.contains("key \"k\\n\" of database 5") && text.contains(words), "{text}");
    }
    assert!(key(2, b"\x02\x01a\x20b").contains("string of 32 bytes runs past the end"));
}

#[test]
fn every_form_of_length_string_and_expiry_is_read() {
    let body = [
        &b"\x00\x01a\x01b"[..],
        b"\x00\x40\x01b\x40\x01c",
        b"\x00\x80\0\0\0\x01c\x80\0\0\0\x01d",
        b"\x00\x81\0\0\0\0\0\0\0\x01d\x81\0\0\0\0\0\0\0\x01e",
        b"\x00\xc0\xff\xc1\x00\x80",
        b"\x00\xc2\x00\x00\x00\x80\xc3\x04\x04\x00a\x20\x00",
        b"\xfd\x02\x00\x00\x00\xf8\x40\x63\xf9\x07\x00\x01f\x00",
        b"\xfe\x80\0\x01\0\0\xf9\x07\xfc\xfe\xff\xff\xff\xff\xff\xff\xff\x00\x00\x03-01",
    ]
    .concat();
    let text = |text: &str| Owned::Bytes(text.into());
    let expected = vec![
        (0, b"a".to_vec(), text("b"), None),
        (0, b"b".to_vec(), text("c"), None),
        (0, b"c".to_vec(), text("d"), None),
        (0, b"d".to_vec(), text("e"), None),
        (0, b"-1".to_vec(), text("-32768"), None),
        (0, b"-2147483648".to_vec(), text("aaaa"), None),
        (0, b"f".to_vec(), text(""), Some(2000)),
        (65536, b"".to_vec(), text("-01"), Some(-2)),
    ];
    assert_eq!(read(&file(&body)[..]).expect("a whole file"), (expected, true));
}

#[test]
fn a_checksum_may_be_missing_but_not_wrong() {
    let entries = vec![(0, b"k".to_vec(), Owned::Bytes(b"v".to_vec()), None)];
    let body = b"\x00\x01k\x01v\xff";
    let old = [b"REDIS0004", &body[..]].concat();
    assert_eq!(read(&old[..]).expect("a whole file"), (entries.clone(), false));
    let unsummed = [b"REDIS0010", &body[..], &[0; 8]].concat();
    assert_eq!(read(&unsummed[..]).expect("a whole file"), (entries.clone(), false));
    for version in 5..=10 {
        let header = format!("REDIS{version:04}");
        let summed = sealed([header.as_bytes(), body].concat());
        assert_eq!(read(&summed[..]).expect("a whole file"), (entries.clone(), true));
        let unsealed = [header.as_bytes(), body, &[0x55; 8]].concat();
        assert!(matches!(read(&unsealed[..]), Err(DecodeError::Checksum { .. })));
    }
}

#[test]
fn bytes_behind_the_end_are_reported_after_it() {
    let bytes = [file(b""), b"*1\r\n".to_vec()].concat();
    let mut decoder = Decoder::new(&bytes[..]);
    assert_eq!(decoder.next().expect("the end comes first"), Some(Event::Eof { verified: true }));
    let error = decoder.next().expect_err("four bytes too many").to_string();
    assert_eq!(error, "the file goes on at byte 18, behind its end mark and checksum");
}

#[test]
fn a_failing_reader_and_a_failing_output_are_reported() {
    struct Failing;
    impl std::io::Read for Failing {
        fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
            Err(std::io::Error::other("the disk is gone"))
        }
    }
    let sample = sample();
    let reader = std::io::Read::chain(&sample[..50], Failing);
    assert_eq!(
        read(reader).expect_err("no more bytes").to_string(),
        "cannot read on at byte 50: the disk is gone"
    );
    for room in [0, 9, 100, 200_000] {
        let mut disk = vec![0; room];
        let mut encoder = stillframe_rdb::Encoder::new(&mut disk[..]);
        let mut result = encoder.begin(&ORIGIN);
        for _ in 0..3 {
            let value = noise(1, 100_000);
            result = result.and_then(|()| encoder.entry(0, b"k", Value::Bytes(&value), None));
        }
        assert!(result.and_then(|()| encoder.finish()).is_err(), "{room} bytes of room");
    }
}

proptest! {
    #[test]
    fn random_bytes_never_panic(body in prop::collection::vec(any::<u8>(), 0..200)) {
        read(&body[..]).ok();
        read(&file(&body)[..]).ok();
    }

    #[test]
    fn changes_under_a_right_checksum_never_panic(
        entries in prop::collection::vec(entry(), 1..4),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..9),
        small in any::<bool>(),
    ) {
        let mut bytes =
            if small { collections().swap_remove(entries.len()) } else { write(&entries) };
        bytes.truncate(bytes.len() - 8);
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
            read(&sealed(bytes.clone())[..]).ok();
        }
    }
}
