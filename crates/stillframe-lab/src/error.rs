//! What can go wrong around the runs; a run's record says what went wrong in it.

use std::io;

/// The rounds could not go on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LabError {
    /// A process for a round could not be had.
    #[error("starting a process for a round failed: {0}")]
    Spawn(#[source] io::Error),
    /// Ctrl-C; what was finished has been handed over.
    #[error("interrupted; finished rounds are kept")]
    Interrupted,
    /// The case cannot be run at all.
    #[error("{0}")]
    Case(String),
}
