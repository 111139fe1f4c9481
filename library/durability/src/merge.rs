//! Merges a chain into a full checkpoint, from the files alone: the state is not touched.
//!
//! - The merged file has the number and the identity of the newest increment, whose place it takes
//!   by a rename: increments made meanwhile build on either.
//! - Every byte of every file of the chain is checked before the merged one gets its name.
//! - Memory: a block of each file.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use stillframe::SinkError;

use crate::chain::{self, Opened, Part};
use crate::checkpoint::Header;
use crate::checkpoint::block::Block;
use crate::checkpoint::reader::Reader;
use crate::checkpoint::writer::Writer;
use crate::damage::checkpoint::Damage;
use crate::disk::{Directory, Input, Output, Unpublished};
use crate::error::Error;
use crate::manner::Manner;
use crate::mutant::Mutant;
use crate::names::{self, MERGING};

/// Words merged at once.
const STRETCH_WORDS: usize = 8192;

/// Merges `chain`, base first, and returns what takes the place of its last file; `None` if it was
/// stopped. What was there before is as it was unless the merged file is durable.
pub(crate) fn merge(
    directory: &Directory,
    chain: &[Part],
    manner: &Manner,
    stop: &AtomicBool,
) -> Result<Option<Part>, Error> {
    match write(directory, chain, manner, stop) {
        Ok(Some((mut writer, full))) => publish(directory, &mut writer, full).map(Some),
        unfinished => {
            let _ = directory.discard(MERGING); // the next one replaces it in any case
            unfinished.map(|_| None)
        }
    }
}

/// The merged file, every byte of it flushed; `None` if it was stopped.
fn write(
    directory: &Directory,
    chain: &[Part],
    manner: &Manner,
    stop: &AtomicBool,
) -> Result<Option<(Writer<Output>, Header)>, Error> {
    let mut sources = Vec::new();
    let mut header = None;
    for part in chain {
        let file = chain::open(directory, part.link.number)?;
        let file = file.map_err(|damage| unmergeable(directory, part.link.number, damage))?;
        if file.part.link != part.link {
            let damage = Damage::BaseIsAnother { base: part.link.number };
            return Err(unmergeable(directory, part.link.number, damage));
        }
        header = Some(*file.header());
        sources.push(Source::new(file));
    }
    let Some(newest) = header else { return Ok(None) };
    let full = newest.as_full(manner.packs);
    let mut output = directory.create(MERGING)?;
    output.set_throttle(manner.throttle.clone());
    output.pass_cache(true);
    let failed = |action| Error::file(action, directory.at(MERGING));
    if let Some(bytes) = full.file_bytes().and_then(|bytes| u64::try_from(bytes).ok()) {
        output.make_room(bytes).map_err(|error| failed("writing")(error.into()))?;
    }
    let mut writer = Writer::new(output, full);
    writer.use_threads();
    let words = full.words as usize; // a state in memory had as many
    let mut stretch = vec![0; STRETCH_WORDS.min(words)];
    for start in (0..words).step_by(STRETCH_WORDS) {
        if stop.load(Ordering::Relaxed) {
            return Ok(None);
        }
        let stretch = &mut stretch[..STRETCH_WORDS.min(words - start)];
        stretch.fill(0);
        for source in &mut sources {
            let overlaid = source.overlay(start, stretch);
            overlaid.map_err(|damage| unmergeable(directory, source.number, damage))?;
        }
        writer.push(start, stretch).map_err(|error| failed("writing")(into_io(&error)))?;
    }
    for source in &mut sources {
        let ended = source.end();
        ended.map_err(|damage| unmergeable(directory, source.number, damage))?;
    }
    writer.finish().map_err(|error| failed("writing")(into_io(&error)))?;
    Ok(Some((writer, full)))
}

fn publish(
    directory: &Directory,
    writer: &mut Writer<Output>,
    header: Header,
) -> Result<Part, Error> {
    let (link, name) = (header.link(), names::checkpoint(header.number));
    let bytes = writer.written();
    if directory.is(Mutant::MergeNotSynced) {
        directory.rename(MERGING, &name)?;
        directory.sync()?;
        return Ok(Part { link, bytes });
    }
    let unpublished =
        Unpublished { file: writer.output(), bytes: Some(bytes), temporary: MERGING, name: &name };
    let ((), bytes) = directory.publish(unpublished, Ok(()), || Ok::<(), Error>(()))?;
    Ok(Part { link, bytes })
}

fn into_io(error: &SinkError) -> io::Error {
    match error.errno() {
        0 => io::Error::other(error.message().to_owned()),
        errno => io::Error::from_raw_os_error(errno),
    }
}

fn unmergeable(directory: &Directory, number: u64, damage: Damage) -> Error {
    Error::Unmergeable { path: directory.at(&names::checkpoint(number)), damage }
}

/// A file of the chain, on its way.
struct Source {
    number: u64,
    reader: Reader<Input>,
    input: Input,
    block: Block,
    /// The run of the block that is next, and how many of its words are done.
    run: usize,
    done: usize,
    ended: bool,
}

impl Source {
    fn new(Opened { reader, input, part }: Opened) -> Self {
        let (number, block) = (part.link.number, Block::default());
        Self { number, reader, input, block, run: 0, done: 0, ended: false }
    }

    /// Lays the words of this file over `into`, which begins with word `start`.
    fn overlay(&mut self, start: usize, into: &mut [u64]) -> Result<(), Damage> {
        let end = start + into.len();
        loop {
            let Some((first, words)) = self.block.run(self.run) else {
                if self.ended || !self.advance()? {
                    return Ok(());
                }
                continue;
            };
            let (at, words) = (first + self.done, &words[self.done..]);
            if at >= end {
                return Ok(());
            }
            let count = words.len().min(end - at);
            // What lies before `start` was done with the stretch before.
            into[at - start..][..count].copy_from_slice(&words[..count]);
            if count < words.len() {
                self.done += count;
                return Ok(());
            }
            (self.run, self.done) = (self.run + 1, 0);
        }
    }

    fn advance(&mut self) -> Result<bool, Damage> {
        (self.run, self.done) = (0, 0);
        self.ended = !self.reader.next(&mut self.block)?;
        if self.ended {
            self.block = Block::default();
        }
        Ok(!self.ended)
    }

    /// Checks what is left of the file.
    fn end(&mut self) -> Result<(), Damage> {
        while !self.ended {
            self.advance()?;
        }
        self.input.leave_cache();
        Ok(())
    }
}
