//! The directories of logs, numbered: each has its own, so that one can be begun beside another.
//!
//! - A directory holds the file `unpublished` until an image that names it is published. With that
//!   file, and not named by the dump, it is a leftover.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

const MARKER: &str = "unpublished";

/// The directory above all generations.
#[derive(Debug, Clone)]
pub(crate) struct Generations {
    root: PathBuf,
}

impl Generations {
    pub(crate) fn at(root: &Path) -> Self {
        Self { root: root.to_owned() }
    }

    /// The directory of a generation.
    pub(crate) fn path(&self, generation: u64) -> PathBuf {
        self.root.join(generation.to_string())
    }

    /// All that are there, rising.
    pub(super) fn list(&self) -> io::Result<Vec<u64>> {
        let entries = match fs::read_dir(&self.root) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries?,
        };
        let mut found = Vec::new();
        for entry in entries {
            let name = entry?.file_name();
            let number = name.to_str().and_then(|name| {
                name.parse().ok().filter(|number: &u64| number.to_string() == name)
            });
            found.extend(number);
        }
        found.sort_unstable();
        Ok(found)
    }

    /// The newest that is there, or 0.
    pub(super) fn newest(&self) -> u64 {
        self.list().ok().and_then(|found| found.last().copied()).unwrap_or(0)
    }

    /// Makes the directory of a new generation, marked as unpublished, durably.
    pub(super) fn begin(&self) -> io::Result<(u64, PathBuf)> {
        fs::create_dir_all(&self.root)?;
        self.root.parent().map_or(Ok(()), sync)?;
        let generation = self.newest() + 1;
        let path = self.path(generation);
        fs::create_dir(&path)?;
        File::create(path.join(MARKER))?.sync_all()?;
        sync(&path)?;
        sync(&self.root)?;
        Ok((generation, path))
    }

    /// Whether no image that names it was ever published, as far as one can tell.
    pub(super) fn is_unpublished(&self, generation: u64) -> bool {
        self.path(generation).join(MARKER).exists()
    }

    /// The image that names `named`, or none, is published: removes all others up to `newest`.
    pub(super) fn keep(&self, named: Option<u64>, newest: u64) -> io::Result<()> {
        if let Some(named) = named {
            match fs::remove_file(self.path(named).join(MARKER)) {
                Ok(()) => sync(&self.path(named))?,
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        let others = self.list()?.into_iter().filter(|&it| it <= newest && Some(it) != named);
        for other in others {
            self.remove(other)?;
        }
        Ok(())
    }

    /// Removes a generation.
    pub(super) fn remove(&self, generation: u64) -> io::Result<()> {
        fs::remove_dir_all(self.path(generation))
    }

    /// Gives a generation that nobody asks for another name; tells it.
    pub(super) fn set_aside(&self, generation: u64) -> io::Result<PathBuf> {
        let mut name = self.root.join(format!("{generation}.superseded"));
        for number in 2.. {
            if !name.exists() {
                break;
            }
            name = self.root.join(format!("{generation}.superseded-{number}"));
        }
        fs::rename(self.path(generation), &name)?;
        sync(&self.root)?;
        Ok(name)
    }

    /// The manifest of a Redis server, if this is its directory.
    pub(super) fn foreign(&self) -> io::Result<Option<PathBuf>> {
        let entries = match fs::read_dir(&self.root) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            entries => entries?,
        };
        for entry in entries {
            let path = entry?.path();
            if path.extension().is_some_and(|extension| extension == "manifest") {
                return Ok(Some(path));
            }
        }
        Ok(None)
    }
}

fn sync(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_named_generation_is_kept_and_older_ones_go() {
        let folder = tempfile::tempdir().expect("a folder");
        let generations = Generations::at(&folder.path().join("logs"));
        assert_eq!(generations.list().expect("nothing is fine"), []);
        for number in 1..=4 {
            assert_eq!(generations.begin().expect("there is room").0, number);
            assert!(generations.is_unpublished(number));
        }
        generations.keep(Some(2), 3).expect("they can be removed");
        assert_eq!(generations.list().expect("they are there"), [2, 4]);
        assert!(!generations.is_unpublished(2) && generations.is_unpublished(4));
        let aside = generations.set_aside(4).expect("it can be renamed");
        assert!(aside.ends_with("4.superseded"));
        generations.keep(None, 9).expect("they can be removed");
        assert_eq!(generations.list().expect("it is there"), []);
        assert!(aside.exists());
    }
}
