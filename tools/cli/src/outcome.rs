//! How a command ends: what it prints, what went wrong, and its exit status.

use std::fmt::Display;
use std::io::Write;
use std::process::ExitCode;

/// Prints text. The error is the exit status: success if nobody reads the text any more.
pub(crate) fn print(text: &str) -> Result<(), ExitCode> {
    std::io::stdout().write_all(text.as_bytes()).map_err(|error| match error.kind() {
        std::io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        _ => fail(1, &format_args!("cannot write the report: {error}")),
    })
}

/// Prints one sentence about a failure on standard error, and returns the exit status.
pub(crate) fn fail(status: u8, problem: &dyn Display) -> ExitCode {
    // Nobody may read it, and its disk may be full.
    let _ = writeln!(std::io::stderr(), "stillframe: {problem}");
    ExitCode::from(status)
}
