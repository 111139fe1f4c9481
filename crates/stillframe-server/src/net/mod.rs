//! Sockets: those that the server listens on, those of connections, and what they tell.

mod listen;
mod network;
mod poll;
mod stream;

pub(crate) use listen::Listeners;
pub(crate) use network::Network;
pub(crate) use poll::{Door, Poller, Ready, Waker};
pub(crate) use stream::Stream;
