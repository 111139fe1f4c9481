//! The names of checkpoint files; the table is in `docs/reference/formats.md`.

use crate::disk::Directory;
use crate::error::Error;

/// The file that is being written, or prepared for.
pub(crate) const TEMPORARY: &str = "checkpoint.tmp";

/// The file into which a chain is merged.
pub(crate) const MERGING: &str = "merge.tmp";

const PREFIX: &str = "checkpoint-";
/// Ends the name of a file that recovery set aside.
pub(crate) const DAMAGED: &str = ".damaged";
const DIGITS: usize = 20;

pub(crate) fn checkpoint(number: u64) -> String {
    numbered(PREFIX, number)
}

/// A name that sorts by its number.
pub(crate) fn numbered(prefix: &str, number: u64) -> String {
    format!("{prefix}{number:0DIGITS$}")
}

/// The number that [`numbered`] wrote after its prefix.
pub(crate) fn digits(text: &str) -> Option<u64> {
    let is_ours = text.len() == DIGITS && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|&number| is_ours && number < u64::MAX)
}

pub(crate) fn damaged(number: u64) -> String {
    checkpoint(number) + DAMAGED
}

/// The number in the name of a checkpoint, or of a damaged one.
pub(crate) fn number(name: &str) -> Option<(u64, bool)> {
    let rest = name.strip_prefix(PREFIX)?;
    let (digits, is_damaged) = match rest.strip_suffix(DAMAGED) {
        Some(digits) => (digits, true),
        None => (rest, false),
    };
    Some((self::digits(digits)?, is_damaged))
}

/// The checkpoints of a directory.
#[derive(Debug)]
pub(crate) struct Listing {
    /// Numbers of the checkpoints, newest first.
    pub(crate) numbers: Vec<u64>,
    /// The first number that no file has borne.
    pub(crate) next: u64,
    /// Whether there is a file that never became a checkpoint.
    pub(crate) leftover: bool,
}

pub(crate) fn list(directory: &Directory) -> Result<Listing, Error> {
    let names = directory.names()?;
    let found: Vec<_> = names.iter().filter_map(|name| number(name)).collect();
    let next = found.iter().map(|&(number, _)| number + 1).max().unwrap_or(1);
    let sound = found.iter().filter(|(_, is_damaged)| !is_damaged);
    let mut numbers: Vec<u64> = sound.map(|&(number, _)| number).collect();
    numbers.sort_unstable_by(|left, right| right.cmp(left));
    let leftover = names.iter().any(|name| name == TEMPORARY || name == MERGING);
    Ok(Listing { numbers, next, leftover })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checkpoint_or_a_merge_that_was_not_finished_is_left_over() {
        for (name, is_left) in [(TEMPORARY, true), (MERGING, true), ("notes", false)] {
            let disk = crate::disk::SimulatedDisk::default();
            let location = crate::disk::Location::on("simulated", std::sync::Arc::new(disk));
            let directory = Directory::existing(location).expect("it is there");
            directory.create_file(name).expect("a sound disk");
            assert_eq!(list(&directory).expect("a sound disk").leftover, is_left, "{name}");
        }
    }

    #[test]
    fn only_names_of_ours_have_numbers() {
        for value in [0, 1, 42, u64::MAX - 1] {
            assert_eq!(number(&checkpoint(value)), Some((value, false)));
            assert_eq!(number(&damaged(value)), Some((value, true)));
        }
        let foreign = [
            "checkpoint-1",
            "checkpoint-+0000000000000000001",
            "checkpoint-000000000000000000011",
            "checkpoint-00000000000000000001.old",
            "checkpoint-18446744073709551615",
            "checkpoint-99999999999999999999",
            "checkpoint.tmp",
            "lock",
            "",
        ];
        for name in foreign {
            assert_eq!(number(name), None, "{name}");
        }
    }
}
