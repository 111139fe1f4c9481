//! What can be wrong with a checkpoint file, by byte offset.

use std::fmt;
use std::path::PathBuf;

/// Why a file is not a valid checkpoint.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Damage {
    /// The file does not start with the magic.
    #[error("byte 0: this is not a checkpoint, its magic is missing")]
    Magic,
    /// The file is sound as far as one can see, but of a later format.
    #[error(
        "byte 8: the format is version {version} and this program reads up to {supported}; use the \
         program that wrote it"
    )]
    NewerVersion {
        /// Version of the file.
        version: u32,
        /// Newest version this program reads.
        supported: u32,
    },
    /// The header is not what was written.
    #[error("byte 60: the checksum of the header, bytes 0 to 59, does not match")]
    HeaderChecksum,
    /// A later part of the header is not what was written.
    #[error(
        "byte {}: the checksum of the header, bytes {start} to {}, does not match", end - 4, end - 5
    )]
    PartChecksum {
        /// Where the part starts.
        start: u64,
        /// Where it ends, with its checksum.
        end: u64,
    },
    /// The header is what was written, and makes no sense.
    #[error("byte {offset}: the {field} is {value}, which no program writes")]
    Field {
        /// Where.
        offset: u64,
        /// Which field.
        field: &'static str,
        /// Its value.
        value: u64,
    },
    /// The number in the header is not the one in the file's name.
    #[error("byte 24: this is checkpoint {number}, and its name says {named}")]
    Misnamed {
        /// Number in the header.
        number: u64,
        /// Number in the name.
        named: u64,
    },
    /// The file is too short.
    #[error("byte {length}: the file ends here instead of at byte {expected}")]
    Truncated {
        /// Its length.
        length: u64,
        /// The length it should have.
        expected: u128,
    },
    /// The file is too long.
    #[error("byte {expected}: the checkpoint ends here and the file goes on to byte {length}")]
    Trailing {
        /// Its length.
        length: u64,
        /// The length it should have.
        expected: u128,
    },
    /// A block is not the one that belongs there.
    #[error("byte {offset}: the head of block {block} names another place or length")]
    BlockHead {
        /// Where the block starts.
        offset: u64,
        /// Which block, from 0.
        block: u64,
    },
    /// A block goes on beyond the end of the file.
    #[error("byte {offset}: block {block} ends at byte {end}, and the file at byte {length}")]
    BlockCut {
        /// Where the block starts.
        offset: u64,
        /// Which block, from 0.
        block: u64,
        /// Where it should end.
        end: u64,
        /// Length of the file.
        length: u64,
    },
    /// A block is what was written, and makes no sense.
    #[error("byte {offset}: block {block} has {what}, which no program writes")]
    BlockContent {
        /// Where the block starts.
        offset: u64,
        /// Its length with its head.
        bytes: u64,
        /// Which block, from 0.
        block: u64,
        /// What is wrong with it.
        what: &'static str,
    },
    /// A block is not what was written.
    #[error(
        "bytes {offset} to {last}: the checksum of block {block} does not match",
        last = offset + bytes - 1
    )]
    BlockChecksum {
        /// Where the block starts.
        offset: u64,
        /// Its length with its head.
        bytes: u64,
        /// Which block, from 0.
        block: u64,
    },
    /// The footer does not repeat what the header says.
    #[error("byte {offset}: the footer does not agree with the header")]
    Footer {
        /// Where the footer starts.
        offset: u64,
    },
    /// The digest of the whole file does not match.
    #[error("byte {offset}: the digest of all bytes before does not match")]
    Digest {
        /// Where the digest is.
        offset: u64,
    },
    /// The checkpoint that an increment builds on is not there.
    #[error("byte 104: this is an increment, and what it builds on, checkpoint {base}, is missing")]
    BaseMissing {
        /// Number of that checkpoint.
        base: u64,
    },
    /// There is a checkpoint with that number, but another one.
    #[error("byte 112: this is an increment of another checkpoint than the {base} that is here")]
    BaseIsAnother {
        /// Number of that checkpoint.
        base: u64,
    },
    /// The checkpoint that an increment builds on cannot be read.
    #[error("byte 104: this is an increment, and what it builds on, checkpoint {base}, is damaged")]
    BaseDamaged {
        /// Number of that checkpoint.
        base: u64,
    },
    /// The disk did not give the bytes.
    #[error("byte {offset}: reading failed: {message}")]
    Unreadable {
        /// Where.
        offset: u64,
        /// What the operating system said.
        message: String,
    },
}

impl Damage {
    /// Whether it is not the file that is wrong, but what it builds on.
    pub(crate) fn is_of_chain(&self) -> bool {
        matches!(
            self,
            Self::BaseMissing { .. } | Self::BaseIsAnother { .. } | Self::BaseDamaged { .. }
        )
    }
}

/// A damaged checkpoint that recovery passed over.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Skipped {
    /// Its number.
    pub number: u64,
    /// Where it is now.
    pub path: PathBuf,
    /// What is wrong with it.
    pub damage: Damage,
}

impl fmt::Display for Skipped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path.display(), self.damage)
    }
}
