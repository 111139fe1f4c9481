//! A disk that can be made full.

use super::{Server, Setup, limit_file_size};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Its size.
const BYTES: usize = 16 << 20;

/// A folder on a disk that can be made full: a small disk in memory where the tests may mount one,
/// otherwise the process's own limit on the size of a file.
pub(crate) enum Disk {
    Mounted(tempfile::TempDir),
    Limited(tempfile::TempDir),
}

impl Disk {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let mount = Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=16m", "stillframe-test"])
            .arg(folder.path())
            .output();
        match mount {
            Ok(output) if output.status.success() => Self::Mounted(folder),
            _ => Self::Limited(folder),
        }
    }

    pub(crate) fn path(&self) -> &Path {
        match self {
            Self::Mounted(folder) | Self::Limited(folder) => folder.path(),
        }
    }

    /// A server on this disk.
    pub(crate) fn setup(&self, setup: Setup) -> Setup {
        let setup = setup.folder(self.path());
        match self {
            Self::Mounted(_) => setup,
            Self::Limited(_) => setup.outlives_file_limits(),
        }
    }

    fn ballast(&self) -> PathBuf {
        self.path().join("ballast")
    }

    /// Leaves room for so many bytes; where only the size of a file can be limited, for some.
    pub(crate) fn fill(&self, server: &Server, room: u64) {
        match self {
            Self::Mounted(_) => {
                // Ends with an error once the disk is full, as it should.
                let _ = fs::write(self.ballast(), vec![0; BYTES]);
                let left = fs::metadata(self.ballast()).expect("what there was room for").len();
                let ballast = fs::File::options().write(true).open(self.ballast()).expect("it");
                ballast.set_len(left.saturating_sub(room)).expect("that much room");
            }
            Self::Limited(_) => limit_file_size(server.pid(), Some(100_000)),
        }
    }

    /// Ends that; `server` may have ended meanwhile.
    pub(crate) fn make_room(&self, server: &Server) {
        match self {
            Self::Mounted(_) => fs::remove_file(self.ballast()).expect("the ballast is there"),
            Self::Limited(_) => limit_file_size(server.pid(), None),
        }
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        if let Self::Mounted(folder) = self {
            // What is still in use is unmounted once it no longer is.
            let _ = Command::new("umount").arg("-l").arg(folder.path()).status();
        }
    }
}
