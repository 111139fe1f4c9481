//! How a command ends: what it prints, what went wrong, and its exit status.

use std::fmt::Display;
use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

/// Prints text. The error is the exit status: success if nobody reads the text any more.
pub(crate) fn print(text: &str) -> Result<(), ExitCode> {
    io::stdout().write_all(text.as_bytes()).map_err(|error| match error.kind() {
        io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        _ => fail(1, &format_args!("cannot write the report: {error}")),
    })
}

/// Prints one sentence about a failure on standard error, and returns the exit status.
pub(crate) fn fail(status: u8, problem: &dyn Display) -> ExitCode {
    // Nobody may read it, and its disk may be full.
    let _ = writeln!(io::stderr(), "stillframe: {problem}");
    ExitCode::from(status)
}

/// Ends a command at what went wrong.
pub(crate) trait OrFail<T> {
    /// The value; or the exit status, after the problem was printed.
    fn or_fail(self, status: u8) -> Result<T, ExitCode>;
}

impl<T, E: Display> OrFail<T> for Result<T, E> {
    fn or_fail(self, status: u8) -> Result<T, ExitCode> {
        self.map_err(|problem| fail(status, &problem))
    }
}

/// A flag that Ctrl-C or SIGTERM raises; a Ctrl-C after it ends the process.
pub(crate) fn watch_signals(status: i32) -> Result<Arc<AtomicBool>, ExitCode> {
    let stop = Arc::new(AtomicBool::new(false));
    // Order matters: the first signal finds the flag still down.
    flag::register_conditional_shutdown(SIGINT, status, Arc::clone(&stop))
        .and_then(|_| flag::register(SIGINT, Arc::clone(&stop)))
        .and_then(|_| flag::register(SIGTERM, Arc::clone(&stop)))
        .map_err(|error| fail(1, &format_args!("cannot watch for Ctrl-C: {error}")))?;
    Ok(stop)
}
