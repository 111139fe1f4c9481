//! Which checkpoints, and how much of the log before them, are kept.
//!
//! - A generation, a full checkpoint with the increments upon it, is kept whole or not at all.
//! - Two generations whose full checkpoint is known to be sound are kept whatever the rule says;
//!   one with double backup.
//! - The log is kept from the oldest kept checkpoint on: each checkpoint leads to all later states.

use std::io::Read;
use std::time::Duration;

use crate::checkpoint::{HEADER_BYTES, Header, reader};
use crate::disk::Directory;
use crate::error::Error;
use crate::{log, names};

/// How far back a store can be rewound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Retention {
    /// Full checkpoints kept, each with its increments; 2 at least.
    pub generations: usize,
    /// Beyond these, as many as it takes to get to any time so long ago.
    pub age: Option<Duration>,
    /// No more than this many bytes of checkpoints and log altogether, except two generations.
    pub bytes_max: Option<u64>,
    /// One generation is enough.
    pub double_backup: bool,
}

impl Default for Retention {
    fn default() -> Self {
        Self { generations: 2, age: None, bytes_max: None, double_backup: false }
    }
}

/// A generation, as far as it matters here.
struct Generation {
    /// When its full checkpoint was begun.
    created_ms: u64,
    /// The first record of the log that is not in it.
    log_from: u64,
    /// Bytes of all its files.
    bytes: u64,
}

/// Removes what is kept no longer, now that the full checkpoint `sound` and all after it are known
/// to be sound.
pub(crate) fn apply(
    directory: &Directory,
    rule: Retention,
    sound: u64,
    now_ms: u64,
) -> Result<(), Error> {
    let mut kept: Vec<Generation> = Vec::new();
    let segments = lengths(directory)?;
    let mut bytes = 0;
    let mut floor = 0;
    for number in names::list(directory)?.numbers {
        let (header, length) = header_and_length(directory, number)?;
        bytes += length;
        // A damaged one leads nowhere, and needs the whole log.
        if header.is_some_and(|header| header.base.is_some()) {
            continue;
        }
        let created_ms = header.map_or(0, |header| header.created_ms);
        let log_from = header.map_or(0, |header| header.log_from);
        let generation = Generation { created_ms, log_from, bytes };
        if number < sound && !rule.keeps(&kept, &generation, &segments, now_ms) {
            break;
        }
        (floor, bytes) = (number, 0);
        kept.push(generation);
    }
    let removed = remove_below(directory, floor);
    let from = kept.iter().map(|generation| generation.log_from).min().unwrap_or(0);
    removed.and(truncate(directory, from))
}

impl Retention {
    fn keeps(
        &self,
        newer: &[Generation],
        older: &Generation,
        segments: &[(u64, u64)],
        now_ms: u64,
    ) -> bool {
        // The one before the first that is too young to lead there.
        let is_needed = self.age.is_some_and(|age| {
            let then = now_ms.saturating_sub(u64::try_from(age.as_millis()).unwrap_or(u64::MAX));
            newer.last().is_none_or(|newer| newer.created_ms > then)
        });
        let bytes: u64 = newer.iter().chain([older]).map(|generation| generation.bytes).sum();
        let first = needed(segments.iter().map(|&(first, _)| first), older.log_from);
        let log: u64 = segments[first..].iter().map(|(_, bytes)| bytes).sum();
        let fits = self.bytes_max.is_none_or(|most| bytes.saturating_add(log) <= most);
        fits && (newer.len() < self.generations || is_needed)
    }
}

/// The index of the segment that holds record `from`: the last that begins no later.
fn needed(firsts: impl Iterator<Item = u64>, from: u64) -> usize {
    firsts.take_while(|&first| first <= from).count().saturating_sub(1)
}

/// The segments with their lengths.
pub(crate) fn lengths(directory: &Directory) -> Result<Vec<(u64, u64)>, Error> {
    let mut segments = Vec::new();
    for first in log::segments(directory)? {
        segments.push((first, directory.open_file(&log::name(first))?.1));
    }
    Ok(segments)
}

/// The header of a checkpoint, if it is sound, and the length of its file.
fn header_and_length(directory: &Directory, number: u64) -> Result<(Option<Header>, u64), Error> {
    let (input, bytes) = directory.open_file(&names::checkpoint(number))?;
    let mut head = Vec::with_capacity(HEADER_BYTES);
    let read = input.take(HEADER_BYTES as u64).read_to_end(&mut head);
    read.map_err(Error::file("reading", directory.at(&names::checkpoint(number))))?;
    Ok((reader::peek(&head).ok(), bytes))
}

/// Removes all checkpoints with lower numbers.
pub(crate) fn remove_below(directory: &Directory, number: u64) -> Result<(), Error> {
    let mut removed = Ok(());
    for old in names::list(directory)?.numbers.into_iter().filter(|&old| old < number) {
        removed = removed.and(directory.discard(&names::checkpoint(old)));
    }
    removed
}

/// Removes the segments that hold no record from `from` on.
pub(crate) fn truncate(directory: &Directory, from: u64) -> Result<(), Error> {
    let firsts = log::segments(directory)?;
    let needed = needed(firsts.iter().copied(), from);
    firsts[..needed].iter().try_for_each(|&first| directory.discard(&log::name(first)))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::disk::{Fault, Location, SimulatedDisk};

    #[test]
    fn the_past_is_kept_from_the_last_checkpoint_before_it_on() {
        let age = Some(Duration::from_millis(100));
        let rule = Retention { generations: 1, age, ..Retention::default() };
        let generation = |created_ms| Generation { created_ms, log_from: 0, bytes: 1 };
        let keeps = |newer: [u64; 2]| rule.keeps(&newer.map(generation), &generation(1), &[], 1000);
        assert!(keeps([950, 901]), "it alone leads to 900");
        assert!(!keeps([950, 900]));
    }

    #[test]
    fn a_checkpoint_that_does_not_go_is_reported_and_holds_up_no_other() {
        let begin = || {
            let disk = SimulatedDisk::default();
            let location = Location::on("simulated", Arc::new(disk.clone()));
            let directory = Directory::existing(location).expect("it is there");
            for number in [1, 2] {
                directory.create_file(&names::checkpoint(number)).expect("a sound disk");
            }
            (disk, directory)
        };
        let (disk, directory) = begin();
        let before = disk.calls();
        remove_below(&directory, 3).expect("a sound disk");
        let mut left = Vec::new();
        for call in 1..=disk.calls() - before {
            let (disk, directory) = begin();
            disk.fail_at(disk.calls() + call, Fault::IO);
            let removed = remove_below(&directory, 3);
            let stay = names::list(&directory).expect("a sound disk").numbers;
            assert!(stay.is_empty() || removed.is_err(), "call {call}: {stay:?}");
            left.push(stay);
        }
        assert!(left.contains(&vec![1]) && left.contains(&vec![2]), "{left:?}");
    }
}
