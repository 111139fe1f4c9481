//! What a command on data sees, how it looks keys up, and how it says that it changed them.
//!
//! Every change of a key goes through [`Context::changed`] or [`Context::stored_as`]: a change that
//! does not would be missed by WATCH and by `save` schedules.

use stillframe_keyspace::{Entry, Expire, Keyspace, MemoryError, Type, Value};
use stillframe_resp::Out;

use crate::caller::Caller;
use crate::errors::{Refusal, WrongType};
use crate::ledger::Ledger;

/// Everything that a command on data may use.
pub struct Context<'a> {
    /// The data.
    pub keyspace: &'a mut Keyspace,
    /// What is kept beside the data.
    pub ledger: &'a mut Ledger,
    /// The client whose request runs.
    pub caller: &'a mut Caller,
    /// Where the reply goes.
    pub out: Out<'a>,
    /// Unix time in milliseconds, the same throughout one command (and one EXEC).
    pub now: i64,
}

impl Context<'_> {
    /// Most bytes of a string that a client may make (`proto-max-bulk-len`). What is replayed obeys
    /// no limit of clients: it was within the one that held when it was answered.
    pub(crate) fn string_bytes_max(&self) -> usize {
        if self.caller.internal { u32::MAX as usize } else { self.ledger.settings.bulk_bytes_max }
    }

    /// Looks a key up for a reading command (INFO counts those) and answers by what is found.
    #[inline]
    pub(crate) fn read<R>(
        &mut self,
        key: &[u8],
        answer: impl FnOnce(&mut Out<'_>, Option<&Entry>) -> R,
    ) -> R {
        if let Some(entry) = self.keyspace.get(self.caller.db, key, self.now) {
            self.ledger.lookups.hits += 1;
            return answer(&mut self.out, Some(entry));
        }
        self.missed(key);
        answer(&mut self.out, None)
    }

    /// As [`read`](Self::read), for commands that are no use of the key: EXISTS, TTL, TYPE.
    pub(crate) fn probe<R>(
        &mut self,
        key: &[u8],
        answer: impl FnOnce(&mut Out<'_>, Option<&Entry>) -> R,
    ) -> R {
        if let Some(entry) = self.keyspace.peek(self.caller.db, key, self.now) {
            self.ledger.lookups.hits += 1;
            return answer(&mut self.out, Some(entry));
        }
        self.missed(key);
        answer(&mut self.out, None)
    }

    /// Looks a key up for OBJECT and its like: a miss is counted, but causes no event.
    pub fn peek<R>(
        &mut self,
        key: &[u8],
        answer: impl FnOnce(&mut Out<'_>, Option<&Entry>) -> R,
    ) -> R {
        let entry = self.keyspace.peek(self.caller.db, key, self.now);
        match entry {
            Some(_) => self.ledger.lookups.hits += 1,
            None => self.ledger.lookups.misses += 1,
        }
        answer(&mut self.out, entry)
    }

    #[inline]
    pub(crate) fn missed(&mut self, key: &[u8]) {
        self.ledger.lookups.misses += 1;
        if !self.ledger.settings.notify.is_empty() {
            self.note_expired();
            self.ledger.notify('m', "keymiss", self.caller.db, key);
        }
    }

    /// Replies with a key's text, or null; returns whether the key exists.
    #[inline]
    pub(crate) fn answer_value(&mut self, key: &[u8]) -> Result<bool, WrongType> {
        self.read(key, |out, entry| {
            let Some(entry) = entry else {
                out.null();
                return Ok(false);
            };
            match entry.long_text() {
                Some(text) => out.bulk_shared(text),
                None => bulk_value(out, entry.value())?,
            }
            Ok(true)
        })
    }

    /// Whether a key exists; one whose time has come is deleted.
    #[inline]
    pub fn exists(&mut self, key: &[u8]) -> bool {
        self.keyspace.contains(self.caller.db, key, self.now)
    }

    /// What a key holds that is about to be replaced unseen, for
    /// [`note_replaced`](Self::note_replaced). Clients are notified if its time has come.
    #[inline]
    pub(crate) fn kind_to_replace(&mut self, db: usize, key: &[u8]) -> Option<Type> {
        if self.ledger.settings.notify.is_empty() {
            return None;
        }
        self.keyspace.peek(db, key, self.now).map(|entry| entry.value().kind())
    }

    /// Notifies clients of a key that held a value of the first kind, and holds another value now.
    #[inline]
    pub(crate) fn note_replaced(&mut self, db: usize, key: &[u8], before: Option<Type>, now: Type) {
        if let Some(before) = before {
            self.note_expired();
            self.ledger.notify('o', "overwritten", db, key);
            if before != now {
                self.ledger.notify('c', "type_changed", db, key);
            }
        }
    }

    /// Counts one change of the data set, made to `key`, and marks the clients that watch it.
    #[inline]
    pub fn changed(&mut self, key: &[u8]) {
        self.ledger.dirty += 1;
        self.touched(self.caller.db, key);
    }

    /// Notifies clients that watch a key, wait for it, or keep it in a cache of its change.
    #[inline]
    pub(crate) fn touched(&mut self, db: usize, key: &[u8]) {
        self.ledger.touch(db, key, self.caller.id);
    }

    /// As [`changed`](Self::changed), for a change that keyspace notifications name: `class` is
    /// Redis's letter for its kind (`l` list, `s` set, `h` hash, `z` sorted set, `a` array, `$`
    /// string, `g` any type), `event` what happened.
    #[inline]
    pub fn changed_as(&mut self, key: &[u8], class: char, event: &'static str) {
        self.changed(key);
        if !self.ledger.settings.notify.is_empty() {
            self.ledger.notify_change(self.keyspace, key, class, event);
        }
    }

    /// Names a request that does the same whenever it is replayed, in place of the request itself:
    /// see [`Effects`](crate::Effects). May be called several times.
    pub fn effect(&mut self, args: &[&[u8]]) {
        self.effect_in(self.caller.db, args);
    }

    /// As [`effect`](Self::effect), in another database than the client's.
    pub(crate) fn effect_in(&mut self, db: usize, args: &[&[u8]]) {
        if self.ledger.effects.wanted() {
            self.note_expired();
            self.ledger.effects.set_stated();
            self.ledger.effects.add(db, args);
        }
    }

    /// States that the request need not be replayed, whatever it changed.
    pub fn no_effect(&mut self) {
        if self.ledger.effects.wanted() {
            self.ledger.effects.set_stated();
        }
    }

    /// Notes which keys have expired since this was last called.
    pub fn note_expired(&mut self) {
        self.ledger.note_expired(self.keyspace);
    }

    /// The outcome of storing a string under `key`: a success is a change, which notifications
    /// call `event`.
    #[inline]
    pub(crate) fn stored_as<T>(
        &mut self,
        key: &[u8],
        event: &'static str,
        outcome: Result<T, MemoryError>,
    ) -> Result<T, Refusal> {
        let value = outcome?;
        self.changed_as(key, '$', event);
        Ok(value)
    }

    /// Stores a string under `key`, whatever is there.
    #[inline]
    pub(crate) fn store_string(
        &mut self,
        key: &[u8],
        value: &[u8],
        expire: Expire,
    ) -> Result<(), Refusal> {
        self.put_string(key, value, expire)?;
        self.changed_as(key, '$', "set");
        Ok(())
    }

    /// As [`store_string`](Self::store_string), for a caller that tells of the change itself, by
    /// [`changed_as`](Self::changed_as).
    #[inline]
    pub(crate) fn put_string(
        &mut self,
        key: &[u8],
        value: &[u8],
        expire: Expire,
    ) -> Result<(), Refusal> {
        let db = self.caller.db;
        let before = self.kind_to_replace(db, key);
        self.keyspace.set(db, key, value, expire)?;
        self.note_replaced(db, key, before, Type::String);
        Ok(())
    }
}

/// A string value as a reply.
#[inline]
pub(crate) fn bulk_value(out: &mut Out<'_>, value: Value<'_>) -> Result<(), WrongType> {
    match value {
        Value::Int(int) => out.bulk_integer(int),
        Value::Bytes(bytes) => out.bulk(bytes),
        _ => return Err(WrongType),
    }
    Ok(())
}
