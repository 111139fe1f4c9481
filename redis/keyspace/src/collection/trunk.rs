//! A large collection: its trees, and the changes to it.

use crate::collection::chunk::Chunk;
use crate::collection::kind::Type;
use crate::collection::packed::{Element, Key, Shape, score_of};
use crate::collection::parts::Parts;
use crate::collection::traits::Traits;
use crate::collection::tree::{Ends, Order, Seek, Side, Tree};
use crate::hash::Hasher;

/// A collection as trees. Cloning it is O(1): the nodes are shared.
#[derive(Clone)]
pub(crate) struct Trunk {
    pub(crate) main: Tree,
    /// Sorted sets alone: the members by hash, beside the main tree by rank.
    pub(crate) members: Option<Tree>,
    /// Lists alone: the elements before and behind those of the main tree.
    pub(crate) ends: Option<Ends>,
    /// Streams alone: what they have beside their entries. Boxed: other types go without.
    pub(crate) stream: Option<Box<Parts>>,
    pub(crate) hasher: Hasher,
    /// See [`crate::collection::form::Collection`].
    pub(crate) loose: bool,
    /// Whether the last name put into a tree by hash was there before: the next one probably is,
    /// too.
    overwrites: bool,
}

impl Trunk {
    pub(crate) fn new(kind: Type, hasher: &Hasher) -> Self {
        let (shape, order) = match kind {
            Type::List | Type::String => (Shape::Single, Order::Position),
            Type::Hash => (Shape::Pair, Order::Hash),
            Type::Set => (Shape::Single, Order::Hash),
            Type::Sorted | Type::Stream | Type::Array => (Shape::Ranked, Order::Rank),
        };
        let members = (kind == Type::Sorted).then(|| Tree::new(Shape::Ranked, Order::Hash));
        let ends = (order == Order::Position).then(Ends::default);
        let main = Tree::new(shape, order);
        let stream = (kind == Type::Stream).then(Box::default);
        let hasher = hasher.clone();
        Self { main, members, ends, stream, hasher, loose: false, overwrites: false }
    }

    /// Elements.
    pub(crate) fn len(&self) -> usize {
        let at = |side| self.ends.as_ref().map_or(0, |ends| ends.len(side));
        at(Side::Front) + self.main.len() + at(Side::Back)
    }

    /// What it has that most collections have not.
    #[inline]
    pub(crate) fn traits(&self) -> Traits {
        match &self.stream {
            None => Traits::NONE
                .and_if(self.main.is_timed(), Traits::FIELDS)
                .and_if(self.is_array(), Traits::ARRAY),
            Some(stream) => Traits::NONE
                .and_if(stream.is_timed(), Traits::SENT)
                .and_if(stream.has_idmp(), Traits::IDMP)
                .and_if(stream.has_released(), Traits::RELEASED),
        }
    }

    /// Sorted sets have their members by hash, too, and streams their parts.
    fn is_array(&self) -> bool {
        self.main.order == Order::Rank && self.members.is_none() && self.stream.is_none()
    }

    /// Whether nothing is left: a stream stays without entries.
    pub(crate) fn is_void(&self) -> bool {
        self.len() == 0 && self.stream.is_none()
    }

    /// The collection of a packed run.
    pub(crate) fn from_chunk(chunk: &Chunk, kind: Type, hasher: &Hasher) -> Self {
        let mut trunk = Self::new(kind, hasher);
        for element in chunk.run(kind.shape()) {
            match kind {
                Type::List | Type::String => trunk.insert_at(trunk.len(), element),
                Type::Hash | Type::Set => drop(trunk.put(element)),
                Type::Sorted => drop(trunk.set_score(element)),
                Type::Stream | Type::Array => trunk.main.insert_ranked(hasher, element),
            }
        }
        trunk
    }

    /// As [`Tree::move_leaf`], by a place in all trees together, the ends of a list behind them;
    /// `None` behind the last one.
    pub(crate) fn move_leaf(
        &mut self,
        place: usize,
        is_sparse: &dyn Fn(*const u8) -> bool,
    ) -> Option<(usize, bool)> {
        let trees = [Some(&mut self.main), self.members.as_mut()].into_iter().flatten();
        let parts = self.stream.as_mut().map(|stream| stream.trees_mut());
        let mut before = 0;
        for tree in trees.chain(parts.into_iter().flatten()) {
            let len = tree.len();
            if place - before < len {
                let (next, is_moved) = tree.move_leaf(place - before, is_sparse);
                return Some((before + next, is_moved));
            }
            before += len;
        }
        let side = match place - before {
            0 => Side::Front,
            1 => Side::Back,
            _ => return None,
        };
        let is_moved = self.ends.as_mut()?.move_end(side, is_sparse);
        Some((place + 1, is_moved))
    }

    /// Bytes of it all, shared nodes counted in full.
    pub(crate) fn bytes(&self) -> usize {
        let stream = self.stream.as_ref().map_or(0, |stream| stream.bytes());
        size_of::<Self>() + 16 + stream + self.node_bytes()
    }

    /// Bytes of its nodes that it has left to others since the last call.
    pub(crate) fn take_parted(&mut self) -> usize {
        self.main.take_parted()
            + self.members.as_mut().map_or(0, Tree::take_parted)
            + self.ends.as_mut().map_or(0, Ends::take_parted)
            + self.stream.as_mut().map_or(0, |stream| stream.take_parted())
    }

    /// Bytes of the nodes, which clones share.
    pub(crate) fn node_bytes(&self) -> usize {
        self.main.bytes()
            + self.members.as_ref().map_or(0, Tree::bytes)
            + self.ends.as_ref().map_or(0, Ends::bytes)
            + self.stream.as_ref().map_or(0, |stream| stream.node_bytes())
    }

    /// The element with this key, not in lists.
    pub(crate) fn find(&self, key: &[u8]) -> Option<Element<'_>> {
        let tree = self.members.as_ref().unwrap_or(&self.main);
        let (leaf, _) = tree.leaf_of(Key::of_name(&self.hasher, key));
        leaf.find_key(tree.shape, key).1
    }

    /// Sets the value of a hash or set under a key; true if the key is new.
    pub(crate) fn put(&mut self, element: Element<'_>) -> bool {
        let key = Key::of_name(&self.hasher, element.key);
        if element.is_timed() {
            self.main.expect_deadline();
        } else if self.overwrites
            && let Some(value) = self.main.value_mut(key, element.key)
            && value.len() == element.value.len()
        {
            value.copy_from_slice(element.value);
            return false;
        }
        let (mut is_new, shape) = (false, self.main.shape);
        self.main.edit(Seek::Key(key), &self.hasher, &mut |leaf, _| {
            is_new = leaf.put(shape, element);
            0
        });
        self.overwrites = !is_new;
        is_new
    }

    /// Removes a key from a hash or set; false if it was not there.
    pub(crate) fn remove(&mut self, key: &[u8]) -> bool {
        self.find(key).is_some() && self.main.remove_named(&self.hasher, key)
    }

    /// Sets a member's score in a sorted set; returns the old one.
    pub(crate) fn set_score(&mut self, element: Element<'_>) -> Option<f64> {
        let old = self.put_score(element);
        if let Some(old) = old {
            if old == element.head {
                return Some(element.score());
            }
            self.remove_from_order(Element { head: old, ..element });
        }
        self.main.insert_ranked(&self.hasher, element);
        old.map(score_of)
    }

    /// Sets a member's score in the tree by hash alone; returns the head of the old one.
    fn put_score(&mut self, element: Element<'_>) -> Option<u64> {
        let key = Key::of_name(&self.hasher, element.key);
        let members = self.members.as_mut().expect("a sorted set has its members by hash");
        if self.overwrites
            && let Some(old) = members.set_head(key, element)
        {
            return Some(old);
        }
        let mut old = None;
        members.edit(Seek::Key(key), &self.hasher, &mut |leaf, _| {
            let (span, found) = leaf.find_key(Shape::Ranked, element.key);
            old = found.map(|found| found.head);
            match old {
                None => leaf.insert(span, Shape::Ranked, element),
                Some(old) if old == element.head => {}
                Some(_) => leaf.replace(span, Shape::Ranked, element),
            }
            0
        });
        self.overwrites = old.is_some();
        old
    }

    /// Removes a member of a sorted set; returns its score.
    pub(crate) fn remove_member(&mut self, member: &[u8]) -> Option<f64> {
        let found = self.find(member)?;
        let (score, element) = (found.score(), Element::ranked(member, found.head));
        self.remove_from_order(element);
        let members = self.members.as_mut().expect("a sorted set has its members by hash");
        members.remove_named(&self.hasher, member);
        Some(score)
    }

    /// Removes an element of a sorted set from the order.
    fn remove_from_order(&mut self, element: Element<'_>) {
        let key = element.rank_key();
        if self.main.step_out(key, element.key) {
            return;
        }
        self.main.edit(Seek::Key(key), &self.hasher, &mut |leaf, _| {
            leaf.remove_key(Shape::Ranked, element.key);
            0
        });
    }

    /// Removes `count` elements from rank `start` on, in a list or sorted set; all of them exist.
    pub(crate) fn remove_range(&mut self, start: usize, count: usize) {
        let (start, count) = self.remove_at_ends(start, count);
        let (shape, mut left) = (self.main.shape, count);
        while left > 0 {
            if let Some(members) = &mut self.members {
                let (leaf, index) = self.main.leaf_at(start);
                for element in leaf.run(shape).skip(index).take(left) {
                    members.remove_named(&self.hasher, element.key);
                }
            }
            self.main.edit(Seek::Rank(start), &self.hasher, &mut |leaf, index| {
                left -= leaf.remove_range(shape, index, left);
                index
            });
        }
    }
}
