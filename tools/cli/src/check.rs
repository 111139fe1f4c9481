//! `stillframe check`: which bytes of a file are not what was written.

use std::fmt::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

use crate::archive;
use crate::files::{self, Finding, Health};
use crate::outcome::{OrFail, print};

pub(crate) const EXAMPLES: &str = "\
Examples:
  stillframe check stillframe-data/dump.rdb     an RDB file, of Redis too
  stillframe check data                         every checkpoint, log and RDB file of a directory,
                                                the logs of a server below it, too
  stillframe check s3://bucket/prefix           every object of an archive
  stillframe check --json data                  one JSON object a file; start and end of a flaw are
                                                byte offsets, end is exclusive

At the URL of an archive, check fetches every object into the directory for temporary files, and
compares it with the manifest.
The first bytes of a file decide its kind. check changes nothing, and a store or server may
run. A log that ends in bytes that are no records is 'torn': a loss of power leaves such an end, and
the next start ignores it; damage to the very last records looks the same.
Exit status: 0 all sound, 1 something is damaged, torn or unreadable, 2 wrong usage or no such file.";

// `inspect` has these flags, too.
#[derive(Args)]
pub(crate) struct Arguments {
    /// Files, directories of them, or URLs of archives
    #[arg(required = true, value_name = "PATH")]
    pub(crate) paths: Vec<PathBuf>,
    /// One JSON object a file instead of text
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), ExitCode> {
    report(&arguments.paths, |finding| match arguments.json {
        true => json(&Finding { facts: None, ..finding.clone() }),
        false => text(finding),
    })
}

/// Examines all paths, and prints each finding by `show`.
pub(crate) fn report(paths: &[PathBuf], show: impl Fn(&Finding) -> String) -> Result<(), ExitCode> {
    let (mut bad, mut wrong) = (false, false);
    for path in paths {
        let found = match archive::url(path) {
            Some(url) => archive::find(url),
            None => files::find(path),
        };
        let found = found.or_fail(2);
        wrong |= found.is_err();
        for finding in found.into_iter().flatten() {
            bad |= !matches!(finding.health, Health::Sound | Health::Skipped);
            print(&show(&finding))?;
        }
    }
    match (bad, wrong) {
        (true, _) => Err(ExitCode::from(1)),
        (false, true) => Err(ExitCode::from(2)),
        (false, false) => Ok(()),
    }
}

pub(crate) fn json(finding: &Finding) -> String {
    serde_json::to_string(finding).map_or_else(|error| error.to_string(), |line| line + "\n")
}

/// A line, and one more for each flaw.
pub(crate) fn text(finding: &Finding) -> String {
    let health = match finding.health {
        Health::Sound => "sound",
        Health::Torn => "torn",
        Health::Damaged => "damaged",
        Health::Unreadable => "unreadable",
        Health::Skipped => "skipped",
    };
    let mut text = format!("{}: {health}", finding.path.display());
    if let Some(notice) = &finding.notice {
        let _ = write!(text, " ({notice})"); // a String takes all
    }
    text.push('\n');
    for flaw in &finding.flaws {
        let place = match flaw.bytes.end.saturating_sub(flaw.bytes.start) {
            0 | 1 => format!("byte {}", flaw.bytes.start),
            _ => format!("bytes {} to {}", flaw.bytes.start, flaw.bytes.end - 1),
        };
        let _ = writeln!(text, "  {place}: {}", flaw.problem);
    }
    text
}
