//! The file system of the machine.
//!
//! - The lock is `flock`'s. A forked child inherits it, so it is released by name, not by closing
//!   the file; a child that outlives its killed parent for an instant is waited for.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::num::NonZeroU64;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{Advice, FallocateFlags, OFlags, fadvise, fallocate, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;

use super::{Disk, DiskFile};
use crate::error::Error;

/// Held by the process that has the directory open.
pub(crate) const LOCK: &str = "lock";
/// How long the children of a dead process may take to follow it.
const CHILDREN_END: Duration = Duration::from_secs(10);

/// A directory, held by this value alone among all processes.
#[derive(Debug)]
pub(crate) struct RealDisk {
    path: PathBuf,
    handle: File,
    lock: File,
}

impl RealDisk {
    /// Creates the directory if need be, and takes it for this process.
    pub(crate) fn open(path: &Path) -> Result<Self, Error> {
        create(path)?;
        let lock = lock(path)?;
        let handle = File::open(path).map_err(Error::file("opening", path))?;
        Ok(Self { path: path.to_path_buf(), handle, lock })
    }

    fn at(&self, name: &str) -> PathBuf {
        self.path.join(name)
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
        let path = self.at(name);
        // Not truncated but replaced: a file that was not synced must not come back under the name.
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let file = OpenOptions::new().write(true).create_new(true).open(path)?;
        Ok(Box::new(RealFile(file)))
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        Ok(Box::new(RealFile(File::open(self.at(name))?)))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        fs::rename(self.at(from), self.at(to))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        fs::remove_file(self.at(name))
    }

    fn sync_names(&self) -> io::Result<()> {
        self.handle.sync_all()
    }
}

impl Drop for RealDisk {
    fn drop(&mut self) {
        let _ = self.lock.unlock(); // the end of the process would do it, too
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
            // Some file systems cannot; the write will tell.
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

fn lock(directory: &Path) -> Result<File, Error> {
    let path = directory.join(LOCK);
    let failed = |source| Error::file("locking", &path)(source);
    let mut file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(&path)
        .map_err(failed)?;
    let started = Instant::now();
    loop {
        match file.try_lock() {
            Ok(()) => break,
            Err(TryLockError::Error(error)) => return Err(failed(error)),
            Err(TryLockError::WouldBlock) => {}
        }
        let process = fs::read_to_string(&path).ok().and_then(|text| text.trim().parse().ok());
        if process.is_none_or(is_alive) || started.elapsed() > CHILDREN_END {
            return Err(Error::Locked { directory: directory.to_path_buf(), process });
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    file.set_len(0).map_err(failed)?;
    writeln!(file, "{}", std::process::id()).map_err(failed)?;
    Ok(file)
}

fn is_alive(process: u32) -> bool {
    let process = i32::try_from(process).ok().and_then(rustix::process::Pid::from_raw);
    let Some(process) = process else { return false };
    rustix::process::test_kill_process(process) != Err(rustix::io::Errno::SRCH)
}
