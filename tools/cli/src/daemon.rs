//! `daemonize yes`: the server leaves the terminal that it was started from.
//!
//! This program starts itself again in a session of its own, with nothing to read from or write to,
//! and ends. (redis-server forks; here threads and the allocator are there before the first
//! setting is read, and only a new program is free of them.)

use std::ffi::OsString;
use std::io::{self, Write};
use std::process::{Command, Stdio};

/// The first word of a server that has left the terminal.
const MARK: &str = "--daemonized-from-here";

/// Whether this process is the daemon, which is then in a session of its own, and the words of the
/// command line.
pub(crate) fn is_daemon(words: &[OsString]) -> (bool, &[OsString]) {
    match words.split_first() {
        Some((mark, rest)) if mark == MARK => {
            // It fails only for a process that leads a session already.
            let _ = rustix::process::setsid();
            (true, rest)
        }
        _ => (false, words),
    }
}

/// Starts the daemon, with the same words and the same standard input.
pub(crate) fn start(words: &[OsString], input: &[u8]) -> io::Result<()> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["serve", MARK]).args(words);
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn()?;
    match child.stdin.take() {
        Some(mut stdin) => stdin.write_all(input),
        None => Ok(()),
    }
}
