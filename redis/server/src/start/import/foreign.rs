//! Data that a server would not load, found before it serves clients.
//!
//! - Without a dump file, files that look like data of a Redis server, or of a server with other
//!   settings, stop the start. (An embedded store's directory is refused before, by name.)
//! - With a dump file and `appendonly no`, that file is the data, as for Redis; append-only files
//!   beside it are logged. With `appendonly yes`, Redis would load them instead.

use std::path::PathBuf;

use stillframe_durability::disk;
use stillframe_storage::StorageError;
use stillframe_storage::dump::DataDirectory;

use super::heads::{head, is_log_or_rdb, is_rdb};
use crate::state::ServerState;
use crate::{Config, ServeError};

/// The most names to check: a data directory has a few.
const NAMES_MAX: usize = 10_000;

/// The data found.
struct Found {
    path: PathBuf,
    what: &'static str,
    advice: String,
}

/// Looks for data that this server has not loaded and never would.
///
/// # Errors
/// [`ServeError::ForeignData`], [`StorageError::ForeignLog`].
pub(crate) fn refuse_foreign(state: &ServerState) -> Result<(), ServeError> {
    let (directory, config) = (state.storage.saves.directory(), &state.config);
    let files = directory.files();
    let has_dump = directory.has_dump().unwrap_or(true);
    if has_dump && state.storage.saves.loaded.position.is_some() {
        return Ok(()); // this server made the dump, with a log of its own
    }
    let Some(log) = append_only(files, config) else {
        let other = if has_dump { None } else { other(files) };
        return other.map_or(Ok(()), |found| Err(refusal(found, directory)));
    };
    if has_dump && config.appendonly {
        return Err(StorageError::ForeignLog { path: log.path }.into());
    }
    if has_dump {
        tracing::warn!(
            "{} is {}, and not loaded: {} is, as 'appendonly' is no",
            log.path.display(),
            log.what,
            directory.dump().display()
        );
        return Ok(());
    }
    Err(refusal(log, directory))
}

fn refusal(found: Found, directory: &DataDirectory) -> ServeError {
    let Found { path, what, advice } = found;
    let dump = directory.dump().file_name().unwrap_or_default().display().to_string();
    ServeError::ForeignData { path, what, dump, advice }
}

/// The append-only files of a Redis server: a directory of Redis 7, or one file of older ones.
fn append_only(files: &disk::Directory, config: &Config) -> Option<Found> {
    let found = |path: PathBuf, what| {
        let from = path.display();
        let advice = format!("import it with 'stillframe import {from} --dir NEW' and serve NEW");
        Found { path, what, advice }
    };
    for name in [config.appenddirname.as_str(), "appendonlydir"] {
        let below = files.below(name).and_then(disk::Directory::existing);
        let names = below.and_then(|below| below.names()).unwrap_or_default();
        if names.iter().any(|name| name.ends_with(".manifest")) {
            return Some(found(files.at(name), "the append-only directory of a Redis server"));
        }
    }
    let names = files.names().unwrap_or_default();
    let is_log = |name: &&String| name.ends_with(".aof") || **name == config.append_file();
    let name = names.iter().filter(is_log).find(|name| {
        let head = head(files, name);
        is_log_or_rdb(&head)
    })?;
    Some(found(files.at(name), "the append-only file of a Redis server"))
}

/// A dump of another name.
fn other(files: &disk::Directory) -> Option<Found> {
    let names = files.names().unwrap_or_default();
    // What is being removed is nobody's data: an image that a kill has cut off, say.
    let mut theirs = names.iter().take(NAMES_MAX).filter(|name| !disk::is_gone(name));
    let name = theirs.find(|name| is_rdb(&head(files, name)))?;
    let advice = format!("name it with --dbfilename {name}");
    Some(Found { path: files.at(name), what: "an RDB file", advice })
}
