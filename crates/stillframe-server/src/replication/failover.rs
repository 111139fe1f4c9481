//! FAILOVER: a primary and one of its replicas change places without losing a write.
//!
//! - Writes are held from the request on, and nothing is added to the stream; once a replica has
//!   all of it this server follows that replica, with words that promote it. The writes that were
//!   held then hear READONLY.
//! - Until the other has agreed it can be called off, and this server is a primary as before.

use std::time::Instant;

use stillframe::Algorithm;
use stillframe_keyspace::Keyspace;

use super::replica::{Phase, Replica};
use crate::connection::Client;
use crate::server::Server;
use crate::state::ServerState;

/// A change of places that is under way.
pub(crate) struct Failover {
    /// Host and port of the replica that is to take over: named by the request, or chosen since.
    pub(crate) target: Option<(String, u16)>,
    /// Until when a replica has to have the whole stream.
    pub(crate) deadline: Option<Instant>,
    /// After the deadline the target takes over, whatever it has.
    pub(crate) force: bool,
    /// This server follows the target, which has not agreed yet.
    pub(crate) handed_over: bool,
}

impl ServerState {
    /// The replica that is known by this address.
    pub(crate) fn replica_known_as(&self, host: &str, port: u16) -> Option<&Replica> {
        let known = |(client, replica): &(&Client, &Replica)| {
            replica.port == port && replica.address(&client.session).eq_ignore_ascii_case(host)
        };
        self.replicas().find(known).map(|(_, replica)| replica)
    }

    /// A replica that has the whole stream: the `target`, or any.
    fn caught_up(&self, target: Option<&(String, u16)>) -> Option<(String, u16)> {
        let end = self.replication.stream.end();
        let has = |replica: &Replica| replica.phase == Phase::Online && replica.acked == end;
        if let Some((host, port)) = target {
            return self.replica_known_as(host, *port).is_some_and(has).then(|| target.cloned())?;
        }
        let (client, replica) = self.replicas().find(|(_, replica)| has(replica))?;
        Some((replica.address(&client.session), replica.port))
    }

    /// Calls a failover off; false if there is none.
    pub(crate) fn call_failover_off<A: Algorithm>(
        &mut self,
        keyspace: &mut Keyspace<A>,
        why: &str,
    ) -> bool {
        let Some(failover) = self.replication.failover.take() else { return false };
        tracing::warn!("the failover is called off: {why}");
        if failover.handed_over {
            self.promote(keyspace);
        }
        keyspace.spare_expired(self.spares_expired());
        true
    }
}

impl<A: Algorithm> Server<A> {
    /// Hands over once a replica has the whole stream, or gives up. Called every turn, when what
    /// the turn did is in the stream.
    pub(crate) fn attend_failover(&mut self) {
        let (keyspace, state) = (&mut self.keyspace, &mut self.state);
        let Some(failover) = state.replication.failover.as_ref() else { return };
        if failover.handed_over {
            return;
        }
        let late = failover.deadline.is_some_and(|deadline| state.loop_time >= deadline);
        let forced = || failover.target.clone().filter(|_| late && failover.force);
        let caught_up = state.caught_up(failover.target.as_ref());
        let late = late && caught_up.is_none();
        let Some((host, port)) = caught_up.or_else(forced) else {
            if late {
                state.call_failover_off(keyspace, "no replica caught up in time");
            }
            return;
        };
        if late {
            tracing::warn!("Failover target {host}:{port}: time out exceeded, failing over.");
        } else {
            tracing::info!("handing over to the replica at {host}:{port}");
        }
        if let Some(failover) = &mut state.replication.failover {
            failover.handed_over = true;
            failover.target = Some((host.clone(), port));
        }
        state.demote(keyspace, host, port);
    }
}
