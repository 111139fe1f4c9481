//! A client: its socket, its buffers, and its state between two requests.

mod connection;
mod session;

pub(crate) use connection::{Client, Read, SHARED_BYTES, taken};
pub(crate) use session::{Needs, Replies, Session};
