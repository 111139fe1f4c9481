//! What is written is read again, and takes the form on disk that Redis would give it.

use crate::common::*;
use proptest::prelude::*;
use stillframe_rdb::{
    Collection, Decoder, Element, Encoder, Event, Head, PayloadError, Uses, Value,
};

/// The bytes of a value's encoding, cut out of a file with one key `k`.
fn encoded(value: Owned, compress: bool) -> Vec<u8> {
    let mut file = Vec::new();
    let mut encoder = Encoder::new(&mut file).compress(compress);
    encoder.begin(&ORIGIN).expect("a Vec takes everything");
    let start = encoder.written_bytes() as usize;
    value.put(&mut encoder, Head::Key { db: 0, key: b"k", expire_at_ms: None });
    encoder.finish().expect("a Vec takes everything");
    let record = &file[start..file.len() - 9];
    record.strip_prefix(b"\xfe\x00\x00\x01k").expect("database, type and key").to_vec()
}

#[test]
fn integers_take_the_shortest_form() {
    let cases: &[(i64, &[u8])] = &[
        (0, b"\xc0\x00"),
        (-128, b"\xc0\x80"),
        (127, b"\xc0\x7f"),
        (128, b"\xc1\x80\x00"),
        (-32768, b"\xc1\x00\x80"),
        (32768, b"\xc2\x00\x80\x00\x00"),
        (i32::MIN as i64, b"\xc2\x00\x00\x00\x80"),
        (i32::MAX as i64, b"\xc2\xff\xff\xff\x7f"),
        (i32::MAX as i64 + 1, b"\x0a2147483648"),
        (i64::MIN, b"\x14-9223372036854775808"),
    ];
    for (value, bytes) in cases {
        assert_eq!(encoded(Owned::Int(*value), true), *bytes, "{value}");
        assert_eq!(encoded(Owned::Bytes(value.to_string().into_bytes()), true), *bytes, "{value}");
    }
    for text in ["", "-", "-0", "00", "01", "+1", " 1", "1 ", "-01", "1e3", "9999999999"] {
        let plain = [&[text.len() as u8], text.as_bytes()].concat();
        assert_eq!(encoded(Owned::Bytes(text.into()), true), plain, "{text:?}");
    }
}

#[test]
fn lengths_take_the_shortest_form() {
    for (length, header) in [
        (63, &b"\x3f"[..]),
        (64, b"\x40\x40"),
        (16383, b"\x7f\xff"),
        (16384, b"\x80\x00\x00\x40\x00"),
        (300_000, b"\x80\x00\x04\x93\xe0"),
    ] {
        let bytes = encoded(Owned::Bytes(noise(1, length)), true);
        assert_eq!(&bytes[..bytes.len() - length], header, "{length}");
    }
}

#[test]
fn strings_are_compressed_where_redis_would() {
    assert_eq!(encoded(Owned::Bytes(vec![b'a'; 20]), true)[0], 20);
    assert_eq!(encoded(Owned::Bytes(vec![b'a'; 21]), true), b"\xc3\x05\x15\x00a\xe0\x0b\x00");
    assert_eq!(encoded(Owned::Bytes(vec![b'a'; 21]), false)[0], 21);
    assert_eq!(encoded(Owned::Bytes(vec![b'a'; 1 << 20]), true)[0], 0xc3);
    assert_eq!(encoded(Owned::Bytes(vec![b'a'; (1 << 20) + 1]), true)[0], 0x80);
}

#[test]
fn a_file_without_keys_is_whole() {
    let file = write(&[]);
    let (aux, used) =
        (b"\xfa\x08used-mem\x0d1099511627776", b"REDIS0010\xfa\x09redis-ver\x067.0.15");
    assert!(file.starts_with(used));
    assert!(file.windows(aux.len()).any(|window| window == aux));
    assert_eq!(read(&file[..]).expect("a whole file"), (vec![], true));
}

#[test]
fn events_come_in_order_with_their_offsets() {
    let mut file = Vec::new();
    let mut encoder = Encoder::new(&mut file);
    encoder.begin(&ORIGIN).expect("a Vec takes everything");
    encoder.resize_db(3, 20_000, 70_000).expect("a Vec takes everything");
    let entry_offset = encoder.written_bytes();
    encoder.entry(3, b"12", Value::Bytes(b"x"), Some(-5)).expect("a Vec takes everything");
    encoder.finish().expect("a Vec takes everything");

    let mut decoder = Decoder::new(&file[..]);
    let mut names = Vec::new();
    loop {
        match decoder.next().expect("a whole file").expect("keys come before the end") {
            Event::Aux { name, .. } => names.push(String::from_utf8_lossy(name).into_owned()),
            event => break assert_eq!(event, Event::SelectDb { db: 3 }),
        }
    }
    assert_eq!(names, ["redis-ver", "redis-bits", "ctime", "used-mem", "aof-base"]);
    let resize = Event::ResizeDb { keys: 20_000, expires: 70_000 };
    assert_eq!(decoder.next().expect("a whole file"), Some(resize));
    assert_eq!(decoder.offset(), entry_offset);
    let entry = Event::Entry {
        db: 3,
        key: b"12",
        value: Value::Bytes(b"x"),
        expire_at_ms: Some(-5),
        uses: Uses::Unknown,
    };
    assert_eq!(decoder.next().expect("a whole file"), Some(entry));
    assert_eq!(decoder.next().expect("a whole file"), Some(Event::Eof { verified: true }));
    assert_eq!(decoder.offset(), file.len() as u64);
    assert_eq!(decoder.next().expect("a whole file"), None);
    assert_eq!(decoder.next().expect("a whole file"), None);
}

#[test]
fn uses_of_keys_are_reported() {
    let mut file = Vec::new();
    let mut encoder = Encoder::new(&mut file);
    encoder.begin(&ORIGIN).expect("a Vec takes everything");
    let given = [Uses::IdleSeconds(70_000), Uses::Frequency(200), Uses::Unknown];
    for (uses, expire_at_ms) in given.into_iter().zip([None, Some(7), None]) {
        encoder.set_uses(uses);
        encoder.entry(0, b"k", Value::Int(1), expire_at_ms).expect("a Vec takes everything");
    }
    encoder.finish().expect("a Vec takes everything");
    let mut decoder = Decoder::new(&file[..]);
    let mut found = Vec::new();
    while let Some(event) = decoder.next().expect("a whole file") {
        if let Event::Entry { uses, .. } = event {
            found.push(uses);
        }
    }
    assert_eq!(found, given);
}

/// Hands out bytes a few at a time, with interruptions.
struct Slow<'a>(&'a [u8], usize);

impl std::io::Read for Slow<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        self.1 += 1;
        if self.1.is_multiple_of(3) {
            return Err(std::io::ErrorKind::Interrupted.into());
        }
        let step = (self.1 % 7).min(buffer.len());
        std::io::Read::read(&mut self.0, &mut buffer[..step.max(1)])
    }
}

/// Cases of the random test; many more on demand.
fn cases() -> u32 {
    if std::env::var_os("STILLFRAME_LONG").is_some() { 5000 } else { 100 }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases()))]

    #[test]
    fn what_is_written_is_read(entries in prop::collection::vec(entry(), 0..20)) {
        let file = write(&entries);
        let expected = (as_text(&entries), true);
        prop_assert_eq!(&read(&file[..]).expect("a whole file"), &expected);
        prop_assert_eq!(&read(Slow(&file, 0)).expect("a whole file"), &expected);
    }
}

/// The type byte and the value's bytes of a collection, not compressed.
fn laid_out(value: Owned) -> (u8, Vec<u8>) {
    let mut payload = Vec::new();
    let mut encoder = Encoder::new(&mut payload).compress(false);
    value.put(&mut encoder, Head::Payload);
    encoder.finish_payload().expect("a Vec takes everything");
    let value = payload[..payload.len() - 10].split_first().expect("a type");
    (*value.0, value.1.to_vec())
}

fn texts<'a, T: FromIterator<Vec<u8>>>(texts: impl IntoIterator<Item = &'a str>) -> T {
    texts.into_iter().map(|text| text.as_bytes().to_vec()).collect()
}

#[test]
fn small_collections_are_packed_as_redis_packs_them() {
    let list = Owned::List(texts(["ab", "", "5", "-1", "5000"]));
    let packed = b"\x16\0\0\0\x05\0\x82ab\x03\x80\x01\x05\x01\xdf\xff\x02\xf1\x88\x13\x03\xff";
    assert_eq!(laid_out(list), (18, [&b"\x01\x02\x16"[..], packed].concat()));
    let set = Owned::Set(texts(["3", "-1", "300"]));
    assert_eq!(laid_out(set), (11, b"\x0e\x02\0\0\0\x03\0\0\0\xff\xff\x03\0\x2c\x01".to_vec()));
    let hash = Owned::Hash([(b"f".to_vec(), b"v".to_vec())].into());
    assert_eq!(laid_out(hash), (16, b"\x0d\x0d\0\0\0\x02\0\x81f\x02\x81v\x02\xff".to_vec()));
    let sorted = [("b", 1.0), ("a", 1.5)].map(|(m, score)| (m.as_bytes().to_vec(), Score(score)));
    let packed = b"\x14\x14\0\0\0\x04\0\x81b\x02\x01\x01\x81a\x02\x831.5\x04\xff";
    assert_eq!(laid_out(Owned::Sorted(sorted.into())), (17, packed.to_vec()));
}

#[test]
fn larger_ones_are_written_element_by_element() {
    let many = |n: usize| (0..n).map(|n| format!("m{n:05}").into_bytes());
    let kind = |value: Owned| laid_out(value).0;
    let long = vec![b'x'; 65];
    assert_eq!(kind(Owned::Set(many(2).collect())), 2);
    assert_eq!(kind(Owned::Set((0..512).map(|n| n.to_string().into_bytes()).collect())), 11);
    assert_eq!(kind(Owned::Set((0..513).map(|n| n.to_string().into_bytes()).collect())), 2);
    let hash = |n| Owned::Hash(many(n).map(|field| (field, b"1".to_vec())).collect());
    assert_eq!((kind(hash(512)), kind(hash(513))), (16, 4));
    assert_eq!(kind(Owned::Hash([(b"f".to_vec(), long.clone())].into())), 4);
    let sorted = |n| Owned::Sorted(many(n).map(|member| (member, Score(1.0))).collect());
    assert_eq!((kind(sorted(128)), kind(sorted(129))), (17, 5));
    assert_eq!(kind(Owned::Sorted([(long, Score(0.0))].into())), 5);
    // The largest first: Redis then inserts each at the front.
    let (_, bytes) = laid_out(sorted(129));
    assert!(bytes.starts_with(b"\x40\x81\x06m00128"), "{}", bytes.escape_ascii());
}

#[test]
fn lists_are_cut_into_nodes_of_at_most_8_kib() {
    let nodes = |list: Vec<Vec<u8>>| laid_out(Owned::List(list)).1[0];
    assert_eq!(nodes(vec![vec![b'x'; 4085]; 2]), 1);
    assert_eq!(nodes(vec![vec![b'x'; 4089]; 2]), 2);
    assert_eq!(nodes(vec![vec![b'x'; 100]; 1000]), 13);
    let huge = vec![vec![b'x'; 10_000], b"small".to_vec(), vec![b'x'; 10_000]];
    let (_, bytes) = laid_out(Owned::List(huge));
    assert!(bytes.starts_with(b"\x03\x01\x67\x10xxx"), "{}", bytes[..8].escape_ascii());
}

#[test]
fn a_collection_comes_as_its_elements() {
    let hash = Owned::Hash([(b"f".to_vec(), b"7".to_vec())].into());
    let file = write(&[(4, b"h".to_vec(), hash, Some(9))]);
    let mut decoder = Decoder::new(&file[..]);
    let mut next = || loop {
        match decoder.next().expect("a whole file").expect("it goes on") {
            Event::Aux { .. } | Event::SelectDb { .. } => {}
            Event::Begin { db, key, kind, len_hint, expire_at_ms, .. } => {
                break format!("{db} {} {kind:?} {len_hint} {expire_at_ms:?}", key.escape_ascii());
            }
            Event::Element(Element::Pair(field, value)) => {
                break format!("{} {}", field.escape_ascii(), value.escape_ascii());
            }
            other => break format!("{other:?}"),
        }
    };
    assert_eq!([next(), next()], ["4 h Hash 1 Some(9)", "f 7"]);
    assert_eq!([next(), next()], ["End", "Eof { verified: true }"]);
}

#[test]
fn a_payload_is_one_value_and_its_checksum() {
    let mut payload = Vec::new();
    let mut encoder = Encoder::new(&mut payload);
    encoder.list(Head::Payload, || [&b"a"[..]].into_iter()).expect("a Vec takes everything");
    let length = encoder.finish_payload().expect("a Vec takes everything");
    assert_eq!(length, payload.len() as u64);
    let mut decoder = Decoder::of_payload(&payload).expect("sound");
    let kind = Collection::List;
    let begin = Event::Begin {
        db: 0,
        key: b"",
        kind,
        len_hint: 1,
        expire_at_ms: None,
        uses: Uses::Unknown,
    };
    assert_eq!(decoder.next().expect("sound"), Some(begin));
    assert_eq!(decoder.next().expect("sound"), Some(Event::Element(Element::One(b"a"))));
    assert_eq!(decoder.next().expect("sound"), Some(Event::End));
    assert_eq!(decoder.next().expect("sound"), None);

    let error = |payload: &[u8]| Decoder::of_payload(payload).expect_err("not sound");
    assert_eq!(error(b"123456789"), PayloadError::Short { bytes: 9 });
    for bit in 0..payload.len() * 8 {
        payload[bit / 8] ^= 1 << (bit % 8);
        error(&payload);
        payload[bit / 8] ^= 1 << (bit % 8);
    }
    let at = payload.len() - 10;
    payload[at] = 16;
    assert_eq!(error(&payload), PayloadError::Version { found: 16 });
}

/// In Redis that number stands for "none": it keeps such a key.
#[test]
fn an_expiry_of_minus_one_is_none() {
    let key = |at: i64| [&b"\xfc"[..], &at.to_le_bytes(), b"\x00\x01k\x01v"].concat();
    for (at, read) in [(-1, None), (-2, Some(-2)), (0, Some(0)), (i64::MAX, Some(i64::MAX))] {
        let file = [b"REDIS0010", &key(at)[..], b"\xff", &[0; 8]].concat();
        let mut decoder = Decoder::new(&file[..]);
        let entry = decoder.next().expect("it is sound").expect("there is a key");
        let Event::Entry { expire_at_ms, .. } = entry else { panic!("{entry:?}") };
        assert_eq!(expire_at_ms, read);
    }
    // A key whose time came at that instant stays expired.
    let written = write(&[(0, b"k".to_vec(), Owned::Int(1), Some(-1))]);
    let (entries, _) = read(&written[..]).expect("it is sound");
    assert_eq!(entries[0].3, Some(-2));
}

/// A file of Valkey 9.1, of strings, a list, sets, a hash, a sorted set and a stream with a group.
#[test]
fn a_file_of_valkey_is_read() {
    let hex = include_str!("valkey_9.hex");
    let digits: Vec<u32> = hex.chars().filter_map(|digit| digit.to_digit(16)).collect();
    let file: Vec<u8> = digits.chunks_exact(2).map(|it| (it[0] * 16 + it[1]) as u8).collect();
    let (entries, verified) = read(&file[..]).expect("it is sound");
    assert!(verified);
    let (summary, error) = stillframe_rdb::scan(&file[..], file.len() as u64);
    assert!(error.is_none() && summary.verified && summary.version == 80, "{error:?}");
    let value = |key: &str| {
        let found = entries.iter().find(|entry| entry.1 == key.as_bytes());
        found.unwrap_or_else(|| panic!("no {key}")).2.clone()
    };
    let texts = |words: &str| words.split(' ').map(|it| it.as_bytes().to_vec()).collect::<Vec<_>>();
    assert_eq!(entries.len(), 11);
    assert_eq!(value("a"), Owned::Bytes(b"b".to_vec()));
    assert_eq!(value("l"), Owned::List(texts("a b 3")));
    assert_eq!(value("s"), Owned::Set(texts("x y z").into_iter().collect()));
    assert_eq!(value("i"), Owned::Set(texts("1 2 3").into_iter().collect()));
    let hash =
        [("f", "v"), ("g", "w")].map(|(f, v)| (f.as_bytes().to_vec(), v.as_bytes().to_vec()));
    assert_eq!(value("hx"), Owned::Hash(hash.into()));
}
