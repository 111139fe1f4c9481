//! A disk as the rest of this crate uses it: with paths for messages, and with patience for calls
//! that were interrupted or did half.
//!
//! - A call that was interrupted is tried again, but never a sync.
//! - What is written goes through [`Output`].

use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub(crate) use super::output::Output;
use super::real::RealDisk;
use super::{Disk, DiskFile};
use crate::error::Error;
use crate::mutant::{Mutant, Mutation};

/// A directory and its disk.
#[derive(Debug)]
pub(crate) struct Directory {
    path: PathBuf,
    disk: Arc<dyn Disk>,
    mutation: Mutation,
}

impl Directory {
    /// The directory at `path`, which is created if need be; or `disk`, of which `path` is but the
    /// name.
    pub(crate) fn open(path: &Path, disk: Option<Arc<dyn Disk>>) -> Result<Self, Error> {
        let disk = match disk {
            Some(disk) => disk,
            None => Arc::new(RealDisk::open(path)?),
        };
        Ok(Self { path: path.to_path_buf(), disk, mutation: Mutation::current() })
    }

    /// For tests: whether this mistake is to be made.
    pub(crate) fn is(&self, mutant: Mutant) -> bool {
        self.mutation.is(mutant)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Where `name` lies.
    pub(crate) fn at(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// The names in the directory, in no order.
    pub(crate) fn names(&self) -> Result<Vec<String>, Error> {
        patiently(|| self.disk.names()).map_err(Error::file("listing", &self.path))
    }

    /// An empty new file in the place of whatever had the name.
    pub(crate) fn create(&self, name: &str) -> Result<Output, Error> {
        let file = patiently(|| self.disk.create(name));
        let file = file.map_err(Error::file("creating", self.at(name)))?;
        Ok(Output::new(file, self.mutation))
    }

    /// A file and its length.
    pub(crate) fn open_file(&self, name: &str) -> Result<(Input, u64), Error> {
        let open = || -> io::Result<(Input, u64)> {
            let file = patiently(|| self.disk.open(name))?;
            let length = patiently(|| file.length())?;
            Ok((Input { file: file.into(), offset: 0 }, length))
        };
        open().map_err(Error::file("opening", self.at(name)))
    }

    /// Replaces whatever had the new name.
    pub(crate) fn rename(&self, from: &str, to: &str) -> Result<(), Error> {
        let renamed = patiently(|| self.disk.rename(from, to));
        renamed.map_err(Error::file("renaming", self.at(from)))
    }

    /// Removes a file if it is there.
    pub(crate) fn remove(&self, name: &str) -> Result<(), Error> {
        match patiently(|| self.disk.remove(name)) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                Err(Error::file("removing", self.at(name))(error))
            }
            _ => Ok(()),
        }
    }

    /// Returns when all changes of names have reached the disk.
    pub(crate) fn sync(&self) -> Result<(), Error> {
        self.disk.sync_names().map_err(Error::file("syncing", &self.path))
    }
}

pub(super) fn patiently<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}

/// A file that is read, front to back.
#[derive(Debug, Clone)]
pub(crate) struct Input {
    file: Arc<dyn DiskFile>,
    offset: u64,
}

impl Input {
    /// The same file, from `offset` on.
    pub(crate) fn at(&self, offset: u64) -> Self {
        Self { file: Arc::clone(&self.file), offset }
    }

    /// Reads past the page cache from now on, if the disk can do that, and as long as places,
    /// lengths and memory are [aligned](super::Stage::ALIGN).
    pub(crate) fn pass_cache(&self) {
        self.file.set_direct(true);
    }

    /// A hint that the file will not be read again soon.
    pub(crate) fn leave_cache(&self) {
        self.file.write_behind(0..u64::MAX);
    }
}

impl Read for Input {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let mut read = patiently(|| self.file.read_at(self.offset, bytes));
        if read.as_ref().is_err_and(|error| error.kind() == ErrorKind::InvalidInput) {
            self.file.set_direct(false); // not this file, or not from there
            read = patiently(|| self.file.read_at(self.offset, bytes));
        }
        let read = read?;
        self.offset += read as u64;
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::super::{Fault, SimulatedDisk};
    use super::*;

    fn directory(disk: &SimulatedDisk) -> Directory {
        Directory::open(Path::new("simulated"), Some(Arc::new(disk.clone()))).expect("it is there")
    }

    #[test]
    fn a_file_that_failed_once_refuses_every_later_call() {
        type Call = fn(&mut Output) -> io::Result<()>;
        let write: Call = |file| file.write(&[1; 10]).map(drop);
        let calls: [Call; 3] = [write, Output::sync, |file| file.length().map(drop)];
        for failing in calls {
            let disk = SimulatedDisk::default();
            let mut file = directory(&disk).create("f").expect("sound");
            disk.fail_at(disk.calls() + 1, Fault::IO);
            assert_eq!(failing(&mut file).expect_err("told to").raw_os_error(), Some(5));
            for later in calls {
                assert!(later(&mut file).is_err(), "refused");
            }
            assert_eq!(disk.calls(), 2, "the disk was not asked again");
        }
    }

    #[test]
    fn short_and_interrupted_calls_are_completed() {
        let bytes: Vec<u8> = (0..100).collect();
        for fault in [Fault::ShortWrite, Fault::INTERRUPTED] {
            for call in 1..=7 {
                let disk = SimulatedDisk::default();
                disk.fail_at(call, fault);
                let directory = directory(&disk);
                directory.create("f").expect("tried again").write_all(&bytes).expect("completed");
                directory.rename("f", "g").expect("tried again");
                let (mut input, length) = directory.open_file("g").expect("tried again");
                let mut back = Vec::new();
                input.read_to_end(&mut back).expect("tried again");
                assert_eq!((back, length), (bytes.clone(), 100), "{fault:?} at call {call}");
            }
        }
    }
}
