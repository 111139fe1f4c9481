//! What clients may not do because of replication, in Redis's words.

use crate::client::Session;
use crate::state::ServerState;
use stillframe_redis::{Command, flags};

impl ServerState {
    /// Why replication refuses all writes of clients.
    #[inline]
    pub(crate) fn replication_refuses_write(&self) -> Option<&'static str> {
        let settings = &self.config.replication;
        if self.replication.is_replica() {
            return settings
                .read_only
                .then_some("READONLY You can't write against a read only replica.");
        }
        let wanted = settings.min_replicas;
        (wanted > 0 && settings.max_lag_s > 0 && self.good_replicas() < wanted)
            .then_some("NOREPLICAS Not enough good replicas to write.")
    }

    /// Why replication refuses a command just now.
    #[inline]
    pub(crate) fn replication_refuses<S>(
        &self,
        command: &Command<S>,
        session: &Session,
    ) -> Option<&'static str> {
        let following = self.replication.following.as_deref()?;
        let stale = !following.is_connected() && !self.config.replication.serve_stale;
        (stale && session.lacks(command, flags::STALE)).then_some(
            "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
        )
    }
}
