//! Why a hunt ended without a verdict.

use std::io;
use std::path::PathBuf;

use stillframe_measure::target::hint;
use thiserror::Error;

/// Why there is no verdict.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum HuntError {
    /// A plan that cannot be run.
    #[error("{0}")]
    Plan(String),
    /// No connection to the target.
    #[error("cannot connect to {target}: {error}; is a server running there?")]
    Connect {
        /// Host and port.
        target: String,
        /// The system's error.
        error: io::Error,
    },
    /// The server replied with an error.
    #[error("{target} refuses {what}: {answer}{}", hint(answer))]
    Refused {
        /// Host and port.
        target: String,
        /// The request.
        what: String,
        /// The reply.
        answer: String,
    },
    /// The connection broke, or the received bytes made no sense.
    #[error("{target}: {error} while {doing}")]
    Broken {
        /// Host and port.
        target: String,
        /// The failed step.
        doing: String,
        /// The system's error, or what is wrong with the bytes.
        error: io::Error,
    },
    /// The dump file cannot be read.
    #[error("reading {}: {error}; give the file that BGSAVE of the target writes", path.display())]
    Dump {
        /// The file.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// The system gave no thread to a writer.
    #[error("starting a writer: {0}")]
    Thread(io::Error),
    /// The hunt was stopped before it had judged an image.
    #[error("interrupted before an image was judged")]
    Interrupted,
}
