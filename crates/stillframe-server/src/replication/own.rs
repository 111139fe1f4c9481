//! Keys with a time to live that clients made at a replica which takes writes.
//!
//! - A replica waits for its primary's word on keys that have expired. The primary knows nothing of
//!   these, so the replica's own clock looks after them, as in Redis.
//! - They are known by name: what the primary then does with a key of that name is found when the
//!   clock looks. A key that does not expire any more is forgotten.

use std::collections::{BTreeSet, HashMap};

use stillframe::Algorithm;
use stillframe_keyspace::{DATABASES, Keyspace};

use crate::commands::Context;
use crate::server::Server;

/// Keys looked at in one run of the clock.
const KEYS_PER_RUN: usize = 256;

/// A database and a key in it.
type Name = (usize, Box<[u8]>);

/// See the head of this file.
#[derive(Default)]
pub(crate) struct OwnKeys {
    /// When the clock is to look at each.
    times: HashMap<Name, i64>,
    /// The same, the first to come first.
    due: BTreeSet<(i64, Name)>,
}

impl OwnKeys {
    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.times.len()
    }

    /// Forgets all of them.
    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Has the clock look at a key then.
    fn remember(&mut self, name: Name, at: i64) {
        if let Some(before) = self.times.insert(name.clone(), at) {
            self.due.remove(&(before, name.clone()));
        }
        self.due.insert((at, name));
    }

    /// The next key whose time has come by `now`; it is forgotten.
    fn next_due(&mut self, now: i64) -> Option<Name> {
        if self.due.first()?.0 > now {
            return None;
        }
        let (at, name) = self.due.pop_first()?;
        let known = self.times.remove(&name);
        debug_assert_eq!(known, Some(at), "each key is there once");
        Some(name)
    }
}

fn expires_at<A: Algorithm>(keyspace: &mut Keyspace<A>, (db, key): &Name) -> Option<i64> {
    keyspace.peek(*db, key, i64::MIN)?.expire_at()
}

impl<A: Algorithm> Context<'_, A> {
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

impl<A: Algorithm> Server<A> {
    /// Deletes those of a replica's own keys whose time has come. Called by the clock.
    pub(crate) fn expire_own(&mut self) {
        if self.state.replication.own.len() == 0 {
            return;
        }
        self.state.read_clock();
        let now = self.state.unix_now();
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
        self.state.settle_expired(&mut self.keyspace);
        self.state.ledger.effects.seal();
    }
}
