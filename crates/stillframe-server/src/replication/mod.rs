//! Replication as Redis 7.0 speaks it, from a live image and without a fork.
//!
//! Reading order: this file (what both sides share), `stream` (what is told), `replica` (who is
//! told), `transfer` and `target` (the first image), then `follow` and what it uses (the other
//! side: this server is the replica).
//!
//! - The stream consists of the [effects](crate::effects) of requests; the end of a turn adds them.
//!   An image for a replica begins between two turns' worth of them, at an offset that is known
//!   exactly. A replica of ours hears what its primary's primary said, byte for byte.
//! - The stream has a name. Who has applied it up to an offset that is still kept may go on from
//!   there. A server that is promoted gives it a new name, and remembers the old one up to that
//!   point.
//! - While nobody has ever asked for the stream there is none, and it costs nothing.

#[cfg(test)]
mod agreement;
mod apply;
mod failover;
mod follow;
mod handshake;
mod link;
mod own;
pub(crate) mod point;
mod receive;
mod refusals;
mod relay;
pub(crate) mod replica;
pub(crate) mod stream;
pub(crate) mod target;
pub(crate) mod transfer;

use std::time::{Duration, Instant};

use stillframe::Algorithm;
use stillframe_keyspace::Keyspace;

use crate::journal;
use crate::state::ServerState;
pub(crate) use failover::Failover;
pub(crate) use follow::Following;
use own::OwnKeys;
use point::StreamPoint;
pub(crate) use relay::Relay;
pub(crate) use replica::{Phase, Replica};
use stillframe_redis::Random;
use stillframe_redis::{Consumer, Effects};
use stream::Stream;
pub(crate) use transfer::Transfers;

/// How often replicas are looked after.
const TICK: Duration = Duration::from_secs(1);

/// What both sides share.
pub(crate) struct Replication {
    /// Forty digits that name the stream.
    pub(crate) id: String,
    /// The name it had before, up to an offset.
    pub(crate) older: Option<(String, u64)>,
    /// What replicas are told.
    pub(crate) stream: Stream,
    /// The database that is selected at the end of the stream. It belongs to the offset, not to a
    /// connection: whoever goes on from there, over whichever link, goes on in it.
    pub(crate) db: usize,
    /// There is a stream: effects are added to it, or what the primary says.
    active: bool,
    /// Where it stood in the file that is loaded at start, and the database that what was added
    /// since has selected.
    loaded: Option<StreamPoint>,
    loaded_db: Option<usize>,
    /// Where the replicas are in the registry of clients.
    pub(crate) places: Vec<usize>,
    /// Since when there has been no replica.
    lonely_since: Instant,
    /// Messages for the stream, which are no effects.
    messages: Vec<u8>,
    /// Replicas are to say how far they are.
    ask: bool,
    /// A replica has said so.
    pub(crate) acked: bool,
    /// Clients in WAIT.
    waiters: Vec<u64>,
    /// Images for replicas.
    pub(crate) transfers: Transfers,
    /// This server is a replica.
    pub(crate) following: Option<Box<Following>>,
    /// A replica is to take this server's place.
    pub(crate) failover: Option<Failover>,
    /// Keys that clients made here though this server is a replica.
    pub(crate) own: OwnKeys,
    /// The name and offset of the image that the primary sends.
    announced: Option<(String, u64)>,
    /// Some replica could take more at once.
    pub(crate) more: bool,
    held_since: Option<Instant>,
    held: Duration,
    next_tick: Instant,
    /// When the stream last said that this server is there, or would have if anybody had listened.
    last_ping: Instant,
}

impl Replication {
    /// A server that is alone.
    pub(crate) fn new(random: &mut Random, transfers: Transfers, now: Instant) -> Self {
        Self {
            id: random.identifier(),
            older: None,
            stream: Stream::default(),
            db: 0,
            active: false,
            loaded: None,
            loaded_db: None,
            places: Vec::new(),
            lonely_since: now,
            messages: Vec::new(),
            ask: false,
            acked: false,
            waiters: Vec::new(),
            transfers,
            following: None,
            failover: None,
            own: OwnKeys::default(),
            announced: None,
            more: false,
            held_since: None,
            held: Duration::ZERO,
            next_tick: now,
            last_ping: now,
        }
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
        self.more || self.following.as_ref().is_some_and(|following| following.more)
    }

    /// Adds the effects of a turn.
    pub(crate) fn add(&mut self, effects: &Effects) {
        if self.active && self.following.is_none() {
            self.stream.append(effects.stream());
            self.db = effects.selected().unwrap_or(self.db);
        }
    }

    /// Tells replicas, though nobody's data changes: a published message.
    pub(crate) fn tell(&mut self, request: &[&[u8]]) {
        if self.active && self.following.is_none() && !self.places.is_empty() {
            stillframe_redis::write_request(&mut self.messages, request);
        }
    }

    /// Has the replicas say how far they are. Not while one is to take over: the question is part
    /// of the stream, which stands still then.
    pub(crate) fn ask(&mut self) {
        self.ask |= self.failover.is_none();
    }

    /// Adds what is no effect. A server that has become a replica since drops its messages: the
    /// stream is its primary's, and an offset beyond what the primary said would cost an image.
    pub(super) fn end_turn(&mut self) {
        let mut messages = std::mem::take(&mut self.messages);
        let ask = std::mem::take(&mut self.ask);
        if self.following.is_some() {
            return;
        }
        if ask && !self.places.is_empty() {
            stillframe_redis::write_request(&mut messages, &[b"REPLCONF", b"GETACK", b"*"]);
        }
        self.stream.append(&messages);
        messages.clear();
        self.messages = messages;
    }

    /// Whether writes wait, so that a replica which is being synchronised is not dropped.
    #[inline]
    pub(crate) fn holding(&self) -> bool {
        self.held_since.is_some()
    }

    /// How long writes have waited all together.
    pub(crate) fn held(&self) -> Duration {
        self.held + self.held_since.map_or(Duration::ZERO, |since| since.elapsed())
    }

    fn hold(&mut self, hold: bool, now: Instant) {
        match self.held_since {
            None if hold => {
                tracing::warn!(
                    "writes wait for a replica that is being synchronised: it would be dropped \
                     otherwise (client-output-buffer-limit replica, repl-sync-backpressure)"
                );
                self.held_since = Some(now);
            }
            Some(since) if !hold => {
                self.held += since.elapsed();
                self.held_since = None;
            }
            _ => {}
        }
    }

    /// A client has left that was a replica.
    pub(crate) fn forget(&mut self, place: usize) {
        let before = self.places.len();
        self.places.retain(|&other| other != place);
        if self.places.len() < before && self.places.is_empty() {
            self.lonely_since = Instant::now();
        }
    }

    /// Whether who has `offset` bytes of the stream called `id` can go on from there, with at most
    /// `behind_max` bytes to catch up with.
    pub(crate) fn continues(&self, id: &[u8], offset: u64, behind_max: u64) -> bool {
        let older = |(name, end): &(String, u64)| name.as_bytes() == id && offset <= *end;
        let named = self.id.as_bytes() == id || self.older.as_ref().is_some_and(older);
        let near = self.stream.end().saturating_sub(offset) <= behind_max;
        self.active && named && near && self.stream.reaches(offset)
    }

    /// The stream gets a new name here; the old one stays good for what has been told.
    fn rename(&mut self, id: String) {
        let old = std::mem::replace(&mut self.id, id);
        self.older = Some((old, self.stream.end()));
    }
}

impl ServerState {
    /// Begins the stream, if there is none.
    pub(crate) fn activate<A: Algorithm>(&mut self, keyspace: &mut Keyspace<A>) {
        let replication = &mut self.replication;
        replication.lonely_since = Instant::now();
        if replication.active {
            return;
        }
        replication.active = true;
        replication.last_ping = replication.lonely_since;
        if replication.following.is_none() {
            self.ledger.effects.select_anew();
            self.ledger.effects.want(keyspace, Consumer::Replicas, true);
        }
    }

    /// The data is about to be other than what the log and the stream tell: the log ends, and
    /// whoever follows the stream has to take an image, this server included if it is a replica.
    pub(crate) fn break_off<A: Algorithm>(&mut self, keyspace: &mut Keyspace<A>) {
        let _ = journal::close(keyspace, self); // who waits for a reply is told
        journal::settle(keyspace, self);
        self.drop_replicas();
        if let Some(following) = &mut self.replication.following {
            (following.lost, following.kill) = (true, true);
        } else {
            let (id, end) = (self.ledger.random.identifier(), self.replication.stream.end());
            (self.replication.id, self.replication.older) = (id, None);
            self.replication.stream.restart(end);
        }
    }

    /// Has all replicas connect again.
    pub(crate) fn drop_replicas(&mut self) {
        for place in std::mem::take(&mut self.replication.places) {
            self.clients.doom(place);
        }
    }

    /// REPLICAOF NO ONE: from now on this server speaks for itself.
    pub(crate) fn promote<A: Algorithm>(&mut self, keyspace: &mut Keyspace<A>) {
        if !self.replication.is_replica() {
            return;
        }
        journal::settle(keyspace, self);
        let following = self.replication.following.take();
        self.replication.own.clear();
        let lost = following.as_ref().is_some_and(|it| it.lost);
        let loading = following.is_some_and(|it| it.is_loading());
        self.config.replication.primary = None;
        keyspace.spare_expired(self.spares_expired());
        if loading {
            keyspace.clear_all();
        }
        let id = self.ledger.random.identifier();
        self.replication.rename(id);
        if lost {
            // The data is not what the stream made: nobody may go on from it.
            self.replication.older = None;
        }
        self.drop_replicas();
        self.replication.active = false;
        self.activate(keyspace);
        tracing::info!(
            "promoted: the stream goes on from offset {}",
            self.replication.stream.end()
        );
    }

    /// REPLICAOF: from now on this server follows another one.
    pub(crate) fn demote<A: Algorithm>(
        &mut self,
        keyspace: &mut Keyspace<A>,
        host: String,
        port: u16,
    ) {
        journal::settle(keyspace, self);
        self.drop_replicas();
        self.unblock_all();
        keyspace.spare_expired(true);
        self.ledger.effects.want(keyspace, Consumer::Replicas, false);
        tracing::info!("following {host}:{port}");
        self.config.replication.primary = Some((host.clone(), port));
        let lost = self.replication.following.as_ref().is_some_and(|it| it.lost);
        let id = self.clients.next_id();
        self.replication.following = Some(Box::new(Following::new(host, port, id, lost)));
    }

    /// Ends the waiting of all clients: their keys are another server's business now.
    fn unblock_all(&mut self) {
        for id in self.ledger.waiters.all() {
            self.unblock(id, |out| {
                out.error(
                    "UNBLOCKED force unblock from blocking operation, instance state changed \
                     (master -> replica?)",
                );
            });
        }
    }

    /// Has a client wait until replicas have what it wrote.
    pub(crate) fn await_replicas(&mut self, id: u64) {
        self.replication.waiters.push(id);
        self.replication.ask();
    }

    /// Answers those in WAIT for whom enough replicas have spoken.
    pub(crate) fn answer_waits(&mut self) {
        if !std::mem::take(&mut self.replication.acked) {
            return;
        }
        for id in std::mem::take(&mut self.replication.waiters) {
            let Some(acks) = self.ledger.waiters.acks(id) else { continue };
            let count = self.replicas_at(acks.offset);
            if count >= acks.wanted {
                self.unblock(id, |out| out.integer(count as i64));
            } else {
                self.replication.waiters.push(id);
            }
        }
    }

    /// What is due once a second: pings, and an end to replicas that are silent and to a stream
    /// that nobody listens to.
    pub(crate) fn tend_replicas<A: Algorithm>(&mut self, keyspace: &mut Keyspace<A>) {
        let now = self.loop_time;
        let Self { replication, clients, config, ledger, .. } = self;
        if now < replication.next_tick || !replication.active {
            return;
        }
        replication.next_tick = now + TICK;
        let settings = &config.replication;
        let replica = replication.following.is_some();
        let speaks = !replica && replication.failover.is_none();
        let period = Duration::from_secs(settings.ping_period_s.into());
        if now.saturating_duration_since(replication.last_ping) >= period {
            replication.last_ping = now;
            if speaks && !replication.places.is_empty() {
                stillframe_redis::write_request(&mut replication.messages, &[b"PING"]);
            }
        }
        let patience = Duration::from_secs(settings.timeout_s.into());
        for place in replication.places.clone() {
            let Some(client) = clients.get_mut(place) else { continue };
            let (active, peer) = (client.session.active, client.session.caller.peer.clone());
            let Some(replica) = client.replica_mut() else { continue };
            if matches!(replica.phase, Phase::Waiting(_) | Phase::Saving) {
                client.output.push(b'\n'); // it is being seen to
                clients.flush_later(place);
            } else if replica.old && replica.phase == Phase::Online {
                // It knows no way to say that it is there.
            } else if now.saturating_duration_since(replica.silent_since(active, now)) > patience {
                let how = if replica.phase == Phase::Online { "streaming" } else { "full" };
                tracing::warn!(
                    "Disconnecting timedout replica ({how} sync): {peer} (repl-timeout)"
                );
                clients.doom(place);
            }
        }
        let ttl = Duration::from_secs(settings.backlog_ttl_s);
        let lonely = now.saturating_duration_since(replication.lonely_since);
        if replication.places.is_empty() && !replica && !ttl.is_zero() && lonely > ttl {
            tracing::info!("giving the replication backlog up: no replica has come for long");
            replication.active = false;
            replication.older = None;
            replication.id = ledger.random.identifier();
            let end = replication.stream.end();
            replication.stream.restart(end);
            ledger.effects.want(keyspace, Consumer::Replicas, false);
        }
    }
}
