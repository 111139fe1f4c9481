//! The data directory: one server at a time, no leftovers.
//!
//! The lock is a record lock (`fcntl`): it belongs to the process, is not inherited by a forked
//! child, and ends with the process however that ends. A dead server never locks its successor out.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};

use rustix::fs::FlockOperation;
use rustix::io::Errno;

use crate::ServeError;

const LOCK_NAME: &str = "stillframe.lock";

/// A data directory that this process holds.
pub(crate) struct Directory {
    path: PathBuf,
    dump: PathBuf,
    temporary: PathBuf,
    /// Open as long as the lock is held.
    _lock: File,
}

impl Directory {
    /// Creates the directory if it is missing, locks it, and removes what an interrupted save left.
    pub(crate) fn open(path: &Path, dump_name: &str) -> Result<Self, ServeError> {
        let failed = |error| ServeError::Directory { path: path.to_owned(), error };
        std::fs::create_dir_all(path).map_err(failed)?;
        let path = std::fs::canonicalize(path).map_err(failed)?;
        let lock = lock(&path)?;
        remove_leftovers(&path).map_err(failed)?;
        Ok(Self {
            dump: path.join(dump_name),
            temporary: path.join(format!("temp-{}.rdb", std::process::id())),
            path,
            _lock: lock,
        })
    }

    /// The directory itself.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The dump file.
    pub(crate) fn dump(&self) -> &Path {
        &self.dump
    }

    /// A new file for a save, to be published or discarded.
    pub(crate) fn create_temporary(&self) -> io::Result<File> {
        File::create(&self.temporary)
    }

    /// What is needed to publish or discard the temporary file from another thread.
    pub(crate) fn publisher(&self) -> Publisher {
        Publisher {
            directory: self.path.clone(),
            temporary: self.temporary.clone(),
            dump: self.dump.clone(),
        }
    }
}

/// Makes a temporary file the dump, or removes it.
pub(crate) struct Publisher {
    directory: PathBuf,
    temporary: PathBuf,
    dump: PathBuf,
}

impl Publisher {
    /// Makes the file durable and gives it the dump's name; the old dump is there until the new one
    /// is whole on the disk.
    pub(crate) fn publish(&self, file: &File) -> Result<(), String> {
        file.sync_all().map_err(|error| format!("syncing the dump file: {error}"))?;
        std::fs::rename(&self.temporary, &self.dump)
            .map_err(|error| format!("renaming the dump file: {error}"))?;
        File::open(&self.directory)
            .and_then(|directory| directory.sync_all())
            .map_err(|error| format!("syncing the data directory: {error}"))
    }

    /// Removes the temporary file.
    pub(crate) fn discard(&self) {
        if let Err(error) = std::fs::remove_file(&self.temporary)
            && error.kind() != io::ErrorKind::NotFound
        {
            tracing::warn!("cannot remove {}: {error}", self.temporary.display());
        }
    }
}

fn lock(path: &Path) -> Result<File, ServeError> {
    let failed = |error| ServeError::Directory { path: path.to_owned(), error };
    let options = OpenOptions::new().read(true).write(true).create(true).truncate(false).to_owned();
    let mut file = options.open(path.join(LOCK_NAME)).map_err(failed)?;
    match rustix::fs::fcntl_lock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(Errno::AGAIN | Errno::ACCESS) => {
            let mut owner = String::new();
            // Only for the message; who holds the lock may not have written it yet.
            let _ = file.read_to_string(&mut owner);
            let owner = match owner.trim() {
                "" => "unknown".to_owned(),
                number => number.to_owned(),
            };
            return Err(ServeError::Locked { path: path.to_owned(), owner });
        }
        Err(error) => return Err(failed(error.into())),
    }
    let owner = format!("{}\n", std::process::id());
    file.set_len(0).and_then(|()| file.rewind()).map_err(failed)?;
    file.write_all(owner.as_bytes()).map_err(failed)?;
    Ok(file)
}

/// Removes `temp-<number>.rdb`: the directory is locked, so nobody is writing one.
fn remove_leftovers(path: &Path) -> io::Result<()> {
    for found in std::fs::read_dir(path)? {
        let found = found?;
        let name = found.file_name();
        let number = name
            .to_str()
            .and_then(|name| name.strip_prefix("temp-"))
            .and_then(|name| name.strip_suffix(".rdb"));
        let ours = number
            .is_some_and(|number| !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()));
        if ours {
            tracing::warn!("removing {}: a save did not end", found.path().display());
            std::fs::remove_file(found.path())?;
        }
    }
    Ok(())
}
