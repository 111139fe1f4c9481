//! Clients are told what commands did to keys: by keyspace notifications, published on two channels
//! an event, and in caches.
//!
//! `__keyspace@<db>__:<key>` carries the event, `__keyevent@<db>__:<event>` the key.

use stillframe::Algorithm;
use stillframe_keyspace::Keyspace;

use crate::pubsub::Kind;
use crate::state::ServerState;
use stillframe_redis::Event;

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
        if self.pubsub.is_empty() {
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
    pub(crate) fn settle_expired<A: Algorithm>(&mut self, keyspace: &mut Keyspace<A>) {
        self.ledger.settle_expired(keyspace);
        self.tell_events();
    }
}
