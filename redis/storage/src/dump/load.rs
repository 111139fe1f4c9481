//! Loading the dump file at start: the whole of it or nothing.

use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use stillframe_durability::disk::{Directory, Input};
use stillframe_keyspace::{DATABASES, Expire, Keyspace};
use stillframe_rdb::{DecodeError, Decoder, Event, Uses, Value};

use super::EntryError;
use super::sharing::{BRANCHES_FIELD, CLASS_FIELD, Shares};
use super::sink::LABEL_FIELD;
use super::stream_point::{StreamField, StreamFields, StreamPoint};
use crate::error::StorageError;
use crate::journal::{POSITION_FIELD, Position};
use crate::replay::{SLICE, delay};
use stillframe_commands::values::{decode_elements, skip_elements};

/// The figures of a load.
#[derive(Debug, Clone, Default)]
pub struct Loaded {
    /// Keys.
    pub keys: u64,
    /// Expired keys in the file.
    pub expired: u64,
    /// The image's position in a log, if it was made beside one.
    pub position: Option<Position>,
    /// Bytes of memory that its data took when it was made, if it says so; 0 if not.
    pub saved_bytes: u64,
    /// Its label, if it was made by a member of a group.
    pub label: Option<Vec<u8>>,
    /// What was skipped, if that was wished.
    pub skipped: Skipped,
}

/// Values of a file that were not loaded, as this server does not have their types.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Skipped {
    /// Values of modules.
    pub values: u64,
    /// Sections of data of modules.
    pub sections: u64,
    /// The first value: what it is, and its key.
    pub first: Option<String>,
}

impl Skipped {
    fn take(&mut self, what: &str, db: u64, key: Option<&[u8]>) {
        let Some(key) = key else {
            self.sections += 1;
            return;
        };
        self.values += 1;
        let shown = || format!("{what}, key \"{}\" of database {db}", key.escape_ascii());
        self.first.get_or_insert_with(shown);
    }
}

const PROGRESS_PERIOD: Duration = Duration::from_secs(5);
/// How the names of a raft member's fields begin, and how many of them count.
const RAFT_FIELDS: &[u8] = b"raft-";
const FIELDS_MAX: usize = 8;
/// The field for the bytes of memory that the data takes.
const MEMORY_FIELD: &[u8] = b"used-mem";
/// Keys loaded between two readings of the clock.
const BATCH: usize = 32;

/// An RDB file on its way into a keyspace, up to its end mark and checksum.
pub struct Load {
    reader: Reader<Input>,
    path: PathBuf,
    bytes: u64,
    /// Keys that had expired by then are skipped.
    now: i64,
    /// The point of a stream of replication in the file.
    stream: StreamFields,
    /// Fields of a raft member.
    fields: Vec<(Vec<u8>, Vec<u8>)>,
    /// Expired keys, if they are collected.
    expired: Option<Vec<(usize, Vec<u8>)>>,
    loaded: Loaded,
    /// Empty keys.
    empty: u64,
    started: Instant,
    reported: Instant,
}

impl Load {
    /// Begins with a file of so many bytes.
    pub fn new(path: &Path, file: Input, bytes: u64, now: i64) -> Self {
        let decoder = Decoder::new(file).with_file_bytes(bytes);
        let started = Instant::now();
        Self {
            reader: Reader::new(decoder),
            path: path.to_owned(),
            bytes,
            now,
            stream: StreamFields::default(),
            fields: Vec::new(),
            expired: None,
            loaded: Loaded::default(),
            empty: 0,
            started,
            reported: started,
        }
    }

    /// Makes its keys replace existing ones.
    pub fn merge(&mut self) {
        self.reader.merges = true;
    }

    /// Makes [`take_expired`](Self::take_expired) return expired keys.
    pub fn keep_expired(&mut self) {
        self.expired = Some(Vec::new());
    }

    /// Databases and keys that had expired, since the last call.
    pub fn take_expired(&mut self) -> Vec<(usize, Vec<u8>)> {
        self.expired.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// The point of a stream of replication in the file, if any.
    pub fn stream_point(&self) -> Option<StreamPoint> {
        self.stream.point()
    }

    /// The field of this name in the file, if it is one of a raft member.
    pub fn field(&self, name: &[u8]) -> Option<&[u8]> {
        let found = self.fields.iter().find(|(field, _)| field == name);
        found.map(|(_, value)| &value[..])
    }

    /// Bytes of the file.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Loaded bytes of these.
    pub fn offset(&self) -> u64 {
        self.reader.offset()
    }

    /// Loads for a while; true at the end.
    ///
    /// # Errors
    /// [`StorageError::Load`]: what is wrong with the file and at which offset.
    pub fn slice(&mut self, keyspace: &mut Keyspace, delay_us: i32) -> Result<bool, StorageError> {
        let start = Instant::now();
        while start.elapsed() < SLICE {
            for _ in 0..BATCH {
                if !self.step(keyspace).map_err(|problem| self.failed(problem))? {
                    return Ok(true);
                }
                if delay(delay_us) {
                    break;
                }
            }
        }
        if self.reported.elapsed() >= PROGRESS_PERIOD {
            self.reported = Instant::now();
            let share = self.offset() * 100 / self.bytes.max(1);
            tracing::info!("loading: {} keys, {share}% of the file", self.loaded.keys);
        }
        Ok(false)
    }

    /// Loads the rest.
    ///
    /// # Errors
    /// As for [`slice`](Self::slice).
    pub fn rest(mut self, keyspace: &mut Keyspace) -> Result<Loaded, StorageError> {
        while !self.slice(keyspace, 0)? {}
        self.finish()
    }

    /// Loads a key, or the part before one; false at the end.
    fn step(&mut self, keyspace: &mut Keyspace) -> Result<bool, EntryError> {
        match self.reader.next(keyspace, self.now)? {
            Next::End => return Ok(false),
            Next::Other => {}
            Next::Empty => self.empty += 1,
            Next::Stream(field) => self.stream.take(field),
            Next::Field { name, value } if self.fields.len() < FIELDS_MAX => {
                self.fields.push((name, value));
            }
            Next::Field { .. } => {}
            Next::Memory(bytes) => self.loaded.saved_bytes = bytes,
            Next::Position(position) => {
                self.loaded.position = Some(position);
                // Records of the log may be about keys that have expired since.
                self.now = i64::MIN;
            }
            Next::Expired { db, key } => {
                self.loaded.expired += 1;
                if let Some(expired) = &mut self.expired {
                    expired.push((db, key));
                }
            }
            Next::Loaded => self.loaded.keys += 1,
        }
        Ok(true)
    }

    /// Checks that the file ends behind the loaded part.
    ///
    /// # Errors
    /// [`StorageError::Load`]: something follows.
    pub fn finish(self) -> Result<Loaded, StorageError> {
        let end = self.reader.offset();
        if end < self.bytes {
            return Err(self.failed(DecodeError::TrailingBytes { offset: end }.into()));
        }
        Ok(self.end())
    }

    fn end(self) -> Loaded {
        tracing::info!(
            "loaded {} keys from {} ({} bytes) in {:.3} s; {} more had expired",
            self.loaded.keys,
            self.path.display(),
            self.bytes,
            self.started.elapsed().as_secs_f64(),
            self.loaded.expired
        );
        if self.empty > 0 {
            tracing::warn!("empty keys skipped: {}", self.empty);
        }
        let label = self.field(LABEL_FIELD).map(<[u8]>::to_vec);
        Loaded { label, skipped: self.reader.skipped, ..self.loaded }
    }

    fn failed(&self, problem: EntryError) -> StorageError {
        let problem = Box::new(problem.into());
        StorageError::Load { path: self.path.clone(), problem }
    }
}

/// Begins to load the dump file `name` of a directory, if it is there.
///
/// # Errors
/// [`StorageError::Load`]: it cannot be opened.
pub(super) fn open(
    directory: &Directory,
    name: &str,
    now: i64,
) -> Result<Option<Load>, StorageError> {
    let path = directory.at(name);
    match directory.open_file(name) {
        Err(error) if error.kind() == Some(ErrorKind::NotFound) => Ok(None),
        Err(error) => Err(StorageError::Load { path, problem: Box::new(error.into()) }),
        Ok((file, bytes)) => Ok(Some(Load::new(&path, file, bytes, now))),
    }
}

/// Loads the dump file `name` of a directory into an empty keyspace; without a file it stays empty.
///
/// # Errors
/// As for [`Load::slice`].
pub fn load(
    keyspace: &mut Keyspace,
    directory: &Directory,
    name: &str,
    now: i64,
) -> Result<Loaded, StorageError> {
    match open(directory, name, now)? {
        Some(load) => load.rest(keyspace),
        None => Ok(Loaded::default()),
    }
}

/// Loads an RDB file, of so many bytes, up to its end mark and checksum; returns that offset, and
/// what was skipped. More may follow.
///
/// # Errors
/// As for [`Load::slice`].
pub fn load_file(
    keyspace: &mut Keyspace,
    path: &Path,
    file: Input,
    bytes: u64,
    skips_modules: bool,
) -> Result<(u64, Skipped), StorageError> {
    // Nothing counts as expired: what follows may be about keys that have.
    let mut load = Load::new(path, file, bytes, i64::MIN);
    if skips_modules {
        load.reader.skip_modules();
    }
    while !load.slice(keyspace, 0)? {}
    let end = load.offset();
    Ok((end, load.end().skipped))
}

/// A part of a file.
pub enum Next {
    /// A key.
    Loaded,
    /// An expired key.
    Expired {
        /// Its database.
        db: usize,
        /// The key.
        key: Vec<u8>,
    },
    /// The position in the log.
    Position(Position),
    /// Bytes of memory that the data took.
    Memory(u64),
    /// The point of a stream of replication, or a part of it.
    Stream(StreamField),
    /// A field of a raft member.
    Field {
        /// Its name.
        name: Vec<u8>,
        /// What it says.
        value: Vec<u8>,
    },
    /// An empty key, which is skipped.
    Empty,
    /// Another part that is no key.
    Other,
    /// The end mark.
    End,
}

/// Reads the parts of a file.
pub struct Reader<R> {
    decoder: Decoder<R>,
    /// Whether keys replace existing ones.
    merges: bool,
    shares: Shares,
    skipped: Skipped,
}

impl<R: Read> Reader<R> {
    /// A reader at the start of a file.
    pub fn new(decoder: Decoder<R>) -> Self {
        Self { decoder, merges: false, shares: Shares::default(), skipped: Skipped::default() }
    }

    /// Makes it skip values of modules.
    fn skip_modules(&mut self) {
        self.decoder.skip_modules();
    }

    /// Bytes read.
    pub fn offset(&self) -> u64 {
        self.decoder.offset()
    }

    /// Reads up to the end of the next part. Keys that had expired by `now` are skipped.
    ///
    /// # Errors
    /// [`EntryError`]: what is wrong, and at which offset.
    pub fn next(&mut self, keyspace: &mut Keyspace, now: i64) -> Result<Next, EntryError> {
        let Self { decoder, merges, shares, skipped } = self;
        let offset = decoder.offset();
        let Some(event) = decoder.next()? else { return Ok(Next::End) };
        if shares.take(&event, offset)? {
            if let Event::Begin { .. } = event {
                skip_elements(decoder)?;
            }
            return Ok(Next::Loaded);
        }
        match event {
            Event::Entry { db, key, expire_at_ms: Some(at), .. } if at <= now => {
                return Ok(Next::Expired { db: database(db, offset)?, key: key.to_vec() });
            }
            Event::Begin { db, key, expire_at_ms: Some(at), .. } if at <= now => {
                let (db, key) = (database(db, offset)?, key.to_vec());
                skip_elements(decoder)?;
                return Ok(Next::Expired { db, key });
            }
            Event::Entry { db, key, value, expire_at_ms, uses } => {
                let db = database(db, offset)?;
                let keys = keyspace.len(db);
                set(keyspace, db, key, value, expire_at_ms)?;
                if !*merges && keyspace.len(db) == keys {
                    return Err(EntryError::again(key, offset));
                }
                keep_uses(keyspace, db, key, uses);
                shares.share(keyspace, db, key, offset)?;
            }
            Event::Begin { db, key, kind, expire_at_ms, uses, .. } => {
                let (db, key) = (database(db, offset)?, key.to_vec());
                if *merges {
                    keyspace.remove(db, &key);
                } else if keyspace.contains(db, &key, i64::MIN) {
                    return Err(EntryError::again(&key, offset));
                }
                decode_elements(decoder, keyspace, db, &key, kind)?;
                if !keyspace.contains(db, &key, i64::MIN) {
                    tracing::warn!("skipping empty key: {}", key.escape_ascii());
                    return Ok(Next::Empty);
                }
                if expire_at_ms.is_some() {
                    keyspace.set_expire(db, &key, expire_at_ms);
                }
                keep_uses(keyspace, db, &key, uses);
                shares.share(keyspace, db, &key, offset)?;
            }
            other => return section(&other, keyspace, *merges, shares, skipped, offset),
        }
        Ok(Next::Loaded)
    }
}

/// A part that is no key.
fn section(
    event: &Event<'_>,
    keyspace: &mut Keyspace,
    merges: bool,
    shares: &mut Shares,
    skipped: &mut Skipped,
    offset: u64,
) -> Result<Next, EntryError> {
    match *event {
        Event::Aux { name: BRANCHES_FIELD, .. } if merges => {}
        Event::Aux { name: BRANCHES_FIELD, value } => shares.begin(keyspace, value, offset)?,
        Event::Aux { name: CLASS_FIELD, value } => shares.set_class(value, offset)?,
        Event::Aux { name, value } => return field(name, value, offset),
        Event::Library { source } => keyspace.add_library(source),
        Event::Skipped { what, db, key } => skipped.take(what, db, key),
        Event::Eof { .. } => {
            shares.end(keyspace);
            return Ok(Next::End);
        }
        _ => {}
    }
    Ok(Next::Other)
}

/// A field of a file.
fn field(name: &[u8], value: Value<'_>, offset: u64) -> Result<Next, EntryError> {
    Ok(match (name, value) {
        (POSITION_FIELD, Value::Bytes(text)) => {
            Next::Position(Position::parse(text).ok_or(EntryError::Position { offset })?)
        }
        (MEMORY_FIELD, Value::Int(bytes)) => Next::Memory(u64::try_from(bytes).unwrap_or(0)),
        (_, Value::Bytes(text)) if name.starts_with(RAFT_FIELDS) => {
            Next::Field { name: name.to_vec(), value: text.to_vec() }
        }
        _ => StreamField::read(name, value).map_or(Next::Other, Next::Stream),
    })
}

/// Sets a string.
fn set(
    keyspace: &mut Keyspace,
    db: usize,
    key: &[u8],
    value: Value<'_>,
    expire_at_ms: Option<i64>,
) -> Result<(), EntryError> {
    let expire = expire_at_ms.map_or(Expire::Never, Expire::At);
    match value {
        Value::Int(int) => keyspace.set_int(db, key, int, expire),
        Value::Bytes(bytes) => keyspace.set(db, key, bytes, expire),
    }
    .map_err(EntryError::Memory)
}

/// Sets how a key was used from the file, if that is counted here.
fn keep_uses(keyspace: &mut Keyspace, db: usize, key: &[u8], uses: Uses) {
    match uses {
        Uses::Unknown => {}
        Uses::IdleSeconds(seconds) => keyspace.set_idle_ms(db, key, seconds.saturating_mul(1000)),
        Uses::Frequency(count) => keyspace.set_frequency(db, key, count),
    }
}

/// The database of a file's number.
fn database(db: u64, offset: u64) -> Result<usize, EntryError> {
    let known = usize::try_from(db).ok().filter(|&db| db < DATABASES);
    known.ok_or(EntryError::Database { db, offset })
}
