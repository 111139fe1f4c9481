//! Arrays: bytes that DUMP of redis-server 8.10.2 gave, read, and written as they were.

use stillframe_rdb::{Crc64, DecodeError, Decoder, Element, Encoder, Event, Head, Version, scan};

type Read = (Option<u64>, Vec<(u64, Vec<u8>)>);

fn bytes(hex: &str) -> Vec<u8> {
    let pair = |at| u8::from_str_radix(&hex[at..at + 2], 16).expect("hex");
    (0..hex.len()).step_by(2).map(pair).collect()
}

fn sealed(mut bytes: Vec<u8>) -> Vec<u8> {
    let mut crc = Crc64::new();
    crc.update(&bytes);
    bytes.extend_from_slice(&crc.value().to_le_bytes());
    bytes
}

fn read(payload: &[u8]) -> Result<Read, DecodeError> {
    let mut decoder = Decoder::of_payload(payload).expect("version and checksum are right");
    let (mut inserted, mut elements) = (None, Vec::new());
    while let Some(event) = decoder.next()? {
        match event {
            Event::Element(Element::At(index, text)) => elements.push((index, text.to_vec())),
            Event::Element(Element::Inserted(index)) => inserted = Some(index),
            _ => {}
        }
    }
    Ok((inserted, elements))
}

fn written((inserted, elements): &Read, version: Version) -> Option<Vec<u8>> {
    let mut payload = Vec::new();
    let mut encoder = Encoder::new(&mut payload).version(version);
    let shown = elements.iter().map(|(index, text)| (*index, &text[..]));
    let holds = encoder.array(Head::Payload, elements.len(), *inserted, shown);
    if !holds.expect("a Vec takes everything") {
        return None;
    }
    encoder.finish_payload().expect("a Vec takes everything");
    Some(payload)
}

/// Type and value; what is in it; the index last inserted at.
type Case = (&'static str, &'static [(u64, &'static str)], Option<u64>);

const LAST: u64 = u64::MAX - 1;

const CASES: [Case; 7] = [
    ("1c010000030178", &[(0, "x")], None),
    (
        "1c0700000101000000000000000101ffffffffffffffff02012c010000000000000301701101000000000004\
         0100f2052a0100000005001339323233333732303336383534373735383037060303303037",
        &[
            (0, "1"),
            (1, "-1"),
            (2, "300"),
            (3, "70000"),
            (4, "5000000000"),
            (5, "9223372036854775807"),
            (6, "007"),
        ],
        None,
    ),
    (
        "1c08000002000000000000f83f010200000000000002400203033165350303022d300402000000000000008005\
         02000000000000f03f060303302e310702000000000000d043",
        &[
            (0, "1.5"),
            (1, "2.25"),
            (2, "1e5"),
            (3, "-0"),
            (4, "-0.0"),
            (5, "1.0"),
            (6, "0.1"),
            (7, "4611686018427387904.0"),
        ],
        None,
    ),
    (
        "1c04000003076162636465666701000861626364656667680200196162636465666768696a6b6c6d6e6f70717273747576777879\
         40460300",
        &[(0, "abcdefg"), (1, "abcdefgh"), (2, "abcdefghijklmnopqrstuvwxy"), (70, "")],
        None,
    ),
    ("1c0201010003016101030162", &[(0, "a"), (1, "b")], Some(1)),
    ("1c020181fffffffffffffffe0003016101030162", &[(0, "a"), (1, "b")], Some(LAST)),
    (
        "1c05004fff030161500003016280000186a0030163800080000003016481fffffffffffffffe03017a",
        &[(4095, "a"), (4096, "b"), (100_000, "c"), (8_388_608, "d"), (LAST, "z")],
        None,
    ),
];

#[test]
fn arrays_are_read_and_written_as_redis_writes_them() {
    for (hex, elements, inserted) in CASES {
        let value = bytes(&hex.replace(' ', ""));
        let elements = elements.iter().map(|(index, text)| (*index, text.as_bytes().to_vec()));
        let expected = (inserted, elements.collect());
        // 8.10 gives its payloads another version.
        for version in [14, 15] {
            let payload = sealed([&value, &[version, 0][..]].concat());
            assert_eq!(read(&payload).expect(hex), expected, "{hex}");
        }
        let payload = sealed([&value, &[14, 0][..]].concat());
        assert_eq!(written(&expected, Version::Redis14), Some(payload), "{hex}");
        for version in [Version::Redis10, Version::Redis12, Version::Valkey80] {
            assert_eq!(written(&expected, version), None, "{version:?} has no form");
        }
        for cut in 1..value.len() {
            let cut = sealed([&value[..cut], &[14, 0]].concat());
            assert!(read(&cut).is_err(), "{hex} is cut");
        }
        let file = sealed([b"REDIS0014\x1c\x01k", &value[1..], b"\xff"].concat());
        let (summary, error) = scan(&file[..], file.len() as u64);
        assert!(error.is_none(), "{error:?}");
        assert_eq!((summary.databases[0].keys[7], summary.unsupported), (1, 0));
    }
}

#[test]
fn what_no_array_holds_is_damage() {
    for (hex, words) in [
        ("1c0102", "2 stands where an array has 0 or 1"),
        ("1c010181ffffffffffffffff00030178", "an index that no array has"),
        ("1c010081ffffffffffffffff030178", "an index that no array has"),
        ("1c0100000478", "4 is no kind of an element"),
    ] {
        let damaged = sealed([bytes(hex), vec![14, 0]].concat());
        let said = read(&damaged).expect_err(hex).to_string();
        assert!(said.contains(words), "{said}");
    }
}
