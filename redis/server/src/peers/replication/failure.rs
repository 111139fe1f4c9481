//! Why a replica cannot go on with its primary.

use std::error::Error;
use std::io;

use rustix::io::Errno;
use stillframe_rdb::DecodeError;

/// Why the connection cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    #[error("the connection is ended, as a client wishes")]
    Wished,
    #[error("cannot connect: {0}")]
    NotConnected(#[source] io::Error),
    #[error("it has closed the connection")]
    Closed,
    #[error("the connection failed: {0}")]
    Connection(#[source] io::Error),
    #[error("{doing} (repl-timeout)")]
    Silent { doing: &'static str },
    #[error("its answer is no line")]
    NoLine,
    #[error("it refuses to serve: {answer}")]
    Refused { answer: String },
    #[error("Unable to AUTH to MASTER: {answer}")]
    Stranger { answer: String },
    #[error("it cannot send its data now: {answer}")]
    NotNow { answer: String },
    #[error("its answer is unknown: {answer}")]
    Unknown { answer: String },
    #[error("it cannot send an image: {answer}")]
    NoImage { answer: String },
    #[error("its image has no mark: {answer}")]
    NoMark { answer: String },
    #[error("the length of its image is none: {answer}")]
    NoLength { answer: String },
    #[error("its image cannot be kept in a file: {0}")]
    NotKept(#[from] stillframe_durability::Error),
    #[error("its image cannot be kept in a file: {0}")]
    NotWritten(#[source] io::Error),
    #[error("its image cannot be read: {0}")]
    Unreadable(#[source] DecodeError),
    #[error("its image cannot be loaded: {0}")]
    NotLoaded(#[source] Box<dyn Error + Send + Sync>),
    #[error("{0}")]
    Stream(#[source] Box<dyn Error + Send + Sync>),
}

impl Failure {
    /// Whether the received bytes are unusable: only an image can help, and perhaps not soon.
    pub(crate) fn is_bad(&self) -> bool {
        matches!(self, Self::Unknown { .. } | Self::NotLoaded(_) | Self::Stream(_))
    }
}

impl From<Errno> for Failure {
    fn from(error: Errno) -> Self {
        io::Error::from(error).into()
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::UnexpectedEof => Self::Closed,
            _ => Self::Connection(error),
        }
    }
}
