//! What producers have sent to a stream, so that what is sent again is not added again (Redis's
//! IDMP: idempotent message production).
//!
//! A producer gives each message an id of its own (its *iid*); the stream knows under which entry's
//! id it was added. Of each producer the last messages are known, and each for a while.

use super::groups::Elements;
use super::{Groups, id_at, number_at};
use super::{IdmpLimits, IdmpMessage, StreamId};
use crate::collection::packed::{Element, Shape};
use crate::collection::tree::{Order, Tree};
use crate::hash::Hasher;

/// See the table in [`super`].
#[derive(Clone)]
pub(crate) struct Producers {
    /// The producers by their names.
    producers: Tree,
    /// Their names.
    names: Tree,
    /// The messages of each by the ids of their entries.
    sent: Tree,
    /// The ids of entries by producer and message.
    ids: Tree,
    /// Producers that ever were: the next one's number.
    numbers: u64,
    /// Messages that ever were added, and that were sent again.
    pub(in crate::collection) added: u64,
    pub(in crate::collection) duplicates: u64,
}

impl Default for Producers {
    fn default() -> Self {
        let [producers, names, ids] = [(); 3].map(|()| Tree::new(Shape::Pair, Order::Hash));
        let sent = Tree::new(Shape::Ranked, Order::Rank);
        Self { producers, names, sent, ids, numbers: 0, added: 0, duplicates: 0 }
    }
}

/// The messages of one producer.
#[derive(Clone, Copy)]
pub struct Producer<'a> {
    all: &'a Producers,
    number: u64,
    /// Its name.
    pub pid: &'a [u8],
}

impl<'a> Producer<'a> {
    /// How many there are.
    #[must_use]
    pub fn len(self) -> usize {
        Groups::count_under(&self.all.sent, self.number)
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// The messages with the ids of their entries, in the order of these.
    pub fn sent(self) -> impl Iterator<Item = (&'a [u8], StreamId)> + 'a {
        let sent = Groups::under(&self.all.sent, self.number, &[]);
        sent.map(|element| (&element.key[16..], id_at(element.key, 0)))
    }
}

impl Producers {
    fn trees(&self) -> [&Tree; 4] {
        [&self.producers, &self.names, &self.sent, &self.ids]
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

    pub(in crate::collection) fn trees_mut(&mut self) -> [&mut Tree; 4] {
        let Self { producers, names, sent, ids, .. } = self;
        [producers, names, sent, ids]
    }

    #[cfg(test)]
    pub(crate) fn check(&self, hasher: &Hasher) {
        self.trees().iter().for_each(|tree| tree.check(hasher));
        assert_eq!((self.sent.len(), self.producers.len()), (self.ids.len(), self.names.len()));
        assert_eq!(self.all().map(Producer::len).sum::<usize>(), self.sent.len());
        assert!(self.all().all(|producer| !producer.is_empty()));
    }

    /// The producers, in no order.
    pub(in crate::collection) fn all(&self) -> impl Iterator<Item = Producer<'_>> {
        Elements::from(&self.producers, 0).map(move |element| Producer {
            all: self,
            number: number_at(element.value, 0),
            pid: element.key,
        })
    }

    /// How many producers there are.
    pub(in crate::collection) fn count(&self) -> usize {
        self.producers.len()
    }

    /// Whether there are messages.
    pub(in crate::collection) fn is_timed(&self) -> bool {
        self.ids.is_timed()
    }

    /// When the first of them is known no more.
    pub(in crate::collection) fn soonest(&self) -> i64 {
        self.ids.soonest()
    }

    /// Whether messages of a producer are known.
    pub(in crate::collection) fn knows(&self, hasher: &Hasher, pid: &[u8]) -> bool {
        self.number_of(hasher, pid).is_some()
    }

    fn number_of(&self, hasher: &Hasher, pid: &[u8]) -> Option<u64> {
        self.producers.find_named(hasher, pid).map(|number| number_at(number, 0))
    }

    /// The id of the entry of a message, if it is known.
    pub(in crate::collection) fn entry_of(
        &self,
        hasher: &Hasher,
        pid: &[u8],
        iid: &[u8],
    ) -> Option<StreamId> {
        let key = message_key(self.number_of(hasher, pid)?, iid);
        self.ids.find_named(hasher, &key).map(|id| id_at(id, 0))
    }

    /// How many producers there are of whom a message is known by then, and how many messages.
    pub(in crate::collection) fn known_at(&self, limits: IdmpLimits, now: i64) -> (usize, usize) {
        let due = self.ids.count_due(now, usize::MAX);
        if due == 0 {
            return (self.producers.len(), self.ids.len());
        }
        let is_known = |producer: &Producer<'_>| {
            let last = Groups::last_under(&self.sent, producer.number);
            last.is_some_and(|last| limits.is_known(id_at(last.key, 0).ms, now))
        };
        (self.all().filter(is_known).count(), self.ids.len() - due)
    }

    /// Notes a message. Of too many the one with the least id is forgotten.
    pub(in crate::collection) fn note(
        &mut self,
        hasher: &Hasher,
        limits: IdmpLimits,
        message: IdmpMessage<'_>,
        id: StreamId,
    ) {
        let IdmpMessage { pid, iid } = message;
        let number = self.number_of(hasher, pid).unwrap_or_else(|| self.add_producer(hasher, pid));
        let key = message_key(number, iid);
        if let Some(old) = self.ids.find_named(hasher, &key).map(|old| id_at(old, 0)) {
            self.sent.remove_ranked(hasher, Element::ranked(&sent_key(old, iid), number));
        }
        self.ids.expect_deadline();
        let bytes = id.to_bytes();
        let deadline = limits.deadline(id.ms);
        self.ids.put_named(hasher, Element { deadline, ..Element::new(&key, &bytes) });
        self.sent.append_ranked(hasher, Element::ranked(&sent_key(id, iid), number));
        if Groups::count_under(&self.sent, number) > limits.entries as usize {
            let first = Groups::under(&self.sent, number, &[]).next();
            if let Some(first) = first.map(|first| message_key(number, &first.key[16..])) {
                self.forget(hasher, &first);
            }
        }
    }

    fn add_producer(&mut self, hasher: &Hasher, pid: &[u8]) -> u64 {
        self.numbers += 1;
        let number = self.numbers.to_be_bytes();
        self.producers.put_named(hasher, Element::new(pid, &number));
        self.names.put_named(hasher, Element::new(&number, pid));
        self.numbers
    }

    /// Forgets a message, and its producer with the last one.
    fn forget(&mut self, hasher: &Hasher, key: &[u8]) {
        let Some(id) = self.ids.find_named(hasher, key).map(|id| id_at(id, 0)) else { return };
        let number = number_at(key, 0);
        self.ids.remove_named(hasher, key);
        self.sent.remove_ranked(hasher, Element::ranked(&sent_key(id, &key[8..]), number));
        if Groups::count_under(&self.sent, number) == 0 {
            let name = number.to_be_bytes();
            let pid = self.names.find_named(hasher, &name).unwrap_or_default().to_vec();
            self.names.remove_named(hasher, &name);
            self.producers.remove_named(hasher, &pid);
        }
    }

    /// Forgets at most `most` messages that are known no more by then; returns how many.
    pub(in crate::collection) fn forget_due(
        &mut self,
        hasher: &Hasher,
        now: i64,
        most: usize,
    ) -> usize {
        for forgotten in 0..most {
            let Some(key) = self.ids.due(now).map(|element| element.key.to_vec()) else {
                return forgotten;
            };
            self.forget(hasher, &key);
        }
        most
    }

    /// Forgets all messages and producers.
    pub(in crate::collection) fn forget_all(&mut self) {
        let Self { producers, names, sent, ids, .. } = self;
        [producers, names, sent, ids].into_iter().for_each(Tree::clear);
    }
}

/// The key of a message among the ids of entries.
fn message_key(number: u64, iid: &[u8]) -> Vec<u8> {
    [&number.to_be_bytes()[..], iid].concat()
}

/// The key of a message among those of its producer.
fn sent_key(id: StreamId, iid: &[u8]) -> Vec<u8> {
    [&id.to_bytes()[..], iid].concat()
}
