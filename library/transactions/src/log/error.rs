//! What can go wrong, in sentences.

use std::path::PathBuf;

use crate::{CreateError, ImageError, NoWorker, Shape};

/// A state could not be opened, or a checkpoint not be made. What was durable before still is.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file, or the log.
    #[error(transparent)]
    Storage(#[from] stillframe_durability::Error),
    /// No memory for the state.
    #[error(transparent)]
    Create(#[from] CreateError),
    /// An engine without workers can apply no log.
    #[error(transparent)]
    NoWorker(#[from] NoWorker),
    /// The directory holds something else.
    #[error(
        "{} is not empty and holds no state of transactions; name another directory",
        directory.display()
    )]
    NotOurs {
        /// The directory.
        directory: PathBuf,
    },
    /// The manifest says nothing that can be used.
    #[error("{} is damaged: {what}; put back a copy of it", path.display())]
    Manifest {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        what: String,
    },
    /// The state has another layout.
    #[error(
        "{} holds {} records of {} words; open it with these settings and not with {} of {}",
        directory.display(), found.records, found.words, wanted.records, wanted.words
    )]
    Shape {
        /// The directory.
        directory: PathBuf,
        /// What it holds.
        found: Shape,
        /// What was asked for.
        wanted: Shape,
    },
    /// An image is not what the manifest says.
    #[error("{} is damaged: {what}; put back a copy of it", path.display())]
    Image {
        /// Its directory.
        path: PathBuf,
        /// What is wrong.
        what: String,
    },
    /// A checkpoint, or another image, is under way.
    #[error(transparent)]
    UnderWay(#[from] ImageError),
    /// The algorithm takes no images.
    #[error("algorithm '{name}' takes no images; choose another one")]
    NoImages {
        /// Its name.
        name: &'static str,
    },
    /// The budget for before-images was used up.
    #[error(
        "the budget for before-images is used up and the checkpoint given up; those before it are intact; allow \
         more or let commits wait (OnFull::Slow)"
    )]
    OverBudget,
    /// The image lost before-images for want of memory, or images could not be merged.
    #[error("memory for a checkpoint could not be had; those before it are intact")]
    Memory,
}

/// A transaction has no outcome that can be told.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Refused<E> {
    /// The closure [aborted](crate::Stop::Abort): nothing happened.
    #[error("aborted")]
    Aborted(E),
    /// The log failed, now or before. What the transaction wrote may be there after a checkpoint or
    /// a restart, wholly or not at all.
    #[error("the log failed: {reason}; no transaction runs until a checkpoint begins another log")]
    Log {
        /// Why.
        reason: String,
    },
}
