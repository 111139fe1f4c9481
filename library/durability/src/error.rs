//! The errors of a store: each says what failed, where, and what to do.

use std::fmt;
use std::io::{self, ErrorKind};
use std::path::PathBuf;

use stillframe::{BeginError, CaptureError, MemoryError};

use crate::damage::checkpoint::Skipped;

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
        /// The step that failed.
        action: &'static str,
        /// The file.
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
    /// A file that newer checkpoints build on is damaged or missing. What is whole is older.
    #[error(
        "{} cannot be used: {damage}; put back a copy of what is missing, or accept the loss of \
         checkpoints up to {newest} to go back to checkpoint {whole}, the newest that is whole",
        path.display()
    )]
    BrokenChain {
        /// The file at which the chain breaks.
        path: PathBuf,
        /// What is wrong with it.
        damage: crate::damage::checkpoint::Damage,
        /// The newest checkpoint there is.
        newest: u64,
        /// The newest that can be recovered.
        whole: u64,
    },
    /// Files of a chain could not be merged, because one of them is damaged.
    #[error(
        "{} cannot be merged: {damage}; the state in memory is whole, and so is the next checkpoint",
        path.display()
    )]
    Unmergeable {
        /// The damaged file.
        path: PathBuf,
        /// What is wrong with it.
        damage: crate::damage::checkpoint::Damage,
    },
    /// The disk does not give the newest checkpoint. To go back to an older one behind its back
    /// could lose what was acknowledged.
    #[error(
        "{} cannot be read: {damage}; check the disk, or move the file away to go back to the \
         checkpoint before it",
        path.display()
    )]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Where, and why.
        damage: crate::damage::checkpoint::Damage,
    },
    /// The log does not hold what was written.
    #[error(
        "the log {} is damaged: {damage}; put back a copy of it, or accept the loss to go on \
         without that record and all after it",
        path.display()
    )]
    Log {
        /// The segment.
        path: PathBuf,
        /// What is wrong with it.
        damage: crate::damage::log::Damage,
    },
    /// A file is another application's, or of another layout of its state.
    #[error("{} is of {found}, and was opened for {wanted}; {advice}", path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
        /// The application that owns it.
        found: String,
        /// The application that opened it.
        wanted: String,
        /// What to do.
        advice: &'static str,
    },
    /// The tag of an application does not fit into the header of a file.
    #[error(
        "the application's tag \"{}\" does not fit; choose one of at most {bytes_max} bytes, none \
         of them 0",
        tag.escape_debug()
    )]
    Tag {
        /// The tag.
        tag: String,
        /// Bytes that there is room for.
        bytes_max: usize,
    },
    /// The directory holds the data of a server.
    #[error(
        "{} is the data directory of a server; name a directory of its own for the store",
        directory.display()
    )]
    OfAServer {
        /// The directory.
        directory: PathBuf,
    },
    /// The directory has a log, and the store was opened without.
    #[error(
        "{} holds a log of actions since the last checkpoint; open it as an `ActStore`, which \
         applies them",
        directory.display()
    )]
    NeedsLog {
        /// The directory.
        directory: PathBuf,
    },
    /// The store was opened without a log.
    #[error("this store keeps no log; open it as an `ActStore`")]
    NoLog,
    /// The application wants to add a record, and gave no function to apply it again.
    #[error("this store was opened for words alone; open it with `open_records`")]
    NoRecords,
    /// A [`DynamicStore`](crate::DynamicStore) is to end an action, or, with a log, to be changed,
    /// and no action is under way.
    #[error("no action is under way, and a store with a log changes within one; begin it")]
    NoAct,
    /// A [`DynamicStore`](crate::DynamicStore) is to do what no action allows.
    #[error("an action is under way; commit or undo it")]
    InAct,
    /// A checkpoint or a record was asked for while the log is being replayed.
    #[error("the log is being replayed; apply the action, and nothing else")]
    Replaying,
    /// The application could not apply an action of the log.
    #[error(
        "record {sequence} of the log could not be applied: {source}; use the program that wrote it"
    )]
    Replay {
        /// Number of the record.
        sequence: u64,
        /// What the application says.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The application could not convert a state.
    #[error("the state could not be converted: {source}; the old one is as it was")]
    Convert {
        /// What the application says.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// An action is too long for a record.
    #[error("an action of {bytes} bytes is too long for the log; keep it below 4 GiB")]
    ActionTooLong {
        /// Its length.
        bytes: usize,
    },
    /// The caller waits for a record that was never added.
    #[error(
        "there is no record {sequence} in the log, which ends with {last}; wait for one of those"
    )]
    NoSuchRecord {
        /// The number asked for.
        sequence: u64,
        /// The last record there is.
        last: u64,
    },
    /// The log failed before: what it had not made durable then never will be.
    #[error("the log failed: {source}; records up to {durable} are durable, open the store again")]
    LogFailed {
        /// The last record that is durable.
        durable: u64,
        /// Why it failed.
        source: std::sync::Arc<Error>,
    },
    /// A segment is not under its name any more while the log is being written.
    #[error(
        "{} was removed, moved or replaced while it was being written; what was acknowledged is in \
         memory alone until it is saved anew",
        path.display()
    )]
    Vanished {
        /// The segment.
        path: PathBuf,
    },
    /// There is no checkpoint from which one could get to the point asked for.
    #[error(
        "no checkpoint in {} is as old as that; the oldest is number {oldest}",
        directory.display()
    )]
    TooEarly {
        /// The directory.
        directory: PathBuf,
        /// The oldest checkpoint.
        oldest: u64,
    },
    /// The directory for a recovered state holds one already.
    #[error("{} is not empty; name a new directory for the recovered state", directory.display())]
    NotEmpty {
        /// The directory.
        directory: PathBuf,
    },
    /// No memory for the state.
    #[error("no memory for the state: {0}")]
    Memory(#[from] MemoryError),
    /// No thread for the snapshotter or the schedule.
    #[error("no thread for checkpoints or the log: {0}; raise the limit of threads")]
    Thread(#[source] io::Error),
    /// The image for a checkpoint could not be begun.
    #[error("checkpoint {number} could not begin: {source}; those before it are intact")]
    Begin {
        /// Number of the checkpoint.
        number: u64,
        /// Why.
        source: BeginError,
    },
    /// The algorithm holds one image at a time, which is needed for checkpoints.
    #[error("a store of the algorithm '{algorithm}' has no views; use Imprint, the default")]
    NoViews {
        /// Its name.
        algorithm: &'static str,
    },
    /// As many views are kept as may be.
    #[error("{most} views are kept, and that is the most; drop one, or raise `Options::views`")]
    TooManyViews {
        /// How many may be kept.
        most: usize,
    },
    /// The store that a reader asks has ended.
    #[error("the store was closed; open it again, and take a reader of it")]
    Closed,
    /// A reader waited for a point, and none came.
    #[error("no point came in {waited:?}; call `point` more often, or wait longer")]
    NoPoint {
        /// How long it waited.
        waited: std::time::Duration,
    },
    /// The image for a view could not be begun.
    #[error("no view could begin: {source}")]
    View {
        /// Why.
        source: BeginError,
    },
    /// The image was not captured whole.
    #[error("checkpoint {number} was given up: {source}; those before it are intact")]
    Capture {
        /// Number of the checkpoint.
        number: u64,
        /// Why.
        source: Box<CaptureError>,
    },
}

impl Error {
    /// What the operating system said, if it refused something with a file.
    #[must_use]
    pub fn kind(&self) -> Option<ErrorKind> {
        match self {
            Self::File { source, .. } => Some(source.kind()),
            _ => None,
        }
    }

    /// Whether there was no room on the disk.
    #[must_use]
    pub fn wants_room(&self) -> bool {
        matches!(self.kind(), Some(ErrorKind::StorageFull | ErrorKind::QuotaExceeded))
    }

    /// For `map_err`: `action` on `path` failed.
    pub fn file(action: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
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
        ErrorKind::IsADirectory => "move the directory of that name away",
        ErrorKind::NotADirectory | ErrorKind::AlreadyExists => {
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
