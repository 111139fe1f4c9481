//! `stillframe lab advise`: a need to an algorithm, with the figures that argue for it.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use stillframe_lab::Distribution;
use stillframe_lab::advise::{Figures, Need};

use super::list::read;
use crate::outcome::{fail, print};
use crate::values::{count, milliseconds, size};

pub(crate) const EXAMPLES: &str = "\
Examples:
  stillframe lab advise --size 100MB --updates 1280k
  stillframe lab advise --size 1GiB --item-bytes 8 --updates 500k --reads-per-update 4
      --memory 3GiB --begin 5ms --interval 60s --report report

The advice names the algorithm with the least cost of updates and reads while images are taken,
among those within --memory and --begin; a read counts as an update. Figures are those of the
documents, or of the load in --report nearest to the need. The advice lists what they do not cover.
Exit status: 0 advice, 1 no algorithm keeps within the limits, 2 wrong usage.";

#[derive(Args)]
pub(crate) struct Arguments {
    /// State
    #[arg(long, value_name = "SIZE", default_value = "100MB", value_parser = size)]
    size: u64,
    /// Bytes that an update replaces
    #[arg(long, value_name = "BYTES", default_value_t = 4)]
    item_bytes: u32,
    /// Updates a second
    #[arg(long, value_name = "COUNT", default_value = "1280k", value_parser = count)]
    updates: u64,
    /// Which items are updated, as in 'lab compare'
    #[arg(long, value_name = "NAME", default_value = "uniform")]
    distribution: Distribution,
    /// Reads for each update
    #[arg(long, value_name = "RATIO", default_value_t = 0.0)]
    reads_per_update: f64,
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
    fn need(&self) -> Result<Need, String> {
        if self.size == 0 || self.item_bytes == 0 || self.updates == 0 || self.writers == 0 {
            return Err("--size, --item-bytes, --updates and --writers start at 1".to_owned());
        }
        if !(0.0..=1e6).contains(&self.reads_per_update) {
            return Err("--reads-per-update: give a number from 0 to 1000000".to_owned());
        }
        Ok(Need {
            size_bytes: self.size,
            item_bytes: self.item_bytes,
            updates_per_s: self.updates,
            distribution: self.distribution,
            reads_per_update: self.reads_per_update,
            memory_bytes: self.memory,
            begin_us_max: self.begin.map(|ms| ms as f64 * 1e3),
            interval_s: self.interval.map(|ms| ms as f64 / 1e3),
            writers: self.writers,
        })
    }

    /// The figures of the load nearest to the need.
    fn figures(&self, need: &Need) -> Result<Figures, String> {
        let Some(directory) = &self.report else { return Ok(Figures::shipped()) };
        let mut records = Vec::new();
        let files = ["results.jsonl", "compare.jsonl"].map(|name| directory.join(name));
        for file in files.iter().filter(|file| file.exists()) {
            records.extend(read(file)?);
        }
        let figures = Figures::of_records(&records, &directory.display().to_string());
        figures.into_iter().min_by_key(|it| it.gaps(need).len()).ok_or_else(|| {
            format!("--report {}: no records that can be compared", directory.display())
        })
    }
}

pub(crate) fn run(arguments: &Arguments) -> ExitCode {
    let figures = arguments.need().and_then(|need| Ok((arguments.figures(&need)?, need)));
    let (figures, need) = match figures {
        Ok(both) => both,
        Err(problem) => return fail(2, &problem),
    };
    let advice = figures.advise(&need);
    let mut text = advice.fitting.first().map_or(String::new(), |row| {
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
    if let Err(status) = print(&text) {
        return status;
    }
    if advice.fitting.is_empty() {
        return fail(1, &"no algorithm keeps within the limits; raise --memory or --begin");
    }
    ExitCode::SUCCESS
}
