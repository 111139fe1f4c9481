//! Whether this server speaks for itself or follows another one, and how that changes.

use std::time::{Duration, Instant};

use stillframe_keyspace::Keyspace;
use stillframe_redis::{Consumer, Refusal};

use super::{Following, Phase, Replica};
use crate::client::Client;
use crate::journal;
use crate::state::ServerState;

const NO_PRIMARY_ANY_MORE: Refusal = Refusal::new(
    "UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)",
);

/// How often replicas are looked after.
const TICK: Duration = Duration::from_secs(1);

impl ServerState {
    /// Begins the stream, if there is none.
    pub(crate) fn activate(&mut self, keyspace: &mut Keyspace) {
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
    pub(crate) fn break_off(&mut self, keyspace: &mut Keyspace) {
        let _ = journal::close(keyspace, self); // who waits for a reply is told
        journal::hand_on(keyspace, self);
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
            self.hub.clients.doom(place);
        }
    }

    /// REPLICAOF NO ONE: from now on this server speaks for itself.
    pub(crate) fn promote(&mut self, keyspace: &mut Keyspace) {
        if !self.replication.is_replica() {
            return;
        }
        journal::hand_on(keyspace, self);
        let following = self.replication.following.take();
        self.replication.own.clear();
        let lost = following.as_ref().is_some_and(|it| it.lost);
        let loading = following.is_some_and(|it| it.is_loading());
        self.config.replication.primary = None;
        self.process.tend_oom_score(&self.config, self.replication.is_replica());
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
    pub(crate) fn demote(&mut self, keyspace: &mut Keyspace, host: String, port: u16) {
        journal::hand_on(keyspace, self);
        self.drop_replicas();
        self.unblock_all();
        keyspace.spare_expired(true);
        self.ledger.effects.want(keyspace, Consumer::Replicas, false);
        tracing::info!("following {host}:{port}");
        self.config.replication.primary = Some((host.clone(), port));
        let lost = self.replication.following.as_ref().is_some_and(|it| it.lost);
        let id = self.hub.clients.next_id();
        self.replication.following = Some(Box::new(Following::new(host, port, id, lost)));
        self.process.tend_oom_score(&self.config, self.replication.is_replica());
    }

    /// Ends the waiting of all clients: their keys are another server's business now.
    fn unblock_all(&mut self) {
        for id in self.ledger.waiters.all() {
            self.unblock(id, |_| Err(NO_PRIMARY_ANY_MORE));
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
                self.unblock(id, |out| {
                    out.integer(count as i64);
                    Ok(())
                });
            } else {
                self.replication.waiters.push(id);
            }
        }
    }

    /// What is due once a second: pings, and an end to replicas that are silent and to a stream
    /// that nobody listens to.
    pub(crate) fn tend_replicas(&mut self, keyspace: &mut Keyspace) {
        let now = self.clock.turn;
        let Self { replication, hub, config, ledger, .. } = self;
        let clients = &mut hub.clients;
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
                replication.tell(None, &[b"PING"]);
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

    /// The replica that is known by this address.
    pub(crate) fn replica_known_as(&self, host: &str, port: u16) -> Option<&Replica> {
        let known = |(client, replica): &(&Client, &Replica)| {
            replica.port == port
                && replica.address(&client.session.caller.peer).eq_ignore_ascii_case(host)
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
        Some((replica.address(&client.session.caller.peer), replica.port))
    }

    /// Calls a failover off; false if there is none.
    pub(crate) fn call_failover_off(&mut self, keyspace: &mut Keyspace, why: &str) -> bool {
        let Some(failover) = self.replication.failover.take() else { return false };
        tracing::warn!("the failover is called off: {why}");
        if failover.handed_over {
            self.promote(keyspace);
        }
        keyspace.spare_expired(self.spares_expired());
        true
    }

    /// Hands over once a replica has the whole stream, or gives up. Called every turn, when what
    /// the turn did is in the stream.
    pub(crate) fn attend_failover(&mut self, keyspace: &mut Keyspace) {
        let Some(failover) = self.replication.failover.as_ref() else { return };
        if failover.handed_over {
            return;
        }
        let late = failover.deadline.is_some_and(|deadline| self.clock.turn >= deadline);
        let forced = || failover.target.clone().filter(|_| late && failover.force);
        let caught_up = self.caught_up(failover.target.as_ref());
        let late = late && caught_up.is_none();
        let Some((host, port)) = caught_up.or_else(forced) else {
            if late {
                self.call_failover_off(keyspace, "no replica caught up in time");
            }
            return;
        };
        if late {
            tracing::warn!("Failover target {host}:{port}: time out exceeded, failing over.");
        } else {
            tracing::info!("handing over to the replica at {host}:{port}");
        }
        if let Some(failover) = &mut self.replication.failover {
            failover.handed_over = true;
            failover.target = Some((host.clone(), port));
        }
        self.demote(keyspace, host, port);
    }
}
