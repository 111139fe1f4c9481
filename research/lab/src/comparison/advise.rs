//! Which algorithm a need calls for, by figures that were measured.
//!
//! - Figures are ratios to plain memory under the same load: of records of the lab, or of the table
//!   in `docs/internals/algorithms.md`, which the program carries.
//! - The advice never guesses what the figures do not cover: each difference between the need and
//!   the measured load is a gap.

use stillframe::algorithms::ALL;
use stillframe_measure::Table;

use crate::case::record::Record;
use crate::case::{Case, Distribution, FLOOR, is_floor};
use crate::comparison::summary;

/// The need.
#[derive(Debug, Clone, PartialEq)]
pub struct Need {
    /// State.
    pub size_bytes: u64,
    /// Bytes that an update replaces.
    pub item_bytes: u32,
    /// Updates a second.
    pub updates_per_s: u64,
    /// Which items are updated.
    pub distribution: Distribution,
    /// Reads for each update.
    pub reads_per_update: f64,
    /// Most memory, the state included.
    pub memory_bytes: Option<u64>,
    /// Longest time for which a begin may hold the writer.
    pub begin_us_max: Option<f64>,
    /// From one image to the next.
    pub interval_s: Option<f64>,
    /// Threads that write.
    pub writers: u32,
}

/// What one algorithm costs: ratios to plain memory without snapshots.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// Name in the registry.
    pub name: String,
    /// Mean tick that met an image.
    pub mean_tick: f64,
    /// Worst tick.
    pub worst_tick: f64,
    /// Begin, in microseconds, median.
    pub begin_us: f64,
    /// A read.
    pub read: f64,
    /// Peak memory.
    pub memory: f64,
}

/// Rows measured under one load.
#[derive(Debug, Clone)]
pub struct Figures {
    /// The source of the rows.
    pub source: String,
    /// The load.
    pub case: Case,
    /// One for each algorithm.
    pub rows: Vec<Row>,
}

/// The algorithm that fits, and why.
#[derive(Debug, Clone, PartialEq)]
pub struct Advice {
    /// The rows that meet every limit, the best first.
    pub fitting: Vec<Row>,
    /// Names that a limit rules out, each with the limit.
    pub ruled_out: Vec<(String, &'static str)>,
    /// Names without figures.
    pub unmeasured: Vec<&'static str>,
    /// What the figures do not cover.
    pub gaps: Vec<String>,
}

/// A link to docs/internals/algorithms.md, so that a package of this crate has it.
const PAGE: &str = include_str!("algorithms-page.txt");
const HEADING: &str = "## All of them under one load";

impl Figures {
    /// The table that the program carries; its load is the default of `lab compare`.
    #[must_use]
    pub fn shipped() -> Self {
        let section = PAGE.split_once(HEADING).map_or("", |(_, section)| section);
        // Tables of other loads have headings of their own.
        let section = section.split_once("\n### ").map_or(section, |(section, _)| section);
        let rows = section.lines().filter_map(|line| {
            let (name, cells) = line.strip_prefix("| `")?.split_once("` |")?;
            row(name, cells)
        });
        // What the page warns of at once, in bold type.
        let warning = section.trim_start().strip_prefix("**").and_then(|it| it.split_once("**"));
        let warning = warning.map_or(String::new(), |(text, _)| format!(": {text}"));
        Self {
            source: format!("docs/internals/algorithms.md, 2 cores, 100 MiB{warning}"),
            case: Case::default(),
            rows: rows.collect(),
        }
    }

    /// Figures of records, one for each load that was measured with its floor.
    #[must_use]
    pub fn of_records(records: &[Record], source: &str) -> Vec<Self> {
        let mut all: Vec<(Self, Vec<Record>)> = Vec::new();
        for record in records.iter().filter(|it| it.is_measured() && it.served.is_none()) {
            match all.iter_mut().find(|(figures, _)| same_load(&figures.case, &record.case)) {
                Some((_, of_load)) => of_load.push(record.clone()),
                None => {
                    let (source, case) = (source.to_owned(), record.case.clone());
                    all.push((Self { source, case, rows: Vec::new() }, vec![record.clone()]));
                }
            }
        }
        for (figures, of_load) in &mut all {
            let mut names: Vec<&str> = of_load.iter().map(|it| &*it.algorithm).collect();
            names.sort_unstable();
            names.dedup();
            let rows = names.into_iter().filter(|name| !is_floor(name));
            figures.rows =
                rows.filter_map(|name| row(name, &summary::figures(name, of_load))).collect();
        }
        all.into_iter().map(|(figures, _)| figures).filter(|it| !it.rows.is_empty()).collect()
    }

    /// Advice for this need.
    #[must_use]
    pub fn advise(&self, need: &Need) -> Advice {
        let is_measured = |name: &str| self.rows.iter().any(|row| row.name == name);
        let mut advice = Advice {
            fitting: Vec::new(),
            ruled_out: Vec::new(),
            unmeasured: ALL.iter().map(|it| it.name).filter(|name| !is_measured(name)).collect(),
            gaps: self.gaps(need),
        };
        let memory = need.memory_bytes.map(|it| it as f64 / need.size_bytes.max(1) as f64);
        for row in &self.rows {
            let limit = if memory.is_some_and(|most| row.memory > most) {
                Some("memory")
            } else if need.begin_us_max.is_some_and(|most| row.begin_us > most) {
                Some("begin")
            } else {
                None
            };
            match limit {
                Some(limit) => advice.ruled_out.push((row.name.clone(), limit)),
                None => advice.fitting.push(row.clone()),
            }
        }
        let cost = |row: &Row| row.cost(need.reads_per_update);
        advice.fitting.sort_by(|a, b| cost(a).total_cmp(&cost(b)));
        advice
    }

    /// The fitting rows, the best first.
    #[must_use]
    pub fn table(&self, advice: &Advice, need: &Need) -> Table {
        let columns =
            ["algorithm", "cost", "mean tick", "worst tick", "begin, us", "read", "memory"];
        let cells = |row: &Row| {
            let ratio = |it: f64| format!("{it:.2}x");
            vec![
                row.name.clone(),
                ratio(row.cost(need.reads_per_update)),
                ratio(row.mean_tick),
                ratio(row.worst_tick),
                format!("{:.1}", row.begin_us),
                ratio(row.read),
                ratio(row.memory),
            ]
        };
        Table {
            title: format!("Ratios to plain memory without snapshots ({})", self.source),
            columns: columns.map(str::to_owned).to_vec(),
            rows: advice.fitting.iter().map(cells).collect(),
        }
    }

    /// How the need differs from what was measured.
    #[must_use]
    pub fn gaps(&self, need: &Need) -> Vec<String> {
        let Self { case, .. } = self;
        let mut gaps = Vec::new();
        let far = |asked: f64, measured: f64| asked > measured * 4.0 || asked * 4.0 < measured;
        let mebi = |bytes: u64| bytes as f64 / f64::from(1 << 20);
        if far(need.size_bytes as f64, case.size_bytes as f64) {
            let (asked, measured) = (mebi(need.size_bytes), mebi(case.size_bytes));
            gaps.push(format!(
                "{measured:.0} MiB were measured, not {asked:.0}: begins of naive and fork grow \
                 with the size, and so do cache misses"
            ));
        }
        if need.item_bytes != case.item_bytes {
            let (asked, measured) = (need.item_bytes, case.item_bytes);
            gaps.push(format!("items of {measured} bytes were measured, not of {asked}"));
        }
        if need.distribution != case.distribution {
            let (asked, measured) = (need.distribution, case.distribution);
            gaps.push(format!("{measured} updates were measured, not {asked}"));
        }
        let rate = (case.updates_per_tick * 1000).checked_div(case.tick_ms);
        match rate {
            Some(rate) if !far(need.updates_per_s as f64, rate as f64) => {}
            Some(rate) => {
                let asked = need.updates_per_s;
                gaps.push(format!("{rate} updates a second were measured, not {asked}"));
            }
            None => gaps.push("updates were measured at full speed".to_owned()),
        }
        if need.writers != 1 {
            let writers = need.writers;
            gaps.push(format!(
                "every algorithm has one writer: {writers} threads have to take turns or have a \
                 state each, which was not measured"
            ));
        }
        if let (Some(interval), Some(rate)) = (need.interval_s, case.disk_rate) {
            let image = need.size_bytes as f64 / rate.max(1) as f64;
            if image > interval {
                gaps.push(format!(
                    "an image takes {image:.1} s at the measured rate of the disk, longer than \
                     {interval:.1} s from one to the next"
                ));
            }
        }
        gaps
    }
}

impl Row {
    /// Cost of an update with its reads, where a read of plain memory counts as an update of it.
    #[must_use]
    pub fn cost(&self, reads_per_update: f64) -> f64 {
        (self.mean_tick + reads_per_update * self.read) / (1.0 + reads_per_update)
    }
}

/// A row of `mean tick | worst tick | begin | read | memory`.
fn row(name: &str, cells: &str) -> Option<Row> {
    let mut cells = cells.split('|').map(|cell| cell.trim().trim_end_matches('x').parse().ok());
    let mut next = || cells.next().flatten();
    Some(Row {
        name: name.to_owned(),
        mean_tick: next()?,
        worst_tick: next()?,
        begin_us: next()?,
        read: next()?,
        memory: next()?,
    })
}

/// Whether two cases differ only in algorithm, unit and seed.
fn same_load(a: &Case, b: &Case) -> bool {
    let load = |case: &Case| {
        let algorithm = FLOOR.to_owned();
        Case { algorithm, seed: 0, unit: Case::default().unit, ..case.clone() }
    };
    load(a) == load(b)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn need() -> Need {
        let case = Case::default();
        Need {
            size_bytes: case.size_bytes,
            item_bytes: case.item_bytes,
            updates_per_s: case.updates_per_tick * 1000 / case.tick_ms,
            distribution: case.distribution,
            reads_per_update: 0.0,
            memory_bytes: None,
            begin_us_max: None,
            interval_s: None,
            writers: 1,
        }
    }

    fn figures(rows: &[(&str, [f64; 5])]) -> Figures {
        let row = |&(name, costs): &(&str, [f64; 5])| {
            let [mean_tick, worst_tick, begin_us, read, memory] = costs;
            Row { name: name.to_owned(), mean_tick, worst_tick, begin_us, read, memory }
        };
        let rows = rows.iter().map(row).collect();
        Figures { source: String::new(), case: Case::default(), rows }
    }

    fn names(advice: &Advice) -> Vec<&str> {
        advice.fitting.iter().map(|row| &*row.name).collect()
    }

    /// If the page loses rows, or changes its columns, the program would advise from less.
    /// The page's advice quotes its own table, each figure from a row that the advice names.
    #[test]
    fn figures_of_the_advice_are_those_of_the_table() {
        let section = |heading: &str| {
            let after = PAGE.split_once(heading).expect("a heading").1;
            after.split("\n## ").next().unwrap_or_default()
        };
        let rows: Vec<(&str, &str)> = section(HEADING)
            .lines()
            .filter_map(|line| line.strip_prefix("| `")?.split_once("` |"))
            .collect();
        let mut quoted = 0;
        for advice in section("## Which one").split("\n- ").skip(1) {
            let named = |name: &&str| advice.contains(&format!("`{name}`"));
            let is_ratio = |word: &&str| {
                word.strip_suffix('x').is_some_and(|number| number.parse::<f64>().is_ok())
            };
            let words = advice.split([' ', '\n', ',', ';', ':', '(', ')']);
            for ratio in words.map(|word| word.trim_end_matches('.')).filter(is_ratio) {
                let rows = rows.iter().filter(|(name, _)| named(name));
                let cell = format!(" {ratio} |");
                assert!(rows.into_iter().any(|(_, row)| row.contains(&cell)), "{ratio}: {advice}");
                quoted += 1;
            }
        }
        assert!(quoted > 0);
    }

    #[test]
    fn the_shipped_table_is_read_and_what_it_lacks_is_named() {
        let shipped = Figures::shipped();
        assert!(shipped.rows.len() >= 20, "{:?}", shipped.rows);
        let is_known = |row: &Row| ALL.iter().any(|info| info.name == row.name);
        assert!(shipped.rows.iter().all(is_known), "{:?}", shipped.rows);
        assert!(shipped.rows.iter().all(|row| row.memory >= 1.0 && row.begin_us < 1e6));
        assert_eq!(shipped.gaps(&need()), Vec::<String>::new());
        let advice = shipped.advise(&need());
        assert_eq!(advice.fitting.len() + advice.unmeasured.len(), ALL.len());
    }

    #[test]
    fn the_cheapest_that_meets_every_limit_is_named() {
        let figures = figures(&[
            ("fast", [1.2, 2.0, 0.1, 2.0, 4.0]),
            ("lean", [1.5, 1.4, 0.3, 1.0, 1.1]),
            ("stalls", [1.1, 9.0, 20_000.0, 1.0, 2.0]),
        ]);
        let asked = |change: fn(&mut Need)| {
            let mut need = need();
            change(&mut need);
            figures.advise(&need)
        };
        assert_eq!(names(&asked(|_| ())), ["stalls", "fast", "lean"]);
        let quick = asked(|need| need.begin_us_max = Some(100.0));
        assert_eq!(names(&quick), ["fast", "lean"]);
        assert_eq!(quick.ruled_out, [("stalls".to_owned(), "begin")]);
        let small = asked(|need| {
            need.begin_us_max = Some(100.0);
            need.memory_bytes = Some(need.size_bytes * 2);
        });
        assert_eq!(names(&small), ["lean"]);
        let reading = asked(|need| {
            need.begin_us_max = Some(100.0);
            need.reads_per_update = 4.0;
        });
        assert_eq!(names(&reading), ["lean", "fast"]);
        assert!(names(&asked(|need| need.memory_bytes = Some(need.size_bytes))).is_empty());
    }

    #[test]
    fn what_was_not_measured_is_said() {
        let shipped = Figures::shipped();
        for (change, sentence) in [
            ((|need| need.size_bytes *= 10) as fn(&mut Need), "MiB were measured"),
            (|need| need.item_bytes = 12, "items of"),
            (|need| need.distribution = Distribution::Zipf(0.99), "not zipf:0.99"),
            (|need| need.updates_per_s *= 100, "updates a second were measured"),
            (|need| need.writers = 8, "one writer"),
            (|need| need.interval_s = Some(0.01), "an image takes"),
        ] {
            let mut need = need();
            change(&mut need);
            let gaps = shipped.gaps(&need);
            assert!(gaps.len() == 1 && gaps[0].contains(sentence), "{sentence}: {gaps:?}");
        }
    }
}
