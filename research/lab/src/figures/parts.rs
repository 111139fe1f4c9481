//! What can be measured in a process of its own.

use std::io;

use super::child::answer;
use super::{recovery, tpcc, transactions};

/// Measures what JSON on standard input asks for, and writes what came of it to standard output:
/// what `stillframe lab part KIND` does.
///
/// # Errors
/// There is no such kind, input that is none, output that cannot be written.
pub fn part_from_stdin(kind: &str) -> io::Result<()> {
    match kind {
        transactions::PART => answer(transactions::run),
        recovery::PART => answer(recovery::run),
        tpcc::PART => answer(tpcc::run),
        _ => Err(io::Error::other(format!("there is no part '{kind}'"))),
    }
}
