//! The roles of this server, primary or replica, and how they change.

use std::time::{Duration, Instant};

use stillframe_commands::{Consumer, Effects};
use stillframe_keyspace::Keyspace;

use super::replicas::replicas_at;
use super::{Following, Phase, Replica, Replication};
use crate::clients::Clients;
use crate::group::NO_PRIMARY_ANY_MORE;
use crate::persistence;
use crate::state::ServerState;

/// How often replicas are checked.
const TICK: Duration = Duration::from_secs(1);

impl Replication {
    /// Begins the stream, if there is none.
    pub(crate) fn activate(&mut self, keyspace: &mut Keyspace, effects: &mut Effects) {
        self.lonely_since = Instant::now();
        if self.active {
            return;
        }
        self.active = true;
        self.last_ping = self.lonely_since;
        if self.following.is_none() {
            effects.select_anew();
            effects.want(keyspace, Consumer::Replicas, true);
        }
    }

    /// Closes all replicas, which connect again.
    pub(super) fn drop_replicas(&mut self, clients: &mut Clients) {
        std::mem::take(&mut self.places).into_iter().for_each(|place| clients.doom(place));
    }

    /// Blocks a client until replicas have its writes.
    pub(crate) fn await_replicas(&mut self, id: u64) {
        self.waiters.push(id);
        self.ask();
    }
}

/// Prepares for data that neither log nor stream describes: ends the log, and makes every follower
/// of the stream take an image, this server included if it is a replica.
pub(crate) fn break_off(keyspace: &mut Keyspace, state: &mut ServerState) {
    let _ = persistence::end_log(keyspace, state); // clients that wait for a reply get an error
    persistence::hand_on(keyspace, state);
    state.replication.drop_replicas(&mut state.clients);
    if let Some(following) = &mut state.replication.following {
        (following.lost, following.kill) = (true, true);
    } else {
        let (id, end) = (state.ledger.random.identifier(), state.replication.stream.end());
        (state.replication.id, state.replication.older) = (id, None);
        state.replication.stream.restart(end);
    }
}

/// REPLICAOF NO ONE: makes this server a primary.
pub(crate) fn promote(keyspace: &mut Keyspace, state: &mut ServerState) {
    if !state.replication.is_replica() {
        return;
    }
    persistence::hand_on(keyspace, state);
    let following = state.replication.following.take();
    state.replication.own.clear();
    let lost = following.as_ref().is_some_and(|it| it.lost);
    let loading = following.is_some_and(|it| it.is_loading());
    state.config.replication.primary = None;
    state.process.tend_oom_score(&state.config, state.replication.is_replica());
    keyspace.spare_expired(state.spares_expired());
    if loading {
        keyspace.reset();
    }
    let id = state.ledger.random.identifier();
    state.replication.rename(id);
    if lost {
        // The stream did not make this data: no replica may resume from it.
        state.replication.older = None;
    }
    state.replication.drop_replicas(&mut state.clients);
    state.replication.active = false;
    state.replication.activate(keyspace, &mut state.ledger.effects);
    tracing::info!("promoted: the stream goes on from offset {}", state.replication.stream.end());
}

/// REPLICAOF: makes this server follow another one.
pub(crate) fn demote(keyspace: &mut Keyspace, state: &mut ServerState, host: String, port: u16) {
    persistence::hand_on(keyspace, state);
    state.replication.drop_replicas(&mut state.clients);
    unblock_all(state);
    keyspace.spare_expired(true);
    state.ledger.effects.want(keyspace, Consumer::Replicas, false);
    tracing::info!("following {host}:{port}");
    state.config.replication.primary = Some((host.clone(), port));
    let lost = state.replication.following.as_ref().is_some_and(|it| it.lost);
    let id = state.clients.next_id();
    state.replication.following = Some(Box::new(Following::new(host, port, id, lost)));
    state.process.tend_oom_score(&state.config, state.replication.is_replica());
}

/// Unblocks all clients: their keys belong to another server now.
fn unblock_all(state: &mut ServerState) {
    for id in state.ledger.waiters.all() {
        state.unblock(id, |_| Err(NO_PRIMARY_ANY_MORE));
    }
}

/// Replies to clients in WAIT for which enough replicas have reported.
pub(crate) fn answer_waits(state: &mut ServerState) {
    if !std::mem::take(&mut state.replication.acked) {
        return;
    }
    for id in std::mem::take(&mut state.replication.waiters) {
        let Some(acks) = state.ledger.waiters.acks(id) else { continue };
        let count = replicas_at(&state.clients, acks.offset);
        if count >= acks.wanted {
            state.unblock(id, |out| {
                out.integer(count as i64);
                Ok(())
            });
        } else {
            state.replication.waiters.push(id);
        }
    }
}

/// The work of each second: pings, and the end of silent replicas and of a stream without
/// replicas.
pub(crate) fn tend_replicas(keyspace: &mut Keyspace, state: &mut ServerState) {
    let now = state.clock.turn();
    let ServerState { replication, clients, config, ledger, .. } = state;
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
            replication.propagate(None, &[b"PING"]);
        }
    }
    let patience = Duration::from_secs(settings.timeout_s.into());
    for place in replication.places.clone() {
        let Some(client) = clients.get_mut(place) else { continue };
        let (active, peer) = (client.session.active, client.session.caller.peer.clone());
        let Some(replica) = client.replica_mut() else { continue };
        if matches!(replica.phase, Phase::Waiting(_) | Phase::Saving) {
            client.output.push(b'\n'); // shows that this server is alive
            clients.flush_later(place);
        } else if replica.old && replica.phase == Phase::Online {
            // A replica that asked with SYNC cannot show that it is alive.
        } else if now.saturating_duration_since(replica.silent_since(active, now)) > patience {
            let how = if replica.phase == Phase::Online { "streaming" } else { "full" };
            tracing::warn!("Disconnecting timedout replica ({how} sync): {peer} (repl-timeout)");
            clients.doom(place);
        }
    }
    let ttl = Duration::from_secs(settings.backlog_ttl_s);
    let lonely = now.saturating_duration_since(replication.lonely_since);
    if replication.places.is_empty() && !replica && !ttl.is_zero() && lonely > ttl {
        tracing::info!("freeing the replication backlog: no replica for repl-backlog-ttl seconds");
        replication.active = false;
        replication.older = None;
        replication.id = ledger.random.identifier();
        let end = replication.stream.end();
        replication.stream.restart(end);
        ledger.effects.want(keyspace, Consumer::Replicas, false);
    }
}

/// A replica that has the whole stream: the `target`, or any.
fn caught_up(
    replication: &Replication,
    clients: &Clients,
    target: Option<&(String, u16)>,
) -> Option<(String, u16)> {
    let end = replication.stream.end();
    let has = |replica: &Replica| replica.phase == Phase::Online && replica.acked == end;
    if let Some((host, port)) = target {
        let named = replication.replica_known_as(clients, host, *port);
        return named.is_some_and(has).then(|| target.cloned())?;
    }
    let (client, replica) = replication.replicas(clients).find(|(_, replica)| has(replica))?;
    Some((replica.address(&client.session.caller.peer), replica.port))
}

/// Aborts a failover; false if there is none.
pub(crate) fn call_failover_off(
    keyspace: &mut Keyspace,
    state: &mut ServerState,
    why: &str,
) -> bool {
    let Some(failover) = state.replication.failover.take() else { return false };
    tracing::warn!("the failover is aborted: {why}");
    if failover.handed_over {
        promote(keyspace, state);
    }
    keyspace.spare_expired(state.spares_expired());
    true
}

/// Hands over once a replica has the whole stream, or gives up. Called every turn, after its
/// effects are in the stream.
pub(crate) fn attend_failover(keyspace: &mut Keyspace, state: &mut ServerState) {
    let Some(failover) = state.replication.failover.as_ref() else { return };
    if failover.handed_over {
        return;
    }
    let late = failover.deadline.is_some_and(|deadline| state.clock.turn() >= deadline);
    let forced = || failover.target.clone().filter(|_| late && failover.force);
    let caught_up = caught_up(&state.replication, &state.clients, failover.target.as_ref());
    let late = late && caught_up.is_none();
    let Some((host, port)) = caught_up.or_else(forced) else {
        if late {
            call_failover_off(keyspace, state, "no replica caught up in time");
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
    demote(keyspace, state, host, port);
}
