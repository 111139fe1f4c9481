//! The page of proofs names tests, files and mutants that exist: no claim outlives its test.
//!
//! Looked at are the cells behind the first of each table's row, and each path of modules.

use std::collections::HashSet;

use crate::report::Report;

/// The page that is checked.
pub(crate) const PAGE: &str = "docs/proofs.md";
/// What starts tests: no name of one.
const STARTERS: [&str; 5] = ["cargo", "test", "xtask", "proof", "stillframe"];

/// What the page may name.
#[derive(Default)]
pub(crate) struct Names {
    /// Paths of files.
    files: Vec<String>,
    /// Functions, modules and types, and the parts of the files' paths.
    known: HashSet<String>,
}

impl Names {
    /// Adds the file `path` and what its text defines.
    pub(crate) fn add(&mut self, path: &str, text: &str) {
        self.files.push(path.to_owned());
        let stems = path.split(['/', '.']).filter(|stem| !stem.is_empty());
        self.known.extend(stems.map(str::to_owned));
        if path.starts_with(".ci/") {
            // The steps of `.ci/long`.
            self.known.extend(text.split_whitespace().map(str::to_owned));
        }
        if path.ends_with("Cargo.toml") {
            let names = text.lines().filter_map(|line| line.strip_prefix("name = \""));
            self.known.extend(names.map(|name| name.trim_end_matches('"').to_owned()));
        }
        if !path.ends_with(".rs") {
            return;
        }
        for line in text.lines().filter(|line| !line.trim_start().starts_with("//")) {
            let words = line.split(|c: char| !c.is_alphanumeric() && c != '_');
            let mut before = "";
            for word in words.filter(|word| !word.is_empty()) {
                if matches!(before, "fn" | "mod") || word.starts_with(char::is_uppercase) {
                    self.known.insert(word.to_owned());
                }
                before = word;
            }
        }
    }

    /// Reports what the `page` names and is not there.
    pub(crate) fn check(&self, page: &str, report: &mut Report) {
        for (index, line) in page.lines().enumerate() {
            let proof = line.strip_prefix("| ").and_then(|row| row.split_once(" | "));
            let ticked = |text| str::split(text, '`').skip(1).step_by(2);
            let paths = ticked(line).filter(|quoted| quoted.contains("::"));
            let lost = ticked(proof.map_or("", |(_, cells)| cells)).chain(paths);
            let lost: HashSet<_> = lost.flat_map(|quoted| self.lost(quoted)).collect();
            let place = format!("{PAGE}:{}", index + 1);
            let faults = lost.iter().map(|it| format!("{place}: it names {it}, which is nowhere"));
            report.faults.extend(faults);
        }
    }

    /// The parts of a quotation that name nothing.
    fn lost<'a>(&'a self, quoted: &'a str) -> impl Iterator<Item = &'a str> {
        let flag = |word: &str| word.starts_with('-') || word.contains('=');
        let words = quoted.split(' ').filter(move |word| !flag(word) && !STARTERS.contains(word));
        let parts = words.flat_map(|word| {
            let path = word.contains(['/', '.']);
            word.split(move |c| !path && ":{},".contains(c)).filter(|part| !part.is_empty())
        });
        parts.filter(|part| !self.is_there(part))
    }

    fn is_there(&self, name: &str) -> bool {
        let end = format!("/{name}");
        let folder = format!("/{}/", name.trim_end_matches('/'));
        let named = |file: &String| {
            file == name || file.ends_with(&end) || format!("/{file}").contains(&folder)
        };
        self.known.contains(name) || self.files.iter().any(named)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(page: &str) -> usize {
        let mut names = Names::default();
        names.add("library/a/tests/told.rs", "mod inner {\n    fn holds() {}\n}\nMutant::Late,");
        names.add(".ci/long", "suite() { one }");
        let mut report = Report::default();
        names.check(page, &mut report);
        report.faults.len()
    }

    #[test]
    fn names_of_nothing_are_refused() {
        let bad = [
            "| claim | `lost` |",
            "| claim | `told::{inner,lost}` | `Late` |",
            "| claim | `inner::holds` | `Early` |",
            "| claim | `tests/lost.rs` |",
            "| claim | `cargo test -p lost` |",
            "prose of `told::lost`",
        ];
        for page in bad {
            assert_eq!(faults(page), 1, "{page}");
        }
    }

    #[test]
    fn names_of_something_pass() {
        let fine = [
            "| `any` claim | `told::inner::holds`, `told::` | `Late` |",
            "| claim | `cargo test -p a --test told`, `proof inner::` | |",
            "| claim | `tests/told.rs`, `told.rs`, `.ci/long one`, `X=1` | |",
            "prose of `anything`",
        ];
        for page in fine {
            assert_eq!(faults(page), 0, "{page}");
        }
    }
}
