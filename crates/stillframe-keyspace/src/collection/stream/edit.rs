//! A stream as its writers see it.

use super::groups::{ConsumerFacts, Delivery, GroupFacts, Groups};
use super::{Parts, Stream, StreamId, body};
use crate::collection::draft::Draft;
use crate::collection::packed::Element;
use crate::collection::tree::Tree;
use crate::hash::Hasher;

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
        self.view().group(name)?;
        let (groups, hasher) = self.groups();
        let facts = groups.group(hasher, name)?;
        Some((facts, groups, hasher))
    }

    /// Adds an entry; false if there is one with this id. The last id becomes at least this one,
    /// and the number of entries added grows.
    pub fn add<'f>(
        &mut self,
        id: StreamId,
        fields: impl Iterator<Item = (&'f [u8], &'f [u8])> + Clone,
    ) -> bool {
        if id <= self.view().last_id() && self.view().get(id).is_some() {
            return false;
        }
        let (tree, parts, hasher) = self.parts();
        let mut key = id.seq.to_be_bytes().to_vec();
        body::write(&mut key, &mut parts.names, fields);
        tree.insert_ranked(hasher, Element { key: &key, value: &id.ms.to_be_bytes() });
        parts.last = parts.last.max(id);
        parts.added = parts.added.saturating_add(1);
        true
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

    /// Sets how many entries were ever added.
    pub fn set_added(&mut self, added: u64) {
        self.parts().1.added = added;
    }

    /// Makes a group; false if there is one of this name.
    pub fn create_group(&mut self, name: &[u8], last: StreamId, read: Option<u64>) -> bool {
        if self.view().group(name).is_some() {
            return false;
        }
        let (groups, hasher) = self.groups();
        let number = groups.fresh_number();
        groups.set_group(hasher, name, GroupFacts { number, last, read });
        true
    }

    /// Sets what a group has read; false if there is no such group.
    pub fn set_group(&mut self, name: &[u8], last: StreamId, read: Option<u64>) -> bool {
        let Some((facts, groups, hasher)) = self.group(name) else { return false };
        groups.set_group(hasher, name, GroupFacts { last, read, ..facts });
        true
    }

    /// Removes a group with its consumers and what is pending; false if there is no such group.
    pub fn destroy_group(&mut self, name: &[u8]) -> bool {
        let Some((facts, groups, hasher)) = self.group(name) else { return false };
        let first = |groups: &Groups| groups.consumers_of(facts.number).next();
        while let Some(consumer) = first(groups) {
            let name = groups.name_of(hasher, consumer).0.to_vec();
            remove_consumer(groups, hasher, facts.number, &name);
        }
        groups.groups.remove_named(hasher, name);
        true
    }

    /// Makes a consumer, or sets when it was last seen; true if it is new. False also without the
    /// group.
    pub fn see_consumer(&mut self, group: &[u8], name: &[u8], seen_ms: i64) -> bool {
        let Some((facts, groups, hasher)) = self.group(group) else { return false };
        let old = groups.consumer(hasher, facts.number, name);
        let number = old.map_or_else(|| groups.fresh_number(), |old| old.number);
        groups.set_consumer(hasher, facts.number, name, ConsumerFacts { number, seen_ms });
        old.is_none()
    }

    /// Removes a consumer with what is pending for it; returns how many entries that were, or
    /// nothing if there is no such consumer.
    pub fn remove_consumer(&mut self, group: &[u8], name: &[u8]) -> Option<usize> {
        let pending = self.view().group(group)?.consumer(name)?.pending_len();
        let (facts, groups, hasher) = self.group(group)?;
        remove_consumer(groups, hasher, facts.number, name);
        Some(pending)
    }

    /// Notes that an entry is pending for a consumer, and no longer for another; false if there is
    /// no such consumer.
    pub fn deliver(&mut self, group: &[u8], pending: super::Pending<'_>) -> bool {
        let Some((facts, groups, hasher)) = self.group(group) else { return false };
        let Some(consumer) = groups.consumer(hasher, facts.number, pending.consumer) else {
            return false;
        };
        let super::Pending { id, time_ms, count, .. } = pending;
        let delivery = Delivery { id, owner: consumer.number, time_ms, count };
        groups.put_delivery(hasher, facts.number, delivery);
        true
    }

    /// An entry is pending no more; false if it was not.
    pub fn acknowledge(&mut self, group: &[u8], id: StreamId) -> bool {
        if self.view().group(group).and_then(|group| group.pending(id)).is_none() {
            return false;
        }
        let Some((facts, groups, hasher)) = self.group(group) else { return false };
        groups.remove_delivery(hasher, facts.number, id)
    }
}

fn remove_consumer(groups: &mut Groups, hasher: &Hasher, group: u64, name: &[u8]) {
    let Some(consumer) = groups.consumer(hasher, group, name) else { return };
    let next = |groups: &Groups| {
        let mut owned = Groups::under(&groups.owned, consumer.number, &[]);
        owned.next().map(|element| super::id_at(element.key, 0))
    };
    while let Some(id) = next(groups) {
        groups.remove_delivery(hasher, group, id);
    }
    groups.remove_consumer(hasher, group, name);
}
