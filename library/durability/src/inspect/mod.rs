//! Reads the files of a store without opening it: their headers, and all their damage. For tools;
//! nothing here changes a file or takes the lock.
//!
//! - Memory is bounded whatever a file says: a block of at most 1 MiB, or a window of a log.
//! - Reading goes on past a damaged block where the next offset does not depend on it, so that all
//!   damage of a checkpoint is reported. In a log no offset after a damaged record is known.

mod checkpoint;
mod segment;

use std::ops::Range;

pub use checkpoint::Checkpoint;
pub use segment::{Neighbours, Segment};

use crate::disk::Directory;
use crate::error::Error;
use crate::{chain, log, names};

/// Whose state a directory holds, in words, if it is the directory of a store.
///
/// # Errors
/// [`Error`].
pub fn store(directory: &Directory) -> Result<Option<String>, Error> {
    let newest = names::list(directory)?.numbers.into_iter().next();
    let owner = match (newest, log::segments(directory)?.last()) {
        (Some(number), _) => chain::open(directory, number)?.ok().map(|it| it.header().owner),
        (None, Some(&first)) => log::owner(directory, first)?,
        (None, None) => return Ok(None),
    };
    Ok(Some(owner.unwrap_or_default().to_string()))
}

/// A stretch of bytes that is not what was written.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Flaw {
    /// Where it is. Bytes that are missing lie past the end of the file.
    pub bytes: Range<u64>,
    /// What is wrong, in a sentence.
    pub problem: String,
}

/// What an examination found.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Examined<F> {
    /// What the file says of itself, if its header is sound.
    pub facts: Option<F>,
    /// What is wrong with it; nothing if it is sound.
    pub flaws: Vec<Flaw>,
    /// The file is of a later format, so that nothing can be said of it.
    pub newer: bool,
}

/// The name of a file in the directory of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Name {
    /// A checkpoint, by its number.
    Checkpoint(u64),
    /// A checkpoint that was set aside because it is damaged.
    SetAside(u64),
    /// A segment of the log, by the number of its first record.
    Segment(u64),
    /// A file that was never finished, or not yet.
    Unfinished,
}

impl Name {
    /// What `name` means, if it is one that a store gives.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        if [names::TEMPORARY, names::MERGING, log::TEMPORARY].contains(&name) {
            return Some(Self::Unfinished);
        }
        if let Some((number, is_damaged)) = names::number(name) {
            return Some(if is_damaged {
                Self::SetAside(number)
            } else {
                Self::Checkpoint(number)
            });
        }
        names::digits(name.strip_prefix(log::PREFIX)?).map(Self::Segment)
    }
}

#[cfg(test)]
mod tests;
