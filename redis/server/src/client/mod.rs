//! A client: its socket, its buffers, and its state between two requests.

mod connection;
mod session;
mod upstream;
mod wire;

pub(crate) use connection::{Client, Read, SHARED_BYTES, taken};
pub(crate) use session::{Needs, Replies, Session};
pub(crate) use upstream::{Greeting, Lost, Upstream, WAITING_BYTES_MAX};
pub(crate) use wire::Wire;
