//! What can go wrong.

use std::path::PathBuf;

use openraft::{AnyError, NodeId, StorageError, StorageIOError};

/// Why a member cannot be opened, or cannot go on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The store, the log, or the files of either.
    #[error(transparent)]
    Durability(stillframe_durability::Error),
    /// A file that is none of a member's.
    #[error("{} holds {name}, which is no file of a raft member: name another directory", directory.display())]
    NotOurs {
        /// The directory.
        directory: PathBuf,
        /// What is in it.
        name: String,
    },
    /// The file that names the state is damaged.
    #[error("{}: {what}", path.display())]
    Manifest {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
    /// The log has gone, and with it the vote: this node could vote twice in one term.
    #[error(
        "{}: the log is missing. A node that has lost its vote must not come back under its number: \
         remove it from the group and add it again with an empty directory",
        directory.display()
    )]
    LogMissing {
        /// Where it should be.
        directory: PathBuf,
    },
    /// The log is damaged: it may lack a vote, or entries that the member has acknowledged.
    #[error(
        "the log {} is damaged: {damage}. Remove the node from the group and add it again with an \
         empty directory",
        path.display()
    )]
    LogDamaged {
        /// The segment.
        path: PathBuf,
        /// What is wrong with it.
        damage: stillframe_durability::LogDamage,
    },
    /// A record of the log is no record of a member's.
    #[error("record {sequence} of the log: {what}")]
    Record {
        /// Its number.
        sequence: u64,
        /// What is wrong with it.
        what: String,
    },
    /// The state was restored from an image that is older than the log, and no snapshot that came
    /// in is newer.
    #[error(
        "the state has entries up to {applied}, and the log begins behind {purged}: what lies \
         between is lost here. Remove the node from the group and add it again with an empty \
         directory"
    )]
    StateBehindLog {
        /// The last entry in the state; "none" if there is none.
        applied: String,
        /// The last entry that the log has let go of.
        purged: String,
    },
    /// What a snapshot says of itself is not what is in it.
    #[error("the snapshot {id} is not what it says: {what}")]
    Snapshot {
        /// Its name.
        id: String,
        /// What is wrong with it.
        what: String,
    },
    /// A note on the state is larger than its place.
    #[error("{what} takes {bytes} bytes; there is room for {room}")]
    NoteTooLong {
        /// Which one.
        what: &'static str,
        /// Its length.
        bytes: usize,
        /// The room.
        room: usize,
    },
    /// A note on the state cannot be read.
    #[error("the state holds no sound {what}")]
    Note {
        /// Which one.
        what: &'static str,
    },
    /// The state cannot be opened.
    #[error("the state cannot be opened: {0}")]
    State(Box<dyn std::error::Error + Send + Sync>),
    /// An image failed.
    #[error("the image failed: {reason}")]
    Image {
        /// Why.
        reason: String,
    },
    /// Nothing is in memory: a snapshot is being installed, or its installation has failed.
    #[error("a snapshot is being installed")]
    Installing,
    /// Applying an entry panicked before, so the state may hold half of it.
    #[error("an entry was applied in part; open the member again")]
    Poisoned,
}

impl From<stillframe_durability::Error> for Error {
    fn from(error: stillframe_durability::Error) -> Self {
        match error {
            // An older copy of the log, or a shorter log, would be a node that forgets a vote.
            stillframe_durability::Error::Log { path, damage } => Self::LogDamaged { path, damage },
            other => Self::Durability(other),
        }
    }
}

impl Error {
    /// The state cannot be opened, for this reason.
    pub fn state(error: impl std::error::Error + Send + Sync + 'static) -> Self {
        Self::State(Box::new(error))
    }
}

/// What openraft is told.
pub(crate) enum About {
    Log,
    Vote,
    State,
    Snapshot,
}

impl About {
    pub(crate) fn reading<N: NodeId>(
        &self,
        error: impl std::error::Error + 'static,
    ) -> StorageError<N> {
        let error = AnyError::new(&error);
        let told = match self {
            Self::Log => StorageIOError::read_logs(error),
            Self::Vote => StorageIOError::read_vote(error),
            Self::State => StorageIOError::read_state_machine(error),
            Self::Snapshot => StorageIOError::read_snapshot(None, error),
        };
        told.into()
    }

    pub(crate) fn writing<N: NodeId>(
        &self,
        error: impl std::error::Error + 'static,
    ) -> StorageError<N> {
        let error = AnyError::new(&error);
        let told = match self {
            Self::Log => StorageIOError::write_logs(error),
            Self::Vote => StorageIOError::write_vote(error),
            Self::State => StorageIOError::write_state_machine(error),
            Self::Snapshot => StorageIOError::write_snapshot(None, error),
        };
        told.into()
    }
}
