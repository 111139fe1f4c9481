//! `stillframe lab advise`: a need to an algorithm, with the figures that argue for it.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, Error, Result, bail};
use clap::Args;
use stillframe_lab::Distribution;
use stillframe_lab::advise::{Figures, Need};
use stillframe_lab::error::sentence;
use stillframe_lab::observe::{Observed, host, observe};

use super::list::read;
use crate::outcome::{fail, print};
use crate::values::{count, milliseconds, size};

pub(crate) const EXAMPLES: &str = "\
Examples:
  stillframe lab advise --size 100MB --updates 1280k
  stillframe lab advise --target 127.0.0.1:6379 --for 30s      a server under its usual load
  stillframe lab advise --size 1GiB --item-bytes 8 --updates 500k --reads-per-update 4
      --memory 3GiB --begin 5ms --interval 60s --report report

The advice names the algorithm with the least cost of updates and reads while images are taken,
among those within --memory and --begin; a read counts as an update. Figures are those of the
documents, or of the load in --report nearest to the need. The advice lists what they do not cover.
--target measures any Redis-compatible server by INFO alone: an algorithm of 'stillframe serve'
protects a word of 8 bytes for each key, whatever the values hold.
Exit status: 0 advice, 1 no algorithm keeps within the limits, or --target has no answer or no
writes, 2 wrong usage.";

#[derive(Args)]
pub(crate) struct Arguments {
    /// Server whose keys, changes and reads are the need, except where a flag says otherwise
    #[arg(long, value_name = "HOST:PORT")]
    target: Option<String>,
    /// How long to look at --target
    #[arg(long = "for", value_name = "TIME", default_value = "10s", value_parser = milliseconds)]
    time: u64,
    /// Password of --target, or of --user
    #[arg(long, value_name = "PASSWORD")]
    password: Option<String>,
    /// User of the access control list of --target
    #[arg(long, value_name = "NAME", requires = "password")]
    user: Option<String>,
    /// State [default: 100MB]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    size: Option<u64>,
    /// Bytes that an update replaces [default: 4]
    #[arg(long, value_name = "BYTES")]
    item_bytes: Option<u32>,
    /// Updates a second [default: 1280k]
    #[arg(long, value_name = "COUNT", value_parser = count)]
    updates: Option<u64>,
    /// Which items are updated, as in 'lab compare'
    #[arg(long, value_name = "NAME", default_value = "uniform")]
    distribution: Distribution,
    /// Reads for each update [default: 0]
    #[arg(long, value_name = "RATIO")]
    reads_per_update: Option<f64>,
    /// Most memory, the state included [default: any]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    memory: Option<u64>,
    /// Longest stall of the writer at the begin of an image [default: any]
    #[arg(long, value_name = "TIME", value_parser = milliseconds)]
    begin: Option<u64>,
    /// Time from one image to the next
    #[arg(long, value_name = "TIME", value_parser = milliseconds)]
    interval: Option<u64>,
    /// Threads that write
    #[arg(long, value_name = "COUNT", default_value_t = 1)]
    writers: u32,
    /// Directory of 'lab all' or 'lab compare', whose records are the figures
    #[arg(long, value_name = "DIR")]
    report: Option<PathBuf>,
}

impl Arguments {
    fn check(&self) -> Result<()> {
        let numbers = [self.size, self.item_bytes.map(u64::from), self.updates];
        if numbers.contains(&Some(0)) || self.writers == 0 {
            bail!("--size, --item-bytes, --updates and --writers start at 1");
        }
        if self.reads_per_update.is_some_and(|ratio| !(0.0..=1e6).contains(&ratio)) {
            bail!("--reads-per-update: give a number from 0 to 1000000");
        }
        if self.time == 0 {
            bail!("--for starts at 1ms");
        }
        if let Some(target) = &self.target {
            host(target).map_err(Error::msg)?;
        }
        Ok(())
    }

    /// What the server of --target does.
    fn observed(&self) -> Result<Option<Observed>> {
        let Some(target) = &self.target else { return Ok(None) };
        let login = [&self.user, &self.password].into_iter().flatten();
        let login: Vec<&str> = login.map(|word| &**word).collect();
        observe(target, &login, Duration::from_millis(self.time)).map(Some)
    }

    /// The need by flags, and where these say nothing by the server, or by the shipped figures.
    fn need(&self, observed: Option<&Observed>) -> Need {
        let (size, item, updates, reads) = match observed {
            Some(it) => (it.state_bytes(), 8, it.changes_per_s(), it.reads_per_change()),
            None => (100 << 20, 4, 1_280_000, 0.0),
        };
        Need {
            size_bytes: self.size.unwrap_or(size),
            item_bytes: self.item_bytes.unwrap_or(item),
            updates_per_s: self.updates.unwrap_or(updates),
            distribution: self.distribution,
            reads_per_update: self.reads_per_update.unwrap_or(reads),
            memory_bytes: self.memory,
            begin_us_max: self.begin.map(|ms| ms as f64 * 1e3),
            interval_s: self.interval.map(|ms| ms as f64 / 1e3),
            writers: self.writers,
        }
    }

    /// The figures of the load nearest to the need.
    fn figures(&self, need: &Need) -> Result<Figures> {
        let Some(directory) = &self.report else { return Ok(Figures::shipped()) };
        let mut records = Vec::new();
        let files = ["results.jsonl", "compare.jsonl"].map(|name| directory.join(name));
        for file in files.iter().filter(|file| file.exists()) {
            records.extend(read(file)?);
        }
        let figures = Figures::of_records(&records, &directory.display().to_string());
        figures.into_iter().min_by_key(|it| it.gaps(need).len()).with_context(|| {
            format!("--report {}: no records that can be compared", directory.display())
        })
    }
}

/// The observation for people.
fn seen(observed: &Observed) -> String {
    let Observed { keys, seconds, .. } = observed;
    format!(
        "Within {seconds:.1} s: {keys} keys, {} changes a second, {:.2} reads for each. INFO does \
         not tell which keys change: see --distribution.\n",
        observed.changes_per_s(),
        observed.reads_per_change()
    )
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), ExitCode> {
    arguments.check().map_err(|why| fail(2, &sentence(&why)))?;
    let observed = arguments.observed().map_err(|why| fail(1, &sentence(&why)))?;
    let need = arguments.need(observed.as_ref());
    let figures = arguments.figures(&need).map_err(|why| fail(2, &sentence(&why)))?;
    let advice = figures.advise(&need);
    let mut text = observed.as_ref().map_or(String::new(), seen);
    text += &advice.fitting.first().map_or(String::new(), |row| {
        format!("Use {}. The algorithms within the limits, the best first:\n\n", row.name)
    });
    text += &figures.table(&advice, &need).text();
    for limit in ["memory", "begin"] {
        let names = advice.ruled_out.iter().filter(|(_, by)| *by == limit);
        let names: Vec<&str> = names.map(|(name, _)| &**name).collect();
        if !names.is_empty() {
            text += &format!("Ruled out by --{limit}: {}.\n", names.join(", "));
        }
    }
    if !advice.unmeasured.is_empty() {
        text += &format!("Not measured: {}.\n", advice.unmeasured.join(", "));
    }
    for gap in &advice.gaps {
        text += &format!("Not covered: {gap}.\n");
    }
    if !advice.gaps.is_empty() {
        text += "Measure your own load: stillframe lab compare (see --help).\n";
    }
    print(&text)?;
    if advice.fitting.is_empty() {
        let problem = "no algorithm keeps within the limits; raise --memory or --begin";
        return Err(fail(1, &problem));
    }
    Ok(())
}
