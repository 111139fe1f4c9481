//! The files of a checkpoint, for those who copy it elsewhere.

use std::sync::Arc;

use crate::chain::Opened;
use crate::desk::Desk;
use crate::disk::Input;
use crate::error::Error;
use crate::names;

/// The durable checkpoints of a store.
///
/// ```
/// use std::sync::mpsc::channel;
/// use stillframe_durability::{Options, Store, checkpoint_name};
///
/// # let folder = tempfile::tempdir()?;
/// # let (data, copy) = (folder.path().join("data"), folder.path().join("copy"));
/// let (told, ended) = channel();
/// let options = Options::words(3).on_checkpoint(move |ended| {
///     let _ = told.send(ended.map_err(ToString::to_string));
/// });
/// let mut store: Store = Store::open(data, options)?;
/// store.write(0, 7);
/// store.checkpoint();
/// store.point(); // begins; the application goes on
/// store.write(0, 8);
/// let number = ended.recv()??;
///
/// let newest = store.checkpoints().newest()?.ok_or("there is one")?;
/// assert_eq!(newest.number, number);
/// std::fs::create_dir(&copy)?;
/// for mut file in newest.files {
///     let mut to = std::fs::File::create(copy.join(checkpoint_name(file.number)))?;
///     std::io::copy(&mut file.input, &mut to)?;
/// }
/// let copied: Store = Store::open(copy, Options::words(3))?;
/// assert_eq!((copied.read(0), store.read(0)), (7, 8));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct Checkpoints {
    desk: Arc<Desk>,
}

impl Checkpoints {
    pub(crate) fn new(desk: Arc<Desk>) -> Self {
        Self { desk }
    }

    /// The files of the newest one, open: they can be read as long as one likes, whatever happens
    /// to the directory. `None` before the first one.
    ///
    /// # Errors
    /// [`Error`], if one cannot be opened, or is not what the others build on.
    pub fn newest(&self) -> Result<Option<CheckpointFiles>, Error> {
        self.desk.newest_files().map(CheckpointFiles::from_opened)
    }
}

/// A checkpoint with all that it builds on. In a directory of their own, under the names of
/// [`checkpoint_name`], its files are a state that [`Store::open`](crate::Store::open) finds.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct CheckpointFiles {
    /// Its number.
    pub number: u64,
    /// A number that no other checkpoint has, of this store or of another.
    pub identity: u64,
    /// Words of state in it.
    pub words: u64,
    /// The full checkpoint, then the increments upon it in order.
    pub files: Vec<ChainFile>,
}

/// A file of a checkpoint, open.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ChainFile {
    /// Its number, which gives it its name.
    pub number: u64,
    /// Its length in bytes.
    pub bytes: u64,
    /// What is in it, from the first byte on.
    pub input: Input,
}

impl CheckpointFiles {
    /// Of files that were traced back from the newest.
    pub(crate) fn from_opened(traced: Vec<Opened>) -> Option<Self> {
        let newest = traced.first()?;
        let (link, words) = (newest.part.link, newest.header().words);
        let files = traced.iter().rev().map(|file| ChainFile {
            number: file.part.link.number,
            bytes: file.part.bytes,
            input: file.input.at(0),
        });
        let files = files.collect();
        Some(Self { number: link.number, identity: link.identity, words, files })
    }
}

/// The name of the file of checkpoint `number` in the directory of a store.
#[must_use]
pub fn checkpoint_name(number: u64) -> String {
    names::checkpoint(number)
}
