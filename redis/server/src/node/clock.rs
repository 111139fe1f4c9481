//! The clock of the machine, and the times of the turn under way.

use std::time::Instant;

pub(crate) use stillframe_storage::unix_millis;

/// The time of the command thread, and the switches of periodic work.
pub(crate) struct Clock {
    /// When the server started.
    started: Instant,
    /// When this turn of the loop began.
    turn: Instant,
    /// That in unix milliseconds.
    unix_ms: i64,
    /// When the last request ended, or the one under way began: nanoseconds since `turn`.
    ns: u64,
    /// Whether a test has stopped periodic work.
    stands: bool,
    /// Whether periodic work looks for expired keys; a test may turn that off.
    expires: bool,
}

/// The times of a turn that goes on later.
pub(crate) struct Suspended {
    turn: Instant,
    unix_ms: i64,
}

impl Clock {
    /// The server starts.
    pub(crate) fn new() -> Self {
        let now = Instant::now();
        let unix_ms = unix_millis();
        Self { started: now, turn: now, unix_ms, ns: 0, stands: false, expires: true }
    }

    /// A turn of the loop begins.
    pub(crate) fn begin_turn(&mut self) {
        (self.turn, self.unix_ms, self.ns) = (Instant::now(), unix_millis(), 0);
    }

    /// Begins a turn within the one under way.
    pub(crate) fn suspend(&mut self) -> Suspended {
        let suspended = Suspended { turn: self.turn, unix_ms: self.unix_ms };
        self.begin_turn();
        suspended
    }

    /// Goes on with the turn that was [suspended](Self::suspend).
    pub(crate) fn resume(&mut self, suspended: Suspended) {
        (self.turn, self.unix_ms) = (suspended.turn, suspended.unix_ms);
        self.read();
    }

    /// A turn of a test begins then.
    #[cfg(test)]
    pub(crate) fn set(&mut self, turn: Instant, unix_ms: i64) {
        (self.turn, self.unix_ms, self.ns) = (turn, unix_ms, 0);
    }

    /// A test stops periodic work, or has it go on.
    pub(crate) fn stop(&mut self, stands: bool) {
        self.stands = stands;
    }

    /// Whether periodic work stands.
    pub(crate) fn stands(&self) -> bool {
        self.stands
    }

    /// A test has periodic work look for expired keys, or not.
    pub(crate) fn expire_actively(&mut self, expires: bool) {
        self.expires = expires;
    }

    /// Whether periodic work looks for expired keys.
    pub(crate) fn expires(&self) -> bool {
        self.expires
    }

    /// When the server started.
    pub(crate) fn started(&self) -> Instant {
        self.started
    }

    /// When this turn of the loop began.
    #[inline]
    pub(crate) fn turn(&self) -> Instant {
        self.turn
    }

    /// When the last request ended, or the one under way began: nanoseconds since the turn did.
    #[inline]
    pub(crate) fn ns(&self) -> u64 {
        self.ns
    }

    /// Notes that a request begins or has ended. A number, since the arithmetic of
    /// [`Duration`](std::time::Duration) would be a visible part of short requests.
    #[inline]
    pub(crate) fn read(&mut self) {
        let since = self.turn.elapsed();
        self.ns = since.as_secs() * 1_000_000_000 + u64::from(since.subsec_nanos());
    }

    /// Unix time in milliseconds, at the start of the request under way.
    #[inline]
    pub(crate) fn unix_now(&self) -> i64 {
        self.unix_ms.saturating_add_unsigned(self.ns / 1_000_000)
    }
}
