//! A stream as readers see it. Reading allocates nothing.

use std::fmt;

use crate::collection::form::{Collection, Form};
use crate::collection::limits::{IdmpLimits, IdmpMessage};
use crate::collection::packed::{Element, Key, NEVER};
use crate::collection::parts::groups::{Delivery, Elements, GroupFacts, Groups, Holder, Times};
use crate::collection::parts::idmp::Producer;
use crate::collection::parts::{Fields, Parts, StreamId, id_at, number_at};
use crate::collection::trunk::Trunk;

/// A stream.
#[derive(Clone, Copy)]
pub struct Stream<'a>(pub(crate) Collection<'a>);

/// An entry of a stream.
#[derive(Debug, Clone, Copy)]
pub struct StreamEntry<'a> {
    /// Its id.
    pub id: StreamId,
    /// Its fields with their values, in order.
    pub fields: Fields<'a>,
}

/// A consumer group.
#[derive(Clone, Copy)]
pub struct Group<'a> {
    trunk: &'a Trunk,
    groups: &'a Groups,
    name: &'a [u8],
    pub(super) facts: GroupFacts,
}

/// A consumer of a group.
#[derive(Clone, Copy)]
pub struct Consumer<'a> {
    groups: &'a Groups,
    name: &'a [u8],
    number: u64,
    times: Times,
}

/// An entry that was delivered and not acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pending<'a> {
    /// Its id.
    pub id: StreamId,
    /// The name of the consumer that has it; `None`: it was released, and nobody has it.
    pub consumer: Option<&'a [u8]>,
    /// When it was last delivered, in unix milliseconds; 0 if nobody has it.
    pub time_ms: i64,
    /// How often it was delivered.
    pub count: u64,
}

pub(super) fn id_of(element: Element<'_>) -> StreamId {
    StreamId { ms: element.head, seq: number_at(element.key, 0) }
}

/// What a producer has sent: names of messages with their ids.
type Sent<'a> = Vec<(&'a [u8], StreamId)>;

impl<'a> Stream<'a> {
    fn parts(self) -> Option<(&'a Trunk, &'a Parts)> {
        // A stream is never packed.
        let Form::Tree(trunk) = self.0.form else { return None };
        trunk.stream.as_deref().map(|parts| (trunk, parts))
    }

    fn part<R: Default>(self, of: impl FnOnce(&'a Parts) -> R) -> R {
        self.parts().map(|(_, parts)| of(parts)).unwrap_or_default()
    }

    /// Entries in it.
    #[must_use]
    pub fn len(self) -> usize {
        self.0.len()
    }

    /// Whether it has no entry.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// The id that the next entry's has to exceed.
    #[must_use]
    pub fn last_id(self) -> StreamId {
        self.part(|parts| parts.last)
    }

    /// The greatest id that was deleted.
    #[must_use]
    pub fn deleted_id(self) -> StreamId {
        self.part(|parts| parts.deleted)
    }

    /// Entries that were ever added.
    #[must_use]
    pub fn added(self) -> u64 {
        self.part(|parts| parts.added)
    }

    /// How many entries come before this id.
    #[must_use]
    pub fn below(self, id: StreamId) -> usize {
        self.0.below(Key { head: id.ms, tail: &id.seq.to_be_bytes() })
    }

    /// The entry at a rank.
    #[must_use]
    pub fn at(self, rank: usize) -> Option<StreamEntry<'a>> {
        self.iter_from(rank).next()
    }

    /// The entry with this id.
    #[must_use]
    pub fn get(self, id: StreamId) -> Option<StreamEntry<'a>> {
        self.at(self.below(id)).filter(|entry| entry.id == id)
    }

    /// The entries from a rank on.
    pub fn iter_from(self, rank: usize) -> impl Iterator<Item = StreamEntry<'a>> + Clone + 'a {
        self.0.walk(rank).map(move |element| self.entry(element))
    }

    /// The entries from a rank (or the last one) downwards.
    pub fn iter_back_from(self, rank: usize) -> impl Iterator<Item = StreamEntry<'a>> + 'a {
        self.0.walk_back(rank).map(move |element| self.entry(element))
    }

    fn entry(self, element: Element<'a>) -> StreamEntry<'a> {
        let body = element.key.get(8..).unwrap_or_default();
        let lists = self.parts().map(|(_, parts)| &parts.lists);
        StreamEntry { id: id_of(element), fields: Fields::from_body(body, lists) }
    }

    /// How much of what producers have sent is known.
    #[must_use]
    pub fn idmp_limits(self) -> IdmpLimits {
        self.part(|parts| parts.idmp)
    }

    /// How many messages of producers were ever added, and how many were sent again.
    #[must_use]
    pub fn idmp_counts(self) -> (u64, u64) {
        self.part(|parts| parts.producers.as_ref().map_or((0, 0), |it| (it.added, it.duplicates)))
    }

    /// Whether anything is known of producers, or is to be known otherwise than by default.
    #[must_use]
    pub fn has_idmp(self) -> bool {
        self.part(Parts::has_idmp)
    }

    /// Whether an entry of a group is pending for nobody.
    #[must_use]
    pub fn has_released(self) -> bool {
        self.part(Parts::has_released)
    }

    pub(super) fn idmp_soonest(self) -> i64 {
        self.parts().map_or(NEVER, |(_, parts)| parts.soonest())
    }

    /// How many producers there are of whom messages are known by then, and how many messages.
    #[must_use]
    pub fn idmp_known(self, now: i64) -> (usize, usize) {
        self.part(|parts| {
            parts.producers.as_ref().map_or((0, 0), |it| it.known_at(parts.idmp, now))
        })
    }

    /// The id of the entry under which a message of a producer was added, if it is known by then.
    #[must_use]
    pub fn sent(self, message: IdmpMessage<'_>, now: i64) -> Option<StreamId> {
        let (trunk, parts) = self.parts()?;
        let id = parts.producers.as_ref()?.entry_of(&trunk.hasher, message.pid, message.iid)?;
        parts.idmp.is_known(id.ms, now).then_some(id)
    }

    /// The producers of whom messages are known, or were a while ago, in no order.
    pub fn producers(self) -> impl Iterator<Item = Producer<'a>> + 'a {
        let producers = self.parts().and_then(|(_, parts)| parts.producers.as_deref());
        producers.into_iter().flat_map(|producers| producers.all())
    }

    /// Whether this is one of them.
    #[must_use]
    pub fn knows_producer(self, pid: &[u8]) -> bool {
        self.parts().is_some_and(|(trunk, parts)| {
            parts.producers.as_ref().is_some_and(|it| it.knows(&trunk.hasher, pid))
        })
    }

    /// How many producers these are.
    #[must_use]
    pub fn producer_count(self) -> usize {
        self.part(|parts| parts.producers.as_ref().map_or(0, |it| it.count()))
    }

    /// What producers have sent, in the order of their names, for comparisons.
    fn sorted_producers(self) -> Vec<(&'a [u8], Sent<'a>)> {
        let sent = |it: Producer<'a>| (it.pid, it.sent().collect());
        let mut producers: Vec<_> = self.producers().map(sent).collect();
        producers.sort_unstable();
        producers
    }

    pub(super) fn with_groups(self) -> Option<(&'a Trunk, &'a Groups)> {
        let (trunk, parts) = self.parts()?;
        Some((trunk, parts.groups.as_deref()?))
    }

    /// How many consumer groups there are.
    #[must_use]
    pub fn group_count(self) -> usize {
        self.with_groups().map_or(0, |(_, groups)| groups.groups.len())
    }

    /// The consumer groups, in no order.
    pub fn groups(self) -> impl Iterator<Item = Group<'a>> + 'a {
        self.with_groups().into_iter().flat_map(|(trunk, groups)| {
            Elements::from(&groups.groups, 0).map(move |element| {
                let facts = GroupFacts::from_value(element.value);
                Group { trunk, groups, name: element.key, facts }
            })
        })
    }

    /// The group of this name.
    #[must_use]
    pub fn group<'n: 'a>(self, name: &'n [u8]) -> Option<Group<'a>> {
        let (trunk, groups) = self.with_groups()?;
        let facts = groups.group(&trunk.hasher, name)?;
        Some(Group { trunk, groups, name, facts })
    }
}

impl<'a> Group<'a> {
    /// Its name.
    #[must_use]
    pub fn name(self) -> &'a [u8] {
        self.name
    }

    /// The id of the entry that was last delivered to it.
    #[must_use]
    pub fn last_id(self) -> StreamId {
        self.facts.last
    }

    /// Entries that it has read, if known.
    #[must_use]
    pub fn entries_read(self) -> Option<u64> {
        self.facts.read
    }

    /// How many entries are pending.
    #[must_use]
    pub fn pending_len(self) -> usize {
        Groups::count_under(&self.groups.pending, self.facts.number)
    }

    /// What is pending, from an id on.
    pub fn pending_from(self, id: StreamId) -> impl Iterator<Item = Pending<'a>> + 'a {
        let under = Groups::under(&self.groups.pending, self.facts.number, &id.to_bytes());
        under.map(move |element| self.shown(Delivery::from_element(element)))
    }

    /// What is pending with the greatest id.
    #[must_use]
    pub fn last_pending(self) -> Option<Pending<'a>> {
        let last = Groups::last_under(&self.groups.pending, self.facts.number)?;
        Some(self.shown(Delivery::from_element(last)))
    }

    /// What is pending under this id.
    #[must_use]
    pub fn pending(self, id: StreamId) -> Option<Pending<'a>> {
        self.groups.delivery(self.facts.number, id).map(|delivery| self.shown(delivery))
    }

    /// What is pending: what nobody has, in the order in which it was released, then that which was
    /// delivered first, then by ids.
    pub fn pending_by_age(self) -> impl Iterator<Item = Pending<'a>> + 'a {
        let under = Groups::under(&self.groups.aged, self.facts.number, &[]);
        under.filter_map(move |element| {
            let at = element.key.len().checked_sub(16)?;
            self.pending(id_at(element.key, at))
        })
    }

    fn shown(self, delivery: Delivery) -> Pending<'a> {
        let Delivery { id, holder, count } = delivery;
        let (consumer, time_ms) = match holder {
            Holder::Consumer { number, time_ms } => {
                (Some(self.groups.name_of(&self.trunk.hasher, number).0), time_ms)
            }
            Holder::Nobody { .. } => (None, 0),
        };
        Pending { id, consumer, time_ms, count }
    }

    /// How many of the entries that are pending nobody has.
    #[must_use]
    pub fn released_len(self) -> usize {
        self.groups.released_of(self.facts.number)
    }

    /// What nobody has, in the order in which it was released.
    pub fn released(self) -> impl Iterator<Item = StreamId> + 'a {
        self.pending_by_age().take_while(|it| it.consumer.is_none()).map(|it| it.id)
    }

    /// How many consumers it has.
    #[must_use]
    pub fn consumer_count(self) -> usize {
        Groups::count_under(&self.groups.roster, self.facts.number)
    }

    /// Its consumers, ordered by name (about zero bytes in names the order is free).
    pub fn consumers(self) -> impl Iterator<Item = Consumer<'a>> + 'a {
        let Self { trunk, groups, facts, .. } = self;
        groups.consumers_of(facts.number).map(move |number| {
            let (name, times) = groups.name_of(&trunk.hasher, number);
            Consumer { groups, name, number, times }
        })
    }

    /// The consumer of this name.
    #[must_use]
    pub fn consumer<'n: 'a>(self, name: &'n [u8]) -> Option<Consumer<'a>> {
        let facts = self.groups.consumer(&self.trunk.hasher, self.facts.number, name)?;
        let (number, times) = (facts.number, facts.times);
        Some(Consumer { groups: self.groups, name, number, times })
    }
}

impl<'a> Consumer<'a> {
    /// Its name.
    #[must_use]
    pub fn name(self) -> &'a [u8] {
        self.name
    }

    /// When it was last seen, in unix milliseconds.
    #[must_use]
    pub fn seen_ms(self) -> i64 {
        self.times.seen_ms
    }

    /// When it last got entries, in unix milliseconds, if it ever did.
    #[must_use]
    pub fn active_ms(self) -> Option<i64> {
        self.times.active_ms
    }

    /// How many entries are pending for it.
    #[must_use]
    pub fn pending_len(self) -> usize {
        Groups::count_under(&self.groups.owned, self.number)
    }

    /// The ids of what is pending for it, from an id on.
    pub fn pending_from(self, id: StreamId) -> impl Iterator<Item = StreamId> + 'a {
        let under = Groups::under(&self.groups.owned, self.number, &id.to_bytes());
        under.map(|element| id_at(element.key, 0))
    }
}

impl fmt::Debug for Stream<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut groups: Vec<_> = self.groups().collect();
        groups.sort_by_key(|group| group.name);
        f.debug_struct("Stream")
            .field("last", &self.last_id())
            .field("deleted", &self.deleted_id())
            .field("added", &self.added())
            .field("entries", &self.iter_from(0).collect::<Vec<_>>())
            .field("idmp", &(self.idmp_limits(), self.idmp_counts()))
            .field("producers", &self.sorted_producers())
            .field("groups", &groups)
            .finish()
    }
}

impl fmt::Debug for Group<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Group")
            .field("name", &self.name)
            .field("last", &self.facts.last)
            .field("read", &self.facts.read)
            .field("pending", &self.pending_from(StreamId::MIN).collect::<Vec<_>>())
            .field("consumers", &self.consumers().collect::<Vec<_>>())
            .finish()
    }
}

impl fmt::Debug for Consumer<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Consumer")
            .field("name", &self.name)
            .field("times", &self.times)
            .field("pending", &self.pending_from(StreamId::MIN).collect::<Vec<_>>())
            .finish()
    }
}

impl PartialEq for Stream<'_> {
    fn eq(&self, other: &Self) -> bool {
        let heads = |it: &Self| (it.last_id(), it.deleted_id(), it.added(), it.group_count());
        let entries = |it: &Self| it.iter_from(0);
        let idmp = |it: &Self| (it.idmp_limits(), it.idmp_counts(), it.sorted_producers());
        heads(self) == heads(other)
            && entries(self).eq(entries(other))
            && idmp(self) == idmp(other)
            && self.groups().all(|group| other.group(group.name).is_some_and(|it| it == group))
    }
}

impl PartialEq for Group<'_> {
    fn eq(&self, other: &Self) -> bool {
        let heads = |it: &Self| (it.facts.last, it.facts.read);
        heads(self) == heads(other)
            && self.pending_from(StreamId::MIN).eq(other.pending_from(StreamId::MIN))
            && self.released().eq(other.released())
            && self.consumers().eq(other.consumers())
    }
}

impl PartialEq for Consumer<'_> {
    fn eq(&self, other: &Self) -> bool {
        (self.name, self.times) == (other.name, other.times)
    }
}

impl PartialEq for StreamEntry<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.id == other.id && self.fields.eq(other.fields)
    }
}

impl Eq for Stream<'_> {}
