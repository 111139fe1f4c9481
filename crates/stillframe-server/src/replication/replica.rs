//! What is known of a client that is a replica, and how it is fed.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use stillframe::Algorithm;

use super::stream::Stream;
use super::target::{FAILED, Sent};
use crate::connection::Client;
use crate::server::Server;
use crate::session::Session;
use crate::state::ServerState;

/// Bytes of the stream written to one replica in one turn.
const BYTES_PER_TURN: u64 = 1 << 20;
/// How long a replica that is being synchronised may do nothing and still have writes wait for it.
const STANDSTILL_MAX: Duration = Duration::from_secs(5);

/// How far a replica is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// It may become one: it has sent REPLCONF.
    Greeting,
    /// It waits for an image, since then.
    Waiting(Instant),
    /// Its image is being written to the dump file.
    Saving,
    /// Its image is being sent while it is taken, by another thread.
    Sending,
    /// A file that was saved is being sent, by another thread.
    SendingFile,
    /// It follows the stream.
    Online,
}

/// A client that is a replica.
pub(crate) struct Replica {
    pub(crate) phase: Phase,
    /// The port it listens on, or 0.
    pub(crate) port: u16,
    /// The address it wants to be known by, or empty.
    pub(crate) ip: String,
    /// It takes an image without a length, ended by a mark.
    pub(crate) eof: bool,
    /// It understands that the stream's name changes.
    pub(crate) psync2: bool,
    /// It asked with SYNC: it knows no names of streams, and never says how far it is.
    pub(crate) old: bool,
    /// It wants an image and no stream: its connection ends with the image.
    pub(crate) image_only: bool,
    /// It wants an image without data, for the sake of the stream.
    pub(crate) no_data: bool,
    /// It has been sent the stream up to there.
    pub(crate) cursor: u64,
    /// It says that it has applied the stream up to there.
    pub(crate) acked: u64,
    /// When it said so.
    pub(crate) acked_at: Instant,
    /// The stream has to wait for its first word: it could take bytes for the end of the image.
    pub(crate) silent: bool,
    /// What it has been sent of the image, and when that changed last.
    pub(crate) sent: Option<Sent>,
    moved: (u64, Instant),
}

impl Replica {
    /// One that has only just said that it may become one.
    pub(crate) fn greeting(now: Instant) -> Self {
        Self {
            phase: Phase::Greeting,
            port: 0,
            ip: String::new(),
            eof: false,
            psync2: false,
            old: false,
            image_only: false,
            no_data: false,
            cursor: 0,
            acked: 0,
            acked_at: now,
            silent: false,
            sent: None,
            moved: (0, now),
        }
    }

    /// Whether it is one at all.
    pub(crate) fn is_real(&self) -> bool {
        self.phase != Phase::Greeting
    }

    /// Whether it needs what the stream holds from its cursor on.
    pub(crate) fn holds_stream(&self) -> bool {
        !matches!(self.phase, Phase::Greeting | Phase::Waiting(_))
    }

    /// Whether it has an image, or gets one, and does not follow the stream yet.
    pub(crate) fn is_syncing(&self) -> bool {
        self.holds_stream() && (self.phase != Phase::Online || self.silent)
    }

    /// It follows the stream from `offset` on, once it has spoken if it is `silent`.
    pub(crate) fn go_online(&mut self, now: Instant, silent: bool) {
        self.phase = Phase::Online;
        self.acked_at = now;
        self.silent = silent;
        self.sent = None;
    }

    /// The address it is known by.
    pub(crate) fn address(&self, session: &Session) -> String {
        if self.ip.is_empty() { session.caller.peer.host() } else { self.ip.clone() }
    }

    /// Redis's word for the phase.
    pub(crate) fn state(&self) -> &'static str {
        match self.phase {
            Phase::Greeting | Phase::Waiting(_) | Phase::Saving | Phase::Sending => "wait_bgsave",
            Phase::SendingFile => "send_bulk",
            Phase::Online => "online",
        }
    }

    /// Since when nothing has been heard of it; `active`: when it last sent anything.
    pub(crate) fn silent_since(&mut self, active: Instant, now: Instant) -> Instant {
        let sent = self.sent.as_ref().map_or(0, |sent| sent.load(Ordering::Relaxed));
        if sent != self.moved.0 && sent != FAILED {
            self.moved = (sent, now);
        }
        self.moved.1.max(self.acked_at).max(active)
    }
}

impl Client {
    /// What it is as a replica, if it is one.
    pub(crate) fn replica(&self) -> Option<&Replica> {
        self.session.replica.as_deref().filter(|replica| replica.is_real())
    }

    /// As [`replica`](Self::replica), to change it.
    pub(crate) fn replica_mut(&mut self) -> Option<&mut Replica> {
        self.session.replica.as_deref_mut().filter(|replica| replica.is_real())
    }

    /// Writes of the stream what the socket takes; false if the socket has failed.
    fn feed(&mut self, stream: &Stream) -> bool {
        let mut left = BYTES_PER_TURN;
        while let Some(replica) = self.replica()
            && replica.phase == Phase::Online
            && !replica.silent
        {
            let cursor = replica.cursor;
            let Some(bytes) = stream.from(cursor) else { return false };
            if bytes.is_empty() || left == 0 {
                break;
            }
            let bytes = &bytes[..bytes.len().min(usize::try_from(left).unwrap_or(usize::MAX))];
            match self.write_past(bytes) {
                Err(_) => return false,
                Ok(0) => break,
                Ok(count) => {
                    left -= count as u64;
                    if let Some(replica) = self.replica_mut() {
                        replica.cursor += count as u64;
                    }
                }
            }
        }
        true
    }
}

impl ServerState {
    /// The replicas with their connections, in the order in which they came.
    pub(crate) fn replicas(&self) -> impl Iterator<Item = (&Client, &Replica)> {
        let clients = self.replication.places.iter().filter_map(|&place| self.clients.get(place));
        clients.filter_map(|client| Some((client, client.replica()?)))
    }

    /// How many replicas have applied the stream up to `offset`.
    pub(crate) fn replicas_at(&self, offset: u64) -> usize {
        let replicas = self.clients.others().filter_map(|(_, client)| client.replica());
        replicas.filter(|it| it.phase == Phase::Online && it.acked >= offset).count()
    }

    /// How many replicas are at hand, for `min-replicas-to-write`.
    pub(crate) fn good_replicas(&self) -> u32 {
        let lag_max = Duration::from_secs(self.config.replication.max_lag_s.into());
        let fresh = |at: Instant| self.loop_time.saturating_duration_since(at) <= lag_max;
        let is_good = |it: &Replica| it.phase == Phase::Online && fresh(it.acked_at);
        let good = self.replicas().filter(|(_, replica)| is_good(replica)).count();
        u32::try_from(good).unwrap_or(u32::MAX)
    }
}

impl<A: Algorithm> Server<A> {
    /// Sends replicas what the stream has for them, and has those dropped that are too far behind.
    pub(crate) fn feed(&mut self) {
        let now = self.state.loop_time;
        let ServerState { replication, clients, config, stats, .. } = &mut self.state;
        if !replication.is_active() {
            return;
        }
        replication.end_turn();
        let stream = &replication.stream;
        let (mut needed, mut more, mut hold) = (u64::MAX, false, false);
        let backpressure = config.replication.backpressure;
        for &place in &replication.places {
            let Some(client) = clients.get_mut(place) else { continue };
            let Some(replica) = client.replica().filter(|replica| replica.holds_stream()) else {
                continue;
            };
            let (before, syncing) = (replica.cursor, replica.is_syncing());
            let alive = client.feed(stream);
            let active = client.session.active;
            let Some(replica) = client.replica_mut() else { continue };
            let cursor = replica.cursor;
            let moving = now.saturating_duration_since(replica.silent_since(active, now));
            stats.output_bytes += cursor - before;
            stats.replicas_output_bytes += cursor - before;
            client.unsent = usize::try_from(stream.end() - cursor).unwrap_or(usize::MAX);
            more |= client.unsent > 0 && !syncing && !client.is_blocked();
            let mut limit = config.replica_output_limit();
            if backpressure && syncing && limit.hard_bytes > 0 {
                // Time above the soft limit counts once the replica can do something about it.
                limit.soft_bytes = 0;
                let near = limit.hard_bytes - limit.hard_bytes / 4;
                hold |= client.unsent as u64 > near && moving < STANDSTILL_MAX;
            }
            if !alive || client.over_output_limit(limit, now) {
                clients.doom(place);
            } else {
                needed = needed.min(cursor);
            }
        }
        replication.more = more;
        replication.hold(hold, now);
        replication.stream.trim(config.replication.backlog_bytes, needed);
    }
}
