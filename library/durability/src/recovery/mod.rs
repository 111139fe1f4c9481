//! Finds the newest sound checkpoint of a directory and loads it.
//!
//! - Recovery skips a damaged checkpoint only if an older one is sound, and then sets the damaged
//!   one aside under another name: it must not count as one of the generations that are kept.
//! - An increment is of no use without all that it builds on. Where there are increments, recovery
//!   skips nothing damaged or missing unless the options say so: the whole part may be much older.
//! - Checkpoints that are all damaged never become an empty state.
//! - A sound checkpoint of a newer version stops the recovery: those before it are older.
//! - A checkpoint that the disk cannot read stops the recovery, too: that proves no damage, and an
//!   older one may lack acknowledged changes.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use stillframe::{Algorithm, Completeness, InPlace};

use crate::chain::{self, Opened, Part};
use crate::checkpoint::Header;
use crate::checkpoint::reader::Reader;
use crate::damage::checkpoint::{Damage, Skipped};
use crate::damage::log::Damage as LogDamage;
use crate::disk::{Directory, Input, LOCK};
use crate::error::Error;
use crate::log::TEMPORARY as LOG_TEMPORARY;
use crate::names::{self, MERGING, TEMPORARY};
use crate::options::Options;

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
    /// What was cut off the end, as a crash leaves it: nothing proves that any record in it was
    /// ever on the disk.
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
    /// The last one with a trace in the log; `None` if none has one.
    pub last: Option<u64>,
}

impl fmt::Display for TornTail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, offset, bytes } = self;
        let path = path.display();
        write!(f, "{path}: nothing proves that the {bytes} bytes at byte {offset} were ever synced")
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
    /// Number of the full checkpoint that it builds on; its own if it is full.
    pub base: u64,
    /// Increments applied to that one, this one included.
    pub increments: usize,
    /// Words of state in it.
    pub words: usize,
    /// Length of the file, together with what it builds on.
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

/// A state as found, and the number of its next checkpoint.
pub(crate) struct Recovered<A> {
    pub(crate) algorithm: A,
    pub(crate) recovery: Recovery,
    pub(crate) next: u64,
    /// The files that the state was loaded from, base first.
    pub(crate) chain: Vec<Part>,
}

/// The newest sound state in `directory`, or an empty one if it has never had any.
pub(crate) fn recover<A: Algorithm>(
    directory: &Directory,
    options: &Options,
) -> Result<Recovered<A>, Error> {
    let listing = names::list(directory)?;
    directory.discard(TEMPORARY)?;
    directory.discard(MERGING)?;
    let (found, mut skipped) = find(directory, &listing.numbers, options, |_| true)?;
    if found.is_some() {
        set_aside(directory, &mut skipped)?;
    } else if !skipped.is_empty() {
        return Err(Error::NoneSound { directory: directory.path().to_path_buf(), skipped });
    }
    let (algorithm, loaded, chain) = match found {
        Some(Found { algorithm, loaded, chain }) => (algorithm, Some(loaded), chain),
        None => (A::create(&options.memory)?, None, Vec::new()),
    };
    let recovery = Recovery { loaded, skipped, leftover: listing.leftover, log: None };
    Ok(Recovered { algorithm, recovery, next: listing.next, chain })
}

/// A checkpoint that was loaded.
pub(crate) struct Found<A> {
    pub(crate) algorithm: A,
    pub(crate) loaded: Loaded,
    /// Its files, base first.
    chain: Vec<Part>,
}

/// The first of these checkpoints that is sound and wanted, and the damaged ones before it.
pub(crate) fn find<A: Algorithm>(
    directory: &Directory,
    numbers: &[u64],
    options: &Options,
    is_wanted: impl Fn(&Header) -> bool,
) -> Result<(Option<Found<A>>, Vec<Skipped>), Error> {
    let mut skipped: Vec<Skipped> = Vec::new();
    // With increments, the first file that cannot be used.
    let mut broken = None;
    let strict = options.increments.is_some() || A::INFO.image == Completeness::Incremental;
    for &number in numbers {
        if skipped.iter().any(|skipped| skipped.number == number) {
            continue;
        }
        match load(directory, numbers, number, options, &is_wanted)? {
            Ok(None) => {}
            Ok(Some(found)) => {
                let is_refused = strict || found.loaded.increments > 0;
                let first = broken.or_else(|| skipped.first().filter(|_| is_refused).cloned());
                return match first.filter(|_| !options.accept_chain_loss) {
                    Some(Skipped { path, damage, .. }) => {
                        let whole = found.loaded.number;
                        Err(Error::BrokenChain { path, damage, newest: numbers[0], whole })
                    }
                    None => Ok((Some(found), skipped)),
                };
            }
            Err(Unusable { files, of_chain }) => {
                if let Some(link) = files.last().filter(|_| of_chain) {
                    broken.get_or_insert(link.clone());
                }
                skipped.extend(files);
            }
        }
    }
    Ok((None, skipped))
}

/// Loads a checkpoint with all that it builds on, or returns what cannot be used because of
/// the last of them.
fn load<A: Algorithm>(
    directory: &Directory,
    numbers: &[u64],
    number: u64,
    options: &Options,
    is_wanted: impl Fn(&Header) -> bool,
) -> Result<Result<Option<Found<A>>, Unusable>, Error> {
    let started = Instant::now();
    let traced = chain::trace(directory, number, numbers)?;
    let links: Vec<u64> = traced.files.iter().map(|file| file.part.link.number).collect();
    if let Some(newest) = traced.files.first()
        && !is_wanted(newest.header())
    {
        return Ok(Ok(None));
    }
    if let (Some(claim), Some(newest)) = (directory.claim(), traced.files.first()) {
        // Identities show those that it builds on.
        claim.check(newest.header().owner, || directory.at(&names::checkpoint(number)))?;
    }
    if let Some((link, damage)) = traced.broken {
        let of_chain = !links.is_empty() || damage.is_of_chain();
        return Ok(Err(Unusable::new(directory, &links, link, damage, of_chain)));
    }
    let chain: Vec<Part> = traced.files.iter().rev().map(|file| file.part).collect();
    let (Some(&newest), Some(base)) = (traced.files.first().map(Opened::header), chain.first())
    else {
        return Ok(Ok(None)); // a chain has a file at least
    };
    let loaded = |words| Loaded {
        number,
        path: directory.at(&names::checkpoint(number)),
        base: base.link.number,
        increments: chain.len() - 1,
        words,
        bytes: chain.iter().map(|part| part.bytes).sum(),
        created_ms: newest.created_ms,
        algorithm: newest.algorithm(),
        log_from: newest.log_from,
        duration: started.elapsed(),
    };
    let words = usize::try_from(newest.words).unwrap_or(usize::MAX); // no memory, then
    let mut memory = options.memory.clone();
    memory.words = memory.words.max(words);
    memory.max_words = memory.max_words.max(words);
    let mut algorithm = A::create(&memory)?;
    for Opened { reader, input, part } in traced.files.into_iter().rev() {
        let threads = options.load_threads;
        let applied = match algorithm.in_place() {
            Some(memory) => apply(reader, &input, threads, words, Some(&memory), |_, _| ()),
            None => {
                let take = |start, words: &[u64]| algorithm.write_run(start, words);
                apply(reader, &input, threads, words, None, take)
            }
        };
        if let Err(damage) = applied {
            let link = part.link.number;
            let damage = chain::tolerable(directory, link, damage)?;
            let later: Vec<u64> = links.into_iter().filter(|&later| later > link).collect();
            let of_chain = chain.len() > 1;
            return Ok(Err(Unusable::new(directory, &later, link, damage, of_chain)));
        }
    }
    let loaded = loaded(words);
    Ok(Ok(Some(Found { algorithm, loaded, chain })))
}

/// Hands the words of one file of a chain on, or puts them into `memory`.
fn apply(
    reader: Reader<Input>,
    input: &Input,
    threads: usize,
    words: usize,
    memory: Option<&InPlace<'_>>,
    take: impl FnMut(usize, &[u64]),
) -> Result<(), Damage> {
    let value = reader.header().words;
    if value > words as u64 {
        // A state never shrinks.
        return Err(Damage::Field { offset: 16, field: "number of words", value });
    }
    if reader.is_for_threads(threads) {
        input.pass_cache(); // they read large, aligned pieces
    }
    reader.load(threads, |offset| input.at(offset), memory, take)
}

/// Why a checkpoint cannot be loaded.
struct Unusable {
    /// The damaged file, and before it those that build on it.
    files: Vec<Skipped>,
    /// Whether there are increments among them.
    of_chain: bool,
}

impl Unusable {
    fn new(
        directory: &Directory,
        later: &[u64],
        link: u64,
        damage: Damage,
        of_chain: bool,
    ) -> Self {
        let skipped = |number, damage| {
            let path = directory.at(&names::checkpoint(number));
            Skipped { number, path, damage }
        };
        let build_on_it = later.iter().map(|&later| (later, Damage::BaseDamaged { base: link }));
        let files = build_on_it.chain([(link, damage)]);
        Self { files: files.map(|(number, damage)| skipped(number, damage)).collect(), of_chain }
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

/// A directory for a new state: one that is empty but for what was left by an attempt before.
pub(crate) fn new_directory(path: &Path, options: &Options) -> Result<Arc<Directory>, Error> {
    let directory = Directory::open(path, options.disk.clone())?;
    let directory = Arc::new(directory.claimed(&options.application)?);
    for leftover in [TEMPORARY, MERGING, LOG_TEMPORARY] {
        directory.discard(leftover)?;
    }
    if directory.names()?.iter().any(|name| name != LOCK) {
        return Err(Error::NotEmpty { directory: directory.path().to_path_buf() });
    }
    Ok(directory)
}

#[cfg(test)]
mod tests;
