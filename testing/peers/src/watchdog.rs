//! A test that hangs fails by its name.

use std::io::Write;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

use crate::rounds;

/// Ends the test program and prints the name of the test unless the test drops this in time. A test
/// that hangs would hold up all others, and show nothing.
#[must_use = "dropping this ends the watch"]
pub struct Watchdog {
    _until: Sender<()>,
}

impl Watchdog {
    /// Watches the test of the calling thread for half an hour, or for two hours in a long
    /// run (`STILLFRAME_LONG`): far longer than any test takes, so this decides no test that ends.
    pub fn start() -> Self {
        Self::with_limit(Duration::from_secs(rounds(1800, 7200) as u64))
    }

    fn with_limit(limit: Duration) -> Self {
        let (until, dropped) = channel();
        let test = thread::current().name().unwrap_or("a test without a name").to_owned();
        thread::spawn(move || {
            if dropped.recv_timeout(limit) == Err(RecvTimeoutError::Timeout) {
                // In one write, past the test harness, which would swallow it.
                let line = format!("\nHANGS: {test} has not ended after {limit:?}\n");
                let _ = std::io::stderr().write_all(line.as_bytes()); // the status says enough
                std::process::exit(101);
            }
        });
        Self { _until: until }
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    const HANGS: &str = "STILLFRAME_TEST_HANGS";

    /// Runs itself in a process of its own, where it hangs.
    #[test]
    fn a_test_that_hangs_fails_by_its_name() {
        if std::env::var_os(HANGS).is_some() {
            let _watchdog = Watchdog::with_limit(Duration::from_millis(10));
            loop {
                thread::park();
            }
        }
        let name = "watchdog::tests::a_test_that_hangs_fails_by_its_name";
        let program = std::env::current_exe().expect("this program has a path");
        let hung = Command::new(program).args(["--exact", name]).env(HANGS, "1").output();
        let hung = hung.expect("it starts");
        let printed = String::from_utf8_lossy(&hung.stderr);
        assert_eq!(hung.status.code(), Some(101), "{printed}");
        assert!(printed.contains(&format!("HANGS: {name} has not ended after 10ms")), "{printed}");
    }
}
