//! A disk for its users: with paths for messages, and with interrupted and short calls tried again,
//! except a sync. This crate writes all its files through [`Output`].

use std::io::{self, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::calls::patiently;
use super::input::Input;
use super::output::Output;
use super::real::RealDisk;
use super::sweeper::{self, Sweeper, is_gone};
use super::{Disk, DiskFile, Lock};
use crate::application::{Application, Claim, Owner, refuse_server};
use crate::error::Error;
use crate::mutant::{Mutant, Mutation};

/// The lock of the directory of a store or log.
pub(crate) const LOCK: &str = "lock";

/// Where a directory is: a path in the machine's file system, or another disk, whose name the path
/// then is. A path converts into the former.
#[derive(Debug, Clone)]
pub struct Location {
    path: PathBuf,
    disk: Option<Arc<dyn Disk>>,
}

impl<P: AsRef<Path>> From<P> for Location {
    fn from(path: P) -> Self {
        Self { path: path.as_ref().to_path_buf(), disk: None }
    }
}

impl Location {
    /// On `disk`, under this name.
    pub fn on(path: impl Into<PathBuf>, disk: Arc<dyn Disk>) -> Self {
        Self { path: path.into(), disk: Some(disk) }
    }

    /// The path, or name.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The disk, if it is not in the machine's file system.
    #[must_use]
    pub fn disk(&self) -> Option<&Arc<dyn Disk>> {
        self.disk.as_ref()
    }
}

/// A directory and its disk.
#[derive(Debug)]
pub struct Directory {
    path: PathBuf,
    disk: Arc<dyn Disk>,
    mutation: Mutation,
    lock: Option<Lock>,
    /// The application that opens it; a tool opens any directory.
    claim: Option<Claim>,
}

/// A file on its way to its name: a checkpoint, a dump, any file that is replaced whole.
#[derive(Debug)]
pub struct Unpublished<'a> {
    /// The file; if it was written, every byte is flushed.
    pub file: &'a mut Output,
    /// How long it must be, if that is known.
    pub bytes: Option<u64>,
    /// The name that it has.
    pub temporary: &'a str,
    /// The name that it is to have.
    pub name: &'a str,
}

impl Directory {
    /// The directory of a store or log, which is created if need be, and locked.
    pub(crate) fn open(path: &Path, disk: Option<Arc<dyn Disk>>) -> Result<Self, Error> {
        let directory = Self::create_at(Location { path: path.to_path_buf(), disk })?;
        refuse_server(&directory.path, &directory.names()?)?;
        directory.locked(LOCK)
    }

    /// The same, opened for an application, whose name new files carry.
    pub(crate) fn claimed(mut self, application: &Application) -> Result<Self, Error> {
        self.claim = Some(Claim::from_application(application)?);
        Ok(self)
    }

    /// The same, with new files that carry this name.
    pub(crate) fn owned(self, owner: Owner) -> Self {
        Self { claim: Some(Claim::any(owner)), ..self }
    }

    pub(crate) fn claim(&self) -> Option<Claim> {
        self.claim
    }

    /// The owner that new files name.
    pub(crate) fn owner(&self) -> Owner {
        self.claim.map_or_else(Owner::default, |claim| claim.owner)
    }

    /// A directory that is there. It is not locked.
    ///
    /// # Errors
    /// [`Error::File`].
    pub fn existing(location: impl Into<Location>) -> Result<Self, Error> {
        let Location { path, disk } = location.into();
        let disk = match disk {
            Some(disk) => disk,
            None => Arc::new(RealDisk::open(&path).map_err(Error::file("opening", &path))?),
        };
        Ok(Self { path, disk, mutation: Mutation::current(), lock: None, claim: None })
    }

    /// A directory that is made if need be, with those above it. It is not locked.
    ///
    /// # Errors
    /// [`Error::File`].
    pub fn create_at(location: impl Into<Location>) -> Result<Self, Error> {
        let Location { path, disk } = location.into();
        let disk = match disk {
            Some(disk) => disk,
            None => Arc::new(RealDisk::create(&path)?),
        };
        Self::existing(Location { path, disk: Some(disk) })
    }

    /// Takes the lock of this name, for as long as the directory is open, and
    /// [sweeps](Self::sweep).
    ///
    /// # Errors
    /// [`Error::Locked`] if another has it.
    pub fn locked(mut self, name: &str) -> Result<Self, Error> {
        self.lock = Some(match patiently(|| self.disk.lock(name)) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                let process = self.read_text(name).ok().and_then(|text| text.trim().parse().ok());
                return Err(Error::Locked { directory: self.path, process });
            }
            lock => lock.map_err(Error::file("locking", self.at(name)))?,
        });
        self.sweep()?;
        Ok(self)
    }

    /// How long the next sync takes, on a disk without a time of its own: see
    /// [`Disk::sync_time`].
    #[must_use]
    pub fn sync_time(&self) -> Option<Duration> {
        self.disk.sync_time()
    }

    /// A directory in this one.
    ///
    /// # Errors
    /// [`Error::File`]; see [`Disk::below`].
    pub fn below(&self, name: &str) -> Result<Location, Error> {
        let disk = patiently(|| self.disk.below(name));
        Ok(Location::on(self.at(name), disk.map_err(Error::file("opening", self.at(name)))?))
    }

    /// Makes a directory in this one.
    ///
    /// # Errors
    /// [`Error::File`].
    pub fn create_below(&self, name: &str) -> Result<(), Error> {
        patiently(|| self.disk.create_below(name)).map_err(Error::file("creating", self.at(name)))
    }

    /// For tests: whether this mistake is to be made.
    pub(crate) fn is(&self, mutant: Mutant) -> bool {
        self.mutation.is(mutant)
    }

    /// Its path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Where `name` lies.
    #[must_use]
    pub fn at(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// The names in the directory, in no order.
    ///
    /// # Errors
    /// [`Error::File`].
    pub fn names(&self) -> Result<Vec<String>, Error> {
        patiently(|| self.disk.names()).map_err(Error::file("listing", &self.path))
    }

    /// Removes a directory in this one, with nothing in it.
    ///
    /// # Errors
    /// [`Error::File`].
    pub fn remove_below(&self, name: &str) -> Result<(), Error> {
        patiently(|| self.disk.remove_below(name)).map_err(Error::file("removing", self.at(name)))
    }

    /// Removes a directory in this one with the files in it, as [`discard`](Self::discard) does a
    /// file: after a crash it is there whole, or not at all. That is durable when this returns.
    ///
    /// # Errors
    /// [`Error::File`].
    pub fn remove_all_below(&self, name: &str) -> Result<(), Error> {
        let (sweeper, bare) = self.sweeper();
        let aside = sweeper::put_aside(&*bare, |aside| bare.rename(name, aside));
        let aside = aside.map_err(Error::file("removing", self.at(name)))?;
        sweeper.remove(bare, aside, self.mutation);
        self.sync()
    }

    /// An empty new file in the place of whatever had the name, to be written front to back.
    ///
    /// # Errors
    /// [`Error::File`].
    pub fn create(&self, name: &str) -> Result<Output, Error> {
        Ok(Output::new(self.create_file(name)?, self.mutation))
    }

    /// An empty new file in the place of whatever had the name.
    ///
    /// # Errors
    /// [`Error::File`].
    pub fn create_file(&self, name: &str) -> Result<Box<dyn DiskFile>, Error> {
        patiently(|| self.disk.create(name)).map_err(Error::file("creating", self.at(name)))
    }

    /// Ends a file that was `written`, or failed to be: gives it its name, durably, or removes it.
    /// Returns its length with what was written. `ready` runs when the bytes are on the disk and
    /// whatever had the name still has it.
    ///
    /// A file that failed at any step is never used again: it may hold bytes that are on no disk.
    ///
    /// # Errors
    /// Why it was not written, those of `ready`, and [`Error::File`]. Unless the last sync failed,
    /// whatever had the name still has it.
    pub fn publish<T, E: From<Error>>(
        &self,
        unpublished: Unpublished<'_>,
        written: Result<T, E>,
        ready: impl FnOnce() -> Result<(), E>,
    ) -> Result<(T, u64), E> {
        let temporary = unpublished.temporary;
        let published =
            written.and_then(|report| Ok((report, self.make_durable(unpublished, ready)?)));
        if published.is_err() {
            let _ = self.discard(temporary); // the next one replaces it in any case
        }
        published
    }

    fn make_durable<E: From<Error>>(
        &self,
        unpublished: Unpublished<'_>,
        ready: impl FnOnce() -> Result<(), E>,
    ) -> Result<u64, E> {
        let Unpublished { file, bytes, temporary, name } = unpublished;
        let failed = |action| Error::file(action, self.at(temporary));
        let length = file.length().map_err(failed("measuring"))?;
        if bytes.is_some_and(|bytes| bytes != length) {
            let lost = io::Error::other("the file lost bytes that were written");
            return Err(failed("measuring")(lost).into());
        }
        if !self.is(Mutant::FileNotSynced) {
            file.sync().map_err(failed("syncing"))?;
        }
        ready()?;
        let replaced = self.keep_large(name);
        let renamed = self.rename(temporary, name).and_then(|()| match self.mutation {
            mutation if mutation.is(Mutant::NamesNotSynced) => Ok(()),
            _ => self.sync(),
        });
        if let Some((sweeper, bare, aside)) = replaced {
            sweeper.remove(bare, aside, self.mutation); // an old name stays
        }
        renamed.map(|()| length).map_err(E::from)
    }

    /// Gives a large file that is to be replaced a second name, under which it goes.
    fn keep_large(&self, name: &str) -> Option<(Arc<Sweeper>, Arc<dyn Disk>, String)> {
        let (sweeper, bare) = self.sweeper();
        if !self.is_large(name, &sweeper) {
            return None;
        }
        let aside = sweeper::put_aside(&*bare, |aside| bare.link(name, aside)).ok()?;
        Some((sweeper, bare, aside))
    }

    fn is_large(&self, name: &str, sweeper: &Sweeper) -> bool {
        let most = sweeper.piece_bytes();
        most < u64::MAX && self.open_file(name).is_ok_and(|(_, bytes)| bytes > most)
    }

    /// Puts a file of these bytes in the place of another, or of none, by way of the file
    /// `temporary`: after a crash there is the old one or the new one, and the new one once this
    /// has returned. It has the permissions of the old one; without one, its owner's alone.
    ///
    /// # Errors
    /// [`Error::File`]; unless the last sync failed, the old one is as it was.
    pub fn replace(&self, name: &str, temporary: &str, bytes: &[u8]) -> Result<(), Error> {
        let created = patiently(|| self.disk.create_like(temporary, name));
        let file =
            created.map_err(Error::file("creating", self.at(temporary))).inspect_err(|_| {
                let _ = self.remove(temporary); // it may not even be there
            })?;
        let mut output = Output::new(file, self.mutation);
        let written = output.write_all(bytes).and_then(|()| output.flush());
        let written = written.map_err(Error::file("writing", self.at(temporary)));
        let bytes = Some(bytes.len() as u64);
        let unpublished = Unpublished { file: &mut output, bytes, temporary, name };
        self.publish(unpublished, written, || Ok(())).map(drop)
    }

    /// A file and its length.
    ///
    /// # Errors
    /// [`Error::File`].
    pub fn open_file(&self, name: &str) -> Result<(Input, u64), Error> {
        let open = || -> io::Result<(Input, u64)> {
            let file = patiently(|| self.disk.open(name))?;
            let length = patiently(|| file.length())?;
            Ok((Input::new(file), length))
        };
        open().map_err(Error::file("opening", self.at(name)))
    }

    /// Whether there is a file or directory of this name.
    ///
    /// # Errors
    /// [`Error::File`].
    pub fn holds(&self, name: &str) -> Result<bool, Error> {
        Ok(self.names()?.iter().any(|it| it == name))
    }

    /// All of a small file.
    ///
    /// # Errors
    /// [`Error::File`], also if it is no text.
    pub fn read_text(&self, name: &str) -> Result<String, Error> {
        let mut text = String::new();
        let read = self.open_file(name)?.0.read_to_string(&mut text);
        read.map_err(Error::file("reading", self.at(name)))?;
        Ok(text)
    }

    /// What distinguishes a file from any other; see [`Disk::identity`].
    pub(crate) fn identity(&self, name: &str) -> io::Result<Option<(u64, u64)>> {
        patiently(|| self.disk.identity(name))
    }

    /// Replaces whatever had the new name.
    ///
    /// # Errors
    /// [`Error::File`].
    pub fn rename(&self, from: &str, to: &str) -> Result<(), Error> {
        let renamed = patiently(|| self.disk.rename(from, to));
        renamed.map_err(Error::file("renaming", self.at(from)))
    }

    /// Gives a file a second name; one that has it already keeps it.
    ///
    /// # Errors
    /// [`Error::File`]; of kind [`Unsupported`](ErrorKind::Unsupported) or
    /// [`PermissionDenied`](ErrorKind::PermissionDenied) where files have one name only.
    pub fn link(&self, from: &str, to: &str) -> Result<(), Error> {
        match patiently(|| self.disk.link(from, to)) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => {
                Err(Error::file("linking", self.at(to))(error))
            }
            _ => Ok(()),
        }
    }

    /// Removes a file if it is there.
    ///
    /// # Errors
    /// [`Error::File`].
    pub fn remove(&self, name: &str) -> Result<(), Error> {
        match patiently(|| self.disk.remove(name)) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                Err(Error::file("removing", self.at(name))(error))
            }
            _ => Ok(()),
        }
    }

    /// Removes a file if it is there, which may be large, so that nobody waits for the disk
    /// meanwhile: it gets a name that means nothing else, and its bytes go in the background. As
    /// for [`remove`](Self::remove), [`sync`](Self::sync) makes that durable.
    ///
    /// # Errors
    /// [`Error::File`].
    pub fn discard(&self, name: &str) -> Result<(), Error> {
        let (sweeper, bare) = self.sweeper();
        if self.is_large(name, &sweeper)
            && let Ok(aside) = sweeper::put_aside(&*bare, |aside| bare.rename(name, aside))
        {
            sweeper.remove(bare, aside, self.mutation);
            return Ok(());
        }
        self.remove(name)
    }

    /// Removes, in the background, what was discarded before and has not gone: for a start.
    ///
    /// # Errors
    /// [`Error::File`].
    pub fn sweep(&self) -> Result<(), Error> {
        for name in self.names()?.into_iter().filter(|name| is_gone(name)) {
            let (sweeper, bare) = self.sweeper();
            sweeper.remove(bare, name, self.mutation);
        }
        Ok(())
    }

    /// What removes files in pieces, and the directory for its use; without a sweeper of the disk
    /// they go at once.
    fn sweeper(&self) -> (Arc<Sweeper>, Arc<dyn Disk>) {
        let at_once = || (Arc::new(Sweeper::in_place(u64::MAX)), Arc::clone(&self.disk));
        self.disk.sweeper().unwrap_or_else(at_once)
    }

    /// Returns when all that was discarded has gone, but for what another has open.
    pub fn finish_sweep(&self) {
        self.sweeper().0.finish();
    }

    /// Returns when all changes of names have reached the disk.
    ///
    /// # Errors
    /// [`Error::File`].
    pub fn sync(&self) -> Result<(), Error> {
        self.disk.sync_names().map_err(Error::file("syncing", &self.path))
    }
}

#[cfg(test)]
mod tests {
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
            assert_eq!(failing(&mut file).expect_err("the file fails").raw_os_error(), Some(5));
            for later in calls {
                assert!(later(&mut file).is_err(), "refused");
            }
            assert_eq!(disk.calls(), 5, "the disk was not asked again");
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
