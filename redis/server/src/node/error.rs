//! Why a server cannot start or go on.

use std::error::Error;
use std::io;
use std::path::PathBuf;

use stillframe_commands::RenameError;
use stillframe_storage::StorageError;

use crate::node::acl::UsersError;

/// A server that could not start or had to stop.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The data directory, the dump or the log cannot be used, or there is no memory for the data.
    #[error(transparent)]
    Storage(#[from] StorageError),
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
    /// The archive cannot be used.
    #[error("cannot archive: {0}")]
    Archive(String),
    /// Questions in SQL cannot be answered.
    #[error("cannot answer queries: {0}; see query-port")]
    Queries(String),
    /// The port of the figures cannot be listened on.
    #[error("cannot serve metrics at {address}: {error}; choose another port with --metrics-port")]
    Metrics {
        /// Address and port.
        address: String,
        /// The operating system's error.
        error: io::Error,
    },
    /// The server cannot take part in its group, or no longer.
    #[error("the group: {0}")]
    Group(String),
    /// The settings of TLS are refused.
    #[error("cannot set up TLS: {0}")]
    Tls(#[source] Box<dyn Error + Send + Sync>),
    /// Commands cannot have the names that they are to have.
    #[error("cannot rename the commands: {0}")]
    Commands(#[from] RenameError),
    /// The users cannot be used.
    #[error("cannot set up the users: {0}")]
    Users(#[from] UsersError),
    /// The setting is one of a whole process.
    #[error("a server within a program cannot have '{0}': it would reach beyond the server")]
    Embedded(&'static str),
    /// The data could not be saved, or the shutdown was aborted.
    #[error("the server goes on: its data could not be saved, or SHUTDOWN ABORT came; see its log")]
    NotSaved,
    /// It was asked to stop while it loaded its data, by a client or by the program around it.
    #[error("the server was stopped while it loaded its data")]
    Stopped,
    /// The server's thread has panicked.
    #[error("the server has ended by a panic, which is a defect of it")]
    Died,
    /// Waiting for sockets failed.
    #[error("cannot wait for network events: {0}")]
    Events(io::Error),
    /// The signal handlers cannot be installed.
    #[error("cannot handle signals: {0}")]
    Signals(io::Error),
    /// A file cannot be imported.
    #[error("cannot load {}: {problem}; the file was left as it is", path.display())]
    Import {
        /// The file, or the directory.
        path: PathBuf,
        /// What is wrong with it and where.
        #[source]
        problem: Box<dyn Error + Send + Sync>,
    },
    /// Databases shared keys when the data was saved, and share them no more.
    #[error(
        "the data of {dump} took {saved_bytes} bytes when it was saved and takes {bytes} now, since \
         its databases shared keys and the file does not say which; with maxmemory \
         {maxmemory_bytes} the server would evict keys ({policy}): raise maxmemory, or start with \
         maxmemory-policy noeviction"
    )]
    WouldEvict {
        /// The dump file.
        dump: String,
        /// Bytes of the data when it was saved.
        saved_bytes: u64,
        /// Bytes of the data now.
        bytes: u64,
        /// The limit.
        maxmemory_bytes: u64,
        /// How keys would be chosen.
        policy: &'static str,
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
}
