//! A client: its socket and buffers, and what is remembered of it between two requests.

mod connection;
mod session;
mod transaction;

pub(crate) use connection::{Client, Read, SHARED_BYTES, taken};
pub(crate) use session::{Replies, Session};
pub(crate) use transaction::Transaction;
