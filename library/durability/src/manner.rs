//! How checkpoints are written.

use crate::chain::Increments;
use crate::disk::Throttle;

/// How checkpoints are written.
#[derive(Debug)]
pub(crate) struct Manner {
    pub(crate) packs: bool,
    pub(crate) throttle: Option<Throttle>,
    /// `None`: all checkpoints are full.
    pub(crate) increments: Option<Increments>,
    /// Whether images are increments by themselves; otherwise tables record what was written.
    pub(crate) native: bool,
    /// Whether this process writes them; it may then use a thread.
    pub(crate) in_process: bool,
}
