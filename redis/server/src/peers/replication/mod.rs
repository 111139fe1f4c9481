//! Replication as Redis 7.0 speaks it, from a live image and without a fork.
//!
//! Reading order: this file (what both sides share), `stream` (the bytes for replicas), `target`
//! and `transfers` (the first image), `following` and `link` (this server as the replica). What
//! sends to replicas is in `state::primary`, what follows a primary in `turn::replica`, and a
//! change between the two in `state::roles`.
//!
//! - The stream consists of the [effects](stillframe_commands::Effects) of requests, added at the
//!   end of each turn. An image for a replica begins between the effects of two turns, at an exact
//!   offset. A replica passes its primary's stream on to its own replicas, byte for byte.
//! - The stream has a name. A replica that has applied it up to an offset that is still kept may
//!   resume there. A promoted server gives it a new name, and remembers the old one up to that
//!   point.
//! - Until a replica asks for the stream there is none, and it costs nothing.

mod failover;
pub(crate) mod failure;
pub(crate) mod following;
pub(crate) mod known;
pub(crate) mod link;
pub(crate) mod logged;
mod own;
mod own_expiry;
pub(crate) mod reception;
mod replicas;
mod resume;
pub(crate) mod stream;
pub(crate) mod target;
pub(crate) mod transfers;

use std::time::{Duration, Instant};

pub(crate) use failover::Failover;
pub(crate) use following::Following;
use known::Known;
use own::OwnKeys;
pub(crate) use own_expiry::expires_at;
pub(crate) use replicas::replicas_at;
use stillframe_commands::Effects;
use stillframe_commands::Random;
use stillframe_storage::dump::StreamPoint;
use stream::{Abilities, Stream};
pub(crate) use transfers::Transfers;

/// The state that both sides share.
pub(crate) struct Replication {
    pub(crate) name: StreamName,
    /// The stream.
    pub(crate) stream: Stream,
    /// The database selected at the end of the stream. It belongs to the offset, not to a
    /// connection: a replica that resumes there, over any link, continues in it.
    pub(crate) db: usize,
    /// Whether there is a stream, to which effects or the primary's bytes are added.
    pub(crate) active: bool,
    pub(crate) loaded: LoadedPoint,
    /// Messages for the stream, which are no effects.
    messages: Vec<Message>,
    pub(crate) followers: Followers,
    hold: WriteHold,
    pub(crate) known: Known,
    /// Images for replicas.
    pub(crate) transfers: Transfers,
    /// The primary, if this server is a replica.
    pub(crate) following: Option<Box<Following>>,
    /// The failover under way, if any.
    pub(crate) failover: Option<Failover>,
    /// Keys that clients made at this replica.
    pub(crate) own: OwnKeys,
    /// The name and offset of the image that the primary sends.
    pub(crate) announced: Option<(String, u64)>,
}

/// The names of the stream.
pub(crate) struct StreamName {
    /// Forty digits that name the stream.
    pub(crate) id: String,
    /// The name it had before, up to an offset.
    pub(crate) older: Option<(String, u64)>,
}

/// The point of the stream in the file that is loaded at start.
#[derive(Default)]
pub(crate) struct LoadedPoint {
    pub(crate) point: Option<StreamPoint>,
    /// The database that later bytes have selected.
    pub(crate) db: Option<usize>,
}

/// The replicas of this server, and the clients that wait for them.
pub(crate) struct Followers {
    /// The places of the replicas in the registry of clients.
    pub(crate) places: Vec<usize>,
    /// Since when there has been no replica.
    pub(crate) lonely_since: Instant,
    /// Whether to ask replicas for their offsets.
    ask: bool,
    /// A replica has reported its offset.
    pub(crate) acked: bool,
    /// Clients in WAIT and WAITAOF.
    pub(crate) waiters: Vec<u64>,
    /// One of them waits for the log of this server.
    pub(crate) awaits_log: bool,
    /// Whether some replica could take more at once.
    pub(crate) more: bool,
    pub(crate) next_tick: Instant,
    /// When the stream last had a ping, or would have had one with a replica.
    pub(crate) last_ping: Instant,
}

/// Writes that wait for a replica which is being synchronised.
#[derive(Default)]
struct WriteHold {
    since: Option<Instant>,
    /// How long they waited before.
    waited: Duration,
}

/// Requests for the stream that change no data.
struct Message {
    /// The database that the stream selects before it, if any.
    db: Option<usize>,
    bytes: Vec<u8>,
}

impl Replication {
    /// A server that is alone.
    pub(crate) fn new(random: &mut Random, transfers: Transfers, now: Instant) -> Self {
        let followers = Followers {
            places: Vec::new(),
            lonely_since: now,
            ask: false,
            acked: false,
            waiters: Vec::new(),
            awaits_log: false,
            more: false,
            next_tick: now,
            last_ping: now,
        };
        Self {
            name: StreamName { id: random.identifier(), older: None },
            stream: Stream::default(),
            db: 0,
            active: false,
            loaded: LoadedPoint::default(),
            messages: Vec::new(),
            followers,
            known: Known::default(),
            hold: WriteHold::default(),
            transfers,
            following: None,
            failover: None,
            own: OwnKeys::default(),
            announced: None,
        }
    }

    /// The stream.
    #[inline]
    pub(crate) fn stream(&self) -> &Stream {
        &self.stream
    }

    /// Forty digits that name the stream.
    pub(crate) fn id(&self) -> &str {
        &self.name.id
    }

    /// The name it had before, up to an offset.
    pub(crate) fn older(&self) -> Option<&(String, u64)> {
        self.name.older.as_ref()
    }

    /// Gives the stream another name: no replica may resume from its offset.
    pub(crate) fn change_id(&mut self, id: String) {
        (self.name.id, self.name.older) = (id, None);
    }

    /// The primary that is followed.
    #[inline]
    pub(crate) fn following(&self) -> Option<&Following> {
        self.following.as_deref()
    }

    /// As [`following`](Self::following), for events of its connection, or to end that.
    pub(crate) fn following_mut(&mut self) -> Option<&mut Following> {
        self.following.as_deref_mut()
    }

    /// The change of places that is under way.
    #[inline]
    pub(crate) fn failover(&self) -> Option<&Failover> {
        self.failover.as_ref()
    }

    /// Begins a failover: the replicas report their offsets.
    pub(crate) fn begin_failover(&mut self, failover: Failover) {
        self.ask();
        self.failover = Some(failover);
    }

    /// Whether an image is held for replicas.
    pub(crate) fn sends_image(&self) -> bool {
        self.transfers.image().is_some()
    }

    /// Whether an image for replicas is about to end.
    pub(crate) fn transfer_ends_soon(&self) -> bool {
        self.transfers.ends_soon()
    }

    /// How many replicas there are.
    pub(crate) fn replica_count(&self) -> usize {
        self.followers.places.len()
    }

    /// A client has become a replica.
    pub(crate) fn add_replica(&mut self, place: usize) {
        self.followers.places.push(place);
    }

    /// A replica has reported its offset.
    pub(crate) fn note_ack(&mut self) {
        self.followers.acked = true;
    }

    /// Whether there is a stream.
    pub(crate) fn is_active(&self) -> bool {
        self.active
    }

    /// Whether this server is a replica.
    pub(crate) fn is_replica(&self) -> bool {
        self.following.is_some()
    }

    /// Whether data of the primary is being loaded.
    pub(crate) fn is_loading(&self) -> bool {
        self.following.as_ref().is_some_and(|following| following.is_loading())
    }

    /// Whether there is something to do at once.
    pub(crate) fn is_busy(&self) -> bool {
        self.followers.more || self.following.as_ref().is_some_and(|following| following.more)
    }

    /// Adds the effects of a turn.
    pub(crate) fn add(&mut self, effects: &Effects) {
        if self.active && self.following.is_none() {
            self.stream.append_requests(effects.stream(), effects.needs());
            self.db = effects.selected().unwrap_or(self.db);
        }
    }

    /// Propagates a request that changes no data to replicas: a published message. `db`: the
    /// database of the sender, which the stream selects as for a write.
    pub(crate) fn propagate(&mut self, db: Option<usize>, request: &[&[u8]]) {
        if !self.active || self.following.is_some() || self.followers.places.is_empty() {
            return;
        }
        if self.messages.last().is_none_or(|last| last.db != db) {
            self.messages.push(Message { db, bytes: Vec::new() });
        }
        if let Some(last) = self.messages.last_mut() {
            stillframe_commands::write_request(&mut last.bytes, request);
        }
    }

    /// Asks the replicas for their offsets; not during a failover, since the question is part of
    /// the stream, which stands still then.
    pub(crate) fn ask(&mut self) {
        self.followers.ask |= self.failover.is_none();
    }

    /// Adds messages. A server that has become a replica meanwhile drops them: the stream is its
    /// primary's, and an offset beyond the primary's would cost an image.
    pub(crate) fn end_turn(&mut self, effects: &mut Effects) {
        let messages = std::mem::take(&mut self.messages);
        let ask = std::mem::take(&mut self.followers.ask);
        if self.following.is_some() {
            return;
        }
        for Message { db, bytes } in messages {
            if let Some(db) = db.filter(|&db| effects.selected() != Some(db)) {
                let (mut select, number) = (Vec::new(), db.to_string());
                stillframe_commands::write_request(&mut select, &[b"SELECT", number.as_bytes()]);
                self.stream.append(&select);
                effects.select(db);
                self.db = db;
            }
            self.stream.append(&bytes);
        }
        if ask && !self.followers.places.is_empty() {
            let mut question = Vec::new();
            stillframe_commands::write_request(&mut question, &[b"REPLCONF", b"GETACK", b"*"]);
            self.stream.append(&question);
        }
    }

    /// Whether writes wait for a replica that is being synchronised.
    #[inline]
    pub(crate) fn writes_wait(&self) -> bool {
        self.hold.since.is_some()
    }

    /// How long writes have waited in total.
    pub(crate) fn writes_waited(&self) -> Duration {
        self.hold.waited + self.hold.since.map_or(Duration::ZERO, |since| since.elapsed())
    }

    /// Has writes wait for a replica that is being synchronised, or no longer.
    pub(crate) fn hold(&mut self, hold: bool, now: Instant) {
        match self.hold.since {
            None if hold => {
                tracing::warn!(
                    "writes wait for a replica that is being synchronised, and would be dropped \
                     otherwise (client-output-buffer-limit replica, repl-sync-backpressure)"
                );
                self.hold.since = Some(now);
            }
            Some(since) if !hold => {
                self.hold.waited += since.elapsed();
                self.hold.since = None;
            }
            _ => {}
        }
    }

    /// Notes that a replica has left.
    pub(crate) fn forget(&mut self, place: usize) {
        let before = self.followers.places.len();
        self.followers.places.retain(|&other| other != place);
        if self.followers.places.len() < before && self.followers.places.is_empty() {
            self.followers.lonely_since = Instant::now();
        }
    }

    /// Whether a replica with `offset` bytes of the stream `id` can resume there, with at most
    /// `behind_max` bytes to catch up.
    pub(crate) fn continues(
        &self,
        id: &[u8],
        offset: u64,
        behind_max: u64,
        abilities: Abilities,
    ) -> bool {
        let older = |(name, end): &(String, u64)| name.as_bytes() == id && offset <= *end;
        let named = self.name.id.as_bytes() == id || self.name.older.as_ref().is_some_and(older);
        let near = self.stream.end().saturating_sub(offset) <= behind_max;
        let suits = self.stream.suits(offset, abilities);
        self.active && named && near && self.stream.reaches(offset) && suits
    }

    /// Gives the stream a new name here; the old one stays valid up to here.
    pub(crate) fn rename(&mut self, id: String) {
        let old = std::mem::replace(&mut self.name.id, id);
        self.name.older = Some((old, self.stream.end()));
    }
}
