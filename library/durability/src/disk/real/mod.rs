//! The file system of the machine.
//!
//! - What systems differ in is in `real/unix.rs` and `real/windows.rs`, one function a call.
//! - The lock is `flock`'s. A forked child inherits it, so it is released by name, not by closing
//!   the file; a child that outlives its killed parent for an instant is waited for.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use super::{Disk, DiskFile, Input, Lock, Sweeper};
use crate::error::Error;

#[cfg(unix)]
#[path = "unix.rs"]
mod system;
#[cfg(windows)]
#[path = "windows.rs"]
mod system;

/// How long the children of a dead process may take to follow it.
const CHILDREN_END: Duration = Duration::from_secs(10);

/// A directory of the machine's file system.
#[derive(Debug)]
pub struct RealDisk {
    path: PathBuf,
    handle: File,
    sweeper: Option<Arc<Sweeper>>,
}

impl RealDisk {
    /// The directory at `path`.
    ///
    /// # Errors
    /// The operating system's.
    pub fn open(path: &Path) -> io::Result<Self> {
        Self::swept_by(Some(Arc::default()), path)
    }

    fn swept_by(sweeper: Option<Arc<Sweeper>>, path: &Path) -> io::Result<Self> {
        let handle = system::open_directory(path)?;
        // A symbolic link that changes later does not lead elsewhere.
        Ok(Self { path: fs::canonicalize(path)?, handle, sweeper })
    }

    /// The directory at `path`, which is created if need be, with those above it, durably.
    pub(super) fn create(path: &Path) -> Result<Self, Error> {
        create(path)?;
        Self::open(path).map_err(Error::file("opening", path))
    }

    fn at(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    fn create_with(&self, name: &str, model: Option<&Path>) -> io::Result<Box<dyn DiskFile>> {
        let path = self.at(name);
        // Not truncated but replaced: a file that was not synced must not come back under the name.
        match fs::remove_file(&path) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut options = OpenOptions::new();
        options.read(true).write(true).create_new(true);
        let file = match model {
            Some(model) => system::create_like(&mut options, &path, model)?,
            None => options.open(path)?,
        };
        let sweeper = self.sweeper.as_ref().map(Arc::downgrade);
        Ok(Box::new(RealFile { file, room: sweeper.map(Room::from_sweeper) }))
    }
}

impl Disk for RealDisk {
    fn names(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.path)? {
            names.extend(entry?.file_name().into_string());
        }
        Ok(names)
    }

    fn create(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        self.create_with(name, None)
    }

    fn create_like(&self, name: &str, model: &str) -> io::Result<Box<dyn DiskFile>> {
        self.create_with(name, Some(&self.at(model)))
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        Ok(Box::new(open_regular(&self.at(name))?))
    }

    fn identity(&self, name: &str) -> io::Result<Option<(u64, u64)>> {
        Ok(system::identity(&fs::metadata(self.at(name))?))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        fs::rename(self.at(from), self.at(to))
    }

    fn link(&self, from: &str, to: &str) -> io::Result<()> {
        fs::hard_link(self.at(from), self.at(to))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        fs::remove_file(self.at(name))
    }

    fn open_alone(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        let file = system::open_with_one_name(&self.at(name))?;
        match stillframe::os::is_open_alone(&file) {
            Ok(true) => Ok(Box::new(RealFile { file, room: None })),
            Ok(false) => Err(ErrorKind::ResourceBusy.into()),
            Err(_) => Err(ErrorKind::Unsupported.into()),
        }
    }

    fn sweeper(&self) -> Option<(Arc<Sweeper>, Arc<dyn Disk>)> {
        let sweeper = Arc::clone(self.sweeper.as_ref()?);
        let (path, handle) = (self.path.clone(), self.handle.try_clone().ok()?);
        Some((sweeper, Arc::new(Self { path, handle, sweeper: None })))
    }

    fn sync_names(&self) -> io::Result<()> {
        system::sync_names(&self.handle)
    }

    fn below(&self, name: &str) -> io::Result<Arc<dyn Disk>> {
        Ok(Arc::new(Self::swept_by(self.sweeper.clone(), &self.at(name))?))
    }

    fn create_below(&self, name: &str) -> io::Result<()> {
        fs::create_dir(self.at(name))
    }

    fn remove_below(&self, name: &str) -> io::Result<()> {
        fs::remove_dir(self.at(name))
    }

    fn lock(&self, name: &str) -> io::Result<Lock> {
        Ok(Box::new(RealLock::take(&self.at(name))?))
    }
}

#[derive(Debug)]
struct RealFile {
    file: File,
    room: Option<Room>,
}

/// Where room may be had when the disk is full: files on their way to their removal.
#[derive(Debug)]
struct Room {
    sweeper: Weak<Sweeper>,
    /// A forked child has a copy of the sweeper, and nobody to work for it.
    process: u32,
}

impl Room {
    fn from_sweeper(sweeper: Weak<Sweeper>) -> Self {
        Self { sweeper, process: std::process::id() }
    }

    fn make(&self) -> bool {
        self.process == std::process::id()
            && self.sweeper.upgrade().is_some_and(|sweeper| sweeper.make_room())
    }
}

impl RealFile {
    /// Makes the call, and once more if the disk was full and room could be made.
    fn with_room<T>(&self, call: impl Fn() -> io::Result<T>) -> io::Result<T> {
        match call() {
            Err(error)
                if error.kind() == ErrorKind::StorageFull
                    && self.room.as_ref().is_some_and(Room::make) =>
            {
                call()
            }
            result => result,
        }
    }
}

impl DiskFile for RealFile {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<usize> {
        self.with_room(|| system::write_at(&self.file, bytes, offset))
    }

    fn reserve(&self, bytes: u64) -> io::Result<()> {
        self.with_room(|| system::reserve(&self.file, bytes.max(1)))
    }

    fn free(&self) -> io::Result<Option<u64>> {
        system::free(&self.file)
    }

    fn cut(&self, bytes: u64) -> io::Result<()> {
        self.file.set_len(bytes)
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<usize> {
        system::read_at(&self.file, into, offset)
    }

    fn length(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    fn stored(&self) -> io::Result<u64> {
        Ok(system::stored(&self.file.metadata()?))
    }

    fn sync(&self) -> io::Result<()> {
        // fdatasync: it leaves out times, and writes the length, without which no byte is found.
        self.file.sync_data()
    }

    fn set_direct(&self, direct: bool) -> bool {
        system::set_direct(&self.file, direct)
    }

    fn write_behind(&self, range: Range<u64>) {
        system::write_behind(&self.file, range);
    }
}

fn open_regular(path: &Path) -> io::Result<RealFile> {
    // A pipe without a writer does not hold us up, and a device is not read.
    let other = || io::Error::new(ErrorKind::Unsupported, "it is neither a file nor a directory");
    let Some(file) = system::open_to_read(path)? else { return Err(other()) };
    let kind = file.metadata()?.file_type();
    match (kind.is_file(), kind.is_dir()) {
        (true, _) => Ok(RealFile { file, room: None }),
        (_, true) => Err(ErrorKind::IsADirectory.into()),
        _ => Err(other()),
    }
}

/// A regular file by its path, to be read, and its length. The directory it is in need not
/// be readable.
///
/// # Errors
/// As for [`Disk::open`].
pub fn open_path(path: &Path) -> io::Result<(Input, u64)> {
    let file = open_regular(path)?;
    let length = file.length()?;
    Ok((Input::new(Box::new(file)), length))
}

/// Creates a directory and those above it, each durably.
fn create(path: &Path) -> Result<(), Error> {
    if path.is_dir() {
        return Ok(());
    }
    let parent = match path.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    };
    create(parent)?;
    match fs::create_dir(path) {
        Err(error) if !path.is_dir() => return Err(Error::file("creating", path)(error)),
        _ => {}
    }
    let sync = system::open_directory(parent).and_then(|parent| system::sync_names(&parent));
    sync.map_err(Error::file("syncing", parent))
}

/// A lock file of this process.
#[derive(Debug)]
struct RealLock(File);

impl RealLock {
    fn take(path: &Path) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        let mut file = options.read(true).write(true).create(true).truncate(false).open(path)?;
        let started = Instant::now();
        loop {
            match file.try_lock() {
                Ok(()) => break,
                Err(TryLockError::Error(error)) => return Err(error),
                Err(TryLockError::WouldBlock) => {}
            }
            let process = fs::read_to_string(path).ok().and_then(|text| text.trim().parse().ok());
            if process.is_none_or(system::is_alive) || started.elapsed() > CHILDREN_END {
                return Err(ErrorKind::WouldBlock.into());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        file.set_len(0)?;
        writeln!(file, "{}", std::process::id())?;
        Ok(Self(file))
    }
}

impl Drop for RealLock {
    fn drop(&mut self) {
        let _ = self.0.unlock(); // the end of the process would do it, too
    }
}
