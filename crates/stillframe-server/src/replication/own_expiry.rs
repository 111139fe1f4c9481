//! Keys of a replica's own are noted when clients write them, and deleted when their time has come.

use stillframe_keyspace::{DATABASES, Keyspace};

use super::own::Name;
use crate::commands::Context;
use crate::server::Server;

/// Keys looked at in one run of the clock.
const KEYS_PER_RUN: usize = 256;

fn expires_at(keyspace: &mut Keyspace, (db, key): &Name) -> Option<i64> {
    keyspace.peek(*db, key, i64::MIN)?.expire_at()
}

impl Context<'_> {
    /// Remembers those of the keys of a client's write at a replica that expire now.
    #[cold]
    pub(crate) fn remember_own(&mut self, index: usize, args: &[&[u8]]) {
        let command = self.table.get(index);
        let reaches_all = matches!(command.name, "copy" | "move");
        for key in command.keys.of(args) {
            let own = self.session.caller.db..=self.session.caller.db;
            for db in if reaches_all { 0..=DATABASES - 1 } else { own } {
                let name = (db, Box::from(key));
                if let Some(at) = expires_at(self.keyspace, &name) {
                    self.server.replication.own.remember(name, at);
                }
            }
        }
    }
}

impl Server {
    /// Deletes those of a replica's own keys whose time has come. Called by the clock.
    pub(crate) fn expire_own(&mut self) {
        if self.state.replication.own.len() == 0 {
            return;
        }
        self.state.clock.read();
        let now = self.state.clock.unix_now();
        self.keyspace.spare_expired(false);
        for _ in 0..KEYS_PER_RUN {
            let Some(name) = self.state.replication.own.next_due(now) else { break };
            match expires_at(&mut self.keyspace, &name) {
                Some(at) if at > now => self.state.replication.own.remember(name, at),
                Some(_) => {
                    let (db, key) = &name;
                    self.keyspace.contains(*db, key, now); // which deletes it
                }
                None => {}
            }
        }
        self.keyspace.spare_expired(self.state.spares_expired());
        self.state.note_expired(&mut self.keyspace);
        self.state.ledger.effects.seal();
    }
}
