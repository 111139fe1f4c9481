//! What a message names exists: a person who reads of a setting or a flag finds it.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Crates whose messages a person who runs a server reads.
const CRATES: [&str; 13] = [
    "library/durability",
    "raft/group",
    "raft/log",
    "raft/net",
    "redis/archive",
    "redis/commands",
    "redis/keyspace",
    "redis/rdb",
    "redis/script",
    "redis/server",
    "redis/storage",
    "redis/tls",
    "tools/cli",
];
/// Words that look like a setting's, and are others: what they are.
const OTHERS: [(&str, &str); 9] = [
    ("auto-generated", "what Redis calls ids that XADD makes"),
    ("client-id", "an argument of CLIENT KILL"),
    ("min-idle-time", "an argument of XCLAIM"),
    ("no-cluster", "a flag of scripts"),
    ("no-store", "a header of HTTP"),
    ("raft-port", "a part of a line of CLUSTER NODES"),
    ("rdb-filter-only", "an option of REPLCONF"),
    ("script-src", "a header of HTTP"),
    ("raft-member", "a file"),
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The settings, all of which the sample has, and their older names.
fn settings() -> BTreeSet<String> {
    let sample = fs::read_to_string(root().join("stillframe.conf")).expect("the sample");
    let names = sample.lines().map(|line| line.trim_start_matches(['#', ' ']));
    let mut names: BTreeSet<String> =
        names.filter_map(|line| line.split(' ').next()).map(str::to_owned).collect();
    names.retain(|name| {
        name.chars().all(|it| it.is_ascii_lowercase() || it == '-' || it.is_ascii_digit())
    });
    assert!(names.len() > 200, "{names:?}");
    names
}

fn sources(folder: &Path, into: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder of sources") {
        let path = entry.expect("its entry").path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default().to_owned();
        if path.is_dir() && name != "tests" && name != "in_process" {
            sources(&path, into);
        } else if name.ends_with(".rs") && !name.contains("tests") {
            into.push(path);
        }
    }
}

/// The texts in a source without its tests and comments.
fn texts(source: &str) -> Vec<String> {
    let source = source.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
    let is_code = |line: &&str| !line.trim_start().starts_with("//");
    let code: String = source.lines().filter(is_code).map(|line| format!("{line}\n")).collect();
    let (mut texts, mut open): (Vec<String>, Option<String>) = (Vec::new(), None);
    let mut letters = code.chars().peekable();
    while let Some(letter) = letters.next() {
        match (&mut open, letter) {
            (None, '"') => open = Some(String::new()),
            (None, '\'') if letters.peek() == Some(&'"') => drop(letters.next()),
            (Some(_), '"') => texts.extend(open.take()),
            (Some(text), '\\') => match letters.next() {
                // The text goes on with the next line's first word.
                Some('\n') => while letters.next_if(|next| next.is_whitespace()).is_some() {},
                Some('n') | None => text.push(' '),
                Some(other) => text.push(other),
            },
            (Some(text), letter) => text.push(letter),
            (None, _) => {}
        }
    }
    texts
}

#[test]
fn every_setting_that_a_message_names_exists() {
    let settings = settings();
    let mut families: BTreeSet<&str> =
        settings.iter().filter_map(|name| Some(name.split_once('-')?.0)).collect();
    // Of words that many other things begin with.
    families.retain(|word| !["set", "list", "hash", "key", "no", "redis"].contains(word));
    let (mut named, mut files) = (0, Vec::new());
    CRATES.iter().for_each(|it| {
        sources(&root().join(it).join("src"), &mut files);
    });
    let mut unknown = Vec::new();
    for path in &files {
        let source = fs::read_to_string(path).expect("a source");
        // A message is a sentence; a lone word is a name that the code uses.
        for text in texts(&source).iter().filter(|text| text.contains(' ')) {
            let is_end = |it: char| !it.is_ascii_alphanumeric() && !"-_/.|{}".contains(it);
            for word in text.split(is_end).map(|word| word.trim_end_matches('.')) {
                let (is_flag, word) = match word.strip_prefix("--") {
                    Some(word) => (true, word),
                    None => (false, word),
                };
                let is_name =
                    |it: char| it.is_ascii_lowercase() || it.is_ascii_digit() || it == '-';
                let Some((family, _)) = word.split_once('-') else { continue };
                // `-key-file`: the end of a name whose beginning stands before it.
                if family.is_empty() && word.len() > 3 && word.contains("-file") {
                    let is_there = settings.iter().any(|name| name.ends_with(word));
                    if !is_there {
                        unknown.push(format!("{}: {word}: {text}", path.display()));
                    }
                    continue;
                }
                if is_flag || !families.contains(family) || !word.chars().all(is_name) {
                    continue;
                }
                named += 1;
                let is_other = OTHERS.iter().any(|(other, _)| *other == word);
                if !settings.contains(word) && !is_other {
                    unknown.push(format!("{}: {word}: {text}", path.display()));
                }
            }
        }
    }
    assert!(named > 60, "{named} settings are named in {} files", files.len());
    assert!(unknown.is_empty(), "no such settings:\n{}", unknown.join("\n"));
}
