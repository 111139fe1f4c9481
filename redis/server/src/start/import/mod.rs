//! Importing Redis's data: an append-only directory of Redis 7, a single append-only file of
//! older ones, or an RDB file; the result is a dump file in a data directory that had none.
//!
//! - The source is only read. The result is nothing or the whole: the dump appears by `rename` when
//!   all was replayed.
//! - A server's commands replay the file (EVAL in old ones, FUNCTION), which
//!   `stillframe_storage` does not know: so this room lies here.
//! - As in Redis, the clock stands still during the replay: a key that has expired by now may have
//!   been changed, or persisted, before.
//! - An unfinished command or transaction at the very end was never acknowledged: it is left out,
//!   with a notice. Any other fault is an error that names file and offset. An append-only file has
//!   no checksums, so nobody can find a changed value.

mod commands;
mod error;
mod foreign;
mod heads;
mod manifest;
mod replay;

use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use stillframe_durability::disk::{self, Input};
use stillframe_keyspace::Keyspace;
use stillframe_rdb::{HEADER_BYTES, file_version};
use stillframe_storage::dump::{self, DataDirectory, Skipped};

use crate::start::boot::Boot;
use crate::{Config, ServeError};
pub(crate) use error::ImportError;
pub(crate) use foreign::refuse_foreign;
use manifest::Manifest;
use replay::Import;

/// The result of an import.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Imported {
    /// Keys, including those that have expired by now.
    pub keys: u64,
    /// Commands replayed, including those of transactions.
    pub commands: u64,
    /// The dump file that was written.
    pub dump: PathBuf,
    /// Losses, if any, a sentence each.
    pub notices: Vec<String>,
}

/// Imports `from` into the data directory of `config`, which must not have a dump file yet. With
/// `skips_modules` it leaves out values of types that this server does not have, with a notice.
///
/// `from` is a directory with a manifest, the directory above (which has `appendonlydir`), an
/// append-only file, an RDB file, or a directory with one such file.
///
/// # Errors
/// [`ServeError`] in one sentence.
pub fn import(from: &Path, config: Config, skips_modules: bool) -> Result<Imported, ServeError> {
    let parts = parts(from)?;
    let directory = DataDirectory::open(&config.dir, &config.dbfilename)?;
    let mut opened = Boot::offline(config)?.open_empty(directory)?;
    let mut import = Import::new();
    for part in &parts {
        let (file, end, skipped) = load_base(&mut opened.keyspace, &part.path, skips_modules)?;
        import.leave_out_skipped(&part.path, &skipped);
        let replayed = import.file(&mut opened.alone(), file, end, part);
        replayed.map_err(|error| unloadable(&part.path, error))?;
    }
    let Import { commands, notices, .. } = import;
    let (keys, dump) = opened.save()?;
    Ok(Imported { keys, commands, dump, notices })
}

/// The file that cannot be imported, and why.
fn unloadable(path: &Path, problem: impl Into<ImportError>) -> ServeError {
    ServeError::Import { path: path.to_owned(), problem: Box::<ImportError>::new(problem.into()) }
}

/// A file to load, and its possible forms.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Part {
    path: PathBuf,
    /// The last one may end within a command.
    last: bool,
}

/// Loads the RDB file that `path` is or starts with. Returns the file with the offset of commands,
/// and what was skipped.
fn load_base(
    keyspace: &mut Keyspace,
    path: &Path,
    skips_modules: bool,
) -> Result<(Input, u64, Skipped), ServeError> {
    let failed = |error: io::Error| unloadable(path, error);
    let (mut file, bytes) = disk::open_path(path).map_err(failed)?;
    let mut head = Vec::new();
    file.by_ref().take(HEADER_BYTES as u64).read_to_end(&mut head).map_err(failed)?;
    file.rewind().map_err(failed)?;
    if file_version(&head).is_none() {
        return Ok((file, 0, Skipped::default()));
    }
    let (end, skipped) = dump::load_file(keyspace, path, file.clone(), bytes, skips_modules)?;
    file.seek(SeekFrom::Start(end)).map_err(failed)?;
    Ok((file, end, skipped))
}

/// The files of `from`, in order.
fn parts(from: &Path) -> Result<Vec<Part>, ServeError> {
    let directory = match disk::Directory::existing(from) {
        Err(error) if error.kind() == Some(io::ErrorKind::NotADirectory) => {
            let (_, bytes) = disk::open_path(from).map_err(|error| unloadable(from, error))?;
            if bytes == 0 {
                return Err(unloadable(from, ImportError::NoBytes));
            }
            return Ok(vec![Part { path: from.to_owned(), last: true }]);
        }
        directory => directory.map_err(|error| unloadable(from, error))?,
    };
    let below = directory.below("appendonlydir").and_then(disk::Directory::existing);
    let directory = below.unwrap_or(directory);
    let from = directory.path();
    let found = manifest::find(&directory).map_err(|error| unloadable(from, error))?;
    let name = match found {
        manifest::Found::Manifest(name) => name,
        manifest::Found::Alone(name) => {
            return Ok(vec![Part { path: directory.at(&name), last: true }]);
        }
    };
    let path = directory.at(&name);
    let manifest = Manifest::read(&directory, &name).map_err(|error| unloadable(&path, error))?;
    let names = manifest.base.iter().chain(&manifest.incremental);
    let mut parts: Vec<Part> =
        names.map(|name| Part { path: from.join(name), last: false }).collect();
    match parts.last_mut() {
        Some(part) => part.last = true,
        None => return Err(unloadable(&path, ImportError::Empty)),
    }
    Ok(parts)
}

#[cfg(test)]
mod tests;
