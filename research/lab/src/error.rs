//! Errors around the runs; the record of a run has the errors in it.

use std::io;

/// The rounds could not go on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LabError {
    /// The system gave no process for a round.
    #[error("starting a process for a round failed: {0}")]
    Spawn(#[source] io::Error),
    /// Ctrl-C; the finished records have been handed over.
    #[error("interrupted; finished rounds are kept")]
    Interrupted,
    /// The case cannot be run at all.
    #[error("{0}")]
    Case(String),
}
