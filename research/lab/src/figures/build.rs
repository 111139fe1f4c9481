//! Turns measurements into the report.

use std::collections::BTreeSet;

use stillframe::Unit;
use stillframe_measure::scale::number;

use super::data::{Data, View};
use super::judge::Ruling;
use super::metric::Metric;
use super::plan::{Facet, Plot, Size, command};
use super::{Figure, causes, deciding, served};
use crate::case::Case;
use crate::case::record::Record;
use crate::report::{
    self, FigureReport, Images, Kind, Outcome, Panel, Point, Series, Table, Tally, Verdict,
};

/// The report of a figure.
#[must_use]
pub fn report(figure: &Figure, data: &Data<'_>, size: Size) -> FigureReport {
    let plots = |facet: &Facet| -> Vec<Panel> {
        facet.plots.iter().map(|&plot| panel(figure, data, facet, plot)).collect()
    };
    let mut panels: Vec<Panel> = data.facets.iter().flat_map(plots).collect();
    let direct = data.direct();
    panels.extend_from_slice(&direct);
    let mut tables: Vec<Table> = data.facets.iter().map(|it| table(figure, data, it)).collect();
    // A table of many points over time tells nobody anything.
    let told = direct.iter().filter(|panel| !matches!(panel.kind, Kind::Strips | Kind::Trace));
    tables.extend(told.map(direct_table));
    tables.extend((figure.tables)(data));
    FigureReport {
        name: figure.name.to_owned(),
        title: figure.title.to_owned(),
        source: figure.source.to_owned(),
        workload: figure.workload.to_owned(),
        verdicts: verdicts(figure, data, size),
        panels,
        tables,
        parameters: parameters(data),
        notes: notes(data),
        images: images(data),
        command: command(&["figure", figure.name], size),
    }
}

/// The report of a figure that could not be reported, and why.
#[must_use]
pub fn failed(figure: &Figure, why: String) -> FigureReport {
    let verdict = |claim: &super::Claim| Verdict {
        claim: claim.text.to_owned(),
        whose: figure.whose(claim),
        cause: None,
        outcome: Outcome::Untestable(why.clone()),
        measured: String::new(),
        tally: Tally::default(),
        size: String::new(),
        deciding: String::new(),
    };
    FigureReport {
        name: figure.name.to_owned(),
        title: figure.title.to_owned(),
        source: figure.source.to_owned(),
        workload: figure.workload.to_owned(),
        verdicts: figure.claims.iter().map(verdict).collect(),
        notes: vec![why.clone()],
        ..FigureReport::default()
    }
}

/// Every claim, judged; none is judged by wrong images.
fn verdicts(figure: &Figure, data: &Data<'_>, size: Size) -> Vec<Verdict> {
    let wrong = images(data).mismatched;
    let verdict = |claim: &super::Claim| {
        let deciding::Verdict { ruling, size, deciding } =
            deciding::verdict(figure, claim, data, size);
        let Ruling { judgement, tally, .. } = ruling;
        let outcome = match wrong {
            0 => judgement.outcome,
            _ => Outcome::Untestable("images were wrong".to_owned()),
        };
        let has_cause = |it: &&Outcome| matches!(it, Outcome::NotHeld | Outcome::Untestable(_));
        let examined = |_: &Outcome| causes::cause_of(figure, claim);
        Verdict {
            claim: claim.text.to_owned(),
            whose: figure.whose(claim),
            cause: Some(&outcome).filter(has_cause).and_then(examined),
            outcome,
            measured: judgement.measured,
            tally,
            size,
            deciding,
        }
    };
    figure.claims.iter().map(verdict).collect()
}

fn panel(figure: &Figure, data: &Data<'_>, facet: &Facet, plot: Plot) -> Panel {
    let last = facet.spots.len().saturating_sub(1);
    let view = |metric| View { data, facet, metric };
    let each = |points: &dyn Fn(&str) -> Vec<Point>| -> Vec<Series> {
        facet.algorithms.iter().map(|name| report::series(name, points(name))).collect()
    };
    let single =
        |metric: &'static Metric, name: &str| view(metric).point(name, last).into_iter().collect();
    let (kind, x, y, series) = match plot {
        Plot::Lines(it) => {
            (Kind::Lines, figure.swept.to_owned(), it.label(), each(&|name| view(it).points(name)))
        }
        Plot::Across(it) => (Kind::Lines, figure.swept.to_owned(), it.label(), across(data, it)),
        Plot::Rows(it) => (Kind::Rows, String::new(), it.label(), each(&|name| single(it, name))),
        Plot::Strips => {
            let strip = |&name: &&'static str| strip(name, data.rounds(facet, last, name));
            let series = facet.algorithms.iter().map(strip).collect();
            (Kind::Strips, "tick".to_owned(), "update stage [ms]".to_owned(), series)
        }
        Plot::Plane(across, up) => {
            let place = |name: &str| {
                let x = view(across).value(name, last);
                let at = |x| view(up).point(name, last).map(|point| Point { x, ..point });
                x.and_then(at).into_iter().collect()
            };
            (Kind::Scatter, across.label(), up.label(), each(&place))
        }
    };
    let title = match plot {
        Plot::Rows(it) => format!("{}: {}", facet.title, it.name),
        Plot::Across(it) => it.name.to_owned(),
        _ => facet.title.clone(),
    };
    Panel { title, kind, x, y, series, ..Panel::default() }
}

/// One line for each facet, of its first algorithm.
fn across(data: &Data<'_>, metric: &Metric) -> Vec<Series> {
    let facets = data.facets.iter().enumerate();
    let line = |(index, facet): (usize, &Facet)| {
        let points = facet.algorithms.first().map(|name| View { data, facet, metric }.points(name));
        Series::numbered(index, &facet.title, points.unwrap_or_default())
    };
    facets.map(line).collect()
}

/// Every tick of the first round that has a trace; those at which an image was held are shaded.
fn strip(name: &str, rounds: &[Record]) -> Series {
    let Some(record) = rounds.iter().find(|record| record.trace_ms.is_some()) else {
        return report::series(name, Vec::new());
    };
    let trace: Vec<f32> = record.trace_ms.clone().unwrap_or_default();
    let last = trace.len().saturating_sub(1) as f64;
    let ticks = trace.into_iter().enumerate();
    let points = ticks.map(|(tick, ms)| Point::single(tick as f64, f64::from(ms))).collect();
    let held = record.image_ticks.iter();
    let shaded = held.map(|&(first, after)| [f64::from(first), f64::from(after).min(last)]);
    Series { shaded: shaded.collect(), ..report::series(name, points) }
}

fn table(figure: &Figure, data: &Data<'_>, facet: &Facet) -> Table {
    let is_swept = facet.spots.len() > 1;
    let swept = is_swept.then(|| figure.swept.to_owned());
    let metrics = figure.columns.iter().map(|metric| metric.label());
    let columns = ["algorithm".to_owned()].into_iter().chain(swept).chain(metrics).collect();
    let mut rows = Vec::new();
    for name in &facet.algorithms {
        for (spot, (x, _)) in facet.spots.iter().enumerate() {
            let cells: Vec<String> = figure
                .columns
                .iter()
                .map(|metric| {
                    View { data, facet, metric }.point(name, spot).map_or("-".into(), cell)
                })
                .collect();
            if cells.iter().any(|cell| cell != "-") {
                let x = is_swept.then(|| number(*x));
                rows.push([(*name).to_owned()].into_iter().chain(x).chain(cells).collect());
            }
        }
    }
    Table { title: format!("{}: median (least to most of all rounds)", facet.title), columns, rows }
}

fn cell(point: Point) -> String {
    let (low, y, high) = (number(point.low), number(point.y), number(point.high));
    if low == high { y } else { format!("{y} ({low} to {high})") }
}

fn direct_table(panel: &Panel) -> Table {
    let rows = panel.series.iter().flat_map(|series| {
        let x = |x: f64| if panel.x.is_empty() { String::new() } else { number(x) };
        let row = move |point: &Point| vec![series.name.clone(), x(point.x), cell(*point)];
        series.points.iter().map(row)
    });
    Table {
        title: panel.title.clone(),
        columns: vec!["what".to_owned(), panel.x.clone(), panel.y.clone()],
        rows: rows.collect(),
    }
}

fn images(data: &Data<'_>) -> Images {
    data.records().fold(Images::default(), |sum, record| Images {
        taken: sum.taken + u64::from(record.images),
        verified: sum.verified + u64::from(record.verified_images),
        mismatched: sum.mismatched + record.mismatched_words,
    })
}

/// The facts beside every figure.
fn parameters(data: &Data<'_>) -> Vec<(String, String)> {
    let cases: Vec<&Case> =
        data.facets.iter().flat_map(|facet| &facet.spots).map(|(_, case)| case).collect();
    if cases.iter().any(|case| case.service.is_some()) {
        return served::parameters(&cases, data);
    }
    let Some(record) = data.records().find(|record| record.is_measured()) else {
        return Vec::new();
    };
    let several = |of: &dyn Fn(&Case) -> String| -> String {
        let mut seen: Vec<String> = Vec::new();
        for text in cases.iter().map(|case| of(case)) {
            if !seen.contains(&text) {
                seen.push(text);
            }
        }
        seen.join(", ")
    };
    let mb = |case: &Case| format!("{} MB", number(case.size_bytes as f64 / 1e6));
    let ticks = |case: &Case| match case.tick_ms {
        0 => format!("{} at full speed", case.ticks),
        ms => format!("{} of {ms} ms", case.ticks),
    };
    let rate = |case: &Case| case.disk_rate.map_or("no limit".into(), mb_per_s);
    let pages =
        |case: &Case| if case.huge_pages { "asked for" } else { "not asked for" }.to_owned();
    let environment = &record.environment;
    let pinned = if record.pinned { "a core each" } else { "not pinned" };
    let rounds = data.records().map(|record| record.round).max().unwrap_or(0);
    [
        ("state", several(&mb)),
        ("distribution", several(&|case| case.distribution.to_string())),
        ("item", several(&|case| format!("{} bytes", case.item_bytes))),
        ("updates per tick", several(&|case| number(case.updates_per_tick as f64))),
        ("ticks", several(&ticks)),
        ("least time between begins", several(&|case| format!("{} ms", case.interval_ms))),
        ("image rate", several(&rate)),
        ("image held unread", several(&|case| format!("{} ms", case.hold_ms))),
        ("reads per update", several(&|case| number(case.reads_per_update))),
        ("updates announced ahead", several(&|case| case.ahead.to_string())),
        ("updates in a batch", several(&|case| case.batch.to_string())),
        ("unit", units(data)),
        ("units written per period", range(data, |it| it.units_per_period)),
        ("pages written per period", range(data, |it| it.pages_per_period)),
        ("2 MiB pages", format!("{}; THP is '{}'", several(&pages), environment.huge_pages)),
        ("cores", format!("{}; writer and snapshotter {pinned}", environment.cores)),
        ("rounds", rounds.to_string()),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into()
}

fn mb_per_s(rate: u64) -> String {
    format!("{} MB/s", number(rate as f64 / 1e6))
}

/// The units that were really used, each with its algorithms.
fn units(data: &Data<'_>) -> String {
    let used: BTreeSet<(&str, &str)> = data
        .records()
        .filter(|record| record.is_measured() && !record.case.is_floor())
        .map(|record| (&*record.unit, &*record.algorithm))
        .collect();
    let unit = |name: &str| {
        let who: Vec<&str> = used.iter().filter(|(unit, _)| *unit == name).map(|it| it.1).collect();
        (!who.is_empty()).then(|| format!("{name}: {}", who.join(", ")))
    };
    Unit::ALL.iter().filter_map(|it| unit(it.name())).collect::<Vec<_>>().join("; ")
}

fn range(data: &Data<'_>, of: fn(&Record) -> Option<f64>) -> String {
    let values: Vec<f64> = data.records().filter_map(of).collect();
    match Point::from_values(0.0, &values) {
        Some(point) if point.low == point.high => number(point.y),
        Some(point) => format!("{} to {}", number(point.low), number(point.high)),
        None => "-".to_owned(),
    }
}

/// Which algorithms are left out and why: each reason once, with all its algorithms.
fn notes(data: &Data<'_>) -> Vec<String> {
    let mut left_out: Vec<(String, Vec<&str>)> = Vec::new();
    for facet in data.facets {
        for &name in &facet.algorithms {
            let Some(why) = data.missing(facet, name) else { continue };
            let place = if facet.unit.is_some() { &*facet.title } else { "" };
            let reason = if place.is_empty() { why } else { format!("{place}: {why}") };
            match left_out.iter_mut().find(|(other, _)| *other == reason) {
                Some((_, names)) if names.contains(&name) => {}
                Some((_, names)) => names.push(name),
                None => left_out.push((reason, vec![name])),
            }
        }
    }
    let note =
        |(reason, names): (String, Vec<&str>)| format!("left out: {} ({reason})", names.join(", "));
    let mut notes: Vec<String> = left_out.into_iter().map(note).collect();
    for record in data.records().filter(|record| record.mismatched_words > 0) {
        let why = record.served.as_ref().and_then(|it| it.wrong.as_ref());
        let why = why.map_or(String::new(), |why| format!(": {why}"));
        notes
            .push(format!("{} gave wrong images in round {}{why}", record.algorithm, record.round));
    }
    notes.dedup();
    notes
}
