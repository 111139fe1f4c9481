//! What the file systems of Unix offer. Linux has more of it: places of a file are reserved, writes
//! go past the page cache or are begun early. Elsewhere these hints do nothing.

use std::fs::{File, Metadata, OpenOptions, Permissions, metadata};
use std::io::{self, ErrorKind};
use std::ops::Range;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

use rustix::fs::OFlags;
use rustix::io::Errno;

const DIRECTORY: i32 = OFlags::DIRECTORY.bits() as i32;
const NO_LINK: i32 = OFlags::NOFOLLOW.union(OFlags::NONBLOCK).bits() as i32;
const NO_WAIT: i32 = OFlags::NONBLOCK.union(OFlags::NOCTTY).bits() as i32;

/// A directory, whose names can be synced.
pub(super) fn open_directory(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).custom_flags(DIRECTORY).open(path)
}

/// Returns when the names in a directory have reached the disk.
pub(super) fn sync_names(directory: &File) -> io::Result<()> {
    directory.sync_all()
}

/// A new file with the permissions of another; if there is none, its owner alone may use it.
pub(super) fn create_like(
    options: &mut OpenOptions,
    path: &Path,
    model: &Path,
) -> io::Result<File> {
    let mode = metadata(model).map(|model| model.permissions().mode()).unwrap_or(0o600);
    let file = options.mode(0o600).open(path)?;
    file.set_permissions(Permissions::from_mode(mode))?;
    Ok(file)
}

/// Device and inode.
pub(super) fn identity(found: &Metadata) -> Option<(u64, u64)> {
    Some((found.dev(), found.ino()))
}

/// A regular file with one name. Of a symbolic link it says nothing, nor of what that leads to.
pub(super) fn open_with_one_name(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new().read(true).write(true).custom_flags(NO_LINK).open(path)?;
    let found = file.metadata()?;
    if found.is_file() && found.nlink() == 1 {
        Ok(file)
    } else {
        Err(ErrorKind::Unsupported.into())
    }
}

/// A file or directory, without waiting for the writer of a pipe; `None`: a device without a
/// driver, or a socket.
pub(super) fn open_to_read(path: &Path) -> io::Result<Option<File>> {
    match OpenOptions::new().read(true).custom_flags(NO_WAIT).open(path) {
        Err(error) if Errno::from_io_error(&error) == Some(Errno::NXIO) => Ok(None),
        file => file.map(Some),
    }
}

pub(super) fn write_at(file: &File, bytes: &[u8], offset: u64) -> io::Result<usize> {
    file.write_at(bytes, offset)
}

pub(super) fn read_at(file: &File, into: &mut [u8], offset: u64) -> io::Result<usize> {
    file.read_at(into, offset)
}

/// Bytes that a file takes on the disk.
pub(super) fn stored(found: &Metadata) -> u64 {
    found.blocks().saturating_mul(512)
}

/// Whether a process of this number is there.
pub(super) fn is_alive(process: u32) -> bool {
    let process = i32::try_from(process).ok().and_then(rustix::process::Pid::from_raw);
    let Some(process) = process else { return false };
    rustix::process::test_kill_process(process) != Err(Errno::SRCH)
}

/// A file system that has less than is asked for gives all of that before it says so, and meanwhile
/// nobody else has any. So it is asked first how much it has; another may take that in between.
#[cfg(target_os = "linux")]
pub(super) fn reserve(file: &File, bytes: u64) -> io::Result<()> {
    use rustix::fs::{FallocateFlags, fallocate};
    let allocate = |bytes| fallocate(file, FallocateFlags::KEEP_SIZE, 0, bytes);
    // The first byte shows whether it reserves at all: one that does not may store less by packing.
    let reserved = allocate(1).map_err(io::Error::from).and_then(|()| {
        let more = bytes.saturating_sub(stored(&file.metadata()?));
        if free(file)?.is_some_and(|free| free < more) {
            return Err(Errno::NOSPC.into());
        }
        Ok(allocate(bytes)?)
    });
    match reserved {
        // Some file systems cannot; the write will show.
        Err(error)
            if matches!(
                Errno::from_io_error(&error),
                Some(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL)
            ) =>
        {
            Ok(())
        }
        reserved => reserved,
    }
}

/// What is free for all: not what a file system keeps for its administrator. One without a limit of
/// its own has 0 blocks.
#[cfg(target_os = "linux")]
pub(super) fn free(file: &File) -> io::Result<Option<u64>> {
    let found = rustix::fs::fstatvfs(file)?;
    Ok((found.f_blocks > 0).then(|| found.f_bavail.saturating_mul(found.f_frsize)))
}

#[cfg(target_os = "linux")]
pub(super) fn set_direct(file: &File, direct: bool) -> bool {
    use rustix::fs::{fcntl_getfl, fcntl_setfl};
    let set = fcntl_getfl(file).and_then(|mut flags| {
        flags.set(OFlags::DIRECT, direct);
        fcntl_setfl(file, flags)
    });
    set.is_ok() // some file systems have no such thing
}

/// Linux starts to write the dirty pages of the range and drops the clean ones; it waits for
/// neither.
#[cfg(target_os = "linux")]
pub(super) fn write_behind(file: &File, range: Range<u64>) {
    use std::num::NonZeroU64;

    use rustix::fs::{Advice, fadvise};
    if let Some(length) = NonZeroU64::new(range.end.saturating_sub(range.start)) {
        let _ = fadvise(file, range.start, Some(length), Advice::DontNeed);
    }
}

#[cfg(not(target_os = "linux"))]
pub(super) fn reserve(_: &File, _bytes: u64) -> io::Result<()> {
    Ok(())
}

#[cfg(not(target_os = "linux"))]
pub(super) fn free(_: &File) -> io::Result<Option<u64>> {
    Ok(None)
}

#[cfg(not(target_os = "linux"))]
pub(super) fn set_direct(_: &File, _direct: bool) -> bool {
    false
}

#[cfg(not(target_os = "linux"))]
pub(super) fn write_behind(_: &File, _: Range<u64>) {}
