//! `stillframe rewind`: the state of a point in the past, in a directory of its own.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use serde::Serialize;
use stillframe_durability::disk::Directory;
use stillframe_durability::inspect::Name;
use stillframe_durability::{Accepted, Error, Until, rewind};
use stillframe_server::{Config, LogLevel};

use crate::archive::Scratch;
use crate::outcome::{OrFail, fail, print};
use crate::{check, files, logs};

pub(crate) const EXAMPLES: &str = "\
Examples:
  stillframe rewind data --out restored                     up to the end of the log
  stillframe rewind data --until 17 --out restored          up to record 17 of the log
  stillframe rewind data --until 2026-11-22T03:04:05Z --out restored
  stillframe rewind data --until @1795316645 --out restored      the same, in unix seconds
  stillframe rewind data --accept-chain-loss --out restored      the newest whole checkpoint
  stillframe inspect data                                    which records and times there are
  stillframe recover --from s3://bucket/prefix DIR           from an archive, on any machine
  stillframe recover --from s3://bucket/prefix --until 2026-11-22T03:04:05Z DIR

DIR is the data directory of a server, which may run, or the directory of a Store, which must be
closed. rewind only reads DIR. A server's result is a dump file for 'stillframe serve --dir'. A
Store's result is its checkpoints and log up to that point, for its program to open; rewind first
reads the newest one, with all that it builds on, which takes as much memory as the state.
log-keep-age and log-keep-bytes of a server, and the Retention of a Store, bound how far back you
can go.
Exit status: 0 done, 1 that point cannot be reached, 2 wrong usage.";

#[derive(Args)]
pub(crate) struct Arguments {
    /// A data directory of a server, or a directory of a Store; with --from, where the result goes
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// An archive, by its URL: s3://bucket/prefix, gs://, az:// or file:///path
    #[arg(
        long = "from",
        value_name = "URL",
        conflicts_with_all = ["out", "dbfilename", "appenddirname"]
    )]
    archive: Option<String>,
    /// Last record to keep, or last time: 2026-11-22T03:04:05Z, or @ and unix seconds
    /// [default: the end of the log]
    #[arg(long, value_name = "SEQ|TIME")]
    until: Option<Until>,
    /// Directory for the result, created if missing; it must hold no state yet
    #[arg(long, value_name = "DIR2", required_unless_present = "archive")]
    out: Option<PathBuf>,
    /// Accept a damaged log: take what lies before the damage
    #[arg(long)]
    accept_loss: bool,
    /// Accept a broken chain of increments: go back to the newest whole checkpoint
    #[arg(long)]
    accept_chain_loss: bool,
    /// Name of a server's dump file [default: dump.rdb]
    #[arg(long, value_name = "NAME")]
    dbfilename: Option<String>,
    /// Name of a server's directory of logs [default: appendonlydir]
    #[arg(long, value_name = "NAME")]
    appenddirname: Option<String>,
    /// One JSON object instead of text
    #[arg(long)]
    json: bool,
}

/// The report at the end.
#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
struct Report {
    kind: &'static str,
    out: String,
    /// Records applied, or copied.
    records: u64,
    /// The last record in the result, 0 if there is none.
    last: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    keys: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    checkpoints: Option<Vec<u64>>,
    /// Checkpoints of a Store that cannot be used.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    skipped: Vec<u64>,
    notices: Vec<String>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), ExitCode> {
    let outcome = match (&arguments.archive, &arguments.out) {
        (Some(url), _) => archived(url, arguments),
        (None, Some(out)) => {
            let (from, until) = (&arguments.directory, arguments.until);
            let is_store = holds_a_store(from).or_fail(2)?;
            logs::start(LogLevel::Warning);
            Rewind { from, until, out }.run(is_store, arguments)
        }
        (None, None) => Err(fail(2, &"name a directory for the result (--out)")),
    };
    let report = outcome?;
    let text = if arguments.json {
        serde_json::to_string(&report).map_or_else(|error| error.to_string(), |line| line + "\n")
    } else {
        report.text()
    };
    print(&text)
}

/// Whether a directory has files that a `Store` names, and no server.
fn holds_a_store(path: &Path) -> Result<bool, Error> {
    let names = Directory::existing(path)?.names()?;
    Ok(names.iter().any(|name| Name::parse(name).is_some()))
}

/// From where, to which point, into what.
#[derive(Clone, Copy)]
struct Rewind<'a> {
    from: &'a Path,
    until: Option<Until>,
    out: &'a Path,
}

impl Rewind<'_> {
    fn run(self, is_store: bool, arguments: &Arguments) -> Result<Report, ExitCode> {
        if is_store { store(self, arguments) } else { server(self, arguments) }
    }
}

/// From an archive: its files are fetched beside the directory, and rewound into it. If that ends
/// early, they are there for the next try.
fn archived(url: &str, arguments: &Arguments) -> Result<Report, ExitCode> {
    let out = &arguments.directory;
    let names = Directory::existing(out).and_then(|it| it.names()).unwrap_or_default();
    if names.iter().any(|name| name != "lock" && name != "stillframe.lock") {
        return Err(fail(2, &format_args!("{} is not empty", out.display())));
    }
    logs::start(LogLevel::Warning);
    let scratch = Scratch::beside(out);
    let fetched = stillframe_archive::fetch(url, arguments.until, &scratch.0).or_fail(1)?;
    let plan = Rewind { from: &scratch.0, until: fetched.until, out };
    let mut report = plan.run(fetched.store, arguments)?;
    report.notices.extend(fetched.notices);
    if let Err(error) = scratch.remove() {
        report.notices.push(format!("what was fetched is left: {error}"));
    }
    Ok(report)
}

fn store(plan: Rewind<'_>, arguments: &Arguments) -> Result<Report, ExitCode> {
    let Arguments { accept_loss, accept_chain_loss, .. } = arguments;
    let Rewind { from, until, out } = plan;
    let accepted = Accepted { log_loss: *accept_loss, chain_loss: *accept_chain_loss };
    let rewound = rewind(from, until, accepted, out).map_err(|error| match error {
        Error::BrokenChain { .. } => fail(1, &format_args!("{error} (--accept-chain-loss)")),
        Error::Log { .. } => fail(1, &format_args!("{error} (--accept-loss)")),
        error => fail(1, &error),
    })?;
    let log = rewound.log.unwrap_or_default();
    let mut notices = Vec::new();
    notices.extend(rewound.skipped.iter().map(|skipped| format!("not taken: {skipped}")));
    notices.extend(log.torn.map(|torn| format!("the log has a torn tail: {torn}")));
    notices.extend(log.lost.map(|lost| format!("the loss was accepted: {lost}")));
    // Checkpoints were copied as they are.
    for finding in files::find(out).unwrap_or_default() {
        if !finding.flaws.is_empty() {
            notices.push(check::text(&finding).trim_end().to_owned());
        }
    }
    Ok(Report {
        kind: "store",
        out: out.display().to_string(),
        records: log.records,
        last: log.last,
        keys: None,
        skipped: rewound.skipped.iter().map(|skipped| skipped.number).collect(),
        checkpoints: Some(rewound.checkpoints),
        notices,
    })
}

fn server(plan: Rewind<'_>, arguments: &Arguments) -> Result<Report, ExitCode> {
    let Rewind { from, until, out } = plan;
    let mut config = Config::default();
    let dir = Some(out.display().to_string());
    let accept = Some(if arguments.accept_loss { "yes" } else { "no" }.to_owned());
    let settings = [
        ("dir", &dir),
        ("accept-log-loss", &accept),
        ("dbfilename", &arguments.dbfilename),
        ("appenddirname", &arguments.appenddirname),
    ];
    for (name, value) in settings {
        if let Some(value) = value
            && let Err(problem) = config.set(name, &[value])
        {
            return Err(fail(2, &format_args!("--{problem} (see 'stillframe rewind --help')")));
        }
    }
    let rewound = stillframe_server::rewind(from, until, config).or_fail(1)?;
    Ok(Report {
        kind: "server",
        out: rewound.dump.display().to_string(),
        records: rewound.records,
        last: rewound.last,
        keys: Some(rewound.keys),
        checkpoints: None,
        skipped: Vec::new(),
        notices: rewound.notices,
    })
}

impl Report {
    fn text(&self) -> String {
        let Self { out, records, last, .. } = self;
        let what = match (&self.keys, &self.checkpoints) {
            (Some(keys), _) => format!("{keys} keys"),
            (None, checkpoints) => {
                format!("{} checkpoints", checkpoints.as_ref().map_or(0, Vec::len))
            }
        };
        let mut text = format!(
            "rewound to {what} and {records} records of the log, the last is {last}, into {out}\n"
        );
        for notice in &self.notices {
            text += &format!("  notice: {notice}\n");
        }
        text
    }
}
