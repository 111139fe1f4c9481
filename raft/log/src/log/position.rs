//! The number of the first record that is needed, in a small file beside the log's.
//!
//! - Without it, a start would read from the first segment that it finds. Segments are removed one
//!   by one, and a crash may leave some of them with gaps between.
//! - It is replaced when the records below are on the disk, and before a segment goes.

use stillframe_durability::disk::{Directory, Location, with_sum, without_sum};

use crate::error::Error;

const NAME: &str = "from";
const TEMPORARY: &str = "from.tmp";

/// The number; 1 as long as nothing was removed.
pub(crate) fn read(log: &Location) -> Result<u64, Error> {
    let directory = Directory::existing(log.clone())?;
    if !directory.holds(NAME)? {
        return Ok(1);
    }
    let text = directory.read_text(NAME)?;
    let wrong = |what: &str| Error::Manifest { path: directory.at(NAME), what: what.into() };
    let number = without_sum(&text).map_err(wrong)?.trim_end().parse();
    number.map_err(|_| wrong("it holds no number"))
}

/// Replaces the number.
pub(crate) fn write(log: &Location, from: u64) -> Result<(), stillframe_durability::Error> {
    let directory = Directory::existing(log.clone())?;
    directory.replace(NAME, TEMPORARY, with_sum(format!("{from}\n")).as_bytes())
}
