//! The verdicts as one page of Markdown, which a forge shows beside the files of a run.

use std::fmt::Write as _;

use super::verdict::{Origin, Outcome, Whose};
use super::{FigureReport, Images, Report};

/// What the signs of a table mean, and what lies beside the page.
const LEGEND: &str = "`index.html` beside this page has plots, numbers, causes and deciding runs, without \
     network or scripts; `results.jsonl` has every round and verdict. A sign stands for a \
     claim: ✓ held, ✗ not held, ? undecided, ▽ cannot be tested at this size, – cannot be \
     tested here, ○ not run yet. Two rounds at least, and four of five, must agree. A cause \
     is where the reason lies that a claim was not held or cannot be tested here; the size is \
     that of the run, or of a guest.\n";

/// One page: machine, command, counts, a row of signs for each figure, and what cannot be tested.
#[must_use]
pub fn markdown(report: &Report) -> String {
    let mut text = "# The figures, run again\n\n".to_owned();
    for warning in &report.warnings {
        let _ = writeln!(text, "**Warning:** {}\n", cell(warning));
    }
    for (name, value) in &report.environment {
        let _ = writeln!(text, "- {}: {}", cell(name), cell(value));
    }
    let _ = writeln!(text, "\n```\n{}\n```\n\n{}\n", report.command, report.count());
    text.push_str(LEGEND);
    for figures in report.figures.chunk_by(|one, next| paper(one) == paper(next)) {
        let title = if paper(&figures[0]) == "ours" { "Ours" } else { paper(&figures[0]) };
        let _ = writeln!(
            text,
            "\n## {title}\n\n| figure | shows | the paper's | ours | size | cause |"
        );
        text.push_str("|---|---|---|---|---|---|\n");
        figures.iter().for_each(|figure| row(&mut text, figure));
    }
    untested(&mut text, report);
    let mut images = Images::default();
    for figure in &report.figures {
        images.taken += figure.images.taken;
        images.verified += figure.images.verified;
        images.mismatched += figure.images.mismatched;
    }
    let _ = writeln!(text, "\n{}", images.sentence());
    text
}

/// The paper of a figure, without the number.
fn paper(figure: &FigureReport) -> &str {
    figure.source.split(", ").next().unwrap_or_default()
}

fn row(text: &mut String, figure: &FigureReport) {
    let signs = |whose| -> String {
        let all = figure.verdicts.iter().filter(|verdict| verdict.whose == whose);
        all.map(|verdict| verdict.outcome.sign()).collect()
    };
    let (name, title) = (&figure.name, cell(&figure.title));
    let [theirs, ours] = [Whose::Papers, Whose::Ours].map(signs);
    let sizes = cell(&each_once(figure.verdicts.iter().map(|verdict| &*verdict.size)));
    let causes = figure.verdicts.iter().filter_map(|verdict| verdict.kind());
    let causes = each_once(causes.filter(|kind| *kind != Origin::Size).map(Origin::word));
    let _ = writeln!(text, "| {name} | {title} | {theirs} | {ours} | {sizes} | {causes} |");
}

fn each_once<'a>(texts: impl Iterator<Item = &'a str>) -> String {
    let mut seen: Vec<&str> = Vec::new();
    for text in texts.filter(|text| !text.is_empty()) {
        if !seen.contains(&text) {
            seen.push(text);
        }
    }
    seen.join(", ")
}

/// Each reason why a claim cannot be tested here or was not run, with its figures.
fn untested(text: &mut String, report: &Report) {
    let mut reasons: Vec<(&str, Vec<&str>)> = Vec::new();
    for figure in &report.figures {
        for verdict in &figure.verdicts {
            let (Outcome::Untestable(why) | Outcome::NotRun(why)) = &verdict.outcome else {
                continue;
            };
            match reasons.iter_mut().find(|(known, _)| known == why) {
                Some((_, names)) if names.contains(&&*figure.name) => {}
                Some((_, names)) => names.push(&figure.name),
                None => reasons.push((why, vec![&figure.name])),
            }
        }
    }
    if !reasons.is_empty() {
        text.push_str("\n## What cannot be tested here or is not run yet\n\n");
    }
    for (why, names) in reasons {
        let _ = writeln!(text, "- {}: {}.", names.join(", "), cell(why));
    }
}

/// Text that stands for itself within a line or a cell of a table.
fn cell(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '\n' => plain.push(' '),
            '\\' | '|' | '<' | '>' | '*' | '_' | '[' | ']' | '`' => plain.extend(['\\', character]),
            character => plain.push(character),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::page;

    #[test]
    fn every_claim_is_a_sign_and_every_figure_a_row_with_its_causes() {
        let text = markdown(&page::tests::report());
        let row = "| li-10 | \"mean\" \\<latency\\> | ✓✗?–▽○ |  | 50 \\<MB\\> | the kernel |";
        assert!(text.lines().any(|line| line == row), "{text}");
        assert!(text.contains("- li-10: no \\<machine\\>."), "{text}");
        assert!(text.contains("- li-10: no \\<guest\\>."), "{text}");
        assert!(text.contains("debug & busy") && text.contains("1 images taken"), "{text}");
    }
}
