//! Why an image is not saved, or not loaded.

use std::fmt;

use rustix::io::Errno;
use stillframe::{BeginError, CaptureError, MemoryError, SinkError};
use stillframe_commands::values;
use stillframe_durability::Error;
use stillframe_keyspace::DATABASES;
use stillframe_rdb::DecodeError;

/// Why there is no new dump file.
#[derive(Debug, thiserror::Error)]
pub enum SaveError {
    /// A file or directory refuses something.
    #[error(transparent)]
    File(Box<Error>),
    /// The part before the first key cannot be written.
    #[error(transparent)]
    Head(#[from] SinkError),
    /// `rdb-version` has no form for the data.
    #[error("rdb-version is {version}, which cannot hold {what}: {count}; {}", what.advice())]
    Version {
        /// The version that is set.
        version: u16,
        /// What it cannot hold.
        what: Unheld,
        /// How many keys have it.
        count: usize,
    },
    /// There can be no image now.
    #[error(transparent)]
    Begin(#[from] BeginError),
    /// The image was not taken whole.
    #[error(transparent)]
    Capture(#[from] CaptureError),
    /// Records that are in the image are not durable.
    #[error("the log does not hold what is in the image: {0}")]
    Log(#[source] Box<Error>),
    /// A member of a group takes images when the group wants them.
    #[error("a member of a group saves by BGSAVE alone, and its log is the group's")]
    OfAGroup,
    /// The thread that takes images reported nothing.
    #[error("the save ended without a report")]
    Silence,
    /// It failed while a client waited for it.
    #[error("the save failed; see the log")]
    Logged,
}

/// What some versions of files cannot hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unheld {
    /// Hashes with fields that expire.
    Fields,
    /// Streams with entries that are pending for nobody.
    Released,
    /// Arrays.
    Arrays,
}

impl Unheld {
    fn advice(self) -> &'static str {
        match self {
            Self::Fields => "set rdb-version to auto, 12 or 80",
            Self::Released | Self::Arrays => "set rdb-version to auto or 14",
        }
    }
}

impl fmt::Display for Unheld {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Arrays => "arrays, and there are some",
            Self::Fields => "fields that expire, and there are hashes with such fields",
            Self::Released => {
                "entries that XNACK has released, and there are streams with such entries"
            }
        })
    }
}

impl From<Error> for SaveError {
    fn from(error: Error) -> Self {
        Self::File(error.into())
    }
}

impl SaveError {
    /// Whether there was no room on the disk.
    pub fn is_for_want_of_room(&self) -> bool {
        match self {
            Self::File(error) => error.wants_room(),
            Self::Capture(CaptureError::Sink(error)) => {
                // A sink may have failed without the system.
                [Errno::NOSPC, Errno::DQUOT].map(Errno::raw_os_error).contains(&error.errno())
            }
            _ => false,
        }
    }
}

/// Why a dump file cannot be loaded.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// It cannot be opened.
    #[error(transparent)]
    File(#[from] Error),
    /// Its content cannot be loaded.
    #[error(transparent)]
    Entry(#[from] EntryError),
}

/// Why the next part of an RDB file cannot be loaded.
#[derive(Debug, thiserror::Error)]
pub enum EntryError {
    /// The bytes are at fault.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// A collection is malformed.
    #[error(transparent)]
    Collection(#[from] values::LoadError),
    /// There is no memory.
    #[error(transparent)]
    Memory(MemoryError),
    /// The field for a position in a log is malformed.
    #[error("the position in a log, before offset {offset}, is none")]
    Position {
        /// Where the field ends, at most.
        offset: u64,
    },
    /// A field about what databases share is malformed.
    #[error("a field about branches, before offset {offset}, is none")]
    Branches {
        /// Where the field ends, at most.
        offset: u64,
    },
    /// A key that several databases share is not there in each.
    #[error("key \"{key}\" is shared by databases, and something else is at offset {offset}")]
    NotShared {
        /// The key, escaped.
        key: String,
        /// Where it should be.
        offset: u64,
    },
    /// A key is in the file twice.
    #[error("key \"{key}\" at offset {offset} is there for a second time")]
    Again {
        /// The key, escaped.
        key: String,
        /// Its offset.
        offset: u64,
    },
    /// The file has more databases.
    #[error("database {db} at offset {offset} is beyond the {DATABASES}")]
    Database {
        /// Its number.
        db: u64,
        /// Its offset.
        offset: u64,
    },
}

impl EntryError {
    /// A key is there twice.
    pub(crate) fn again(key: &[u8], offset: u64) -> Self {
        Self::Again { key: key.escape_ascii().to_string(), offset }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_is_wanted_by_what_the_system_has_refused_alone() {
        let failed = |errno| {
            let error = SinkError::from_errno(format_args!("writing"), errno);
            SaveError::Capture(CaptureError::Sink(error)).is_for_want_of_room()
        };
        assert!(failed(Errno::NOSPC.raw_os_error()));
        assert!(!failed(Errno::IO.raw_os_error()));
        assert!(!failed(0), "an image that was given up has no code");
    }
}
