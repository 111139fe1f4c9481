//! The seam to the disk: all that this crate asks of a file system, as two small traits.
//!
//! - `real` is the file system of the machine; [`SimulatedDisk`] is one in memory that loses power
//!   and fails calls as a test tells it to. What both promise is written down in
//!   `docs/formats/disk.md`.
//! - The directory is flat, and one process holds it.
//! - A name appears, changes or goes durably only through [`Disk::sync_names`]; bytes and length of
//!   a file only through [`DiskFile::sync`].
//! - Calls may be interrupted and writes may be short: `directory` is where that is dealt with, and
//!   where a file that once failed is refused ever after.

pub(crate) mod directory;
mod output;
mod platter;
pub(crate) mod real;
mod simulated;
mod stage;

use std::fmt::Debug;
use std::io;
use std::ops::Range;

pub use platter::{Change, FileNumber, Files, Platter};
pub use simulated::{Fault, SimulatedDisk};
pub use stage::Stage;

/// A flat directory of files, held by one owner.
///
/// Each method is one attempt: it may fail with [`Interrupted`](io::ErrorKind::Interrupted) and
/// have done nothing.
pub trait Disk: Debug + Send + Sync {
    /// The names in the directory, in no order. A name that is not text is none of ours.
    ///
    /// # Errors
    /// The operating system's.
    fn names(&self) -> io::Result<Vec<String>>;

    /// An empty new file in the place of whatever file had the name.
    ///
    /// # Errors
    /// The operating system's.
    fn create(&self, name: &str) -> io::Result<Box<dyn DiskFile>>;

    /// An existing file, to be read.
    ///
    /// # Errors
    /// The operating system's.
    fn open(&self, name: &str) -> io::Result<Box<dyn DiskFile>>;

    /// Gives a file another name, in the place of whatever file had it: after a crash it has the
    /// old name or the new one.
    ///
    /// # Errors
    /// The operating system's.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;

    /// Removes a file.
    ///
    /// # Errors
    /// The operating system's; [`NotFound`](io::ErrorKind::NotFound) if there is none.
    fn remove(&self, name: &str) -> io::Result<()>;

    /// Returns when all changes of names have reached the disk.
    ///
    /// # Errors
    /// The operating system's: the changes may be on the disk or not.
    fn sync_names(&self) -> io::Result<()>;
}

/// An open file.
///
/// [`reserve`](Self::reserve), [`write_at`](Self::write_at), [`set_direct`](Self::set_direct) and
/// [`write_behind`](Self::write_behind) of a disk on which the algorithm
/// [`Fork`](stillframe::algorithms::fork::Fork) makes checkpoints run in a forked child: they
/// neither allocate, lock nor log.
pub trait DiskFile: Debug + Send + Sync {
    /// Writes some of `bytes` at `offset`, and tells how many. What lies between the end of the
    /// file and `offset` becomes zero.
    ///
    /// # Errors
    /// The operating system's: some of the bytes may be in the file.
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<usize>;

    /// Asks for room for a file of `bytes` bytes, whose length stays as it is. A disk that cannot
    /// tell says that there is room.
    ///
    /// # Errors
    /// [`StorageFull`](io::ErrorKind::StorageFull), and what else the operating system has to say.
    fn reserve(&self, bytes: u64) -> io::Result<()>;

    /// Reads some bytes at `offset`, and tells how many; none only at the end of the file.
    ///
    /// # Errors
    /// The operating system's.
    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<usize>;

    /// Bytes in the file, whichever process wrote them.
    ///
    /// # Errors
    /// The operating system's.
    fn length(&self) -> io::Result<u64>;

    /// Returns when all bytes and the length of the file have reached the disk.
    ///
    /// # Errors
    /// The operating system's. What was written since the last sync may be on the disk or not, and
    /// no later sync tells: the file must not be trusted again.
    fn sync(&self) -> io::Result<()>;

    /// Asks that reads and writes go past the page cache from now on, or no longer, and tells
    /// whether they will: then memory, places and lengths are multiples of [`Stage::ALIGN`] (but
    /// for what a read finds at the end). They may be refused all the same, with
    /// [`InvalidInput`](io::ErrorKind::InvalidInput).
    fn set_direct(&self, direct: bool) -> bool {
        let _ = direct;
        false
    }

    /// A hint that the bytes of `range` will not be read soon: those not yet on the disk begin
    /// their way there, those that are leave the page cache to the application.
    fn write_behind(&self, range: Range<u64>);
}
