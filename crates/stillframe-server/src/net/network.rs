//! The server's connections to others.

use super::{Listeners, Peers};
use crate::tls::Tls;

/// See the head of this file.
#[derive(Default)]
pub(crate) struct Network {
    /// The sockets it listens on.
    pub(crate) listeners: Listeners,
    /// The material of TLS connections.
    pub(crate) tls: Tls,
    /// Connections to servers to which keys were moved lately.
    pub(crate) peers: Peers,
}
