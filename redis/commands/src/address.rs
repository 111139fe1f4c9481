//! Where a client is, as operators read it.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

/// One end of a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    /// A host and a port.
    Net(SocketAddr),
    /// A unix socket of that path.
    Unix(Arc<str>),
}

impl Address {
    /// The end without its port.
    pub fn host(&self) -> String {
        match self {
            Self::Net(address) => address.ip().to_string(),
            Self::Unix(path) => path.to_string(),
        }
    }

    /// Whether only processes of this machine can be there.
    pub fn is_local(&self) -> bool {
        match self {
            Self::Net(address) => address.ip().to_canonical().is_loopback(),
            Self::Unix(_) => true,
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Net(address) => address.fmt(f),
            Self::Unix(path) => write!(f, "{path}:0"),
        }
    }
}
