//! FAILOVER: a primary and one of its replicas change places without losing a write.
//!
//! - From the request on, the server postpones writes and the stream stands still; once a replica
//!   has the whole stream, this server follows that replica, with a request that promotes it. The
//!   postponed writes then get READONLY.
//! - Until the other server has agreed, the failover can be aborted, and this server stays the
//!   primary.

use std::time::Instant;

/// A failover under way.
pub(crate) struct Failover {
    /// Host and port of the replica that takes over, named by the request or chosen by the server.
    pub(crate) target: Option<(String, u16)>,
    /// When a replica must have the whole stream.
    pub(crate) deadline: Option<Instant>,
    /// After the deadline the target takes over in any case.
    pub(crate) force: bool,
    /// This server follows the target, which has not agreed yet.
    pub(crate) handed_over: bool,
}
