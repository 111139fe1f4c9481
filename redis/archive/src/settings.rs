//! What to archive, where to, how fast and how long to keep it.

use std::path::PathBuf;
use std::time::Duration;

/// The files that are archived.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Source {
    /// The data directory of a server.
    Server {
        /// Its path.
        directory: PathBuf,
        /// `dbfilename`.
        dump: String,
        /// `appenddirname`.
        logs: String,
    },
    /// The directory of a `Store`.
    Store {
        /// Its path.
        directory: PathBuf,
    },
}

impl Source {
    /// The data directory of a server, with its `dbfilename` and `appenddirname`.
    #[must_use]
    pub fn server(directory: PathBuf, dump: String, logs: String) -> Self {
        Self::Server { directory, dump, logs }
    }

    /// The directory of a `Store`.
    pub fn store(directory: impl Into<PathBuf>) -> Self {
        Self::Store { directory: directory.into() }
    }

    pub(crate) fn directory(&self) -> &PathBuf {
        match self {
            Self::Server { directory, .. } | Self::Store { directory } => directory,
        }
    }

    pub(crate) fn is_store(&self) -> bool {
        matches!(self, Self::Store { .. })
    }
}

/// The settings of an archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// `s3://bucket/prefix`, `gs://bucket/prefix`, `az://container/prefix`, `file:///path`.
    pub url: String,
    /// Most bytes uploaded a second; 0: no limit.
    pub bandwidth_bytes: u64,
    /// How long ago a state may be; 0: all are kept.
    pub keep: Duration,
    /// At least so many images are kept, whatever their age.
    pub keep_images: usize,
    /// Most bytes of files that wait for the upload, beyond what the directory itself needs.
    pub pending_bytes: u64,
    /// How often what is new in the open segment is uploaded.
    pub interval: Duration,
    /// Least time between two archived images of one log.
    pub image_period: Duration,
    /// Takes a prefix over from another data directory.
    pub take_over: bool,
}

impl Settings {
    /// The defaults, with this archive.
    pub fn from_url(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            bandwidth_bytes: 50_000_000,
            keep: Duration::from_secs(7 * 86_400),
            keep_images: 2,
            pending_bytes: 4 << 30,
            interval: Duration::from_secs(10),
            image_period: Duration::from_secs(3600),
            take_over: false,
        }
    }
}
