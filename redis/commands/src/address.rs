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
    /// The process of the server.
    Memory,
}

impl Address {
    /// The end without its port.
    pub fn host(&self) -> String {
        match self {
            Self::Net(address) => address.ip().to_string(),
            Self::Unix(path) => path.to_string(),
            Self::Memory => "memory".to_owned(),
        }
    }

    /// Whether only processes of this machine can be there.
    pub fn is_local(&self) -> bool {
        match self {
            Self::Net(address) => address.ip().to_canonical().is_loopback(),
            Self::Unix(_) | Self::Memory => true,
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Net(address) => address.fmt(f),
            Self::Unix(path) => write!(f, "{path}:0"),
            Self::Memory => f.write_str("memory:0"),
        }
    }
}
