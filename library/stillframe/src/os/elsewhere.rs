//! What only Linux has, where it is missing: each part says so, and nothing else changes.
//! docs/run/install.md lists the parts.

use std::fs::File;
use std::io;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

/// Why there is no image by `fork`.
pub(crate) const NO_FORK: Option<&str> =
    Some("images by fork need Linux, whose processes share memory as this library asks for it");
/// Exit status of a child whose closure panicked.
pub(crate) const STATUS_PANICKED: i32 = 101;

/// A child process: there is none.
#[derive(Debug)]
#[allow(dead_code, reason = "none is made")]
pub(crate) struct Child(());

/// How a child ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(dead_code, reason = "the interface of process.rs")]
pub(crate) enum Ended {
    Exited(i32),
    Killed(i32),
    Unknown,
}

impl Child {
    /// There is none.
    pub(crate) fn hush_panics() {}

    /// Refuses. [`NO_FORK`] is asked before.
    pub(crate) fn spawn(_: impl FnOnce() -> i32) -> Result<Self, i32> {
        Err(0)
    }

    #[allow(clippy::unused_self, reason = "the interface of process.rs")]
    pub(crate) fn wait(&mut self) -> Ended {
        Ended::Unknown
    }
}

/// The memory of the process at one instant, which only Linux gives.
#[derive(Debug)]
pub struct Frozen(());

impl Frozen {
    /// Refuses.
    ///
    /// # Errors
    /// [`Unsupported`](io::ErrorKind::Unsupported).
    pub fn new() -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Refuses.
    ///
    /// # Errors
    /// [`Unsupported`](io::ErrorKind::Unsupported).
    pub fn load(&self, _words: &[AtomicU64], _into: &mut [u64]) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// Nothing: the system schedules threads by its own lights.
pub fn lower_priority() {}

/// Zero: the system is not asked.
pub(crate) fn thread_time() -> Duration {
    Duration::ZERO
}

/// Only Linux can say whether a file is open elsewhere.
///
/// # Errors
/// [`Unsupported`](io::ErrorKind::Unsupported).
pub fn is_open_alone(_: &File) -> io::Result<bool> {
    Err(io::ErrorKind::Unsupported.into())
}
