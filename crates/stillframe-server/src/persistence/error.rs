//! Why an image is not saved.

use rustix::io::Errno;
use stillframe::{BeginError, CaptureError, SinkError};
use stillframe_durability::Error;

/// Why there is no new dump file.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SaveError {
    /// A file or directory refuses something.
    #[error(transparent)]
    File(#[from] Error),
    /// What comes before the first key cannot be written.
    #[error(transparent)]
    Head(#[from] SinkError),
    /// There can be no image now.
    #[error(transparent)]
    Begin(#[from] BeginError),
    /// The image was not taken whole.
    #[error(transparent)]
    Capture(#[from] CaptureError),
    /// Records that are in the image are not durable.
    #[error("the log does not hold what is in the image: {0}")]
    Log(#[source] Error),
    /// The thread that takes images has said nothing.
    #[error("the save ended without a word")]
    Silence,
    /// It failed while somebody waited for it.
    #[error("the save failed; see the log")]
    Logged,
}

impl SaveError {
    /// Whether there was no room on the disk.
    pub(crate) fn is_for_want_of_room(&self) -> bool {
        match self {
            Self::File(error) => error.wants_room(),
            Self::Capture(CaptureError::Sink(error)) => {
                let errno = Errno::from_raw_os_error(error.errno());
                matches!(errno, Errno::NOSPC | Errno::DQUOT)
            }
            _ => false,
        }
    }
}
