//! Why a data directory cannot be opened, loaded or saved.

use std::io;
use std::path::PathBuf;

use stillframe_durability::Error;
use stillframe_keyspace::CreateError;

use crate::journal::LogError;

mod dump;

pub use dump::{EntryError, LoadError, SaveError, Unheld};

/// Storage that cannot be opened, or cannot go on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StorageError {
    /// The data directory cannot be used.
    #[error("cannot use the data directory {}: {error}; choose another with --dir", path.display())]
    Directory {
        /// The directory.
        path: PathBuf,
        /// The operating system's error.
        error: io::Error,
    },
    /// Another server uses the directory.
    #[error("another server (process {owner}) uses the data directory {}; stop it or choose \
             another directory with --dir", path.display())]
    Locked {
        /// The directory.
        path: PathBuf,
        /// The other server's process.
        owner: String,
    },
    /// The data directory is that of a program that embeds the library.
    #[error(
        "{} holds the state of {application}, which keeps it in a Store; name another directory \
         (--dir)",
        path.display()
    )]
    OfAStore {
        /// The directory.
        path: PathBuf,
        /// Its application.
        application: String,
    },
    /// There is data where a first dump is to be made.
    #[error(
        "{} is there already; import into another data directory (--dir), or move it away",
        path.display()
    )]
    Occupied {
        /// The dump file.
        path: PathBuf,
    },
    /// Memory or threads for the keyspace cannot be had.
    #[error("cannot create the keyspace: {0}")]
    Keyspace(#[from] CreateError),
    /// The dump file cannot be loaded.
    #[error("cannot load {}: {problem}; the file was left as it is", path.display())]
    Load {
        /// The file.
        path: PathBuf,
        /// What is wrong with it and where.
        #[source]
        problem: Box<LoadError>,
    },
    /// The log is damaged.
    #[error("cannot use the log: {0} (to go on without what is damaged: --accept-log-loss yes)")]
    DamagedLog(#[source] Box<Error>),
    /// The log cannot be used.
    #[error("cannot use the log: {0}")]
    Log(#[source] Box<LogError>),
    /// The log, or the image that it is to continue, cannot be begun.
    #[error("cannot use the log: {0}")]
    BeginLog(#[source] Box<SaveError>),
    /// The image that a new log is to continue has failed.
    #[error("cannot use the log: the image that it is to continue could not be saved; see above")]
    LogWithoutImage,
    /// A Redis server's append-only files are where the log goes.
    #[error(
        "{} belongs to a Redis server: import its data with 'stillframe import' into another data \
         directory, or choose another --appenddirname",
        path.display()
    )]
    ForeignLog {
        /// The manifest that was found.
        path: PathBuf,
    },
    /// The data cannot be saved.
    #[error("cannot write {}: {problem}", path.display())]
    Save {
        /// The dump file.
        path: PathBuf,
        /// Why.
        #[source]
        problem: Box<SaveError>,
    },
}

impl StorageError {
    /// An error of a log that is read or opened.
    pub fn of_log(error: Error) -> Self {
        match error {
            Error::Log { .. } => Self::DamagedLog(error.into()),
            error => LogError::from(error).into(),
        }
    }
}

impl From<LogError> for StorageError {
    fn from(error: LogError) -> Self {
        Self::Log(error.into())
    }
}
