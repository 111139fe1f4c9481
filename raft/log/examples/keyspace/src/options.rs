//! How the state is kept.

use stillframe_keyspace::KeyspaceOptions;

/// How the state is kept. What decides what a request does must be the same on all members:
/// `max_keys` of the keyspace is of that kind.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Options {
    /// The keyspace.
    pub keyspace: KeyspaceOptions,
    /// Most bytes of an image written in a second; 0 is no limit.
    pub bandwidth: u64,
    /// Long strings in images are compressed.
    pub compresses: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { keyspace: KeyspaceOptions::default(), bandwidth: 0, compresses: true }
    }
}
