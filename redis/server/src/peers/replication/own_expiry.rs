//! Expiry of a replica's own keys, noted when clients write them.

use stillframe_commands::Command;
use stillframe_keyspace::{DATABASES, Keyspace};

use super::Replication;
use super::own::Name;

/// When a key expires, in Unix milliseconds, if it does.
pub(crate) fn expires_at(keyspace: &mut Keyspace, (db, key): &Name) -> Option<i64> {
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
        for key in command.keys.in_request(args) {
            for db in if reaches_all { 0..=DATABASES - 1 } else { db..=db } {
                let name = (db, Box::from(key));
                if let Some(at) = expires_at(keyspace, &name) {
                    self.own.remember(name, at);
                }
            }
        }
    }
}
