//! One round of one case in this process: what `stillframe lab case` does.

use std::io::{self, Write};

use anyhow::Result;
use rustix::process::{Signal, set_parent_process_death_signal};
use serde::Serialize;
use serde::de::DeserializeOwned;
use stillframe::Algorithm;
use stillframe::algorithms::{Visitor, available};

use crate::case::Case;
use crate::case::check::dispatch;
use crate::case::record::Record;
use crate::error::sentence;
use crate::served;
use crate::trial;
use crate::trial::alone;
use crate::trial::subject::{Floor, Snapshotted};

/// Reads a case as JSON from standard input, runs it, and writes its record to standard output.
///
/// # Errors
/// Input that is no case, output that cannot be written.
pub fn case_from_stdin() -> io::Result<()> {
    answer_stdin(run_case)
}

/// Writes to standard output, as JSON, what becomes of the JSON on standard input.
pub(crate) fn answer_stdin<I: DeserializeOwned, O: Serialize>(
    run: impl Fn(&I) -> O,
) -> io::Result<()> {
    // The process that asked may be gone, and then needs nothing.
    let _ = set_parent_process_death_signal(Some(Signal::KILL));
    let input = serde_json::from_reader(io::stdin().lock())?;
    let mut output = io::stdout().lock();
    serde_json::to_writer(&mut output, &run(&input))?;
    output.flush()
}

/// Runs one round of a case in this process, which should be a fresh one: memory is measured.
#[must_use]
pub fn run_case(case: &Case) -> Record {
    if let Some(service) = &case.service {
        return served::run(case, service);
    }
    if let Some(Err(unavailable)) = available(&case.algorithm) {
        return Record { unavailable: Some(unavailable.to_string()), ..Record::new(case) };
    }
    if case.alone {
        let failed = alone::run(case).err().map(|why| sentence(&why));
        return Record { ticks_run: case.ticks, failed, ..Record::new(case) };
    }
    let outcome = match case.is_floor() {
        true => trial::run::<Floor>(case),
        false => dispatch(&case.algorithm, Runner { case }),
    };
    outcome.unwrap_or_else(|why| Record { failed: Some(sentence(&why)), ..Record::new(case) })
}

struct Runner<'a> {
    case: &'a Case,
}

impl Visitor for Runner<'_> {
    type Output = Result<Record>;

    fn visit<A: Algorithm>(self) -> Self::Output {
        trial::run::<Snapshotted<A>>(self.case)
    }
}
