//! The machine below a server, which fails when a test says so.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use stillframe_peers::skipped;

/// What the library gives way to: `machine.c` has the layout.
const FAULTS_BYTES: usize = 32;
const CLOCK: u64 = 0;
const SYNCS: u64 = 8;
const HELD: u64 = 24;

/// The library that lets the machine below a process fail, built from `machine.c` in a folder;
/// `None` where there is no C compiler.
pub(crate) fn shim(folder: &Path) -> Option<PathBuf> {
    let (source, library) = (folder.join("machine.c"), folder.join("machine.so"));
    fs::write(&source, include_str!("machine.c")).expect("the source is written");
    let built = Command::new("cc")
        .args(["-shared", "-fPIC", "-O1", "-o"])
        .args([&library, &source])
        .arg("-ldl")
        .stdin(Stdio::null())
        .output();
    match built {
        Ok(output) if output.status.success() => Some(library),
        Ok(output) => panic!("machine.c: {}", String::from_utf8_lossy(&output.stderr)),
        Err(_) => {
            skipped("failing clocks and syncs", "this machine lacks a C compiler, cc");
            None
        }
    }
}

/// See the head of this file.
pub(crate) struct Machine {
    faults: File,
    path: PathBuf,
}

impl Machine {
    /// One that does not fail yet; its file is in a folder.
    pub(crate) fn new(folder: &Path) -> Self {
        let path = folder.join("faults");
        fs::write(&path, [0; FAULTS_BYTES]).expect("a file of faults");
        let faults = File::options().write(true).open(&path).expect("it is there");
        Self { faults, path }
    }

    /// What the environment of a process has for this to be its machine.
    pub(crate) fn environment(&self, shim: &Path) -> [(&'static str, PathBuf); 2] {
        [("LD_PRELOAD", shim.to_owned()), ("STILLFRAME_FAULTS", self.path.clone())]
    }

    /// The next so many syncs fail.
    pub(crate) fn fail_syncs(&self, count: i64) {
        self.set(SYNCS, count);
    }

    /// From now on syncs last until they are held no more.
    pub(crate) fn hold_syncs(&self, held: bool) {
        self.set(HELD, held.into());
    }

    /// The clock of its day is wrong by so much from now on.
    pub(crate) fn set_clock(&self, ms: i64) {
        self.set(CLOCK, ms * 1_000_000);
    }

    fn set(&self, at: u64, value: i64) {
        self.faults.write_all_at(&value.to_ne_bytes(), at).expect("the file of faults");
    }
}
