//! Files that are hardly there.

use std::io;

use stillframe_durability::disk::Input;

/// Files above this are not read if they are hardly there, in bytes.
const LARGE_BYTES: u64 = 1 << 30;
/// How much larger than its place on the disk a file may be: more than compression makes of ours.
const RATIO_MAX: u64 = 1024;

/// Says so if a file claims a length that it does not have on the disk, and that would take hours
/// to read: none of our files has holes.
pub(super) fn mostly_holes(file: &Input, bytes: u64) -> io::Result<Option<String>> {
    let on_disk = file.stored()?;
    let holes = bytes > LARGE_BYTES && on_disk < bytes / RATIO_MAX;
    Ok(holes.then(|| format!("only {on_disk} bytes of it are on the disk, the rest are holes")))
}
