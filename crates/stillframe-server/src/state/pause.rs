//! CLIENT PAUSE: requests that have to wait until an operator, or the clock, lets them run.
//!
//! - A request that may not run now is held with its client, which is not served meanwhile.
//! - When the pause ends, held requests run first, in the clients' order of the registry.
//! - The data stands still meanwhile: keys whose time has come are absent, but not deleted.

use std::time::{Duration, Instant};

use stillframe_keyspace::Keyspace;
use stillframe_redis::{Command, flags};

use super::ServerState;
use crate::client::Session;
use crate::hub::Pause;

impl ServerState {
    /// Holds requests (those that write, or all) for a while from now on.
    pub(crate) fn pause_clients(&mut self, length: Duration, writes_only: bool) {
        let now = Instant::now();
        let end = now.checked_add(length).unwrap_or(now + Duration::from_secs(1 << 32));
        self.hub.pause = Some(Pause { end, writes_only });
    }

    /// Ends the pause: what has expired meanwhile may be deleted again.
    pub(crate) fn unpause(&mut self, keyspace: &mut Keyspace) {
        self.hub.pause = None;
        keyspace.spare_expired(self.spares_expired());
    }

    /// Whether requests are held now.
    #[inline]
    pub(crate) fn pausing(&self) -> bool {
        self.hub.pause.is_some() || self.holds_writes() || self.awaits_log()
    }

    /// Whether requests that write are held for a reason of the server's own.
    fn holds_writes(&self) -> bool {
        let replication = &self.replication;
        replication.holding() || self.process.ending.is_some() || replication.failover.is_some()
    }

    /// Whether requests that change data are held, because no log would have them.
    #[inline]
    fn awaits_log(&self) -> bool {
        self.storage.journal.holds_writes(&self.config, self.clock.turn)
    }

    /// Whether a request has to wait, because it, or what it has EXEC run, may write.
    pub(crate) fn holds<S>(&self, command: &Command<S>, session: &Session) -> bool {
        let changes = session.has(command, flags::WRITE);
        let may_write = changes || session.has(command, flags::MAY_REPLICATE);
        self.hub.pause.is_some_and(|pause| may_write || !pause.writes_only)
            || may_write && self.holds_writes()
            || changes && self.awaits_log()
    }

    /// How long the pause still lasts.
    pub(crate) fn pause_left(&self) -> Option<Duration> {
        self.hub.pause.map(|pause| pause.end.saturating_duration_since(Instant::now()))
    }

    /// Whether keys whose time has come are not to be deleted: that would be a change.
    pub(crate) fn spares_expired(&self) -> bool {
        let replication = &self.replication;
        self.hub.pause.is_some() || replication.is_replica() || replication.failover.is_some()
    }
}
