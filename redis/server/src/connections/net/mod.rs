//! Sockets: listening ones, those of connections, and their events.

mod listen;
mod lookup;
mod memory;
mod network;
mod peers;
mod poll;
mod stream;

pub(crate) use listen::Listeners;
pub(crate) use lookup::Lookup;
pub use memory::Connection;
pub(crate) use memory::{Porch, forked};
pub(crate) use network::Network;
use peers::Peers;
pub(crate) use peers::{Failure, Peer, PeerReply};
pub(crate) use poll::{Door, Poller, Ready, Waker};
pub(crate) use stream::Stream;
