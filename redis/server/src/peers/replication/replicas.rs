//! The replicas of this server, and their offsets.

use std::time::{Duration, Instant};

use stillframe_commands::{Consumer, Effects};
use stillframe_keyspace::Keyspace;

use super::Replication;
use crate::connections::client::{Client, Phase, Replica};
use crate::connections::clients::Clients;

impl Replication {
    /// The replicas with their connections, in the order in which they came.
    pub(crate) fn replicas<'c>(
        &self,
        clients: &'c Clients,
    ) -> impl Iterator<Item = (&'c Client, &'c Replica)> {
        let clients = self.followers.places.iter().filter_map(|&place| clients.get(place));
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

impl Replication {
    /// Begins the stream, if there is none.
    pub(crate) fn activate(&mut self, keyspace: &mut Keyspace, effects: &mut Effects) {
        self.followers.lonely_since = Instant::now();
        if self.active {
            return;
        }
        self.active = true;
        self.followers.last_ping = self.followers.lonely_since;
        if self.following.is_none() {
            effects.select_anew();
            effects.want(keyspace, Consumer::Replicas, true);
        }
    }

    /// Closes all replicas, which connect again.
    pub(crate) fn drop_replicas(&mut self, clients: &mut Clients) {
        std::mem::take(&mut self.followers.places)
            .into_iter()
            .for_each(|place| clients.close_later(place));
    }

    /// Blocks a client until replicas have its writes, or also the log of this server.
    pub(crate) fn await_replicas(&mut self, id: u64, awaits_log: bool) {
        self.followers.waiters.push(id);
        self.followers.awaits_log |= awaits_log;
        self.ask();
    }
}

/// How many replicas have applied the stream up to `offset`, or have it on their disks.
pub(crate) fn replicas_at(clients: &Clients, offset: u64, on_disk: bool) -> usize {
    let replicas = clients.others().filter_map(|(_, client)| client.replica());
    let online = replicas.filter(|it| it.phase == Phase::Online);
    // What was written before there was a stream has offset 0, and no replica before its image.
    online.filter(|it| if on_disk { it.logged } else { it.acked } >= Some(offset)).count()
}
