//! The page of `lab compare`: the table, and rows for what people look for first.

use crate::case::record::Record;
use crate::comparison;
use crate::report::{self, FigureReport, Images, Kind, Panel, Point, Report, page};
use stillframe_measure::environment;

/// The figures that the page shows of each record, with their names.
type Shown = (&'static str, fn(&Record) -> Option<f64>);

const ROWS: [Shown; 4] = [
    ("mean tick that met an image [ms]", |it| {
        (it.capture_ticks > 0).then_some(it.tick_latency_capture_ms.mean)
    }),
    ("worst tick [ms]", |it| Some(it.tick_latency_ms.max)),
    ("begin [us]", |it| it.begin_us.map(|begin| begin.p50)),
    ("memory, at most [sizes of the state]", |it| {
        Some(it.memory_peak_bytes as f64 / it.case.size_bytes.max(1) as f64)
    }),
];

/// The records as one page of HTML. `workload` says what was run, `command` what runs it again.
#[must_use]
pub fn html(records: &[Record], workload: &str, command: &str) -> String {
    let (mut table, _) = comparison::table(records);
    table.title = comparison::LEGEND.replace('\n', " ");
    let figure = FigureReport {
        name: "compare".to_owned(),
        title: "Algorithms under one workload".to_owned(),
        workload: workload.replace('\n', " "),
        panels: ROWS.iter().map(|shown| panel(records, shown)).collect(),
        tables: vec![table],
        notes: comparison::remarks(records)
            .into_iter()
            .chain(comparison::touched(records))
            .collect(),
        images: images(records),
        command: command.to_owned(),
        ..FigureReport::default()
    };
    page::html(&Report {
        warnings: environment().warnings.clone(),
        command: command.to_owned(),
        figures: vec![figure],
        ..Report::default()
    })
}

fn panel(records: &[Record], (title, value): &Shown) -> Panel {
    let series = comparison::names(records).into_iter().filter_map(|name| {
        let rounds = records.iter().filter(|it| it.algorithm == name && it.is_measured());
        let values: Vec<f64> = rounds.filter_map(value).collect();
        Some(report::series(name, vec![Point::from_values(0.0, &values)?]))
    });
    Panel::new(title, Kind::Rows, "", title, series.collect())
}

fn images(records: &[Record]) -> Images {
    records.iter().fold(Images::default(), |sum, record| Images {
        taken: sum.taken + u64::from(record.images),
        verified: sum.verified + u64::from(record.verified_images),
        mismatched: sum.mismatched + record.mismatched_words,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::case::record::Latency;

    #[test]
    fn the_page_has_every_algorithm_and_what_was_wrong() {
        let record = |name: &str, wrong| Record {
            algorithm: name.to_owned(),
            tick_latency_ms: Latency::from_values(&[1.5]),
            mismatched_words: wrong,
            ..Record::default()
        };
        let html = html(&[record("none", 0), record("naive", 512)], "tiny <load>", "lab compare");
        for part in ["naive", "tiny &lt;load&gt;", "512 words differ", "<svg", "lab compare"] {
            assert!(html.contains(part), "{part}: {html}");
        }
    }
}
