//! Who is told what: channels that clients listen to, and keys that they keep in caches.

mod pubsub;
mod tracking;

pub(crate) use pubsub::{Kind, Listener, Message, PubSub, Subscriptions, strings};
pub(crate) use tracking::{Mode, Tracking, Who};
