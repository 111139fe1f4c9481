//! Connections: from sockets (`tls`, `net`, `io_threads`) to a `client`, the registry of `clients`,
//! and messages between them (`hub`).

pub(crate) mod client;
pub(crate) mod clients;
pub(crate) mod hub;
pub(crate) mod io_threads;
pub(crate) mod net;
pub(crate) mod tls;
