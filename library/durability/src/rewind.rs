//! Makes a store as it was, in a directory of its own, without the application: the checkpoints up
//! to the point asked for, and the log up to that point, for the application to open.
//!
//! - The source is only read. The checkpoints are written last, the newest last of all: a log that
//!   begins late is no state without them, so an interrupted rewind leaves nothing that could be
//!   taken for a store.
//! - The code that opens a store reads the newest checkpoint, with all that it builds on, and
//!   refuses it for the same reasons; so a rewind takes the memory of the state. Older checkpoints
//!   are copied as they are, and checked by their next reader.
//! - Records keep their numbers and times, and are checked on the way.

use std::io::{Read, Write};
use std::path::Path;
use std::sync::Arc;

use stillframe::algorithms::imprint::Imprint;

use crate::application::{Owner, refuse_server};
use crate::checkpoint::{HEADER_BYTES, Header as CheckpointHeader, reader};
use crate::damage::checkpoint::Skipped;
use crate::disk::{Directory, LOCK};
use crate::error::Error;
use crate::log::options::LogOptions;
use crate::log::reader::Report;
use crate::log::writer::Writer;
use crate::log::{self, Header};
use crate::names;
use crate::options::Options;
use crate::recovery::Replayed;
use crate::store::replay::{before, replay};
use crate::until::Until;

/// Bytes handed to the disk in one call, about.
const WRITE_BYTES: usize = 1 << 20;

/// Which losses are accepted: none by default.
#[derive(Debug, Clone, Copy, Default)]
pub struct Accepted {
    /// The first damaged record of a log, and all after it.
    pub log_loss: bool,
    /// What a broken chain of increments has after its newest whole checkpoint.
    pub chain_loss: bool,
}

/// What [`rewind`] has made.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Rewound {
    /// Numbers of the checkpoints that were copied, rising.
    pub checkpoints: Vec<u64>,
    /// Checkpoints that were not, because they cannot be used, newest first.
    pub skipped: Vec<Skipped>,
    /// The log that was copied, if there is one.
    pub log: Option<Replayed>,
}

/// Makes in `target`, which must be empty or not exist, a store of what the one in `source` held
/// at `until`, or of all that it holds. The application opens it as usual; the log, if there is
/// one, then ends there.
///
/// # Errors
/// [`Error`]; [`Error::TooEarly`] if no files lead there any more. Unless such a loss is accepted,
/// [`Error::Log`] if the log is damaged before that point, and [`Error::BrokenChain`] if increments
/// lack what they build on.
pub fn rewind(
    source: impl AsRef<Path>,
    until: Option<Until>,
    accepted: Accepted,
    target: impl AsRef<Path>,
) -> Result<Rewound, Error> {
    let source = Directory::existing(source)?.locked(LOCK)?;
    refuse_server(source.path(), &source.names()?)?;
    let options = Options { accept_chain_loss: accepted.chain_loss, ..Options::words(1) };
    let (state, recovery) = before::<Imprint>(&source, until, &options)?;
    drop(state); // the caller only asks whether it can be recovered
    let mut kept = match &recovery.loaded {
        Some(newest) => up_to(&source, newest.number)?,
        None => Vec::new(),
    };
    let target = Directory::open(target.as_ref(), None)?;
    let target = Arc::new(target.owned(owner(&source, &kept)?));
    if target.names()?.iter().any(|name| name != LOCK) {
        return Err(Error::NotEmpty { directory: target.path().to_path_buf() });
    }
    let mut rewound = Rewound { skipped: recovery.skipped, ..Rewound::default() };
    if !log::segments(&source)?.is_empty() {
        let from = kept.iter().map(|(_, header)| header.log_from).min().unwrap_or(1).max(1);
        let replayed = copy_log(&source, &target, from, until, accepted.log_loss)?;
        // After the clock was set back, a checkpoint may seem older than the records in it.
        kept.retain(|(_, header)| header.log_from.saturating_sub(1) <= replayed.last);
        rewound.log = Some(replayed);
    }
    for (number, _) in kept {
        copy(&source, &target, &names::checkpoint(number))?;
        rewound.checkpoints.push(number);
    }
    target.sync()?;
    Ok(rewound)
}

/// The store's owner: that of its newest segment, or else of its newest checkpoint.
fn owner(source: &Directory, kept: &[(u64, CheckpointHeader)]) -> Result<Owner, Error> {
    let by_checkpoint = kept.last().map_or_else(Owner::default, |(_, header)| header.owner);
    let Some(&newest) = log::segments(source)?.last() else { return Ok(by_checkpoint) };
    let by_segment = log::owner(source, newest)?.filter(|owner| !owner.is_untagged());
    Ok(by_segment.unwrap_or(by_checkpoint))
}

/// The checkpoints up to number `newest`, rising.
fn up_to(directory: &Directory, newest: u64) -> Result<Vec<(u64, CheckpointHeader)>, Error> {
    let numbers = names::list(directory)?.numbers;
    let mut kept = Vec::new();
    for &number in numbers.iter().rev().filter(|&&number| number <= newest) {
        let name = names::checkpoint(number);
        let mut head = Vec::with_capacity(HEADER_BYTES);
        let input = directory.open_file(&name)?.0;
        let read = input.take(HEADER_BYTES as u64).read_to_end(&mut head);
        read.map_err(Error::file("reading", directory.at(&name)))?;
        // One with a damaged header leads nowhere.
        kept.extend(reader::peek(&head).ok().map(|header| (number, header)));
    }
    Ok(kept)
}

fn copy_log(
    source: &Directory,
    target: &Arc<Directory>,
    from: u64,
    until: Option<Until>,
    accept_loss: bool,
) -> Result<Replayed, Error> {
    let segment_bytes = LogOptions::default().segment_bytes;
    let found = Report { next: from, ..Report::default() };
    let header = Header::new(from, crate::clock::now_ms(), log::nonce(), target.owner());
    let mut writer = Some(Writer::resume(Arc::clone(target), &found, header)?);
    let (_, replayed) = replay(source, from, accept_loss, until, |action| {
        let mut open = writer.take().ok_or("the copy of the log has failed")?;
        open.append(action.time_ms, action.bytes)?;
        if open.buffered() >= WRITE_BYTES {
            open.write()?;
        }
        if open.bytes() >= segment_bytes {
            open = open.rotate(action.time_ms, log::nonce())?;
        }
        writer = Some(open);
        Ok(())
    })?;
    if let Some(mut writer) = writer {
        writer.sync()?;
    }
    Ok(replayed)
}

fn copy(source: &Directory, target: &Directory, name: &str) -> Result<(), Error> {
    let (mut input, _) = source.open_file(name)?;
    let mut output = target.create(name)?;
    let mut buffer = vec![0; WRITE_BYTES];
    loop {
        let count = input.read(&mut buffer).map_err(Error::file("reading", source.at(name)))?;
        if count == 0 {
            break;
        }
        output.write_all(&buffer[..count]).map_err(Error::file("writing", target.at(name)))?;
    }
    output.sync().map_err(Error::file("syncing", target.at(name)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ActStore;

    /// A counter, whose actions are what is added to it.
    fn open(path: &Path) -> ActStore {
        let options = Options::words(1).keep_generations(10);
        let opened = ActStore::open_records(path, options, |counter, action| {
            counter.write(0, counter.read(0) + u64::from(action.bytes[0]));
            Ok(())
        });
        opened.expect("it is sound")
    }

    #[test]
    fn a_store_is_rewound_to_any_record_without_its_application() {
        let folder = tempfile::tempdir().expect("a folder");
        let source = folder.path().join("source");
        let mut counter = open(&source);
        for number in 1..=30u8 {
            let mut act = counter.log(&[number]).expect("it can be logged");
            act.update(0, |sum| sum + u64::from(number));
            act.commit().expect("it is logged");
            if number % 10 == 0 {
                counter.checkpoint_and_wait().expect("it can be checkpointed");
            }
        }
        drop(counter);
        for last in [0, 1, 9, 10, 11, 25, 30, 99] {
            let target = folder.path().join(last.to_string());
            let rewound =
                rewind(&source, Some(Until::Sequence(last)), Accepted::default(), &target);
            let rewound = rewound.expect("everything leads there");
            assert_eq!(rewound.checkpoints, (1..=last.min(30) / 10).collect::<Vec<_>>());
            let last = last.min(30);
            assert_eq!(rewound.log.expect("there is a log").last, last);
            assert_eq!(open(&target).read(0), last * (last + 1) / 2);
        }
        let all = folder.path().join("all");
        rewind(&source, None, Accepted::default(), &all).expect("all of it");
        assert_eq!(open(&all).read(0), 465);
        let earlier = folder.path().join("earlier");
        rewind(&all, Some(Until::Sequence(11)), Accepted::default(), &earlier).expect("and back");
        assert_eq!(open(&earlier).read(0), 66);
        assert!(rewind(&source, None, Accepted::default(), &all).is_err(), "it is not empty");
        assert_eq!(open(&source).read(0), 465, "the source is as it was");
    }
}
