//! Rules on what was measured in the guests of `kernel/`: a kernel with On-Demand-Fork and one with
//! Async-fork, which this machine does not have. The lab does not start them; `guest.txt` is their
//! record, and a claim that it does not cover is not run yet.
//!
//! - Runs of different systems are no pairs, so their whole spread decides: one is below another if
//!   its greatest run is below the other's least. Runs that overlap decide nothing, whatever their
//!   medians are. Two runs of each at least must have been made.
//! - A ratio between two systems lies between that of the runs which are nearest and that of those
//!   farthest apart. It grows if it lies above what it was before as a whole.

use std::fmt::Write as _;
use std::sync::LazyLock;

use super::judge::{Judgement, times};
use crate::report::{Outcome, Table};
use stillframe_measure::scale::number;

/// What was measured of one system at one size under one workload.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Cell {
    metric: &'static str,
    mib: u32,
    system: &'static str,
    workload: &'static str,
    median: f64,
    least: f64,
    greatest: f64,
    runs: u32,
}

static RECORD: LazyLock<Vec<Cell>> =
    LazyLock::new(|| include_str!("guest.txt").lines().filter_map(parse).collect());

fn parse(line: &'static str) -> Option<Cell> {
    let words: Vec<&str> = line.split(' ').collect();
    let [metric, mib, system, workload, median, least, greatest, runs] = words.try_into().ok()?;
    let cell = Cell {
        metric,
        mib: mib.parse().ok()?,
        system,
        workload,
        median: median.parse().ok()?,
        least: least.parse().ok()?,
        greatest: greatest.parse().ok()?,
        runs: runs.parse().ok()?,
    };
    (!metric.starts_with('#')).then_some(cell)
}

/// 50 clients that write, keys drawn uniformly.
pub(super) const WRITES: &str = "50,1:0,uniform";
/// A process that forks, with no server in it.
pub(super) const NO_LOAD: &str = "-";
/// Sizes of the record.
pub(super) const SIZES: &[u32] = &[256, 1024, 4096];
/// The largest of them.
pub(super) const LARGEST: &[u32] = &[4096];

pub(super) const P99: &str = "p99_ms";
pub(super) const LONGEST: &str = "max_ms";
pub(super) const FORK: &str = "fork_us";
pub(super) const CHILD: &str = "child_ms";
pub(super) const INTERRUPTIONS: &str = "interruptions";
pub(super) const INTERRUPTED: &str = "interrupted_ms";

/// One thing that was measured of two systems, of which one is claimed to have less.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pair {
    pub(super) metric: &'static str,
    pub(super) less: &'static str,
    pub(super) more: &'static str,
}

/// A place in a sweep: its name for people, size and workload.
pub(super) type Place = (String, u32, &'static str);

/// Some sizes under one workload.
pub(super) fn sizes(sizes: &[u32], workload: &'static str) -> Vec<Place> {
    sizes.iter().map(|&mib| (format!("{mib} MiB"), mib, workload)).collect()
}

/// Some workloads at the size that servers were run at with all of them.
pub(super) fn workloads(all: &[(&str, &'static str)]) -> Vec<Place> {
    all.iter().map(|&(name, workload)| (name.to_owned(), 1024, workload)).collect()
}

/// What is claimed of the ratio between two systems.
#[derive(Debug, Clone, Copy)]
struct Ratio {
    median: f64,
    least: f64,
    greatest: f64,
}

impl Pair {
    fn ratio(self, record: &[Cell], (_, mib, workload): &Place) -> Option<Ratio> {
        let [less, more] = [self.less, self.more].map(|system| {
            record.iter().find(|cell| {
                (cell.metric, cell.mib, cell.system, cell.workload)
                    == (self.metric, *mib, system, *workload)
            })
        });
        let (less, more) = (less?, more?);
        let is_repeated = less.runs >= 2 && more.runs >= 2;
        is_repeated.then_some(Ratio {
            median: more.median / less.median,
            least: more.least / less.greatest,
            greatest: more.greatest / less.least,
        })
    }

    /// `more` has at least `factor` times what `less` has, at each place.
    pub(super) fn below(self, places: &[Place], factor: f64) -> Judgement {
        self.below_in(&RECORD, places, factor)
    }

    fn below_in(self, record: &[Cell], places: &[Place], factor: f64) -> Judgement {
        let Some(ratios) = self.ratios(record, places) else { return self.not_run(places) };
        let outcome = match () {
            () if ratios.iter().any(|it| it.greatest < factor) => Outcome::NotHeld,
            () if ratios.iter().all(|it| it.least >= factor) => Outcome::Held,
            () => Outcome::Undecided,
        };
        self.told(&ratios, places, outcome)
    }

    /// The ratio is larger at the last place than at the first.
    pub(super) fn gap_grows(self, places: &[Place]) -> Judgement {
        self.gap_grows_in(&RECORD, places)
    }

    fn gap_grows_in(self, record: &[Cell], places: &[Place]) -> Judgement {
        let Some(ratios) = self.ratios(record, places) else { return self.not_run(places) };
        let outcome = match (ratios.first(), ratios.last()) {
            (Some(first), Some(last)) if last.least > first.greatest => Outcome::Held,
            (Some(first), Some(last)) if last.greatest < first.least => Outcome::NotHeld,
            _ => Outcome::Undecided,
        };
        self.told(&ratios, places, outcome)
    }

    fn ratios(self, record: &[Cell], places: &[Place]) -> Option<Vec<Ratio>> {
        places.iter().map(|place| self.ratio(record, place)).collect()
    }

    fn told(self, ratios: &[Ratio], places: &[Place], outcome: Outcome) -> Judgement {
        let mut text = format!("{} / {}, {}:", self.more, self.less, self.metric);
        for (ratio, (name, ..)) in ratios.iter().zip(places) {
            let Ratio { median, least, greatest } = ratio;
            let spread = format!("{} to {}", number(*least), number(*greatest));
            let _ = write!(text, " {} ({spread}) at {name},", times(*median));
        }
        if outcome == Outcome::Undecided {
            text.push_str(" the runs overlap,");
        }
        text.pop();
        Judgement { outcome, measured: text, recorded: Some(guest(places)) }
    }

    fn not_run(self, places: &[Place]) -> Judgement {
        let names: Vec<&str> = places.iter().map(|(name, ..)| &**name).collect();
        let (less, more) = (self.less, self.more);
        not_run(&format!("{} of {less} and {more} at {}", self.metric, names.join(", ")))
    }
}

/// Where it was measured.
fn guest(places: &[Place]) -> String {
    let mut sizes: Vec<u32> = places.iter().map(|place| place.1).collect();
    sizes.sort_unstable();
    let (Some(first), Some(last)) = (sizes.first(), sizes.last()) else { return String::new() };
    let sizes = if first == last { format!("{last}") } else { format!("{first} to {last}") };
    format!("guest, {sizes} MiB")
}

/// What only a guest can show, and none has.
pub(super) fn not_run(what: &str) -> Judgement {
    Judgement::not_run(format!(
        "{what}: the patches of kernel/ are not in this kernel, and no guest measured it"
    ))
}

/// What `part` has of the default fork's time, at the largest size: at most `most`.
pub(super) fn share_of_fork(part: &'static str, most: f64) -> Judgement {
    let find = |metric: &str| {
        let mut cells = RECORD.iter().filter(|it| it.metric == metric && it.system == "default");
        cells.find(|it| it.mib == LARGEST[0])
    };
    let (Some(part), Some(all)) = (find(part), find(FORK)) else {
        return not_run("the parts of fork's time");
    };
    let (least, greatest) = (part.least / all.greatest, part.greatest / all.least);
    let outcome = match () {
        () if greatest <= most => Outcome::Held,
        () if least > most => Outcome::NotHeld,
        () => Outcome::Undecided,
    };
    let percent = |share: f64| format!("{:.1}", 100.0 - share * 100.0);
    let median = percent(part.median / all.median);
    let measured = format!("{median} % of fork ({} to {})", percent(greatest), percent(least));
    let recorded = guest(&sizes(LARGEST, NO_LOAD));
    Judgement { outcome, measured, recorded: Some(recorded) }
}

/// What the record has of some metrics, a table for each.
pub(super) fn tables(metrics: &[&str]) -> Vec<Table> {
    metrics.iter().map(|metric| table(metric)).collect()
}

fn table(metric: &str) -> Table {
    let row = |cell: &Cell| {
        let Cell { mib, system, workload, median, least, greatest, runs, .. } = cell;
        let spread = format!("{} ({} to {})", number(*median), number(*least), number(*greatest));
        [mib.to_string(), (*system).to_owned(), (*workload).to_owned(), spread, runs.to_string()]
            .into()
    };
    let columns = ["MiB", "system", "clients, SET:GET, keys", "median (least to most)", "runs"];
    Table {
        title: format!("in guests with the patches of kernel/: {metric}"),
        columns: columns.map(str::to_owned).into(),
        rows: RECORD.iter().filter(|cell| cell.metric == metric).map(row).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_of_the_record_is_read_and_is_of_one_run_or_more() {
        let lines = include_str!("guest.txt").lines();
        let lines: Vec<&str> = lines.filter(|line| !line.starts_with('#')).collect();
        assert_eq!(RECORD.len(), lines.len());
        for cell in RECORD.iter() {
            assert!(cell.least <= cell.median && cell.median <= cell.greatest, "{cell:?}");
            assert!(cell.runs > 0 && cell.least > 0.0, "{cell:?}");
            let same = |it: &&Cell| {
                (it.metric, it.mib, it.system, it.workload)
                    == (cell.metric, cell.mib, cell.system, cell.workload)
            };
            assert_eq!(RECORD.iter().filter(same).count(), 1, "{cell:?}");
        }
    }

    const PAIR: Pair = Pair { metric: P99, less: "async", more: "odf" };

    /// Two places, at each the least and greatest run of `async` and of `odf`.
    fn record(all: [[[f64; 2]; 2]; 2], runs: u32) -> (Vec<Cell>, Vec<Place>) {
        let cell = |mib: u32, system, [least, greatest]: [f64; 2]| Cell {
            metric: P99,
            mib,
            system,
            workload: WRITES,
            median: f64::midpoint(least, greatest),
            least,
            greatest,
            runs,
        };
        let cells = (1..).zip(all).flat_map(|(mib, [async_fork, odf])| {
            [cell(mib, "async", async_fork), cell(mib, "odf", odf)]
        });
        (cells.collect(), sizes(&[1, 2], WRITES))
    }

    fn below(all: [[[f64; 2]; 2]; 2]) -> Outcome {
        let (record, places) = record(all, 2);
        PAIR.below_in(&record, &places, 1.0).outcome
    }

    #[test]
    fn one_is_below_another_if_no_runs_overlap_at_any_place() {
        let [apart, overlap, above] =
            [[[1.0, 2.0], [3.0, 4.0]], [[1.0, 3.0], [2.0, 9.0]], [[3.0, 4.0], [1.0, 2.0]]];
        assert_eq!(below([apart, apart]), Outcome::Held);
        assert_eq!(below([apart, overlap]), Outcome::Undecided, "its median is far below");
        assert_eq!(below([apart, above]), Outcome::NotHeld);
        assert_eq!(below([overlap, above]), Outcome::NotHeld);
    }

    #[test]
    fn a_gap_grows_if_its_spread_lies_above_what_it_was() {
        let grows = |all| {
            let (record, places) = record(all, 2);
            PAIR.gap_grows_in(&record, &places).outcome
        };
        let [small, wide, large] =
            [[[1.0, 1.1], [1.0, 1.1]], [[1.0, 3.0], [2.0, 9.0]], [[1.0, 1.1], [5.0, 6.0]]];
        assert_eq!(grows([small, large]), Outcome::Held);
        assert_eq!(grows([small, wide]), Outcome::Undecided);
        assert_eq!(grows([large, small]), Outcome::NotHeld);
    }

    #[test]
    fn one_run_or_a_missing_place_is_not_run_yet() {
        let (single, places) = record([[[1.0, 1.0], [9.0, 9.0]]; 2], 1);
        assert!(matches!(PAIR.below_in(&single, &places, 1.0).outcome, Outcome::NotRun(_)));
        let (cells, _) = record([[[1.0, 2.0], [3.0, 4.0]]; 2], 2);
        let beyond = sizes(&[1, 2, 3], WRITES);
        let judged = PAIR.below_in(&cells, &beyond, 1.0);
        assert!(judged.outcome.why().is_some_and(|why| why.contains("3 MiB")), "{judged:?}");
        assert_eq!(judged.recorded, None);
    }

    #[test]
    fn a_verdict_names_its_guest_and_its_ratios() {
        let (cells, places) = record([[[1.0, 2.0], [4.0, 8.0]]; 2], 2);
        let judged = PAIR.below_in(&cells, &places, 1.0);
        assert_eq!(judged.recorded.as_deref(), Some("guest, 1 to 2 MiB"));
        assert!(judged.measured.starts_with("odf / async, p99_ms: 4x (2 to 8) at 1 MiB"));
    }

    /// What the record says of claims that were once told otherwise.
    #[test]
    fn on_demand_fork_is_the_comparator_of_async_fork() {
        let patterns = [("1:1", "50,1:1,uniform"), ("1:10", "50,1:10,uniform")];
        let writes = PAIR.below(&workloads(&patterns), 1.0);
        assert_eq!(writes.outcome, Outcome::Undecided, "{}", writes.measured);
        let many = sizes(SIZES, WRITES);
        let counts = Pair { metric: INTERRUPTIONS, ..PAIR }.below(&many, 5.0);
        assert_eq!(counts.outcome, Outcome::Held, "{}", counts.measured);
    }
}
