//! What is known of a client that is a replica.

use std::sync::atomic::Ordering;
use std::time::Instant;

use stillframe_redis::Address;

use super::target::{FAILED, Sent};

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

    /// Since when nothing has been heard of it; `active`: when it last sent anything.
    pub(crate) fn silent_since(&mut self, active: Instant, now: Instant) -> Instant {
        let sent = self.sent.as_ref().map_or(0, |sent| sent.load(Ordering::Relaxed));
        if sent != self.moved.0 && sent != FAILED {
            self.moved = (sent, now);
        }
        self.moved.1.max(self.acked_at).max(active)
    }
}
