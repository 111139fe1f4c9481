//! FAILOVER: a primary and one of its replicas change places without losing a write.
//!
//! - Writes are postponed from the request on, and nothing is added to the stream; once a replica
//!   has all of it this server follows that replica, with words that promote it. The postponed
//!   writes then hear READONLY.
//! - Until the other has agreed it can be called off, and this server is a primary as before.

use std::time::Instant;

/// A change of places that is under way.
pub(crate) struct Failover {
    /// Host and port of the replica that is to take over: named by the request, or chosen since.
    pub(crate) target: Option<(String, u16)>,
    /// Until when a replica has to have the whole stream.
    pub(crate) deadline: Option<Instant>,
    /// After the deadline the target takes over, whatever it has.
    pub(crate) force: bool,
    /// This server follows the target, which has not agreed yet.
    pub(crate) handed_over: bool,
}
