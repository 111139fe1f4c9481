//! A stream as its writers see it.

use super::Stream;
use crate::collection::draft::Draft;
use crate::collection::limits::{IdmpLimits, IdmpMessage};
use crate::collection::packed::Element;
use crate::collection::parts::groups::{
    ConsumerFacts, Delivery, GroupFacts, Groups, Holder, Times,
};
use crate::collection::parts::idmp::Producers;
use crate::collection::parts::{Names, Parts, StreamId, body};
use crate::collection::tree::Tree;
use crate::hash::Hasher;

/// Room for the sequence number and the body of most entries.
const BODY_BYTES: usize = 256;

/// A stream under edit.
pub struct StreamEdit<'a>(pub(crate) Draft<'a>);

impl StreamEdit<'_> {
    /// The stream as it is now.
    #[must_use]
    pub fn view(&self) -> Stream<'_> {
        Stream(self.0.view())
    }

    fn parts(&mut self) -> (&mut Tree, &mut Parts, &Hasher) {
        let Err(trunk) = self.0.change() else { unreachable!("a stream is never packed") };
        let parts = trunk.stream.as_deref_mut().expect("a stream has its parts");
        (&mut trunk.main, parts, &trunk.hasher)
    }

    fn groups(&mut self) -> (&mut Groups, &Hasher) {
        let (_, parts, hasher) = self.parts();
        (parts.groups.get_or_insert_default(), hasher)
    }

    /// The facts of a group, if there is one, with what it takes to change it. Nothing counts as
    /// changed without the group.
    fn group(&mut self, name: &[u8]) -> Option<(GroupFacts, &mut Groups, &Hasher)> {
        let facts = self.view().group(name)?.facts;
        let (groups, hasher) = self.groups();
        Some((facts, groups, hasher))
    }

    /// Adds an entry; false if there is one with this id. The last id becomes at least this one,
    /// and the number of entries added grows.
    pub fn add<'f>(
        &mut self,
        id: StreamId,
        fields: impl Iterator<Item = (&'f [u8], &'f [u8])> + Clone,
    ) -> bool {
        if self.is_there(id) {
            return false;
        }
        let names = self.parts().1.lists.names_of(fields.clone().map(|(name, _)| name));
        self.add_new(id, names, fields);
        true
    }

    /// Keeps the names of entries to come, which a file gives once for many of them, for
    /// [`add_named`](Self::add_named) within this edit.
    pub fn keep_names<'f>(&mut self, names: impl Iterator<Item = &'f [u8]> + Clone) -> Names {
        self.parts().1.lists.of_many(names)
    }

    /// As [`add`](Self::add), for an entry whose names are kept: they are not looked at.
    pub fn add_named<'f>(
        &mut self,
        id: StreamId,
        names: Names,
        fields: impl Iterator<Item = (&'f [u8], &'f [u8])>,
    ) -> bool {
        let is_new = !self.is_there(id);
        if is_new {
            self.add_new(id, names, fields);
        }
        is_new
    }

    fn is_there(&self, id: StreamId) -> bool {
        id <= self.view().last_id() && self.view().get(id).is_some()
    }

    fn add_new<'f>(
        &mut self,
        id: StreamId,
        names: Names,
        fields: impl Iterator<Item = (&'f [u8], &'f [u8])>,
    ) {
        let (tree, parts, hasher) = self.parts();
        let mut key = Vec::with_capacity(BODY_BYTES);
        key.extend_from_slice(&id.seq.to_be_bytes());
        body::write(&mut key, names, fields);
        tree.append_ranked(hasher, Element::ranked(&key, id.ms));
        parts.last = parts.last.max(id);
        parts.added = parts.added.saturating_add(1);
    }

    /// Deletes an entry; false if it was not there. It counts among the deleted ids.
    pub fn delete(&mut self, id: StreamId) -> bool {
        let rank = self.view().below(id);
        if self.view().at(rank).is_none_or(|entry| entry.id != id) {
            return false;
        }
        self.0.remove_range(rank, 1);
        let (_, parts, _) = self.parts();
        parts.deleted = parts.deleted.max(id);
        true
    }

    /// Removes at most `count` entries from the first one on.
    pub fn trim(&mut self, count: usize) {
        self.0.remove_range(0, count);
    }

    /// Sets the id that the next entry's has to exceed.
    pub fn set_last_id(&mut self, id: StreamId) {
        self.parts().1.last = id;
    }

    /// Sets the greatest id that was deleted.
    pub fn set_deleted_id(&mut self, id: StreamId) {
        self.parts().1.deleted = id;
    }

    /// Sets how many entries were ever added. No group has read more than that.
    pub fn set_added(&mut self, added: u64) {
        let (_, parts, hasher) = self.parts();
        let is_lower = added < std::mem::replace(&mut parts.added, added);
        if let Some(groups) = parts.groups.as_mut().filter(|_| is_lower) {
            groups.limit_read(hasher, added);
        }
    }

    /// Sets how much of what producers have sent is known, and forgets all of it.
    pub fn set_idmp_limits(&mut self, limits: IdmpLimits) {
        let (_, parts, _) = self.parts();
        parts.idmp = limits;
        if let Some(producers) = &mut parts.producers {
            producers.forget_all();
        }
    }

    /// Sets how many messages of producers were ever added, and how many were sent again.
    pub fn set_idmp_counts(&mut self, added: u64, duplicates: u64) {
        let producers = self.producers().0;
        (producers.added, producers.duplicates) = (added, duplicates);
    }

    fn producers(&mut self) -> (&mut Producers, IdmpLimits, &Hasher) {
        let (_, parts, hasher) = self.parts();
        (parts.producers.get_or_insert_default(), parts.idmp, hasher)
    }

    /// Notes under which id a message of a producer was added.
    pub fn note_sent(&mut self, message: IdmpMessage<'_>, id: StreamId) {
        let (producers, limits, hasher) = self.producers();
        producers.note(hasher, limits, message, id);
        producers.added = producers.added.saturating_add(1);
    }

    /// Counts a message that was sent again.
    pub fn note_sent_again(&mut self) {
        let producers = self.producers().0;
        producers.duplicates = producers.duplicates.saturating_add(1);
    }

    /// Forgets at most `most` messages of producers whose time is over; returns how many.
    pub fn forget_sent(&mut self, now: i64, most: usize) -> usize {
        if self.view().idmp_soonest() > now {
            return 0;
        }
        let (producers, _, hasher) = self.producers();
        producers.forget_due(hasher, now, most)
    }

    /// At most what was ever added: newer servers refuse a file with a group that has read more.
    fn limited(&self, read: Option<u64>) -> Option<u64> {
        read.map(|read| read.min(self.view().added()))
    }

    /// Makes a group; false if there is one of this name.
    pub fn create_group(&mut self, name: &[u8], last: StreamId, read: Option<u64>) -> bool {
        if self.view().group(name).is_some() {
            return false;
        }
        let read = self.limited(read);
        let (groups, hasher) = self.groups();
        let number = groups.fresh_number();
        groups.set_group(hasher, name, GroupFacts { number, last, read });
        true
    }

    /// Sets what a group has read; false if there is no such group.
    pub fn set_group(&mut self, name: &[u8], last: StreamId, read: Option<u64>) -> bool {
        let read = self.limited(read);
        let Some((facts, groups, hasher)) = self.group(name) else { return false };
        groups.set_group(hasher, name, GroupFacts { last, read, ..facts });
        true
    }

    /// Removes a group with its consumers and what is pending; false if there is no such group.
    pub fn destroy_group(&mut self, name: &[u8]) -> bool {
        let Some((facts, groups, hasher)) = self.group(name) else { return false };
        groups.remove_group(hasher, facts.number, name);
        true
    }

    /// Makes a consumer, or sets when it was last seen, and when it was last active if that is
    /// given; true if it is new. False also without the group.
    pub fn see_consumer(
        &mut self,
        group: &[u8],
        name: &[u8],
        seen_ms: i64,
        active_ms: Option<i64>,
    ) -> bool {
        let Some((facts, groups, hasher)) = self.group(group) else { return false };
        if let Some(old) = groups.consumer(hasher, facts.number, name) {
            let active_ms = active_ms.or(old.times.active_ms);
            groups.set_times(hasher, old.number, name, Times { seen_ms, active_ms });
            return false;
        }
        let (number, times) = (groups.fresh_number(), Times { seen_ms, active_ms });
        groups.add_consumer(hasher, facts.number, name, ConsumerFacts { number, times });
        true
    }

    /// Removes a consumer with what is pending for it; returns how many entries that were, or
    /// nothing if there is no such consumer.
    pub fn remove_consumer(&mut self, group: &[u8], name: &[u8]) -> Option<usize> {
        let pending = self.view().group(group)?.consumer(name)?.pending_len();
        let (facts, groups, hasher) = self.group(group)?;
        groups.remove_consumer(hasher, facts.number, name);
        Some(pending)
    }

    /// Notes that an entry is pending for a consumer, and no longer for another, or that nobody has
    /// it, behind those that nobody has already; false if there is no such consumer.
    pub fn deliver(&mut self, group: &[u8], pending: super::Pending<'_>) -> bool {
        let Some((facts, groups, hasher)) = self.group(group) else { return false };
        let super::Pending { id, consumer, time_ms, count } = pending;
        let holder = match consumer {
            None => Holder::Nobody { turn: groups.fresh_number() },
            Some(name) => {
                let number = groups.consumer_number(hasher, facts.number, name);
                let Some(number) = number else { return false };
                Holder::Consumer { number, time_ms }
            }
        };
        groups.put_delivery(hasher, facts.number, Delivery { id, holder, count });
        true
    }

    /// As [`deliver`](Self::deliver), for entries that go to one consumer at one time, the first
    /// time.
    pub fn deliver_first(
        &mut self,
        group: &[u8],
        consumer: &[u8],
        ids: &[StreamId],
        time_ms: i64,
    ) -> bool {
        let Some((facts, groups, hasher)) = self.group(group) else { return false };
        let Some(number) = groups.consumer_number(hasher, facts.number, consumer) else {
            return false;
        };
        let holder = Holder::Consumer { number, time_ms };
        for &id in ids {
            groups.put_delivery(hasher, facts.number, Delivery { id, holder, count: 1 });
        }
        true
    }

    /// An entry is pending no more; false if it was not.
    pub fn acknowledge(&mut self, group: &[u8], id: StreamId) -> bool {
        let Some(facts) = self.view().group(group).map(|group| group.facts) else { return false };
        let old = self.view().with_groups().and_then(|(_, it)| it.delivery(facts.number, id));
        let Some(old) = old else { return false };
        let (groups, hasher) = self.groups();
        groups.remove_delivery(hasher, facts.number, old);
        true
    }
}

#[cfg(test)]
mod tests {
    use stillframe::algorithms::naive::Naive;

    use super::*;
    use crate::collection::parts::body::work;
    use crate::model::sized;
    use crate::{Keyspace, KeyspaceOptions, Value};

    const KEY: &[u8] = b"key";

    /// A node of a file gives long names once, and each of its entries takes a few bytes.
    #[test]
    fn long_names_of_many_entries_are_written_and_looked_at_once() {
        let (name, entries) = (vec![b'n'; sized(1 << 20, 1 << 12)], sized(20_000, 50) as u64);
        let options = KeyspaceOptions::default();
        let mut keyspace: Keyspace<Naive> = Keyspace::create(&options).unwrap();
        let fields = [(&name[..], &b"value"[..])];
        let before = work::bytes();
        let added = keyspace.edit_stream(0, KEY, |edit| {
            let names = edit.keep_names([&name[..]].into_iter());
            (1..=entries)
                .all(|ms| edit.add_named(StreamId { ms, seq: 0 }, names, fields.into_iter()))
        });
        assert!(added.unwrap());
        let most = 2 * name.len() + 100 * entries as usize;
        let worked = work::bytes() - before;
        assert!(worked < most, "{worked} bytes of texts written or compared");
        let booked = keyspace.stats().entry_bytes;
        assert!(booked < most, "{booked} bytes booked");
        let Some(Value::Stream(stream)) = keyspace.get(0, KEY, 0).map(crate::Entry::value) else {
            panic!("no stream")
        };
        let last = stream.at(stream.len() - 1).unwrap();
        assert_eq!(last.id.ms, entries);
        let is_right = |(read, value)| {
            read == crate::Text::Bytes(&name) && value == crate::Text::Bytes(b"value")
        };
        assert!({ last.fields }.all(is_right) && last.fields.count() == 1);
        // What comes by a command is not compared with long names.
        let before = work::bytes();
        let id = StreamId { ms: entries + 1, seq: 0 };
        let fields = [(&b"short"[..], &b"value"[..])];
        assert!(keyspace.edit_stream(0, KEY, |edit| edit.add(id, fields.into_iter())).unwrap());
        assert!(work::bytes() - before < 100);
    }
}
