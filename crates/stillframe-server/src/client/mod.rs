//! A client: its socket, its buffers, and its state between two requests.

mod connection;
mod link;
mod session;
mod upstream;

pub(crate) use connection::{Client, Read, SHARED_BYTES, taken};
pub(crate) use link::Link;
pub(crate) use session::{Needs, Replies, Session};
pub(crate) use upstream::{Greeting, Lost, Upstream, WAITING_BYTES_MAX};
