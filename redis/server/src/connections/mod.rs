//! Connections: from sockets (`tls`, `net`, `io_threads`) to a `client`, the registry of `clients`,
//! and messages between them (`hub`). Threads hand over by `belts` and sleep until a bell rings.

#[allow(unreachable_pub, reason = "it is also a crate of its own, for the models")]
pub(crate) mod belts;
pub(crate) mod client;
pub(crate) mod clients;
pub(crate) mod hub;
pub(crate) mod io_threads;
pub(crate) mod net;
pub(crate) mod tls;
