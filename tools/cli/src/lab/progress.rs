//! How far the rounds are, on a terminal.

use std::io::{self, IsTerminal};
use std::time::Duration;

use stillframe_lab::Progress;

/// One line that is overwritten, on a terminal.
pub(super) fn show(progress: &Progress) {
    let Some(next) = &progress.next else { return };
    if io::stderr().is_terminal() {
        let left =
            progress.remaining().map_or(String::new(), |left| format!(", {} left", time(left)));
        let (number, total) = (progress.done + 1, progress.total);
        eprint!(
            "\r\x1b[K[{number}/{total}] {}, {} so far{left}",
            next.algorithm,
            time(progress.elapsed)
        );
    }
}

pub(crate) fn clear_line() {
    if io::stderr().is_terminal() {
        eprint!("\r\x1b[K");
    }
}

pub(crate) fn time(duration: Duration) -> String {
    format!("{}:{:02}", duration.as_secs() / 60, duration.as_secs() % 60)
}
