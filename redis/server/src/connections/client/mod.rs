//! A client: its socket, its buffers, and its state between two requests.

mod connection;
mod relay;
mod replica;
mod session;
mod subscriptions;
mod tracking;
mod upstream;
mod wire;

pub(crate) use connection::{Client, Read, SHARED_BYTES, taken};
pub(crate) use relay::Relay;
pub(crate) use replica::{FAILED, Phase, Reads, Replica, Sent};
pub(crate) use session::{Needs, Replies, Session};
pub(crate) use subscriptions::{Kind, Listener, Name, Subscriptions};
pub(crate) use tracking::{Tracked, TrackingMode, Who};
pub(crate) use upstream::{Greeting, Lost, Upstream, WAITING_BYTES_MAX};
pub(crate) use wire::Wire;
