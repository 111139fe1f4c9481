//! A client: its socket, its buffers, and its state between two requests.

mod connection;
mod session;
mod transaction;

pub(crate) use connection::{Client, Read, SHARED_BYTES, taken};
pub(crate) use session::{Replies, Session};
pub(crate) use transaction::Transaction;
