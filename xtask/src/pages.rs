//! The pages under `docs` for mdBook: which there are, and where links out of them lead.
//!
//! - `docs/SUMMARY.md` names every page, once.
//! - A page may ask for the table of commands, settings or proofs, which no page repeats.
//! - mdBook knows these pages alone, and calls README.md index. `cargo xtask pages`, which it runs
//!   for each build, makes links to other files of the repository links to where that is published.

use std::io::{self, Read, Write};
use std::path::Path;

use serde_json::Value;

use crate::commands::fill_tables;
use crate::links::{self, Page};
use crate::proofs;
use crate::report::Report;

const FOLDER: &str = "docs";
const SUMMARY: &str = "docs/SUMMARY.md";
/// The page that includes README.md, whose links start from the root.
const START: &str = "docs/start.md";

/// Checks that the summary names every page of the book once.
pub(crate) fn check(pages: &[Page], report: &mut Report) {
    let Some((_, summary)) = pages.iter().find(|(name, _)| name == SUMMARY) else { return };
    let targets: Vec<_> = links::targets(summary).map(|it| links::beside(SUMMARY, it)).collect();
    for (name, _) in pages.iter().filter(|(name, _)| Path::new(name).starts_with(FOLDER)) {
        let times = targets.iter().filter(|target| *target == Path::new(name)).count();
        let fault = match times {
            0 if name != SUMMARY => "does not name",
            2.. => "names more than once",
            _ => continue,
        };
        report.faults.push(format!("{SUMMARY}: it {fault} {name}"));
    }
}

/// Answers mdBook: the book on standard input, as JSON, with tables and other links on standard
/// output.
pub(crate) fn preprocess(root: &Path) -> io::Result<()> {
    let mut text = String::new();
    io::stdin().read_to_string(&mut text)?;
    let read: [Value; 2] = serde_json::from_str(&text)?;
    let [context, mut book] = read;
    let repository = &context["config"]["output"]["html"]["git-repository-url"];
    let repository = repository.as_str().unwrap_or_default();
    complete(&mut book, root, repository)?;
    writeln!(io::stdout(), "{book}")
}

/// Fills the tables and changes the links of all chapters in a part of the book.
fn complete(part: &mut Value, root: &Path, repository: &str) -> io::Result<()> {
    let path = part["path"].as_str().map(|path| format!("{FOLDER}/{path}"));
    if let (Some(path), Some(content)) = (path, part["content"].as_str()) {
        let content = proofs::fill_table(root, &fill_tables(root, content)?)?;
        part["content"] = outward(&path, &content, repository).into();
    }
    match part {
        Value::Array(parts) => parts.iter_mut().try_for_each(|it| complete(it, root, repository)),
        Value::Object(parts) => {
            parts.values_mut().try_for_each(|it| complete(it, root, repository))
        }
        _ => Ok(()),
    }
}

/// A page whose links to files outside of the book lead to the repository, and those to README.md
/// to what mdBook calls it.
fn outward(page: &str, text: &str, repository: &str) -> String {
    let mut text = text.to_owned();
    let origin = if page == START { "README.md" } else { page };
    let targets: Vec<_> = links::targets(&text).map(str::to_owned).collect();
    for target in targets.iter().filter(|it| !it.contains(':') && !it.starts_with('#')) {
        let (path, heading) = target.split_once('#').unwrap_or((target, ""));
        let path = links::beside(origin, path);
        if path.starts_with(FOLDER) {
            let inside = if page == START { target.trim_start_matches("docs/") } else { target };
            let index = inside.replace("README.md", "index.md");
            text = text.replace(&format!("]({target})"), &format!("]({index})"));
            text = text.replace(&format!("src=\"{target}\""), &format!("src=\"{index}\""));
        } else {
            let heading =
                &target[target.len() - heading.len() - usize::from(!heading.is_empty())..];
            let lead = format!("]({repository}/blob/main/{}{heading})", path.display());
            text = text.replace(&format!("]({target})"), &lead);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(name: &str, text: &str) -> Page {
        (name.to_owned(), text.to_owned())
    }

    #[test]
    fn a_page_that_the_summary_lacks_or_repeats_is_refused() {
        let pages = [
            page(SUMMARY, "- [a](a.md)\n- [b](b/c.md)\n- [b](b/c.md)\n"),
            page("docs/a.md", ""),
            page("docs/b/c.md", ""),
            page("docs/b/d.md", ""),
            page("README.md", ""),
        ];
        let mut report = Report::default();
        check(&pages, &mut report);
        let found: Vec<_> = report.faults.iter().map(|it| it.rsplit(' ').next()).collect();
        assert_eq!(found, [Some("docs/b/c.md"), Some("docs/b/d.md")], "{:?}", report.faults);
    }

    #[test]
    fn links_of_the_start_page_lead_from_the_root() {
        let text = "[a](docs/run/a.md#x) [b](ARCHITECTURE.md) <img src=\"docs/b.svg\">";
        let expected = "[a](run/a.md#x) [b](R/blob/main/ARCHITECTURE.md) <img src=\"b.svg\">";
        assert_eq!(outward(START, text, "R"), expected);
    }

    #[test]
    fn links_out_of_the_book_lead_to_the_repository() {
        let text = "[a](README.md#x) [b](../../README.md#two) [c](../a.md) [d](#e)\n```\n[a](../../z)\n```\n";
        let given = serde_json::json!({"sections": [{"Chapter": {
            "path": "algorithms/one.md", "content": text,
            "sub_items": [{"Chapter": {"path": "two.md", "content": "[x](../Cargo.toml)"}}],
        }}]});
        let mut book = given;
        complete(&mut book, Path::new(""), "https://r").expect("no table is asked for");
        let chapter = &book["sections"][0]["Chapter"];
        let expected =
            "[a](index.md#x) [b](https://r/blob/main/README.md#two) [c](../a.md) [d](#e)";
        assert!(
            chapter["content"].as_str().is_some_and(|it| it.starts_with(expected)),
            "{chapter}"
        );
        let inner = &chapter["sub_items"][0]["Chapter"]["content"];
        assert_eq!(inner, "[x](https://r/blob/main/Cargo.toml)");
    }
}
