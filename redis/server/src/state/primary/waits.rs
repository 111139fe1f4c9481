//! What this server owes to its replicas each second, and to clients that wait for them.

use std::time::Duration;

use stillframe_commands::Consumer;
use stillframe_keyspace::Keyspace;

use crate::connections::client::Phase;
use crate::state::ServerState;

/// How often replicas are checked.
const TICK: Duration = Duration::from_secs(1);

/// The refusal of WAITAOF where there is no log to wait for.
pub(crate) const NO_LOG: &str =
    "ERR WAITAOF cannot be used when numlocal is set but appendonly is disabled.";

/// Replies to clients in WAIT and WAITAOF for which enough replicas have reported, and the log.
pub(crate) fn answer_waits(state: &mut ServerState) {
    let followers = &mut state.replication.followers;
    let awaits_log = std::mem::take(&mut followers.awaits_log);
    if !std::mem::take(&mut followers.acked) && !awaits_log {
        return;
    }
    for id in std::mem::take(&mut state.replication.followers.waiters) {
        let Some(acks) = state.ledger.waiters.acks(id) else { continue };
        let acked = state.acked(acks);
        let has_log = state.config.appendonly || state.group.is_member();
        if acks.log.is_some_and(|log| log.wanted) && !has_log {
            state.unblock(id, |_| Err(NO_LOG.into())); // it was switched off meanwhile
        } else if acked.suffices(acks) {
            state.unblock(id, |out| {
                acked.answer(acks, out);
                Ok(())
            });
        } else {
            state.replication.followers.awaits_log |= acks.log.is_some();
            state.replication.followers.waiters.push(id);
        }
    }
}

/// The work of each second: pings, and the end of silent replicas and of a stream without
/// replicas.
pub(crate) fn tend_replicas(keyspace: &mut Keyspace, state: &mut ServerState) {
    let now = state.clock.turn();
    let ServerState { replication, clients, config, ledger, .. } = state;
    if now < replication.followers.next_tick || !replication.active {
        return;
    }
    replication.followers.next_tick = now + TICK;
    let settings = &config.replication;
    let replica = replication.following.is_some();
    let speaks = !replica && replication.failover.is_none();
    let period = Duration::from_secs(settings.ping_period_s.into());
    if now.saturating_duration_since(replication.followers.last_ping) >= period {
        replication.followers.last_ping = now;
        if speaks && !replication.followers.places.is_empty() {
            replication.propagate(None, &[b"PING"]);
        }
    }
    let patience = Duration::from_secs(settings.timeout_s.into());
    for place in replication.followers.places.clone() {
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
            clients.close_later(place);
        }
    }
    let ttl = Duration::from_secs(settings.backlog_ttl_s);
    let lonely = now.saturating_duration_since(replication.followers.lonely_since);
    if replication.followers.places.is_empty() && !replica && !ttl.is_zero() && lonely > ttl {
        tracing::info!("freeing the replication backlog: no replica for repl-backlog-ttl seconds");
        replication.active = false;
        replication.name.older = None;
        replication.name.id = ledger.random.identifier();
        let end = replication.stream.end();
        replication.stream.restart(end);
        ledger.effects.want(keyspace, Consumer::Replicas, false);
    }
}
