//! The file system of the machine.
//!
//! - The lock is `flock`'s. A forked child inherits it, so it is released by name, not by closing
//!   the file; a child that outlives its killed parent for an instant is waited for.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind, Write};
use std::num::NonZeroU64;
use std::ops::Range;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::fs::{Advice, FallocateFlags, OFlags, fadvise, fallocate, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;

use super::{Disk, DiskFile, Input, Lock};
use crate::error::Error;

const DIRECTORY: i32 = OFlags::DIRECTORY.bits() as i32;
const NO_WAIT: i32 = OFlags::NONBLOCK.union(OFlags::NOCTTY).bits() as i32;
/// How long the children of a dead process may take to follow it.
const CHILDREN_END: Duration = Duration::from_secs(10);

/// A directory of the machine's file system.
#[derive(Debug)]
pub struct RealDisk {
    path: PathBuf,
    handle: File,
}

impl RealDisk {
    /// The directory at `path`.
    ///
    /// # Errors
    /// The operating system's.
    pub fn open(path: &Path) -> io::Result<Self> {
        let handle = OpenOptions::new().read(true).custom_flags(DIRECTORY).open(path)?;
        // A symbolic link that changes later does not lead elsewhere.
        Ok(Self { path: fs::canonicalize(path)?, handle })
    }

    /// The directory at `path`, which is created if need be, with those above it, durably.
    pub(super) fn create(path: &Path) -> Result<Self, Error> {
        create(path)?;
        Self::open(path).map_err(Error::file("opening", path))
    }

    fn at(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    fn create_with(&self, name: &str, mode: Option<u32>) -> io::Result<Box<dyn DiskFile>> {
        let path = self.at(name);
        // Not truncated but replaced: a file that was not synced must not come back under the name.
        match fs::remove_file(&path) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut options = OpenOptions::new();
        options.read(true).write(true).create_new(true);
        if mode.is_some() {
            options.mode(0o600); // until it has its own
        }
        let file = options.open(path)?;
        if let Some(mode) = mode {
            file.set_permissions(fs::Permissions::from_mode(mode))?;
        }
        Ok(Box::new(RealFile(file)))
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
        let mode = fs::metadata(self.at(model)).map(|model| model.permissions().mode());
        self.create_with(name, Some(mode.unwrap_or(0o600)))
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        Ok(Box::new(open_regular(&self.at(name))?))
    }

    fn identity(&self, name: &str) -> io::Result<Option<(u64, u64)>> {
        fs::metadata(self.at(name)).map(|found| Some((found.dev(), found.ino())))
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

    fn sync_names(&self) -> io::Result<()> {
        self.handle.sync_all()
    }

    fn below(&self, name: &str) -> io::Result<Arc<dyn Disk>> {
        Ok(Arc::new(Self::open(&self.at(name))?))
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
struct RealFile(File);

impl DiskFile for RealFile {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<usize> {
        self.0.write_at(bytes, offset)
    }

    fn reserve(&self, bytes: u64) -> io::Result<()> {
        match fallocate(&self.0, FallocateFlags::KEEP_SIZE, 0, bytes.max(1)) {
            // Some file systems cannot; the write will show.
            Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<usize> {
        self.0.read_at(into, offset)
    }

    fn length(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn stored(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.blocks().saturating_mul(512))
    }

    fn sync(&self) -> io::Result<()> {
        // fdatasync: it leaves out times, and writes the length, without which no byte is found.
        self.0.sync_data()
    }

    fn set_direct(&self, direct: bool) -> bool {
        let set = fcntl_getfl(&self.0).and_then(|mut flags| {
            flags.set(OFlags::DIRECT, direct);
            fcntl_setfl(&self.0, flags)
        });
        set.is_ok() // some file systems have no such thing
    }

    fn write_behind(&self, range: Range<u64>) {
        // Linux starts to write the dirty pages of the range and drops the clean ones; it waits for
        // neither. Elsewhere it may do less, and nothing depends on it.
        if let Some(length) = NonZeroU64::new(range.end.saturating_sub(range.start)) {
            let _ = fadvise(&self.0, range.start, Some(length), Advice::DontNeed);
        }
    }
}

fn open_regular(path: &Path) -> io::Result<RealFile> {
    // A pipe without a writer does not hold us up, and a device is not read.
    let other = || io::Error::new(ErrorKind::Unsupported, "it is neither a file nor a directory");
    let file = match OpenOptions::new().read(true).custom_flags(NO_WAIT).open(path) {
        Err(error) if Errno::from_io_error(&error) == Some(Errno::NXIO) => return Err(other()),
        file => file?,
    };
    let kind = file.metadata()?.file_type();
    match (kind.is_file(), kind.is_dir()) {
        (true, _) => Ok(RealFile(file)),
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
    let sync = File::open(parent).and_then(|parent| parent.sync_all());
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
            if process.is_none_or(is_alive) || started.elapsed() > CHILDREN_END {
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

fn is_alive(process: u32) -> bool {
    let process = i32::try_from(process).ok().and_then(rustix::process::Pid::from_raw);
    let Some(process) = process else { return false };
    rustix::process::test_kill_process(process) != Err(rustix::io::Errno::SRCH)
}
