//! Values as the releases after Redis 7.0 write them: bytes that DUMP of Redis 7.4.1, Redis 8.0.6
//! and Valkey 9.1.2 gave, and forms of Redis 8.6 and 8.8 by hand.

use stillframe_rdb::{Crc64, DecodeError, Decoder, Event, PayloadError, Summary, scan};

fn bytes(hex: &str) -> Vec<u8> {
    let pairs = hex.as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).expect("ASCII"));
    pairs.map(|pair| u8::from_str_radix(pair, 16).expect("hex")).collect()
}

fn sealed(mut bytes: Vec<u8>) -> Vec<u8> {
    let mut crc = Crc64::new();
    crc.update(&bytes);
    bytes.extend_from_slice(&crc.value().to_le_bytes());
    bytes
}

/// A file of one key with this type and value.
fn file(head: &[u8; 9], record: &[u8]) -> Vec<u8> {
    sealed([head, record, b"\xff"].concat())
}

/// The type and value as the record of key `k`.
fn record(value: &[u8]) -> Vec<u8> {
    [&value[..1], b"\x01k", &value[1..]].concat()
}

/// The elements, one after the other as text.
fn elements(mut decoder: Decoder<&[u8]>) -> Result<Vec<String>, DecodeError> {
    let mut found = Vec::new();
    while let Some(event) = decoder.next()? {
        match event {
            Event::Element(element) => found.push(format!("{element:?}")),
            Event::Skipped { what, key, .. } => {
                let key = key.map(|key| key.escape_ascii().to_string());
                found.push(format!("skipped {what} {key:?}"));
            }
            _ => {}
        }
    }
    Ok(found)
}

fn payload(bytes: &[u8]) -> Result<Vec<String>, DecodeError> {
    elements(Decoder::of_payload(bytes).expect("version and checksum are right"))
}

fn scanned(file: &[u8]) -> Result<Summary, DecodeError> {
    let (summary, error) = scan(file, file.len() as u64);
    error.map_or(Ok(summary), Err)
}

const FOREVER: &str = r#"Pair([98], [50])"#;
const EXPIRING: &str = r#"Expiring([97], [49], 2147483648000)"#;
const KEPT: &str = r#"Pair([97], [49])"#;

/// A hash with fields `a` and `b`, of which `a` expires in 2038, or was persisted: type and value,
/// and the version of the payload.
const HASHES: [(&str, u8, [&str; 2]); 8] = [
    // Redis 7.4.1 and 8.0.6: a listpack.
    (
        "1900000000f40100001d1d00000006008161020101f400000000f40100000981620202010001ff",
        12,
        [EXPIRING, FOREVER],
    ),
    ("1900000000f4010000151500000006008162020201000181610201010001ff", 12, [FOREVER, KEPT]),
    // The same servers: a table.
    ("1800000000f401000002000162c002010161c001", 12, [FOREVER, EXPIRING]),
    ("04020162c0020161c001", 12, [FOREVER, KEPT]),
    // Valkey 9.1.2.
    ("16020161c00100000000f40100000162c002ffffffffffffffff", 80, [EXPIRING, FOREVER]),
    ("04020161c0010162c002", 80, [KEPT, FOREVER]),
    // Candidates of Redis 7.4, by hand.
    ("1602000162013281000001f40000000001610131", 12, [FOREVER, EXPIRING]),
    ("171d1d00000006008161020101f400000000f40100000981620202010001ff", 12, [EXPIRING, FOREVER]),
];

#[test]
fn hashes_whose_fields_expire_are_read_in_every_form() {
    for (hex, version, expected) in HASHES {
        let value = bytes(hex);
        let expected = expected.map(str::to_owned);
        let found = payload(&sealed([&value, &[version, 0][..]].concat()));
        assert_eq!(found.expect(hex), expected, "{hex}");
        let head = if version == 80 { b"VALKEY080" } else { b"REDIS0012" };
        let file = file(head, &record(&value));
        let found = elements(Decoder::new(&file[..])).expect(hex);
        assert_eq!(found, expected, "{hex}");
        let summary = scanned(&file).expect(hex);
        assert_eq!((summary.databases[0].keys[4], summary.databases[0].total()), (1, 1));
        assert_eq!(summary.unsupported, 0, "{hex}");
        for cut in 0..file.len() {
            assert!(scanned(&file[..cut]).is_err(), "{hex} cut at {cut}");
            assert!(elements(Decoder::new(&file[..cut])).is_err(), "{hex} cut at {cut}");
        }
    }
}

#[test]
fn expiries_that_are_no_times_are_damage() {
    let first = [0xff; 8];
    for value in [
        [&[24][..], &first, b"\x01\x02\x01f\x01v"].concat(),
        [&[24][..], &[0; 8], b"\x01\x81\0\x02\0\0\0\0\0\0\x01f\x01v"].concat(),
        b"\x16\x01\x81\0\x01\0\0\0\0\0\0\x01f\x01v".to_vec(),
        b"\x17\x0f\x0f\0\0\0\x03\0\x81f\x02\x81v\x02\x81x\x02\xff".to_vec(),
        b"\x17\x10\x10\0\0\0\x03\0\x81f\x02\x81v\x02\xdf\xff\x02\xff".to_vec(),
        b"\x17\x0c\x0c\0\0\0\x02\0\x81f\x02\x05\x01\xff".to_vec(),
    ] {
        let file = file(b"REDIS0012", &record(&value));
        let error = scanned(&file).expect_err("damaged").to_string();
        assert!(error.contains("key \"k\" of database 0 holds"), "{error}");
        assert_eq!(elements(Decoder::new(&file[..])).expect_err("here too").to_string(), error);
    }
}

#[test]
fn sets_and_streams_of_later_releases_are_read() {
    for hex in [
        "140f0f00000003008161020501816202ff0c00ec5be3d12b724c7a", // Redis 7.4.1, 8.0.6
        "140f0f00000003008161020501816202ff5000e8071e804f0ab5c7", // Valkey 9.1.2
    ] {
        assert_eq!(payload(&bytes(hex)).expect(hex), ["One([97])", "One([53])", "One([98])"]);
    }
    let redis = "150110000000000000000500000000000000011d1d0000000a0001010001010181660200010201000\
        100018176020401ff010501050100000101016705010101000000000000000500000000000000012302451ca2\
        010000010101632302451ca20100002302451ca20100000100000000000000050000000000000001";
    let third = bytes(&redis.split_whitespace().collect::<String>());
    let sealed_as = |kind: u8, version: u8, rest: &[u8]| {
        let mut value = third.clone();
        value[0] = kind;
        sealed([&value, rest, &[version, 0]].concat())
    };
    let expected = payload(&sealed_as(21, 80, b"")).expect("as Valkey 9 writes it");
    assert_eq!(expected.len(), 6, "{expected:?}"); // entry, head, group, pending, consumer, owned
    assert_eq!(payload(&sealed_as(21, 12, b"")).expect("as Redis 7.2 writes it"), expected);
    // For how long, how many, a producer with one id, two counts.
    let producers = b"\x40\x64\x20\x01\x01p\x01\x02m1\x05\x01\x01\x00";
    let fourth = sealed_as(26, 13, producers);
    let known = [
        "Idmp { duration_s: 100, entries: 32 }",
        "Producer([112])",
        "Sent([109, 49], (5, 1))",
        "IdmpCounts { added: 1, duplicates: 0 }",
    ];
    let expected = [&expected[..], &known.map(str::to_owned)].concat();
    assert_eq!(payload(&fourth).expect("as Redis 8.6 writes it"), expected);
    let fifth = sealed_as(27, 14, &[&b"\x00"[..], producers].concat());
    assert_eq!(payload(&fifth).expect("as Redis 8.8 writes it"), expected);
    let id = [5u64.to_be_bytes(), 1u64.to_be_bytes()].concat();
    let released = sealed_as(27, 14, &[b"\x01", &id[..], producers].concat());
    let found = payload(&released).expect("it is whole");
    assert_eq!(found[6..7], ["Released((5, 1))"]);
    assert_eq!(found[7..], known);
    for cut in 1..=producers.len() {
        let cut = sealed_as(26, 13, &producers[..producers.len() - cut]);
        assert!(payload(&cut).is_err(), "the end is missing");
    }
}

#[test]
fn types_and_opcodes_mean_what_the_magic_says() {
    let redis = |record: &[u8]| scanned(&file(b"REDIS0014", record));
    let valkey = |record: &[u8]| scanned(&file(b"VALKEY080", record));
    // Valkey has no type above 22, and 0xf3 is another thing there.
    for kind in 23..=28u8 {
        let error = valkey(&[kind, 1, b'k', 0]).expect_err("unknown").to_string();
        assert!(error.contains("is no type of value"), "{kind}: {error}");
    }
    let metadata = b"\xf3\x01\x01\x02\x03\x04\x05\x01s\x00\x00\x01k\x01v";
    assert_eq!(redis(metadata).expect("metadata of a module").databases[0].total(), 1);
    let error = valkey(metadata).expect_err("no such thing").to_string();
    assert!(error.contains("the import of a slot of a cluster"), "{error}");
    let slot = b"\xf4\x07\x02\x00\x00\x01k\x01v";
    for scanned in [redis(slot), valkey(slot)] {
        assert_eq!(scanned.expect("a hint").databases[0].total(), 1);
    }
}

/// Values of modules, and metadata: by key when refused, and counted when stepped over.
#[test]
fn what_this_server_does_not_have_is_refused_by_key_or_skipped() {
    let module = b"\x07\x01m\x81\0\0\0\0\0\0\0\x01\x02\x06\x05\x01s\0";
    let metadata = b"\xf3\x01\x01\x02\x03\x04\x05\x01s\x00\x00\x01k\x01v";
    for (record, words) in [
        (&module[..], "key \"m\" of database 0 at byte 9 is a value of module type"),
        (metadata, "key \"k\" of database 0 at byte 9 is a value with metadata of a module"),
    ] {
        let file = file(b"REDIS0014", record);
        let error = elements(Decoder::new(&file[..])).expect_err("refused").to_string();
        assert!(error.contains(words), "{error}");
    }
    let all = [&b"\xf7\x01\x02\x01\x02\x01\0"[..], module, metadata, b"\x02\x01s\x01\x01x"];
    let whole = file(b"REDIS0014", &all.concat());
    let mut decoder = Decoder::new(&whole[..]);
    decoder.skip_modules();
    let found = elements(decoder).expect("all is skipped or read");
    let data = "skipped data of a module None";
    let value = "skipped a value of a module Some(\"m\")";
    assert_eq!(found, [data, value, "One([120])"]);
    let summary = scanned(&whole).expect("it is sound");
    assert_eq!((summary.unsupported, summary.modules, summary.databases[0].total()), (1, 1, 3));
    for cut in 0..whole.len() {
        let mut decoder = Decoder::new(&whole[..cut]);
        decoder.skip_modules();
        assert!(elements(decoder).is_err(), "cut at {cut}");
    }
}

#[test]
fn later_versions_are_refused_by_number_with_advice() {
    for (head, words) in [
        (b"REDIS0016", "RDB version 16 cannot be read: RDB versions 1 to 15 and VALKEY version 80"),
        (b"VALKEY081", "VALKEY version 81 cannot be read"),
        (b"REDIS0080", "RDB version 80 cannot be read"),
    ] {
        let error = scanned(&file(head, b"")).expect_err("refused").to_string();
        assert!(error.contains(words) && error.contains("aof-use-rdb-preamble no"), "{error}");
    }
    for version in [16u8, 79, 81] {
        let payload = sealed(vec![0, 1, b'v', version, 0]);
        let refused = Decoder::of_payload(&payload).expect_err("refused");
        assert!(matches!(refused, PayloadError::Version { found } if found == version.into()));
    }
}

/// Payloads of hashes made by HIMPORT of Redis 8.10.2: the names in a listpack or as strings, the
/// values in a listpack or as strings.
const TEMPLATED: [(&str, [&str; 2]); 4] = [
    (
        "1d000d0d0000000200816102816202ff0d0d0000000300000101010201ff0f00fc70df7e1a29f00e",
        ["a 1", "b 2"],
    ),
    (
        "1f000d0d0000000200816102816202ffc001c3094046017878e039000178780f00f23466b801885986",
        ["a 1", "b x*70"],
    ),
    (
        "1d01020162c30a405002313231e042010131320e0e000000030001010101dfb302ff0f000d6e213725a40453",
        ["b 1", "12*40 -77"],
    ),
    (
        "1f01020162c30a405002313231e04201013132c001c3094046017878e039000178780f00200d7b5ed8d0f7b5",
        ["b 1", "12*40 x*70"],
    ),
];

/// The same hashes in a file of that server, whose templates stand before the keys.
const TEMPLATES: &str = "f201020162c30a405002313231e04201013132f2000201610162fe00fb04001e016d0e0e\
    000000030001010101dfb302ff1e016b0d0d0000000300000101010201ff20016c00c001c3094046017878e03900\
    017878\
    20016e01c001c3094046017878e03900017878ff";

/// `b x*70` as an element.
fn field(words: &str) -> String {
    let bytes = |word: &str| match word.split_once('*') {
        None => word.as_bytes().to_vec(),
        Some((text, times)) => text.repeat(times.parse().expect("a number")).into_bytes(),
    };
    let (name, value) = words.split_once(' ').expect("two words");
    format!("Pair({:?}, {:?})", bytes(name), bytes(value))
}

#[test]
fn hashes_with_templates_are_read_as_any_others() {
    for (hex, fields) in TEMPLATED {
        assert_eq!(payload(&bytes(hex)).expect(hex), fields.map(field), "{hex}");
        let without_checksum = [&bytes(hex)[..hex.len() / 2 - 8], &[0; 8]].concat();
        assert_eq!(payload(&without_checksum).expect(hex), fields.map(field), "{hex}");
    }
    let file = sealed([b"REDIS0015", &bytes(TEMPLATES)[..]].concat());
    let summary = scanned(&file).expect("sound");
    assert_eq!((summary.databases[0].keys[4], summary.unsupported), (4, 0));
    let mut decoder = Decoder::new(&file[..]);
    // In the order of the file: m, k, l, n.
    for number in [2, 0, 1, 3] {
        let mut found = Vec::new();
        loop {
            match decoder.next().expect("sound") {
                Some(Event::Element(element)) => found.push(format!("{element:?}")),
                Some(Event::End) => break,
                _ => {}
            }
        }
        let fields = TEMPLATED[number].1.map(field);
        assert_eq!(found, fields);
        // As a payload, the value names its fields itself.
        let mut made = decoder.payload_head();
        made.extend(&file[decoder.value_place().offset as usize..decoder.offset() as usize]);
        stillframe_rdb::finish_payload(&mut made, decoder.version());
        assert_eq!(payload(&made).expect("whole"), fields);
    }
    for cut in 0..file.len() {
        assert!(scanned(&file[..cut]).is_err(), "cut at {cut}");
        assert!(elements(Decoder::new(&file[..cut])).is_err(), "cut at {cut}");
    }
}

#[test]
fn values_that_do_not_fit_their_template_are_damage() {
    let templates = b"\xf2\x03\x02\x01a\x01b";
    for (record, words) in [
        (&b"\x20\x01k\x04\x01x\x01y"[..], "template 4, which is not there"),
        (b"\x1e\x01k\x0d\x0d\0\0\0\x03\0\x04\x01\x01\x01\x02\x01\xff", "template 4"),
        (b"\x1e\x01k\x0b\x0b\0\0\0\x02\0\x03\x01\x01\x01\xff", "fewer values"),
        (b"\x1e\x01k\x0f\x0f\0\0\0\x04\0\x03\x01\x01\x01\x02\x01\x03\x01\xff", "more values"),
        (b"\x1e\x01k\x07\x07\0\0\0\0\0\xff", "without the number"),
        (b"\x1e\x01k\x0a\x0a\0\0\0\x01\0\x81z\x02\xff", "without the number"),
        (b"\x1f\x01k\x02\x00", "2 is no form of a template"),
        (b"\x1d\x01k\x00\x03abc\x00", "a damaged template"),
    ] {
        let file = file(b"REDIS0015", &[&templates[..], record].concat());
        let error = scanned(&file).expect_err("damaged").to_string();
        assert!(error.contains(words), "{error}");
        assert_eq!(elements(Decoder::new(&file[..])).expect_err("here too").to_string(), error);
    }
    // What Valkey 9 has no such types for.
    let valkey = file(b"VALKEY080", b"\xf2\x00\x01\x01a");
    assert!(elements(Decoder::new(&valkey[..])).is_err() && scanned(&valkey).is_err());
}

/// What a program needs that passes on values as they are.
#[test]
fn a_value_in_a_file_makes_a_payload() {
    for (hex, version, expected) in HASHES {
        let value = bytes(hex);
        let head = if version == 80 { b"VALKEY080" } else { b"REDIS0012" };
        let file = file(head, &record(&value));
        let mut decoder = Decoder::new(&file[..]);
        while decoder.next().expect(hex) != Some(Event::End) {}
        let place = decoder.value_place();
        let range = place.offset as usize..decoder.offset() as usize;
        let mut made = [&decoder.payload_head()[..], &file[range]].concat();
        stillframe_rdb::finish_payload(&mut made, decoder.version());
        assert_eq!(made, sealed([&value, &[version, 0][..]].concat()), "{hex}");
        assert_eq!(payload(&made).expect(hex), expected.map(str::to_owned), "{hex}");
    }
}
