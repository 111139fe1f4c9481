//! Links of pages: each relative link, and each quoted path of this repository, names a file or
//! folder that exists; a link with a heading names a heading of that page.

use std::path::{Component, Path, PathBuf};

use crate::report::Report;

/// A page: its name under the root, and its text.
pub(crate) type Page = (String, String);

/// The first folders of quoted paths from the root.
const FOLDERS: [&str; 10] = [
    "library/",
    "redis/",
    "raft/",
    "tools/",
    "research/",
    "testing/",
    "docs/",
    "packaging/",
    "scripts/",
    "xtask/",
];
/// The file that a reader of CONTRIBUTING writes.
const TO_BE_WRITTEN: &str = "library/stillframe/src/algorithms/rivals/example.rs";

/// Checks the links of all pages, which lie under `root`.
pub(crate) fn check(root: &Path, pages: &[Page], report: &mut Report) {
    for (name, text) in pages {
        let lost = quoted(text).filter(|path| path != TO_BE_WRITTEN && !root.join(path).exists());
        report
            .faults
            .extend(lost.map(|path| format!("{name}: it names {path}, which does not exist")));
        for target in targets(text).filter(|target| !target.contains(':')) {
            let (path, heading) = target.split_once('#').unwrap_or((target, ""));
            let path = if path.is_empty() { PathBuf::from(name) } else { beside(name, path) };
            let page = pages.iter().find(|(other, _)| Path::new(other) == path);
            let titled = page.is_some_and(|(_, text)| headings(text).any(|it| it == heading));
            if page.is_none() && !root.join(&path).exists() {
                report.faults.push(format!("{name}: a link to {target}, which does not exist"));
            } else if !heading.is_empty() && !titled {
                report.faults.push(format!("{name}: a link to {target}, which lacks that heading"));
            }
        }
    }
}

/// The targets of a page's links and pictures.
pub(crate) fn targets(text: &str) -> impl Iterator<Item = &str> {
    let after = |mark, end| {
        let found = prose(text).flat_map(move |line| line.split(mark).skip(1));
        found.filter_map(move |rest: &str| rest.split_once(end).map(|(target, _)| target))
    };
    after("](", ')').chain(after("src=\"", '"'))
}

/// Paths of this repository in backticks, without words around them.
fn quoted(text: &str) -> impl Iterator<Item = String> {
    let words = prose(text).flat_map(|line| line.split('`').skip(1).step_by(2));
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-".contains(c);
    let words = words.filter(move |word| word.chars().all(plain));
    words.filter_map(|word| {
        let whole = FOLDERS.iter().any(|folder| word.starts_with(folder));
        if whole { Some(word.to_owned()) } else { long_form(text, word) }
    })
}

/// The path that a page means by `S/x.rs`, if it says "`S` is `folder of a crate`".
fn long_form(text: &str, word: &str) -> Option<String> {
    let (letter, rest) = word.split_once('/').filter(|(letter, _)| letter.len() == 1)?;
    let meant = text.split_once(&format!("`{letter}` is `"))?.1.split_once('`')?.0;
    Some(format!("{meant}/{rest}"))
}

/// The lines that are not in a block of code.
fn prose(text: &str) -> impl Iterator<Item = &str> {
    let mut code = false;
    text.lines().filter(move |line| {
        let fence = line.trim_start().starts_with("```");
        code ^= fence;
        !code && !fence
    })
}

/// The headings of a page, in the form that links use.
fn headings(text: &str) -> impl Iterator<Item = String> {
    let titles = prose(text).filter_map(|line| line.strip_prefix('#'));
    titles.map(|title| {
        let kept = title.trim_start_matches('#').trim().chars();
        let kept = kept.filter(|it| it.is_alphanumeric() || " -_".contains(*it));
        kept.map(|it| if it == ' ' { '-' } else { it.to_ascii_lowercase() }).collect()
    })
}

/// The path of `target` in the page `name`.
pub(crate) fn beside(name: &str, target: &str) -> PathBuf {
    let mut path = Path::new(name).parent().map(Path::to_path_buf).unwrap_or_default();
    for part in Path::new(target).components() {
        match part {
            Component::ParentDir => drop(path.pop()),
            Component::CurDir => {}
            part => path.push(part),
        }
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(text: &str) -> Vec<String> {
        let page = |name: &str, text: &str| (name.to_owned(), text.to_owned());
        let pages = [page("docs/a.md", text), page("README.md", "# Two `words`, here\n")];
        let mut report = Report::default();
        check(crate::repository::workspace(), &pages, &mut report);
        report.faults
    }

    #[test]
    fn links_that_lead_nowhere_are_refused() {
        let bad = [
            "[x](no.md)",
            "[x](../README.md#two)",
            "<img src=\"no.svg\">",
            "# A\n[x](#b)",
            "`docs/no.md`",
            "`redis/server/src/no.rs`",
            "`S` is `redis/server/src`: `S/no.rs`",
        ];
        for text in bad {
            assert_eq!(faults(text).len(), 1, "{text}");
        }
    }

    #[test]
    fn links_that_lead_somewhere_pass() {
        let fine = [
            "[x](../README.md#two-words-here) and [y](../redis)",
            "[x](https://example.org/#no)",
            "# A b\n[x](#a-b)",
            "`library/stillframe`, `docs/*.md`, `scripts/bench.py save`, `data/no.md`",
            "```\n[x](no.md)\n```\n",
            "`S` is `redis/server/src`: `S/lib.rs`, `B/no.rs`, `redis/server/src/lib.rs`",
        ];
        for text in fine {
            assert_eq!(faults(text), Vec::<String>::new(), "{text}");
        }
    }
}
