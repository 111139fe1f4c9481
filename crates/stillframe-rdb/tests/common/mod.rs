//! What the tests of this crate share: datasets in memory, written and read.
#![allow(dead_code)] // each test binary uses its part

use proptest::prelude::*;
use stillframe_rdb::{DecodeError, Decoder, Encoder, Event, Origin, Value};

pub(crate) const ORIGIN: Origin =
    Origin { created_s: 1_700_000_000, used_memory_bytes: 1 << 40, aof_base: false };

/// A value that owns its bytes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Owned {
    Int(i64),
    Bytes(Vec<u8>),
}

impl Owned {
    pub(crate) fn value(&self) -> Value<'_> {
        match self {
            Owned::Int(value) => Value::Int(*value),
            Owned::Bytes(bytes) => Value::Bytes(bytes),
        }
    }

    pub(crate) fn text(&self) -> Vec<u8> {
        match self {
            Owned::Int(value) => value.to_string().into_bytes(),
            Owned::Bytes(bytes) => bytes.clone(),
        }
    }
}

impl From<Value<'_>> for Owned {
    fn from(value: Value<'_>) -> Self {
        match value {
            Value::Int(value) => Owned::Int(value),
            Value::Bytes(bytes) => Owned::Bytes(bytes.to_vec()),
        }
    }
}

/// One key: database, name, value, expiry.
pub(crate) type Entry = (u64, Vec<u8>, Owned, Option<i64>);

pub(crate) fn write(entries: &[Entry]) -> Vec<u8> {
    let mut file = Vec::new();
    let mut encoder = Encoder::new(&mut file);
    encoder.begin(&ORIGIN).expect("a Vec takes everything");
    for (db, key, value, expire_at_ms) in entries {
        encoder.entry(*db, key, value.value(), *expire_at_ms).expect("a Vec takes everything");
    }
    let length = encoder.finish().expect("a Vec takes everything");
    assert_eq!(length, file.len() as u64);
    file
}

/// The entries of a file read to its end, with values as text, and whether a checksum was verified.
pub(crate) fn read(file: impl std::io::Read) -> Result<(Vec<Entry>, bool), DecodeError> {
    let mut decoder = Decoder::new(file);
    let (mut entries, mut whole) = (Vec::new(), None);
    while let Some(event) = decoder.next()? {
        match event {
            Event::Entry { db, key, value, expire_at_ms } => {
                let text = Owned::Bytes(Owned::from(value).text());
                entries.push((db, key.to_vec(), text, expire_at_ms));
            }
            Event::Eof { verified } => whole = Some(verified),
            _ => {}
        }
    }
    Ok((entries, whole.expect("a file without error has an end")))
}

/// The entries as [`read`] gives them.
pub(crate) fn as_text(entries: &[Entry]) -> Vec<Entry> {
    let text = |value: &Owned| Owned::Bytes(value.text());
    entries.iter().map(|(db, key, value, at)| (*db, key.clone(), text(value), *at)).collect()
}

/// Strings of every encoding: integers, near-integers, short, repetitive, random.
pub(crate) fn string() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        any::<i64>()
            .prop_flat_map(|n| (Just(n), 0u32..64))
            .prop_map(|(n, s)| (n >> s).to_string().into_bytes()),
        "[-+ ]?0?[0-9]{0,12}".prop_map(String::into_bytes),
        prop::collection::vec(any::<u8>(), 0..100),
        (prop::collection::vec(any::<u8>(), 0..40), 1usize..2000).prop_map(|(s, n)| s.repeat(n)),
        (any::<u64>(), 0usize..40_000).prop_map(|(seed, length)| noise(seed, length)),
    ]
}

pub(crate) fn entry() -> impl Strategy<Value = Entry> {
    let value = prop_oneof![any::<i64>().prop_map(Owned::Int), string().prop_map(Owned::Bytes)];
    let db = prop_oneof![Just(0), 0u64..16, any::<u64>()];
    (db, string(), value, prop::option::of(any::<i64>()))
}

/// Bytes that do not compress.
pub(crate) fn noise(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed;
    std::iter::repeat_with(|| {
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        (state >> 56) as u8
    })
    .take(length)
    .collect()
}
