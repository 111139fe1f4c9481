//! What commands on data keep beside the data: what has changed, the clients to notify of it, and
//! the settings that commands obey.
//!
//! - Every change of a key goes through here, whichever command made it: it is counted (`dirty`),
//!   logged and sent to replicas (`effects`), and marks the clients that watch the key (`watches`),
//!   wait for it (`waiters`) or asked for its events (`events`).
//! - Clients are numbers here. The ledger collects messages; the server sends them.

use stillframe_keyspace::{Expired, Keyspace};
use stillframe_rdb::{Version, Workspace};

use crate::effects::Effects;
use crate::events::{Classes, Event, Events, Fields};
use crate::random::Random;
use crate::waiters::Waiters;
use crate::watches::Watches;

/// See the head of this file.
pub struct Ledger {
    /// The settings that hold now.
    pub settings: Settings,
    /// Changes of the data set since the last successful save.
    pub dirty: u64,
    /// Lookups of reading commands.
    pub lookups: Lookups,
    /// What requests did, for the log and for replicas.
    pub effects: Effects,
    /// Keys watched by clients.
    pub watches: Watches,
    /// Clients that wait for keys.
    pub waiters: Waiters,
    /// Events of keys, to be sent to clients.
    pub events: Events,
    /// EXEC is running the queued requests of a transaction.
    pub in_exec: bool,
    /// A script is running its requests.
    pub in_script: bool,
    /// Members of a group run the same requests: what they store must not depend on where elements
    /// lie in memory.
    pub agrees: bool,
    /// A database was made a branch of another since this was last looked at, which only servers
    /// of this kind understand.
    pub branched: bool,
    /// A test has RESTORE take damaged payloads.
    pub skips_checksums: bool,
    /// The workspace of DUMP, from its first use on.
    pub dump_workspace: Option<Workspace>,
    /// Source of randomness (not for secrets).
    pub random: Random,
    /// The database of the request under way.
    selected: usize,
    /// Keys of that database at the last notified change, to notify new keys.
    keys_seen: usize,
}

/// Settings that commands on data obey.
#[derive(Debug, Clone, Copy)]
pub struct Settings {
    /// `proto-max-bulk-len`.
    pub bulk_bytes_max: usize,
    /// `notify-keyspace-events`.
    pub notify: Classes,
    /// `rdbcompression`.
    pub compresses: bool,
    /// The version of payloads of hashes with fields that expire, by `rdb-version`.
    pub expiring_version: Version,
    /// `maxmemory-policy` counts how often keys are used, and not when.
    pub counts_frequency: bool,
    /// Memory is limited, and `maxmemory-policy` looks at the uses of each key.
    pub keeps_uses: bool,
}

/// How often reading commands found a key, since the start or CONFIG RESETSTAT.
#[derive(Debug, Clone, Copy, Default)]
pub struct Lookups {
    /// Keys that were there.
    pub hits: u64,
    /// Keys that were not.
    pub misses: u64,
}

impl Ledger {
    /// Nothing has changed yet.
    pub fn new(settings: Settings, random: Random) -> Self {
        Self {
            settings,
            dirty: 0,
            lookups: Lookups::default(),
            effects: Effects::default(),
            watches: Watches::default(),
            waiters: Waiters::default(),
            events: Events::default(),
            in_exec: false,
            in_script: false,
            agrees: false,
            branched: false,
            skips_checksums: false,
            dump_workspace: None,
            random,
            selected: 0,
            keys_seen: 0,
        }
    }

    /// A request begins, in the database `db`.
    #[inline]
    pub fn begin(&mut self, keyspace: &Keyspace, db: usize) {
        if !self.settings.notify.is_empty() {
            (self.selected, self.keys_seen) = (db, keyspace.len(db));
        }
    }

    /// Whether any consumer needs to know which keys expire.
    pub fn wants_expired(&self) -> bool {
        let is_told = !self.settings.notify.is_empty() || self.events.cached;
        self.effects.wanted() || is_told || self.waiters.need_keys()
    }

    /// Notes an event of a key. `class` is a letter of `notify-keyspace-events`.
    #[inline]
    pub fn notify(&mut self, class: char, event: &'static str, db: usize, key: &[u8]) {
        if self.settings.notify.has(class) {
            self.events.add(Event::Notice { event, db, key, fields: Fields::default() });
        }
    }

    /// Notes an event of fields of a hash.
    fn notify_fields<'f>(
        &mut self,
        event: &'static str,
        db: usize,
        key: &[u8],
        fields: impl IntoIterator<Item = &'f [u8]>,
    ) {
        let classes = self.settings.notify;
        if !classes.has('h') {
            return;
        }
        let mut names = Vec::new();
        if classes.has_fields() {
            fields.into_iter().for_each(|name| Fields::add_to(&mut names, name));
        }
        self.events.add(Event::Notice { event, db, key, fields: Fields::from_text(&names) });
    }

    /// Notes that a change, `event`, was made to a key of the selected database, which may be new.
    #[cold]
    pub fn notify_change(
        &mut self,
        keyspace: &mut Keyspace,
        key: &[u8],
        class: char,
        event: &'static str,
    ) {
        self.notify_new(keyspace, key);
        self.notify(class, event, self.selected, key);
    }

    /// As [`notify_change`](Self::notify_change), made to these fields of a hash.
    #[cold]
    pub(crate) fn notify_change_of<'f>(
        &mut self,
        keyspace: &mut Keyspace,
        key: &[u8],
        event: &'static str,
        fields: impl IntoIterator<Item = &'f [u8]>,
    ) {
        self.notify_new(keyspace, key);
        self.notify_fields(event, self.selected, key, fields);
    }

    /// Notes that a key that is about to be notified of is new, if it is.
    fn notify_new(&mut self, keyspace: &mut Keyspace, key: &[u8]) {
        self.note_expired(keyspace);
        let (db, keys) = (self.selected, keyspace.len(self.selected));
        if keys > self.keys_seen {
            self.notify('n', "new", db, key);
        }
        self.keys_seen = keys;
    }

    /// Keys that were added so far are notified later, with the change that added them: the next
    /// change is one of another key. Returns how many, for [`forget_new`](Self::forget_new).
    pub(crate) fn put_off_new(&mut self, keyspace: &mut Keyspace) -> usize {
        if self.settings.notify.is_empty() {
            return 0;
        }
        self.note_expired(keyspace);
        let keys = keyspace.len(self.selected);
        let added = keys.saturating_sub(self.keys_seen);
        self.keys_seen = keys.max(self.keys_seen);
        added
    }

    /// The next change is the one that added this many keys.
    pub(crate) fn forget_new(&mut self, added: usize) {
        self.keys_seen = self.keys_seen.saturating_sub(added);
    }

    /// Marks the clients that watch a key, wait for it, or keep it in a cache: client `by` changed
    /// it.
    #[inline]
    pub fn touch(&mut self, db: usize, key: &[u8], by: u64) {
        self.watches.touch(db, key);
        self.waiters.touch(db, key);
        self.invalidate(key, by);
    }

    /// Notes for caches that a key has changed.
    #[inline]
    fn invalidate(&mut self, key: &[u8], by: u64) {
        if self.events.cached {
            self.events.add(Event::Stale { key, by });
        }
    }

    /// Notes for caches that all keys have changed: a database was emptied.
    pub fn invalidate_all(&mut self) {
        if self.events.cached {
            self.events.add(Event::AllStale);
        }
    }

    /// Notes, for the log, the replicas, caches and clients that need it, a key that is gone
    /// without a command's deleting it.
    pub fn gone(&mut self, db: usize, key: &[u8]) {
        if self.effects.wanted() {
            self.effects.add_for_all(db, &[b"DEL", key]);
        }
        self.waiters.touch(db, key);
        self.invalidate(key, 0);
    }

    /// Notes that fields of a hash have expired.
    fn fields_gone(&mut self, expired: &Expired) {
        let Expired { db, key, fields, is_gone } = expired;
        if self.effects.wanted() {
            let fields = fields.iter().map(|field| &**field);
            let request: Vec<&[u8]> = [&b"HDEL"[..], key].into_iter().chain(fields).collect();
            self.effects.add_for_all(*db, &request);
        }
        self.touch(*db, key, 0);
        self.notify_fields("hexpired", *db, key, fields.iter().map(|field| &**field));
        if *is_gone {
            self.notify('g', "del", *db, key);
        }
    }

    /// Notes which keys, and fields of hashes, have expired since this was last called.
    #[inline]
    pub fn note_expired(&mut self, keyspace: &mut Keyspace) {
        self.note(keyspace, false);
    }

    /// As [`note_expired`](Self::note_expired), for a walk over keys of any name: what it finds
    /// expired has nothing in common, and each is a change of its own.
    pub fn note_expired_apart(&mut self, keyspace: &mut Keyspace) {
        self.note(keyspace, !self.in_exec);
    }

    #[inline]
    fn note(&mut self, keyspace: &mut Keyspace, apart: bool) {
        for expired in keyspace.take_expired() {
            let (db, key) = (expired.db, &expired.key[..]);
            if expired.is_gone && db == self.selected {
                self.keys_seen = self.keys_seen.saturating_sub(1);
            }
            if expired.fields.is_empty() {
                self.gone(db, key);
                self.notify('x', "expired", db, key);
            } else {
                self.fields_gone(&expired);
            }
            if apart {
                self.effects.seal();
            }
        }
    }
}
