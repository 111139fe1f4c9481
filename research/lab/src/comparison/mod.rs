//! The records of `lab compare` as one table: one row for each algorithm, medians over its rounds.

pub mod advise;
pub mod page;
pub mod summary;

use crate::case::is_floor;
use crate::case::record::{Record, quantile};
use crate::report::Table;

/// A column: its name, where its value lies in a record, how it is written, which end is better.
struct Column {
    name: &'static str,
    value: fn(&Record) -> Option<f64>,
    digits: usize,
    better: Better,
    /// Whether half the range of the rounds is shown, in percent of the median.
    spread: bool,
}

#[derive(Clone, Copy, PartialEq)]
enum Better {
    Lower,
    Higher,
}

const COLUMNS: &[Column] = &[
    column("mean [ms]", |it| Some(it.tick_latency_ms.mean), 3, false),
    column("captured [ms]", |it| captured(it).map(|it| it.mean), 3, true),
    column("p99 [ms]", |it| Some(it.tick_latency_ms.p99), 2, false),
    column("worst [ms]", |it| Some(it.tick_latency_ms.max), 2, true),
    column("begin [us]", |it| it.begin_us.map(|begin| begin.p50), 1, false),
    column("begin max", |it| it.begin_us.map(|begin| begin.max), 1, false),
    Column {
        name: "Mupd/s",
        value: |it| Some(it.throughput_updates_per_s / 1e6),
        digits: 1,
        better: Better::Higher,
        spread: false,
    },
    column("read [ns]", |it| Some(it.read_ns), 2, false),
    column("memory [x]", |it| copies(it, it.memory_peak_bytes), 2, false),
    column("image [s]", |it| it.image_s, 3, false),
];

const fn column(
    name: &'static str,
    value: fn(&Record) -> Option<f64>,
    digits: usize,
    spread: bool,
) -> Column {
    Column { name, value, digits, better: Better::Lower, spread }
}

fn captured(record: &Record) -> Option<crate::Latency> {
    (record.capture_ticks > 0).then_some(record.tick_latency_capture_ms)
}

fn copies(record: &Record, bytes: u64) -> Option<f64> {
    (bytes > 0).then(|| bytes as f64 / record.case.size_bytes.max(1) as f64)
}

/// What the columns mean, for below the table.
pub const LEGEND: &str = "\
Medians of the rounds, ± half their range; * is the best algorithm of a column. A tick is its
update stage with the begin in it: mean, 99 % and worst of all ticks; captured: mean of those that
met an image. Mupd/s: updates by the time of all stages. read: one of many independent random reads
while an image is captured. memory: at most, in sizes of the state. image: from begin to durable.
images: taken in timed ticks, of all rounds; wrong: words in blocks that differ from the oracle.";

/// The table, and for each row whether its images were wrong (or a round broke).
#[must_use]
pub fn table(records: &[Record]) -> (Table, Vec<bool>) {
    let names = names(records);
    let rows: Vec<Row<'_>> = names.iter().map(|name| Row::new(name, records)).collect();
    let mut columns = vec!["algorithm".to_owned(), "unit".to_owned()];
    columns.extend(COLUMNS.iter().map(|column| format!("{} ", column.name)));
    columns.extend(["images", "wrong"].map(str::to_owned));
    let mut cells: Vec<Vec<String>> = rows.iter().map(Row::head).collect();
    for (index, column) in COLUMNS.iter().enumerate() {
        let best = best(&rows, index, column.better);
        for (row, cells) in rows.iter().zip(&mut cells) {
            let mark = if best.is_some() && row.contends() && row.median(index) == best {
                "*"
            } else {
                " "
            };
            cells.push(row.cell(index) + mark);
        }
    }
    for (row, cells) in rows.iter().zip(&mut cells) {
        cells.extend(row.tail());
    }
    let wrong = rows.iter().map(|row| row.records.iter().any(|record| record.is_wrong())).collect();
    (Table { title: String::new(), columns, rows: cells }, wrong)
}

/// Every algorithm once, in the order of the records.
pub(crate) fn names(records: &[Record]) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    for record in records {
        if !names.contains(&record.algorithm.as_str()) {
            names.push(&record.algorithm);
        }
    }
    names
}

/// What the table cannot show: one sentence for each algorithm that gave no figures, or few.
#[must_use]
pub fn remarks(records: &[Record]) -> Vec<String> {
    let mut remarks: Vec<String> = Vec::new();
    for record in records {
        let name = &record.algorithm;
        let remark = match (&record.unavailable, &record.failed) {
            (Some(why), _) => format!("{name} is unavailable here: {why}"),
            (_, Some(why)) => format!("{name}, round {}: {why}", record.round),
            _ if record.images == 0 && !is_floor(name) => {
                format!("{name}, round {}: no image in the timed ticks; give more", record.round)
            }
            _ => continue,
        };
        if !remarks.contains(&remark) {
            remarks.push(remark);
        }
    }
    remarks
}

/// What the load touched from one begin to the next: the more, the more an algorithm must copy.
#[must_use]
pub fn touched(records: &[Record]) -> Option<String> {
    let range = |of: fn(&Record) -> Option<f64>| {
        let mut values: Vec<f64> = records.iter().filter_map(of).collect();
        values.sort_by(f64::total_cmp);
        let (least, most) = (values.first()?, values.last()?);
        Some(if least == most { format!("{least:.0}") } else { format!("{least:.0} to {most:.0}") })
    };
    let pages = range(|record| record.pages_per_period)?;
    let units = range(|record| record.units_per_period)?;
    Some(format!(
        "From one begin to the next {units} distinct units and {pages} pages were written."
    ))
}

struct Row<'a> {
    name: &'a str,
    /// The records with figures, and those that broke.
    records: Vec<&'a Record>,
    /// The values of each column, sorted.
    values: Vec<Vec<f64>>,
}

impl<'a> Row<'a> {
    fn new(name: &'a str, records: &'a [Record]) -> Self {
        let records: Vec<&Record> = records.iter().filter(|it| it.algorithm == name).collect();
        let measured = || records.iter().filter(|record| record.is_measured());
        let values = COLUMNS.iter().map(|column| {
            let mut values: Vec<f64> = measured().filter_map(|it| (column.value)(it)).collect();
            values.sort_by(f64::total_cmp);
            values
        });
        let values = values.collect();
        Self { name, records, values }
    }
    /// Whether a row can be the best: the floor cannot, and a row with wrong images must not.
    fn contends(&self) -> bool {
        !is_floor(self.name) && !self.records.iter().any(|record| record.is_wrong())
    }
    fn median(&self, column: usize) -> Option<f64> {
        let values = &self.values[column];
        (!values.is_empty()).then(|| quantile(values, 0.5))
    }
    fn head(&self) -> Vec<String> {
        let unit = self.records.iter().map(|record| record.unit.as_str()).find(|it| !it.is_empty());
        vec![self.name.to_owned(), unit.unwrap_or("-").to_owned()]
    }
    fn cell(&self, column: usize) -> String {
        let Some(median) = self.median(column) else { return "-".to_owned() };
        let (values, Column { digits, spread, .. }) = (&self.values[column], &COLUMNS[column]);
        let shown = format!("{median:.digits$}");
        match (values.first(), values.last()) {
            (Some(low), Some(high)) if *spread && values.len() > 1 && median > 0.0 => {
                format!("{shown} ±{:.0}%", (high - low) / 2.0 / median * 100.0)
            }
            _ => shown,
        }
    }
    fn tail(&self) -> [String; 2] {
        if is_floor(self.name) {
            return ["-".to_owned(), "-".to_owned()];
        }
        let images: u32 = self.records.iter().map(|record| record.images).sum();
        let wrong: u64 = self.records.iter().map(|record| record.mismatched_words).sum();
        [images.to_string(), wrong.to_string()]
    }
}

fn best(rows: &[Row<'_>], column: usize, better: Better) -> Option<f64> {
    let medians = rows.iter().filter(|row| row.contends()).filter_map(|row| row.median(column));
    medians.reduce(if better == Better::Lower { f64::min } else { f64::max })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::case::record::Latency;

    fn record(name: &str, round: u32, mean: f64, wrong: u64) -> Record {
        Record {
            algorithm: name.to_owned(),
            round,
            tick_latency_ms: Latency::from_values(&[mean]),
            mismatched_words: wrong,
            images: 1,
            ..Record::default()
        }
    }

    #[test]
    fn the_best_that_is_right_is_marked() {
        let records = [
            record("none", 1, 1.0, 0),
            record("fork", 1, 3.0, 0),
            record("naive", 1, 2.0, 512),
            record("none", 2, 1.0, 0),
            record("fork", 2, 4.0, 0),
            record("naive", 2, 2.0, 0),
        ];
        let (table, wrong) = table(&records);
        let column = |row: usize, index: usize| table.rows[row][index].as_str();
        assert_eq!((column(0, 0), column(0, 2)), ("none", "1.000 "));
        assert_eq!((column(1, 0), column(1, 2)), ("fork", "3.000*"));
        assert_eq!((column(2, 0), column(2, 2)), ("naive", "2.000 "));
        assert_eq!(wrong, [false, false, true]);
        assert_eq!(table.rows[2].last().map(String::as_str), Some("512"));
        assert!(remarks(&records).is_empty());
    }

    #[test]
    fn rows_without_figures_say_why() {
        let unavailable =
            Record { unavailable: Some("no such call".into()), ..record("uffd", 1, 0.0, 0) };
        let failed = Record { failed: Some("its process died".into()), ..record("cou", 2, 0.0, 0) };
        let records = [unavailable, failed];
        let (table, wrong) = table(&records);
        assert_eq!(table.rows[0][2], "- ");
        assert_eq!(wrong, [false, true]);
        assert_eq!(
            remarks(&records),
            ["uffd is unavailable here: no such call", "cou, round 2: its process died"]
        );
    }
}
