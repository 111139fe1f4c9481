//! The data directory: one server at a time, no leftovers.
//!
//! All access to its files goes through [`disk::Directory`]: in tests they are on a disk that fails
//! calls and loses power.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use stillframe_durability::disk::{self, DiskFile, Input, Location, Output, Unpublished};
use stillframe_durability::{Error, inspect};

use super::load::{Load, open};
use crate::error::StorageError;

const LOCK_NAME: &str = "stillframe.lock";

/// A data directory that this process holds.
#[derive(Clone)]
pub struct DataDirectory {
    files: Arc<disk::Directory>,
    dump_name: String,
    dump: PathBuf,
    temporary: String,
}

impl DataDirectory {
    /// Creates the directory if it is missing, locks it, and removes leftovers of an interrupted
    /// save.
    pub fn open(path: &Path, dump_name: &str) -> Result<Self, StorageError> {
        let failed = |error| StorageError::Directory { path: path.to_owned(), error };
        // Messages name the whole path, wherever the server was started from.
        let path = std::path::absolute(path).map_err(failed)?;
        Self::at(path.into(), dump_name)
    }

    /// As [`open`](Self::open), wherever it is.
    pub fn at(location: Location, dump_name: &str) -> Result<Self, StorageError> {
        let path = location.path().to_owned();
        let opened = disk::Directory::create_at(location).and_then(|files| {
            let files = files.locked(LOCK_NAME)?;
            if let Some(application) = inspect::store(&files)? {
                return Ok(Err(application));
            }
            remove_leftovers(&files)?;
            Ok(Ok(files))
        });
        let files = opened.map_err(|error| match error {
            Error::Locked { process, .. } => {
                let owner = process.map_or_else(|| "unknown".to_owned(), |it| it.to_string());
                StorageError::Locked { path: path.clone(), owner }
            }
            error => StorageError::Directory { path: path.clone(), error: source(error) },
        })?;
        let files = files.map_err(|application| StorageError::OfAStore { path, application })?;
        Ok(Self {
            dump_name: dump_name.to_owned(),
            dump: files.at(dump_name),
            temporary: format!("temp-{}.rdb", std::process::id()),
            files: Arc::new(files),
        })
    }

    /// The same directory, with a dump file of another name.
    pub fn with_dump(&self, dump_name: &str) -> Self {
        Self { dump_name: dump_name.to_owned(), dump: self.files.at(dump_name), ..self.clone() }
    }

    /// Its files.
    pub fn files(&self) -> &Arc<disk::Directory> {
        &self.files
    }

    /// The path of the dump file.
    pub fn dump(&self) -> &Path {
        &self.dump
    }

    /// Whether there is a dump file.
    pub fn has_dump(&self) -> Result<bool, Error> {
        self.files.holds(&self.dump_name)
    }

    /// Begins to load the dump file, if there is one.
    ///
    /// # Errors
    /// [`StorageError::Load`]: it cannot be opened.
    pub fn begin_load(&self, now: i64) -> Result<Option<Load>, StorageError> {
        open(&self.files, &self.dump_name, now)
    }

    /// The dump file, for reading, and its length.
    pub fn open_dump(&self) -> Result<(Input, u64), Error> {
        self.files.open_file(&self.dump_name)
    }

    /// A new file for a save, which is then published or discarded.
    pub fn create_temporary(&self) -> Result<Output, Error> {
        self.files.create(&self.temporary)
    }

    /// Makes the temporary file, of so many bytes, the dump if it was written, and else removes it.
    /// `ready` runs when it is on the disk and the old dump still has its name.
    pub fn publish<T, E: From<Error>>(
        &self,
        file: &mut Output,
        bytes: u64,
        written: Result<T, E>,
        ready: impl FnOnce() -> Result<(), E>,
    ) -> Result<T, E> {
        let (temporary, name) = (&self.temporary[..], &self.dump_name[..]);
        let unpublished = Unpublished { file, bytes: Some(bytes), temporary, name };
        self.files.publish(unpublished, written, ready).map(|(outcome, _)| outcome)
    }

    /// Removes the temporary file.
    pub fn discard(&self) {
        if let Err(error) = self.files.discard(&self.temporary) {
            tracing::warn!("cannot remove what is left of a save: {error}");
        }
    }

    /// A new file without a name: it goes when it is closed.
    pub fn create_nameless(&self) -> Result<Box<dyn DiskFile>, Error> {
        let name = format!("temp-sync-{}.rdb", std::process::id());
        let file = self.files.create_file(&name)?;
        self.files.remove(&name)?;
        Ok(file)
    }
}

/// Makes a directory the current one of this process, and returns its path without links.
pub fn enter(path: &Path) -> Result<PathBuf, StorageError> {
    let entered = std::env::set_current_dir(path).and_then(|()| std::env::current_dir());
    entered.map_err(|error| StorageError::Directory { path: path.to_owned(), error })
}

/// The path of a directory that is there, without links.
pub fn existing(path: &Path) -> Result<PathBuf, StorageError> {
    let found = disk::Directory::existing(path).map(|found| found.path().to_owned());
    found.map_err(|error| StorageError::Directory { path: path.to_owned(), error: source(error) })
}

/// Creates a directory that is missing.
pub fn create(path: &Path) -> Result<(), StorageError> {
    let created = disk::Directory::create_at(path).map(drop);
    created.map_err(|error| StorageError::Directory { path: path.to_owned(), error: source(error) })
}

/// The operating system's error.
fn source(error: Error) -> std::io::Error {
    match error {
        Error::File { source, .. } => source,
        error => std::io::Error::other(error.to_string()),
    }
}

/// Removes `temp-<number>.rdb` and `temp-sync-<number>.rdb`: the directory is locked, so nobody is
/// writing one.
fn remove_leftovers(files: &disk::Directory) -> Result<(), Error> {
    for name in files.names()? {
        let number = name.strip_prefix("temp-").and_then(|rest| rest.strip_suffix(".rdb"));
        let number = number.map(|number| number.strip_prefix("sync-").unwrap_or(number));
        let is_ours = number
            .is_some_and(|number| !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()));
        if is_ours {
            tracing::warn!("removing {}: it was never finished", files.at(&name).display());
            files.discard(&name)?;
        }
    }
    Ok(())
}
