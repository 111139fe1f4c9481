//! The consumer groups of a stream.

use super::StreamId;
use super::{id_at, number_at};
use crate::collection::packed::{Element, Run, Shape};
use crate::collection::tree::{Key, Order, Tree};
use crate::hash::Hasher;

/// See the table in [`super`].
#[derive(Clone)]
pub(crate) struct Groups {
    pub(super) groups: Tree,
    pub(super) consumers: Tree,
    pub(super) names: Tree,
    pub(super) roster: Tree,
    pub(super) pending: Tree,
    pub(super) owned: Tree,
    /// Groups and consumers that ever were: the next one's number.
    numbers: u64,
}

/// What the tree of groups says of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct GroupFacts {
    pub(super) number: u64,
    pub(super) last: StreamId,
    pub(super) read: Option<u64>,
}

/// What the tree of consumers says of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ConsumerFacts {
    pub(super) number: u64,
    pub(super) seen_ms: i64,
}

/// What is pending, with its consumer by number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Delivery {
    pub(super) id: StreamId,
    pub(super) owner: u64,
    pub(super) time_ms: i64,
    pub(super) count: u64,
}

impl Default for Groups {
    fn default() -> Self {
        let [groups, consumers, names] = [(); 3].map(|()| Tree::new(Shape::Pair, Order::Hash));
        let [roster, pending, owned] = [(); 3].map(|()| Tree::new(Shape::Scored, Order::Rank));
        Self { groups, consumers, names, roster, pending, owned, numbers: 0 }
    }
}

impl Groups {
    fn trees(&self) -> [&Tree; 6] {
        let Self { groups, consumers, names, roster, pending, owned, .. } = self;
        [groups, consumers, names, roster, pending, owned]
    }

    pub(super) fn own_bytes(&self) -> usize {
        size_of::<Self>()
    }

    pub(super) fn node_bytes(&self) -> usize {
        self.trees().map(Tree::bytes).iter().sum()
    }

    pub(super) fn take_parted(&mut self) -> usize {
        let Self { groups, consumers, names, roster, pending, owned, .. } = self;
        [groups, consumers, names, roster, pending, owned].map(Tree::take_parted).iter().sum()
    }

    #[cfg(test)]
    pub(crate) fn check(&self, hasher: &Hasher) {
        self.trees().iter().for_each(|tree| tree.check(hasher));
        assert_eq!(self.pending.len(), self.owned.len());
        assert_eq!(self.consumers.len(), self.names.len());
        assert_eq!(self.consumers.len(), self.roster.len());
    }

    pub(super) fn fresh_number(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }

    pub(super) fn group(&self, hasher: &Hasher, name: &[u8]) -> Option<GroupFacts> {
        self.groups.find_named(hasher, name).map(GroupFacts::of)
    }

    pub(super) fn set_group(&mut self, hasher: &Hasher, name: &[u8], facts: GroupFacts) {
        let read = facts.read.map_or(u64::MAX, |read| read.min(u64::MAX - 1));
        let mut value = [0; 32];
        value[..8].copy_from_slice(&facts.number.to_be_bytes());
        value[8..24].copy_from_slice(&facts.last.to_bytes());
        value[24..].copy_from_slice(&read.to_be_bytes());
        if let Some(old) = self.groups.named_mut(hasher, name) {
            old.copy_from_slice(&value);
            return;
        }
        self.groups.put_named(hasher, Element::new(name, &value));
    }

    pub(super) fn consumer_number(&self, hasher: &Hasher, group: u64, name: &[u8]) -> Option<u64> {
        let number = self.consumers.find_named(hasher, &consumer_key(group, name));
        number.map(|number| number_at(number, 0))
    }

    pub(super) fn consumer(
        &self,
        hasher: &Hasher,
        group: u64,
        name: &[u8],
    ) -> Option<ConsumerFacts> {
        let number = self.consumer_number(hasher, group, name)?;
        Some(ConsumerFacts { number, seen_ms: self.name_of(hasher, number).1 })
    }

    /// Adds a consumer, which is not there.
    pub(super) fn add_consumer(
        &mut self,
        hasher: &Hasher,
        group: u64,
        name: &[u8],
        facts: ConsumerFacts,
    ) {
        let (key, number) = (consumer_key(group, name), facts.number.to_be_bytes());
        let seen = [&facts.seen_ms.to_be_bytes()[..], name].concat();
        self.names.put_named(hasher, Element::new(&number, &seen));
        self.consumers.put_named(hasher, Element::new(&key, &number));
        let element = [name, &number].concat();
        let group = group.to_be_bytes();
        self.roster.insert_ranked(hasher, Element::new(&element, &group));
    }

    /// Sets when a consumer, which is there, was last seen.
    pub(super) fn set_seen(&mut self, hasher: &Hasher, number: u64, name: &[u8], seen_ms: i64) {
        let (number, seen_ms) = (number.to_be_bytes(), seen_ms.to_be_bytes());
        if let Some((seen, _)) =
            self.names.named_mut(hasher, &number).and_then(|value| value.split_first_chunk_mut())
        {
            *seen = seen_ms;
            return;
        }
        let value = [&seen_ms[..], name].concat();
        self.names.put_named(hasher, Element::new(&number, &value));
    }

    pub(super) fn remove_consumer(&mut self, hasher: &Hasher, group: u64, name: &[u8]) {
        let Some(facts) = self.consumer(hasher, group, name) else { return };
        let number = facts.number.to_be_bytes();
        self.consumers.remove_named(hasher, &consumer_key(group, name));
        self.names.remove_named(hasher, &number);
        let element = [name, &number].concat();
        self.roster.remove_ranked(hasher, Element::new(&element, &group.to_be_bytes()));
    }

    /// The name of a consumer, and when it was seen.
    pub(super) fn name_of(&self, hasher: &Hasher, consumer: u64) -> (&[u8], i64) {
        let value = self.names.find_named(hasher, &consumer.to_be_bytes()).unwrap_or_default();
        match value.split_first_chunk() {
            Some((seen_ms, name)) => (name, i64::from_be_bytes(*seen_ms)),
            None => (&[], 0),
        }
    }

    /// The numbers of the consumers of a group.
    pub(super) fn consumers_of(&self, group: u64) -> impl Iterator<Item = u64> + '_ {
        let roster = Self::under(&self.roster, group, &[]);
        roster.map(|element| number_at(element.key, element.key.len() - 8))
    }

    /// The elements under a number in a tree by rank, from `tail` on.
    pub(super) fn under<'a>(
        tree: &'a Tree,
        number: u64,
        tail: &[u8],
    ) -> impl Iterator<Item = Element<'a>> + use<'a> {
        let walk = Elements::from(tree, tree.below(Key { head: number, tail }));
        walk.take_while(move |element| number_at(element.value, 0) == number)
    }

    /// The last element under a number in a tree by rank.
    pub(super) fn last_under(tree: &Tree, number: u64) -> Option<Element<'_>> {
        let behind = tree.below(Key { head: number + 1, tail: &[] });
        let last = Elements::from(tree, behind.checked_sub(1)?).next()?;
        (number_at(last.value, 0) == number).then_some(last)
    }

    /// How many elements are under a number in a tree by rank.
    pub(super) fn count_under(tree: &Tree, number: u64) -> usize {
        let from = |head| tree.below(Key { head, tail: &[] });
        from(number + 1) - from(number)
    }

    pub(super) fn delivery(&self, group: u64, id: StreamId) -> Option<Delivery> {
        let found = self.pending.at_key(Key { head: group, tail: &id.to_bytes() })?;
        let delivery = Delivery::of(found);
        (number_at(found.value, 0) == group && delivery.id == id).then_some(delivery)
    }

    pub(super) fn put_delivery(&mut self, hasher: &Hasher, group: u64, delivery: Delivery) {
        if let Some(old) = self.delivery(group, delivery.id) {
            self.remove_delivery(hasher, group, old);
        }
        let key = delivery.to_bytes();
        let (group, owner) = (group.to_be_bytes(), delivery.owner.to_be_bytes());
        self.pending.append_ranked(hasher, Element::new(&key, &group));
        self.owned.append_ranked(hasher, Element::new(&key[..16], &owner));
    }

    /// Removes a delivery, which is there.
    pub(super) fn remove_delivery(&mut self, hasher: &Hasher, group: u64, old: Delivery) {
        let key = old.to_bytes();
        let (group, owner) = (group.to_be_bytes(), old.owner.to_be_bytes());
        self.pending.remove_ranked(hasher, Element::new(&key, &group));
        self.owned.remove_ranked(hasher, Element::new(&key[..16], &owner));
    }
}

fn consumer_key(group: u64, name: &[u8]) -> Vec<u8> {
    [&group.to_be_bytes()[..], name].concat()
}

impl GroupFacts {
    pub(super) fn of(value: &[u8]) -> Self {
        let read = Some(number_at(value, 24)).filter(|&read| read != u64::MAX);
        Self { number: number_at(value, 0), last: id_at(value, 8), read }
    }
}

impl Delivery {
    pub(super) fn of(element: Element<'_>) -> Self {
        let at = |at| number_at(element.key, at);
        Self { id: id_at(element.key, 0), owner: at(16), time_ms: at(24) as i64, count: at(32) }
    }

    fn to_bytes(self) -> [u8; 40] {
        let mut bytes = [0; 40];
        bytes[..16].copy_from_slice(&self.id.to_bytes());
        bytes[16..24].copy_from_slice(&self.owner.to_be_bytes());
        bytes[24..32].copy_from_slice(&(self.time_ms as u64).to_be_bytes());
        bytes[32..].copy_from_slice(&self.count.to_be_bytes());
        bytes
    }
}

/// The elements of a tree from a rank on. It allocates nothing.
pub(super) struct Elements<'a> {
    tree: &'a Tree,
    rank: usize,
    run: Run<'a>,
}

impl<'a> Elements<'a> {
    pub(super) fn from(tree: &'a Tree, rank: usize) -> Self {
        Self { tree, rank, run: Run::new(&[], tree.shape) }
    }
}

impl<'a> Iterator for Elements<'a> {
    type Item = Element<'a>;

    fn next(&mut self) -> Option<Element<'a>> {
        if let Some(element) = self.run.next() {
            return Some(element);
        }
        if self.rank >= self.tree.len() {
            return None;
        }
        let (leaf, within) = self.tree.leaf_at(self.rank);
        self.rank += leaf.count - within;
        let start = leaf.span(self.tree.shape, within).bytes.start;
        self.run = Run::new(&leaf.bytes[start..], self.tree.shape);
        self.run.next()
    }
}
