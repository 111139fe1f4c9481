//! Why a member cannot start.

use std::path::PathBuf;

/// Why a member cannot start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file of the directory.
    #[error(transparent)]
    Files(#[from] stillframe_durability::Error),
    /// The log.
    #[error(transparent)]
    Log(#[from] stillframe_openraft::Error),
    /// The network.
    #[error(transparent)]
    Network(#[from] stillframe_raft_net::Error),
    /// Certificates.
    #[error(transparent)]
    Tls(#[from] stillframe_raft_net::TlsError),
    /// The directory has the dump of a server that was not this member.
    #[error(
        "{} holds a dump of a server that was not this member: start the member in an empty directory",
        directory.display()
    )]
    NotOfAMember {
        /// The directory.
        directory: PathBuf,
    },
    /// The dump has gone, or is an older one, and the log was cut for a newer one.
    #[error(
        "{} is missing or older than the log beside it, which begins behind entry {purged}: remove \
         the member from the group and add it again with an empty directory",
        path.display()
    )]
    DumpBehindLog {
        /// The dump.
        path: PathBuf,
        /// The last entry that the log let go of.
        purged: u64,
    },
    /// The file that says whose the directory is has gone, and the log is there.
    #[error(
        "{} is missing beside the log of a member: remove the member from the group and add it \
         again with an empty directory",
        path.display()
    )]
    IdentityMissing {
        /// The file.
        path: PathBuf,
    },
    /// The file that says whose the directory is.
    #[error("{}: {what}", path.display())]
    Identity {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
    /// The directory belongs to another member.
    #[error("{} is the directory of {found}, and not of {wanted}", directory.display())]
    OfAnother {
        /// The directory.
        directory: PathBuf,
        /// Whose it is.
        found: String,
        /// Who was started.
        wanted: String,
    },
    /// The directory has a log, or is a member's, before it is made one.
    #[error("{} has a member's data already: name another directory", directory.display())]
    Begun {
        /// The directory.
        directory: PathBuf,
    },
    /// The directory is no member's.
    #[error("{} is not the directory of a member of a group: it has no raft-member", directory.display())]
    NoMember {
        /// The directory.
        directory: PathBuf,
    },
    /// The log has not what it should have.
    #[error("the log of the member cannot be read: {what}")]
    Entries {
        /// What is wrong with it.
        what: String,
    },
    /// The dump has no label, or one that makes no sense.
    #[error("the dump file is no image of a member of a group: {what}")]
    Label {
        /// What is wrong with it.
        what: String,
    },
    /// A setting makes no sense.
    #[error("{0}")]
    Setting(String),
    /// Threads could not be started.
    #[error("cannot start the threads of the group: {0}")]
    Threads(std::io::Error),
}
