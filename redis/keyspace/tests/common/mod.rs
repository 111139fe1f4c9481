//! What the tests share: seeds, sizes, and a sink that brings an image back from any algorithm.
#![allow(dead_code, clippy::unwrap_used, reason = "tests, each of which uses its part")]

mod random;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use stillframe::{Algorithm, CaptureError, Point, SinkError};
use stillframe_keyspace::{Entry, EntrySink, IntText, Keyspace, KeyspaceOptions, Type, Value};

pub(crate) use random::{Random, sized};

/// Database and key; value and deadline.
pub(crate) type Contents = BTreeMap<(usize, Vec<u8>), (Content, Option<i64>)>;

/// Fields of a hash with their values and deadlines.
pub(crate) type Fields = BTreeMap<Vec<u8>, (Vec<u8>, Option<i64>)>;

/// A value, on its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Content {
    Text(Vec<u8>),
    List(VecDeque<Vec<u8>>),
    Hash(Fields),
    Set(BTreeSet<Vec<u8>>),
    /// Members with the bits of their scores.
    Sorted(BTreeMap<Vec<u8>, u64>),
    /// Ids, and what the one field of each entry has.
    Stream(BTreeMap<Vec<u8>, Vec<u8>>),
    /// Indices and elements.
    Array(BTreeMap<Vec<u8>, Vec<u8>>),
}

impl Content {
    pub(crate) fn from_value(value: Value<'_>) -> Self {
        let mut content = Self::empty(value.kind());
        parts(value, &mut |key, extra, deadline| {
            content.add(key, extra, deadline);
            Ok(())
        })
        .unwrap();
        content
    }

    pub(crate) fn empty(kind: Type) -> Self {
        match kind {
            Type::String => Self::Text(Vec::new()),
            Type::List => Self::List(VecDeque::new()),
            Type::Hash => Self::Hash(BTreeMap::new()),
            Type::Set => Self::Set(BTreeSet::new()),
            Type::Sorted => Self::Sorted(BTreeMap::new()),
            Type::Stream => Self::Stream(BTreeMap::new()),
            Type::Array => Self::Array(BTreeMap::new()),
        }
    }

    fn add(&mut self, key: &[u8], extra: &[u8], deadline: Option<i64>) {
        let key = key.to_vec();
        let is_new = match self {
            Self::Text(text) => {
                *text = key;
                true
            }
            Self::List(list) => {
                list.push_back(key);
                true
            }
            Self::Hash(hash) => hash.insert(key, (extra.to_vec(), deadline)).is_none(),
            Self::Stream(map) | Self::Array(map) => map.insert(key, extra.to_vec()).is_none(),
            Self::Set(set) => set.insert(key),
            Self::Sorted(set) => {
                let score = u64::from_le_bytes(extra.try_into().unwrap());
                set.insert(key, score).is_none()
            }
        };
        assert!(is_new, "an element came twice");
    }

    /// Without the fields whose time has come; nothing if none is left.
    pub(crate) fn without_due(mut self, now: i64) -> Option<Self> {
        if let Self::Hash(hash) = &mut self {
            hash.retain(|_, (_, deadline)| deadline.is_none_or(|at| at > now));
            if hash.is_empty() {
                return None;
            }
        }
        Some(self)
    }

    /// An empty value of the same type.
    pub(crate) fn emptied(&self) -> Self {
        match self {
            Self::Text(_) => Self::empty(Type::String),
            Self::List(_) => Self::empty(Type::List),
            Self::Hash(_) => Self::empty(Type::Hash),
            Self::Set(_) => Self::empty(Type::Set),
            Self::Sorted(_) => Self::empty(Type::Sorted),
            Self::Stream(_) => Self::empty(Type::Stream),
            Self::Array(_) => Self::empty(Type::Array),
        }
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Text(text) => text.len(),
            Self::List(list) => list.len(),
            Self::Hash(hash) => hash.len(),
            Self::Set(set) => set.len(),
            Self::Sorted(set) => set.len(),
            Self::Stream(stream) => stream.len(),
            Self::Array(array) => array.len(),
        }
    }
}

type Show<'s> = &'s mut dyn FnMut(&[u8], &[u8], Option<i64>) -> Result<(), SinkError>;

/// Shows what a value consists of, without allocating; returns how many parts there are. A sorted
/// set is in order.
fn parts(value: Value<'_>, show: Show<'_>) -> Result<(), SinkError> {
    match value {
        Value::List(list) => list.iter_from(0).try_for_each(|value| show(value, &[], None)),
        Value::Hash(hash) => hash.fields().try_for_each(|it| show(it.field, it.value, it.deadline)),
        Value::Set(set) => set.iter().try_for_each(|member| show(member, &[], None)),
        Value::Sorted(set) => {
            let mut last = (f64::NEG_INFINITY, &[][..]);
            set.iter_from(0).try_for_each(|(member, score)| {
                assert!(last <= (score, member), "out of order");
                last = (score, member);
                show(member, &score.to_bits().to_le_bytes(), None)
            })
        }
        Value::Stream(stream) => stream.iter_from(0).try_for_each(|mut entry| {
            let mut text = IntText::default();
            let value = entry.fields.next().map_or(&[][..], |(_, value)| value.to_bytes(&mut text));
            show(&entry.id.to_bytes(), value, None)
        }),
        Value::Array(array) => array
            .iter_from(0)
            .try_for_each(|(index, value)| show(&index.to_be_bytes(), value, None)),
        text => show(text.to_bytes(&mut IntText::default()), &[], None),
    }
}

/// A digest of a value as read; it distinguishes two values.
pub(crate) fn digest(value: Value<'_>) -> u64 {
    let mut sum = 0_u64;
    parts(value, &mut |key, extra, deadline| {
        let deadline = deadline.unwrap_or(0).to_le_bytes();
        sum = key.iter().chain(extra).chain(&deadline).fold(sum, |sum, &byte| {
            sum.wrapping_mul(31).wrapping_add(u64::from(byte)) // order counts
        });
        Ok(())
    })
    .unwrap();
    sum
}

pub(crate) fn create<A: Algorithm>() -> Keyspace<A> {
    let mut options = KeyspaceOptions::default();
    if cfg!(miri) {
        options.max_keys = 1 << 10;
        options.budget_bytes = 1 << 16;
    }
    Keyspace::create(&options).unwrap()
}

/// Whether images of `A` can be taken here: Miri does not fork.
pub(crate) fn can_image<A: Algorithm>() -> bool {
    A::INFO.in_process || !cfg!(miri)
}

/// How a sink behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Manner {
    Fast,
    /// Sleeps after each run of this many entries.
    Slow(usize),
    /// Fails after this many entries.
    Fails(usize),
}

/// Collects entries: in memory, or through a file that a forked child and its parent share.
pub(crate) struct Collect {
    buffer: Vec<u8>,
    file: Option<File>,
    manner: Manner,
    entries: usize,
}

impl Collect {
    pub(crate) fn new<A: Algorithm>(manner: Manner) -> Self {
        let in_process = A::INFO.in_process;
        Self {
            buffer: Vec::with_capacity(if in_process { 0 } else { 1 << 20 }),
            file: (!in_process).then(|| tempfile::tempfile().unwrap()),
            manner,
            entries: 0,
        }
    }

    fn flush(&mut self) -> Result<(), SinkError> {
        let Some(file) = &mut self.file else { return Ok(()) };
        let written = file.write_all(&self.buffer);
        self.buffer.clear();
        written.map_err(|_| SinkError::new(format_args!("the test's file failed")))
    }

    fn put(&mut self, parts: &[&[u8]]) -> Result<(), SinkError> {
        for part in parts {
            if self.file.is_some() && self.buffer.len() + part.len() > self.buffer.capacity() {
                self.flush()?;
            }
            self.buffer.extend_from_slice(part);
        }
        Ok(())
    }

    pub(crate) fn take(&mut self) -> Contents {
        if let Some(file) = &mut self.file {
            file.seek(SeekFrom::Start(0)).unwrap();
            file.read_to_end(&mut self.buffer).unwrap();
        }
        decode(&self.buffer)
    }
}

impl EntrySink for Collect {
    fn entry(&mut self, db: usize, entry: &Entry) -> Result<(), SinkError> {
        self.entries += 1;
        match self.manner {
            Manner::Slow(times) if self.entries.is_multiple_of(times) => {
                std::thread::sleep(Duration::from_micros(200));
            }
            Manner::Fails(limit) if self.entries > limit => {
                return Err(SinkError::new(format_args!("full after {limit}")));
            }
            _ => {}
        }
        let value = entry.value();
        let count = if value.kind() == Type::String { 1 } else { value.len() };
        self.put(&[&[db as u8, value.kind() as u8]])?;
        self.put(&[&entry.expire_at().unwrap_or(i64::MAX).to_le_bytes()])?;
        self.put(&[&(count as u32).to_le_bytes()])?;
        self.put(&[&(entry.key().len() as u32).to_le_bytes(), entry.key()])?;
        parts(value, &mut |key, extra, deadline| {
            self.put(&[&deadline.unwrap_or(i64::MAX).to_le_bytes()])?;
            self.put(&[&(key.len() as u32).to_le_bytes(), key])?;
            self.put(&[&(extra.len() as u32).to_le_bytes(), extra])
        })
    }

    fn finish(&mut self) -> Result<(), SinkError> {
        self.flush()
    }
}

fn decode(mut rest: &[u8]) -> Contents {
    use Type::{Array, Hash, List, Set, Sorted, Stream, String};
    const KINDS: [Type; 7] = [String, List, Hash, Set, Sorted, Stream, Array];
    fn text<'a>(rest: &mut &'a [u8]) -> &'a [u8] {
        let (len, tail) = rest.split_first_chunk().unwrap();
        let (text, tail) = tail.split_at(u32::from_le_bytes(*len) as usize);
        *rest = tail;
        text
    }
    fn deadline(rest: &mut &[u8]) -> Option<i64> {
        let (at, tail) = rest.split_first_chunk().unwrap();
        *rest = tail;
        Some(i64::from_le_bytes(*at)).filter(|&at| at != i64::MAX)
    }
    let mut contents = Contents::new();
    while let Some(([db, kind], tail)) = rest.split_first_chunk() {
        rest = tail;
        let expire = deadline(&mut rest);
        let (count, tail) = rest.split_first_chunk().unwrap();
        rest = tail;
        let key = (*db as usize, text(&mut rest).to_vec());
        let kind = KINDS.iter().find(|known| **known as u8 == *kind).unwrap();
        let mut content = Content::empty(*kind);
        for _ in 0..u32::from_le_bytes(*count) {
            let deadline = deadline(&mut rest);
            let (key, extra) = (text(&mut rest), text(&mut rest));
            content.add(key, extra, deadline);
        }
        let twice = contents.insert(key, (content, expire));
        assert!(twice.is_none(), "a key came twice in one image");
    }
    contents
}

/// Begins an image; its contents come when it is published.
pub(crate) fn begin<A: Algorithm>(
    keyspace: &mut Keyspace<A>,
    manner: Manner,
) -> Receiver<Result<Contents, CaptureError>> {
    let (sender, receiver) = channel();
    let publish = move |sink: &mut Collect, result: Result<_, _>| {
        let _ = sender.send(result.map(|_| sink.take()));
    };
    keyspace.snapshot(Point::declare(), Collect::new::<A>(manner), publish).unwrap();
    receiver
}
