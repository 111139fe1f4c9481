//! Sans-io codec of the Redis RDB file format: writes versions 10 to 12 and that of Valkey 9, reads
//! versions 1 to 15 and that of Valkey 9.
//!
//! Invariants:
//! - [`Encoder`] allocates, locks and logs nothing after its construction: it runs in a forked
//!   child too. It allocates output buffer, LZF tables and scratch at the start.
//! - [`Decoder`] never panics on what it reads, and no length in a file makes it reserve memory:
//!   its buffers grow with the bytes that arrive.
//! - A file is whole only if [`Event::Eof`] was reached; its checksum covers every byte before.
//!
//! # A file, byte by byte
//!
//! ```text
//! +-----------+---------+-----+--------------------------------------+------+----------+
//! | "REDIS"   | "0010"  | aux | for each run of keys of one database | 0xFF | CRC-64   |
//! | 5 bytes   | 4 digits| ... | ...                                  |      | 8 B, LE  |
//! +-----------+---------+-----+--------------------------------------+------+----------+
//!                                the checksum (Jones, of all before it); 0: none was computed
//!
//! aux      0xFA string string                      a name and its value, informative
//! select   0xFE length                             the database of the keys that follow
//! resize   0xFB length length                      its keys, and how many of them expire (a hint)
//! key      [expiry] [idle | freq] type key value
//!   expiry 0xFC 8 B LE unix ms | 0xFD 4 B LE unix s         -1 ms: none
//!   idle   0xF8 length         ; freq 0xF9 1 B     seconds unused; how often, logarithmic
//! library  0xF5 string                             the source of a library of functions
//! slot     0xF4 length length length               of a cluster: a hint, stepped over
//! metadata 0xF3 length, then what modules say      between expiry and type; from version 13 on
//! template 0xF2                                    names of fields of hashes; see `templates`
//! others   0xF7 module data, 0xF6 functions of a pre-release, 0xF3 of Valkey 9: refused by name
//!
//! value by type
//!    0     string
//!    1  2  length, then that many strings          list, set
//!    4     length, then (field value)              hash, both strings
//!    5     length, then (member 8 B LE)            sorted set, scores as f64
//!    3     length, then (member 1 B text)          ... as text; 253 NaN, 254 inf, 255 -inf
//!    9     string                                  hash, a zipmap
//!   10 11  string                                  list, a ziplist; set, an intset
//!   12 13  string                                  sorted set, hash; ziplists
//!   16 17  string                                  hash, sorted set; listpacks
//!   20     string                                  set; a listpack
//!   14     length, then ziplists                   list, by nodes
//!   18     length, then (1 string | 2 listpack)    list, by nodes of one element or many
//!   15 19 21 26 27                                 stream: see `encode/streams`; 19 is written
//!   24     8 B LE, length, (length field value)    hash, and when fields expire: 0 never, else
//!                                                  one more than unix ms beyond the first 8 bytes
//!   25     8 B LE, string                          ... listpack of fields, values, unix ms or 0
//!   22 23                                          24 and 25 without the 8 bytes, lengths unix ms
//!   22     length, (field value 8 B LE)            in a file of Valkey 9; -1 ms: never
//!   28                                             array: see `arrays`
//!   29 30 31 32                                    hash with a template: see `templates`
//!   7                                              a module's value: refused by key
//!
//! length   00xxxxxx                                6 bits
//!          01xxxxxx 1 B                            14 bits, high bits first
//!          0x80 4 B BE | 0x81 8 B BE               32 or 64 bits
//! string   length, then that many bytes
//!          0xC0 1 B | 0xC1 2 B LE | 0xC2 4 B LE    a signed integer, meaning its decimal text
//!          0xC3 length length bytes                LZF: packed length, plain length, packed bytes
//!
//! LZF      000LLLLL, then L+1 bytes                literals
//!          LLLOOOOO [1 B] 1 B                      L+2 bytes from O+1 bytes back; L=7: add a byte;
//!                                                  O has 13 bits, its low byte comes last
//! ```
//!
//! Types 24 and 25 are written in version 12, and type 22 in Valkey 9's. In 25 the field that
//! expires first comes first, and those that never do come last: Redis relies on that.
//!
//! The packed strings are drawn at the head of `unpack`. A payload of DUMP is a type and a value,
//! the version in 2 B LE, and the CRC-64 of all that, or 0. Version 80 is Valkey 9's.
//!
//! Redis groups the keys of a database; we write a `select` wherever the database changes, because
//! an image comes in the order of slots, which all databases share.

#![forbid(unsafe_code)]

mod arrays;
mod crc64;
mod decode;
mod elements;
mod encode;
mod error;
mod format;
mod lzf;
mod pack;
mod payload;
mod scan;
mod sheet;
mod source;
mod streams;
mod strings;
mod templates;
mod unpack;
mod walk;

pub use arrays::ArrayNumber;
pub use crc64::Crc64;
pub use decode::{Decoder, Event, ValuePlace};
pub use encode::{
    Encoder, HOPELESS, HOPELESS_BEFORE, HashField, Head, NOBODY, Origin, StreamConsumer,
    StreamGroup, StreamValue, Workspace,
};
pub use error::DecodeError;
pub use format::{HEADER_BYTES, Version, file_version};
pub use payload::{PayloadError, finish_payload, has_checksum, libraries, payload_number};
pub use scan::{Database, Summary, scan, scan_keys};
pub use sheet::Output;
pub use source::check_header;
pub use walk::VALUE_TYPES;

/// The value of a key, or of an aux field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Value<'a> {
    /// A string that is an integer in canonical decimal form.
    Int(i64),
    /// Any string of bytes.
    Bytes(&'a [u8]),
}

/// How a key was used, for a server that evicts keys by that.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Uses {
    /// Nothing is known.
    #[default]
    Unknown,
    /// It was not used for this many seconds.
    IdleSeconds(u64),
    /// How often, on a logarithmic scale.
    Frequency(u8),
}

/// What a key holds that is no string.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Collection {
    /// Elements in an order of their own.
    List,
    /// Members.
    Set,
    /// Members in the order of their scores.
    Sorted,
    /// Fields with values.
    Hash,
    /// Entries in the order of their ids, and groups of consumers.
    Stream,
    /// Texts under numbers.
    Array,
}

/// An id: milliseconds, and the number within them.
pub type Id = (u64, u64);

/// The numbers of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StreamHead {
    /// Entries in it.
    pub len: u64,
    /// The id that the next entry's has to exceed.
    pub last: Id,
    /// The first entry's id; zeros without one.
    pub first: Id,
    /// The greatest id that was deleted.
    pub deleted: Id,
    /// Entries that were ever added.
    pub added: u64,
}

/// Several texts, one after the other.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Texts<'a> {
    bytes: &'a [u8],
    /// Where each ends.
    ends: &'a [usize],
}

impl<'a> Texts<'a> {
    /// Texts by what they are together, and where each of them ends.
    #[must_use]
    pub fn new(bytes: &'a [u8], ends: &'a [usize]) -> Self {
        Self { bytes, ends }
    }

    /// How many they are.
    #[must_use]
    pub fn count(self) -> usize {
        self.ends.len()
    }

    /// The text of that number; empty if there are fewer.
    #[must_use]
    pub fn get(self, index: usize) -> &'a [u8] {
        let start = index.checked_sub(1).and_then(|before| self.ends.get(before)).unwrap_or(&0);
        let end = self.ends.get(index);
        end.and_then(|end| self.bytes.get(*start..*end)).unwrap_or_default()
    }
}

/// One element of a collection.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Element<'a> {
    /// An element of a list, or a member of a set.
    One(&'a [u8]),
    /// A field of a hash, and its value.
    Pair(&'a [u8], &'a [u8]),
    /// A field of a hash, its value, and when it expires, in unix milliseconds.
    Expiring(&'a [u8], &'a [u8], i64),
    /// A member of a sorted set, and its score, which is a number.
    Scored(&'a [u8], f64),
    /// An entry of a stream. Ids rise.
    Entry {
        /// Its id.
        id: Id,
        /// The names of its fields.
        names: Texts<'a>,
        /// Their values.
        values: Texts<'a>,
        /// What gives the names, if that is not the entry itself: all entries of this number have
        /// the same ones.
        node: Option<u64>,
    },
    /// The numbers of a stream, behind its entries.
    Head(StreamHead),
    /// A group of consumers of the stream.
    Group {
        /// Its name.
        name: &'a [u8],
        /// The id that was last delivered to it.
        last: Id,
        /// How many entries it has read, if that is known.
        read: Option<u64>,
        /// The form of the stream has room for that number.
        is_told: bool,
    },
    /// An entry that is pending in the group before.
    Pending {
        /// The id of the entry.
        id: Id,
        /// When it was last delivered, in unix milliseconds.
        time_ms: i64,
        /// How often.
        count: u64,
    },
    /// A consumer of the group.
    Consumer {
        /// Its name.
        name: &'a [u8],
        /// When it was last seen, in unix milliseconds.
        seen_ms: i64,
        /// When it last got entries, in unix milliseconds, if it ever did. Forms before that of
        /// Redis 7.2 do not tell: it is then when the consumer was seen, as in Redis.
        active_ms: Option<i64>,
    },
    /// The id of an entry that is pending for the consumer before.
    Owned(Id),
    /// The id of an entry that is pending in the group before, for no consumer.
    Released(Id),
    /// How much of what producers have sent is known on the stream.
    Idmp {
        /// For how many seconds.
        duration_s: u64,
        /// How many messages of each.
        entries: u64,
    },
    /// A producer.
    Producer(&'a [u8]),
    /// A message of the producer before, and the id of its entry.
    Sent(&'a [u8], Id),
    /// An element of an array, behind its index.
    At(u64, &'a [u8]),
    /// Behind all elements of an array: the index that was last inserted at.
    Inserted(u64),
    /// Behind all producers: how many messages were ever added, and how many were sent again.
    IdmpCounts {
        /// Added.
        added: u64,
        /// Sent again.
        duplicates: u64,
    },
}
