//! The seam to the disk: all that stores, logs, dumps and rewritten settings ask of a file system,
//! as two small traits.
//!
//! - [`RealDisk`] is the file system of the machine; [`SimulatedDisk`] is one in memory that loses
//!   power and fails calls as a test asks. `docs/reference/formats.md` has
//!   what both promise.
//! - A disk is one directory, which one process locks; directories below it are disks of their own.
//! - A name appears, changes or goes durably only through [`Disk::sync_names`]; bytes and length of
//!   a file only through [`DiskFile::sync`].
//! - Large files are [discarded](Directory::discard) in pieces, by the [`Sweeper`] of the disk.
//! - Calls may be interrupted and writes may be short: [`Directory`] deals with both. A file of
//!   this crate that failed once is never used again.

mod calls;
mod crashes;
mod directory;
mod input;
mod output;
mod pace;
mod platter;
mod real;
mod room;
mod simulated;
mod stage;
mod summed;
mod sweeper;

use std::fmt::Debug;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

pub use calls::write_all_at;
pub use crashes::crash_everywhere;
pub(crate) use directory::LOCK;
pub use directory::{Directory, Location, Unpublished};
pub use input::Input;
pub use output::Output;
pub use pace::{Cancelled, Pace, Throttle};
pub use platter::{Change, FileNumber, Files, Platter};
pub use real::{RealDisk, open_path};
pub use room::{NoRoom, make_room};
pub use simulated::{Fault, SimulatedDisk};
pub use stage::Stage;
pub use summed::{with_sum, without_sum};
pub use sweeper::{Sweeper, is_gone};

/// A lock that is held until this is dropped.
pub type Lock = Box<dyn Guard>;

/// What releases a lock when it is dropped.
pub trait Guard: Debug + Send + Sync {}

impl<T: Debug + Send + Sync> Guard for T {}

/// A directory of files.
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

    /// As [`create`](Self::create), with the permissions of the file `model`; if there is none, the
    /// owner alone may read and write it.
    ///
    /// # Errors
    /// The operating system's.
    fn create_like(&self, name: &str, model: &str) -> io::Result<Box<dyn DiskFile>> {
        let _ = model;
        self.create(name)
    }

    /// An existing regular file, to be read.
    ///
    /// # Errors
    /// The operating system's; [`IsADirectory`](io::ErrorKind::IsADirectory), and
    /// [`Unsupported`](io::ErrorKind::Unsupported) for what is no file either.
    fn open(&self, name: &str) -> io::Result<Box<dyn DiskFile>>;

    /// What distinguishes the file of this name from any other, as long as it is open somewhere:
    /// device and inode. `None`: this disk cannot say.
    ///
    /// # Errors
    /// The operating system's; [`NotFound`](io::ErrorKind::NotFound) if there is none.
    fn identity(&self, name: &str) -> io::Result<Option<(u64, u64)>> {
        let _ = name;
        Ok(None)
    }

    /// Gives a file or directory another name, in the place of whatever file had it: after a crash
    /// it has the old name or the new one.
    ///
    /// # Errors
    /// The operating system's.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;

    /// Gives a file a second name, which none has: each stays when the other goes.
    ///
    /// # Errors
    /// The operating system's; [`AlreadyExists`](io::ErrorKind::AlreadyExists), and
    /// [`Unsupported`](io::ErrorKind::Unsupported) where files have one name only.
    fn link(&self, from: &str, to: &str) -> io::Result<()> {
        let _ = (from, to);
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Removes a file.
    ///
    /// # Errors
    /// The operating system's; [`NotFound`](io::ErrorKind::NotFound) if there is none.
    fn remove(&self, name: &str) -> io::Result<()>;

    /// A file that is to be removed and to be [cut](DiskFile::cut) before.
    ///
    /// # Errors
    /// The operating system's; [`ResourceBusy`](io::ErrorKind::ResourceBusy) if another has it
    /// open, and [`Unsupported`](io::ErrorKind::Unsupported) if it has a second name or the disk
    /// cannot say.
    fn open_alone(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        let _ = name;
        Err(io::ErrorKind::Unsupported.into())
    }

    /// What removes large files of this directory and of those below, and this directory for its
    /// use, without a sweeper. `None`: they are removed by one call.
    fn sweeper(&self) -> Option<(Arc<Sweeper>, Arc<dyn Disk>)> {
        None
    }

    /// Returns when all changes of names have reached the disk.
    ///
    /// # Errors
    /// The operating system's: the changes may be on the disk or not.
    fn sync_names(&self) -> io::Result<()>;

    /// The directory of this name in this one.
    ///
    /// # Errors
    /// The operating system's; [`NotADirectory`](io::ErrorKind::NotADirectory) if it is a file.
    fn below(&self, name: &str) -> io::Result<Arc<dyn Disk>> {
        let _ = name;
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Makes a directory in this one.
    ///
    /// # Errors
    /// The operating system's; [`AlreadyExists`](io::ErrorKind::AlreadyExists).
    fn create_below(&self, name: &str) -> io::Result<()> {
        let _ = name;
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Removes a directory in this one, with nothing in it.
    ///
    /// # Errors
    /// The operating system's; [`DirectoryNotEmpty`](io::ErrorKind::DirectoryNotEmpty).
    fn remove_below(&self, name: &str) -> io::Result<()> {
        let _ = name;
        Err(io::ErrorKind::Unsupported.into())
    }

    /// How long the next sync takes, on a disk that has no time of its own: who uses it lets that
    /// pass by a clock of its own, and has no thread wait for the disk. `None`: calls take their
    /// time.
    fn sync_time(&self) -> Option<Duration> {
        None
    }

    /// Takes a lock, by the name of a file that may come to be for it and stay. That file may
    /// name its holder. A disk that only one can reach need not do anything.
    ///
    /// # Errors
    /// [`WouldBlock`](io::ErrorKind::WouldBlock) if another has it, and the operating system's.
    fn lock(&self, name: &str) -> io::Result<Lock> {
        let _ = name;
        Ok(Box::new(()))
    }
}

/// An open file.
///
/// [`reserve`](Self::reserve), [`free`](Self::free), [`write_at`](Self::write_at),
/// [`set_direct`](Self::set_direct) and [`write_behind`](Self::write_behind) of a disk on which the
/// algorithm [`Fork`](stillframe::algorithms::fork::Fork) makes checkpoints run in a forked child:
/// they neither allocate, lock nor log.
pub trait DiskFile: Debug + Send + Sync {
    /// Writes some of `bytes` at `offset`, and returns how many. What lies between the end of the
    /// file and `offset` becomes zero.
    ///
    /// # Errors
    /// The operating system's: some of the bytes may be in the file.
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<usize>;

    /// Asks for room for a file of `bytes` bytes, whose length stays as it is. A disk that cannot
    /// say answers that there is room. Where there is less, the file takes none: others need it.
    ///
    /// # Errors
    /// [`StorageFull`](io::ErrorKind::StorageFull), and what else the operating system has to say.
    fn reserve(&self, bytes: u64) -> io::Result<()>;

    /// Bytes that are free for files on this disk. `None`: it cannot say.
    ///
    /// # Errors
    /// The operating system's.
    fn free(&self) -> io::Result<Option<u64>> {
        Ok(None)
    }

    /// Reads some bytes at `offset`, and returns how many; none only at the end of the file.
    ///
    /// # Errors
    /// The operating system's.
    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<usize>;

    /// Bytes in the file, whichever process wrote them.
    ///
    /// # Errors
    /// The operating system's.
    fn length(&self) -> io::Result<u64>;

    /// Bytes that the file takes on the disk: fewer than its length if it has holes.
    ///
    /// # Errors
    /// The operating system's.
    fn stored(&self) -> io::Result<u64> {
        self.length()
    }

    /// Makes the file so short, and what lay behind free. Only a file that is to be removed is cut.
    ///
    /// # Errors
    /// The operating system's.
    fn cut(&self, bytes: u64) -> io::Result<()> {
        let _ = bytes;
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Returns when all bytes and the length of the file have reached the disk.
    ///
    /// # Errors
    /// The operating system's. What was written since the last sync may be on the disk or not, and
    /// no later sync shows that: the file must not be trusted again.
    fn sync(&self) -> io::Result<()>;

    /// Asks that reads and writes go past the page cache from now on, or no longer, and returns
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
