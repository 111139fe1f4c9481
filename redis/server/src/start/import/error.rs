//! Why a file cannot be imported.

use std::io;

use stillframe_durability::Error;
use stillframe_storage::replay::ReplayError;

use super::commands::CommandsError;
use super::manifest::ManifestError;

/// Why a file or directory cannot be imported.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ImportError {
    /// It cannot be opened.
    #[error(transparent)]
    File(#[from] Error),
    /// It cannot be read.
    #[error(transparent)]
    Read(#[from] io::Error),
    /// The files to load are not known.
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    /// The manifest is empty.
    #[error("it names no file to load")]
    Empty,
    /// A file that was named has no bytes: what a copy that failed leaves.
    #[error("damaged: the file is empty")]
    NoBytes,
    /// Its commands cannot be read.
    #[error(transparent)]
    Commands(#[from] CommandsError),
    /// The length of an argument was changed.
    #[error(
        "damaged in the command at byte {at}: it would reach past the end of the file, and a whole \
         command stands in it at byte {within}; cut a copy of the file at byte {at} to do without \
         what follows"
    )]
    Reaches {
        /// Where the command begins.
        at: u64,
        /// Where the other begins.
        within: u64,
    },
    /// It is not the last file, and is cut.
    #[error("damaged: it ends with {what}, at byte {at}, and another follows")]
    Cut {
        /// The unfinished part.
        what: &'static str,
        /// Where that begins.
        at: u64,
    },
    /// A command cannot run, or fails.
    #[error("{named} at byte {at} {source}")]
    Command {
        /// The command.
        named: String,
        /// Where it begins.
        at: u64,
        /// Why.
        source: ReplayError,
    },
}
