//! Appends records to a log.
//!
//! - Only [`Writer::sync`] acknowledges a record, after it has written a mark (W6), and only if the
//!   file is still the one under its name.
//! - After an error the writer is of no use: records that it had not synced are in doubt. The log
//!   goes on after a recovery.

use std::io::{ErrorKind, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::reader::Report;
use super::{Header, MARK, Record, TEMPORARY, name};
use crate::disk::{Directory, Output};
use crate::error::Error;
use crate::mutant::Mutant;

/// A log that is being written.
#[derive(Debug)]
pub(crate) struct Writer {
    directory: Arc<Directory>,
    path: PathBuf,
    header: Header,
    output: Output,
    /// Records that are not in the file yet.
    buffer: Vec<u8>,
    /// The number of the next record.
    next: u64,
    /// All records up to this one are on the disk.
    synced: u64,
    /// All records up to this one are proved by the segment's name or by a mark in it.
    marked: u64,
    /// Bytes in the file.
    bytes: u64,
    /// What distinguishes the file from any other, once it has its name.
    identity: Option<(u64, u64)>,
}

impl Writer {
    /// Goes on after a recovery, in a new segment: `header` lacks only its first record. Records
    /// that were found, but are not proved to be on the disk, are written anew.
    pub(crate) fn resume(
        directory: Arc<Directory>,
        found: &Report,
        header: Header,
    ) -> Result<Self, Error> {
        let mut unproved: Vec<_> =
            found.unproved.iter().map(|(time, payload)| (*time, &payload[..])).collect();
        if directory.is(Mutant::LogTrustsItsTail) {
            unproved.clear();
        }
        let first = found.next - unproved.len() as u64;
        Self::create(directory, Header { first, ..header }, &unproved)
    }

    /// A new segment that starts with `records`; all before are on the disk (W1).
    fn create(
        directory: Arc<Directory>,
        header: Header,
        records: &[(u64, &[u8])],
    ) -> Result<Self, Error> {
        let name = name(header.first);
        let path = directory.at(&name);
        let output = directory.create(TEMPORARY)?;
        let (buffer, next) = (header.encode().to_vec(), header.first);
        let (synced, marked, bytes, identity) = (next - 1, next - 1, 0, None);
        let mut writer =
            Self { directory, path, header, output, buffer, next, synced, marked, bytes, identity };
        for &(time_ms, payload) in records {
            writer.append(time_ms, payload)?;
        }
        if writer.directory.is(Mutant::LogStartNotSynced) {
            writer.write()?;
        } else {
            writer.sync_file()?;
        }
        if writer.directory.is(Mutant::LogMarkedUnnamed) {
            writer.mark()?;
        }
        writer.directory.rename(TEMPORARY, &name)?;
        if !writer.directory.is(Mutant::LogNamesNotSynced) {
            writer.directory.sync()?;
        }
        writer.identity = writer.identity_now()?;
        writer.mark()?;
        Ok(writer)
    }

    /// Adds a record, in memory; returns its number.
    pub(crate) fn append(&mut self, time_ms: u64, payload: &[u8]) -> Result<u64, Error> {
        let sequence = self.next;
        let unsynced = match u32::try_from(sequence - 1 - self.synced) {
            _ if self.directory.is(Mutant::LogProvesTooMuch) => 0,
            Ok(unsynced) if unsynced != MARK => unsynced,
            _ => {
                self.sync()?; // the field holds no more
                0
            }
        };
        let record = Record { sequence, unsynced, time_ms, payload };
        record.encode(self.header.nonce, &mut self.buffer).ok_or_else(|| {
            let long = std::io::Error::from(std::io::ErrorKind::FileTooLarge);
            Error::file("adding a record of 4 GiB or more to", &self.path)(long)
        })?;
        self.next += 1;
        Ok(sequence)
    }

    /// Hands all records to the operating system: they survive the end of this process.
    pub(crate) fn write(&mut self) -> Result<(), Error> {
        let written = self.output.write_all(&self.buffer);
        written.map_err(Error::file("writing", &self.path))?;
        self.bytes += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }

    /// Makes all records durable, and marks that they are; returns the number of the last one.
    pub(crate) fn sync(&mut self) -> Result<u64, Error> {
        if self.directory.is(Mutant::LogMarkedEarly) {
            self.mark()?;
        }
        self.sync_file()?;
        self.check_identity()?;
        self.mark()?;
        Ok(self.synced)
    }

    /// Makes sure that the file is still the one that a recovery would read.
    pub(crate) fn check_identity(&self) -> Result<(), Error> {
        if self.identity_now()? == self.identity {
            return Ok(());
        }
        Err(Error::Vanished { path: self.path.clone() })
    }

    fn identity_now(&self) -> Result<Option<(u64, u64)>, Error> {
        match self.directory.identity(&name(self.header.first)) {
            Err(error)
                if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) =>
            {
                Err(Error::Vanished { path: self.path.clone() })
            }
            found => found.map_err(Error::file("looking at", &self.path)),
        }
    }

    fn sync_file(&mut self) -> Result<(), Error> {
        self.write()?;
        self.output.sync().map_err(Error::file("syncing", &self.path))?;
        self.synced = self.last();
        Ok(())
    }

    /// Says in the file that all records up to here are on the disk, and under which name (W6).
    fn mark(&mut self) -> Result<(), Error> {
        if self.marked == self.last() {
            return Ok(());
        }
        self.marked = self.last();
        let mark = Record::mark(self.marked).encode(self.header.nonce, &mut self.buffer);
        mark.expect("it has no payload");
        self.write()
    }

    /// How long the next sync takes: see [`Disk::sync_time`](crate::disk::Disk::sync_time).
    pub(crate) fn sync_time(&self) -> Option<Duration> {
        self.directory.sync_time()
    }

    /// Bytes in memory, not in the file yet.
    pub(crate) fn buffered(&self) -> usize {
        self.buffer.len()
    }

    /// Bytes in the file.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// All records up to this one are on the disk.
    pub(crate) fn synced(&self) -> u64 {
        self.synced
    }

    /// The number of the last record.
    pub(crate) fn last(&self) -> u64 {
        self.next - 1
    }

    /// Whether there is a record in the segment.
    pub(crate) fn has_records(&self) -> bool {
        self.last() >= self.header.first
    }

    /// Goes on in a new segment; all records so far become durable.
    pub(crate) fn rotate(mut self, created_ms: u64, nonce: u64) -> Result<Self, Error> {
        if self.directory.is(Mutant::LogRotatesUnsynced) {
            self.write()?;
        } else if self.synced < self.last() {
            self.sync()?;
        }
        let header = Header { first: self.next, created_ms, nonce, ..self.header };
        Self::create(self.directory, header, &[])
    }
}
