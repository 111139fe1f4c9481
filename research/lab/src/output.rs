//! The files that a run leaves behind: records, pages, pictures.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;

/// A file or directory that cannot be written.
#[derive(Debug, thiserror::Error)]
#[error("{action} {} failed: {source}; name another place to write to", path.display())]
pub struct Unwritable {
    /// The failed step.
    action: &'static str,
    /// The file or directory.
    path: PathBuf,
    /// The operating system's error.
    source: io::Error,
}

/// Makes a directory, with those above it, if it is missing.
///
/// # Errors
/// [`Unwritable`].
pub fn create_directory(path: &Path) -> Result<(), Unwritable> {
    fs::create_dir_all(path).map_err(unwritable("creating the directory", path))
}

/// Writes a whole file.
///
/// # Errors
/// [`Unwritable`].
pub fn write(path: &Path, text: &str) -> Result<(), Unwritable> {
    fs::write(path, text).map_err(unwritable("writing", path))
}

/// Records, one JSON object a line, each in the file before the next is made.
pub struct Records {
    output: Box<dyn Write>,
    path: PathBuf,
}

impl Records {
    /// Records in a new file; `-` is standard output.
    ///
    /// # Errors
    /// [`Unwritable`].
    pub fn create(path: &Path) -> Result<Self, Unwritable> {
        let output: Box<dyn Write> = match path.to_str() {
            Some("-") => Box::new(io::stdout()),
            _ => Box::new(File::create(path).map_err(unwritable("creating", path))?),
        };
        Ok(Self { output, path: path.to_owned() })
    }

    /// Adds one.
    ///
    /// # Errors
    /// [`Unwritable`].
    pub fn add(&mut self, record: &impl Serialize) -> Result<(), Unwritable> {
        let line = serde_json::to_string(record).map_err(io::Error::other);
        let written = line.and_then(|line| writeln!(self.output, "{line}"));
        let written = written.and_then(|()| self.output.flush());
        written.map_err(unwritable("writing", &self.path))
    }
}

fn unwritable(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Unwritable {
    move |source| Unwritable { action, path: path.to_owned(), source }
}
