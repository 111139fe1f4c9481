//! Sources of libraries of functions: part of the data set, and of every image, but of no database.

use std::sync::Arc;

/// The sources, in no order that counts.
#[derive(Debug, Clone, Default)]
pub struct Libraries {
    sources: Vec<Arc<[u8]>>,
    version: u64,
}

impl Libraries {
    /// The sources.
    pub fn sources(&self) -> &[Arc<[u8]>] {
        &self.sources
    }

    /// A number that every change raises.
    #[inline]
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Adds one.
    pub(crate) fn add(&mut self, source: &[u8]) {
        self.sources.push(source.into());
        self.version += 1;
    }

    /// Replaces all.
    pub(crate) fn set(&mut self, sources: Vec<Arc<[u8]>>) {
        self.sources = sources;
        self.version += 1;
    }
}
