//! The numbered directories of logs: each log has its own, so that one can begin beside another.
//!
//! - A directory has the file `unpublished` until an image that names it is published. A directory
//!   that has that file, or nothing, and that the dump does not name, is a leftover.
//! - That file is the first to be durable in a new directory, and a directory that goes is renamed
//!   first: a crash on the way leaves a leftover, or what nobody takes for a log.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use stillframe_durability::Error;
use stillframe_durability::disk::{Directory, Location};

use super::position;

const MARKER: &str = "unpublished";

/// The directory above all generations, which need not be there.
#[derive(Debug, Clone)]
pub struct Generations {
    above: Arc<Directory>,
    name: String,
}

impl Generations {
    /// In the directory `name` of a data directory.
    pub fn below(above: &Arc<Directory>, name: &str) -> Self {
        Self { above: Arc::clone(above), name: name.to_owned() }
    }

    /// Their directory, which exists.
    fn existing(&self) -> Result<Directory, Error> {
        self.above.below(&self.name).and_then(Directory::existing)
    }

    fn root(&self) -> Result<Option<Directory>, Error> {
        match self.existing() {
            Err(error) if error.kind() == Some(ErrorKind::NotFound) => Ok(None),
            root => root.map(Some),
        }
    }

    /// The path of a generation's directory.
    pub fn path(&self, generation: u64) -> PathBuf {
        self.above.at(&self.name).join(generation.to_string())
    }

    /// The directory of a generation.
    pub fn location(&self, generation: u64) -> Result<Location, Error> {
        self.existing()?.below(&generation.to_string())
    }

    fn files(&self, generation: u64) -> Result<Directory, Error> {
        Directory::existing(self.location(generation)?)
    }

    /// All existing ones, rising.
    pub(super) fn list(&self) -> Result<Vec<u64>, Error> {
        let Some(root) = self.root()? else { return Ok(Vec::new()) };
        let number =
            |name: &String| name.parse().ok().filter(|number: &u64| number.to_string() == *name);
        let mut found: Vec<u64> = root.names()?.iter().filter_map(number).collect();
        found.sort_unstable();
        Ok(found)
    }

    /// The newest existing one, or 0.
    pub(super) fn newest(&self) -> u64 {
        self.list().ok().and_then(|found| found.last().copied()).unwrap_or(0)
    }

    /// Makes the directory of a new generation, marked as unpublished, durably.
    pub(super) fn begin(&self) -> Result<(u64, Location), Error> {
        let root = match self.root()? {
            Some(root) => root,
            None => {
                self.above.create_below(&self.name)?;
                self.existing()?
            }
        };
        self.above.sync()?;
        // An earlier image whose log is gone keeps its number.
        let named = position::list(&self.above)?.last().map_or(0, |newest| newest.generation);
        let generation = named.max(self.list()?.last().copied().unwrap_or(0)) + 1;
        let name = generation.to_string();
        root.create_below(&name)?;
        let location = root.below(&name)?;
        let files = Directory::existing(location.clone())?;
        let marker = files.create_file(MARKER)?;
        marker.sync().map_err(Error::file("syncing", files.at(MARKER)))?;
        files.sync()?;
        root.sync()?;
        Ok((generation, location))
    }

    /// Whether, as far as its files show, no image that names it was ever published.
    pub(super) fn is_unpublished(&self, generation: u64) -> Result<bool, Error> {
        let names = self.files(generation)?.names()?;
        Ok(names.is_empty() || names.iter().any(|name| name == MARKER))
    }

    /// Notes that an image that names this one is published.
    pub(super) fn publish(&self, named: u64) -> Result<(), Error> {
        let files = self.files(named)?;
        if files.holds(MARKER)? {
            files.remove(MARKER)?;
            files.sync()?;
        }
        Ok(())
    }

    /// At the start: removes what earlier removals left.
    pub(super) fn sweep(&self) -> Result<(), Error> {
        self.root()?.map_or(Ok(()), |root| root.sweep())
    }

    /// Removes a generation.
    pub(super) fn remove(&self, generation: u64) -> Result<(), Error> {
        self.existing()?.remove_all_below(&generation.to_string())
    }

    /// Sets a generation that nobody needs aside under another name, and returns that.
    pub(super) fn set_aside(&self, generation: u64) -> Result<PathBuf, Error> {
        let root = self.existing()?;
        let names = root.names()?;
        let mut name = format!("{generation}.superseded");
        for number in 2.. {
            if !names.contains(&name) {
                break;
            }
            name = format!("{generation}.superseded-{number}");
        }
        root.rename(&generation.to_string(), &name)?;
        root.sync()?;
        Ok(root.at(&name))
    }

    /// The manifest of a Redis server, if this is its directory.
    pub(super) fn foreign(&self) -> Result<Option<PathBuf>, Error> {
        let Some(root) = self.root()? else { return Ok(None) };
        let is_manifest = |name: &&String| {
            Path::new(name).extension().is_some_and(|extension| extension == "manifest")
        };
        Ok(root.names()?.iter().find(is_manifest).map(|name| root.at(name)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_generation_is_unpublished_until_it_is_named() {
        let folder = tempfile::tempdir().expect("a folder");
        let above = Arc::new(Directory::existing(folder.path()).expect("it is there"));
        let generations = Generations::below(&above, "logs");
        assert_eq!(generations.list().expect("nothing is fine"), []);
        for number in 1..=4 {
            assert_eq!(generations.begin().expect("there is room").0, number);
            assert!(generations.is_unpublished(number).expect("the directory can be read"));
        }
        generations.publish(2).expect("it can be marked");
        generations.remove(1).and_then(|()| generations.remove(3)).expect("they can be removed");
        assert_eq!(generations.list().expect("they are there"), [2, 4]);
        assert!(generations.is_unpublished(4).expect("the directory can be read"));
        let files = generations.files(2).expect("it is there");
        files.create_file("log").expect("writable");
        assert!(!generations.is_unpublished(2).expect("the directory can be read"));
        let aside = generations.set_aside(4).expect("it can be renamed");
        assert!(aside.ends_with("4.superseded"));
        generations.remove(2).expect("it can be removed");
        assert_eq!(generations.list().expect("it is there"), []);
        assert!(aside.exists());
    }
}
