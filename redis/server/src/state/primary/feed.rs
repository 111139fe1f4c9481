//! Sending the stream to the replicas of this server, to each as much as its socket takes.

use std::time::Duration;

use crate::connections::client::{Client, Phase};
use crate::peers::replication::stream::{Abilities, Stream};
use crate::state::ServerState;

/// Bytes of the stream written to one replica in one turn.
const BYTES_PER_TURN: u64 = 1 << 20;
/// How long writes wait for a replica that is being synchronised and does nothing.
const STANDSTILL_MAX: Duration = Duration::from_secs(5);

impl Client {
    /// Writes as much of the stream as the socket takes; false if the socket has failed.
    fn feed(&mut self, stream: &Stream) -> bool {
        let mut left = BYTES_PER_TURN;
        while let Some(replica) = self.replica()
            && replica.phase == Phase::Online
            && !replica.silent
        {
            let (cursor, knows) = (replica.cursor, Abilities::of_replica(replica));
            let Some(bytes) = stream.bytes_for(cursor, knows) else { return false };
            if bytes.is_empty() || left == 0 {
                break;
            }
            let bytes = &bytes[..bytes.len().min(usize::try_from(left).unwrap_or(usize::MAX))];
            match self.write_past(bytes) {
                Err(_) => return false,
                Ok(0) => break,
                Ok(count) => {
                    left -= count as u64;
                    if let Some(replica) = self.replica_mut() {
                        replica.cursor += count as u64;
                    }
                }
            }
        }
        true
    }
}

/// Sends replicas their part of the stream, and drops those that are too far behind.
pub(crate) fn feed(state: &mut ServerState) {
    let now = state.clock.turn();
    let ServerState { replication, clients, config, meter, ledger, .. } = state;
    if !replication.is_active() {
        return;
    }
    replication.end_turn(&mut ledger.effects);
    if std::mem::take(&mut ledger.branched) {
        replication.stream.note_branch();
    }
    replication.stream.note_needs(ledger.effects.take_needs());
    let stream = &replication.stream;
    let (mut needed, mut more, mut hold) = (u64::MAX, false, false);
    let backpressure = config.replication.backpressure;
    for &place in &replication.followers.places {
        let Some(client) = clients.get_mut(place) else { continue };
        let Some(replica) = client.replica().filter(|replica| replica.holds_stream()) else {
            continue;
        };
        let (before, syncing) = (replica.cursor, replica.is_syncing());
        let knows = Abilities::of_replica(replica);
        if !stream.suits(before, knows) && !replica.image_only {
            let name = replica.name(&client.session.caller.peer);
            if stream.suits_branches(before, knows) {
                tracing::warn!(
                    "dropping the replica {name}: a write needs what older servers cannot follow \
                     (fields that expire: Redis 7.4, Valkey 9; arrays, and XNACK of a primary that \
                     is Redis: Redis 8.8); it gets an image if it can. Upgrade replicas before \
                     clients use these"
                );
            } else {
                tracing::info!(
                    "the replica {name} knows no branches, and one was made: it needs an image"
                );
            }
            clients.close_later(place);
            continue;
        }
        let alive = client.feed(stream);
        let active = client.session.active;
        let Some(replica) = client.replica_mut() else { continue };
        let cursor = replica.cursor;
        let moving = now.saturating_duration_since(replica.silent_since(active, now));
        meter.streamed(cursor - before);
        client.unsent = usize::try_from(stream.end() - cursor).unwrap_or(usize::MAX);
        more |= client.unsent > 0 && !syncing && !client.is_full();
        let mut limit = config.replica_output_limit();
        if backpressure && syncing && limit.hard_bytes > 0 {
            // Time above the soft limit counts only once the replica follows the stream.
            limit.soft_bytes = 0;
            let near = limit.hard_bytes - limit.hard_bytes / 4;
            hold |= client.unsent as u64 > near && moving < STANDSTILL_MAX;
        }
        if !alive || client.over_output_limit(limit, now) {
            clients.close_later(place);
        } else {
            needed = needed.min(cursor);
        }
    }
    replication.followers.more = more;
    replication.hold(hold, now);
    replication.stream.trim(config.replication.backlog_bytes, needed);
}
