//! Expiry of the keys that clients made at this replica.

use stillframe_keyspace::Keyspace;

use crate::peers::replication::expires_at;
use crate::state::ServerState;

/// Keys checked in one periodic run.
const KEYS_PER_RUN: usize = 256;

/// Deletes a replica's own expired keys. Called by the clock.
pub(crate) fn expire_own(keyspace: &mut Keyspace, state: &mut ServerState) {
    if state.replication.own.len() == 0 {
        return;
    }
    state.clock.read();
    let now = state.clock.unix_now();
    keyspace.spare_expired(false);
    for _ in 0..KEYS_PER_RUN {
        let Some(name) = state.replication.own.next_due(now) else { break };
        match expires_at(keyspace, &name) {
            Some(at) if at > now => state.replication.own.remember(name, at),
            Some(_) => {
                let (db, key) = &name;
                keyspace.contains(*db, key, now); // which deletes it
            }
            None => {}
        }
    }
    keyspace.spare_expired(state.spares_expired());
    state.note_expired(keyspace);
    state.ledger.effects.seal();
}
