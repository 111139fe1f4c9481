//! What the writer executes for one update, counted: instructions, and misses of simulated caches,
//! by valgrind's cachegrind. Two runs of the [writer alone](crate::trial::alone) that differ in the
//! number of ticks give the cost of a tick; nothing else of a run is in it.

use std::io::Write;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};

use super::data::Data;
use super::judge::Judgement;
use super::plan::{Size, unit_of};
use crate::case::record::Record;
use crate::case::{Case, Distribution, FLOOR, Verify};
use crate::report::{self, Kind, Panel, Point};

const ALGORITHMS: &[&str] =
    &[FLOOR, "nzz", "izz", "pzz", "bazz", "npp-merge", "ipp-merge", "imprint"];

/// Title of a panel, and how cachegrind calls it.
const EVENTS: &[(&str, &str)] = &[
    ("instructions", "I   refs:"),
    (FIRST_LEVEL, "D1  misses:"),
    ("misses of the last cache", "LLd misses:"),
];
const FIRST_LEVEL: &str = "misses of the first cache";

/// Updates in a tick of 0.1 s at 320,000 a second.
const UPDATES: u64 = 32_000;
const TICKS: [u64; 2] = [1, 5];

/// Counts of each algorithm for one update.
pub(super) fn counts(size: Size) -> Result<Vec<Panel>> {
    let version = Command::new("valgrind").arg("--version").output();
    if !version.is_ok_and(|output| output.status.success()) {
        bail!("counting instructions needs valgrind, which is not here");
    }
    let measured = ALGORITHMS.iter().map(|&name| Ok((name, counts_of(name, size)?)));
    let measured = measured.collect::<Result<Vec<_>>>()?;
    let panel = |(number, (title, _)): (usize, &(&str, _))| {
        let row = |(name, counts): &(&str, Vec<f64>)| {
            report::series(name, vec![Point::single(0.0, counts[number])])
        };
        let (y, series) = (format!("{title} for an update"), measured.iter().map(row).collect());
        Panel::new(title, Kind::Rows, "", &y, series)
    };
    Ok(EVENTS.iter().enumerate().map(panel).collect())
}

/// One count for each line of [`EVENTS`].
fn counts_of(name: &str, size: Size) -> Result<Vec<f64>> {
    let updates = (UPDATES / size.shrink.max(1)).max(100);
    let run = |ticks: u64| {
        counted(&Case {
            size_bytes: (size.cut(8_000_000, 200_000_000) / size.shrink.max(1)).max(64_000),
            updates_per_tick: updates,
            tick_ms: 0, // the items are drawn before the first tick
            ticks,
            alone: true,
            distribution: Distribution::Objects { object_words: 2000, theta: 0.5 },
            disk_rate: None,
            memory: false,
            verify: Verify::Off,
            unit: unit_of(name, 4),
            ..Case::default().with_algorithm(name)
        })
    };
    let [few, many] = [run(TICKS[0])?, run(TICKS[1])?];
    let writes = ((TICKS[1] - TICKS[0]) * updates) as f64;
    Ok(few.iter().zip(&many).map(|(few, many)| (many - few) / writes).collect())
}

/// One number for each line of [`EVENTS`], of the whole run.
fn counted(case: &Case) -> Result<Vec<f64>> {
    let program = std::env::current_exe()?;
    let mut child = Command::new("valgrind")
        .args(["--tool=cachegrind", "--cachegrind-out-file=/dev/null"])
        // The state of the quick set is fifteen times the last cache.
        .args(["--cache-sim=yes", "--D1=32768,8,64", "--LL=1048576,16,64"])
        .arg(program)
        .args(["lab", "case"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .context("starting valgrind failed")?;
    let input = serde_json::to_vec(case)?;
    if let Some(mut stdin) = child.stdin.take() {
        let _ = stdin.write_all(&input); // the status below shows a process that has died
    }
    let output = child.wait_with_output()?;
    let record: Option<Record> = serde_json::from_slice(&output.stdout).ok();
    record
        .filter(Record::is_measured)
        .and_then(|_| totals(&String::from_utf8_lossy(&output.stderr)))
        .with_context(|| format!("{} under valgrind gave no counts", case.algorithm))
}

/// What cachegrind prints at the end, one for each line of [`EVENTS`].
fn totals(text: &str) -> Option<Vec<f64>> {
    let of = |name: &str| {
        let line = text.lines().find(|line| line.contains(name))?;
        let digits = line.split(':').nth(1)?.split_whitespace().next()?;
        digits.replace(',', "").parse().ok()
    };
    EVENTS.iter().map(|(_, name)| of(name)).collect()
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
            Judgement::new(holds(a / b), format!("{name} / {of} = {a:.2} / {b:.2} = {:.2}x", a / b))
        }
        _ => Judgement::untested("no misses were counted: that needs valgrind"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_found_by_their_names() {
        let text = "==1== I   refs:        1,000\n==1== D1  misses:         25  (20 rd + 5 wr)\n\
                    ==1== LLd misses:          7  ( 3 rd + 4 wr)\n";
        assert_eq!(totals(text), Some(vec![1000.0, 25.0, 7.0]));
        assert_eq!(totals("==1== I   refs:        1,000\n"), None);
        assert_eq!(totals(""), None);
    }
}
