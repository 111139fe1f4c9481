//! Subscriptions to channels, and the way of messages to subscribers.
//!
//! - A subscription is listed twice, under its topic for publishers and in the session of the
//!   client for its end; both lists change together and share the name.
//! - A message is encoded once per protocol, however many clients get it.
//! - A message goes straight into the output of its receiver. The limits of its class close a
//!   receiver that does not read as the message is added, so that its memory is bounded.
//! - The client whose request is running is out of the registry: its messages wait as mail and go
//!   out before the reply. Above its limit it gets no more, and is closed after the request.

use std::collections::HashMap;

use stillframe_commands::Few;

use crate::connections::client::{Kind, Listener, Name};

/// Names with the places of their subscribers.
#[derive(Default)]
struct Topics(HashMap<Name, Few<usize>>);

/// All subscriptions of a server.
#[derive(Default)]
pub(crate) struct PubSub {
    topics: [Topics; 3],
}

impl PubSub {
    /// Subscribes a client; once is enough.
    pub(super) fn subscribe(&mut self, who: Listener<'_>, kind: Kind, name: &[u8]) {
        let (own, place) = who;
        let own = own.get_or_insert_default();
        if own.contains(kind, name) {
            return;
        }
        let topics = &mut self.topics[kind as usize].0;
        let name = topics.get_key_value(name).map_or_else(|| name.into(), |(name, _)| name.clone());
        topics.entry(name.clone()).or_default().insert(place);
        own.add(kind, name);
    }

    /// Ends a subscription, if there is one.
    pub(super) fn unsubscribe(&mut self, who: Listener<'_>, kind: Kind, name: &[u8]) {
        let (owned, place) = who;
        let Some(own) = owned else { return };
        if own.remove(kind, name) {
            self.topics[kind as usize].remove(name, place);
        }
        if own.is_empty() {
            *owned = None;
        }
    }

    /// Ends all subscriptions of a client.
    pub(super) fn forget(&mut self, (own, place): Listener<'_>) {
        let Some(own) = own.take() else { return };
        for (topics, kind) in self.topics.iter_mut().zip(Kind::ALL) {
            own.names(kind).for_each(|name| topics.remove(name, place));
        }
    }

    /// How many names of one kind have subscribers.
    pub(crate) fn count(&self, kind: Kind) -> usize {
        self.topics[kind as usize].0.len()
    }

    /// The names of one kind that have subscribers, in no order.
    pub(crate) fn names(&self, kind: Kind) -> impl Iterator<Item = &Name> {
        self.topics[kind as usize].0.keys()
    }

    /// The number of subscribers of a name.
    pub(crate) fn listeners(&self, kind: Kind, name: &[u8]) -> usize {
        self.topics[kind as usize].0.get(name).map_or(0, Few::len)
    }

    /// The places of the subscribers of a name.
    pub(super) fn places(&self, kind: Kind, name: &[u8]) -> &[usize] {
        self.topics[kind as usize].0.get(name).map_or(&[], Few::as_slice)
    }

    /// The patterns that have subscribers, with the subscribers' places.
    pub(super) fn patterns(&self) -> impl Iterator<Item = (&Name, &[usize])> {
        self.topics[Kind::Pattern as usize].0.iter().map(|(name, few)| (name, few.as_slice()))
    }

    /// Whether there is any subscription.
    pub(super) fn is_empty(&self) -> bool {
        self.topics.iter().all(|topics| topics.0.is_empty())
    }
}

impl Topics {
    fn remove(&mut self, name: &[u8], place: usize) {
        if let Some(listeners) = self.0.get_mut(name) {
            listeners.remove(&place);
            if listeners.is_empty() {
                self.0.remove(name);
            }
        }
    }
}
