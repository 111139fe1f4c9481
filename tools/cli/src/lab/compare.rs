//! `stillframe lab compare`: flags to cases, rounds to a table.

use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Result, bail};
use clap::Args;
use stillframe::Unit;
use stillframe::algorithms::ALL;
use stillframe_lab::error::sentence;
use stillframe_lab::output::{self, Records, Unwritable};
use stillframe_lab::{
    Case, Distribution, FLOOR, LabError, Record, SinkKind, Verify, case, check, comparison,
    comparison_page, environment, run_rounds,
};

use super::progress::{clear_line, show};
use super::quiet;
use crate::outcome::{OrFail, fail};
use crate::values::{Count, Milliseconds, Rate, Size, count, size};

pub(crate) const EXAMPLES: &str = "\
Examples:
  stillframe lab compare                        every algorithm, about three minutes
  stillframe lab compare --algorithms imprint,fork --size 1000MB --updates-per-tick 256k
      --tick 100ms --ticks 200                  as in the papers
  stillframe lab compare --tick 0 --disk-rate off --distribution zipf:0.99 --unit page
  stillframe lab compare --sink file --dir /data --reads-per-update 4

Distributions: uniform; zipf:THETA (items by Zipf's law, scattered over the state); pages:THETA
(4 KiB pages by Zipf, any item in one; Li et al.); lines:THETA (the same, one line in each);
objects:ITEMS:THETA (objects by Zipf, then an item in one by Zipf; Cao et al. have
objects:2000:0.5); players:ITEMS (five state machines of each decide; Cao et al. have
players:25000, with --size 200MB --updates-per-tick 53153); gaussian[:DEVIATION].
Sizes: 64MB, 1GiB (powers of 1024); counts: 256k, 1M (thousands).
Each round runs in a process of its own, all algorithms once before any of them again. The lab times
begin, updates and reads of a tick. It compares every block of every image with a replay of all
updates, outside of the timed parts. Memory is the proportional set size of the process and its
children less the lab's own buffers, sampled at 50, 90 and 99 % of one more image after the timed
ticks. Exit status: 0 done, 1 an image was wrong or a round broke, 2 wrong usage, 130 Ctrl-C
(finished rounds are kept), 3 the machine is busy.";

#[derive(Args)]
pub(crate) struct Arguments {
    /// Names, with commas between them, or all; 'none' (no snapshots) always runs as the floor
    #[arg(long, value_name = "NAMES", default_value = "all")]
    algorithms: String,
    /// State
    #[arg(long, value_name = "SIZE", default_value_t = Size(Case::default().size_bytes))]
    size: Size,
    /// Bytes an update replaces: 4 or 8
    #[arg(long, value_name = "BYTES", default_value_t = Case::default().item_bytes)]
    item_bytes: u32,
    /// Updates in a tick
    #[arg(long, value_name = "COUNT", default_value_t = Count(Case::default().updates_per_tick))]
    updates_per_tick: Count,
    /// Length of a tick; 0: full speed, no idle time
    #[arg(long, value_name = "TIME", default_value_t = Milliseconds(Case::default().tick_ms))]
    tick: Milliseconds,
    /// Ticks that are timed [default: 40, or what --checkpoints need]
    #[arg(long, value_name = "COUNT", value_parser = count)]
    ticks: Option<u64>,
    /// Most images in a round [default: one after the other]
    #[arg(long, value_name = "COUNT")]
    checkpoints: Option<u32>,
    /// Least time from one begin to the next
    #[arg(long, value_name = "TIME", default_value_t = Milliseconds(Case::default().interval_ms))]
    interval: Milliseconds,
    /// Which items are updated
    #[arg(long, value_name = "NAME", default_value_t = Case::default().distribution)]
    distribution: Distribution,
    /// Bytes that one flag describes: half (4), word, line or page, where an algorithm has several
    #[arg(long, default_value = Case::default().unit.name(), value_parser = case::parse_unit)]
    unit: Unit,
    /// Reads that follow each update, on average, timed with it
    #[arg(long, value_name = "RATIO", default_value_t = Case::default().reads_per_update)]
    reads_per_update: f64,
    /// Announce each update this many updates ahead, as a batch can; 16 is about the best
    #[arg(long, value_name = "COUNT", default_value_t = Case::default().ahead)]
    ahead: u32,
    /// Hand over so many updates at once, items of 8 bytes; 0: one by one
    #[arg(long, value_name = "COUNT", default_value_t = Case::default().batch)]
    batch: u32,
    /// Most bytes of image a second, or off
    #[arg(long, value_name = "RATE", default_value_t = Rate(Case::default().disk_rate))]
    disk_rate: Rate,
    /// Time from the begin of an image to its first read
    #[arg(long, value_name = "TIME", default_value_t = Milliseconds(Case::default().hold_ms))]
    hold: Milliseconds,
    /// Cores for writer and snapshotter: 1 for both together [default: one each]
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u8).range(1..=2))]
    cores: Option<u8>,
    /// Where images go: discard, file (flushed to the disk) or tmpfs
    #[arg(long, value_name = "KIND", default_value = "discard",
          value_parser = ["discard", "file", "tmpfs"])]
    sink: String,
    /// Directory of '--sink file' [default: that of --out]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Ask the system for pages of 2 MiB
    #[arg(long)]
    huge_pages: bool,
    /// Threads that copy, where an algorithm has several
    #[arg(long, value_name = "COUNT", default_value_t = Case::default().threads)]
    threads: usize,
    /// Most memory an image may take for itself [default: a quarter of the state, at least 64MB]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    budget: Option<u64>,
    /// Rounds
    #[arg(long, value_name = "COUNT", default_value = "3")]
    repeat: u32,
    /// Seed of the updates
    #[arg(long, default_value_t = Case::default().seed)]
    seed: u64,
    /// Blocks of each image that are compared with the oracle: full, sample (every 16th) or off
    #[arg(long, default_value_t = Case::default().verify)]
    verify: Verify,
    /// Run even if the machine is busy: figures are noise then
    #[arg(long)]
    busy: bool,
    /// Keep the latency of every tick in the records
    #[arg(long)]
    trace: bool,
    /// Corrupt every image on purpose: the run must find it and exit with status 1
    #[arg(long)]
    self_test: bool,
    /// Directory of compare.jsonl and compare.html, created if missing
    #[arg(long, value_name = "DIR", default_value = "stillframe-lab")]
    out: PathBuf,
    /// File of the records instead, one JSON object an algorithm and round; -: standard output
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// The run that the flags describe.
struct Plan {
    cases: Vec<Case>,
    repeat: u32,
    /// `-` for standard output.
    json: PathBuf,
    /// Beside the records, unless these go elsewhere.
    page: Option<PathBuf>,
}

impl Arguments {
    fn plan(&self) -> Result<Plan> {
        if self.repeat == 0 {
            bail!("--repeat 0: zero rounds leave nothing to compare");
        }
        if self.self_test && self.verify == Verify::Off {
            bail!("--self-test needs a verifier: leave out --verify off");
        }
        if self.dir.is_some() && self.sink != "file" {
            bail!("--dir is for '--sink file', not '--sink {}'", self.sink);
        }
        let case = Case {
            unit: self.unit,
            size_bytes: self.size.0,
            item_bytes: self.item_bytes,
            updates_per_tick: self.updates_per_tick.0,
            tick_ms: self.tick.0,
            ticks: self.ticks.unwrap_or_else(|| self.ticks_needed()),
            checkpoints: self.checkpoints.unwrap_or(0),
            interval_ms: self.interval.0,
            distribution: self.distribution,
            reads_per_update: self.reads_per_update,
            ahead: self.ahead,
            batch: self.batch,
            disk_rate: self.disk_rate.0,
            hold_ms: self.hold.0,
            cores: self.cores.unwrap_or(0).into(),
            sink: match self.sink.as_str() {
                "file" => SinkKind::File(self.dir.clone().unwrap_or_else(|| self.out.clone())),
                "tmpfs" => SinkKind::Tmpfs,
                _ => SinkKind::Discard,
            },
            huge_pages: self.huge_pages,
            threads: self.threads,
            budget_bytes: self.budget.unwrap_or(0),
            verify: self.verify,
            seed: self.seed,
            trace: self.trace,
            corrupt: self.self_test,
            ..Case::default()
        };
        if self.checkpoints == Some(0) {
            bail!("--checkpoints 0: without an image there is nothing to compare");
        }
        if u64::from(case.checkpoints) > case.ticks {
            bail!(
                "--checkpoints {} do not fit --ticks {}: a tick begins one at most",
                case.checkpoints,
                case.ticks
            );
        }
        let cases: Vec<Case> = self.names()?.iter().map(|name| case.with_algorithm(name)).collect();
        cases.iter().try_for_each(check::case)?;
        let json = self.json.clone().unwrap_or_else(|| self.out.join("compare.jsonl"));
        let page = self.json.is_none().then(|| self.out.join("compare.html"));
        Ok(Plan { cases, repeat: self.repeat, json, page })
    }

    /// The floor first, then each name once.
    fn names(&self) -> Result<Vec<&str>> {
        let mut names = vec![FLOOR];
        if self.algorithms == "all" {
            names.extend(ALL.iter().map(|info| info.name));
            return Ok(names);
        }
        for name in self.algorithms.split(',').map(str::trim) {
            check::algorithm(name)?;
            if !names.contains(&name) {
                names.push(name);
            }
        }
        Ok(names)
    }

    /// Ticks that the checkpoints asked for need, by the disk rate or a gigabyte a second.
    fn ticks_needed(&self) -> u64 {
        let Some(checkpoints) = self.checkpoints else { return Case::default().ticks };
        let image_s = self.size.0 as f64 / self.disk_rate.0.unwrap_or(1 << 30) as f64;
        let each_s = image_s.max(self.interval.0 as f64 / 1e3);
        // Without idle time, an update is taken to cost 20 ns.
        let tick_s = (self.tick.0 as f64 / 1e3).max(self.updates_per_tick.0 as f64 * 20e-9);
        let each = (each_s / tick_s.max(1e-6)).ceil() as u64 + 2;
        each.saturating_mul(u64::from(checkpoints)) * 10 / 9 + 1
    }
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), ExitCode> {
    let plan = arguments
        .plan()
        .map_err(|why| fail(2, &format_args!("{} (see 'lab compare --help')", sentence(&why))))?;
    quiet(arguments.busy)?;
    let mut output = open(arguments, &plan.json).or_fail(2)?;
    let mut records: Vec<Record> = Vec::new();
    let mut written = Ok(());
    let outcome =
        run_rounds(&plan.cases, 1..=plan.repeat, &mut |progress| show(&progress), &mut |it| {
            if let Some(why) = &it.failed {
                clear_line();
                eprintln!("stillframe: {}, round {}: {why}", it.algorithm, it.round);
            }
            let added = output.add(it);
            written = std::mem::replace(&mut written, Ok(())).and(added);
            records.push(it.clone());
        });
    clear_line();
    let written = written.and(plan.write_page(&records));
    print(&records, &plan);
    match (outcome, written) {
        (Err(LabError::Interrupted), _) => {
            Err(fail(130, &format_args!("interrupted; {} rounds are kept", records.len())))
        }
        (Err(error), _) => Err(fail(1, &error)),
        (_, Err(error)) => Err(fail(1, &error)),
        _ if records.iter().any(Record::is_wrong) => Err(fail(
            1,
            &"not every round gave right images: see the column 'wrong' and the remarks",
        )),
        _ => Ok(()),
    }
}

impl Plan {
    fn write_page(&self, records: &[Record]) -> Result<(), Unwritable> {
        let (Some(page), Some(case)) = (&self.page, self.cases.first()) else { return Ok(()) };
        let words = std::env::args().skip(1).collect::<Vec<_>>().join(" ");
        let command = format!("stillframe {words}");
        output::write(page, &comparison_page::html(records, &describe(case, self.repeat), &command))
    }
}

/// The file of the records, and the directories that the run writes to.
fn open(arguments: &Arguments, json: &Path) -> Result<Records, Unwritable> {
    if arguments.sink == "file" {
        output::create_directory(arguments.dir.as_ref().unwrap_or(&arguments.out))?;
    }
    if arguments.json.is_none() {
        output::create_directory(&arguments.out)?;
    }
    Records::create(json)
}

/// The table and its remarks; on standard error if the records take standard output.
fn print(records: &[Record], plan: &Plan) {
    let is_piped = plan.json == Path::new("-");
    let colours = if is_piped { io::stderr().is_terminal() } else { io::stdout().is_terminal() };
    let (table, wrong) = comparison::table(records);
    let mut text = String::new();
    // One line of title, one of columns, then the rows.
    for (number, line) in table.text().lines().enumerate().skip(1) {
        let red = colours && number >= 2 && wrong.get(number - 2) == Some(&true);
        text += &if red { format!("\x1b[31m{line}\x1b[0m\n") } else { format!("{line}\n") };
    }
    text += &format!("\n{}\n", comparison::LEGEND);
    for remark in comparison::remarks(records) {
        text += &format!("! {remark}\n");
    }
    if let Some(case) = plan.cases.first() {
        text += &format!("{}\n", describe(case, plan.repeat));
    }
    text += &comparison::touched(records).map_or(String::new(), |touched| touched + "\n");
    if !is_piped {
        text += &format!("Records: {}\n", plan.json.display());
    }
    if let Some(page) = &plan.page {
        text += &format!("Page: {}\n", page.display());
    }
    let written = match is_piped {
        true => io::stderr().lock().write_all(text.as_bytes()),
        false => io::stdout().lock().write_all(text.as_bytes()),
    };
    let _ = written; // a reader that has seen enough is no failure
}

fn describe(case: &Case, repeat: u32) -> String {
    let environment = environment();
    let speed = match case.tick_ms {
        0 => "at full speed".to_owned(),
        tick_ms => format!("of {tick_ms} ms"),
    };
    let rate = case.disk_rate.map_or("no rate limit".to_owned(), |rate| check::human(rate) + "/s");
    let batch = match case.batch {
        0 => String::new(),
        batch => format!(" in batches of {batch}"),
    };
    let ahead = match case.ahead {
        0 => String::new(),
        ahead => format!(" announced {ahead} ahead"),
    };
    format!(
        "{} of {}-byte items; {} updates a tick{ahead}{batch}, {}, {} reads an update; {} ticks {speed}; \
         sink {}, {rate}; {repeat} rounds; seed {}.\n\
         {}, {} cores, {} memory, Linux {}, huge pages {}{}; load {:.2} before; {} build{}.",
        check::human(case.size_bytes),
        case.item_bytes,
        case.updates_per_tick,
        case.distribution,
        case.reads_per_update,
        case.ticks,
        case.sink,
        case.seed,
        environment.cpu,
        environment.cores,
        check::human(environment.memory_bytes),
        environment.kernel,
        environment.huge_pages,
        if case.huge_pages { " (asked for)" } else { "" },
        environment.load,
        environment.profile,
        environment.commit.as_ref().map_or(String::new(), |commit| format!(" of {commit}")),
    )
}
