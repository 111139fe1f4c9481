//! The registry and the records of `lab compare` as one table in Markdown, for documents.
//!
//! Ratios are to the floor of the same run, medians over the rounds: they outlive the
//! machine better than milliseconds do.

use std::fmt::Write as _;

use stillframe::algorithms::ALL;
use stillframe::{Completeness, Info};

use crate::case::FLOOR;
use crate::case::record::{Record, quantile};

/// One row an algorithm; the columns that need records are left out if there are none.
#[must_use]
pub fn markdown(records: &[Record]) -> String {
    let mut text = "| name | image | memory, copies | begin | a read adds | a write adds, while \
                    an image is taken |"
        .to_owned();
    let is_measured = records.iter().any(Record::is_measured);
    if is_measured {
        text += " mean tick | worst tick | begin, us | read | memory | wrong words |";
    }
    let columns = text.matches(" |").count();
    let _ = writeln!(text, "\n|{}", "---|".repeat(columns));
    for info in ALL {
        text += &facts(info);
        if is_measured {
            text += &figures(info.name, records);
        }
        text.push('\n');
    }
    text
}

fn facts(info: &Info) -> String {
    let Info { name, memory, begin, read, write, .. } = info;
    let image = match info.image {
        Completeness::Full => "full",
        Completeness::Incremental => "increment",
    };
    format!("| `{name}` | {image} | {memory} | {begin} | {read} | {write} |")
}

pub(crate) fn figures(name: &str, records: &[Record]) -> String {
    let median = |name: &str, value: fn(&Record) -> f64| {
        let of_name = records.iter().filter(|it| it.algorithm == name && it.is_measured());
        let mut values: Vec<f64> = of_name.map(value).collect();
        values.sort_by(f64::total_cmp);
        (!values.is_empty()).then(|| quantile(&values, 0.5))
    };
    let ratio = |value: fn(&Record) -> f64| match (median(name, value), median(FLOOR, value)) {
        (Some(value), Some(floor)) if floor > 0.0 => format!("{:.2}x", value / floor),
        _ => "-".to_owned(),
    };
    let Some(begin) = median(name, |it| it.begin_us.map_or(0.0, |begin| begin.p50)) else {
        return " - | - | - | - | - | - |".to_owned();
    };
    let wrong: u64 = records
        .iter()
        .filter(|it| it.algorithm == name)
        .map(|record| record.mismatched_words)
        .sum();
    format!(
        " {} | {} | {begin:.1} | {} | {} | {wrong} |",
        ratio(|it| it.tick_latency_capture_ms.mean),
        ratio(|it| it.tick_latency_ms.max),
        ratio(|it| if it.read_idle_ns > 0.0 { it.read_idle_ns } else { it.read_ns }),
        ratio(|it| it.memory_peak_bytes as f64),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::case::record::{BeginUs, Latency};

    #[test]
    fn every_algorithm_has_a_row_and_figures_are_ratios_to_the_floor() {
        assert_eq!(markdown(&[]).lines().count(), ALL.len() + 2);
        let record = |name: &str, mean: f64, begin_us| Record {
            algorithm: name.to_owned(),
            tick_latency_ms: Latency::from_values(&[mean]),
            tick_latency_capture_ms: Latency::from_values(&[mean]),
            begin_us,
            read_idle_ns: mean,
            memory_peak_bytes: (mean * 100.0) as u64,
            ..Record::default()
        };
        let begin = Some(BeginUs { p50: 7.0, max: 9.0 });
        let text = markdown(&[record("none", 2.0, None), record("fork", 3.0, begin)]);
        let row = text.lines().find(|line| line.starts_with("| `fork`")).expect("a row");
        assert!(row.ends_with("| 1.50x | 1.50x | 7.0 | 1.50x | 1.50x | 0 |"), "{row}");
        let columns = |line: &str| line.matches('|').count();
        assert!(text.lines().all(|line| columns(line) == columns(row)), "{text}");
    }
}
