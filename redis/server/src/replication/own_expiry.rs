//! Expiry of a replica's own keys, noted when clients write them.

use stillframe_commands::Command;
use stillframe_keyspace::{DATABASES, Keyspace};

use super::Replication;
use super::own::Name;
use crate::state::ServerState;

/// Keys checked in one periodic run.
const KEYS_PER_RUN: usize = 256;

fn expires_at(keyspace: &mut Keyspace, (db, key): &Name) -> Option<i64> {
    keyspace.peek(*db, key, i64::MIN)?.expire_at()
}

impl Replication {
    /// Keys that clients made here, and that expire, though this server is a replica.
    pub(crate) fn own_keys(&self) -> usize {
        self.own.len()
    }

    /// Remembers those of the keys of a client's write at a replica, in the database `db`, that
    /// expire now.
    #[cold]
    pub(crate) fn remember_own<S>(
        &mut self,
        keyspace: &mut Keyspace,
        command: &Command<S>,
        db: usize,
        args: &[&[u8]],
    ) {
        let reaches_all = matches!(command.name, "copy" | "move");
        for key in command.keys.of(args) {
            for db in if reaches_all { 0..=DATABASES - 1 } else { db..=db } {
                let name = (db, Box::from(key));
                if let Some(at) = expires_at(keyspace, &name) {
                    self.own.remember(name, at);
                }
            }
        }
    }
}

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
