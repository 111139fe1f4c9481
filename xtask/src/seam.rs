//! One seam to the disk: the crates that keep data reach files through
//! `stillframe_durability::disk` alone, so that tests can fail every call and lose power anywhere
//! (docs/reference/formats.md).
//!
//! The rule looks for names of the standard library and of rustix in code outside of tests.

use crate::report::Report;

/// Where the rule holds.
const CRATES: [&str; 7] = [
    "tools/cli/src/",
    "library/durability/src/",
    "raft/log/src/",
    "raft/log/examples/keyspace/src/",
    "redis/commands/src/",
    "redis/server/src/",
    "redis/storage/src/",
];

/// Files, and folders, that may ask the operating system themselves, and why.
const BESIDE: [(&str, &str); 13] = [
    ("library/durability/src/disk/real/mod.rs", "the file system of the machine itself"),
    ("library/durability/src/disk/real/", "the same, by system"),
    ("redis/server/src/node/config/file.rs", "reads settings, perhaps from a pipe"),
    ("redis/server/src/node/acl/mod.rs", "reads users, perhaps from a pipe"),
    ("redis/server/src/commands/acl.rs", "reads users, perhaps from a pipe"),
    ("redis/server/src/connections/net/listen.rs", "unix sockets have names"),
    ("redis/server/src/node/machine.rs", "reads /proc"),
    ("tools/cli/src/generate.rs", "writes man pages"),
    ("tools/cli/src/lab/", "writes reports of measurements"),
    ("tools/cli/src/load.rs", "writes reports of measurements"),
    ("tools/cli/src/logs/mod.rs", "lines for people, opened anew for each"),
    ("redis/server/src/crash/", "tests"),
    ("library/durability/src/crash/", "tests"),
];

/// Names that reach files of the operating system.
const WORDS: [&str; 14] = [
    "std::fs",
    "rustix::fs",
    "unix::fs",
    "fs::",
    "File::create",
    "File::open",
    "File::options",
    "OpenOptions",
    ".exists()",
    ".try_exists()",
    ".is_dir()",
    ".is_file()",
    ".canonicalize()",
    ".read_dir()",
];

/// Finds code that bypasses the seam.
pub(crate) fn check_file(name: &str, text: &str, report: &mut Report) {
    if allowed(name).is_some() {
        return;
    }
    for number in reaches(name, text) {
        report.faults.push(format!(
            "{name}:{number}: files are reached through stillframe_durability::disk; what is no \
             data is listed in xtask/src/seam.rs"
        ));
    }
}

/// The index of the entry that allows this file.
fn allowed(name: &str) -> Option<usize> {
    BESIDE.iter().position(|(path, _)| match path.ends_with('/') {
        true => name.starts_with(path),
        false => name == *path,
    })
}

/// The numbers of the lines that bypass the seam.
fn reaches(name: &str, text: &str) -> Vec<usize> {
    let is_test = name.ends_with("tests.rs") || name.contains("/tests/");
    if is_test || !CRATES.iter().any(|path| name.starts_with(path)) {
        return Vec::new();
    }
    // Tests are at the end of a file.
    let code = text.lines().zip(1..).take_while(|(line, _)| !line.starts_with("mod tests {"));
    let reaching = code.filter(|(line, _)| {
        let code = line.split("//").next().unwrap_or_default();
        WORDS.iter().any(|word| has(code, word))
    });
    reaching.map(|(_, number)| number).collect()
}

/// Whether a line has the word, not as the end of another one.
fn has(code: &str, word: &str) -> bool {
    code.match_indices(word).any(|(at, _)| {
        let before = code[..at].chars().next_back();
        word.starts_with('.') || !before.is_some_and(|it| it.is_alphanumeric() || it == '_')
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: &str = "redis/server/src/a.rs";

    fn faults(name: &str, text: &str) -> usize {
        let mut report = Report::default();
        check_file(name, text, &mut report);
        report.faults.len()
    }

    #[test]
    fn code_that_reaches_files_by_itself_is_refused() {
        for line in [
            "use std::fs::File;",
            "    let text = std::fs::read(path)?;",
            "    fs::rename(a, b)?; // quickly",
            "    let file = File::open(path)?;",
            "use rustix::fs::fsync;",
            "    if path.exists() {",
        ] {
            assert_eq!(faults(HERE, line), 1, "{line}");
        }
        for line in
            ["    let file = DumpFile::new(file);", "// std::fs", "mod tests {\nuse std::fs;"]
        {
            assert_eq!(faults(HERE, line), 0, "{line}");
        }
        assert_eq!(faults("redis/server/src/start/import/tests.rs", "use std::fs;"), 0);
        assert_eq!(faults("research/lab/src/a.rs", "use std::fs;"), 0);
    }

    #[test]
    fn what_is_allowed_is_needed() {
        let root = crate::repository::workspace();
        let mut needed = [false; BESIDE.len()];
        for (name, text) in crate::repository::texts(root).expect("the repository can be read") {
            if let Some(index) = allowed(&name)
                && (!reaches(&name, &text).is_empty() || BESIDE[index].1 == "tests")
            {
                needed[index] = true;
            }
        }
        for ((path, _), needed) in BESIDE.iter().zip(needed) {
            assert!(needed, "{path} need not be allowed anything");
        }
    }
}
