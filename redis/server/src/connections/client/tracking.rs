//! How one client tracks the keys that it caches (CLIENT TRACKING).

use std::collections::BTreeSet;

/// A client's mode of tracking.
#[derive(Debug, Default, Clone)]
pub(crate) struct TrackingMode {
    /// It receives all changes of keys with one of `prefixes`, not only of keys it has read.
    pub(crate) broadcast: bool,
    /// Only keys read right after CLIENT CACHING YES are remembered.
    pub(crate) opt_in: bool,
    /// Keys read right after CLIENT CACHING NO are not remembered.
    pub(crate) opt_out: bool,
    /// It receives no changes of its own.
    pub(crate) no_loop: bool,
    /// CLIENT CACHING holds for the next request.
    pub(crate) caching: bool,
    /// Another client that receives the invalidations instead.
    pub(crate) redirect: Option<Who>,
    /// The client to redirect to is gone.
    pub(crate) broken: bool,
    /// See `broadcast`; none is the start of another.
    pub(crate) prefixes: BTreeSet<Box<[u8]>>,
    /// Bytes of their memory.
    pub(crate) prefix_bytes: usize,
}

/// A client, which may be gone.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Who {
    /// Its place in the registry of clients.
    pub(crate) place: usize,
    /// Its number.
    pub(crate) id: u64,
}

/// A client's mode of tracking, if it tracks.
pub(crate) type Tracked<'s> = &'s mut Option<Box<TrackingMode>>;
