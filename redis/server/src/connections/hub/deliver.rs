//! Delivery: messages reach the subscribers of a channel, and events that commands have collected
//! become messages and invalidations.
//!
//! `__keyspace@<db>__:<key>` carries the event, `__keyevent@<db>__:<event>` the key.
//! Four channels name the fields of a hash, too, in the form of Redis 8.8: `__subkeyspace@`,
//! `__subkeyevent@`, `__subkeyspaceitem@` and `__subkeyspaceevent@`.

use std::time::Instant;

use stillframe_commands::text::glob;
use stillframe_commands::{Event, Events, Fields};
use stillframe_resp::{Out, Protocol};

use super::Hub;
use crate::connections::client::Kind;
use crate::connections::clients::Clients;
use crate::node::clock::Clock;
use crate::node::config::Config;

/// A push or message, encoded when first needed.
pub(super) struct Message<F> {
    write: F,
    encoded: [Vec<u8>; 2],
}

impl<F: Fn(&mut Out<'_>)> Message<F> {
    /// A message that `write` encodes.
    pub(super) fn new(write: F) -> Self {
        Self { write, encoded: Default::default() }
    }

    /// Its bytes in one protocol.
    fn bytes(&mut self, protocol: Protocol) -> &[u8] {
        let bytes = &mut self.encoded[usize::from(protocol == Protocol::Resp3)];
        if bytes.is_empty() {
            (self.write)(&mut Out::new(bytes, protocol));
        }
        bytes
    }
}

/// A message of strings.
fn strings<'a>(parts: &'a [&'a [u8]]) -> Message<impl Fn(&mut Out<'_>) + 'a> {
    Message::new(move |out: &mut Out<'_>| {
        out.push(parts.len());
        parts.iter().for_each(|part| out.bulk(part));
    })
}

/// The way of messages to clients: the registry, and the settings and the time of the turn.
pub(crate) struct Delivery<'a> {
    pub(super) clients: &'a mut Clients,
    pub(super) config: &'a Config,
    now: Instant,
    /// The messages show data: they wait as replies do.
    shows_data: bool,
}

impl<'a> Delivery<'a> {
    /// In the turn under way.
    #[inline]
    pub(crate) fn new(clients: &'a mut Clients, config: &'a Config, clock: &Clock) -> Self {
        let mut delivery = Self { clients, config, now: clock.turn(), shows_data: false };
        delivery.tells_of_data(false);
        delivery
    }

    /// The messages that follow tell of the data, or not. At a single server all may: who gets one
    /// of a script may ask for what the script wrote.
    fn tells_of_data(&mut self, tells: bool) {
        self.shows_data = tells || self.config.raft.id == 0;
    }

    /// Adds a message to a client's output. The client whose request runs is out of the registry:
    /// it gets mail.
    pub(super) fn send<F: Fn(&mut Out<'_>)>(&mut self, place: usize, message: &mut Message<F>) {
        let Some(client) = self.clients.get_mut(place) else {
            return self.clients.mail(|protocol| message.bytes(protocol));
        };
        if client.dead || client.session.closing {
            return;
        }
        client.session.shows_data |= self.shows_data;
        client.output.extend_from_slice(message.bytes(client.session.protocol));
        let limit = client.output_limit(&self.config.output_limits);
        if client.over_output_limit(limit, self.now) {
            self.clients.close_later(place);
        } else {
            self.clients.flush_later(place);
        }
        self.clients.weigh(place);
    }
}

impl Hub {
    /// Sends a message to all subscribers of its channel, and returns their number.
    pub(crate) fn publish(
        &self,
        to: &mut Delivery<'_>,
        kind: Kind,
        channel: &[u8],
        payload: &[u8],
    ) -> usize {
        let word: &[u8] = if kind == Kind::Shard { b"smessage" } else { b"message" };
        let mut count = 0;
        let listeners = self.pubsub.places(kind, channel);
        let parts = [word, channel, payload];
        let mut message = strings(&parts);
        listeners.iter().for_each(|&place| to.send(place, &mut message));
        count += listeners.len();
        if kind == Kind::Channel {
            for (pattern, listeners) in self.pubsub.patterns() {
                if glob::matches(pattern, channel) {
                    let parts = [b"pmessage", &**pattern, channel, payload];
                    let mut message = strings(&parts);
                    listeners.iter().for_each(|&place| to.send(place, &mut message));
                    count += listeners.len();
                }
            }
        }
        count
    }

    /// Notifies clients of the events collected since the last call.
    #[inline]
    pub(crate) fn send_events(&mut self, to: &mut Delivery<'_>, events: &mut Events) {
        if !events.is_empty() {
            self.send_collected(to, events);
        }
    }

    #[cold]
    fn send_collected(&mut self, to: &mut Delivery<'_>, events: &mut Events) {
        let collected = events.take();
        for event in collected.iter() {
            match event {
                Event::Notice { event, db, key, fields } => {
                    self.notify(to, event, db, key, fields);
                }
                Event::Stale { key, by } => self.invalidate(to, key, by),
                Event::AllStale => self.invalidate_all(to),
            }
        }
        events.give_back(collected);
    }

    fn notify(
        &self,
        to: &mut Delivery<'_>,
        event: &str,
        db: usize,
        key: &[u8],
        fields: Fields<'_>,
    ) {
        let classes = to.config.notify;
        if self.pubsub.is_empty() {
            return;
        }
        to.tells_of_data(true);
        if classes.has('K') {
            let channel = [format!("__keyspace@{db}__:").as_bytes(), key].concat();
            self.publish(to, Kind::Channel, &channel, event.as_bytes());
        }
        if classes.has('E') {
            let channel = format!("__keyevent@{db}__:{event}");
            self.publish(to, Kind::Channel, channel.as_bytes(), key);
        }
        if !fields.is_empty() {
            self.notify_fields(to, event, db, key, fields);
        }
        to.tells_of_data(false);
    }

    /// The messages that name the fields of a hash.
    fn notify_fields(
        &self,
        to: &mut Delivery<'_>,
        event: &str,
        db: usize,
        key: &[u8],
        fields: Fields<'_>,
    ) {
        let classes = to.config.notify;
        let names = fields.text();
        let mut publish = |channel: &[&[u8]], payload: &[&[u8]]| {
            self.publish(to, Kind::Channel, &channel.concat(), &payload.concat());
        };
        if classes.has('S') {
            let channel = format!("__subkeyspace@{db}__:");
            publish(&[channel.as_bytes(), key], &[event.as_bytes(), b"|", names]);
        }
        if classes.has('T') {
            let channel = format!("__subkeyevent@{db}__:{event}");
            let key_bytes = format!("{}:", key.len());
            publish(&[channel.as_bytes()], &[key_bytes.as_bytes(), key, b"|", names]);
        }
        // A line break ends the key in the name of the channel.
        if classes.has('I') && !key.contains(&b'\n') {
            let channel = format!("__subkeyspaceitem@{db}__:");
            for field in fields.iter() {
                publish(&[channel.as_bytes(), key, b"\n", field], &[event.as_bytes()]);
            }
        }
        if classes.has('V') {
            let channel = format!("__subkeyspaceevent@{db}__:{event}|");
            publish(&[channel.as_bytes(), key], &[names]);
        }
    }
}
