//! The verdicts as Markdown, which a forge shows beside the files of a run.

use std::fmt::Write as _;

use super::verdict::{Outcome, Whose};
use super::{FigureReport, Report};

/// Machine, command, claims with causes, and the names of all files.
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
    text.push_str(
        "[`index.html`](index.html) has all plots, numbers and parameters on one page, without \
         network or scripts; [`results.jsonl`](results.jsonl) has every round and verdict. A claim \
         is judged in each round by itself: two rounds at least, and four of five, must agree.\n\n",
    );
    report.figures.iter().for_each(|figure| section(&mut text, figure));
    text
}

fn section(text: &mut String, figure: &FigureReport) {
    let FigureReport { name, title, source, .. } = figure;
    let _ = writeln!(text, "## {name}: {}\n\n{source}. [Picture]({name}.svg)\n", cell(title));
    let _ = writeln!(text, "| claim | whose | here | measured |\n|---|---|---|---|");
    for verdict in &figure.verdicts {
        let whose = match verdict.whose {
            Whose::Papers => "the paper's",
            Whose::Ours => "ours",
        };
        let why = if let Outcome::Untestable(why) = &verdict.outcome { why } else { "" };
        let cause = verdict.cause.as_ref().map_or(String::new(), |cause| cause.text());
        let parts = [why, &*verdict.measured, &*cause];
        let parts: Vec<String> =
            parts.into_iter().filter(|part| !part.is_empty()).map(cell).collect();
        let (claim, outcome) = (cell(&verdict.claim), &verdict.outcome);
        let (sign, word) = (outcome.sign(), outcome.word());
        let _ = writeln!(text, "| {claim} | {whose} | {sign} {word} | {} |", parts.join("; "));
    }
    for note in &figure.notes {
        let _ = writeln!(text, "\n- {}", cell(note));
    }
    let _ = writeln!(text, "\n{}\n", figure.images.sentence());
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
    fn every_claim_is_a_row_with_its_cause() {
        let text = markdown(&page::tests::report());
        let rows: Vec<&str> = text.lines().filter(|line| line.starts_with("| a \\< b")).collect();
        assert_eq!(rows.len(), 4, "{text}");
        assert!(rows[1].contains("not held") && rows[1].contains("the kernel"), "{text}");
        assert!(rows.iter().all(|row| row.matches('|').count() == 5), "{text}");
        assert!(text.contains("(li-10.svg)") && text.contains("debug & busy"), "{text}");
    }
}
