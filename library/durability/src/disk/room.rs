//! Room for a file that is asked for before its first byte.

use std::fmt;
use std::io;

use super::DiskFile;
use super::calls::patiently;

/// A file finds no room on its disk, and has taken none.
#[derive(Debug)]
pub struct NoRoom {
    needed: u64,
    /// `None`: the disk does not say, or something else has failed.
    free: Option<u64>,
    source: io::Error,
}

/// Asks for room for a file of `bytes` bytes, and allocates no memory.
///
/// # Errors
/// [`NoRoom`], which says how much is free.
pub fn make_room(file: &dyn DiskFile, bytes: u64) -> Result<(), NoRoom> {
    patiently(|| file.reserve(bytes)).map_err(|source| {
        let is_full = source.kind() == io::ErrorKind::StorageFull;
        let free = if is_full { file.free().ok().flatten() } else { None };
        NoRoom { needed: bytes, free, source }
    })
}

impl NoRoom {
    /// The code of the operating system; 0: there is none.
    pub(crate) fn errno(&self) -> i32 {
        self.source.raw_os_error().unwrap_or(0)
    }
}

/// Without what the operating system says.
impl fmt::Display for NoRoom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "making room for {} bytes failed", self.needed)?;
        self.free.map_or(Ok(()), |free| write!(f, ", {free} are free"))
    }
}

impl From<NoRoom> for io::Error {
    fn from(error: NoRoom) -> Self {
        Self::new(error.source.kind(), format!("{error}: {}", error.source))
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Disk, RealDisk, SimulatedDisk};
    use super::*;

    /// More than any disk gets free while this runs.
    const MORE: u64 = 1 << 50;

    fn refused(disk: &dyn Disk, bytes: impl FnOnce(u64) -> u64) -> Option<(String, u64)> {
        let file = disk.create("f").expect("a sound disk");
        make_room(&*file, 1).expect("one byte");
        let free = file.free().expect("a sound disk")?;
        let bytes = bytes(free);
        let error = io::Error::from(make_room(&*file, bytes).expect_err("there is no room"));
        assert_eq!(error.kind(), io::ErrorKind::StorageFull, "{error}");
        let error = error.to_string();
        assert!(error.contains(&format!("room for {bytes} bytes failed, ")), "{error}");
        assert!(error.contains(" are free: No space left on device"), "{error}");
        Some((error, file.stored().expect("a sound disk")))
    }

    #[test]
    fn a_file_too_large_for_what_is_free_takes_nothing() {
        let folder = tempfile::tempdir().expect("a folder");
        let disk = RealDisk::open(folder.path()).expect("a folder");
        let can_reserve = {
            let file = disk.create("g").expect("a sound disk");
            make_room(&*file, 1 << 20).expect("a megabyte");
            file.stored().expect("a sound disk") > 0
        };
        if can_reserve && let Some((_, stored)) = refused(&disk, |free| free + MORE) {
            assert!(stored <= 1 << 16, "{stored} bytes of the disk are taken");
        }
    }

    #[test]
    fn the_error_names_what_is_needed_and_what_is_free() {
        let disk = SimulatedDisk::default();
        disk.set_room(Some(300));
        let (error, _) = refused(&disk, |free| free + 1).expect("this disk can say");
        assert!(error.contains("room for 301 bytes failed, 300 are free"), "{error}");
    }
}
