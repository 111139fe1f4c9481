//! Measurements in processes of their own: this very program with the arguments `lab part KIND`,
//! so that memory is its own, and what an allocator keeps of one is not part of the next.

use std::io::{self, Read, Write};
use std::process::{Command, Stdio};

use rustix::process::{Signal, set_parent_process_death_signal};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::served::Scratch;

/// Has another process measure. `kind` stands in the list of `parts.rs`.
pub(super) fn measure<I: Serialize, O: DeserializeOwned>(
    kind: &str,
    input: &I,
) -> Result<O, String> {
    let run = || {
        // Its files are removed even if it is killed.
        let scratch = Scratch::new(kind)?;
        let mut child = Command::new(std::env::current_exe()?)
            .args(["lab", "part", kind])
            .env("TMPDIR", scratch.path())
            // As for the other figures: mimalloc takes pages of 2 MiB for some.
            .env("MIMALLOC_ALLOW_THP", "0")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let input = serde_json::to_vec(input)?;
        if let Some(mut stdin) = child.stdin.take() {
            stdin.write_all(&input)?;
        }
        let output = child.wait_with_output()?;
        match output.status.success() {
            true => Ok(serde_json::from_slice(&output.stdout)?),
            false => Ok(Err(format!("its process ended with {}", output.status))),
        }
    };
    run().unwrap_or_else(|error: io::Error| Err(error.to_string()))
}

/// What such a process does: measures what JSON on standard input asks for, and writes what came of
/// it to standard output.
pub(super) fn answer<I: DeserializeOwned, O: Serialize>(
    run: impl Fn(&I) -> Result<O, String>,
) -> io::Result<()> {
    // The process that asked may be gone, and then needs nothing.
    let _ = set_parent_process_death_signal(Some(Signal::KILL));
    let mut input = String::new();
    io::stdin().lock().read_to_string(&mut input)?;
    let mut output = io::stdout().lock();
    serde_json::to_writer(&mut output, &run(&serde_json::from_str(&input)?))?;
    output.flush()
}
