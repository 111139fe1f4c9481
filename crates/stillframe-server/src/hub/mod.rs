//! All clients: the registry, messages between them, and pauses.
//!
//! Reading order: `clients` (the registry), `served` (the one that is out of it), `deliver` (how
//! messages reach clients), `pubsub` (who listens to what), `tracking` and `invalidate` (who keeps
//! what in a cache), then `monitors`, `pause` and `limit`.

mod clients;
mod deliver;
mod invalidate;
mod limit;
mod monitors;
mod pause;
mod pubsub;
mod served;
mod tracking;

use std::time::Instant;

use stillframe_redis::Events;

pub(crate) use clients::Clients;
pub(crate) use limit::outweighs;
use pause::Pause;
pub(crate) use pubsub::{Kind, Listener, PubSub, Subscriptions};
pub(crate) use served::Served;
pub(crate) use tracking::{Mode, Tracking, Who};

use crate::client::Session;
use crate::clock::Clock;
use crate::config::Config;

/// See the head of this file.
#[derive(Default)]
pub(crate) struct Hub {
    /// All clients but the one being served.
    pub(crate) clients: Clients,
    /// Channels that clients listen to.
    pubsub: PubSub,
    tracking: Tracking,
    /// Places of the clients that see every request.
    monitors: Vec<usize>,
    /// The pause of clients, if any.
    pause: Option<Pause>,
}

/// The settings and the time of the turn, by which messages are delivered.
#[derive(Clone, Copy)]
pub(crate) struct Terms<'a> {
    config: &'a Config,
    now: Instant,
}

impl<'a> Terms<'a> {
    /// Those of the turn under way.
    pub(crate) fn new(config: &'a Config, clock: &Clock) -> Self {
        Self { config, now: clock.turn() }
    }
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
