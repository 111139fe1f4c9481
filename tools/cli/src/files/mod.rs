//! What `check` and `inspect` find in files: kind, health, facts.
//!
//! - The first bytes decide the kind, not the name. The name must agree with them, and shows that a
//!   file of no kind once was of one.
//! - Nothing is written, no lock is taken; files that a running store removes meanwhile are passed
//!   over.
//! - Memory is bounded whatever a file says; a path that is no file and no directory is refused.

mod chain;
mod examine;
mod facts;
mod logs;

use std::io::{self, ErrorKind};
use std::ops::Range;
use std::path::{Path, PathBuf};

use serde::{Serialize, Serializer};
use stillframe_durability::Error;
use stillframe_durability::disk::{self, Directory, Input, Location};
use stillframe_durability::inspect::{Name, Neighbours};

pub(crate) use examine::examine;
pub(crate) use facts::{ApplicationFacts, CheckpointFacts, Facts, LogFacts, RdbFacts};

/// What kind of file it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Kind {
    Checkpoint,
    Log,
    Rdb,
    /// None of these.
    Unknown,
}

/// The health of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Health {
    Sound,
    /// A log whose last bytes are no records, without proof that they ever were: left by a crash,
    /// or damage to bytes that were not synced, or not marked before power was lost.
    Torn,
    Damaged,
    /// The file has a later format, or parts that cannot be read.
    Unreadable,
    /// Not checked, because no program will ever read it.
    Skipped,
}

/// Damaged bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Flaw {
    #[serde(flatten, serialize_with = "start_and_end")]
    pub(crate) bytes: Range<u64>,
    pub(crate) problem: String,
}

fn start_and_end<S: Serializer>(range: &Range<u64>, serializer: S) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    struct StartAndEnd {
        start: u64,
        end: u64,
    }
    StartAndEnd { start: range.start, end: range.end }.serialize(serializer)
}

fn lossy<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&path.to_string_lossy())
}

/// The findings of one file.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Finding {
    #[serde(serialize_with = "lossy")]
    pub(crate) path: PathBuf,
    pub(crate) kind: Kind,
    pub(crate) health: Health,
    pub(crate) bytes: u64,
    pub(crate) flaws: Vec<Flaw>,
    /// A notice beside its health.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) notice: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) facts: Option<Facts>,
}

/// Facts of a file beside its bytes.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Placement {
    pub(crate) name: Option<Name>,
    pub(crate) until: Option<u64>,
    pub(crate) last: Option<u64>,
}

impl Placement {
    fn number(&self) -> Option<u64> {
        match self.name {
            Some(Name::Checkpoint(number) | Name::SetAside(number)) => Some(number),
            _ => None,
        }
    }

    fn neighbours(&self) -> Neighbours {
        let named = match self.name {
            Some(Name::Segment(first)) => Some(first),
            _ => None,
        };
        Neighbours { named, until: self.until, last: self.last }
    }
}

/// Examines a file, or all files of a directory.
///
/// # Errors
/// One sentence: why the path cannot be examined.
pub(crate) fn find(path: &Path) -> Result<Vec<Finding>, String> {
    let failed = |error| format!("cannot read {}: {error}", path.display());
    let (input, bytes) = match disk::open_path(path) {
        Err(error) if error.kind() == ErrorKind::IsADirectory => return directory(path),
        opened => opened.map_err(failed)?,
    };
    let name = path.file_name().and_then(|name| Name::parse(name.to_str()?));
    let found = examine_file(path, input, bytes, Placement { name, ..Placement::default() });
    Ok(vec![found.map_err(failed)?])
}

fn examine_file(path: &Path, file: Input, bytes: u64, placement: Placement) -> io::Result<Finding> {
    if let Some(problem) = mostly_holes(&file, bytes)? {
        let flaws = vec![Flaw { bytes: 0..bytes, problem }];
        return Ok(Finding { flaws, ..Finding::new(path, Kind::Unknown, Health::Damaged, bytes) });
    }
    let mut finding = examine(file, bytes, placement);
    finding.path = path.to_owned();
    Ok(finding)
}

/// A problem if a file's length is not on the disk and would take hours to read: none of our files
/// has holes.
fn mostly_holes(file: &Input, bytes: u64) -> io::Result<Option<String>> {
    /// Bytes above which files with holes are not read.
    const LARGE_BYTES: u64 = 1 << 30;
    /// How many times larger than its place on the disk a file may be: more than compression gives
    /// for ours.
    const RATIO_MAX: u64 = 1024;
    let on_disk = file.stored()?;
    let holes = bytes > LARGE_BYTES && on_disk < bytes / RATIO_MAX;
    Ok(holes.then(|| format!("only {on_disk} bytes of it are on the disk, the rest are holes")))
}

impl Finding {
    fn new(path: &Path, kind: Kind, health: Health, bytes: u64) -> Self {
        let path = path.to_owned();
        Self { path, kind, health, bytes, flaws: Vec::new(), notice: None, facts: None }
    }

    fn skipped(path: &Path, bytes: u64, why: &str) -> Self {
        let notice = Some(why.to_owned());
        Self { notice, ..Self::new(path, Kind::Unknown, Health::Skipped, bytes) }
    }
}

/// The files of a directory that are ours, in the order of their names, and the logs of a server in
/// it. Other directories in it are passed over.
fn directory(path: &Path) -> Result<Vec<Finding>, String> {
    let files = open(path.into())?;
    let mut findings = members(&files, 0)?;
    findings.extend(logs::of_a_server(&files, &findings)?);
    if findings.is_empty() {
        return Err(format!("{} holds no checkpoint, log or RDB file", path.display()));
    }
    Ok(findings)
}

fn open(location: Location) -> Result<Directory, String> {
    let path = location.path().to_owned();
    Directory::existing(location).map_err(|error| unreadable(&path, &error))
}

/// The message for an unreadable file, without advice for the owner of a store.
fn unreadable(path: &Path, error: &Error) -> String {
    match error {
        Error::File { source, .. } => format!("cannot read {}: {source}", path.display()),
        error => error.to_string(),
    }
}

/// The files of one directory. Records of a log below `from` were on the disk, as an image says.
fn members(files: &Directory, from: u64) -> Result<Vec<Finding>, String> {
    let mut names = files.names().map_err(|error| unreadable(files.path(), &error))?;
    names.sort_unstable();
    let segments: Vec<u64> = names
        .iter()
        .filter_map(|name| match Name::parse(name) {
            Some(Name::Segment(first)) => Some(first),
            _ => None,
        })
        .collect(); // sorted, because their names are
    let mut findings = Vec::new();
    for name in &names {
        let mut placement = Placement { name: Name::parse(name), ..Placement::default() };
        if let Some(Name::Segment(first)) = placement.name {
            placement.until = segments.iter().copied().find(|&next| next > first);
            placement.last = segments.last().copied().max(Some(from));
        }
        match member(files, name, placement) {
            Ok(finding) => findings.extend(finding),
            Err(error) if error.kind() == Some(ErrorKind::NotFound) => {}
            Err(error) => return Err(unreadable(&files.at(name), &error)),
        }
    }
    chain::check(&mut findings);
    Ok(findings)
}

/// A file of a directory, if it is ours.
fn member(files: &Directory, name: &str, placement: Placement) -> Result<Option<Finding>, Error> {
    let path = files.at(name);
    let was_ours = placement.name.is_some() || name.ends_with(".rdb");
    let (input, bytes) = match files.open_file(name) {
        Err(Error::File { source, .. }) if is_foreign(source.kind(), was_ours) => return Ok(None),
        opened => opened?,
    };
    let unfinished = placement.name == Some(Name::Unfinished)
        || name.starts_with("temp-") && name.ends_with(".rdb");
    let why = match placement.name {
        _ if unfinished => "never finished: the next start removes it",
        Some(Name::SetAside(_)) => "set aside as damaged: nothing reads it",
        _ => "",
    };
    if !why.is_empty() {
        return Ok(Some(Finding::skipped(&path, bytes, why)));
    }
    let finding =
        examine_file(&path, input, bytes, placement).map_err(Error::file("reading", &path))?;
    Ok(Some(finding).filter(|finding| finding.kind != Kind::Unknown || was_ours))
}

/// Whether to pass over a file that could not be opened: a directory, a pipe or the like, or a
/// file of others by its name and rights.
fn is_foreign(error: ErrorKind, was_ours: bool) -> bool {
    matches!(error, ErrorKind::IsADirectory | ErrorKind::Unsupported)
        || error == ErrorKind::PermissionDenied && !was_ours
}

#[cfg(test)]
mod tests;
