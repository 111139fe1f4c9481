//! The writer of RDB files, and of single values as DUMP gives them.

mod arrays;
mod collections;
mod streams;

use crate::format::*;
use crate::pack::{HASH_PAIRS_MAX, INTSET_NUMBERS_MAX, Listpack, PACK_BYTES};
use crate::sheet::{BUFFER_BYTES, Output, Sheet};
use crate::strings::{LZF_BYTES_MAX, Strings};
use crate::{Uses, Value, lzf};

pub use collections::HashField;
use collections::Place;
pub use streams::{HOPELESS, HOPELESS_BEFORE, NOBODY, StreamConsumer, StreamGroup, StreamValue};

/// The contents of a file's aux fields.
#[derive(Debug, Clone, Copy)]
pub struct Origin {
    /// When it was begun, in unix seconds.
    pub created_s: i64,
    /// Memory used by the process then, in bytes.
    pub used_memory_bytes: u64,
    /// Whether it is the base of an append-only file.
    pub aof_base: bool,
}

/// The version we claim to be compatible with, in the aux field `redis-ver`.
const REDIS_VERSION: &[u8] = b"7.0.15";

/// What comes before a value.
#[derive(Debug, Clone, Copy)]
pub enum Head<'a> {
    /// The database, deadline and name of its key, in a file.
    Key {
        /// The key's database. They may come in any order, several times.
        db: u64,
        /// The key.
        key: &'a [u8],
        /// When it expires, in unix milliseconds.
        expire_at_ms: Option<i64>,
    },
    /// Nothing: it stands alone, as in DUMP; [`Encoder::finish_payload`] follows.
    Payload,
}

/// Writes one RDB file, or one payload. Allocates nothing after construction.
///
/// ```
/// use stillframe_rdb::{Encoder, Origin, Value};
/// let mut file = Vec::new();
/// let mut encoder = Encoder::new(&mut file);
/// encoder.begin(&Origin { created_s: 1_700_000_000, used_memory_bytes: 0, aof_base: false })?;
/// encoder.resize_db(0, 2, 1)?;
/// encoder.entry(0, b"counter", Value::Int(7), None)?;
/// encoder.entry(0, b"session", Value::Bytes(b"abc"), Some(1_700_000_060_000))?;
/// encoder.finish()?;
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct Encoder<O> {
    pub(crate) out: Strings<O>,
    db: Option<u64>,
    uses: Uses,
    pub(crate) version: Version,
    pub(crate) pack: Listpack,
    /// The elements of `pack` in another order.
    pub(crate) ordered: Listpack,
    pub(crate) places: Box<[Place]>,
    pub(crate) numbers: Box<[i64]>,
}

/// The memory that an encoder works in; one encoder after another uses it, since fresh memory is
/// slow to touch.
pub struct Workspace {
    buffer: Box<[u8]>,
    lzf: lzf::Compressor,
    packed: Box<[u8]>,
    pack: Box<[u8]>,
    ordered: Box<[u8]>,
    places: Box<[Place]>,
    numbers: Box<[i64]>,
}

impl Workspace {
    /// Allocates and touches it.
    #[must_use]
    pub fn new() -> Self {
        Workspace {
            buffer: vec![1; BUFFER_BYTES].into(),
            lzf: lzf::Compressor::new(),
            packed: vec![1; LZF_BYTES_MAX].into(),
            pack: vec![1; PACK_BYTES].into(),
            ordered: vec![1; PACK_BYTES].into(),
            places: vec![Place::default(); HASH_PAIRS_MAX].into(),
            numbers: vec![1; INTSET_NUMBERS_MAX].into(),
        }
    }
}

impl Default for Workspace {
    fn default() -> Self {
        Self::new()
    }
}

impl<O: Output> Encoder<O> {
    /// An encoder that has written nothing yet. It allocates all that it needs here.
    pub fn new(output: O) -> Self {
        Self::within(Workspace::new(), output)
    }

    /// As [`new`](Self::new), in existing memory: it allocates nothing.
    pub fn within(workspace: Workspace, output: O) -> Self {
        let Workspace { buffer, lzf, packed, pack, ordered, places, numbers } = workspace;
        let out = Strings { sheet: Sheet::new(output, buffer), compress: true, lzf, packed };
        let [pack, ordered] = [pack, ordered].map(Listpack::within);
        let (db, uses, version) = (None, Uses::Unknown, Version::default());
        Encoder { out, db, uses, version, pack, ordered, places, numbers }
    }

    /// Takes the memory for the next encoder. This one can write nothing more.
    pub fn take_workspace(&mut self) -> Workspace {
        Workspace {
            buffer: self.out.sheet.take_buffer(),
            lzf: std::mem::replace(&mut self.out.lzf, lzf::Compressor::spent()),
            packed: std::mem::take(&mut self.out.packed),
            pack: self.pack.take_room(),
            ordered: self.ordered.take_room(),
            places: std::mem::take(&mut self.places),
            numbers: std::mem::take(&mut self.numbers),
        }
    }

    /// Whether to compress strings where that helps (`rdbcompression`); the default is yes.
    #[must_use]
    pub fn compress(mut self, compress: bool) -> Self {
        self.out.compress = compress;
        self
    }

    /// Sets the version of the file or payload; the default is 10.
    #[must_use]
    pub fn version(mut self, version: Version) -> Self {
        self.version = version;
        self
    }

    /// The version of the file or payload.
    #[must_use]
    pub fn written_version(&self) -> Version {
        self.version
    }

    /// Writes the header and the aux fields that Redis writes. Call it once, first.
    ///
    /// # Errors
    /// Those of the output, here and in all methods below.
    pub fn begin(&mut self, origin: &Origin) -> Result<(), O::Error> {
        debug_assert_eq!(self.written_bytes(), 0, "a file begins once");
        self.out.sheet.put(self.version.header())?;
        let used = i64::try_from(origin.used_memory_bytes).unwrap_or(i64::MAX);
        self.aux(b"redis-ver", Value::Bytes(REDIS_VERSION))?;
        self.aux(b"redis-bits", Value::Int(usize::BITS.into()))?;
        self.aux(b"ctime", Value::Int(origin.created_s))?;
        self.aux(b"used-mem", Value::Int(used))?;
        self.aux(b"aof-base", Value::Int(origin.aof_base.into()))
    }

    /// Writes one aux field.
    ///
    /// # Errors
    /// Those of the output.
    pub fn aux(&mut self, name: &[u8], value: Value<'_>) -> Result<(), O::Error> {
        self.out.sheet.put(&[OP_AUX])?;
        self.out.string(name)?;
        self.out.value(value)
    }

    /// Writes the source of a library of functions, before any entry.
    ///
    /// # Errors
    /// Those of the output.
    pub fn library(&mut self, source: &[u8]) -> Result<(), O::Error> {
        self.out.sheet.put(&[OP_FUNCTION])?;
        self.out.string(source)
    }

    /// Selects database `db` and gives its numbers of keys and of keys that expire, so
    /// that a reader can make room at once. A hint, best given before the entries.
    ///
    /// # Errors
    /// Those of the output.
    pub fn resize_db(&mut self, db: u64, keys: u64, expires: u64) -> Result<(), O::Error> {
        self.select_db(db)?;
        self.out.sheet.put(&[OP_RESIZE_DB])?;
        self.out.length(keys)?;
        self.out.length(expires)
    }

    /// Writes one string of database `db`. Databases may come in any order, several times.
    ///
    /// # Errors
    /// Those of the output.
    pub fn entry(
        &mut self,
        db: u64,
        key: &[u8],
        value: Value<'_>,
        expire_at_ms: Option<i64>,
    ) -> Result<(), O::Error> {
        self.string(Head::Key { db, key, expire_at_ms }, value)
    }

    /// Sets how the key of the next value was used.
    pub fn set_uses(&mut self, uses: Uses) {
        self.uses = uses;
    }

    /// Writes a string.
    ///
    /// # Errors
    /// Those of the output.
    pub fn string(&mut self, head: Head<'_>, value: Value<'_>) -> Result<(), O::Error> {
        self.open(head, TYPE_STRING)?;
        self.out.value(value)
    }

    /// Writes what comes before a value of type `kind`.
    pub(crate) fn open(&mut self, head: Head<'_>, kind: u8) -> Result<(), O::Error> {
        let Head::Key { db, key, expire_at_ms } = head else {
            return self.out.sheet.put(&[kind]);
        };
        self.select_db(db)?;
        if let Some(at) = expire_at_ms {
            // A key whose time came then has expired, and "no expiry" would bring it back.
            let at = if at == NO_EXPIRY { at - 1 } else { at };
            self.out.sheet.put(&[OP_EXPIRE_MS])?;
            self.out.sheet.put(&at.to_le_bytes())?;
        }
        match std::mem::take(&mut self.uses) {
            Uses::Unknown => {}
            Uses::IdleSeconds(seconds) => {
                self.out.sheet.put(&[OP_IDLE])?;
                self.out.length(seconds)?;
            }
            Uses::Frequency(count) => self.out.sheet.put(&[OP_FREQ, count])?,
        }
        self.out.sheet.put(&[kind])?;
        self.out.string(key)
    }

    /// Ends the file: end mark, checksum, everything handed to the output. Returns its length in
    /// bytes. Nothing may be written after it.
    ///
    /// # Errors
    /// Those of the output.
    pub fn finish(&mut self) -> Result<u64, O::Error> {
        self.out.sheet.put(&[OP_EOF])?;
        self.seal()
    }

    /// Ends a payload of one value: version, checksum, everything handed to the output.
    ///
    /// # Errors
    /// Those of the output.
    pub fn finish_payload(&mut self) -> Result<u64, O::Error> {
        self.out.sheet.put(&self.version.number().to_le_bytes())?;
        self.seal()
    }

    fn seal(&mut self) -> Result<u64, O::Error> {
        self.out.sheet.flush()?;
        let checksum = self.out.sheet.flushed_checksum();
        self.out.sheet.put(&checksum.to_le_bytes())?;
        self.out.sheet.flush()?;
        Ok(self.out.sheet.put_bytes())
    }

    /// Bytes written so far, those in the buffer included.
    pub fn written_bytes(&self) -> u64 {
        self.out.sheet.put_bytes()
    }

    /// The output.
    pub fn output(&self) -> &O {
        &self.out.sheet.output
    }

    /// The output, for ending it after [`finish`](Self::finish).
    pub fn output_mut(&mut self) -> &mut O {
        &mut self.out.sheet.output
    }

    /// The output, for good.
    pub fn into_output(self) -> O {
        self.out.sheet.output
    }

    fn select_db(&mut self, db: u64) -> Result<(), O::Error> {
        if self.db != Some(db) {
            self.out.sheet.put(&[OP_SELECT_DB])?;
            self.out.length(db)?;
            self.db = Some(db);
        }
        Ok(())
    }
}
