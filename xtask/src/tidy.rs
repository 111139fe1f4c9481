//! The style rules that no other tool checks, as one pass over the repository's text files.
//!
//! A *fault* fails the check, a *note* does not. The rules look at lines, not at syntax: they
//! rely on rustfmt's layout (a function's closing brace stands alone under the start of its first
//! line), which the format check enforces.

use std::fs;
use std::io;
use std::path::Path;

use crate::proofs::Proofs;
use crate::report::Report;
use crate::{cycles, links, pages, repository, seam};

/// Characters in a line of code.
const WIDTH: usize = 100;
/// Lines of a function, from its signature to its closing brace.
const FUNCTION_LINES: usize = 70;
/// Where each file is one algorithm; the names are files there that are not.
const ALGORITHMS: &str = "library/stillframe/src/algorithms";
const NOT_ALGORITHMS: [&str; 3] = ["mod.rs", "claim.rs", "flags.rs"];
/// The folder of those that serve comparison.
const RIVALS: &str = "rivals/";

/// Reads every text file under `root` and applies every rule to it.
///
/// # Errors
/// A folder or file that cannot be read.
pub(crate) fn check(root: &Path) -> io::Result<Report> {
    let mut report = Report::default();
    let (mut pages, mut proofs) = (Vec::new(), Proofs::default());
    for (name, text) in repository::texts(root)? {
        check_file(&name, &text, &mut report);
        proofs.add(&name, &text);
        if name.ends_with(".md") {
            pages.push((name, text));
        }
    }
    links::check(root, &pages, &mut report);
    pages::check(&pages, &mut report);
    proofs.check(&mut report);
    check_toolchain(
        &fs::read_to_string(root.join("Cargo.toml"))?,
        &fs::read_to_string(root.join("rust-toolchain.toml"))?,
        &mut report,
    );
    cycles::check(root, &mut report)?;
    Ok(report)
}

/// Checks that the oldest Rust that the crates promise is the one that they are tested with.
fn check_toolchain(manifest: &str, toolchain: &str, report: &mut Report) {
    let value = |text: &str, key: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(key))?;
        Some(line.split('"').nth(1)?.to_owned())
    };
    let promised = value(manifest, "rust-version = ").unwrap_or_default();
    let tested = value(toolchain, "channel = ").unwrap_or_default();
    if promised.is_empty() || tested.strip_suffix(".0").unwrap_or(&tested) != promised {
        report.faults.push(format!(
            "Cargo.toml: rust-version is {promised}, and rust-toolchain.toml pins {tested}"
        ));
    }
}

fn check_file(name: &str, text: &str, report: &mut Report) {
    report.files += 1;
    let rust = name.ends_with(".rs");
    // Prose wraps where its writer likes, and a recorded transcript is data.
    let code = rust || name.ends_with(".sh") || name.ends_with(".py") || name.starts_with(".ci/");
    for (index, line) in text.lines().enumerate() {
        let place = format!("{name}:{}", index + 1);
        if code && line.chars().count() > WIDTH {
            // A table's line or a long literal may be worse to read broken than long.
            let literal = line.contains('"') && !line.trim_start().starts_with("//");
            let found = if literal { &mut report.notes } else { &mut report.faults };
            found.push(format!("{place}: a line of more than {WIDTH} characters"));
        }
        check_words(&place, line, report);
        if let Some([kind, name]) = defined(line).filter(|it| rust && VAGUE.contains(it)) {
            report.faults.push(format!("{place}: {kind} {name}: say what it does or is"));
        }
        if rust && packs_parameters(line) {
            report.faults.push(format!("{place}: a tuple of parameters: pass each, or name them"));
        }
    }
    if rust {
        check_lengths(name, text, report);
        check_head(name, text, report);
        seam::check_file(name, text, report);
    }
}

/// Phrases that hide who does what; in two parts, so that these lines do not match themselves.
const PHRASES: [&str; 7] = [
    concat!("So ma", "ny"),
    concat!("// Has t", "he "),
    concat!("who", "ever"),
    concat!("Who", "ever"),
    concat!("whom", "ever"),
    concat!("Of th", "ese"),
    concat!("Of th", "ose"),
];

/// Names that no search finds, and that say nothing in the field's terms.
const VAGUE: [[&str; 2]; 6] = [
    ["fn", "of"],
    ["fn", "tell"],
    ["fn", "hear"],
    ["struct", "Way"],
    ["enum", "Way"],
    ["struct", "Said"],
];

/// The first words of a definition, what it is and its name, behind who may see it.
fn defined(line: &str) -> Option<[&str; 2]> {
    let mut words = line.split_whitespace().skip_while(|word| {
        let is_scope = word.starts_with("pub") || word.starts_with("crate::"); // pub(in crate::a)
        is_scope || ["const", "unsafe", "extern", "\"C\"", "async"].contains(word)
    });
    let kind = words.next()?;
    let name = words.next()?.split(|c: char| !c.is_alphanumeric() && c != '_').next()?;
    Some([kind, name])
}

/// Rules about words that no line of any file may have.
fn check_words(place: &str, line: &str, report: &mut Report) {
    // In two parts, so that these lines do not match themselves.
    for mark in [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X")] {
        let found = line.split(|c: char| !c.is_alphanumeric()).any(|word| word == mark);
        if found {
            report.faults.push(format!("{place}: a stray {mark}: do it, or say it in an issue"));
        }
    }
    for phrase in PHRASES {
        if line.contains(phrase) {
            report.faults.push(format!("{place}: \"{phrase}\" must be decoded: name the subject"));
        }
    }
    if line.trim() == concat!("#[ign", "ore]") {
        report.faults.push(format!("{place}: an ignored test without its reason"));
    }
    for root in [concat!("/wo", "rk/"), concat!("/ho", "me/"), concat!("/Us", "ers/")] {
        if line.contains(root) {
            report.faults.push(format!("{place}: a path of one machine ({root})"));
        }
    }
}

fn check_lengths(name: &str, text: &str, report: &mut Report) {
    for (line, length) in functions(text) {
        if length > FUNCTION_LINES {
            report.faults.push(format!(
                "{name}:{line}: a function of {length} lines, at most {FUNCTION_LINES}"
            ));
        }
    }
}

/// The first line (from 1) and the number of lines of every function with a body.
fn functions(text: &str) -> Vec<(usize, usize)> {
    let lines: Vec<&str> = text.lines().collect();
    let mut found = Vec::new();
    for (start, line) in lines.iter().enumerate() {
        if !starts_function(line) {
            continue;
        }
        let indent = &line[..line.len() - line.trim_start().len()];
        let closing = format!("{indent}}}");
        let rest = &lines[start..];
        // The signature ends with its body's brace, or with a body on one line, or has no body.
        let signature = rest.iter().position(|line| line.ends_with(['{', '}', ';'])).unwrap_or(0);
        let length = match rest[signature].ends_with('{') {
            true => rest.iter().position(|line| *line == closing).unwrap_or(signature),
            false => signature,
        };
        found.push((start + 1, length + 1));
    }
    found
}

/// Whether a line of a signature has a parameter that is taken apart and has no type of its own.
/// What a trait asks for is its own matter.
fn packs_parameters(line: &str) -> bool {
    let text = line.trim_start();
    let is_head = starts_function(line);
    if text.starts_with("fn from(") || !(is_head || text.starts_with('(')) {
        return false;
    }
    ["): (", "): &(", "): &mut ("].iter().any(|end| {
        let Some((before, _)) = text.split_once(end) else { return false };
        let Some((outside, pattern)) = before.rsplit_once('(') else { return false };
        let is_parameter = if is_head { outside.ends_with(['(', ' ']) } else { outside.is_empty() };
        is_parameter && pattern.contains(',')
    })
}

fn starts_function(line: &str) -> bool {
    defined(line).is_some_and(|[kind, _]| kind == "fn")
}

fn check_head(name: &str, text: &str, report: &mut Report) {
    if !text.starts_with("//!") {
        report.faults.push(format!("{name}: no head comment: what is here, and why"));
    }
    let Some(file) = name.strip_prefix(ALGORITHMS).map(|rest| rest.trim_start_matches('/')) else {
        return;
    };
    let head: String = text.lines().take_while(|line| line.starts_with("//!")).collect();
    let file = file.strip_prefix(RIVALS).unwrap_or(file);
    let one = !file.contains('/') && !NOT_ALGORITHMS.contains(&file);
    if one && !cites(&head) {
        report.faults.push(format!("{name}: an algorithm that does not cite its source"));
    }
}

/// Whether a head comment names where its algorithm is from.
fn cites(head: &str) -> bool {
    let lower = head.to_lowercase();
    lower.contains("source") || lower.contains("section") || lower.contains("et al")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(name: &str, text: &str) -> Vec<String> {
        let mut report = Report::default();
        check_file(name, text, &mut report);
        report.faults
    }

    #[test]
    fn the_repository_is_tidy() {
        let report = check(repository::workspace()).expect("the repository can be read");
        assert!(report.files > 10, "the walk found next to nothing");
        assert!(report.faults.is_empty(), "{:#?}", report.faults);
    }

    #[test]
    fn each_rule_rejects_its_breach() {
        let long = format!("//! x\n// {}\n", "a".repeat(WIDTH));
        let body = "    a();\n".repeat(FUNCTION_LINES);
        let function = format!("//! x\npub const fn f() {{\n{body}}}\n");
        let breaches = [
            ("a.rs", long.as_str()),
            ("a.rs", function.as_str()),
            ("a.rs", "fn main() {}\n"),
            ("a.rs", concat!("//! x\n// TO", "DO: later\n")),
            ("a.rs", concat!("//! x\n#[ign", "ore]\n")),
            ("a.md", concat!("see /wo", "rk/notes\n")),
            ("a.rs", concat!("//! x\n/// So ma", "ny bytes.\n")),
            ("a.rs", "//! x\n    pub(super) const fn of(self) {}\n"),
            ("a.rs", "//! x\npub(crate) fn f((a, b): (u8, u8), c: u8) {}\n"),
            ("a.rs", "//! x\nfn f(\n    a: u8,\n    (b, c): &(u8, u8),\n) {\n}\n"),
            ("library/stillframe/src/algorithms/rivals/zigzag.rs", "//! Zigzag.\n"),
        ];
        for (name, text) in breaches {
            assert_eq!(faults(name, text).len(), 1, "{name}: {text}");
        }
    }

    #[test]
    fn a_promise_that_no_toolchain_tests_is_refused() {
        let faults = |promised: &str, tested: &str| {
            let mut report = Report::default();
            let manifest = format!("[workspace.package]\nrust-version = \"{promised}\"\n");
            check_toolchain(&manifest, &format!("channel = \"{tested}\"\n"), &mut report);
            report.faults.len()
        };
        let found = [("1.95", "1.95.0"), ("1.95", "1.95.1"), ("1.94", "1.95.0"), ("", "")]
            .map(|(promised, tested)| faults(promised, tested));
        assert_eq!(found, [0, 1, 1, 1]);
    }

    #[test]
    fn what_keeps_the_rules_passes() {
        let body = "        a();\n".repeat(FUNCTION_LINES - 2);
        let fine = [
            ("a.rs", format!("//! x\nimpl A {{\n    fn f() {{\n{body}    }}\n}}\n")),
            ("a.rs", "//! x\ntrait A {\n    fn f(\n        a: u8,\n    ) -> Self;\n}\n".to_owned()),
            ("a.rs", "//! x\n#[ignore = \"needs a disk of 1 TB\"]\n".to_owned()),
            ("a.rs", format!("//! x\n{}", "const A: u8 = 1;\n".repeat(2000))),
            ("a.rs", "//! x\nfn f((a, b): Pair, c: [(u8, u8); 2]) {}\n".to_owned()),
            ("a.rs", "//! x\nfn f() {\n    let g = |(a, b): (u8, u8)| a;\n}\n".to_owned()),
            ("a.md", "a".repeat(2 * WIDTH)),
            ("library/stillframe/src/algorithms/zigzag.rs", "//! Cao et al. 2011\n".to_owned()),
        ];
        for (name, text) in fine {
            assert!(faults(name, &text).is_empty(), "{name}: {:?}", faults(name, &text));
        }
    }
}
