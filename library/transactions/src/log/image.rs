//! Images on the disk: each a log of its own, whose records are pieces of the image. So their
//! checksums, damage and torn tails are those of the log, which its tests have proved.

use crate::Shape;
use stillframe_durability::disk::Directory;
use stillframe_durability::{Application, Log, LogOptions, Policy};

use super::error::Error;
use super::manifest::Part;
use super::record;

/// Bytes from which on a piece is written.
const PIECE_BYTES: usize = 1 << 18;
/// Bytes of pieces that wait for the disk.
const WAITING_BYTES: usize = 8 << 20;

/// The name of an image that was captured, without its number.
pub(crate) const CAPTURED: &str = "image";
/// That of one that several were laid into.
const MERGED: &str = "merged";

/// Writes an image.
#[derive(Debug)]
pub(crate) struct Writer {
    log: Log,
    piece: Vec<u8>,
    part: Part,
}

impl Writer {
    /// Begins the image of that number, in the place of what an earlier attempt has left.
    pub(crate) fn create(
        directory: &Directory,
        kind: &str,
        number: u64,
        application: &Application,
    ) -> Result<Self, Error> {
        let name = format!("{kind}-{number}");
        if directory.holds(&name)? {
            directory.remove_all_below(&name)?;
        }
        directory.create_below(&name)?;
        let options = LogOptions::policy(Policy::No).waiting_bytes_max(WAITING_BYTES);
        let log = Log::create(directory.below(&name)?, 1, application, options)?;
        Ok(Self { log, piece: Vec::new(), part: Part { name, number, pieces: 0 } })
    }

    /// Adds a record.
    pub(crate) fn record(&mut self, record: usize, words: Option<&[u64]>) -> Result<(), Error> {
        record::push(&mut self.piece, record, words);
        if self.piece.len() >= PIECE_BYTES {
            self.flush()?;
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), Error> {
        self.part.pieces = self.log.append(&self.piece)?;
        self.piece.clear();
        Ok(())
    }

    /// Ends the image, which is durable then, as soon as its directory's name is.
    pub(crate) fn finish(mut self, directory: &Directory) -> Result<Part, Error> {
        if !self.piece.is_empty() {
            self.flush()?;
        }
        self.log.close()?;
        directory.sync()?;
        Ok(self.part)
    }
}

/// Hands out all entries of an image, in order and piece by piece.
///
/// # Errors
/// Damage, or an end before the last piece.
pub(crate) fn read(
    directory: &Directory,
    part: &Part,
    application: &Application,
    mut each: impl FnMut(&[u8]) -> Result<(), String>,
) -> Result<(), Error> {
    let mut pieces = 0;
    if part.pieces > 0 {
        Log::read(directory.below(&part.name)?, 1, false, None, application, |action| {
            pieces += 1;
            each(action.bytes).map_err(Into::into)
        })?;
    }
    if pieces == part.pieces {
        return Ok(());
    }
    let what = format!("it ends after {pieces} of {} pieces", part.pieces);
    Err(Error::Image { path: directory.at(&part.name), what })
}

/// Lays images one over the other and writes what comes of it. Takes as much memory as the state.
pub(crate) fn merge(
    directory: &Directory,
    parts: &[Part],
    shape: Shape,
    application: &Application,
) -> Result<Part, Error> {
    let number = parts.last().map_or(0, |part| part.number);
    let mut words: Vec<u64> = Vec::new();
    let mut present: Vec<bool> = Vec::new();
    let size = shape.records.checked_mul(shape.words).ok_or(Error::Memory)?;
    words.try_reserve_exact(size).map_err(|_| Error::Memory)?;
    present.try_reserve_exact(shape.records).map_err(|_| Error::Memory)?;
    words.resize(size, 0);
    present.resize(shape.records, false);
    for part in parts {
        read(directory, part, application, |piece| {
            record::entries(piece, shape, |record, new| {
                present[record] = new.is_some();
                let into = &mut words[record * shape.words..][..shape.words];
                into.iter_mut()
                    .zip(record::words(new.unwrap_or_default()))
                    .for_each(|(to, word)| *to = word);
            })
        })?;
    }
    let mut writer = Writer::create(directory, MERGED, number, application)?;
    for (record, _) in present.iter().enumerate().filter(|(_, present)| **present) {
        writer.record(record, Some(&words[record * shape.words..][..shape.words]))?;
    }
    writer.finish(directory)
}
