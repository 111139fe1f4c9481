//! The report of a run of figures: tables, plots and one page.
//!
//! Figures hand over panels, tables and verdicts, this module makes text, SVG and HTML of them; how
//! tables and plots look is in `stillframe-measure`.

pub mod page;
pub mod summary;
pub mod verdict;

pub use stillframe_measure::{Kind, Panel, Point, Series, Style, Table};
pub use verdict::{Cause, Origin, Outcome, Tally, Verdict, Whose};

use std::fmt::Write as _;

use crate::case::{REDIS, VALKEY};
use stillframe::algorithms;
use stillframe_measure::svg::{self, Drawing, Escaped};
use stillframe_measure::{plot, style};

/// The contents of a page.
#[derive(Debug, Clone, Default)]
pub struct Report {
    /// Name and value, of the machine and the program.
    pub environment: Vec<(String, String)>,
    /// What makes the figures doubtful, one sentence each.
    pub warnings: Vec<String>,
    /// The command that made the page.
    pub command: String,
    /// The figures, in order.
    pub figures: Vec<FigureReport>,
}

/// One figure, measured.
#[derive(Debug, Clone, Default)]
pub struct FigureReport {
    /// Name on the command line.
    pub name: String,
    /// What it shows.
    pub title: String,
    /// Paper and number.
    pub source: String,
    /// What was run, in words.
    pub workload: String,
    /// Its claims, judged.
    pub verdicts: Vec<Verdict>,
    /// Plots.
    pub panels: Vec<Panel>,
    /// What was measured, as numbers.
    pub tables: Vec<Table>,
    /// Names and values of the facts beside every figure.
    pub parameters: Vec<(String, String)>,
    /// Which algorithms are left out, and why.
    pub notes: Vec<String>,
    /// Images taken, images compared with the oracle, words that differed.
    pub images: Images,
    /// The command that runs it again.
    pub command: String,
}

/// Images behind a figure.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Images {
    /// Taken in timed ticks.
    pub taken: u64,
    /// Compared with the oracle, those before and after included.
    pub verified: u64,
    /// Words that differed.
    pub mismatched: u64,
}

impl Report {
    /// How many claims held, of the papers and of ours.
    #[must_use]
    pub fn count(&self) -> String {
        verdict::count(self.figures.iter().flat_map(|figure| &figure.verdicts))
    }
}

impl Images {
    /// What was verified.
    #[must_use]
    pub fn sentence(self) -> String {
        let Self { taken, verified, mismatched } = self;
        match (taken, verified) {
            (0, 0) => "Measured apart from cases; panels and tables say what.".to_owned(),
            _ => format!(
                "{taken} images taken while timed; {verified} compared with the oracle, \
                 {mismatched} words differed."
            ),
        }
    }
}

/// The fixed style of an algorithm, from its place in the registry; everything that is not in there
/// (the floor, `none`) is grey.
#[must_use]
pub fn style_of(name: &str) -> Style {
    match algorithms::ALL.iter().position(|info| info.name == name) {
        Some(index) => {
            let width_tenths = if name == "imprint" { 26 } else { 17 };
            Style { width_tenths, ..Style::numbered(index) }
        }
        // Servers beside ours come behind the registry.
        None => match [REDIS, VALKEY].iter().position(|server| *server == name) {
            Some(index) => Style::numbered(algorithms::ALL.len() + index),
            None => Style::GREY,
        },
    }
}

/// The series of an algorithm, in its style.
#[must_use]
pub fn series(name: &str, points: Vec<Point>) -> Series {
    Series { name: name.to_owned(), style: style_of(name), points, shaded: Vec::new() }
}

/// The height of a line of a title, and the letters that one has room for.
const LINE: f64 = 18.0;
const LETTERS: usize = 52;

/// A title in lines that a picture has room for.
fn lines(title: &str) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in title.split(' ') {
        let last = lines.len() - 1;
        if lines[last].is_empty() {
            lines[last].push_str(word);
        } else if lines[last].len() + 1 + word.len() <= LETTERS {
            lines[last].push(' ');
            lines[last].push_str(word);
        } else {
            lines.push(word.to_owned());
        }
    }
    lines
}

/// All panels of a figure in one picture that stands alone, one below the other.
#[must_use]
pub fn picture(figure: &FigureReport) -> String {
    let heights: Vec<f64> = figure.panels.iter().map(plot::height).collect();
    let title = lines(&format!("{}: {}", figure.name, figure.title));
    let (width, head) = (plot::WIDTH, 8.0 + LINE * title.len() as f64);
    let height = heights.iter().sum::<f64>() + head;
    let mut drawing = Drawing::default();
    drawing.raw(format_args!(
        r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" "#
    ));
    drawing.raw(format_args!(
        r#"width="{width}" height="{height}" aria-labelledby="t d"><title id="t">{}: {}</title>"#,
        Escaped(&figure.name),
        Escaped(&figure.title)
    ));
    drawing.raw(format_args!(r#"<desc id="d">{}</desc>"#, Escaped(&description(figure))));
    drawing.raw(format_args!(
        "<style>svg{{color:#222;background:#fff}}\
         @media(prefers-color-scheme:dark){{svg{{color:#e8e8e8;background:#16181c}}}}{}{}</style>",
        svg::SHEET,
        style::sheet()
    ));
    for (index, line) in title.iter().enumerate() {
        drawing.text("title", svg::Anchor::Start, [4.0, 14.0 + LINE * index as f64], line);
    }
    let mut top = head;
    for (panel, height) in figure.panels.iter().zip(heights) {
        drawing.raw(format_args!(r#"<g transform="translate(0 {top})">"#));
        plot::draw(&mut drawing, panel);
        drawing.raw(format_args!("</g>"));
        top += height;
    }
    drawing.raw(format_args!("</svg>\n"));
    drawing.finish()
}

/// A figure as text: verdicts, tables, notes.
#[must_use]
pub fn text(figure: &FigureReport) -> String {
    let mut text = format!("{}: {} ({})\n", figure.name, figure.title, figure.source);
    for verdict in &figure.verdicts {
        let Verdict { claim, outcome, cause, size, deciding, .. } = verdict;
        let why = verdict.reason();
        let at = if size.is_empty() { String::new() } else { format!(" at {size}") };
        let _ = writeln!(text, "  {} {}{at}: {claim} [{why}]", outcome.sign(), outcome.word());
        if let Some(cause) = cause {
            let _ = writeln!(text, "      {}", cause.text());
        }
        let _ = writeln!(text, "      deciding run: {deciding}");
    }
    for table in &figure.tables {
        text.push_str(&table.text());
    }
    for note in &figure.notes {
        let _ = writeln!(text, "  note: {note}");
    }
    let _ = writeln!(text, "  {}", figure.images.sentence());
    text
}

/// A figure in words, for readers who do not see it: its verdicts in sentences.
#[must_use]
pub fn description(figure: &FigureReport) -> String {
    let sentences = figure.verdicts.iter().map(|verdict| {
        format!("{}: {} ({}).", verdict.claim, verdict.outcome.word(), verdict.measured)
    });
    let sentences: Vec<_> = sentences.collect();
    format!("{} {} The numbers are in the table.", figure.workload, sentences.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_floor_is_grey() {
        assert_eq!(style_of("none"), Style::GREY);
        assert!(algorithms::ALL.iter().all(|info| style_of(info.name).class != "sx"));
    }

    #[test]
    fn a_picture_stands_alone_and_is_well_formed() {
        let figure = page::tests::report().figures.remove(0);
        let markup = picture(&figure);
        let found = svg::elements(&markup).expect("well formed");
        assert_eq!(found.iter().filter(|name| *name == "style").count(), 1);
        assert!(!markup.contains("<script") && !markup.contains("url("));
    }
}
