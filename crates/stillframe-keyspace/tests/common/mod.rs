//! What the tests share: seeds, sizes, and a sink that brings an image back from any algorithm.
#![allow(dead_code, clippy::unwrap_used, reason = "tests, each of which uses its part")]

use std::collections::BTreeMap;
use std::fs::File;
use std::hash::{BuildHasher, RandomState};
use std::io::{Read, Seek, SeekFrom, Write};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use stillframe::{Algorithm, CaptureError, Point, SinkError};
use stillframe_keyspace::{Entry, EntrySink, IntText, Keyspace, KeyspaceOptions};

/// Database and key; text and deadline.
pub(crate) type Contents = BTreeMap<(usize, Vec<u8>), (Vec<u8>, Option<i64>)>;

/// A small generator with a seed that is told when a test fails.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn seeded(test: &str) -> Self {
        let given = std::env::var("STILLFRAME_SEED").ok().and_then(|seed| seed.parse().ok());
        let seed = given.unwrap_or_else(|| BuildHasher::hash_one(&RandomState::new(), test));
        println!("{test}: STILLFRAME_SEED={seed}");
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    pub(crate) fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    pub(crate) fn one_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }
}

/// `small` under Miri, `usual` else, ten times as much with `STILLFRAME_LONG=1`.
pub(crate) fn sized(usual: usize, small: usize) -> usize {
    if cfg!(miri) {
        small
    } else if std::env::var_os("STILLFRAME_LONG").is_some() {
        usual * 10
    } else {
        usual
    }
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
    /// Sleeps after every so many entries.
    Slow(usize),
    /// Fails after so many entries.
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

    pub(crate) fn take(&mut self) -> Contents {
        if let Some(file) = &mut self.file {
            file.seek(SeekFrom::Start(0)).unwrap();
            file.read_to_end(&mut self.buffer).unwrap();
        }
        decode(&self.buffer)
    }
}

impl EntrySink for Collect {
    fn entry(&mut self, entry: &Entry) -> Result<(), SinkError> {
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
        let mut text = IntText::default();
        let text = entry.value().to_bytes(&mut text);
        let key = entry.key();
        let bytes = 17 + key.len() + text.len();
        if self.file.is_some() && self.buffer.len() + bytes > self.buffer.capacity() {
            self.flush()?;
        }
        self.buffer.push(entry.db() as u8);
        self.buffer.extend(entry.expire_at().unwrap_or(i64::MAX).to_le_bytes());
        self.buffer.extend((key.len() as u32).to_le_bytes());
        self.buffer.extend((text.len() as u32).to_le_bytes());
        self.buffer.extend_from_slice(key);
        self.buffer.extend_from_slice(text);
        Ok(())
    }

    fn finish(&mut self) -> Result<(), SinkError> {
        self.flush()
    }
}

fn decode(mut rest: &[u8]) -> Contents {
    let mut contents = Contents::new();
    while let Some((db, tail)) = rest.split_first() {
        let (expire, tail) = tail.split_first_chunk().unwrap();
        let (key_len, tail) = tail.split_first_chunk().unwrap();
        let (text_len, tail) = tail.split_first_chunk().unwrap();
        let (key, tail) = tail.split_at(u32::from_le_bytes(*key_len) as usize);
        let (text, tail) = tail.split_at(u32::from_le_bytes(*text_len) as usize);
        let expire = Some(i64::from_le_bytes(*expire)).filter(|&at| at != i64::MAX);
        let twice = contents.insert((*db as usize, key.to_vec()), (text.to_vec(), expire));
        assert!(twice.is_none(), "a key came twice in one image");
        rest = tail;
    }
    contents
}

/// Begins an image; its contents come when it is published.
pub(crate) fn begin<A: Algorithm>(
    keyspace: &mut Keyspace<A>,
    manner: Manner,
) -> Receiver<Result<Contents, CaptureError>> {
    let (sender, receiver) = channel();
    let publish = move |sink: &mut Collect, outcome: Result<_, _>| {
        let _ = sender.send(outcome.map(|_| sink.take()));
    };
    keyspace.snapshot(Point::declare(), Collect::new::<A>(manner), publish).unwrap();
    receiver
}
