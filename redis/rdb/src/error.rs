//! What can be wrong with a file: one sentence each, with its offset.

use std::io;

use thiserror::Error;

use crate::format::{VALKEY_VERSION, VERSION_READ_MAX};

/// A file that cannot be read to its end. Offsets are in bytes from the start of the file.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// The operating system did not give the bytes.
    #[error("cannot read on at byte {offset}: {source}")]
    Read {
        /// Where reading stopped.
        offset: u64,
        /// Why.
        source: io::Error,
    },
    /// The file is something else, or empty.
    #[error(
        "not an RDB file: it does not start with \"REDIS\" and four digits, or \"VALKEY\" and three"
    )]
    NotRdb,
    /// The file was written by a newer server.
    #[error(
        "{writer} version {found} cannot be read: RDB versions 1 to {VERSION_READ_MAX} and VALKEY \
         version {VALKEY_VERSION} can{}",
        advice(*found)
    )]
    UnsupportedVersion {
        /// By which word it starts.
        writer: &'static str,
        /// The version the file claims.
        found: u32,
    },
    /// The bytes make no sense, or end too early.
    #[error("damaged at byte {offset}: {what}")]
    Damaged {
        /// Where the part that makes no sense starts.
        offset: u64,
        /// What was found and what was expected.
        what: String,
    },
    /// All bytes make sense, and yet they are not those that were written.
    #[error(
        "damaged somewhere before byte {offset}: the bytes have checksum {computed:016x}, \
         written was {written:016x} (RDB CRC error)"
    )]
    Checksum {
        /// Where the checksum stands.
        offset: u64,
        /// That of the bytes read.
        computed: u64,
        /// That in the file.
        written: u64,
    },
    /// The value of a key makes no sense, though all that holds it does.
    #[error("damaged at byte {offset}: key \"{key}\" of database {db} holds {what}")]
    DamagedValue {
        /// Where the part that makes no sense starts.
        offset: u64,
        /// The key's database.
        db: u64,
        /// The key, escaped, and cut if it is long.
        key: String,
        /// What was found.
        what: String,
    },
    /// A key holds a type of value that this crate does not read.
    #[error(
        "key \"{key}\" of database {db} at byte {offset} is {kind}, which this server cannot hold"
    )]
    UnsupportedType {
        /// Where the key's record starts.
        offset: u64,
        /// Its database.
        db: u64,
        /// The key, escaped, and cut if it is long.
        key: String,
        /// The type in words.
        kind: String,
    },
    /// The file holds something other than keys that this crate does not read.
    #[error("{what}, at byte {offset}, cannot be loaded by this server")]
    UnsupportedSection {
        /// Where it starts.
        offset: u64,
        /// What it is, by name.
        what: String,
    },
    /// A key is there twice.
    #[error("key \"{key}\" of database {db} at byte {offset} is there for a second time")]
    Again {
        /// Where the second one starts.
        offset: u64,
        /// Its database.
        db: u64,
        /// The key, escaped, and cut if it is long.
        key: String,
    },
    /// The file is whole, and more follows.
    #[error("the file goes on at byte {offset}, behind its end mark and checksum")]
    TrailingBytes {
        /// Where it should have ended.
        offset: u64,
    },
}

fn advice(found: u32) -> &'static str {
    if found == 0 {
        return "";
    }
    "; a newer server wrote it: import the append-only file that it writes with \
     aof-use-rdb-preamble no"
}

/// Why there is no next element.
#[derive(Debug)]
pub(crate) enum Problem {
    /// The file is at fault.
    File(DecodeError),
    /// The bytes of the value are at fault, at this offset: to be reported with its key.
    Value { offset: u64, what: String },
}

impl From<DecodeError> for Problem {
    fn from(error: DecodeError) -> Self {
        Problem::File(error)
    }
}
