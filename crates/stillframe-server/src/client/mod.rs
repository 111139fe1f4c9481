//! Clients: the socket and buffers of one, what is remembered of it between two requests, and the
//! registry of all.

mod connection;
mod registry;
mod session;
mod transaction;

pub(crate) use connection::{Client, Read, SHARED_BYTES, taken};
pub(crate) use registry::Clients;
pub(crate) use session::{Replies, Session};
pub(crate) use transaction::Transaction;
