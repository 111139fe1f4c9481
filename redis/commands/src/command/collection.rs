//! What all commands on collections share: looking one up as its type, editing it.
//!
//! - A command on a key of another type is refused with WRONGTYPE, and changes nothing.
//! - A command that edits calls [`Context::held`] first, which deletes an expired key and refuses a
//!   wrong type before anything changes.

use stillframe_keyspace::{
    Array, EditError, Entry, Hash, Keyspace, List, Set, Sorted, Stream, Value,
};
use stillframe_resp::Out;

use crate::context::Context;
use crate::errors::{Refusal, WrongType};

/// A type of value, as commands see it: for instance [`List`].
pub(super) trait View<'a>: Sized {
    /// The value as this type, if it is of it, as it is at an instant.
    fn from_value(value: Value<'a>, now: i64) -> Option<Self>;
}

impl<'a> View<'a> for List<'a> {
    fn from_value(value: Value<'a>, _: i64) -> Option<Self> {
        if let Value::List(list) = value { Some(list) } else { None }
    }
}

impl<'a> View<'a> for Hash<'a> {
    fn from_value(value: Value<'a>, now: i64) -> Option<Self> {
        if let Value::Hash(hash) = value { Some(hash.as_of(now)) } else { None }
    }
}

impl<'a> View<'a> for Set<'a> {
    fn from_value(value: Value<'a>, _: i64) -> Option<Self> {
        if let Value::Set(set) = value { Some(set) } else { None }
    }
}

impl<'a> View<'a> for Sorted<'a> {
    fn from_value(value: Value<'a>, _: i64) -> Option<Self> {
        if let Value::Sorted(sorted) = value { Some(sorted) } else { None }
    }
}

impl<'a> View<'a> for Array<'a> {
    fn from_value(value: Value<'a>, _: i64) -> Option<Self> {
        if let Value::Array(array) = value { Some(array) } else { None }
    }
}

impl<'a> View<'a> for Stream<'a> {
    fn from_value(value: Value<'a>, _: i64) -> Option<Self> {
        if let Value::Stream(stream) = value { Some(stream) } else { None }
    }
}

/// The value of an entry as one type, as it is at an instant; `Err` if it is of another.
pub(super) fn view_of<'a, V: View<'a>>(
    entry: Option<&'a Entry>,
    now: i64,
) -> Result<Option<V>, WrongType> {
    entry.map(|entry| V::from_value(entry.value(), now).ok_or(WrongType)).transpose()
}

impl<'c> Context<'c> {
    /// What a reading command finds at a key (INFO counts those), with the place for the reply.
    #[inline]
    pub(super) fn found<'s, V: View<'s>>(
        &'s mut self,
        key: &[u8],
    ) -> Result<(&'s mut Out<'c>, Option<V>), WrongType> {
        // Notifying a miss needs the keyspace, which the entry would borrow.
        let is_missed = !self.ledger.settings.notify.is_empty() && !self.exists(key);
        if is_missed {
            self.missed(key);
        }
        let Context { keyspace, ledger, caller, out, now, .. } = self;
        let entry = keyspace.get(caller.db, key, *now);
        match entry {
            Some(_) => ledger.lookups.hits += 1,
            None => ledger.lookups.misses += u64::from(!is_missed),
        }
        Ok((out, view_of(entry, *now)?))
    }

    /// As [`found`](Self::found), for a command that writes.
    #[inline]
    pub(super) fn found_to_edit<'s, V: View<'s>>(
        &'s mut self,
        key: &[u8],
    ) -> Result<(&'s mut Out<'c>, Option<V>), WrongType> {
        let Context { keyspace, caller, out, now, .. } = self;
        Ok((out, view_of(keyspace.get_to_edit(caller.db, key, *now), *now)?))
    }

    /// Deletes those of these fields of a hash that was looked up whose time has come. Lookups
    /// delete some, and hide the rest, which an edit would see.
    pub(super) fn delete_due<'f>(
        &mut self,
        key: &[u8],
        fields: impl IntoIterator<Item = &'f [u8]>,
    ) {
        self.keyspace.expire_named(self.caller.db, key, self.now, fields);
    }

    /// As [`changed_as`](Self::changed_as), for `times` changes of one key.
    pub(super) fn changed_times(
        &mut self,
        key: &[u8],
        times: usize,
        class: char,
        event: &'static str,
    ) {
        self.ledger.dirty += times.saturating_sub(1) as u64;
        self.changed_as(key, class, event);
    }

    /// As [`changed_as`](Self::changed_as), for changes of these fields of a hash.
    pub(super) fn changed_fields<'f>(
        &mut self,
        key: &[u8],
        event: &'static str,
        fields: impl ExactSizeIterator<Item = &'f [u8]>,
    ) {
        self.ledger.dirty += fields.len().saturating_sub(1) as u64;
        self.changed(key);
        if !self.ledger.settings.notify.is_empty() {
            self.ledger.notify_change_of(self.keyspace, key, event, fields);
        }
    }

    /// Records that a key is gone if an edit has left it empty.
    pub(super) fn emptied(&mut self, key: &[u8], left: usize) {
        if left == 0 {
            self.changed_as(key, 'g', "del");
        }
    }

    /// Stores a collection that `make` makes of nothing under a key, in place of what is there,
    /// which stays if there is no memory for the new one.
    pub(super) fn replaced(
        &mut self,
        key: &[u8],
        make: impl FnOnce(&mut Keyspace, usize, &[u8]) -> Result<(), EditError>,
    ) -> Result<(), Refusal> {
        let db = self.caller.db;
        if !self.exists(key) {
            return Ok(make(self.keyspace, db, key)?);
        }
        let before = self.kind_to_replace(db, key);
        let name = self.unused_name(key);
        make(self.keyspace, db, &name)?;
        if let Err(error) = self.keyspace.rename(db, &name, db, key) {
            self.keyspace.remove(db, &name);
            return Err(error.into());
        }
        let entry = self.keyspace.peek(db, key, self.now);
        if let Some(now) = entry.map(|entry| entry.value().kind()) {
            self.note_replaced(db, key, before, now);
        }
        Ok(())
    }

    /// Whether a key is in memory, though its time may have come.
    pub(super) fn holds(&mut self, key: &[u8]) -> bool {
        self.keyspace.contains(self.caller.db, key, i64::MIN)
    }

    /// A name that no key has, unless it is this one. No key expires by this.
    pub(super) fn unused_name(&mut self, key: &[u8]) -> Vec<u8> {
        let mut name = key.to_vec();
        while self.holds(&name) {
            let shorter = name.len().min(64);
            name.truncate(shorter);
            name.extend_from_slice(b" new ");
            name.extend_from_slice(&self.ledger.random.bits().to_le_bytes());
        }
        name
    }

    /// Deletes a key that a command would have stored an empty result in. A key whose time has come
    /// is deleted, too: as in Redis, it counts as deleted by the command.
    pub(super) fn store_nothing(&mut self, key: &[u8]) {
        if self.keyspace.remove(self.caller.db, key) {
            self.changed_as(key, 'g', "del");
        }
    }
}
