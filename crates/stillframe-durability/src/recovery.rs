//! Finds the newest sound checkpoint of a directory and loads it.
//!
//! - A damaged checkpoint is passed over only for an older sound one, and then set aside under
//!   another name: it must not count as one of the generations that are kept.
//! - Checkpoints that are all damaged never become an empty state.
//! - One that is sound but of a newer version stops the recovery: what lies behind it is older.
//! - So does one that the disk does not give: that is no proof of damage, and an older one may lie
//!   behind what was acknowledged.

use std::fmt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use stillframe::Algorithm;

use crate::checkpoint::Header;
use crate::checkpoint::damage::Damage;
use crate::checkpoint::reader::Reader;
use crate::disk::directory::Directory;
use crate::error::Error;
use crate::log::damage::Damage as LogDamage;
use crate::names::{self, TEMPORARY};

/// What [`Store::open`](crate::Store::open) found.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Recovery {
    /// The checkpoint that the state was loaded from; `None` if there was none.
    pub loaded: Option<Loaded>,
    /// Newer checkpoints that were damaged, newest first.
    pub skipped: Vec<Skipped>,
    /// Whether an unfinished checkpoint was thrown away: the last process did not end cleanly.
    pub leftover: bool,
    /// The actions since, if the store was opened with a log.
    pub log: Option<Replayed>,
}

/// What was found in the log.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Replayed {
    /// Records applied.
    pub records: u64,
    /// Bytes of actions in them.
    pub bytes: u64,
    /// Number of the last record that is in the state, 0 if there is none.
    pub last: u64,
    /// How long replaying took, with all checks.
    pub duration: Duration,
    /// What was cut off the end, as a crash leaves it: no record in it was ever acknowledged.
    pub torn: Option<TornTail>,
    /// What is lost, if the [`Options`](crate::Options) accept that.
    pub lost: Option<LostRecords>,
}

/// The end of a log that a crash left half-written.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TornTail {
    /// The segment.
    pub path: PathBuf,
    /// Where the tail starts.
    pub offset: usize,
    /// Its length.
    pub bytes: usize,
}

/// Records that a damaged log has lost.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LostRecords {
    /// The damaged segment, under its name before it was moved aside.
    pub path: PathBuf,
    /// What is wrong with it.
    pub damage: LogDamage,
    /// The first record that is lost.
    pub first: u64,
    /// The last one of which there is a trace; `None` if there is none of any.
    pub last: Option<u64>,
}

impl fmt::Display for TornTail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, offset, bytes } = self;
        write!(f, "{}: {bytes} bytes from byte {offset} on were never acknowledged", path.display())
    }
}

impl fmt::Display for LostRecords {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, damage, first, last } = self;
        write!(f, "{}: {damage}; lost: all records from {first} on, ", path.display())?;
        match last {
            Some(last) => write!(f, "of which there were {} at least", last + 1 - first),
            None => write!(f, "of which there is no trace"),
        }
    }
}

/// The checkpoint that a state was loaded from.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Loaded {
    /// Its number.
    pub number: u64,
    /// Its file.
    pub path: PathBuf,
    /// Words of state in it.
    pub words: usize,
    /// Length of the file.
    pub bytes: u64,
    /// When it was begun, in milliseconds since 1970 by the clock of then.
    pub created_ms: u64,
    /// The algorithm that took it.
    pub algorithm: String,
    /// Number of the first record of the log that is not in it, 0 if there was no log.
    pub log_from: u64,
    /// How long loading took, with all checks.
    pub duration: Duration,
}

/// A damaged checkpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Skipped {
    /// Its number.
    pub number: u64,
    /// Where it is now.
    pub path: PathBuf,
    /// What is wrong with it.
    pub damage: Damage,
}

impl fmt::Display for Skipped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path.display(), self.damage)
    }
}

/// A state as found, and the number of its next checkpoint.
pub(crate) struct Recovered<A> {
    pub(crate) algorithm: A,
    pub(crate) recovery: Recovery,
    pub(crate) next: u64,
}

/// The newest sound state in `directory`, or an empty one if it has never had any.
pub(crate) fn recover<A: Algorithm>(
    directory: &Directory,
    memory: &stillframe::Options,
) -> Result<Recovered<A>, Error> {
    let listing = names::list(directory)?;
    directory.remove(TEMPORARY)?;
    let (found, mut skipped) = find(directory, &listing.numbers, memory, |_| true)?;
    if found.is_some() {
        set_aside(directory, &mut skipped)?;
    } else if !skipped.is_empty() {
        return Err(Error::NoneSound { directory: directory.path().to_path_buf(), skipped });
    }
    let (algorithm, loaded) = match found {
        Some((algorithm, loaded)) => (algorithm, Some(loaded)),
        None => (A::create(memory)?, None),
    };
    let recovery = Recovery { loaded, skipped, leftover: listing.leftover, log: None };
    Ok(Recovered { algorithm, recovery, next: listing.next })
}

type Found<A> = (Option<(A, Loaded)>, Vec<Skipped>);

/// The first of these checkpoints that is sound and wanted, and the damaged ones before it.
pub(crate) fn find<A: Algorithm>(
    directory: &Directory,
    numbers: &[u64],
    memory: &stillframe::Options,
    is_wanted: impl Fn(&Header) -> bool,
) -> Result<Found<A>, Error> {
    let mut skipped = Vec::new();
    for &number in numbers {
        match load(directory, number, memory, &is_wanted)? {
            Ok(found @ Some(_)) => return Ok((found, skipped)),
            Ok(None) => {}
            Err(damage) => {
                let path = directory.at(&names::checkpoint(number));
                skipped.push(Skipped { number, path, damage });
            }
        }
    }
    Ok((None, skipped))
}

fn load<A: Algorithm>(
    directory: &Directory,
    number: u64,
    memory: &stillframe::Options,
    is_wanted: impl Fn(&Header) -> bool,
) -> Result<Result<Option<(A, Loaded)>, Damage>, Error> {
    let started = Instant::now();
    let name = names::checkpoint(number);
    let path = directory.at(&name);
    let (input, bytes) = directory.open_file(&name)?;
    let reader = match Reader::open(input, bytes) {
        Err(damage) => return damaged(path, damage).map(Err),
        Ok(reader) => reader,
    };
    let header = *reader.header();
    if header.number != number {
        return Ok(Err(Damage::Misnamed { number: header.number, named: number }));
    }
    if !is_wanted(&header) {
        return Ok(Ok(None));
    }
    // The file is as long as its words demand, so memory is asked for on the word of the disk.
    let words = header.words as usize;
    let mut memory = memory.clone();
    memory.words = memory.words.max(words);
    memory.max_words = memory.max_words.max(words);
    let mut algorithm = A::create(&memory)?;
    if let Err(damage) = reader.load(|start, words| algorithm.write_run(start, words)) {
        return damaged(path, damage).map(Err);
    }
    let loaded = Loaded {
        number,
        path,
        words,
        bytes,
        created_ms: header.created_ms,
        algorithm: header.algorithm(),
        log_from: header.log_from,
        duration: started.elapsed(),
    };
    Ok(Ok(Some((algorithm, loaded))))
}

/// Damage that one may look behind; else the error.
fn damaged(path: PathBuf, damage: Damage) -> Result<Damage, Error> {
    match damage {
        Damage::NewerVersion { version, supported } => {
            Err(Error::NewerVersion { path, version, supported })
        }
        Damage::Unreadable { .. } => Err(Error::Unreadable { path, damage }),
        damage => Ok(damage),
    }
}

fn set_aside(directory: &Directory, skipped: &mut [Skipped]) -> Result<(), Error> {
    for skipped in skipped.iter_mut() {
        let name = names::damaged(skipped.number);
        directory.rename(&names::checkpoint(skipped.number), &name)?;
        skipped.path = directory.at(&name);
    }
    if skipped.is_empty() { Ok(()) } else { directory.sync() }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use stillframe::algorithms::naive::Naive;

    use super::*;
    use crate::checkpoint::writer::Writer;

    fn file(number: u64) -> Vec<u8> {
        let mut file = Vec::new();
        let mut writer = Writer::new(&mut file, Header::new(2, number, 0, "naive"));
        writer.push(0, &[number, number]).expect("a Vec takes all");
        writer.finish().expect("a Vec takes all");
        file
    }

    /// Recovers from checkpoint 1, sound, and 2, as given; tells the number loaded and how many
    /// were skipped.
    fn recover_from(directory: &Directory, second: &[u8]) -> (u64, usize) {
        let path = directory.at(&names::checkpoint(2));
        fs::write(&path, second).expect("writable");
        let memory = stillframe::Options::words(2);
        let recovered = recover::<Naive>(directory, &memory).expect("the first is sound");
        let number = recovered.algorithm.read(0);
        assert_eq!(recovered.algorithm.read(1), number, "whole");
        assert_eq!(recovered.recovery.loaded.expect("one was").number, number);
        assert_eq!(path.exists(), number == 2, "the damaged one is set aside");
        (number, recovered.recovery.skipped.len())
    }

    /// The reader's own tests flip every bit; here a disk is synced for each, so it is one bit in
    /// nine, unless there is time.
    #[test]
    fn every_flip_and_every_truncation_falls_back_to_the_older_one() {
        let data = tempfile::tempdir().expect("a directory");
        let directory = Directory::open(data.path(), None).expect("writable");
        fs::write(directory.at(&names::checkpoint(1)), file(1)).expect("writable");
        let sound = file(2);
        assert_eq!(recover_from(&directory, &sound), (2, 0));
        let step = if std::env::var_os("STILLFRAME_LONG").is_some() { 1 } else { 9 };
        for bit in (0..sound.len() * 8).step_by(step) {
            let mut damaged = sound.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(recover_from(&directory, &damaged), (1, 1), "bit {bit}");
        }
        for length in 0..sound.len() {
            assert_eq!(recover_from(&directory, &sound[..length]), (1, 1), "{length} bytes");
        }
    }
}
