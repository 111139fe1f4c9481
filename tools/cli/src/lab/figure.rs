//! `stillframe lab figure` and `lab all`: the figures of the papers, run again.

use std::collections::HashSet;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use stillframe_lab::error::sentence;
use stillframe_lab::figures::plan::{Scale, Size, command};
use stillframe_lab::figures::run::{
    FULL_ROUNDS, Finished, MOST_ROUNDS, Plan, QUICK_ROUNDS, RunError,
};
use stillframe_lab::figures::{self, Figure};
use stillframe_lab::report;

use super::progress::{clear_line, show};
use super::quiet;
use crate::outcome::{fail, print};

pub(crate) const EXAMPLES: &str = "\
Examples:
  stillframe lab figure li-10                   one figure, a minute or a few
  stillframe lab figure li-22                   one of servers: redis-server, Valkey and ours
  stillframe lab figure servers                 all of servers
  stillframe lab all --quick --out results      all of them, some 20 minutes on two cores
  stillframe lab all --quick --dry-run          what would be run, and how long it would take
  stillframe lab figure li-14 --large           as much state as there, few points, no idle time
  stillframe lab figure li-14 --full            the paper's own parameters: gigabytes, hours

Writes index.html (one page, no network needed), README.md (the verdicts), results.jsonl and one SVG
for each figure. A figure that fails is named, and the others go on. A point
is the median over rounds, bars span all rounds; rounds of all algorithms are interleaved. Workloads
that figures share are run once. Each round judges each claim by the rule that stands with it: two
rounds at least, and four of five, must agree; undecided claims get further rounds. The lab refuses
a busy machine unless --busy is given.
Exit status: 0 done, 1 an image was wrong or a round broke, 2 wrong usage, 130 Ctrl-C (the page has
what is finished), 3 the machine is busy.";

#[derive(Args)]
pub(crate) struct One {
    /// Names of figures; 'lab list' names them all, 'servers' stands for all through servers
    #[arg(required = true, value_name = "NAME")]
    names: Vec<String>,
    #[command(flatten)]
    manner: Manner,
}

#[derive(Args)]
pub(crate) struct All {
    #[command(flatten)]
    manner: Manner,
}

#[derive(Args)]
struct Manner {
    /// Scaled parameters that keep the shape (the default)
    #[arg(long, conflicts_with_all = ["large", "full"])]
    quick: bool,
    /// States of the papers' size; idle time and most points are cut: hours for all figures
    #[arg(long, conflicts_with = "full")]
    large: bool,
    /// The papers' own parameters, as far as memory allows
    #[arg(long)]
    full: bool,
    /// Rounds [default: 2; with --full 3]
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=1000))]
    repeat: Option<u32>,
    /// Most rounds for claims that the first rounds leave undecided, in at most as much time again
    /// (scaled, in 4 minutes; with --large in 20)
    #[arg(long, value_name = "COUNT", default_value_t = MOST_ROUNDS)]
    at_most: u32,
    /// Run even if the machine is busy: figures are noise then
    #[arg(long)]
    busy: bool,
    /// Directory of the page, created if missing
    #[arg(long, value_name = "DIR", default_value = "stillframe-lab")]
    out: PathBuf,
    /// Print what would be run and how long it would take, and run nothing
    #[arg(long)]
    dry_run: bool,
    /// Divide sizes and updates, to try the machinery out: figures mean nothing then
    #[arg(long, value_name = "FACTOR", default_value = "1", hide = true,
          value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    scale: u64,
}

pub(crate) fn one(arguments: &One) -> Result<(), ExitCode> {
    let mut chosen: Vec<&'static Figure> = Vec::new();
    for name in &arguments.names {
        chosen.extend(figures::named(name).map_err(|why| fail(2, &sentence(&why)))?);
    }
    let mut seen = HashSet::new();
    chosen.retain(|figure| seen.insert(figure.name));
    let words: Vec<&str> = arguments.names.iter().map(|name| &**name).collect();
    arguments.manner.run(&chosen, &[&["figure"], &*words].concat())
}

pub(crate) fn all(arguments: &All) -> Result<(), ExitCode> {
    arguments.manner.run(&figures::all(), &["all"])
}

impl Manner {
    fn run(&self, figures: &[&'static Figure], words: &[&str]) -> Result<(), ExitCode> {
        let scale = match [self.quick, self.large, self.full] {
            [_, true, _] => Scale::Large,
            [_, _, true] => Scale::Full,
            _ => Scale::Quick,
        };
        let size = Size { scale, shrink: self.scale };
        let rounds = if self.full { FULL_ROUNDS } else { QUICK_ROUNDS };
        let rounds = self.repeat.unwrap_or(rounds);
        let plan = Plan::new(figures, size, rounds).up_to(self.at_most);
        if self.dry_run {
            return print(&plan.text());
        }
        quiet(self.busy)?;
        eprint!("{}", plan.text());
        let mut repeat = self.repeat.map_or(String::new(), |repeat| format!(" --repeat {repeat}"));
        if self.at_most != MOST_ROUNDS {
            repeat += &format!(" --at-most {}", self.at_most);
        }
        let command = format!("{}{repeat} --out {}", command(words, size), self.out.display());
        let outcome = plan.run(&self.out, &command, &mut |progress| show(&progress));
        clear_line();
        let finished = outcome.map_err(|error| match error {
            RunError::Unwritable(_) => fail(2, &error),
            error => fail(1, &error),
        })?;
        self.report(&finished)
    }

    fn report(&self, finished: &Finished) -> Result<(), ExitCode> {
        let figures = finished.report.figures.iter();
        let mut text = figures.map(report::text).collect::<Vec<_>>().join("\n");
        text += &format!(
            "\n{}\nPage: {}\n",
            finished.report.count(),
            self.out.join("index.html").display()
        );
        let printed = print(&text);
        if finished.is_interrupted {
            return Err(fail(130, &"interrupted; the page shows the finished figures"));
        }
        match finished.wrong_rounds {
            0 => printed,
            rounds => Err(fail(
                1,
                &format_args!(
                    "{rounds} rounds failed or gave wrong images: see the notes of the figures"
                ),
            )),
        }
    }
}
