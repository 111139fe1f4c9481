//! Why the log cannot be used.

use std::path::PathBuf;

use stillframe_durability::Error;

/// Why a server cannot use its log.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// A file or directory refuses something, or the log is not what it should be.
    #[error(transparent)]
    File(#[from] Error),
    /// The image that the log continues is missing.
    #[error(
        "{} is there, and not {}, which it continues; put that back, or move the log away to start \
         without data",
        log.display(),
        dump.display()
    )]
    WithoutDump {
        /// The log.
        log: PathBuf,
        /// Where the image would be.
        dump: PathBuf,
    },
}
