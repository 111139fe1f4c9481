//! The decoder and the scanner of RDB files, and the decoder of payloads.

use std::cell::RefCell;

use stillframe_rdb::{
    Collection, Crc64, DecodeError, Decoder, Element, Encoder, Event, HashField, Head, Origin,
    Value, Version, Workspace, scan,
};

/// Reads `data` as an RDB file, as it is and as the body of files with a right checksum: to Redis
/// and to Valkey some bytes mean different things.
pub fn rdb(data: &[u8]) {
    read(data);
    for head in [b"REDIS0010", b"REDIS0015", b"VALKEY080"] {
        let mut file = [head, data, b"\xff"].concat();
        seal(&mut file);
        read(&file);
    }
}

/// Reads `data` as RESTORE's payload, as it is and with version and checksum made right.
pub fn payload(data: &[u8]) {
    if let Ok(decoder) = Decoder::of_payload(data) {
        let _ = entries(decoder);
    }
    for version in [10, 15, 80] {
        sealed_payload(&[data, &[version, 0]].concat());
    }
}

/// Reads a payload without its checksum.
fn sealed_payload(payload: &[u8]) {
    let mut payload = payload.to_vec();
    seal(&mut payload);
    let decoder = Decoder::of_payload(&payload).expect("it was sealed just now");
    let Ok(found) = entries(decoder) else { return };
    assert_eq!(found.len(), 1, "one value");
    let found = writable(found);
    if found.is_empty() {
        return;
    }
    // Other bytes may hold the same value, and ours are one form.
    for version in [Version::Redis12, Version::Valkey80] {
        let written = encoded(version, |encoder| {
            found[0].put(encoder, Head::Payload);
            encoder.finish_payload().expect("a Vec takes all");
        });
        let again = entries(Decoder::of_payload(&written).expect("it was written just now"));
        assert_eq!(again.expect("it was written just now"), found);
    }
}

thread_local! {
    /// The memory of an encoder, which takes longer to make than to use.
    static WORKSPACE: RefCell<Option<Workspace>> = const { RefCell::new(None) };
}

/// The bytes that `write` writes.
fn encoded(version: Version, write: impl FnOnce(&mut Encoder<&mut Vec<u8>>)) -> Vec<u8> {
    let mut written = Vec::new();
    let workspace = WORKSPACE.take().unwrap_or_default();
    let mut encoder = Encoder::within(workspace, &mut written).version(version);
    write(&mut encoder);
    WORKSPACE.set(Some(encoder.take_workspace()));
    written
}

fn seal(bytes: &mut Vec<u8>) {
    let mut crc = Crc64::new();
    crc.update(bytes);
    bytes.extend_from_slice(&crc.value().to_le_bytes());
}

/// One key: scores are kept by their bits.
#[derive(Debug, PartialEq)]
struct Entry {
    db: u64,
    key: Vec<u8>,
    expire_at_ms: Option<i64>,
    kind: Option<Collection>,
    /// The value as text, elements one after the other, fields before values.
    texts: Vec<Vec<u8>>,
    scores: Vec<u64>,
    /// When the fields of a hash expire.
    times: Vec<Option<i64>>,
}

impl Entry {
    fn new(db: u64, key: &[u8], expire_at_ms: Option<i64>, kind: Option<Collection>) -> Self {
        let (texts, scores, times) = (Vec::new(), Vec::new(), Vec::new());
        let key = key.to_vec();
        Entry { db, key, expire_at_ms, kind, texts, scores, times }
    }

    fn head(&self) -> Head<'_> {
        Head::Key { db: self.db, key: &self.key, expire_at_ms: self.expire_at_ms }
    }

    fn put(&self, encoder: &mut Encoder<&mut Vec<u8>>, head: Head<'_>) {
        let texts = || self.texts.iter().map(Vec::as_slice);
        let pairs = || self.texts.chunks_exact(2).map(|pair| (&pair[0][..], &pair[1][..]));
        let scored = || texts().zip(self.scores.iter().map(|bits| f64::from_bits(*bits)));
        let len = self.texts.len();
        match self.kind {
            None => encoder.string(head, Value::Bytes(&self.texts[0])),
            Some(Collection::List) => encoder.list(head, texts),
            Some(Collection::Set) => encoder.set(head, len, texts),
            Some(Collection::Hash) if self.times.iter().any(Option::is_some) => {
                let field = |((name, value), time): ((_, _), &Option<i64>)| HashField {
                    name,
                    value,
                    expire_at_ms: *time,
                };
                let fields = || pairs().zip(&self.times).map(field);
                encoder.expiring_hash(head, len / 2, fields).map(|written| assert!(written))
            }
            Some(Collection::Hash) => encoder.hash(head, len / 2, pairs),
            Some(Collection::Sorted) => encoder.sorted(head, len, scored, scored),
            Some(Collection::Stream | Collection::Array) => unreachable!("these are read alone"),
        }
        .expect("a Vec takes all");
    }

    /// In rising order, where the order is free.
    fn ordered(mut self) -> Self {
        if self.kind == Some(Collection::Set) {
            self.texts.sort_unstable();
            self.texts.dedup(); // a file may hold a member twice; a set does not
        }
        if self.times.iter().any(Option::is_some) {
            let mut fields: Vec<_> = self.texts.chunks_exact(2).zip(&self.times).collect();
            fields.sort_unstable();
            let times = fields.iter().map(|(_, time)| **time).collect();
            self.texts = fields.iter().flat_map(|(pair, _)| pair.iter().cloned()).collect();
            self.times = times;
        }
        self
    }

    /// Whether it can be written as it is: Valkey's files may hold times that Redis has not.
    fn is_writable(&self) -> bool {
        let is_known = |time: &i64| (1..1 << 48).contains(time);
        let is_read_alone = matches!(self.kind, Some(Collection::Stream | Collection::Array));
        !is_read_alone && self.times.iter().flatten().all(is_known)
    }
}

/// All but streams and arrays, which only a keyspace can give to be written (tests there do), and
/// hashes with fields that expire at times of Valkey's alone.
fn writable(mut entries: Vec<Entry>) -> Vec<Entry> {
    entries.retain(Entry::is_writable);
    entries
}

/// The entries of a file or payload.
fn entries(mut decoder: Decoder<&[u8]>) -> Result<Vec<Entry>, DecodeError> {
    let mut entries: Vec<Entry> = Vec::new();
    while let Some(event) = decoder.next()? {
        match event {
            Event::Entry { db, key, value, expire_at_ms, .. } => {
                let mut entry = Entry::new(db, key, expire_at_ms, None);
                entry.texts.push(text(value));
                entries.push(entry);
            }
            Event::Begin { db, key, kind, expire_at_ms, .. } => {
                entries.push(Entry::new(db, key, expire_at_ms, Some(kind)));
            }
            Event::Element(element) => {
                let entry = entries.last_mut().expect("a collection was begun");
                match element {
                    Element::One(bytes) => entry.texts.push(bytes.to_vec()),
                    Element::Pair(field, value) => {
                        entry.texts.extend([field.to_vec(), value.to_vec()]);
                        entry.times.push(None);
                    }
                    Element::Expiring(field, value, at) => {
                        entry.texts.extend([field.to_vec(), value.to_vec()]);
                        entry.times.push(Some(at));
                    }
                    Element::Scored(member, score) => {
                        assert!(!score.is_nan(), "a score is a number");
                        entry.texts.push(member.to_vec());
                        entry.scores.push(score.to_bits());
                    }
                    _ => {
                        let kinds = [Collection::Stream, Collection::Array].map(Some);
                        assert!(kinds.contains(&entry.kind));
                    }
                }
            }
            _ => {}
        }
    }
    Ok(entries.into_iter().map(Entry::ordered).collect())
}

fn decode(file: &[u8]) -> Result<Vec<Entry>, DecodeError> {
    entries(Decoder::new(file).with_file_bytes(file.len() as u64))
}

fn text(value: Value<'_>) -> Vec<u8> {
    match value {
        Value::Int(value) => value.to_string().into_bytes(),
        Value::Bytes(bytes) => bytes.to_vec(),
    }
}

fn read(file: &[u8]) {
    let (summary, error) = scan(file, file.len() as u64);
    let entries = match (decode(file), error) {
        (Ok(entries), None) => entries,
        (Err(_), Some(_)) => return,
        // A value that this server does not support may still be sound.
        (
            Err(
                DecodeError::UnsupportedType { .. }
                | DecodeError::UnsupportedSection { .. }
                // The name of a module or library, which the scanner steps over, may be any string.
                | DecodeError::Damaged { .. },
            ),
            None,
        ) => return,
        (decoded, error) => panic!("{decoded:?}, {error:?}"),
    };
    let listed: u64 = summary.databases.iter().map(|database| database.total()).sum();
    assert_eq!(listed + summary.keys_elsewhere, entries.len() as u64);
    let entries = writable(entries);
    // A value that was read can be written and read again.
    for version in [Version::Redis12, Version::Valkey80] {
        let written = encoded(version, |encoder| {
            let origin = Origin { created_s: 0, used_memory_bytes: 0, aof_base: false };
            encoder.begin(&origin).expect("a Vec takes all");
            entries.iter().for_each(|entry| entry.put(encoder, entry.head()));
            encoder.finish().expect("a Vec takes all");
        });
        assert_eq!(decode(&written).expect("it was written just now"), entries);
    }
}
