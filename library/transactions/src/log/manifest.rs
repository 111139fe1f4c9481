//! The manifest: which image and which log are the state. One small text file, replaced as a whole.
//!
//! - It is there from the first moment on, before any other file.
//! - `position` is the number of the first record of the log that may be needed, `first` that of
//!   the first record of this log. If they are the same, the log may not have been created yet.
//! - Images are laid one over the other, in order; only an algorithm of increments has several.

use crate::Shape;
use stillframe_durability::disk::{Directory, with_sum, without_sum};

use super::error::Error;

const NAME: &str = "transactions";
pub(crate) const TEMPORARY: &str = "transactions.tmp";
const HEAD: &str = "stillframe transactions, version 1";

/// What it says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Manifest {
    pub(crate) shape: Shape,
    /// Which log: it has a directory of its own.
    pub(crate) log: u64,
    pub(crate) first: u64,
    pub(crate) position: u64,
    pub(crate) images: Vec<Part>,
}

/// An image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Part {
    /// Its directory.
    pub(crate) name: String,
    /// It holds the commits with this number or a lower one.
    pub(crate) number: u64,
    /// Pieces that it is written in.
    pub(crate) pieces: u64,
}

impl Manifest {
    /// Of a state where nothing has happened.
    pub(crate) fn new(shape: Shape) -> Self {
        Self { shape, log: 1, first: 1, position: 1, images: Vec::new() }
    }

    /// The number of the image.
    pub(crate) fn number(&self) -> u64 {
        self.images.last().map_or(0, |part| part.number)
    }

    /// The name of the log's directory.
    pub(crate) fn log_name(&self) -> String {
        format!("log-{}", self.log)
    }

    /// Whether a name is of something that this manifest needs.
    pub(crate) fn needs(&self, name: &str) -> bool {
        name == self.log_name() || self.images.iter().any(|part| name == part.name)
    }

    /// The manifest of a directory, if it has one.
    pub(crate) fn read(directory: &Directory) -> Result<Option<Self>, Error> {
        if !directory.holds(NAME)? {
            return Ok(None);
        }
        let text = directory.read_text(NAME)?;
        let path = directory.at(NAME);
        Self::decode(&text).map(Some).map_err(|what| Error::Manifest { path, what })
    }

    /// Puts this one in the place of the one before.
    pub(crate) fn publish(&self, directory: &Directory) -> Result<(), Error> {
        Ok(directory.replace(NAME, TEMPORARY, self.encode().as_bytes())?)
    }

    fn encode(&self) -> String {
        use std::fmt::Write as _;
        let Self { shape, log, first, position, images } = self;
        let mut text = format!(
            "{HEAD}\nrecords {}\nwords {}\nlog {log}\nfirst {first}\nposition {position}\n",
            shape.records, shape.words
        );
        for Part { name, number, pieces } in images {
            let _ = writeln!(text, "image {number} {pieces} {name}"); // a text takes all
        }
        with_sum(text)
    }

    fn decode(text: &str) -> Result<Self, String> {
        let mut lines = without_sum(text)?.lines();
        if lines.next() != Some(HEAD) {
            return Err(format!("it does not begin with '{HEAD}'"));
        }
        let mut number = |name: &str| -> Result<u64, String> {
            let line = lines.next().and_then(|line| line.strip_prefix(name));
            let number = line.and_then(|line| line.trim_start().parse().ok());
            number.ok_or_else(|| format!("its line '{name}' is missing"))
        };
        let size = |number: u64| usize::try_from(number).map_err(|error| error.to_string());
        let shape = Shape { records: size(number("records")?)?, words: size(number("words")?)? };
        let (log, first, position) = (number("log")?, number("first")?, number("position")?);
        let images = lines.map(|line| {
            let mut parts = line.strip_prefix("image ")?.split(' ');
            let mut next = || parts.next();
            let (number, pieces) = (next()?.parse().ok()?, next()?.parse().ok()?);
            Some(Part { name: next()?.to_owned(), number, pieces })
        });
        let images = images.collect::<Option<_>>().ok_or("one of its images has no number")?;
        Ok(Self { shape, log, first, position, images })
    }
}

/// Removes what an unfinished checkpoint has left, and what the last one made needless.
pub(crate) fn clean(directory: &Directory, needed: impl Fn(&str) -> bool) -> Result<(), Error> {
    for name in directory.names()? {
        let is_ours = ["log-", "image-", "merged-"].iter().any(|start| name.starts_with(start));
        if is_ours && !needed(&name) {
            directory.remove_all_below(&name)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manifest_is_read_as_it_was_written_or_refused() {
        let part = |name: &str, number, pieces| Part { name: name.into(), number, pieces };
        let images = vec![part("merged-3", 3, 9), part("image-5", 5, 1)];
        let shape = Shape { records: 10, words: 4 };
        let manifest = Manifest { shape, log: 2, first: 5, position: 70, images };
        let text = manifest.encode();
        assert_eq!(Manifest::decode(&text), Ok(manifest));
        for damaged in stillframe_peers::damaged(&text) {
            Manifest::decode(&damaged).expect_err("the sum guards each byte");
        }
    }
}
