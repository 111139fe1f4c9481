//! Opens files that may be anything.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::OFlags;

/// A regular file and its length. A pipe without a writer does not hold us up, and a device is not
/// read.
pub(super) fn regular(path: &Path) -> io::Result<(File, u64)> {
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = OpenOptions::new().read(true).custom_flags(flags.bits() as i32).open(path)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(io::Error::other("it is neither a file nor a directory"));
    }
    Ok((file, metadata.len()))
}

/// Files above this are not read if they are hardly there, in bytes.
const LARGE_BYTES: u64 = 1 << 30;
/// How much larger than its place on the disk a file may be: more than compression makes of ours.
const RATIO_MAX: u64 = 1024;

/// Says so if a file claims a length that it does not have on the disk, and that would take hours
/// to read: none of our files has holes.
pub(super) fn mostly_holes(file: &File, bytes: u64) -> io::Result<Option<String>> {
    let on_disk = file.metadata()?.blocks().saturating_mul(512);
    let holes = bytes > LARGE_BYTES && on_disk < bytes / RATIO_MAX;
    Ok(holes.then(|| format!("only {on_disk} bytes of it are on the disk, the rest are holes")))
}
