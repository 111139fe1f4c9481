//! A client that is a replica.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use stillframe::Shared;
use stillframe_commands::Address;
use stillframe_rdb::Version;

/// Bytes of an image sent to a replica, shared by both sides.
pub(crate) type Sent = Shared<AtomicU64>;

/// The replica has failed and is left out.
pub(crate) const FAILED: u64 = u64::MAX;

/// The phase of a replica.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Has sent REPLCONF, and may become a replica.
    Greeting,
    /// Waits for an image, since that time.
    Waiting(Instant),
    /// Its image is being written to the dump file.
    Saving,
    /// Another thread sends its image while it is taken.
    Sending,
    /// Another thread sends it a saved file.
    SendingFile,
    /// Follows the stream.
    Online,
}

/// What a replica reads beyond what it announces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reads {
    /// It got no image that shows it.
    Unknown,
    /// It gets an image in this version.
    Sent(Version),
    /// It has loaded an image in this version, now or earlier.
    Loaded(Version),
}

/// A client that is a replica.
pub(crate) struct Replica {
    pub(crate) phase: Phase,
    /// The port it listens on, or 0.
    pub(crate) port: u16,
    /// The address that it announces, or empty.
    pub(crate) ip: String,
    /// Whether it takes an image without a length, ended by a mark.
    pub(crate) eof: bool,
    /// Whether it supports a change of the stream's name.
    pub(crate) psync2: bool,
    /// Whether it knows STILLFRAME BRANCHDB: it is a server of this kind.
    pub(crate) branches: bool,
    /// Whether it takes images over a connection of their own, as Redis from 8.0 on.
    pub(crate) rdb_channel: bool,
    /// The later version of a file that it has shown to read, or is asked to.
    pub(crate) reads: Reads,
    /// The major version of Valkey that it announces.
    pub(crate) valkey: Option<u32>,
    /// Whether it asked with SYNC: it then knows no names of streams, and never reports its offset.
    pub(crate) old: bool,
    /// Whether it wants an image and no stream: its connection then ends with the image.
    pub(crate) image_only: bool,
    /// Whether it wants an image without data, only for the stream.
    pub(crate) no_data: bool,
    /// The offset up to which it was sent the stream.
    pub(crate) cursor: u64,
    /// The offset up to which it reports the stream as applied.
    pub(crate) acked: Option<u64>,
    /// The offset up to which it reports the stream as being on its disk.
    pub(crate) logged: Option<u64>,
    /// When it reported that.
    pub(crate) acked_at: Instant,
    /// The stream waits for its first report: before, it could take bytes for the end of the image.
    pub(crate) silent: bool,
    /// The sent part of its image, and the time of the last change.
    pub(crate) sent: Option<Sent>,
    moved: (u64, Instant),
}

impl Replica {
    /// A client that has just sent its first REPLCONF.
    pub(crate) fn greeting(now: Instant) -> Self {
        Self {
            phase: Phase::Greeting,
            port: 0,
            ip: String::new(),
            eof: false,
            psync2: false,
            branches: false,
            rdb_channel: false,
            reads: Reads::Unknown,
            valkey: None,
            old: false,
            image_only: false,
            no_data: false,
            cursor: 0,
            acked: None,
            logged: None,
            acked_at: now,
            silent: false,
            sent: None,
            moved: (0, now),
        }
    }

    /// Whether the client is a replica already.
    pub(crate) fn is_real(&self) -> bool {
        self.phase != Phase::Greeting
    }

    /// Whether it needs the stream from its cursor on.
    pub(crate) fn holds_stream(&self) -> bool {
        !matches!(self.phase, Phase::Greeting | Phase::Waiting(_))
    }

    /// Whether it has an image, or gets one, and does not follow the stream yet.
    pub(crate) fn is_syncing(&self) -> bool {
        self.holds_stream() && (self.phase != Phase::Online || self.silent)
    }

    /// Follows the stream from `offset` on; after its first report if it is `silent`.
    pub(crate) fn go_online(&mut self, now: Instant, silent: bool) {
        self.phase = Phase::Online;
        self.acked_at = now;
        self.silent = silent;
        self.sent = None;
    }

    /// Whether a file in a version of Redis is a trial for it: it announces less, or nothing.
    pub(crate) fn is_tried_by(&self, version: Version) -> bool {
        let announced = if self.rdb_channel { Version::Redis12 } else { Version::Redis10 };
        !self.branches && self.valkey.is_none() && version.number() > announced.number()
    }

    /// Whether it is Redis before 8.0, which announces no RDB channel: it reads no version that
    /// came later.
    pub(crate) fn is_before_redis_8(&self) -> bool {
        !self.branches && self.valkey.is_none() && !self.rdb_channel && !self.image_only
    }

    /// Whether it has loaded, or is loading, a file in this version of Redis or a later one.
    pub(crate) fn reads(&self, version: Version) -> bool {
        match self.reads {
            Reads::Unknown => false,
            Reads::Sent(it) | Reads::Loaded(it) => it.number() >= version.number(),
        }
    }

    /// Whether it knows fields of hashes that expire.
    pub(crate) fn knows_fields(&self) -> bool {
        let announced = self.valkey.is_some_and(|major| major >= 9) || self.rdb_channel;
        announced || self.reads(Version::Redis12)
    }

    /// Its address and port, which stay when it connects again.
    pub(crate) fn name(&self, peer: &Address) -> String {
        format!("{}:{}", self.address(peer), self.port)
    }

    /// The address to show.
    pub(crate) fn address(&self, peer: &Address) -> String {
        if self.ip.is_empty() { peer.host() } else { self.ip.clone() }
    }

    /// Redis's word for the phase.
    pub(crate) fn state(&self) -> &'static str {
        match self.phase {
            Phase::Greeting | Phase::Waiting(_) | Phase::Saving | Phase::Sending => "wait_bgsave",
            Phase::SendingFile => "send_bulk",
            Phase::Online => "online",
        }
    }

    /// The time of its last report; `active`: when it last sent anything.
    pub(crate) fn silent_since(&mut self, active: Instant, now: Instant) -> Instant {
        let sent = self.sent.as_ref().map_or(0, |sent| sent.load(Ordering::Relaxed));
        if sent != self.moved.0 && sent != FAILED {
            self.moved = (sent, now);
        }
        self.moved.1.max(self.acked_at).max(active)
    }
}
