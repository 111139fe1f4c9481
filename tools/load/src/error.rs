//! Why there is nothing to report.

use std::io;

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
    #[error("{target} refuses {what}: {answer}{hint}")]
    Refused {
        /// Host and port.
        target: String,
        /// The request.
        what: &'static str,
        /// The reply.
        answer: String,
        /// What to do, behind `; `.
        hint: &'static str,
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

/// A server's text on one line, printable and short: an error may repeat the request.
pub(crate) fn readable(text: &[u8]) -> String {
    const BYTES_MAX: usize = 120;
    let more = if text.len() > BYTES_MAX { "..." } else { "" };
    let shown = String::from_utf8_lossy(&text[..text.len().min(BYTES_MAX)]);
    let shown: String = shown.chars().map(|c| if c.is_control() { '·' } else { c }).collect();
    format!("{shown}{more}")
}

/// What to do about an error of this code.
pub(crate) fn hint(answer: &str) -> &'static str {
    match answer.split(' ').next().unwrap_or_default() {
        "NOAUTH" => "; give --password (and --user)",
        "WRONGPASS" => "; check --password and --user",
        "LOADING" => "; wait until INFO persistence shows loading:0",
        "MISCONF" => "; its last save failed: see its log",
        "NOPERM" => "; this user may not run it: give another --user",
        "DENIED" => "; it takes clients from its own machine only",
        "OOM" => "; its maxmemory is used up: take fewer or smaller values",
        "WRONGTYPE" => "; the key holds another type: empty the database first",
        "READONLY" => "; it is a replica: point --target at its primary",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_servers_text_is_one_short_printable_line() {
        assert_eq!(readable(b"ERR it's \x01\r\n\xff"), "ERR it's ···\u{fffd}");
        assert!(readable(&[b'x'; 1000]).len() < 170);
        assert_eq!(hint("NOAUTH Authentication required."), "; give --password (and --user)");
        assert_eq!(hint(""), "");
    }
}
