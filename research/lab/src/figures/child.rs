//! Measurements in processes of their own: this very program with the arguments `lab part KIND`,
//! so that memory is its own, and what an allocator keeps of one is not part of the next.

use std::io::{self, Write};
use std::process::{Command, Stdio};

use anyhow::{Error, Result, ensure};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::sentence;
use crate::rounds::process::answer_stdin;
use crate::served::Scratch;

/// Has another process measure. `kind` stands in the list of `parts.rs`.
pub(super) fn measure<I: Serialize, O: DeserializeOwned>(kind: &str, input: &I) -> Result<O> {
    let input = serde_json::to_vec(input)?;
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
    if let Some(mut stdin) = child.stdin.take() {
        stdin.write_all(&input)?;
    }
    let output = child.wait_with_output()?;
    ensure!(output.status.success(), "its process ended with {}", output.status);
    serde_json::from_slice::<Result<O, String>>(&output.stdout)?.map_err(Error::msg)
}

/// What such a process does: measures what JSON on standard input asks for, and writes what came of
/// it to standard output.
pub(super) fn answer<I: DeserializeOwned, O: Serialize>(
    run: impl Fn(&I) -> Result<O>,
) -> io::Result<()> {
    answer_stdin(|input| run(input).map_err(|why| sentence(&why)))
}
