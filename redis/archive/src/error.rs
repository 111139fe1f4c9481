//! Why an archive cannot be used. No message holds what stands behind `?` in a URL, or a value of
//! the environment that is a secret.

use std::path::PathBuf;

use crate::sealed::Unsealed;

/// See the head of this file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ArchiveError {
    /// The URL names no store.
    #[error("{url} names no archive: {problem}")]
    Url {
        /// The URL, as far as it can be shown.
        url: String,
        /// What is wrong with it.
        problem: String,
    },
    /// The store refuses, or cannot be reached.
    #[error("{what} {name}: {problem}")]
    Store {
        /// What was tried.
        what: &'static str,
        /// The object.
        name: String,
        /// What the store, or the way to it, says.
        problem: String,
        /// The object is not there.
        is_missing: bool,
    },
    /// The store replaces an object where it must refuse to.
    #[error(
        "the store of {url} replaces an object that must be new, so two servers could not be kept \
         apart; use a store with conditional put"
    )]
    NotConditional {
        /// The archive.
        url: String,
    },
    /// A claim or a manifest cannot be used.
    #[error("{name} of {url} {problem}")]
    Unusable {
        /// The archive.
        url: String,
        /// The object.
        name: String,
        /// What is wrong.
        problem: Unsealed,
    },
    /// Another data directory has claimed the prefix.
    #[error(
        "{url} belongs to another data directory: {claim} was put by run {run} at unix ms {at_ms}; \
         name another prefix, or, if that server is gone for good, take over once \
         (archive-take-over yes)"
    )]
    Claimed {
        /// The archive.
        url: String,
        /// The claim.
        claim: String,
        /// The run of the other server.
        run: String,
        /// When.
        at_ms: u64,
    },
    /// Nothing restorable is there.
    #[error("{url} holds no complete image")]
    Empty {
        /// The archive.
        url: String,
    },
    /// All images are later.
    #[error(
        "{url} begins with an image of unix ms {begun_ms}, which holds all records up to {last}; \
         an earlier state is not there"
    )]
    TooEarly {
        /// The archive.
        url: String,
        /// When the oldest image began.
        begun_ms: u64,
        /// The last record in it.
        last: u64,
    },
    /// An object is not what the manifest says.
    #[error("{name} of {url} is damaged: {problem}")]
    Damaged {
        /// The archive.
        url: String,
        /// The object.
        name: String,
        /// What differs.
        problem: String,
    },
    /// A file of the data directory, or of the target.
    #[error(transparent)]
    Disk(#[from] stillframe_durability::Error),
    /// A file of the data directory cannot be read.
    #[error("cannot read {}: {error}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The operating system's reason.
        error: std::io::Error,
    },
    /// The system starts no thread.
    #[error("the archive cannot start: {0}")]
    Thread(std::io::Error),
}

impl ArchiveError {
    /// Whether to retry will not help: somebody has to decide.
    #[must_use]
    pub fn is_final(&self) -> bool {
        !matches!(self, Self::Store { .. } | Self::Disk(_) | Self::Read { .. })
    }
}
