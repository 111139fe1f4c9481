//! A snapshot that comes in: its files are written into a directory of their own.

use std::io;
use std::sync::Arc;

use stillframe_durability::disk::{Directory, DiskFile, Location, make_room, write_all_at};

use super::Head;
use crate::error::Error;
use crate::manifest;

/// What has come is synced after so many bytes: the disk, which the log needs as well, never has
/// much to catch up with.
const SYNC_BYTES: u64 = 4 << 20;

/// A snapshot as far as it has come. When dropped before it was kept, its files go.
#[derive(Debug)]
pub struct Incoming {
    /// The directory of the member, locked as long as this is there, and in it that of the files.
    root: Arc<Directory>,
    number: u64,
    directory: Directory,
    is_name: fn(&str) -> bool,
    /// The stream so far, until its head is known.
    start: Vec<u8>,
    open: Option<Open>,
    /// Where what has come ends.
    end: u64,
    /// How far it was synced.
    synced: u64,
    is_kept: bool,
}

/// The files, once the head has said which there are.
#[derive(Debug)]
struct Open {
    head: Head,
    head_bytes: u64,
    files: Vec<Part>,
}

#[derive(Debug)]
struct Part {
    file: Box<dyn DiskFile>,
    /// Where it lies in the stream.
    start: u64,
    end: u64,
}

impl Incoming {
    /// Files go into the directory of state `number` in `root`, which must not be there yet.
    ///
    /// # Errors
    /// [`Error`]; nothing is left.
    pub fn create(
        root: Arc<Directory>,
        number: u64,
        is_name: fn(&str) -> bool,
    ) -> Result<Self, Error> {
        let name = manifest::state(number);
        root.create_below(&name)?;
        let directory = Directory::existing(root.below(&name)?)?;
        let (start, open, end, synced) = (Vec::new(), None, 0, 0);
        Ok(Self { root, number, directory, is_name, start, open, end, synced, is_kept: false })
    }

    /// The number of the state that it is to be.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// Where what has come ends.
    pub(crate) fn end(&self) -> u64 {
        self.end
    }

    /// Takes the bytes at `position` of the stream.
    pub(crate) fn write_at(&mut self, position: u64, bytes: &[u8]) -> io::Result<()> {
        if position > self.end {
            let end = self.end;
            let text = format!("bytes {end} to {position} of the snapshot are missing");
            return Err(io::Error::other(text));
        }
        if self.open.is_none() {
            self.start.truncate(position as usize); // not beyond its end
            self.start.extend_from_slice(bytes);
            self.end = self.start.len() as u64;
            let decoded = Head::decode(&self.start).map_err(io::Error::other)?;
            let Some((head, head_bytes)) = decoded else { return Ok(()) };
            let rest = self.start.split_off(head_bytes);
            let open = self.create_files(head, head_bytes as u64)?;
            open.write_at(head_bytes as u64, &rest)?;
            self.open = Some(open);
            return Ok(());
        }
        let Some(open) = &self.open else { return Ok(()) };
        let again = (open.head_bytes.saturating_sub(position) as usize).min(bytes.len());
        let from = position as usize;
        if again > 0 && self.start.get(from..from + again) != Some(&bytes[..again]) {
            return Err(io::Error::other("the head of the snapshot has changed"));
        }
        open.write_at(position + again as u64, &bytes[again..])?;
        self.end = self.end.max(position + bytes.len() as u64);
        if self.end - self.synced >= SYNC_BYTES {
            open.sync(self.synced, self.end)?;
            self.synced = self.end;
        }
        Ok(())
    }

    fn create_files(&self, head: Head, head_bytes: u64) -> io::Result<Open> {
        let mut start = head_bytes;
        let mut files: Vec<Part> = Vec::with_capacity(head.files.len());
        for (index, (name, bytes)) in head.files.iter().enumerate() {
            let is_twice = head.files[..index].iter().any(|(earlier, _)| earlier == name);
            if is_twice || !(self.is_name)(name) {
                let text = format!("the snapshot has a file {name:?}, which is none of an image");
                return Err(io::Error::other(text));
            }
            let file = self.directory.create_file(name).map_err(io::Error::other)?;
            make_room(&*file, *bytes)?;
            files.push(Part { file, start, end: start + bytes });
            start += bytes;
        }
        Ok(Open { head, head_bytes, files })
    }

    /// The name of the directory of its files in the root.
    #[must_use]
    pub fn name(&self) -> String {
        manifest::state(self.number)
    }

    /// All has come: makes it durable. Returns the name of the image, and where its files are.
    ///
    /// # Errors
    /// [`Error`]: something is missing, or the disk has failed.
    pub fn make_durable(&self) -> Result<(String, Location), Error> {
        self.finish(true)
    }

    pub(crate) fn finish(&self, syncs: bool) -> Result<(String, Location), Error> {
        let id = || self.open.as_ref().map_or_else(String::new, |open| open.head.id.clone());
        let wrong = |what: String| Error::Snapshot { id: id(), what };
        let open = self.open.as_ref().ok_or_else(|| wrong("it ends in its head".into()))?;
        let whole = open.files.last().map_or(open.head_bytes, |last| last.end);
        if self.end != whole {
            return Err(wrong(format!("{} of its {whole} bytes have come", self.end)));
        }
        if syncs {
            self.sync()?;
        }
        Ok((id(), self.root.below(&manifest::state(self.number))?))
    }

    /// Makes what has come so far durable.
    pub(super) fn sync(&self) -> Result<(), stillframe_durability::Error> {
        for part in self.open.iter().flat_map(|open| &open.files) {
            let failed = stillframe_durability::Error::file("syncing", self.directory.path());
            part.file.sync().map_err(failed)?;
        }
        self.directory.sync().and_then(|()| self.root.sync())
    }

    /// The files stay: they may be all that is left of the entries in them.
    pub fn keep(&mut self) {
        self.is_kept = true;
    }

    /// The files go: they are no snapshot.
    pub(crate) fn give_up(&mut self) {
        self.is_kept = false;
    }
}

impl Open {
    /// Syncs the files that have some of the bytes from `start` up to `end` of the stream.
    fn sync(&self, start: u64, end: u64) -> io::Result<()> {
        let mut written = self.files.iter().filter(|part| part.start < end && part.end > start);
        written.try_for_each(|part| part.file.sync())
    }

    fn write_at(&self, mut position: u64, mut bytes: &[u8]) -> io::Result<()> {
        for part in &self.files {
            if bytes.is_empty() {
                return Ok(());
            }
            if position < part.end {
                let fits = bytes.len().min((part.end - position) as usize);
                write_all_at(&*part.file, position - part.start, &bytes[..fits])?;
                position += fits as u64;
                bytes = &bytes[fits..];
            }
        }
        match bytes.len() {
            0 => Ok(()),
            more => Err(io::Error::other(format!("the snapshot has {more} bytes too many"))),
        }
    }
}

impl Drop for Incoming {
    fn drop(&mut self) {
        if !self.is_kept {
            self.open = None;
            // If that fails, the next start does it.
            let _ = self.root.remove_all_below(&manifest::state(self.number));
        }
    }
}
