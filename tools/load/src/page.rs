//! The page of a measurement: the table, and latency against time with saves shaded.

use std::fmt::Write as _;

use stillframe_measure::document::{self, list};
use stillframe_measure::svg::Escaped;
use stillframe_measure::{Kind, Panel, Point, Series, Style, plot};

use crate::clock::SECOND;
use crate::phases::Stretch;
use crate::plan::Rate;
use crate::report::Report;

/// Seconds shown before and after a save in its own plot.
const AROUND: f64 = 0.5;
/// A plot is 440 points wide: more than a few values a point cannot be seen.
const POINTS_MAX: usize = 1_500;

/// The report as one page of HTML; `command` makes the report again.
#[must_use]
pub fn html(report: &Report, command: &str) -> String {
    let mut html = document::open("Stillframe load", "Latency under load");
    document::warnings(&mut html, &report.warnings);
    if let Some(failure) = report.failure() {
        document::warnings(&mut html, &[failure]);
    }
    list(&mut html, &parameters(report));
    let _ = write!(html, "<pre>{}</pre></header>\n<main><section>", Escaped(command));
    html.push_str("<h2>Queries</h2>");
    html.push_str(&report.table().html());
    html.push_str("<ul class=\"soft\">");
    for note in report.notes() {
        let _ = write!(html, "<li>{}</li>", Escaped(&note));
    }
    html.push_str("</ul></section>\n<section><h2>Latency against time</h2>");
    html.push_str(
        "<p>By intended time: the longest latency of each short bin, the 99th percentile of each \
         long one. Background saves, full syncs and rewrites of the log are shaded.</p><div class=\"panels\">",
    );
    let description = description(report);
    for (index, panel) in panels(report).iter().enumerate() {
        html.push_str(&plot::svg(panel, &format!("trace-{index}"), &description));
    }
    html.push_str("</div></section></main></body></html>\n");
    html
}

fn parameters(report: &Report) -> Vec<(String, String)> {
    let (plan, machine) = (&report.plan, &report.environment);
    let rate = match plan.rate {
        Rate::PerSecond(rate) => format!("{rate} queries a second, open loop"),
        Rate::Max => "as fast as replies come, closed loop".to_owned(),
    };
    let commit = machine.commit.as_ref().map_or(String::new(), |it| format!(" of {it}"));
    let rows = [
        ("server", format!("{} at {}", report.server, plan.target)),
        ("rate", rate),
        ("workload", plan.mix()),
        ("keys", format!("{} of {} bytes, {}", plan.keys, plan.value_size, plan.distribution)),
        (
            "connections",
            format!("{} on {} threads, pipeline {}", plan.clients, plan.threads, plan.pipeline),
        ),
        ("duration", format!("{:?}", plan.duration)),
        ("seed", plan.seed.to_string()),
        (
            "generator",
            format!("{}, {} cores, Linux {}", machine.cpu, machine.cores, machine.kernel),
        ),
        ("build", format!("{}{commit}", machine.profile)),
    ];
    rows.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// The plots in words, for readers who do not see them.
fn description(report: &Report) -> String {
    let phases = report.phases.iter().map(|it| {
        let latency = it.latency;
        format!(
            "{}: p99 {:.3} ms, longest {:.3} ms.",
            it.phase.name(),
            latency.p99_us / 1e3,
            latency.max_us / 1e3
        )
    });
    phases.collect::<Vec<_>>().join(" ")
}

/// The whole measurement, and the time around the save with the longest latency.
fn panels(report: &Report) -> Vec<Panel> {
    let whole = report.plan.duration.as_secs_f64().min(report.elapsed_s);
    let mut panels = vec![panel(report, "the whole measurement", [0.0, whole])];
    let bin_s = report.trace.bin_ms as f64 / 1e3;
    let worst_of = |stretch: &&Stretch| {
        let [from, to] = seconds(stretch, whole);
        let bins = report.trace.max_us.iter().enumerate();
        let within = bins.filter(|(bin, _)| (from..to).contains(&(*bin as f64 * bin_s)));
        within.filter_map(|(_, max)| *max).fold(0.0, f64::max)
    };
    let all = report.stretches();
    if let Some(worst) = all.max_by(|a, b| worst_of(a).total_cmp(&worst_of(b))) {
        let [from, to] = seconds(worst, whole);
        let window = [(from - AROUND).max(0.0), (to + AROUND).min(whole)];
        panels.push(panel(report, "around the worst of them", window));
    }
    panels
}

/// Begin and end of a stretch, in seconds.
fn seconds(stretch: &Stretch, whole: f64) -> [f64; 2] {
    let seconds = |ns: u64| ns as f64 / SECOND as f64;
    [seconds(stretch.from_ns), stretch.to_ns.map_or(whole, seconds)]
}

fn panel(report: &Report, title: &str, [from, to]: [f64; 2]) -> Panel {
    let trace = &report.trace;
    let series = |index, width, name: &str, values: &[Option<f64>], bin_ms: u64| {
        let points: Vec<Point> = values
            .iter()
            .enumerate()
            .map(|(bin, value)| ((bin as f64 + 0.5) * bin_ms as f64 / 1e3, value))
            .filter(|(at, _)| (from..to).contains(at))
            .filter_map(|(at, value)| Some(Point::single(at, (*value)? / 1e3)))
            .collect();
        // Width distinguishes the lines as well as colour.
        let style = Style { width_tenths: width, ..Style::numbered(index) };
        let (name, points) = (format!("{name} of {bin_ms} ms"), thinned(&points));
        Series { name, style, points, shaded: Vec::new() }
    };
    let stretches = report.stretches();
    let shaded = stretches.map(|it| seconds(it, to)).filter(|it| it[0] < to && it[1] > from);
    Panel {
        title: title.to_owned(),
        kind: Kind::Trace,
        x: "time [s]".to_owned(),
        y: "latency [ms]".to_owned(),
        series: vec![
            series(1, 10, "max", &trace.max_us, trace.bin_ms),
            series(0, 24, "p99", &trace.p99_us, trace.p99_bin_ms),
        ],
        shaded: shaded.collect(),
    }
}

/// The greatest of each few neighbours, where there are more points than a plot can show.
fn thinned(points: &[Point]) -> Vec<Point> {
    let every = points.len().div_ceil(POINTS_MAX).max(1);
    let greatest = |few: &[Point]| few.iter().copied().max_by(|a, b| a.y.total_cmp(&b.y));
    points.chunks(every).filter_map(greatest).collect()
}

#[cfg(test)]
mod tests {
    use stillframe_measure::svg::elements;

    use super::*;
    use crate::report::tests::report;

    #[test]
    fn the_page_is_well_formed_stands_alone_and_shades_saves() {
        let page = html(&report(), "stillframe load --rate <fast>");
        let found = elements(&page).expect("well formed");
        assert_eq!(found.iter().filter(|name| *name == "svg").count(), 2);
        assert_eq!(found.iter().filter(|name| *name == "rect").count(), 2);
        assert!(page.contains("redis &lt;7&gt;") && page.contains("saving / normal"));
        assert!(!page.contains("<script") && !page.contains("url(") && !page.contains("@import"));
        assert!(!page.replace("http://www.w3.org/2000/svg", "").contains("http"));
    }

    #[test]
    fn an_empty_run_has_a_page_too() {
        let empty = Report {
            phases: Vec::new(),
            trace: crate::TraceReport::default(),
            saves: Vec::new(),
            lost: Some("gone".to_owned()),
            ..report()
        };
        assert!(elements(&html(&empty, "")).is_ok());
    }

    #[test]
    fn thinning_keeps_the_greatest() {
        let points: Vec<Point> =
            (0..6_000).map(|x| Point::single(x.into(), (x % 7).into())).collect();
        let thin = thinned(&points);
        assert!(thin.len() <= POINTS_MAX && thin.iter().any(|it| it.y >= 6.0));
    }
}
