//! Looks through an RDB file without holding what is in it: structure and checksum of everything
//! that Redis and Valkey write, also of types that [`Decoder`](crate::Decoder) refuses.
//!
//! - Memory does not depend on the file, but for a number for each template of hashes: long
//!   strings are skipped in pieces, those packed by LZF are checked without being unpacked, and
//!   counts are kept in tables of a fixed size. Repeated keys are found by hashes of a part of them
//!   at a time, so that many keys take more passes.
//! - Time is linear in the bytes of the file: each element takes at least one byte, whatever count
//!   the file claims.
//! - The inside of a string of at most 1 MiB (a ziplist, a listpack) is checked as the decoder
//!   checks it. Redis packs small collections; only the checksum finds damage in longer ones.

use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};
use std::io::{Read, Seek, SeekFrom};
use std::ops::RangeInclusive;

use crate::decode::named;
use crate::elements::Elements;
use crate::error::Problem;
use crate::format::*;
use crate::source::{Source, damaged};
use crate::walk::{VALUE_TYPES, metadata, module_value, number_of_type, value};
use crate::{DecodeError, Value};

/// Aux fields that are kept.
const AUX_MAX: usize = 64;
/// Bytes of a name or value of an aux field that are kept.
const AUX_BYTES_MAX: u64 = 16 << 10;
/// Databases that are counted each by itself.
const DATABASES_MAX: usize = 1024;

/// Hashes of keys that are held at a time.
const HASHES_MAX: usize = 16 << 20;

/// Bytes of a string that is looked into.
const HELD_BYTES_MAX: u64 = 1 << 20;

/// What a file holds, as far as it was read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Summary {
    /// Version of the format.
    pub version: u32,
    /// Aux fields in their order, as text; at most the first 64.
    pub aux: Vec<(String, String)>,
    /// The databases that have keys, in the order they were met; at most the first 1,024.
    pub databases: Vec<Database>,
    /// Keys of databases beyond these.
    pub keys_elsewhere: u64,
    /// Keys that [`Decoder`](crate::Decoder) refuses: values of modules.
    pub unsupported: u64,
    /// Function libraries.
    pub functions: u64,
    /// Sections of modules.
    pub modules: u64,
    /// The file has a checksum, and it is right.
    pub verified: bool,
    /// Bytes read.
    pub bytes: u64,
}

/// One database of a file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Database {
    /// Its number.
    pub number: u64,
    /// Keys by type: string, list, set, sorted set, hash, stream, module, array.
    pub keys: [u64; VALUE_TYPES.len()],
    /// Keys that expire.
    pub expires: u64,
    /// The first and the last moment at which one does, in unix milliseconds.
    pub expire_at_ms: Option<(i64, i64)>,
}

impl Database {
    /// Keys of all types.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.keys.iter().sum()
    }
}

/// Reads a file of `bytes` bytes to its end. Gives what was read, and why reading ended early.
pub fn scan(reader: impl Read, bytes: u64) -> (Summary, Option<DecodeError>) {
    pass(reader, bytes, &mut |_, _| Ok(()))
}

/// As [`scan`], and looks for keys that are there twice, except those of more than 16 KiB. Reads
/// the file once more for each 16 million keys.
pub fn scan_keys(mut reader: impl Read + Seek, bytes: u64) -> (Summary, Option<DecodeError>) {
    let mut keys = Hashes::new(HASHES_MAX);
    let (summary, error) = note(&mut reader, bytes, &mut keys);
    if error.is_some() {
        return (summary, error);
    }
    let mut repeated = |reader: &mut _| -> Result<(), DecodeError> {
        loop {
            again(reader, bytes, &keys.twice())?;
            if !keys.next_part() {
                return Ok(());
            }
            restart(reader)?;
            note(&mut *reader, bytes, &mut keys).1.map_or(Ok(()), Err)?;
        }
    };
    let error = repeated(&mut reader).err();
    (summary, error)
}

/// Reads a file and notes the hashes of its keys.
fn note(reader: impl Read, bytes: u64, keys: &mut Hashes) -> (Summary, Option<DecodeError>) {
    pass(reader, bytes, &mut |key, _| {
        keys.note(key);
        Ok(())
    })
}

/// Finds the first key that is there twice among those with such hashes.
fn again(
    reader: &mut (impl Read + Seek),
    bytes: u64,
    twice: &Suspects<'_>,
) -> Result<(), DecodeError> {
    if twice.hashes.is_empty() {
        return Ok(());
    }
    restart(reader)?;
    let mut met = HashSet::new();
    let meet = &mut |key: Key<'_>, offset| {
        if !twice.hashes.contains(&twice.state.hash_one(key)) || met.insert((key.0, key.1.to_vec()))
        {
            return Ok(());
        }
        Err(DecodeError::Again { offset, db: key.0, key: shown(key.1) })
    };
    pass(reader, bytes, meet).1.map_or(Ok(()), Err)
}

fn restart(reader: &mut impl Seek) -> Result<(), DecodeError> {
    let to_start = reader.seek(SeekFrom::Start(0));
    to_start.map(drop).map_err(|source| DecodeError::Read { offset: 0, source })
}

/// One pass over a file; `meet` gets each short key and the offset of its record.
fn pass(
    reader: impl Read,
    bytes: u64,
    meet: &mut dyn FnMut(Key<'_>, u64) -> Result<(), DecodeError>,
) -> (Summary, Option<DecodeError>) {
    let mut source = Source::new(reader);
    source.set_file_bytes(bytes);
    let elements = Elements::up_to(HELD_BYTES_MAX);
    let (summary, key) = (Summary::default(), Vec::new());
    let mut scan = Scan { source, summary, elements, key, db: 0, at: None, meet };
    let result = scan.file();
    scan.summary.bytes = scan.source.offset();
    (scan.summary, result.err())
}

/// A database and a key.
type Key<'a> = (u64, &'a [u8]);

/// Hashes of the keys whose hash lies in a part of all numbers, which shrinks so that they fit.
struct Hashes {
    state: RandomState,
    part: RangeInclusive<u64>,
    held: Vec<u64>,
    most: usize,
}

/// Keys with these hashes may be there twice.
struct Suspects<'a> {
    state: &'a RandomState,
    hashes: HashSet<u64>,
}

impl Hashes {
    fn new(most: usize) -> Self {
        Self { state: RandomState::new(), part: 0..=u64::MAX, held: Vec::new(), most }
    }

    fn note(&mut self, key: Key<'_>) {
        let hash = self.state.hash_one(key);
        if !self.part.contains(&hash) {
            return;
        }
        // Equal hashes, which no smaller part sets apart, are few.
        while self.held.len() >= self.most && self.part.start() < self.part.end() {
            let (start, end) = (*self.part.start(), *self.part.end());
            self.part = start..=start + (end - start) / 2;
            self.held.retain(|hash| self.part.contains(hash));
        }
        if self.part.contains(&hash) {
            self.held.push(hash);
        }
    }

    fn twice(&mut self) -> Suspects<'_> {
        self.held.sort_unstable();
        let pairs = self.held.windows(2).filter(|pair| pair[0] == pair[1]);
        Suspects { state: &self.state, hashes: pairs.map(|pair| pair[0]).collect() }
    }

    /// Goes on behind the part; `false`: there is no more.
    fn next_part(&mut self) -> bool {
        self.held.clear();
        let (start, end) = (*self.part.start(), *self.part.end());
        let Some(next) = end.checked_add(1) else { return false };
        self.part = next..=next.saturating_add(end - start);
        true
    }
}

struct Scan<'a, R> {
    source: Source<R>,
    summary: Summary,
    elements: Elements,
    /// The key of the value under way; empty if it is long.
    key: Vec<u8>,
    /// The database selected, and its index in the summary once it has keys there.
    db: u64,
    at: Option<usize>,
    meet: &'a mut dyn FnMut(Key<'_>, u64) -> Result<(), DecodeError>,
}

impl<R: Read> Scan<'_, R> {
    fn file(&mut self) -> Result<(), DecodeError> {
        self.summary.version = self.source.header()?;
        while self.section()? {}
        let offset = self.source.offset();
        match self.source.next_byte()? {
            None => Ok(()),
            Some(_) => Err(DecodeError::TrailingBytes { offset }),
        }
    }

    /// Reads what comes next; `false`: it was the end.
    fn section(&mut self) -> Result<bool, DecodeError> {
        let (mut expire_at_ms, mut inside_entry) = (None, false);
        let offset = self.source.offset();
        loop {
            let at = self.source.offset();
            let op = self.source.op()?;
            match op {
                OP_EXPIRE_MS => expire_at_ms = self.source.expiry_ms()?,
                OP_EXPIRE_S => {
                    let seconds = i32::from_le_bytes(self.source.array("an expiry")?);
                    expire_at_ms = Some(i64::from(seconds) * 1000);
                }
                OP_IDLE => drop(self.source.length("the idle time of a key")?),
                OP_FREQ => drop(self.source.array::<1>("the use count of a key")?),
                OP_KEY_META if self.is_redis() => {
                    metadata(&mut self.source)?;
                }
                OP_HASH_TEMPLATE if self.is_redis() && !inside_entry => {
                    self.elements.read_template(&mut self.source)?;
                    return Ok(true);
                }
                OP_SLOT_IMPORT..=OP_EOF if inside_entry => {
                    let text = format!("byte 0x{op:02x} stands between a key's expiry and the key");
                    return Err(damaged(at, text));
                }
                OP_SLOT_IMPORT..=OP_EOF => return self.other(op, at),
                kind => {
                    let number = number_of_type(kind, self.source.dialect(), at)?;
                    let is_short = self.source.text_up_to(AUX_BYTES_MAX, &mut self.key)?;
                    self.value(kind)?;
                    self.count(number, expire_at_ms);
                    if is_short {
                        (self.meet)((self.db, &self.key), offset)?;
                    }
                    return Ok(true);
                }
            }
            inside_entry = true;
        }
    }

    fn is_redis(&self) -> bool {
        self.source.dialect() == Dialect::Redis
    }

    fn value(&mut self, kind: u8) -> Result<(), DecodeError> {
        if !Elements::know(kind, self.source.dialect()) {
            self.summary.unsupported += u64::from(kind != TYPE_STRING);
            return value(&mut self.source, kind);
        }
        let mut step = || -> Result<(), Problem> {
            self.elements.begin(&mut self.source, kind)?;
            while self.elements.next(&mut self.source)?.is_some() {}
            Ok(())
        };
        step().map_err(|problem| named(self.db, &self.key, problem))
    }

    /// A section that is not a key.
    fn other(&mut self, op: u8, at: u64) -> Result<bool, DecodeError> {
        match op {
            OP_AUX => self.aux()?,
            OP_SELECT_DB => {
                self.db = self.source.length("the number of a database")?;
                self.at = self.summary.databases.iter().position(|it| it.number == self.db);
            }
            OP_RESIZE_DB => {
                self.source.length("the number of keys")?;
                self.source.length("the number of expiring keys")?;
            }
            OP_FUNCTION => {
                self.source.skip_string()?;
                self.summary.functions += 1;
            }
            OP_SLOT_INFO => self.source.slot_info()?,
            OP_MODULE_AUX => {
                module_value(&mut self.source)?;
                self.summary.modules += 1;
            }
            OP_EOF => {
                self.summary.verified = self.source.end(self.summary.version)?;
                return Ok(false);
            }
            _ => {
                let what = match op {
                    OP_SLOT_IMPORT => "the import of a slot of a cluster",
                    _ => "a function library of a pre-release of Redis 7",
                };
                let what = what.to_owned();
                return Err(DecodeError::UnsupportedSection { offset: at, what });
            }
        }
        Ok(true)
    }

    fn aux(&mut self) -> Result<(), DecodeError> {
        let name = self.source.start_of_text(AUX_BYTES_MAX)?;
        let value = self.source.start_of_text(AUX_BYTES_MAX)?;
        if self.summary.aux.len() < AUX_MAX {
            self.summary.aux.push((name, value));
        }
        Ok(())
    }

    fn count(&mut self, number: usize, expire_at_ms: Option<i64>) {
        let databases = &mut self.summary.databases;
        if self.at.is_none() && databases.len() < DATABASES_MAX {
            self.at = Some(databases.len());
            databases.push(Database { number: self.db, ..Database::default() });
        }
        let Some(database) = self.at.and_then(|at| databases.get_mut(at)) else {
            self.summary.keys_elsewhere += 1;
            return;
        };
        database.keys[number] += 1;
        if let Some(at) = expire_at_ms {
            database.expires += 1;
            let (first, last) = database.expire_at_ms.unwrap_or((at, at));
            database.expire_at_ms = Some((first.min(at), last.max(at)));
        }
    }
}

impl<R: Read> Source<R> {
    /// A short string as text; of a longer one that it is longer.
    fn start_of_text(&mut self, most: u64) -> Result<String, DecodeError> {
        let mut bytes = Vec::new();
        Ok(match self.string_up_to(most, &mut bytes)? {
            Some(Value::Int(value)) => value.to_string(),
            Some(Value::Bytes(bytes)) => bytes.escape_ascii().to_string(),
            None => format!("(more than {most} bytes)"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_of_many_keys_are_held_in_parts() {
        let keys: Vec<u64> = (0..1000).chain([7, 993]).collect();
        let mut hashes = Hashes::new(64);
        let (mut found, mut passes) = (Vec::new(), 0);
        loop {
            keys.iter().for_each(|&db| hashes.note((db, b"k")));
            assert!(hashes.held.len() <= 64);
            passes += 1;
            let twice = hashes.twice();
            let again = |db: &u64| twice.hashes.contains(&twice.state.hash_one((*db, &b"k"[..])));
            found.extend((0..1000).filter(again));
            if !hashes.next_part() {
                break;
            }
        }
        found.sort_unstable();
        assert_eq!(found, [7, 993]);
        assert!(passes >= 1000 / 64, "{passes}");
    }
}
