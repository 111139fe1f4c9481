//! The consumer groups of a stream.

use super::StreamId;
use super::{id_at, number_at};
use crate::collection::packed::{Element, Key, Run, Shape};
use crate::collection::tree::{Order, Tree};
use crate::hash::Hasher;

/// See the table in [`super`].
#[derive(Clone)]
pub(crate) struct Groups {
    pub(in crate::collection) groups: Tree,
    pub(in crate::collection) consumers: Tree,
    pub(in crate::collection) names: Tree,
    pub(in crate::collection) roster: Tree,
    pub(in crate::collection) pending: Tree,
    pub(in crate::collection) owned: Tree,
    pub(in crate::collection) aged: Tree,
    /// Groups and consumers that ever were, and entries that were released: the next one's number.
    numbers: u64,
    /// Entries that are pending for nobody, in all groups.
    pub(in crate::collection) released: usize,
}

/// What the tree of groups says of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::collection) struct GroupFacts {
    pub(in crate::collection) number: u64,
    pub(in crate::collection) last: StreamId,
    pub(in crate::collection) read: Option<u64>,
}

/// What the tree of consumers says of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::collection) struct ConsumerFacts {
    pub(in crate::collection) number: u64,
    pub(in crate::collection) times: Times,
}

/// What is known of a consumer's work, in unix milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::collection) struct Times {
    /// When it last asked for entries.
    pub(in crate::collection) seen_ms: i64,
    /// When it last got some.
    pub(in crate::collection) active_ms: Option<i64>,
}

impl Times {
    const BYTES: usize = 16;
    /// Stands for no time.
    const NEVER: i64 = -1;

    fn from_value(value: &[u8]) -> Option<(Self, &[u8])> {
        let (times, name) = value.split_first_chunk::<{ Self::BYTES }>()?;
        let [seen_ms, active_ms] = [0, 8].map(|at| number_at(times, at) as i64);
        let active_ms = Some(active_ms).filter(|&at| at != Self::NEVER);
        Some((Self { seen_ms, active_ms }, name))
    }

    fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..8].copy_from_slice(&self.seen_ms.to_be_bytes());
        bytes[8..].copy_from_slice(&self.active_ms.unwrap_or(Self::NEVER).to_be_bytes());
        bytes
    }
}

/// What is pending.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::collection) struct Delivery {
    pub(in crate::collection) id: StreamId,
    pub(in crate::collection) holder: Holder,
    pub(in crate::collection) count: u64,
}

/// Who has an entry that is pending.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::collection) enum Holder {
    /// The consumer with this number, since then.
    Consumer { number: u64, time_ms: i64 },
    /// Nobody: it was released, before others with greater numbers.
    Nobody { turn: u64 },
}

/// The number of no consumer.
const NOBODY: u64 = 0;

impl Default for Groups {
    fn default() -> Self {
        let [groups, consumers, names] = [(); 3].map(|()| Tree::new(Shape::Pair, Order::Hash));
        let [roster, pending, owned, aged] =
            [(); 4].map(|()| Tree::new(Shape::Ranked, Order::Rank));
        Self { groups, consumers, names, roster, pending, owned, aged, numbers: 0, released: 0 }
    }
}

impl Groups {
    fn trees(&self) -> [&Tree; 7] {
        let Self { groups, consumers, names, roster, pending, owned, aged, .. } = self;
        [groups, consumers, names, roster, pending, owned, aged]
    }

    pub(in crate::collection) fn own_bytes(&self) -> usize {
        size_of::<Self>()
    }

    pub(in crate::collection) fn node_bytes(&self) -> usize {
        self.trees().map(Tree::bytes).iter().sum()
    }

    pub(in crate::collection) fn take_parted(&mut self) -> usize {
        self.trees_mut().map(Tree::take_parted).iter().sum()
    }

    pub(in crate::collection) fn trees_mut(&mut self) -> [&mut Tree; 7] {
        let Self { groups, consumers, names, roster, pending, owned, aged, .. } = self;
        [groups, consumers, names, roster, pending, owned, aged]
    }

    #[cfg(test)]
    pub(crate) fn check(&self, hasher: &Hasher) {
        self.trees().iter().for_each(|tree| tree.check(hasher));
        assert_eq!(self.pending.len(), self.owned.len() + self.released);
        assert_eq!(self.pending.len(), self.aged.len());
        assert_eq!(self.consumers.len(), self.names.len());
        assert_eq!(self.consumers.len(), self.roster.len());
    }

    pub(in crate::collection) fn fresh_number(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }

    pub(in crate::collection) fn group(&self, hasher: &Hasher, name: &[u8]) -> Option<GroupFacts> {
        self.groups.find_named(hasher, name).map(GroupFacts::from_value)
    }

    pub(in crate::collection) fn set_group(
        &mut self,
        hasher: &Hasher,
        name: &[u8],
        facts: GroupFacts,
    ) {
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

    /// Lets no group have read more than so many entries.
    pub(in crate::collection) fn limit_read(&mut self, hasher: &Hasher, most: u64) {
        let ahead: Vec<_> = Elements::from(&self.groups, 0)
            .map(|element| (element.key, GroupFacts::from_value(element.value)))
            .filter(|(_, facts)| facts.read.is_some_and(|read| read > most))
            .map(|(name, facts)| (name.to_vec(), facts))
            .collect();
        for (name, facts) in ahead {
            self.set_group(hasher, &name, GroupFacts { read: Some(most), ..facts });
        }
    }

    pub(in crate::collection) fn consumer_number(
        &self,
        hasher: &Hasher,
        group: u64,
        name: &[u8],
    ) -> Option<u64> {
        let number = self.consumers.find_named(hasher, &consumer_key(group, name));
        number.map(|number| number_at(number, 0))
    }

    pub(in crate::collection) fn consumer(
        &self,
        hasher: &Hasher,
        group: u64,
        name: &[u8],
    ) -> Option<ConsumerFacts> {
        let number = self.consumer_number(hasher, group, name)?;
        Some(ConsumerFacts { number, times: self.name_of(hasher, number).1 })
    }

    /// Adds a consumer, which is not there.
    pub(in crate::collection) fn add_consumer(
        &mut self,
        hasher: &Hasher,
        group: u64,
        name: &[u8],
        facts: ConsumerFacts,
    ) {
        let (key, number) = (consumer_key(group, name), facts.number.to_be_bytes());
        let value = [&facts.times.to_bytes()[..], name].concat();
        self.names.put_named(hasher, Element::new(&number, &value));
        self.consumers.put_named(hasher, Element::new(&key, &number));
        let element = [name, &number].concat();
        self.roster.insert_ranked(hasher, Element::ranked(&element, group));
    }

    /// Sets the times of a consumer, which is there.
    pub(in crate::collection) fn set_times(
        &mut self,
        hasher: &Hasher,
        number: u64,
        name: &[u8],
        times: Times,
    ) {
        let (number, times) = (number.to_be_bytes(), times.to_bytes());
        if let Some((old, _)) =
            self.names.named_mut(hasher, &number).and_then(|value| value.split_first_chunk_mut())
        {
            *old = times;
            return;
        }
        let value = [&times[..], name].concat();
        self.names.put_named(hasher, Element::new(&number, &value));
    }

    /// The name of a consumer, and its times.
    pub(in crate::collection) fn name_of(&self, hasher: &Hasher, consumer: u64) -> (&[u8], Times) {
        let value = self.names.find_named(hasher, &consumer.to_be_bytes()).unwrap_or_default();
        match Times::from_value(value) {
            Some((times, name)) => (name, times),
            None => (&[], Times { seen_ms: 0, active_ms: None }),
        }
    }

    /// The numbers of the consumers of a group.
    pub(in crate::collection) fn consumers_of(&self, group: u64) -> impl Iterator<Item = u64> + '_ {
        let roster = Self::under(&self.roster, group, &[]);
        roster.map(|element| number_at(element.key, element.key.len() - 8))
    }

    /// The elements under a number in a tree by rank, from `tail` on.
    pub(in crate::collection) fn under<'a>(
        tree: &'a Tree,
        number: u64,
        tail: &[u8],
    ) -> impl Iterator<Item = Element<'a>> + use<'a> {
        let walk = Elements::from(tree, tree.below(Key { head: number, tail }));
        walk.take_while(move |element| element.head == number)
    }

    /// The last element under a number in a tree by rank.
    pub(in crate::collection) fn last_under(tree: &Tree, number: u64) -> Option<Element<'_>> {
        let behind = tree.below(Key { head: number + 1, tail: &[] });
        let last = Elements::from(tree, behind.checked_sub(1)?).next()?;
        (last.head == number).then_some(last)
    }

    /// How many elements are under a number in a tree by rank.
    pub(in crate::collection) fn count_under(tree: &Tree, number: u64) -> usize {
        let from = |head| tree.below(Key { head, tail: &[] });
        from(number + 1) - from(number)
    }

    pub(in crate::collection) fn delivery(&self, group: u64, id: StreamId) -> Option<Delivery> {
        let found = self.pending.at_key(Key { head: group, tail: &id.to_bytes() })?;
        let delivery = Delivery::from_element(found);
        (found.head == group && delivery.id == id).then_some(delivery)
    }

    pub(in crate::collection) fn put_delivery(
        &mut self,
        hasher: &Hasher,
        group: u64,
        delivery: Delivery,
    ) {
        if let Some(old) = self.delivery(group, delivery.id) {
            self.remove_delivery(hasher, group, old);
        }
        let (pending, age) = (delivery.pending_key(), delivery.age_key());
        self.pending.append_ranked(hasher, Element::ranked(pending.bytes(), group));
        self.aged.append_ranked(hasher, Element::ranked(age.bytes(), group));
        match delivery.holder {
            Holder::Consumer { number, .. } => {
                let id = delivery.id.to_bytes();
                self.owned.append_ranked(hasher, Element::ranked(&id, number));
            }
            Holder::Nobody { .. } => self.released += 1,
        }
    }

    /// Removes a delivery, which is there.
    pub(in crate::collection) fn remove_delivery(
        &mut self,
        hasher: &Hasher,
        group: u64,
        old: Delivery,
    ) {
        let (pending, age) = (old.pending_key(), old.age_key());
        self.pending.remove_ranked(hasher, Element::ranked(pending.bytes(), group));
        self.aged.remove_ranked(hasher, Element::ranked(age.bytes(), group));
        match old.holder {
            Holder::Consumer { number, .. } => {
                self.owned.remove_ranked(hasher, Element::ranked(&old.id.to_bytes(), number));
            }
            Holder::Nobody { .. } => self.released -= 1,
        }
    }

    /// How many entries of a group are pending for nobody: they come first by age.
    pub(in crate::collection) fn released_of(&self, group: u64) -> usize {
        let below = |tail| self.aged.below(Key { head: group, tail });
        below(&FIRST_OWNED) - below(&[])
    }

    /// Removes a group, which is there, with its consumers and what is pending.
    pub(in crate::collection) fn remove_group(
        &mut self,
        hasher: &Hasher,
        number: u64,
        name: &[u8],
    ) {
        if self.groups.len() == 1 {
            self.released = 0;
            self.trees_mut().into_iter().for_each(Tree::clear);
            return;
        }
        let consumers: Vec<u64> = self.consumers_of(number).collect();
        for consumer in consumers {
            let name = self.name_of(hasher, consumer).0.to_vec();
            self.consumers.remove_named(hasher, &consumer_key(number, &name));
            self.names.remove_named(hasher, &consumer.to_be_bytes());
            self.owned.remove_under(hasher, consumer);
        }
        self.released -= self.released_of(number);
        for tree in [&mut self.roster, &mut self.pending, &mut self.aged] {
            tree.remove_under(hasher, number);
        }
        self.groups.remove_named(hasher, name);
    }

    /// Removes a consumer with what is pending for it, if there is one.
    pub(in crate::collection) fn remove_consumer(
        &mut self,
        hasher: &Hasher,
        group: u64,
        name: &[u8],
    ) {
        let Some(number) = self.consumer_number(hasher, group, name) else { return };
        let owned = Self::under(&self.owned, number, &[]);
        let ids: Vec<[u8; 16]> = owned.map(|element| id_at(element.key, 0).to_bytes()).collect();
        let mut ages = Vec::with_capacity(ids.len());
        self.pending.remove_each(hasher, group, ids.iter().map(|id| &id[..]), |element| {
            ages.push(Delivery::from_element(element).age_key());
        });
        ages.sort_unstable_by(|one, other| one.bytes().cmp(other.bytes()));
        self.aged.remove_each(hasher, group, ages.iter().map(ShortKey::bytes), |_| {});
        self.owned.remove_under(hasher, number);
        self.consumers.remove_named(hasher, &consumer_key(group, name));
        self.names.remove_named(hasher, &number.to_be_bytes());
        let element = [name, &number.to_be_bytes()].concat();
        self.roster.remove_ranked(hasher, Element::ranked(&element, group));
    }
}

fn consumer_key(group: u64, name: &[u8]) -> Vec<u8> {
    [&group.to_be_bytes()[..], name].concat()
}

impl GroupFacts {
    pub(in crate::collection) fn from_value(value: &[u8]) -> Self {
        let read = Some(number_at(value, 24)).filter(|&read| read != u64::MAX);
        Self { number: number_at(value, 0), last: id_at(value, 8), read }
    }
}

/// Where those that a consumer has begin among a group's pending entries by age.
const FIRST_OWNED: [u8; 8] = 1_u64.to_be_bytes();

/// A key of a pending entry, which needs no allocation.
pub(in crate::collection) struct ShortKey {
    room: [u8; Self::ROOM],
    len: usize,
}

impl ShortKey {
    /// An id, and three numbers in LEB128.
    const ROOM: usize = 16 + 3 * 10;
    const EMPTY: Self = Self { room: [0; Self::ROOM], len: 0 };

    pub(in crate::collection) fn bytes(&self) -> &[u8] {
        &self.room[..self.len]
    }

    fn push(&mut self, bytes: &[u8]) {
        self.room[self.len..self.len + bytes.len()].copy_from_slice(bytes);
        self.len += bytes.len();
    }

    /// Adds a number in LEB128.
    fn push_number(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.push(&[number as u8 | 0x80]);
            number >>= 7;
        }
        self.push(&[number as u8]);
    }
}

/// Takes a number in LEB128 from the front.
fn take_number(bytes: &mut &[u8]) -> u64 {
    let (mut number, mut shift) = (0, 0);
    while let [byte, rest @ ..] = *bytes {
        *bytes = rest;
        number |= u64::from(byte & 0x7f) << shift;
        shift += 7;
        if byte & 0x80 == 0 || shift > 63 {
            break;
        }
    }
    number
}

impl Delivery {
    pub(in crate::collection) fn from_element(element: Element<'_>) -> Self {
        let mut rest = element.key.get(16..).unwrap_or_default();
        let [number, when, count] = [(); 3].map(|()| take_number(&mut rest));
        let holder = match number {
            NOBODY => Holder::Nobody { turn: when },
            number => {
                Holder::Consumer { number, time_ms: (when >> 1) as i64 ^ -((when & 1) as i64) }
            }
        };
        Self { id: id_at(element.key, 0), holder, count }
    }

    /// The key by which it is found. Most of its numbers are small.
    fn pending_key(self) -> ShortKey {
        let mut key = ShortKey::EMPTY;
        key.push(&self.id.to_bytes());
        match self.holder {
            Holder::Consumer { number, time_ms } => {
                key.push_number(number);
                key.push_number((time_ms << 1 ^ time_ms >> 63) as u64); // its sign comes last
            }
            Holder::Nobody { turn } => {
                key.push_number(NOBODY);
                key.push_number(turn);
            }
        }
        key.push_number(self.count);
        key
    }

    /// The key by which what was released comes first, then what was delivered first.
    fn age_key(self) -> ShortKey {
        let mut key = ShortKey::EMPTY;
        match self.holder {
            Holder::Consumer { time_ms, .. } => {
                let time = time_ms.max(i64::MIN + 1) as u64 ^ 1 << 63;
                key.push(&time.to_be_bytes());
            }
            Holder::Nobody { turn } => {
                key.push(&[0; 8]);
                key.push(&turn.to_be_bytes());
            }
        }
        key.push(&self.id.to_bytes());
        key
    }
}

/// The elements of a tree from a rank on. It allocates nothing.
pub(in crate::collection) struct Elements<'a> {
    tree: &'a Tree,
    rank: usize,
    run: Run<'a>,
}

impl<'a> Elements<'a> {
    pub(in crate::collection) fn from(tree: &'a Tree, rank: usize) -> Self {
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
