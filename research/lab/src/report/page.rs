//! One page: environment, verdicts, then each figure. No network, no scripts.

use std::fmt::Write as _;

use stillframe_measure::document::{self, list};
use stillframe_measure::plot;
use stillframe_measure::svg::Escaped;

use super::verdict::{Verdict, Whose};
use super::{FigureReport, Report, description};

/// The page as HTML.
#[must_use]
pub fn html(report: &Report) -> String {
    let mut html = document::open("Stillframe lab", "Stillframe lab: the figures, run again");
    head(&mut html, report);
    html.push_str("</header>\n<main>");
    overview(&mut html, report);
    for figure in &report.figures {
        section(&mut html, figure);
    }
    html.push_str("</main></body></html>\n");
    html
}

fn head(html: &mut String, report: &Report) {
    html.push_str(
        "<p>Every published snapshot algorithm on the same machine, under the workloads of the \
         papers. Points are medians over rounds, bars span all rounds; rounds of all algorithms \
         are interleaved. Figures whose images differ from the oracle say so.</p>",
    );
    document::warnings(html, &report.warnings);
    list(html, &report.environment);
    let _ = write!(html, "<pre>{}</pre>", Escaped(&report.command));
}

/// The table of all verdicts, with how many held.
fn overview(html: &mut String, report: &Report) {
    let count = report.count();
    if count.is_empty() {
        return;
    }
    let _ = write!(
        html,
        "<section id=\"verdicts\"><h2>What held</h2><p>{count} A claim is judged in each round by \
         itself: two rounds at least, and four of five, must agree.</p>"
    );
    html.push_str(
        "<div class=\"scroll\"><table class=\"verdicts\"><thead><tr><th scope=\"col\">figure</th>\
         <th scope=\"col\">claim</th><th scope=\"col\">whose</th><th scope=\"col\">here</th>\
         <th scope=\"col\">size</th><th scope=\"col\">measured</th></tr></thead><tbody>",
    );
    for figure in &report.figures {
        for verdict in &figure.verdicts {
            let name = Escaped(&figure.name);
            let _ = write!(html, "<tr><th scope=\"row\"><a href=\"#{name}\">{name}</a></th>");
            let whose = match verdict.whose {
                Whose::Papers => "the paper's",
                Whose::Ours => "ours",
            };
            let _ = write!(html, "<td>{}</td><td>{whose}</td>", Escaped(&verdict.claim));
            outcome(html, verdict);
            html.push_str("</tr>");
        }
    }
    html.push_str("</tbody></table></div></section>\n");
}

/// Three cells: the outcome of the claim, the size of the run, and the number that decided.
fn outcome(html: &mut String, verdict: &Verdict) {
    let outcome = &verdict.outcome;
    let _ = write!(
        html,
        "<td class=\"out\"><span class=\"{}\"><span aria-hidden=\"true\">{}</span> {}</span></td>",
        outcome.class(),
        outcome.sign(),
        outcome.word()
    );
    let (size, reason) = (Escaped(&verdict.size), verdict.reason());
    let _ = write!(html, "<td>{size}</td><td>{}", Escaped(&reason));
    if let Some(cause) = &verdict.cause {
        let _ = write!(html, "<br><small>{}</small>", Escaped(&cause.text()));
    }
    let _ = write!(html, "<br><small>Deciding run: {}</small>", Escaped(&verdict.deciding));
    html.push_str("</td>");
}

fn section(html: &mut String, figure: &FigureReport) {
    let _ = write!(
        html,
        "<section id=\"{0}\"><h2>{0}: {1} <small>{2}</small></h2><p>{3}</p>",
        Escaped(&figure.name),
        Escaped(&figure.title),
        Escaped(&figure.source),
        Escaped(&figure.workload)
    );
    if figure.images.mismatched > 0 {
        let _ = write!(
            html,
            "<div class=\"warn\"><p><strong>Wrong images:</strong> {} words differ from the \
             oracle.</p></div>",
            figure.images.mismatched
        );
    }
    html.push_str("<div class=\"scroll\"><table class=\"verdicts\"><tbody>");
    for verdict in &figure.verdicts {
        let _ = write!(html, "<tr><th scope=\"row\">{}</th>", Escaped(&verdict.claim));
        outcome(html, verdict);
        html.push_str("</tr>");
    }
    html.push_str("</tbody></table></div>\n<div class=\"panels\">");
    for (index, panel) in figure.panels.iter().enumerate() {
        let id = format!("{}-{index}", figure.name);
        html.push_str(&plot::svg(panel, &id, &description(figure)));
    }
    html.push_str("</div>\n");
    numbers(html, figure);
    html.push_str("</section>\n");
}

/// The part below the plots: tables, notes, parameters, the command.
fn numbers(html: &mut String, figure: &FigureReport) {
    let open = if figure.panels.is_empty() { " open=\"\"" } else { "" };
    if !figure.tables.is_empty() {
        let _ = write!(html, "<details{open}><summary>The numbers as a table</summary>");
        figure.tables.iter().for_each(|table| html.push_str(&table.html()));
        html.push_str("</details>");
    }
    if !figure.notes.is_empty() {
        html.push_str("<ul class=\"soft\">");
        for note in &figure.notes {
            let _ = write!(html, "<li>{}</li>", Escaped(note));
        }
        html.push_str("</ul>");
    }
    list(html, &figure.parameters);
    let _ = write!(
        html,
        "<p class=\"soft\">{} <a href=\"{}.svg\">SVG</a></p><pre>{}</pre>",
        figure.images.sentence(),
        Escaped(&figure.name),
        Escaped(&figure.command)
    );
}

#[cfg(test)]
pub(super) mod tests {
    use stillframe_measure::svg;

    use super::*;
    use crate::report::{Cause, Images, Kind, Origin, Outcome, Panel, Point, Table, Tally, series};

    pub(in crate::report) fn report() -> Report {
        let text = str::to_owned;
        let cause = Cause { origin: Origin::Kernel, why: "<k>.", experiment: "lab figure x." };
        let verdict = |outcome| Verdict {
            claim: text("a < b"),
            whose: Whose::Papers,
            cause: (outcome == Outcome::NotHeld).then_some(cause),
            outcome,
            measured: text("1 & 2"),
            tally: Tally { held: 1, fell: 1 },
            size: text("50 <MB>"),
            deciding: text("not yet found"),
        };
        let series = vec![series("naive", vec![Point::single(1.0, 2.0)])];
        let panel = Panel::new("uniform", Kind::Lines, "size [MB]", "mean [ms]", series);
        let figure = FigureReport {
            name: text("li-10"),
            title: text("\"mean\" <latency>"),
            verdicts: vec![
                verdict(Outcome::Held),
                verdict(Outcome::NotHeld),
                verdict(Outcome::Undecided),
                verdict(Outcome::Untestable(text("no <machine>"))),
                verdict(Outcome::TooSmall(text("it shows from 1 GB on"))),
                verdict(Outcome::NotRun(text("no <guest>"))),
            ],
            panels: vec![panel.clone(), panel],
            tables: vec![Table { title: text("t"), ..Table::default() }],
            notes: vec![text("left out: <x>")],
            parameters: vec![(text("unit"), text("word"))],
            images: Images { taken: 1, verified: 2, mismatched: 3 },
            ..FigureReport::default()
        };
        Report {
            environment: vec![(text("CPU"), text("<i>"))],
            warnings: vec![text("debug & busy")],
            command: text("stillframe lab all"),
            figures: vec![figure],
        }
    }

    #[test]
    fn the_page_is_well_formed_and_needs_no_network() {
        let page = html(&report());
        svg::elements(&page).expect("well formed");
        assert!(!page.contains("<script") && !page.contains("url(") && !page.contains("@import"));
        let outside = page.replace("http://www.w3.org/2000/svg", "");
        assert!(!outside.contains("http"), "nothing is fetched");
        assert!(page.contains(
            "Of 6 claims of the papers, 1 held, 1 did not (the kernel 1), 1 are undecided"
        ));
        assert!(page.contains("<td>50 &lt;MB&gt;</td>") && page.contains("Deciding run: not yet"));
        assert!(page.contains("the kernel: &lt;k&gt;. Decided by: lab figure x."));
        assert!(page.contains("Wrong images"));
        // Every claim is a row, with its cause where it was not held.
        assert_eq!(page.matches("<td>a &lt; b</td>").count(), 6, "{page}");
        assert!(page.contains("not held") && page.contains("li-10.svg"), "{page}");
    }

    #[test]
    fn ids_are_unique() {
        let page = html(&report());
        let mut ids: Vec<_> =
            page.split(" id=\"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
        ids.sort_unstable();
        let all = ids.len();
        ids.dedup();
        assert_eq!(ids.len(), all);
    }
}
