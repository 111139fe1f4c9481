//! `stillframe hunt`: flags to a plan, a report to text and JSON.

use std::path::PathBuf;
use std::process::{self, ExitCode};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::Args;
use stillframe_hunt::{HuntError, Plan, hunt};

use crate::load::deliver;
use crate::outcome::{fail, watch_signals};
use crate::values::{count, milliseconds};

pub(crate) const EXAMPLES: &str = "\
Examples:
  stillframe hunt --target 127.0.0.1:6379                       20 images by full syncs
  stillframe hunt --target 127.0.0.1:6379 --images 500 --for 600s --json hunt.json
  stillframe hunt --target 127.0.0.1:6379 --dump /var/lib/redis/dump.rdb      images by BGSAVE

Writers run transactions at full speed; every image taken meanwhile has to be exactly what some
first transactions of each writer leave. An image is
  torn          if it shows part of a transaction, or transactions that never stood together
  stale         if it lacks a transaction acknowledged before the image was asked for
  missing       if it lacks keys
  mislabelled   if the stream behind its offset does not lead to the live state (full syncs only)
The hunt writes keys hunt:SEED:... in databases 0 and 1, and deletes them at the end. Use a server
that no other replica joins meanwhile.
Exit status: 0 every image is right, 1 wrong images or no verdict, 2 wrong usage, 130 Ctrl-C.";

#[derive(Args)]
pub(crate) struct Arguments {
    /// Server whose images to judge
    #[arg(long, value_name = "HOST:PORT")]
    target: String,
    /// Images to judge
    #[arg(long, value_name = "COUNT", default_value = "20", value_parser = count)]
    images: u64,
    /// Stop after this time, whatever --images says
    #[arg(long = "for", value_name = "TIME", value_parser = milliseconds)]
    time: Option<u64>,
    /// Take images by BGSAVE from this file, not by full syncs
    #[arg(long, value_name = "FILE")]
    dump: Option<PathBuf>,
    /// Connections that write
    #[arg(long, value_name = "COUNT", default_value = "2", value_parser = count)]
    writers: u64,
    /// Number of strings; of each other type there is a tenth as many keys
    #[arg(long, value_name = "COUNT", default_value = "20k", value_parser = count)]
    keys: u64,
    /// Longest time for a reply, or for an image
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = milliseconds)]
    patience: u64,
    /// Password of the server, or of --user
    #[arg(long, value_name = "PASSWORD")]
    password: Option<String>,
    /// User of the server's access control list
    #[arg(long, value_name = "NAME")]
    user: Option<String>,
    /// Seed of the transactions [default: a new one]
    #[arg(long)]
    seed: Option<u64>,
    /// File for the report as one JSON object; none or -: standard output, text on standard error
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-")]
    json: Option<PathBuf>,
}

impl Arguments {
    fn plan(&self) -> Result<Plan, String> {
        let plan = Plan {
            target: self.target.clone(),
            user: self.user.clone(),
            password: self.password.clone(),
            images: self.images,
            time: self.time.map(Duration::from_millis),
            dump: self.dump.clone(),
            writers: usize::try_from(self.writers).unwrap_or(usize::MAX),
            keys: self.keys,
            seed: self.seed.unwrap_or_else(new_seed),
            patience: Duration::from_millis(self.patience),
        };
        plan.check()?;
        Ok(plan)
    }
}

/// Another one for each hunt, short enough to be typed.
fn new_seed() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    (now.as_nanos() as u64 ^ u64::from(process::id()) << 20) % 1_000_000_000
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), ExitCode> {
    let plan = arguments
        .plan()
        .map_err(|problem| fail(2, &format_args!("{problem} (see 'stillframe hunt --help')")))?;
    let stop = watch_signals(130)?;
    eprintln!("stillframe: hunting with seed {}", plan.seed);
    let report = hunt(&plan, &stop).map_err(|error| match error {
        HuntError::Plan(_) => fail(2, &error),
        HuntError::Interrupted => fail(130, &error),
        error => fail(1, &error),
    })?;
    let text = report.table().text() + &report.notes().join("\n") + "\n";
    deliver(text, &report, arguments.json.as_deref(), report.failure(), report.interrupted)
}
