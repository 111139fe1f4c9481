//! A large collection: its trees, and the changes to it.

use std::hash::{BuildHasher, Hasher as _, RandomState};

use crate::packed::{Chunk, Element, Shape, score_of};
use crate::tree::{Key, Order, Seek, Tree};
use crate::value::Type;

/// Hashes keys, fields and members: keyed by the system's randomness, as attackers choose them.
#[derive(Clone)]
pub(crate) struct Hasher(pub(crate) RandomState);

impl Hasher {
    /// The hash of a key of the keyspace.
    pub(crate) fn hash_key(&self, key: &[u8]) -> u64 {
        let mut hasher = self.0.build_hasher();
        hasher.write(key);
        hasher.finish()
    }

    /// The hash of a field or member: 48 bits, as it is a cursor of SCAN, which every client can
    /// hold then.
    pub(crate) fn hash(&self, key: &[u8]) -> u64 {
        self.hash_key(key) >> 16
    }

    fn seek(&self, key: &[u8]) -> Seek<'static> {
        Seek::Key(Key { head: self.hash(key), tail: &[] })
    }
}

/// A collection as trees. Cloning it is O(1): the nodes are shared.
#[derive(Clone)]
pub(crate) struct Trunk {
    pub(crate) main: Tree,
    /// Sorted sets alone: the members by hash, beside the main tree by rank.
    pub(crate) members: Option<Tree>,
    pub(crate) hasher: Hasher,
    /// See [`crate::collection::Collection`].
    pub(crate) loose: bool,
}

impl Trunk {
    pub(crate) fn new(kind: Type, hasher: &Hasher) -> Self {
        let (shape, order) = match kind {
            Type::List | Type::String => (Shape::Single, Order::Place),
            Type::Hash => (Shape::Pair, Order::Hash),
            Type::Set => (Shape::Single, Order::Hash),
            Type::Sorted => (Shape::Scored, Order::Rank),
        };
        let members = (kind == Type::Sorted).then(|| Tree::new(Shape::Scored, Order::Hash));
        Self { main: Tree::new(shape, order), members, hasher: hasher.clone(), loose: false }
    }

    /// The collection of a packed run.
    pub(crate) fn of(chunk: &Chunk, kind: Type, hasher: &Hasher) -> Self {
        let mut trunk = Self::new(kind, hasher);
        for element in chunk.run(kind.shape()) {
            match kind {
                Type::List | Type::String => trunk.insert_at(trunk.main.len(), element),
                Type::Hash | Type::Set => drop(trunk.put(element)),
                Type::Sorted => drop(trunk.set_score(element)),
            }
        }
        trunk
    }

    /// Bytes of it all, shared nodes counted in full.
    pub(crate) fn bytes(&self) -> usize {
        size_of::<Self>() + 16 + self.node_bytes()
    }

    /// Bytes of its nodes that it has left to others since this was last asked.
    pub(crate) fn take_parted(&mut self) -> usize {
        self.main.take_parted() + self.members.as_mut().map_or(0, Tree::take_parted)
    }

    /// Bytes of the nodes, which clones share.
    pub(crate) fn node_bytes(&self) -> usize {
        self.main.bytes() + self.members.as_ref().map_or(0, Tree::bytes)
    }

    /// The element with this key, not in lists.
    pub(crate) fn find(&self, key: &[u8]) -> Option<Element<'_>> {
        let tree = self.members.as_ref().unwrap_or(&self.main);
        let (leaf, _) = tree.leaf_of(Key { head: self.hasher.hash(key), tail: &[] });
        leaf.run(tree.shape).find_key(key).1
    }

    /// Sets what a hash or set holds under a key; true if the key is new.
    pub(crate) fn put(&mut self, element: Element<'_>) -> bool {
        let (mut is_new, shape) = (false, self.main.shape);
        self.main.edit(self.hasher.seek(element.key), &self.hasher, &mut |leaf, _| {
            is_new = leaf.put(shape, element);
            0
        });
        is_new
    }

    /// Removes a key from a hash or set; false if it was not there.
    pub(crate) fn remove(&mut self, key: &[u8]) -> bool {
        self.find(key).is_some() && remove_hashed(&mut self.main, &self.hasher, key)
    }

    /// Sets a member's score in a sorted set; returns the old one.
    pub(crate) fn set_score(&mut self, element: Element<'_>) -> Option<f64> {
        let old = self.remove_from_order(element.key, Some(element.value));
        if old.is_none_or(|old| old != score_of(element.value)) {
            let seek = Seek::Key(rank_key(element));
            self.main.edit(seek, &self.hasher, &mut |leaf, _| leaf.insert_ranked(element));
            let members = self.members.as_mut().expect("a sorted set has its members by hash");
            members.edit(self.hasher.seek(element.key), &self.hasher, &mut |leaf, _| {
                leaf.put(Shape::Scored, element);
                0
            });
        }
        old
    }

    /// Removes a member of a sorted set; returns its score.
    pub(crate) fn remove_member(&mut self, member: &[u8]) -> Option<f64> {
        let old = self.remove_from_order(member, None)?;
        let members = self.members.as_mut().expect("a sorted set has its members by hash");
        remove_hashed(members, &self.hasher, member);
        Some(old)
    }

    /// Takes a member out of the order, unless its score is `keep`; returns its score.
    fn remove_from_order(&mut self, member: &[u8], keep: Option<&[u8]>) -> Option<f64> {
        let element = self.find(member)?;
        let old = element.score();
        if keep != Some(element.value) {
            let score: [u8; 8] = element.value.try_into().expect("scores take 8 bytes");
            let element = Element { key: member, value: &score };
            let seek = Seek::Key(rank_key(element));
            self.main.edit(seek, &self.hasher, &mut |leaf, _| {
                leaf.remove_key(Shape::Scored, member);
                0
            });
        }
        Some(old)
    }

    /// Puts an element of a list before position `at`.
    pub(crate) fn insert_at(&mut self, at: usize, element: Element<'_>) {
        let shape = self.main.shape;
        self.main.edit(Seek::Rank(at), &self.hasher, &mut |leaf, index| {
            let place = leaf.run(shape).place(index).0;
            leaf.insert(place.bytes.start, shape, element);
            index
        });
    }

    /// Replaces the element at a position of a list, which exists.
    pub(crate) fn replace_at(&mut self, at: usize, element: Element<'_>) {
        let shape = self.main.shape;
        self.main.edit(Seek::Rank(at), &self.hasher, &mut |leaf, index| {
            let place = leaf.run(shape).place(index).0;
            leaf.replace(place.bytes, shape, element);
            index
        });
    }

    /// Removes `count` elements from rank `start` on, in a list or sorted set; all of them exist.
    pub(crate) fn remove_range(&mut self, start: usize, count: usize) {
        let (shape, mut left) = (self.main.shape, count);
        while left > 0 {
            if let Some(members) = &mut self.members {
                let (leaf, index) = self.main.leaf_at(start);
                for element in leaf.run(shape).skip(index).take(left) {
                    remove_hashed(members, &self.hasher, element.key);
                }
            }
            self.main.edit(Seek::Rank(start), &self.hasher, &mut |leaf, index| {
                left -= leaf.remove_range(shape, index, left);
                index
            });
        }
    }
}

fn rank_key(element: Element<'_>) -> Key<'_> {
    let score = element.value.try_into().expect("scores take 8 bytes");
    Key { head: u64::from_be_bytes(score), tail: element.key }
}

/// Removes a key from a tree by hash; false if it was not there.
fn remove_hashed(tree: &mut Tree, hasher: &Hasher, key: &[u8]) -> bool {
    let (mut was_there, shape) = (false, tree.shape);
    tree.edit(hasher.seek(key), hasher, &mut |leaf, _| {
        was_there = leaf.remove_key(shape, key);
        0
    });
    was_there
}

/// What changes a leaf changes a small collection too.
impl Chunk {
    /// Sets what is under a key; true if the key is new. Order means nothing.
    pub(crate) fn put(&mut self, shape: Shape, element: Element<'_>) -> bool {
        let (place, found) = self.run(shape).find_key(element.key);
        let (is_new, is_same) = (found.is_none(), found == Some(element));
        if is_new {
            self.insert(place.bytes.start, shape, element);
        } else if !is_same {
            self.replace(place.bytes, shape, element);
        }
        is_new
    }

    /// Puts a scored element where it belongs; returns the place.
    pub(crate) fn insert_ranked(&mut self, element: Element<'_>) -> usize {
        let run = self.run(Shape::Scored);
        let (place, _) = run.find(|other| other.rank_key() >= element.rank_key());
        self.insert(place.bytes.start, Shape::Scored, element);
        place.index
    }

    /// Removes a key; false if it was not there.
    pub(crate) fn remove_key(&mut self, shape: Shape, key: &[u8]) -> bool {
        let (place, found) = self.run(shape).find_key(key);
        let was_there = found.is_some();
        if was_there {
            self.remove(place.bytes, 1);
        }
        was_there
    }

    /// Removes at most `count` elements from `index` on; returns how many.
    pub(crate) fn remove_range(&mut self, shape: Shape, index: usize, count: usize) -> usize {
        let count = count.min(self.count - index);
        let start = self.run(shape).place(index).0.bytes.start;
        let end = self.run(shape).place(index + count).0.bytes.start;
        self.remove(start..end, count);
        count
    }
}
