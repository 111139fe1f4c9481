//! The manifest of an append-only directory: its files, and their order.
//!
//! ```text
//! file appendonly.aof.2.base.rdb seq 2 type b     the base: one at most
//! file appendonly.aof.1.incr.aof seq 1 type h     history: to be deleted, not read
//! file appendonly.aof.4.incr.aof seq 4 type i     commands since the base, in rising order
//! ```
//!
//! Words may be quoted as in a request; lines that start with `#` are comments; unknown pairs are
//! skipped. A blank line, and a last line without its end, are damage, as in Redis.

use std::io::{self, Read};

use stillframe_durability::Error;
use stillframe_durability::disk::Directory;
use stillframe_resp::{Limits, Parser};

use super::heads::{head, is_log_or_rdb};

/// Longest manifest to read: a hundred times the size for many files.
const BYTES_MAX: u64 = 1 << 20;

/// The names of the files to load.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Manifest {
    pub(super) base: Option<String>,
    /// In their order.
    pub(super) incremental: Vec<String>,
}

/// Why the files to load are not known.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ManifestError {
    /// The directory, or the manifest, cannot be opened.
    #[error(transparent)]
    File(#[from] Error),
    /// The manifest cannot be read.
    #[error(transparent)]
    Read(#[from] io::Error),
    /// The directory is no append-only directory.
    #[error(
        "it has no manifest, no append-only file and no RDB file: name an append-only directory of \
         Redis 7, an append-only file or an RDB file"
    )]
    None,
    /// It has several files, which may be different states.
    #[error("it has no manifest, and several files of Redis: name one of {names}")]
    Files { names: String },
    /// The directory is that of several.
    #[error("it has {count} manifests: {names}")]
    Many { count: usize, names: String },
    /// The manifest is too long.
    #[error("it has more than {BYTES_MAX} bytes")]
    TooLong,
    /// The manifest does not end with a line's end.
    #[error("its last line has no end: it is empty, or was cut")]
    Cut,
    /// A line is malformed.
    #[error("line {number}: {error}")]
    Line { number: usize, error: LineError },
}

/// What is wrong with a line.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LineError {
    #[error("it is blank, which Redis never writes")]
    Blank,
    #[error("this is not a list of words in pairs, file, seq and type")]
    Pairs,
    #[error("'{0}' is missing")]
    Missing(&'static str),
    #[error("the name is no text")]
    NoText,
    #[error("'{}' is a path, not the name of a file", .0.escape_debug())]
    Path(String),
    #[error("the sequence is no number above 0")]
    Sequence,
    #[error("a type is one letter")]
    Letters,
    #[error("there is no type '{}'", [*.0].escape_ascii())]
    Kind(u8),
    #[error("there are two base files")]
    TwoBases,
    #[error("the sequence of incremental files does not rise")]
    Falls,
}

/// What a directory has to import.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Found {
    /// The manifest of this name.
    Manifest(String),
    /// One file, and no manifest.
    Alone(String),
}

/// The one manifest of a directory, or else its one append-only file or RDB file.
pub(super) fn find(directory: &Directory) -> Result<Found, ManifestError> {
    let mut names = directory.names()?;
    names.retain(|name| !name.starts_with("temp"));
    names.sort_unstable();
    let is_manifest = |name: &String| name.ends_with(".manifest");
    let (found, mut others): (Vec<_>, Vec<_>) = names.into_iter().partition(is_manifest);
    match &found[..] {
        [name] => return Ok(Found::Manifest(name.clone())),
        [] => {}
        many => {
            return Err(ManifestError::Many { count: many.len(), names: many.join(", ") });
        }
    }
    others.retain(|name| is_log_or_rdb(&head(directory, name)));
    match &others[..] {
        [name] => Ok(Found::Alone(name.clone())),
        [] => Err(ManifestError::None),
        many => Err(ManifestError::Files { names: many.join(", ") }),
    }
}

impl Manifest {
    pub(super) fn read(directory: &Directory, name: &str) -> Result<Self, ManifestError> {
        let mut text = Vec::new();
        let (file, _) = directory.open_file(name)?;
        file.take(BYTES_MAX + 1).read_to_end(&mut text)?;
        if text.len() as u64 > BYTES_MAX {
            return Err(ManifestError::TooLong);
        }
        Self::parse(&text)
    }

    fn parse(text: &[u8]) -> Result<Self, ManifestError> {
        let mut manifest = Self::default();
        let mut highest = None;
        let Some(lines) = text.strip_suffix(b"\n") else {
            return Err(ManifestError::Cut);
        };
        for (number, line) in (1..).zip(lines.split(|&byte| byte == b'\n')) {
            if line.starts_with(b"#") {
                continue;
            }
            let line = line.trim_ascii();
            let wrong = |error| ManifestError::Line { number, error };
            if line.is_empty() {
                return Err(wrong(LineError::Blank));
            }
            let entry = Entry::parse(line).map_err(wrong)?;
            match entry.kind {
                b'h' => {}
                b'b' if manifest.base.is_none() => manifest.base = Some(entry.name),
                b'b' => return Err(wrong(LineError::TwoBases)),
                b'i' if highest.is_none_or(|highest| highest < entry.sequence) => {
                    highest = Some(entry.sequence);
                    manifest.incremental.push(entry.name);
                }
                b'i' => return Err(wrong(LineError::Falls)),
                other => return Err(wrong(LineError::Kind(other))),
            }
        }
        Ok(manifest)
    }
}

struct Entry {
    name: String,
    sequence: u64,
    kind: u8,
}

impl Entry {
    fn parse(line: &[u8]) -> Result<Self, LineError> {
        // The parser takes a line that starts with '*' for something else.
        let mut line = [line, b"\n"].concat();
        let mut parser = Parser::new(Limits::OPEN);
        let whole = matches!(parser.parse(&mut line), Ok(Some(used)) if used == line.len());
        let words: Vec<&[u8]> =
            parser.args().iter().map(|range| &line[range.clone()]).filter(|_| whole).collect();
        if words.len() < 6 || !words.len().is_multiple_of(2) {
            return Err(LineError::Pairs);
        }
        let value = |key: &'static str| {
            let pair =
                words.chunks_exact(2).find(|pair| pair[0].eq_ignore_ascii_case(key.as_bytes()));
            pair.map(|pair| pair[1]).ok_or(LineError::Missing(key))
        };
        let name = std::str::from_utf8(value("file")?).map_err(|_| LineError::NoText)?;
        if name.is_empty() || name.contains(['/', '\0']) || name == "." || name == ".." {
            return Err(LineError::Path(name.to_owned()));
        }
        let sequence = std::str::from_utf8(value("seq")?).ok().and_then(|seq| seq.parse().ok());
        let sequence = sequence.filter(|&it| it > 0).ok_or(LineError::Sequence)?;
        let kind = match value("type")? {
            [kind] => *kind,
            _ => return Err(LineError::Letters),
        };
        Ok(Self { name: name.to_owned(), sequence, kind })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_redis_writes_is_read() {
        let text = b"file a.2.base.rdb seq 2 type b\n# a comment\nfile a.1.incr.aof seq 1 type h\n\
            file \"a b.3\\x41.aof\" seq 3 type i extra pair\r\nfile a.4.incr.aof seq 4 type i\n";
        let manifest = Manifest::parse(text).expect("it is one");
        assert_eq!(manifest.base.as_deref(), Some("a.2.base.rdb"));
        assert_eq!(manifest.incremental, ["a b.3A.aof", "a.4.incr.aof"]);
    }

    #[test]
    fn what_it_does_not_write_is_refused_with_its_line() {
        let long = [b"file ".repeat(3), vec![b'x'; 70_000]].concat();
        for (text, problem) in [
            (&b"file a seq 1"[..], "line 1: this is not a list"),
            (b"#\nfile ../a seq 1 type i", "line 2: '../a' is a path"),
            (b"\nfile a seq 1 type i", "line 1: it is blank"),
            (b"file a seq 1 type i\n \r\nfile b seq 2 type i", "line 2: it is blank"),
            (b"file a seq 1 type i\n", "line 2: it is blank"),
            (b"file a seq 0 type i", "no number above 0"),
            (b"file \"..\" seq 1 type i", "is a path"),
            (b"file a\\x00 seq x type i", "no number"),
            (b"file \"a\\x00\" seq 1 type i", "is a path"),
            (b"file a seq -1 type i", "the sequence is no number"),
            (b"file a seq 1 type q", "there is no type 'q'"),
            (b"file a seq 1 type bb", "one letter"),
            (b"file a seq 1 type b\nfile b seq 2 type b", "line 2: there are two base files"),
            (b"file a seq 2 type i\nfile b seq 2 type i", "line 2: the sequence"),
            (b"seq 1 type i name a", "'file' is missing"),
            (b"file \"a seq 1 type i", "line 1: this is not a list"),
            (b"*3\r\n$1\r\na", "line 1"),
            (&long, "line 1"),
        ] {
            let refused = Manifest::parse(&[text, b"\n"].concat());
            let refused = refused.expect_err("it is none").to_string();
            assert!(refused.contains(problem), "{}: {refused}", text.escape_ascii());
        }
        for cut in [&b""[..], b"file a seq 1 type b\nfile b seq 2 type i"] {
            let refused = Manifest::parse(cut).expect_err("it is cut").to_string();
            assert!(refused.contains("no end"), "{refused}");
        }
    }
}
