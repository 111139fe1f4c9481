//! Why there is nothing to report.

use std::io;

use stillframe_measure::target::hint;
use thiserror::Error;

/// Why a measurement gave no figures.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum LoadError {
    /// A plan that cannot be run.
    #[error("{0}")]
    Plan(String),
    /// No connection to the target.
    #[error("cannot connect to {target}: {error}{}", way_out(error))]
    Connect {
        /// Host and port.
        target: String,
        /// The system's error.
        error: io::Error,
    },
    /// The server replied with an error before the measurement.
    #[error("{target} refuses {what}: {answer}{}", hint(answer))]
    Refused {
        /// Host and port.
        target: String,
        /// The request.
        what: &'static str,
        /// The reply.
        answer: String,
    },
    /// The connection broke before the measurement.
    #[error("{target}: {error} while {doing}")]
    Broken {
        /// Host and port.
        target: String,
        /// The failed step.
        doing: &'static str,
        /// The system's error.
        error: io::Error,
    },
    /// Something of this machine is missing.
    #[error("{doing}: {error}")]
    System {
        /// The failed step.
        doing: &'static str,
        /// The system's error.
        error: io::Error,
    },
    /// The measurement was stopped before the first query.
    #[error("interrupted before anything was measured")]
    Interrupted,
}

/// What to do about a failed connection, with `; ` before it.
fn way_out(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => "; is a server running there?",
        io::ErrorKind::TimedOut => "; check the address, and any firewall on the way",
        // No kind of its own: the limit of a process, and that of the machine.
        _ if matches!(error.raw_os_error(), Some(24 | 23)) => {
            "; raise 'ulimit -n' or lower --clients"
        }
        _ => "",
    }
}
