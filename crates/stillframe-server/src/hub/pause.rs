//! CLIENT PAUSE: requests that have to wait until an operator, or the clock, lets them run.
//!
//! - A request that may not run now is held with its client, which is not served meanwhile.
//! - When the pause ends, held requests run first, in the clients' order of the registry.
//! - The data stands still meanwhile: keys whose time has come are absent, but not deleted.

use std::time::Instant;

/// A pause of clients.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pause {
    /// When it ends by itself.
    pub(crate) end: Instant,
    /// Only requests that write are held.
    pub(crate) writes_only: bool,
}
