//! The errors of a store: what, where, what to do.

use std::fmt;
use std::io::{self, ErrorKind};
use std::path::PathBuf;

use stillframe::{BeginError, CaptureError, MemoryError};

use crate::recovery::Skipped;

/// Why a store could not be opened, or a checkpoint not be made. A failed checkpoint leaves the
/// state and the checkpoints before it as they were.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Another process, or another store of this one, has the directory open.
    #[error(
        "{} is in use by {}; close that one first, or open another directory",
        directory.display(),
        process.map_or_else(|| "another process".into(), |process| format!("process {process}"))
    )]
    Locked {
        /// The directory.
        directory: PathBuf,
        /// The process that holds it, if it could say so.
        process: Option<u32>,
    },
    /// The operating system refused something with a file.
    #[error("{action} {} failed: {source}; {}", path.display(), advice(source))]
    File {
        /// What was tried.
        action: &'static str,
        /// With which file.
        path: PathBuf,
        /// What the operating system says.
        source: io::Error,
    },
    /// The newest checkpoint was written by a later version of this program. An older one may lie
    /// beside it, but to go on from there would throw away the newest state.
    #[error(
        "{} has format version {version} and this program reads up to {supported}; use the \
         program that wrote it",
        path.display()
    )]
    NewerVersion {
        /// The file.
        path: PathBuf,
        /// Its version.
        version: u32,
        /// The newest version this program reads.
        supported: u32,
    },
    /// There are checkpoints, and none is sound. To start empty, move them away.
    #[error(
        "none of the checkpoints in {} is sound ({}); put back a copy of one, or move them away to \
         start empty",
        directory.display(),
        Listed(skipped)
    )]
    NoneSound {
        /// The directory.
        directory: PathBuf,
        /// Every checkpoint there with its damage, newest first.
        skipped: Vec<Skipped>,
    },
    /// The log does not hold what was written.
    #[error("the log {} is damaged: {damage}; put back a copy of it", path.display())]
    Log {
        /// The segment.
        path: PathBuf,
        /// What is wrong with it.
        damage: crate::log::damage::Damage,
    },
    /// No memory for the state.
    #[error("no memory for the state: {0}")]
    Memory(#[from] MemoryError),
    /// No thread for the snapshotter or the schedule.
    #[error("no thread for checkpoints: {0}; raise the limit of threads")]
    Thread(#[source] io::Error),
    /// The image for a checkpoint could not be begun.
    #[error("checkpoint {number} could not begin: {source}; those before it are intact")]
    Begin {
        /// Number of the checkpoint.
        number: u64,
        /// Why.
        source: BeginError,
    },
    /// The image was not captured whole.
    #[error("checkpoint {number} was given up: {source}; those before it are intact")]
    Capture {
        /// Number of the checkpoint.
        number: u64,
        /// Why.
        source: CaptureError,
    },
}

impl Error {
    /// For `map_err`: `action` on `path` failed.
    pub(crate) fn file(
        action: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::File { action, path, source }
    }
}

fn advice(error: &io::Error) -> &'static str {
    match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge => {
            "free space there, then try again"
        }
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => {
            "allow this process to write there"
        }
        ErrorKind::NotFound => "check the path, and put back what was moved away",
        ErrorKind::NotADirectory | ErrorKind::AlreadyExists | ErrorKind::IsADirectory => {
            "name a directory of its own for the store"
        }
        _ => "check the disk",
    }
}

struct Listed<'a>(&'a [Skipped]);

impl fmt::Display for Listed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, skipped) in self.0.iter().enumerate() {
            write!(f, "{}{skipped}", if index == 0 { "" } else { "; " })?;
        }
        Ok(())
    }
}
