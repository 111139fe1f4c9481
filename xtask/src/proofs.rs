//! What is proven: each file of tests with its claim, the first sentence of its head comment, and
//! each mutant with the tests that reject it. `cargo xtask proofs` prints both as tables, which the
//! book shows on a page of its own.
//!
//! - Every mutant of a list (`mutants!`) has a judge: a test that names it, or one that goes
//!   through the whole list. `cargo xtask tidy` fails otherwise.
//! - A test belongs to a list if it lies in the list's file, in its crate, or in a crate without
//!   lists that names that crate. Of several lists in a crate a test means the one whose folder it
//!   names, else the one at the crate's root.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io;
use std::path::Path;

use crate::report::Report;
use crate::repository;

/// Where a page of the book has the tables.
const MARK: &str = "<!-- proofs -->";
/// Where a folder is a crate.
const MANIFEST: &str = "Cargo.toml";
/// What goes through a whole list.
const WHOLE_LIST: &str = "ALL";

/// A page with the tables in place of the comment `<!-- proofs -->`.
pub(crate) fn fill_table(root: &Path, page: &str) -> io::Result<String> {
    if !page.contains(MARK) {
        return Ok(page.to_owned());
    }
    Ok(page.replace(MARK, &Proofs::read(root)?.tables()))
}

/// The proofs of a repository, file by file.
#[derive(Default)]
pub(crate) struct Proofs {
    /// Folder and name of each crate.
    crates: Vec<(String, String)>,
    files: Vec<File>,
}

/// What a file of Rust has to do with proofs.
struct File {
    path: String,
    claim: String,
    tests: Vec<Test>,
    mutants: Vec<Mutant>,
    text: String,
}

/// A test function.
struct Test {
    name: String,
    body: String,
}

/// A deliberate mistake, and what it does.
struct Mutant {
    name: String,
    mistake: String,
}

impl Proofs {
    /// The proofs of all files under `root`.
    ///
    /// # Errors
    /// A folder or file that cannot be read.
    pub(crate) fn read(root: &Path) -> io::Result<Self> {
        let mut proofs = Self::default();
        for (name, text) in repository::texts(root)? {
            proofs.add(&name, &text);
        }
        Ok(proofs)
    }

    /// Adds the file `path`.
    pub(crate) fn add(&mut self, path: &str, text: &str) {
        if let Some(folder) = path.strip_suffix(MANIFEST) {
            let name = text.lines().find_map(|line| line.strip_prefix("name = "));
            let name = name.unwrap_or_default().trim_matches('"').replace('-', "_");
            self.crates.push((folder.to_owned(), name));
        }
        if !path.ends_with(".rs") || path.starts_with("xtask/") {
            return;
        }
        let (tests, mutants) = (tests(text), mutants(text));
        if !tests.is_empty() || !mutants.is_empty() {
            let (path, text) = (path.to_owned(), text.to_owned());
            self.files.push(File { path, claim: claim(&text), tests, mutants, text });
        }
    }

    /// Reports each mutant that no test judges.
    pub(crate) fn check(&self, report: &mut Report) {
        for list in &self.files {
            for mutant in &list.mutants {
                if self.judges(list, mutant).is_empty() {
                    let fault = format!("{}: no test judges {}", list.path, mutant.name);
                    report.faults.push(fault);
                }
            }
        }
    }

    /// The tables, in Markdown.
    pub(crate) fn tables(&self) -> String {
        let mut by_crate: BTreeMap<&str, Vec<&File>> = BTreeMap::new();
        for file in &self.files {
            by_crate.entry(self.crate_of(&file.path).0).or_default().push(file);
        }
        let mut page = String::new();
        for (folder, files) in by_crate {
            let _ = writeln!(page, "\n### {}\n", folder.trim_end_matches('/'));
            page += "| file | claim | tests |\n|---|---|---|\n";
            for file in files.iter().filter(|file| !file.tests.is_empty()) {
                let path = &file.path[folder.len()..];
                let names = quoted(file.tests.iter().map(|test| &*test.name));
                let _ = writeln!(page, "| `{path}` | {} | {names} |", cell(&file.claim));
            }
            for list in files.iter().filter(|file| !file.mutants.is_empty()) {
                let _ = writeln!(page, "\nMutants of `{}`:\n", &list.path[folder.len()..]);
                page += "| mutant | mistake | rejected by |\n|---|---|---|\n";
                for mutant in &list.mutants {
                    let judges = quoted(self.judges(list, mutant).into_iter());
                    let mistake = cell(&mutant.mistake);
                    let _ = writeln!(page, "| `{}` | {mistake} | {judges} |", mutant.name);
                }
            }
        }
        page
    }

    /// The names of tests that reject a mutant: those that name it, else those that go through its
    /// whole list.
    fn judges(&self, list: &File, mutant: &Mutant) -> Vec<&str> {
        let files = self.files.iter().filter(|file| self.means(file, list));
        let tests: Vec<&Test> = files.flat_map(|file| &file.tests).collect();
        let of = |name: &str| -> Vec<&str> {
            let naming = tests.iter().filter(|test| names(&test.body, name));
            naming.map(|test| &*test.name).collect()
        };
        let named = of(&mutant.name);
        if named.is_empty() { of(WHOLE_LIST) } else { named }
    }

    /// Whether tests in `file` mean the mutants of `list`.
    fn means(&self, file: &File, list: &File) -> bool {
        if !file.mutants.is_empty() {
            return file.path == list.path;
        }
        let (folder, name) = self.crate_of(&list.path);
        let mut lists = self.files.iter().filter(|it| !it.mutants.is_empty());
        if !file.path.starts_with(folder) {
            let own = self.crate_of(&file.path).0;
            let has_own = lists.any(|it| it.path.starts_with(own));
            let at_root = room(list).is_none();
            return !has_own && at_root && file.text.contains(&format!("{name}::"));
        }
        let named = |list: &File| {
            room(list).is_some_and(|name| {
                file.path.contains(&format!("/{name}/")) || file.text.contains(&format!("{name}::"))
            })
        };
        let other_is_named = lists.any(|it| it.path.starts_with(folder) && named(it));
        named(list) || (room(list).is_none() && !other_is_named)
    }

    /// Folder and name of the innermost crate of `path` that is no model of another one.
    fn crate_of(&self, path: &str) -> (&str, &str) {
        let holds = |(folder, _): &&(String, String)| path.starts_with(folder);
        let outer = self.crates.iter().filter(holds).filter(|(folder, _)| !folder.is_empty());
        let found = outer.min_by_key(|(folder, _)| folder.len());
        found.map_or(("", ""), |(folder, name)| (folder, name))
    }
}

/// The name of a list's folder, unless that is the root of the crate.
fn room(list: &File) -> Option<&str> {
    list.path.rsplit('/').nth(1).filter(|name| *name != "src")
}

/// Whether a body of code names a mutant.
fn names(body: &str, mutant: &str) -> bool {
    let rest = body.split("Mutant::").skip(1);
    rest.map(|it| it.split(|c: char| !c.is_alphanumeric()).next()).any(|it| it == Some(mutant))
}

/// The first sentence of a file's head comment.
fn claim(text: &str) -> String {
    let head = text.lines().map_while(|line| line.strip_prefix("//!"));
    let head: Vec<_> = head.map(str::trim).take_while(|line| !line.is_empty()).collect();
    first_sentence(&head.join(" "))
}

fn first_sentence(text: &str) -> String {
    text.split_once(". ").map_or(text, |(first, _)| first).trim_end_matches([':', '.']).to_owned()
}

/// Every test function of a file, by rustfmt's layout.
fn tests(text: &str) -> Vec<Test> {
    let lines: Vec<&str> = text.lines().collect();
    let marks = |line: &str| {
        let line = line.trim_start();
        line == "#[test]" || line.starts_with("#[tokio::test") || line.starts_with("#[test_case")
    };
    let starts = lines.iter().enumerate().filter(|(_, line)| marks(line));
    let found = starts.filter_map(|(at, mark)| {
        let indent = &mark[..mark.len() - mark.trim_start().len()];
        let body = lines[at..].iter().skip_while(|line| !line.contains("fn "));
        let name = body.clone().next()?.split_once("fn ")?.1.split(['(', '<']).next()?;
        let closing = format!("{indent}}}");
        let body: Vec<&str> = body.copied().take_while(|line| *line != closing).collect();
        Some(Test { name: name.to_owned(), body: body.join("\n") })
    });
    found.filter(|test| !test.name.contains('$')).collect()
}

/// The mutants that a file lists, each with its comment.
fn mutants(text: &str) -> Vec<Mutant> {
    let start =
        |line: &&str| line.starts_with("mutants! {") || line.starts_with("stillframe::mutants! {");
    let list = text.lines().skip_while(|line| !start(line)).take_while(|line| *line != "}");
    let (mut found, mut comment) = (Vec::new(), Vec::new());
    for line in list.skip(1).map(str::trim) {
        if let Some(part) = line.strip_prefix("///") {
            comment.push(part.trim());
        } else if let Some(name) = line.strip_suffix(',') {
            let mistake = comment.join(" ");
            comment.clear();
            found.push(Mutant { name: name.to_owned(), mistake });
        }
    }
    found
}

fn quoted<'a>(names: impl Iterator<Item = &'a str>) -> String {
    names.map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

/// A text that does not end its cell.
fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &str = "//! Mistakes.\n\nstillframe::mutants! {\n    pub when test;\n\n    \
                        /// It is late.\n    Late,\n    /// It is\n    /// early.\n    Early,\n}\n";

    fn proofs(tests: &[(&str, &str)]) -> Proofs {
        let mut proofs = Proofs::default();
        proofs.add("library/a/Cargo.toml", "[package]\nname = \"crate-a\"\n");
        proofs.add("tools/b/Cargo.toml", "[package]\nname = \"crate-b\"\n");
        proofs.add("library/a/src/mutant.rs", LIST);
        for (path, text) in tests {
            proofs.add(path, text);
        }
        proofs
    }

    fn test(name: &str, body: &str) -> String {
        format!("//! A claim. More.\n#[test]\nfn {name}() {{\n    {body}\n}}\n")
    }

    fn faults(tests: &[(&str, &str)]) -> usize {
        let mut report = Report::default();
        proofs(tests).check(&mut report);
        report.faults.len()
    }

    #[test]
    fn a_mutant_without_a_judge_is_refused() {
        let late = test("late", "with_mutant(Mutant::Late, run)");
        let later = test("late", "with_mutant(Mutant::Later, run)");
        let all = test("all", "for it in Mutant::ALL {}");
        let inside = "library/a/tests/x.rs";
        assert_eq!(faults(&[]), 2);
        assert_eq!(faults(&[(inside, &late)]), 1);
        assert_eq!(faults(&[(inside, &later)]), 2);
        assert_eq!(faults(&[(inside, &all)]), 0);
        assert_eq!(faults(&[("tools/b/tests/x.rs", &all)]), 2);
        let naming = format!("{all}use crate_a::Mutant;\n");
        assert_eq!(faults(&[("tools/b/tests/x.rs", &naming)]), 0);
    }

    #[test]
    fn of_several_lists_a_test_means_the_one_that_it_names() {
        let all = test("all", "for it in Mutant::ALL {}");
        let inner = ("library/a/src/room/mutants.rs", LIST);
        assert_eq!(faults(&[inner, ("library/a/src/t.rs", &all)]), 2);
        let naming = format!("{all}use crate::room::Mutant;\n");
        assert_eq!(faults(&[inner, ("library/a/src/t.rs", &naming)]), 2);
        let both = [inner, ("library/a/src/t.rs", &*all), ("library/a/src/u.rs", &naming)];
        assert_eq!(faults(&both), 0);
    }

    #[test]
    fn tables_have_claims_tests_and_judges() {
        let late = test("is_late", "with_mutant(Mutant::Late, run)");
        let all = test("all", "for it in Mutant::ALL {}");
        let page =
            proofs(&[("library/a/tests/x.rs", &late), ("library/a/tests/y.rs", &all)]).tables();
        for row in [
            "### library/a",
            "| `tests/x.rs` | A claim | `is_late` |",
            "| `Late` | It is late. | `is_late` |",
            "| `Early` | It is early. | `all` |",
        ] {
            assert!(page.lines().any(|line| line == row), "{row} is not in {page}");
        }
    }
}
