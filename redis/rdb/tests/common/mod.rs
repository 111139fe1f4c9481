//! What the tests of this crate share: datasets in memory, written and read.
#![allow(dead_code)] // each test binary uses its part

pub(crate) mod old;
pub(crate) mod server;

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use proptest::prelude::*;
use stillframe_rdb::{
    Collection, DecodeError, Decoder, Element, Encoder, Event, Head, Origin, Value,
};

pub(crate) const ORIGIN: Origin =
    Origin { created_s: 1_700_000_000, used_memory_bytes: 1 << 40, aof_base: false };

/// A value that owns its bytes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Owned {
    Int(i64),
    Bytes(Vec<u8>),
    List(Vec<Vec<u8>>),
    Set(BTreeSet<Vec<u8>>),
    Hash(BTreeMap<Vec<u8>, Vec<u8>>),
    Sorted(BTreeMap<Vec<u8>, Score>),
    /// Elements as text.
    Stream(Vec<String>),
}

/// A score, compared by its bits.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Score(pub(crate) f64);

impl PartialEq for Score {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Score {}

impl PartialOrd for Score {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Score {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0)
    }
}

impl Owned {
    pub(crate) fn empty(kind: Collection) -> Self {
        match kind {
            Collection::List => Owned::List(Vec::new()),
            Collection::Set => Owned::Set(BTreeSet::new()),
            Collection::Sorted => Owned::Sorted(BTreeMap::new()),
            Collection::Hash => Owned::Hash(BTreeMap::new()),
            Collection::Stream | Collection::Array => Owned::Stream(Vec::new()),
        }
    }

    pub(crate) fn add(&mut self, element: Element<'_>) {
        match (self, element) {
            (Owned::List(list), Element::One(bytes)) => list.push(bytes.to_vec()),
            (Owned::Set(set), Element::One(bytes)) => drop(set.insert(bytes.to_vec())),
            (Owned::Hash(hash), Element::Pair(field, value)) => {
                hash.insert(field.to_vec(), value.to_vec());
            }
            (Owned::Hash(hash), Element::Expiring(field, value, _)) => {
                hash.insert(field.to_vec(), value.to_vec());
            }
            (Owned::Sorted(sorted), Element::Scored(member, score)) => {
                sorted.insert(member.to_vec(), Score(score));
            }
            (Owned::Stream(elements), element) => elements.push(format!("{element:?}")),
            (this, element) => panic!("{element:?} in {this:?}"),
        }
    }

    /// As [`read`] gives it.
    pub(crate) fn text(&self) -> Owned {
        match self {
            Owned::Int(value) => Owned::Bytes(value.to_string().into_bytes()),
            other => other.clone(),
        }
    }

    pub(crate) fn put(&self, encoder: &mut Encoder<impl io::Write>, head: Head<'_>) {
        let result = match self {
            Owned::Int(value) => encoder.string(head, Value::Int(*value)),
            Owned::Bytes(bytes) => encoder.string(head, Value::Bytes(bytes)),
            Owned::List(list) => encoder.list(head, || list.iter().map(Vec::as_slice)),
            Owned::Set(set) => encoder.set(head, set.len(), || set.iter().map(Vec::as_slice)),
            Owned::Hash(hash) => {
                encoder.hash(head, hash.len(), || hash.iter().map(|(f, v)| (&f[..], &v[..])))
            }
            Owned::Sorted(sorted) => {
                let ranked = ranked(sorted);
                encoder.sorted(
                    head,
                    ranked.len(),
                    || ranked.iter().copied(),
                    || ranked.iter().rev().copied(),
                )
            }
            Owned::Stream(_) => unreachable!("`streams` writes streams"),
        };
        result.expect("a Vec takes everything");
    }
}

/// Members in the order of their scores.
pub(crate) fn ranked(sorted: &BTreeMap<Vec<u8>, Score>) -> Vec<(&[u8], f64)> {
    let mut ranked: Vec<_> = sorted.iter().map(|(m, score)| (&m[..], score.0)).collect();
    ranked.sort_by(|a, b| a.1.partial_cmp(&b.1).expect("numbers").then(a.0.cmp(b.0)));
    ranked
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
        value.put(&mut encoder, Head::Key { db: *db, key, expire_at_ms: *expire_at_ms });
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
            Event::Entry { db, key, value, expire_at_ms, .. } => {
                entries.push((db, key.to_vec(), Owned::from(value).text(), expire_at_ms));
            }
            Event::Begin { db, key, kind, expire_at_ms, .. } => {
                entries.push((db, key.to_vec(), Owned::empty(kind), expire_at_ms));
            }
            Event::Element(element) => {
                entries.last_mut().expect("a collection was begun").2.add(element);
            }
            Event::Eof { verified } => whole = Some(verified),
            _ => {}
        }
    }
    Ok((entries, whole.expect("a file without error has an end")))
}

/// The entries as [`read`] gives them.
pub(crate) fn as_text(entries: &[Entry]) -> Vec<Entry> {
    entries.iter().map(|(db, key, value, at)| (*db, key.clone(), value.text(), *at)).collect()
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
    let value = prop_oneof![
        any::<i64>().prop_map(Owned::Int),
        string().prop_map(Owned::Bytes),
        collection()
    ];
    let db = prop_oneof![Just(0), 0u64..16, any::<u64>()];
    (db, string(), value, prop::option::of(any::<i64>()))
}

/// Collections around the sizes at which their form changes.
pub(crate) fn collection() -> impl Strategy<Value = Owned> {
    let size = prop_oneof![8 => 0usize..12, 1 => 120usize..140, 1 => 500usize..530];
    let kind = prop::sample::select(vec![
        Collection::List,
        Collection::Set,
        Collection::Sorted,
        Collection::Hash,
    ]);
    (kind, size, any::<bool>(), any::<u64>()).prop_map(|(kind, size, numbers, seed)| {
        let mut random = Random(seed);
        let mut value = Owned::empty(kind);
        for _ in 0..size {
            let (one, two) = (random.element(numbers), random.element(numbers));
            value.add(match kind {
                Collection::List | Collection::Set => Element::One(&one),
                Collection::Hash => Element::Pair(&one, &two),
                Collection::Sorted => Element::Scored(&one, random.score()),
                Collection::Stream | Collection::Array => unreachable!("not among the kinds"),
            });
        }
        value
    })
}

/// A plain generator: the same seed, the same numbers.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        (self.0 >> 32) % bound
    }

    fn element(&mut self, number: bool) -> Vec<u8> {
        let (seed, shift) = (self.0 as i64, self.below(64));
        match self.below(60) {
            _ if number => (seed >> shift).to_string().into_bytes(),
            0 => noise(self.0, self.below(20_000) as usize),
            1..10 => noise(self.0, self.below(80) as usize),
            _ => format!("text {:x}", seed >> shift).into_bytes(),
        }
    }

    fn score(&mut self) -> f64 {
        match self.below(5) {
            0 => Some(f64::from_bits(self.0 ^ self.below(1 << 20)))
                .filter(|x| !x.is_nan())
                .unwrap_or(0.5),
            1 => [f64::INFINITY, f64::NEG_INFINITY, -0.0, 1e15, 1e17, f64::MIN_POSITIVE]
                [self.below(6) as usize],
            2 => self.below(1000) as f64 / 3.0,
            _ => self.below(1 << 31) as f64 - 1e9,
        }
    }
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
