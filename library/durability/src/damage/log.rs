//! What can be wrong with a segment of the log, by byte offset.

/// Why a log cannot be read to its end.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Damage {
    /// The file ends within its header.
    #[error("byte {length}: the file ends within its header")]
    HeaderCut {
        /// Its length.
        length: usize,
    },
    /// The file does not start with the magic.
    #[error("byte 0: this is not a segment of a log, its magic is missing")]
    Magic,
    /// The header is not what was written.
    #[error("byte 60: the checksum of the header, bytes 0 to 59, does not match")]
    HeaderChecksum,
    /// The segment is sound as far as one can see, but of a later format.
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
    /// The header is what was written, and makes no sense.
    #[error("byte 8: the header holds values that no program writes")]
    Fields,
    /// The number in the header is not the one in the file's name.
    #[error("byte 16: this segment begins with record {first}, and its name says {named}")]
    Misnamed {
        /// Number in the header.
        first: u64,
        /// Number in the name.
        named: u64,
    },
    /// A record that was on the disk is gone.
    #[error(
        "byte {offset}: record {sequence} is not what was written, and records up to {last} were \
         on the disk"
    )]
    Record {
        /// Where the record starts, or started.
        offset: usize,
        /// Its number: the first that is lost.
        sequence: u64,
        /// The last record that is proved to have been on the disk.
        last: u64,
    },
    /// A checkpoint says that there was a log, and there is none.
    #[error("the log from record {from} on is in no file")]
    Gone {
        /// The first that is lost, if there ever was one.
        from: u64,
    },
    /// The log begins too late.
    #[error("records {from} to {to} are in no file")]
    Missing {
        /// The first that is lost.
        from: u64,
        /// The last that is lost.
        to: u64,
    },
}
