//! How data commands look keys up and tell the world that they changed them.
//!
//! Every change of a key goes through [`Context::changed`] or [`Context::stored`]: a change that
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
    /// Looks a key up for a reading command (INFO counts those) and answers by what is found.
    #[inline]
    pub(super) fn read<R>(
        &mut self,
        key: &[u8],
        answer: impl FnOnce(&mut Out<'_>, Option<&Entry>) -> R,
    ) -> R {
        let entry = self.keyspace.get(self.session.db, key, self.now);
        match entry {
            Some(_) => self.server.stats.keyspace_hits += 1,
            None => self.server.stats.keyspace_misses += 1,
        }
        answer(&mut self.out, entry)
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
        self.server.watches.touch(self.session.db, key);
    }

    /// As [`changed`](Self::changed), for a change that keyspace notifications name: `class` is
    /// Redis's letter for its kind (`l` list, `s` set, `h` hash, `z` sorted set, `$` string,
    /// `g` any type), `event` what happened.
    #[inline]
    pub(super) fn changed_as(&mut self, key: &[u8], class: char, event: &'static str) {
        // Nobody can subscribe to notifications yet.
        let _ = (class, event);
        self.changed(key);
    }

    /// Tells, in place of the request itself, a request that does the same whenever it is replayed:
    /// see [`Effects`](crate::effects::Effects). May be called several times.
    pub(super) fn effect(&mut self, args: &[&[u8]]) {
        self.effect_in(self.session.db, args);
    }

    /// As [`effect`](Self::effect), in another database than the client's.
    pub(super) fn effect_in(&mut self, db: usize, args: &[&[u8]]) {
        let effects = &mut self.server.effects;
        if effects.wanted() {
            effects.set_told();
            effects.add_expired(self.keyspace);
            effects.add(db, args);
        }
    }

    /// Tells that the request need not be replayed, whatever it changed.
    pub(super) fn no_effect(&mut self) {
        if self.server.effects.wanted() {
            self.server.effects.set_told();
        }
    }

    /// The outcome of storing `key`: a success is a change; a failure replaces what the command
    /// has answered since `start`.
    #[inline]
    pub(super) fn stored<T>(
        &mut self,
        key: &[u8],
        start: usize,
        outcome: Result<T, MemoryError>,
    ) -> Option<T> {
        match outcome {
            Ok(value) => {
                self.changed(key);
                Some(value)
            }
            Err(error) => {
                self.refuse(start, &error);
                None
            }
        }
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
