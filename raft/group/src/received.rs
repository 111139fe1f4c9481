//! A dump that came from another member: checked before it takes the place of the own one.

use stillframe_durability::disk::Directory;

use crate::error::Error;
use crate::types::Label;

/// The field behind the last entry.
const LABEL: &str = "raft-label";

/// Reads the dump `name` of a directory from end to end: structure and checksum. Returns its label.
pub(crate) fn check(directory: &Directory, name: &str) -> Result<Label, Error> {
    let wrong = |what: String| Error::Dump { path: directory.at(name), what };
    let (input, bytes) = directory.open_file(name)?;
    let (summary, damage) = stillframe_rdb::scan(input, bytes);
    if let Some(damage) = damage {
        return Err(wrong(damage.to_string()));
    }
    if !summary.verified {
        return Err(wrong("it has no checksum".into()));
    }
    let label = summary.aux.iter().rev().find(|(name, _)| name == LABEL);
    let (_, label) = label.ok_or_else(|| wrong("it has no label".into()))?;
    Label::decode(label.as_bytes()).map_err(|error| wrong(error.to_string()))
}
