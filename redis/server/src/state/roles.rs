//! The roles of this server, primary or replica, and how they change.

use stillframe_commands::Consumer;
use stillframe_keyspace::Keyspace;
use stillframe_storage::dump::StreamPoint;

use crate::connections::client::{Phase, Replica};
use crate::connections::clients::Clients;
use crate::peers::group::NO_PRIMARY_ANY_MORE;
use crate::peers::replication::{Following, Replication};
use crate::state::ServerState;
use crate::state::persistence;

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
        (state.replication.name.id, state.replication.name.older) = (id, None);
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
        state.replication.name.older = None;
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

/// A replica that has the whole stream: the `target`, or any.
fn caught_up(
    replication: &Replication,
    clients: &Clients,
    target: Option<&(String, u16)>,
) -> Option<(String, u16)> {
    let end = replication.stream.end();
    let has = |replica: &Replica| replica.phase == Phase::Online && replica.acked == Some(end);
    if let Some((host, port)) = target {
        let named = replication.replica_known_as(clients, host, *port);
        return named.is_some_and(has).then(|| target.cloned())?;
    }
    let (client, replica) = replication.replicas(clients).find(|(_, replica)| has(replica))?;
    Some((replica.address(&client.session.caller.peer), replica.port))
}

/// Aborts a failover; false if there is none.
pub(crate) fn abort_failover(keyspace: &mut Keyspace, state: &mut ServerState, why: &str) -> bool {
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
            abort_failover(keyspace, state, "no replica caught up in time");
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

/// Begins the stream behind the loaded file. A primary gives it a new name, since it may have sent
/// more before it ended than the file holds; a replica continues its primary's.
pub(crate) fn resume_stream(keyspace: &mut Keyspace, state: &mut ServerState) {
    let replication = &mut state.replication;
    let Some(StreamPoint { id, offset, db }) = replication.loaded.point.take() else { return };
    tracing::info!("the stream of replication goes on from offset {offset}");
    if state.config.replication.primary.is_some() {
        (replication.name.id, replication.db) = (id, db);
    } else {
        replication.name.older = Some((id, offset));
    }
    replication.activate(keyspace, &mut state.ledger.effects);
}
