//! How data commands look keys up and tell the world that they changed them.
//!
//! Every change of a key goes through [`Context::changed`] or [`Context::stored_as`]: a change that
//! does not would be missed by WATCH and by `save` schedules.

use stillframe::Algorithm;
use stillframe_keyspace::{Entry, MemoryError, Type, Value};
use stillframe_resp::Out;

use super::Context;

/// What was at a key for a command on strings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Found {
    Nothing,
    Text,
    /// A value of another type, which was the answer.
    Other,
}

impl<A: Algorithm> Context<'_, A> {
    /// Most bytes of a string that a client may make (`proto-max-bulk-len`). What is replayed obeys
    /// no limit of clients: it was within the one that held when it was answered.
    pub(super) fn string_bytes_max(&self) -> usize {
        if self.session.internal { u32::MAX as usize } else { self.server.config.bulk_bytes_max }
    }

    /// Looks a key up for a reading command (INFO counts those) and answers by what is found.
    #[inline]
    pub(super) fn read<R>(
        &mut self,
        key: &[u8],
        answer: impl FnOnce(&mut Out<'_>, Option<&Entry>) -> R,
    ) -> R {
        if let Some(entry) = self.keyspace.get(self.session.db, key, self.now) {
            self.server.stats.keyspace_hits += 1;
            return answer(&mut self.out, Some(entry));
        }
        self.missed(key);
        answer(&mut self.out, None)
    }

    /// As [`read`](Self::read), for commands that are no use of the key: EXISTS, TTL, TYPE.
    pub(super) fn look<R>(
        &mut self,
        key: &[u8],
        answer: impl FnOnce(&mut Out<'_>, Option<&Entry>) -> R,
    ) -> R {
        if let Some(entry) = self.keyspace.peek(self.session.db, key, self.now) {
            self.server.stats.keyspace_hits += 1;
            return answer(&mut self.out, Some(entry));
        }
        self.missed(key);
        answer(&mut self.out, None)
    }

    /// As [`read`](Self::read), for OBJECT and its like: a miss is counted, but notified to nobody.
    pub(super) fn peek<R>(
        &mut self,
        key: &[u8],
        answer: impl FnOnce(&mut Out<'_>, Option<&Entry>) -> R,
    ) -> R {
        let entry = self.keyspace.peek(self.session.db, key, self.now);
        match entry {
            Some(_) => self.server.stats.keyspace_hits += 1,
            None => self.server.stats.keyspace_misses += 1,
        }
        answer(&mut self.out, entry)
    }

    #[inline]
    pub(super) fn missed(&mut self, key: &[u8]) {
        self.server.stats.keyspace_misses += 1;
        if !self.server.config.notify.is_empty() {
            self.settle_expired();
            self.server.notify('m', "keymiss", self.session.db, key);
        }
    }

    /// Answers a key's text, null, or that it is no string.
    #[inline]
    pub(super) fn answer_value(&mut self, key: &[u8]) -> Found {
        self.read(key, |out, entry| match entry.map(Entry::value) {
            None => {
                out.null();
                Found::Nothing
            }
            Some(value) => {
                bulk_value(out, value);
                if value.kind() == Type::String { Found::Text } else { Found::Other }
            }
        })
    }

    /// Whether a key exists; one whose time has come is deleted.
    #[inline]
    pub(super) fn exists(&mut self, key: &[u8]) -> bool {
        self.keyspace.contains(self.session.db, key, self.now)
    }

    /// Counts one change of the data set, made to `key`, and tells those who watch it.
    #[inline]
    pub(super) fn changed(&mut self, key: &[u8]) {
        self.server.dirty += 1;
        self.touched(self.session.db, key);
    }

    /// Tells those who watch a key, wait for it, or keep it in a cache, that it has changed.
    #[inline]
    pub(super) fn touched(&mut self, db: usize, key: &[u8]) {
        self.server.watches.touch(db, key);
        self.server.blocked.touch(db, key);
        self.server.invalidate(key, self.session.id);
    }

    /// As [`changed`](Self::changed), for a change that keyspace notifications name: `class` is
    /// Redis's letter for its kind (`l` list, `s` set, `h` hash, `z` sorted set, `$` string,
    /// `g` any type), `event` what happened.
    #[inline]
    pub(super) fn changed_as(&mut self, key: &[u8], class: char, event: &'static str) {
        self.changed(key);
        if !self.server.config.notify.is_empty() {
            self.notify_change(key, class, event);
        }
    }

    /// Tells, in place of the request itself, a request that does the same whenever it is replayed:
    /// see [`Effects`](crate::effects::Effects). May be called several times.
    pub(super) fn effect(&mut self, args: &[&[u8]]) {
        self.effect_in(self.session.db, args);
    }

    /// As [`effect`](Self::effect), in another database than the client's.
    pub(super) fn effect_in(&mut self, db: usize, args: &[&[u8]]) {
        if self.server.effects.wanted() {
            self.settle_expired();
            self.server.effects.set_told();
            self.server.effects.add(db, args);
        }
    }

    /// Tells that the request need not be replayed, whatever it changed.
    pub(super) fn no_effect(&mut self) {
        if self.server.effects.wanted() {
            self.server.effects.set_told();
        }
    }

    #[cold]
    fn notify_change(&mut self, key: &[u8], class: char, event: &str) {
        self.settle_expired();
        let (db, server) = (self.session.db, &mut *self.server);
        let keys = self.keyspace.len(db);
        if keys > server.keys_told {
            server.notify('n', "new", db, key);
        }
        server.keys_told = keys;
        server.notify(class, event, db, key);
    }

    /// Tells of the keys whose time has come since this was last called.
    pub(super) fn settle_expired(&mut self) {
        let Context { keyspace, server, session, .. } = self;
        server.settle_expired(keyspace, |server, db| {
            server.keys_told -= usize::from(db == session.db && server.keys_told > 0);
        });
    }

    /// The outcome of storing a string under `key`: a success is a change, which notifications
    /// call `event`; a failure replaces what the command has answered since `start`.
    #[inline]
    pub(super) fn stored_as<T>(
        &mut self,
        key: &[u8],
        event: &'static str,
        start: usize,
        outcome: Result<T, MemoryError>,
    ) -> Option<T> {
        match outcome {
            Ok(value) => {
                self.changed_as(key, '$', event);
                Some(value)
            }
            Err(error) => {
                self.refuse(start, &error);
                None
            }
        }
    }

    /// Answers the lines of a HELP sub-command.
    pub(super) fn help(&mut self, lines: &[&str]) {
        self.out.array(lines.len());
        lines.iter().for_each(|line| self.out.simple(line));
    }

    /// Answers, in place of everything since `start`, that memory cannot be had.
    #[cold]
    pub(super) fn refuse(&mut self, start: usize, error: &MemoryError) {
        self.out.buffer.truncate(start);
        self.out.error(format!("OOM {error}"));
    }
}

/// A string value as a reply.
#[inline]
pub(super) fn bulk_value(out: &mut Out<'_>, value: Value<'_>) {
    match value {
        Value::Int(int) => out.bulk_integer(int),
        Value::Bytes(bytes) => out.bulk(bytes),
        _ => out.error(super::errors::WRONG_TYPE),
    }
}
