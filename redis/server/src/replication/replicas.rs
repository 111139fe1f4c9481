//! The replicas of this server, and their offsets.

use std::time::{Duration, Instant};

use super::Replication;
use super::replica::{Phase, Replica};
use crate::client::Client;
use crate::clients::Clients;

impl Replication {
    /// The replicas with their connections, in the order in which they came.
    pub(crate) fn replicas<'c>(
        &self,
        clients: &'c Clients,
    ) -> impl Iterator<Item = (&'c Client, &'c Replica)> {
        let clients = self.places.iter().filter_map(|&place| clients.get(place));
        clients.filter_map(|client| Some((client, client.replica()?)))
    }

    /// How many replicas are good, for `min-replicas-to-write`.
    pub(crate) fn good(&self, clients: &Clients, lag_max: Duration, now: Instant) -> usize {
        let fresh = |at: Instant| now.saturating_duration_since(at) <= lag_max;
        let is_good = |it: &Replica| it.phase == Phase::Online && fresh(it.acked_at);
        self.replicas(clients).filter(|(_, replica)| is_good(replica)).count()
    }

    /// The replica at this address.
    pub(crate) fn replica_known_as<'c>(
        &self,
        clients: &'c Clients,
        host: &str,
        port: u16,
    ) -> Option<&'c Replica> {
        let known = |(client, replica): &(&Client, &Replica)| {
            replica.port == port
                && replica.address(&client.session.caller.peer).eq_ignore_ascii_case(host)
        };
        self.replicas(clients).find(known).map(|(_, replica)| replica)
    }
}

/// How many replicas have applied the stream up to `offset`.
pub(crate) fn replicas_at(clients: &Clients, offset: u64) -> usize {
    let replicas = clients.others().filter_map(|(_, client)| client.replica());
    replicas.filter(|it| it.phase == Phase::Online && it.acked >= offset).count()
}
