//! What is written is read again, and takes the form on disk that Redis would give it.

mod common;

use common::*;
use proptest::prelude::*;
use stillframe_rdb::{Decoder, Encoder, Event, Value};

/// The bytes of a value's encoding, cut out of a file with one key `k`.
fn encoded(value: Owned, compress: bool) -> Vec<u8> {
    let mut file = Vec::new();
    let mut encoder = Encoder::new(&mut file).compress(compress);
    encoder.begin(&ORIGIN).expect("a Vec takes everything");
    let start = encoder.written_bytes() as usize;
    encoder.entry(0, b"k", value.value(), None).expect("a Vec takes everything");
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
    let entry =
        Event::Entry { db: 3, key: b"12", value: Value::Bytes(b"x"), expire_at_ms: Some(-5) };
    assert_eq!(decoder.next().expect("a whole file"), Some(entry));
    assert_eq!(decoder.next().expect("a whole file"), Some(Event::Eof { verified: true }));
    assert_eq!(decoder.offset(), file.len() as u64);
    assert_eq!(decoder.next().expect("a whole file"), None);
    assert_eq!(decoder.next().expect("a whole file"), None);
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
