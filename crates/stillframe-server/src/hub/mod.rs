//! The clients together: who is there, who is told what, and who has to wait.

mod clients;
mod pause;
mod pubsub;
mod tracking;

pub(crate) use clients::Clients;
pub(crate) use pause::Pause;
pub(crate) use pubsub::{Kind, Listener, Message, PubSub, Subscriptions, strings};
pub(crate) use tracking::{Mode, Tracking, Who};

/// See the head of this file.
#[derive(Default)]
pub(crate) struct Hub {
    /// All clients but the one being served.
    pub(crate) clients: Clients,
    /// Channels that clients listen to.
    pub(crate) pubsub: PubSub,
    /// Keys that clients keep in caches.
    pub(crate) tracking: Tracking,
    /// Places of the clients that want to see every request.
    pub(crate) monitors: Vec<usize>,
    /// Requests are being held.
    pub(crate) pause: Option<Pause>,
}
