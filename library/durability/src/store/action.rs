//! Records of the log on their way to the application.

use crate::log::reader::Progress;

/// An action of the log, to be applied again.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Action<'a> {
    /// Its number.
    pub sequence: u64,
    /// When it was logged, in milliseconds since 1970; never less than the one before.
    pub time_ms: u64,
    /// What was logged.
    pub bytes: &'a [u8],
    /// How much of the log has been read.
    pub progress: Progress,
}

/// Why an application cannot apply an action.
pub type ApplyError = Box<dyn std::error::Error + Send + Sync>;
