//! Why there is nothing to report.

use std::io;

use thiserror::Error;

/// Why a run gave no figures.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum LoadError {
    /// A plan that cannot be run.
    #[error("{0}")]
    Plan(String),
    /// Nobody listens there, or not under that name.
    #[error("cannot connect to {target}: {error}; is a server running there?")]
    Connect {
        /// Host and port.
        target: String,
        /// What the system says.
        error: io::Error,
    },
    /// The server answered with an error before the run.
    #[error("{target} refuses {what}: {answer}{hint}")]
    Refused {
        /// Host and port.
        target: String,
        /// What was asked.
        what: &'static str,
        /// What it answered.
        answer: String,
        /// What to do, with `; ` before it.
        hint: &'static str,
    },
    /// The connection broke before the run.
    #[error("{target}: {error} while {doing}")]
    Broken {
        /// Host and port.
        target: String,
        /// What was being done.
        doing: &'static str,
        /// What the system says.
        error: io::Error,
    },
    /// Something of this machine is missing.
    #[error("{doing}: {error}")]
    System {
        /// What was being done.
        doing: &'static str,
        /// What the system says.
        error: io::Error,
    },
    /// It was stopped before anything was measured.
    #[error("interrupted before anything was measured")]
    Interrupted,
}

/// What to do about an error of this code.
pub(crate) fn hint(answer: &str) -> &'static str {
    match answer.split(' ').next().unwrap_or_default() {
        "NOAUTH" => "; give --password (and --user)",
        "WRONGPASS" => "; check --password and --user",
        "LOADING" => "; wait until INFO persistence says loading:0",
        "MISCONF" => "; its last save failed: see its log",
        "NOPERM" => "; this user may not run it: give another --user",
        "DENIED" => "; it takes clients from its own machine only",
        "OOM" => "; its maxmemory is used up: take fewer or smaller values",
        "WRONGTYPE" => "; the key holds another type: empty the database first",
        "READONLY" => "; it is a replica: point --target at its primary",
        _ => "",
    }
}
