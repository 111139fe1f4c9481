//! The reader of RDB files: one event after the other, from any [`Read`].

use std::io::Read;

use crate::elements::Elements;
use crate::error::Problem;
use crate::format::*;
use crate::payload::{Checked, PayloadError, verified, versioned};
use crate::source::{Source, damaged, trim};
use crate::walk::{metadata, module_value, unknown_type, value};
use crate::{Collection, DecodeError, Element, Uses, Value};

/// What comes next in a file. Slices live until the next call.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum Event<'a> {
    /// An aux field: information about the file. Unknown ones are to be ignored.
    Aux {
        /// Its name.
        name: &'a [u8],
        /// Its value.
        value: Value<'a>,
    },
    /// A library of functions.
    Library {
        /// Its source.
        source: &'a [u8],
    },
    /// The keys that follow belong to database `db`.
    SelectDb {
        /// Its number, as large as the file says.
        db: u64,
    },
    /// How many keys the selected database has. A hint: a file may lie.
    ResizeDb {
        /// Keys, with or without an expiry.
        keys: u64,
        /// Keys with an expiry.
        expires: u64,
    },
    /// A key and its value, a string.
    Entry {
        /// The database it belongs to.
        db: u64,
        /// The key.
        key: &'a [u8],
        /// The value.
        value: Value<'a>,
        /// When it expires, in unix milliseconds.
        expire_at_ms: Option<i64>,
        /// How it was used.
        uses: Uses,
    },
    /// A key whose value is a collection: its elements follow, then [`End`](Event::End).
    Begin {
        /// The database it belongs to.
        db: u64,
        /// The key.
        key: &'a [u8],
        /// What it holds.
        kind: Collection,
        /// About how many elements follow. A hint: of a large list it is the number of nodes, and a
        /// file may lie.
        len_hint: u64,
        /// When it expires, in unix milliseconds.
        expire_at_ms: Option<i64>,
        /// How it was used.
        uses: Uses,
    },
    /// The next element of the collection. A file may hold a member or field twice.
    Element(Element<'a>),
    /// The collection has no more elements.
    End,
    /// A value of a type that this server does not have was stepped over, or data of a module.
    Skipped {
        /// What it is.
        what: &'static str,
        /// The database it belongs to.
        db: u64,
        /// The key; `None`: it belongs to no key.
        key: Option<&'a [u8]>,
    },
    /// The end: the file is whole. One more call reports bytes that should not follow.
    Eof {
        /// Whether there was a checksum, and it was right. It is absent (0, or a version before 5)
        /// when the writer's settings turned it off.
        verified: bool,
    },
}

/// Reads an RDB file.
///
/// ```
/// # use stillframe_rdb::{Decoder, Encoder, Event, Origin, Value};
/// # let mut file = Vec::new();
/// # let mut encoder = Encoder::new(&mut file);
/// # encoder.begin(&Origin { created_s: 0, used_memory_bytes: 0, aof_base: false })?;
/// # encoder.entry(3, b"k", Value::Int(7), None)?;
/// # encoder.finish()?;
/// let mut decoder = Decoder::new(&file[..]);
/// while let Some(event) = decoder.next()? {
///     if let Event::Entry { db, key, value, .. } = event {
///         assert_eq!((db, key, value), (3, &b"k"[..], Value::Int(7)));
///     }
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Decoder<R> {
    source: Source<R>,
    state: State,
    db: u64,
    key: Vec<u8>,
    value: Vec<u8>,
    elements: Elements,
    /// Between the beginning and the end of a collection.
    inside: bool,
    /// Values that are refused by name are stepped over.
    skips: bool,
    /// The version of the file or payload; 0 before it is known.
    version: u32,
    place: ValuePlace,
}

/// Where the value of a key stands in a file: its type, and the offset behind the key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ValuePlace {
    /// The byte that names its type.
    pub kind: u8,
    /// Where its bytes begin. They end at [`Decoder::offset`] once the value was read.
    pub offset: u64,
}

#[derive(Debug)]
enum State {
    Start,
    Body,
    /// A payload's value comes next.
    Payload,
    Ended,
}

impl<'a> Decoder<&'a [u8]> {
    /// A decoder of DUMP's payload: one value, reported with an empty key and database 0.
    ///
    /// # Errors
    /// [`PayloadError`]: version and checksum are checked first.
    pub fn of_payload(payload: &'a [u8]) -> Result<Self, PayloadError> {
        verified(payload).map(Self::of_checked)
    }

    /// As [`of_payload`](Self::of_payload), whatever the checksum says: for tests of what is made
    /// of damaged values.
    ///
    /// # Errors
    /// [`PayloadError`]: the version is checked first.
    pub fn of_unverified_payload(payload: &'a [u8]) -> Result<Self, PayloadError> {
        versioned(payload).map(Self::of_checked)
    }

    fn of_checked(payload: Checked<'a>) -> Self {
        let (value, version) = (payload.value, payload.version);
        let mut decoder = Decoder { state: State::Payload, version, ..Self::new(value) };
        decoder.source.set_dialect(payload.dialect());
        decoder.with_file_bytes(value.len() as u64)
    }
}

impl<R: Read> Decoder<R> {
    /// A decoder at the start of a file. It buffers: `reader` need not.
    pub fn new(reader: R) -> Self {
        Decoder {
            source: Source::new(reader),
            state: State::Start,
            db: 0,
            key: Vec::new(),
            value: Vec::new(),
            elements: Elements::up_to(u64::MAX),
            inside: false,
            skips: false,
            version: 0,
            place: ValuePlace::default(),
        }
    }

    /// Makes it step over values of modules, which it tells of, and over what these keep beside
    /// keys.
    pub fn skip_modules(&mut self) {
        self.skips = true;
    }

    /// The format of the file or payload, as far as it was read, in words.
    pub fn format(&self) -> String {
        format!("{} version {}", self.source.dialect().word(), self.version)
    }

    /// The version that a payload states which is made of bytes of this file.
    pub fn version(&self) -> u32 {
        self.version
    }

    /// Where the value of the last key stands: with `payload_head` and `version`, enough for a
    /// payload of it.
    pub fn value_place(&self) -> ValuePlace {
        self.place
    }

    /// What a payload of the last value begins with, before the bytes from its place on: its type,
    /// and names of fields that stand elsewhere in the file.
    pub fn payload_head(&self) -> Vec<u8> {
        self.elements.payload_head(self.place.kind)
    }

    /// Sets the file's length in bytes, so that a string that runs past its end is refused before
    /// the rest of the file is read into memory.
    #[must_use]
    pub fn with_file_bytes(mut self, bytes: u64) -> Self {
        self.source.set_file_bytes(bytes);
        self
    }

    /// Bytes consumed: where the next event starts.
    pub fn offset(&self) -> u64 {
        self.source.offset()
    }

    /// The next event, or `None` behind the end.
    ///
    /// # Errors
    /// See [`DecodeError`]. Nothing can be read after one.
    #[allow(clippy::should_implement_trait)] // an iterator's items could not borrow from it
    pub fn next(&mut self) -> Result<Option<Event<'_>>, DecodeError> {
        if self.inside {
            return self.element().map(Some);
        }
        match self.state {
            State::Payload => {
                self.state = State::Ended;
                let at = self.source.offset();
                let kind = self.source.op()?;
                if kind == OP_KEY_META && self.is_redis() {
                    return Err(self.unsupported(0, METADATA));
                }
                return self.value(kind, [at, at], None, Uses::Unknown).map(Some);
            }
            State::Start => {
                self.version = self.source.header()?;
                self.state = State::Body;
            }
            State::Body => {}
            State::Ended => {
                let offset = self.source.offset();
                return match self.source.next_byte()? {
                    None => Ok(None),
                    Some(_) => Err(DecodeError::TrailingBytes { offset }),
                };
            }
        }
        trim(&mut self.key);
        trim(&mut self.value);
        self.event().map(Some)
    }

    fn event(&mut self) -> Result<Event<'_>, DecodeError> {
        let offset = self.source.offset();
        let (mut expire_at_ms, mut uses) = (None, Uses::Unknown);
        // Whether an expiry or eviction hint was read, so that a key must follow.
        let (mut inside_entry, mut has_metadata) = (false, false);
        loop {
            let at = self.source.offset();
            let op = self.source.op()?;
            match op {
                OP_EXPIRE_MS => expire_at_ms = self.source.expiry_ms()?,
                OP_EXPIRE_S => {
                    let seconds = i32::from_le_bytes(self.source.array("an expiry")?);
                    expire_at_ms = Some(i64::from(seconds) * 1000);
                }
                OP_IDLE => {
                    uses = Uses::IdleSeconds(self.source.length("the idle time of a key")?);
                }
                OP_FREQ => {
                    let [count] = self.source.array("the use count of a key")?;
                    uses = Uses::Frequency(count);
                }
                OP_KEY_META if self.is_redis() => {
                    metadata(&mut self.source)?;
                    has_metadata = !self.skips;
                }
                OP_AUX..=OP_EOF | OP_HASH_TEMPLATE..=OP_MODULE_AUX if inside_entry => {
                    let text = format!("byte 0x{op:02x} stands between a key's expiry and the key");
                    return Err(damaged(at, text));
                }
                OP_AUX => return self.aux(),
                OP_SELECT_DB => {
                    self.db = self.source.length("the number of a database")?;
                    return Ok(Event::SelectDb { db: self.db });
                }
                OP_RESIZE_DB => {
                    let keys = self.source.length("the number of keys")?;
                    let expires = self.source.length("the number of expiring keys")?;
                    return Ok(Event::ResizeDb { keys, expires });
                }
                OP_EOF => {
                    self.state = State::Ended;
                    return Ok(Event::Eof { verified: self.source.end(self.version)? });
                }
                OP_FUNCTION => {
                    self.source.text(&mut self.value)?;
                    return Ok(Event::Library { source: &self.value });
                }
                OP_SLOT_INFO => self.source.slot_info()?,
                OP_MODULE_AUX if self.skips => return self.skipped_section(),
                OP_HASH_TEMPLATE if self.is_redis() => {
                    self.elements.read_template(&mut self.source)?;
                }
                OP_SLOT_IMPORT | OP_FUNCTION_PRERELEASE | OP_MODULE_AUX => {
                    return Err(self.refused_section(op, offset)?);
                }
                kind => {
                    if self.reads(kind) || has_metadata {
                        self.source.text(&mut self.key)?;
                    }
                    if has_metadata {
                        return Err(self.unsupported(offset, METADATA));
                    }
                    return self.value(kind, [offset, at], expire_at_ms, uses);
                }
            }
            inside_entry = !matches!(op, OP_SLOT_INFO | OP_HASH_TEMPLATE);
        }
    }

    fn aux(&mut self) -> Result<Event<'_>, DecodeError> {
        self.source.text(&mut self.key)?;
        let integer = self.source.string(&mut self.value)?;
        let value = integer.map_or(Value::Bytes(&self.value), Value::Int);
        Ok(Event::Aux { name: &self.key, value })
    }

    /// The value of type `kind` of the key just read, whose record and type are at these offsets.
    fn value(
        &mut self,
        kind: u8,
        [offset, at]: [u64; 2],
        expire_at_ms: Option<i64>,
        uses: Uses,
    ) -> Result<Event<'_>, DecodeError> {
        let db = self.db;
        self.place = ValuePlace { kind, offset: self.source.offset() };
        if kind == TYPE_STRING {
            let integer = self.source.string(&mut self.value)?;
            let value = integer.map_or(Value::Bytes(&self.value), Value::Int);
            return Ok(Event::Entry { db, key: &self.key, value, expire_at_ms, uses });
        }
        if !Elements::know(kind, self.source.dialect()) {
            if self.skips && kind == TYPE_MODULE {
                return self.skipped(kind);
            }
            return Err(self.refused_type(kind, offset, at)?);
        }
        let begun = self.elements.begin(&mut self.source, kind);
        if kind == TYPE_HASH_TEMPLATE_PLAIN_REF {
            self.place.offset = self.source.offset(); // behind the number of its template
        }
        let (kind, len_hint) = begun.map_err(|problem| named(db, &self.key, problem))?;
        self.inside = true;
        Ok(Event::Begin { db, key: &self.key, kind, len_hint, expire_at_ms, uses })
    }

    /// The next element of the collection that was begun.
    fn element(&mut self) -> Result<Event<'_>, DecodeError> {
        match self.elements.next(&mut self.source) {
            Ok(Some(element)) => Ok(Event::Element(element)),
            Ok(None) => {
                self.inside = false;
                Ok(Event::End)
            }
            Err(problem) => Err(named(self.db, &self.key, problem)),
        }
    }

    /// Whether this server has values of type `kind`.
    fn reads(&self, kind: u8) -> bool {
        kind == TYPE_STRING || Elements::know(kind, self.source.dialect())
    }

    /// Whether types and opcodes are those of Redis.
    fn is_redis(&self) -> bool {
        self.source.dialect() == Dialect::Redis
    }

    /// Steps over data of a module.
    fn skipped_section(&mut self) -> Result<Event<'_>, DecodeError> {
        module_value(&mut self.source)?;
        Ok(Event::Skipped { what: "data of a module", db: self.db, key: None })
    }

    /// Steps over the key and value of type `kind`.
    fn skipped(&mut self, kind: u8) -> Result<Event<'_>, DecodeError> {
        self.source.text(&mut self.key)?;
        value(&mut self.source, kind)?;
        Ok(Event::Skipped { what: "a value of a module", db: self.db, key: Some(&self.key) })
    }

    /// The error that the key, whose record starts at `offset`, is `kind`.
    fn unsupported(&self, offset: u64, kind: &str) -> DecodeError {
        let (db, key, kind) = (self.db, shown(&self.key), kind.to_owned());
        DecodeError::UnsupportedType { offset, db, key, kind }
    }

    /// The error that names the key of type `kind`, whose record starts at `offset`.
    fn refused_type(&mut self, kind: u8, offset: u64, at: u64) -> Result<DecodeError, DecodeError> {
        let name = type_name(kind, self.source.dialect());
        let is_module = matches!(kind, TYPE_MODULE | TYPE_MODULE_PRERELEASE);
        if name.is_none() && !is_module {
            return Ok(unknown_type(kind, at));
        }
        if matches!(self.state, State::Body) {
            self.source.text(&mut self.key)?;
        }
        let kind = match name {
            Some(name) => format!("{name}, of {}", self.format()),
            None => {
                let id = self.source.length("the type of a module")?;
                format!("a value of module type \"{}\" (there are no modules)", module_name(id))
            }
        };
        Ok(self.unsupported(offset, &kind))
    }

    /// The error that names the function library or module data at `offset`.
    fn refused_section(&mut self, op: u8, offset: u64) -> Result<DecodeError, DecodeError> {
        let what = if op == OP_SLOT_IMPORT {
            "the import of a slot of a cluster".to_owned()
        } else if op == OP_MODULE_AUX {
            let id = self.source.length("the type of a module")?;
            format!("data of module type \"{}\" (there are no modules)", module_name(id))
        } else {
            // The code of a library (before 7.0's release: its name) comes first.
            self.source.text(&mut self.value)?;
            let first_line = self.value.split(|&byte| byte == b'\n').next().unwrap_or_default();
            format!("function library \"{}\" of a pre-release of Redis 7", shown(first_line))
        };
        Ok(DecodeError::UnsupportedSection { offset, what })
    }
}

/// In words what a key with metadata is.
const METADATA: &str = "a value with metadata of a module";

/// The error that reports `problem` of a key.
pub(crate) fn named(db: u64, key: &[u8], problem: Problem) -> DecodeError {
    match problem {
        Problem::File(error) => error,
        Problem::Value { offset, what } => {
            DecodeError::DamagedValue { offset, db, key: shown(key), what }
        }
    }
}
