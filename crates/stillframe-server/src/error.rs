//! Why a server cannot start or go on.

use std::io;
use std::path::PathBuf;

use stillframe_durability::Error;
use stillframe_keyspace::CreateError;
use stillframe_redis::RenameError;

use crate::acl::UsersError;
use crate::import::ImportError;
use crate::journal::LogError;
use crate::persistence::{LoadError, SaveError};
use crate::tls::TlsError;

/// A server that could not start or had to stop.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
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
    /// An address cannot be listened on.
    #[error(
        "cannot listen on {address}: {error}; is another server running there? choose \
             another with --port or --bind"
    )]
    Bind {
        /// Address and port.
        address: String,
        /// The operating system's error.
        error: io::Error,
    },
    /// The unix socket cannot be listened on.
    #[error("cannot listen on the unix socket {}: {error}; choose another path with --unixsocket",
        path.display())]
    UnixSocket {
        /// Its path.
        path: PathBuf,
        /// The operating system's error.
        error: io::Error,
    },
    /// The port of the figures cannot be listened on.
    #[error("cannot serve metrics at {address}: {error}; choose another port with --metrics-port")]
    Metrics {
        /// Address and port.
        address: String,
        /// The operating system's error.
        error: io::Error,
    },
    /// The settings of TLS are refused.
    #[error("cannot set up TLS: {0}")]
    Tls(#[from] TlsError),
    /// Commands cannot have the names that they are to have.
    #[error("cannot rename the commands: {0}")]
    Commands(#[from] RenameError),
    /// The users cannot be used.
    #[error("cannot set up the users: {0}")]
    Users(#[from] UsersError),
    /// The system gives no memory or threads for the keyspace.
    #[error("cannot create the keyspace: {0}")]
    Keyspace(#[from] CreateError),
    /// Waiting for sockets failed.
    #[error("cannot wait for network events: {0}")]
    Events(io::Error),
    /// The signal handlers cannot be installed.
    #[error("cannot handle signals: {0}")]
    Signals(io::Error),
    /// The dump file cannot be loaded.
    #[error("cannot load {}: {problem}; the file was left as it is", path.display())]
    Load {
        /// The file.
        path: PathBuf,
        /// What is wrong with it and where.
        #[source]
        problem: Box<LoadError>,
    },
    /// A file cannot be imported.
    #[error("cannot load {}: {problem}; the file was left as it is", path.display())]
    Import {
        /// The file, or the directory.
        path: PathBuf,
        /// What is wrong with it and where.
        #[source]
        problem: Box<ImportError>,
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
    /// There is data of another kind, and none that this server would load.
    #[error(
        "{} is {what}, and there is no {dump}: a server would start without data; {advice}, or move \
         the file away to start empty", path.display()
    )]
    ForeignData {
        /// The data found.
        path: PathBuf,
        /// Its apparent kind.
        what: &'static str,
        /// The dump file that would be loaded.
        dump: String,
        /// What to do.
        advice: String,
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
    /// There is data where data is to be imported to.
    #[error(
        "{} is there already; import into another data directory (--dir), or move it away",
        path.display()
    )]
    Occupied {
        /// The dump file.
        path: PathBuf,
    },
    /// Imported data cannot be saved.
    #[error("cannot write {}: {problem}", path.display())]
    Save {
        /// The dump file.
        path: PathBuf,
        /// Why.
        #[source]
        problem: Box<SaveError>,
    },
}

impl ServeError {
    /// An error of a log that is read or opened.
    pub(crate) fn of_log(error: Error) -> Self {
        match error {
            Error::Log { .. } => Self::DamagedLog(error.into()),
            error => LogError::from(error).into(),
        }
    }
}

impl From<LogError> for ServeError {
    fn from(error: LogError) -> Self {
        Self::Log(error.into())
    }
}
