//! Clients are told what happens: messages reach those who listen to a channel, and events that
//! commands have collected become messages and invalidations.
//!
//! `__keyspace@<db>__:<key>` carries the event, `__keyevent@<db>__:<event>` the key.

use stillframe_keyspace::Keyspace;
use stillframe_redis::Event;
use stillframe_redis::text::glob;
use stillframe_resp::Out;

use super::ServerState;
use crate::hub::{Kind, Message, strings};

impl ServerState {
    /// Sends a message to all who listen to its channel, and tells how many they are.
    pub(crate) fn publish(&mut self, kind: Kind, channel: &[u8], payload: &[u8]) -> usize {
        let word: &[u8] = if kind == Kind::Shard { b"smessage" } else { b"message" };
        // Taken out for the while: delivering reads no subscriptions.
        let pubsub = std::mem::take(&mut self.hub.pubsub);
        let mut count = 0;
        let listeners = pubsub.places(kind, channel);
        let parts = [word, channel, payload];
        let mut message = strings(&parts);
        listeners.iter().for_each(|&place| self.deliver(place, &mut message));
        count += listeners.len();
        if kind == Kind::Channel {
            for (pattern, listeners) in pubsub.patterns() {
                if glob::matches(pattern, channel) {
                    let parts = [b"pmessage", &**pattern, channel, payload];
                    let mut message = strings(&parts);
                    listeners.iter().for_each(|&place| self.deliver(place, &mut message));
                    count += listeners.len();
                }
            }
        }
        self.hub.pubsub = pubsub;
        count
    }

    /// Adds a message to a client's output.
    pub(crate) fn deliver<F: Fn(&mut Out<'_>)>(&mut self, place: usize, message: &mut Message<F>) {
        let Some(client) = self.hub.clients.get_mut(place) else {
            if self.hub.clients.mail.len() <= self.hub.clients.own_most {
                let bytes = message.bytes(self.hub.clients.own_protocol);
                self.hub.clients.mail.extend_from_slice(bytes);
            }
            return;
        };
        if client.dead || client.session.closing {
            return;
        }
        client.output.extend_from_slice(message.bytes(client.session.protocol));
        let limit = client.output_limit(&self.config.output_limits);
        if client.over_output_limit(limit, self.clock.turn) {
            self.hub.clients.doom(place);
        } else {
            self.hub.clients.flush_later(place);
        }
        self.hub.clients.weigh(place);
    }
}

impl ServerState {
    /// Tells clients of the events that were collected since this was last called.
    #[inline]
    pub(crate) fn tell_events(&mut self) {
        if !self.ledger.events.is_empty() {
            self.tell_collected();
        }
    }

    #[cold]
    fn tell_collected(&mut self) {
        let collected = self.ledger.events.take();
        for event in collected.iter() {
            match event {
                Event::Notice { event, db, key } => self.notify(event, db, key),
                Event::Stale { key, by } => self.invalidate(key, by),
                Event::AllStale => self.invalidate_all(),
            }
        }
        self.ledger.events.give_back(collected);
    }

    fn notify(&mut self, event: &str, db: usize, key: &[u8]) {
        let classes = self.config.notify;
        if self.hub.pubsub.is_empty() {
            return;
        }
        if classes.has('K') {
            let channel = [format!("__keyspace@{db}__:").as_bytes(), key].concat();
            self.publish(Kind::Channel, &channel, event.as_bytes());
        }
        if classes.has('E') {
            let channel = format!("__keyevent@{db}__:{event}");
            self.publish(Kind::Channel, channel.as_bytes(), key);
        }
    }

    /// Tells the log, the replicas and clients which keys have expired since this was last called.
    pub(crate) fn note_expired(&mut self, keyspace: &mut Keyspace) {
        self.ledger.note_expired(keyspace);
        self.tell_events();
    }
}
