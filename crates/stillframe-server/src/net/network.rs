//! The server's ways to others.

use super::Listeners;
use crate::commands::migrate::Peers;
use crate::tls::Tls;

/// See the head of this file.
#[derive(Default)]
pub(crate) struct Network {
    /// The sockets it listens on.
    pub(crate) listeners: Listeners,
    /// What TLS connections are made with.
    pub(crate) tls: Tls,
    /// Servers that keys were moved to lately.
    pub(crate) peers: Peers,
}
