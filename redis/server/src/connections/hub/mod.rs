//! Messages between clients, and their pause.
//!
//! Reading order: `deliver` (how messages reach clients), `pubsub` (who listens to what),
//! `tracking` and `invalidate` (who keeps what in a cache), then `monitors` and `pause`.

mod deliver;
mod invalidate;
mod monitors;
mod pause;
mod pubsub;
mod tracking;

use stillframe_commands::Events;

pub(crate) use deliver::Delivery;
use pause::Pause;
pub(crate) use pubsub::PubSub;
pub(crate) use tracking::Tracking;

use crate::connections::client::{Kind, Session};

/// See the head of this file.
#[derive(Default)]
pub(crate) struct Hub {
    /// Channels that clients listen to.
    pubsub: PubSub,
    tracking: Tracking,
    /// Places of the clients that see every request.
    monitors: Vec<usize>,
    /// The pause of clients, if any.
    pause: Option<Pause>,
}

impl Hub {
    /// Subscribes a client; once is enough.
    pub(crate) fn subscribe(&mut self, session: &mut Session, kind: Kind, name: &[u8]) {
        self.pubsub.subscribe(session.listener(), kind, name);
    }

    /// Ends a subscription of a client, if there is one.
    pub(crate) fn unsubscribe(&mut self, session: &mut Session, kind: Kind, name: &[u8]) {
        self.pubsub.unsubscribe(session.listener(), kind, name);
    }

    /// The channels that clients listen to.
    pub(crate) fn pubsub(&self) -> &PubSub {
        &self.pubsub
    }

    /// A client that leaves, or resets, receives nothing more but its replies.
    pub(crate) fn forget(&mut self, session: &mut Session, events: &mut Events) {
        self.pubsub.forget(session.listener());
        self.stop_monitoring(session);
        self.disable_tracking(session, events);
    }
}
