//! What the file systems of Windows offer, by the standard library alone.
//!
//! Names are durable when the file system's own journal is: a directory cannot be synced. Whose
//! file it is, its mode and its second names do not count.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, ErrorKind};
use std::ops::Range;
use std::os::windows::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

/// Opens directories, too.
const FILE_FLAG_BACKUP_SEMANTICS: u32 = 0x0200_0000;

/// A directory.
pub(super) fn open_directory(path: &Path) -> io::Result<File> {
    let directory =
        OpenOptions::new().read(true).custom_flags(FILE_FLAG_BACKUP_SEMANTICS).open(path)?;
    let is_one = directory.metadata()?.is_dir();
    if is_one { Ok(directory) } else { Err(ErrorKind::NotADirectory.into()) }
}

/// Nothing: it needs a right that directories are not opened with.
pub(super) fn sync_names(_: &File) -> io::Result<()> {
    Ok(())
}

/// A new file with the permissions of its directory.
pub(super) fn create_like(
    options: &mut OpenOptions,
    path: &Path,
    _model: &Path,
) -> io::Result<File> {
    options.open(path)
}

/// It cannot say.
pub(super) fn identity(_: &Metadata) -> Option<(u64, u64)> {
    None
}

/// It cannot say how many names a file has.
pub(super) fn open_with_one_name(_: &Path) -> io::Result<File> {
    Err(ErrorKind::Unsupported.into())
}

/// A file or directory.
pub(super) fn open_to_read(path: &Path) -> io::Result<Option<File>> {
    OpenOptions::new().read(true).custom_flags(FILE_FLAG_BACKUP_SEMANTICS).open(path).map(Some)
}

pub(super) fn write_at(file: &File, bytes: &[u8], offset: u64) -> io::Result<usize> {
    file.seek_write(bytes, offset)
}

pub(super) fn read_at(file: &File, into: &mut [u8], offset: u64) -> io::Result<usize> {
    file.seek_read(into, offset)
}

/// The length: how much of it is stored is not known.
pub(super) fn stored(found: &Metadata) -> u64 {
    found.len()
}

/// It cannot say: a lock is waited for by its holder's word alone.
pub(super) fn is_alive(_process: u32) -> bool {
    true
}

pub(super) fn reserve(_: &File, _bytes: u64) -> io::Result<()> {
    Ok(())
}

pub(super) fn free(_: &File) -> io::Result<Option<u64>> {
    Ok(None)
}

pub(super) fn set_direct(_: &File, _direct: bool) -> bool {
    false
}

pub(super) fn write_behind(_: &File, _: Range<u64>) {}
