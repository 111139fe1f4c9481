//! What can go wrong.

use std::path::PathBuf;

/// What went wrong, in a sentence.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file of the log or of a checkpoint.
    #[error(transparent)]
    Durability(#[from] stillframe_durability::Error),
    /// The manifest or a checkpoint is damaged.
    #[error("{}: {what}", path.display())]
    Damaged {
        /// The file or directory.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
    /// The directory has a state of another size.
    #[error("the state there has {found} words, {asked} are asked for")]
    Words {
        /// Its words.
        found: usize,
        /// Those asked for.
        asked: usize,
    },
    /// Memory for the state could not be had.
    #[error("memory for {0} words could not be had")]
    Memory(usize),
    /// The thread of a checkpoint could not be started.
    #[error("no thread for a checkpoint: {0}")]
    Thread(std::io::Error),
}
