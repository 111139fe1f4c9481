//! All that this crate asks of a file system, in one place: a directory that one process holds,
//! and files that are written once, front to back.
//!
//! - A name appears or changes durably only through [`Directory::sync`].
//! - The lock is `flock`'s. A forked child inherits it, so it is released by name, not by closing
//!   the file; a child that outlives its killed parent for an instant is waited for.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::error::Error;

const LOCK: &str = "lock";
/// How long the children of a dead process may take to follow it.
const CHILDREN_END: Duration = Duration::from_secs(10);

/// A directory, held by this value alone among all processes.
#[derive(Debug)]
pub(crate) struct Directory {
    path: PathBuf,
    handle: File,
    lock: File,
}

/// A file that is being written.
#[derive(Debug)]
pub(crate) struct Output(File);

/// A file that is being read.
#[derive(Debug)]
pub(crate) struct Input(File);

impl Directory {
    /// Creates the directory if need be, and takes it for this process.
    pub(crate) fn open(path: &Path) -> Result<Self, Error> {
        create(path)?;
        let lock = lock(path)?;
        let handle = File::open(path).map_err(Error::file("opening", path))?;
        Ok(Self { path: path.to_path_buf(), handle, lock })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Where `name` lies.
    pub(crate) fn at(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// The names in the directory, in no order. A name that is not text is none of ours.
    pub(crate) fn names(&self) -> Result<Vec<String>, Error> {
        let list = || -> io::Result<Vec<String>> {
            let mut names = Vec::new();
            for entry in fs::read_dir(&self.path)? {
                names.extend(entry?.file_name().into_string());
            }
            Ok(names)
        };
        list().map_err(Error::file("listing", &self.path))
    }

    /// An empty new file in the place of whatever had the name.
    pub(crate) fn create(&self, name: &str) -> Result<Output, Error> {
        self.remove(name)?;
        let path = self.at(name);
        let file = OpenOptions::new().write(true).create_new(true).open(&path);
        Ok(Output(file.map_err(Error::file("creating", path))?))
    }

    /// A file and its length.
    pub(crate) fn open_file(&self, name: &str) -> Result<(Input, u64), Error> {
        let path = self.at(name);
        let open = || -> io::Result<(Input, u64)> {
            let file = File::open(&path)?;
            let length = file.metadata()?.len();
            Ok((Input(file), length))
        };
        open().map_err(Error::file("opening", path.clone()))
    }

    /// Replaces whatever had the new name.
    pub(crate) fn rename(&self, from: &str, to: &str) -> Result<(), Error> {
        fs::rename(self.at(from), self.at(to)).map_err(Error::file("renaming", self.at(from)))
    }

    /// Removes a file if it is there.
    pub(crate) fn remove(&self, name: &str) -> Result<(), Error> {
        match fs::remove_file(self.at(name)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(Error::file("removing", self.at(name))(error))
            }
            _ => Ok(()),
        }
    }

    /// Returns when all changes of names have reached the disk.
    pub(crate) fn sync(&self) -> Result<(), Error> {
        self.handle.sync_all().map_err(Error::file("syncing", &self.path))
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = self.lock.unlock(); // the end of the process would do it, too
    }
}

impl Output {
    /// Returns when all bytes have reached the disk.
    pub(crate) fn sync(&self) -> io::Result<()> {
        self.0.sync_all()
    }

    /// Bytes in the file, whichever process wrote them.
    pub(crate) fn length(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Read for Input {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.0.read(bytes)
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
