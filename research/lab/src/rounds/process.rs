//! One round of one case in this process: what `stillframe lab case` does.

use std::io::{self, Read, Write};

use rustix::process::{Signal, set_parent_process_death_signal};
use stillframe::Algorithm;
use stillframe::algorithms::{Visitor, available, dispatch};

use crate::case::Case;
use crate::case::record::Record;
use crate::served;
use crate::trial;
use crate::trial::alone;
use crate::trial::subject::{Floor, Snapshotted};

/// Reads a case as JSON from standard input, runs it, and writes its record to standard output.
///
/// # Errors
/// Input that is no case, output that cannot be written.
pub fn case_from_stdin() -> io::Result<()> {
    // The process that asked for the figures is gone, and needs none.
    let _ = set_parent_process_death_signal(Some(Signal::KILL));
    let mut input = String::new();
    io::stdin().lock().read_to_string(&mut input)?;
    let record = run_case(&serde_json::from_str(&input)?);
    let mut output = io::stdout().lock();
    serde_json::to_writer(&mut output, &record)?;
    output.flush()
}

/// Runs one round of a case in this process, which should be a fresh one: memory is measured.
#[must_use]
pub fn run_case(case: &Case) -> Record {
    let record_of = |unavailable, failed| Record {
        algorithm: case.algorithm.clone(),
        case: case.clone(),
        unavailable,
        failed,
        ..Record::default()
    };
    if let Some(service) = &case.service {
        return served::run(case, service);
    }
    if let Some(Err(unavailable)) = available(&case.algorithm) {
        return record_of(Some(unavailable.to_string()), None);
    }
    if case.alone {
        let record = record_of(None, alone::run(case).err());
        return Record { ticks_run: case.ticks, ..record };
    }
    let outcome = match case.is_floor() {
        true => trial::run::<Floor>(case),
        false => dispatch(&case.algorithm, Runner { case })
            .unwrap_or_else(|| Err(format!("there is no algorithm '{}'", case.algorithm))),
    };
    outcome.unwrap_or_else(|sentence| record_of(None, Some(sentence)))
}

struct Runner<'a> {
    case: &'a Case,
}

impl Visitor for Runner<'_> {
    type Output = Result<Record, String>;

    fn visit<A: Algorithm>(self) -> Self::Output {
        trial::run::<Snapshotted<A>>(self.case)
    }
}
