//! What the writer executes for one update, counted: instructions, and misses of simulated caches,
//! by valgrind's callgrind, which counts each thread by itself. Two runs that differ in the number
//! of ticks alone give the cost of a tick; nothing else of a run is in it.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use super::data::Data;
use super::judge::Judgement;
use super::plan::{Size, unit_of};
use crate::case::{Case, Distribution, FLOOR, Verify};
use crate::record::Record;
use crate::report::{self, Kind, Panel, Point};

const ALGORITHMS: &[&str] =
    &[FLOOR, "nzz", "izz", "pzz", "bazz", "npp-merge", "ipp-merge", "imprint"];

/// Title of a panel, and the events of callgrind that it adds up.
const EVENTS: &[(&str, &[&str])] = &[
    ("instructions", &["Ir"]),
    (FIRST_LEVEL, &["D1mr", "D1mw"]),
    ("misses of the last cache", &["DLmr", "DLmw"]),
];
const FIRST_LEVEL: &str = "misses of the first cache";

/// Updates in a tick of 0.1 s at 320,000 a second.
const UPDATES: u64 = 32_000;
const TICKS: [u64; 2] = [1, 9];

/// Counts of each algorithm for one update.
pub(super) fn counts(size: Size) -> Result<Vec<Panel>, String> {
    let version = Command::new("valgrind").arg("--version").output();
    if !version.is_ok_and(|output| output.status.success()) {
        return Err("counting instructions needs valgrind, which is not here".to_owned());
    }
    let measured: Result<Vec<_>, String> =
        ALGORITHMS.iter().map(|&name| Ok((name, counts_of(name, size)?))).collect();
    let measured = measured?;
    let panel = |(number, (title, _)): (usize, &(&str, _))| Panel {
        title: (*title).to_owned(),
        kind: Kind::Rows,
        x: String::new(),
        y: format!("{title} for an update"),
        series: measured
            .iter()
            .map(|(name, counts)| report::series(name, vec![Point::single(0.0, counts[number])]))
            .collect(),
        ..Panel::default()
    };
    Ok(EVENTS.iter().enumerate().map(panel).collect())
}

/// One count for each line of [`EVENTS`].
fn counts_of(name: &str, size: Size) -> Result<Vec<f64>, String> {
    let updates = (UPDATES / size.shrink.max(1)).max(100);
    let run = |ticks: u64| {
        counted(&Case {
            size_bytes: (size.pick(16_000_000, 200_000_000) / size.shrink.max(1)).max(64_000),
            updates_per_tick: updates,
            tick_ms: 500,
            ticks,
            checkpoints: 1,
            hold_to_end: true,
            distribution: Distribution::Objects { object_words: 2000, theta: 0.5 },
            disk_rate: None,
            memory: false,
            verify: Verify::Off,
            unit: unit_of(name, 4),
            ..Case::default().with_algorithm(name)
        })
    };
    let [few, many] = [run(TICKS[0])?, run(TICKS[1])?];
    let ticks = many.ticks as f64 - few.ticks as f64;
    let each = few.counts.iter().zip(&many.counts);
    Ok(each.map(|(few, many)| (many - few) / ticks / updates as f64).collect())
}

/// What the writer's thread executed in one round.
#[derive(Debug)]
struct Counted {
    /// One for each line of [`EVENTS`].
    counts: Vec<f64>,
    ticks: u64,
}

fn counted(case: &Case) -> Result<Counted, String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let out = std::env::temp_dir().join(format!("stillframe-callgrind-{}", std::process::id()));
    // Whatever hangs ends.
    let mut child = Command::new("timeout")
        .args(["300", "valgrind"])
        // Threads take turns, or a writer without idle time leaves the snapshotter none.
        .args(["--tool=callgrind", "--separate-threads=yes", "--fair-sched=yes"])
        // A processor of ours with a sixteenth of its last cache, as the state is a sixteenth.
        .args(["--cache-sim=yes", "--D1=32768,8,64", "--LL=1048576,16,64"])
        .arg(format!("--callgrind-out-file={}", out.display()))
        .arg(program)
        .args(["lab", "case"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| format!("starting valgrind failed: {error}"))?;
    let input = serde_json::to_vec(case).map_err(|error| error.to_string())?;
    if let Some(mut stdin) = child.stdin.take() {
        let _ = stdin.write_all(&input); // a process that died before is told of below
    }
    let output = child.wait_with_output().map_err(|error| error.to_string())?;
    // The first thread is the writer's.
    let text = fs::read_to_string(format!("{}-01", out.display())).unwrap_or_default();
    forget(&out);
    let record: Option<Record> = serde_json::from_slice(&output.stdout).ok();
    let ticks = record.filter(Record::is_measured).map(|record| record.ticks_run);
    match (totals(&text), ticks) {
        (Some(counts), Some(ticks)) => Ok(Counted { counts, ticks }),
        _ => Err(format!("{} under valgrind gave no counts", case.algorithm)),
    }
}

/// The sums that a file of callgrind ends with, one for each line of [`EVENTS`].
fn totals(text: &str) -> Option<Vec<f64>> {
    let line = |name: &str| text.lines().rev().find_map(|line| line.strip_prefix(name));
    let names: Vec<&str> = line("events:")?.split_whitespace().collect();
    let sums: Vec<f64> =
        line("totals:")?.split_whitespace().map(|sum| sum.parse().unwrap_or(0.0)).collect();
    let of = |event: &&str| Some(*sums.get(names.iter().position(|name| name == event)?)?);
    EVENTS.iter().map(|(_, events)| events.iter().map(of).sum()).collect()
}

/// Removes what callgrind left.
fn forget(out: &Path) {
    let (Some(directory), Some(name)) = (out.parent(), out.file_name()) else { return };
    let name = name.to_string_lossy();
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        if entry.file_name().to_string_lossy().starts_with(&*name) {
            let _ = fs::remove_file(entry.path()); // the directory is temporary
        }
    }
}

/// At most so many misses of the first cache for each of the floor's.
pub(super) fn misses_at_most(data: &Data<'_>, name: &str, most: f64) -> Judgement {
    misses(data, name, FLOOR, |ratio| ratio <= most)
}

/// At least so many misses of the first cache for each of another's.
pub(super) fn misses_at_least(data: &Data<'_>, name: &str, of: &str, least: f64) -> Judgement {
    misses(data, name, of, |ratio| ratio >= least)
}

fn misses(data: &Data<'_>, name: &str, of: &str, holds: impl Fn(f64) -> bool) -> Judgement {
    let panels = data.direct();
    let series = panels.iter().filter(|panel| panel.title == FIRST_LEVEL).flat_map(|it| &it.series);
    let named = |name: &str| {
        let found = series.clone().find(|series| series.name == name)?;
        found.points.first().map(|point| point.y).filter(|misses| *misses > 0.0)
    };
    match (named(name), named(of)) {
        (Some(a), Some(b)) => {
            Judgement::of(holds(a / b), format!("{name} / {of} = {a:.2} / {b:.2} = {:.2}x", a / b))
        }
        _ => Judgement::untested("no misses were counted: that needs valgrind"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_found_by_their_names() {
        let text = "events: Ir Dr Dw I1mr D1mr D1mw ILmr DLmr DLmw\nfn=x\n1 2\n\n\
                    totals: 1000 1 1 1 20 5 1 3 4\n";
        assert_eq!(totals(text), Some(vec![1000.0, 25.0, 7.0]));
        assert_eq!(totals("events: Ir\ntotals: 5\n"), None);
        assert_eq!(totals(""), None);
    }
}
