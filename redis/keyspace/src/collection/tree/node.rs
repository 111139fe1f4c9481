//! Nodes of a tree: leaves of packed elements, inner nodes of children.

use std::sync::Arc;

use super::FANOUT;
use crate::collection::chunk::Chunk;
use crate::collection::packed::{Key, Shape, Times};

/// What a reference-counted leaf takes besides its bytes, and an inner node besides its children.
const LEAF_BYTES: usize = 16 + size_of::<Chunk>();
const INNER_BYTES: usize = 16 + size_of::<Inner>();
const TIMES_BYTES: usize = size_of::<[Times; ROOM]>();
/// Room for one child too many, before a split.
const ROOM: usize = FANOUT + 1;

/// A node; cloning it shares it.
#[derive(Clone)]
pub(super) enum Node {
    Leaf(Arc<Chunk>),
    Inner(Arc<Inner>),
}

/// Children with the facts of each. Finding one reads only the heads, which lie together. Behind
/// those of the children, heads are the greatest number, so a search always compares as many.
#[derive(Clone)]
pub(super) struct Inner {
    heads: [u64; ROOM],
    lens: [usize; ROOM],
    links: Vec<Link>,
    /// The least and the greatest deadline below each child (T5), as soon as there is one.
    times: Option<Box<[Times; ROOM]>>,
}

#[derive(Clone)]
struct Link {
    node: Node,
    tail: Tail,
}

/// The rest of a bound: needed only where scores are equal, and no longer than needed to
/// distinguish them.
type Tail = Option<Arc<[u8]>>;

/// The least key of a node, or something between it and the greatest one of the node before.
#[derive(Clone, Default)]
pub(super) struct Bound {
    pub(super) head: u64,
    pub(super) tail: Tail,
}

/// A node on its way into an inner node or out of it.
pub(super) struct Child {
    pub(super) node: Node,
    /// Elements below it.
    pub(super) len: usize,
    pub(super) low: Bound,
    /// The deadlines below it.
    pub(super) times: Times,
}

/// The node for a change: copied first if others hold it, too.
pub(super) fn own<T: Clone>(node: &mut Arc<T>) -> &mut T {
    Arc::make_mut(node)
}

/// The node for a change in place, unless others hold it, too.
pub(super) fn alone<T>(node: &mut Arc<T>) -> Option<&mut T> {
    #[cfg(test)]
    if crate::mutants::Mutant::OverwritesShared.is_made() {
        return Some(crate::mutants::shared_mut(node));
    }
    Arc::get_mut(node)
}

impl Node {
    /// Bytes of this node alone.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Leaf(leaf) => LEAF_BYTES + leaf.bytes.capacity(),
            Self::Inner(inner) => {
                let times = if inner.times.is_some() { TIMES_BYTES } else { 0 };
                INNER_BYTES + inner.links.capacity() * size_of::<Link>() + times
            }
        }
    }

    /// The least and the greatest deadline below it.
    pub(super) fn times(&self, shape: Shape) -> Times {
        match self {
            Self::Leaf(leaf) => leaf.run(shape).times(),
            Self::Inner(inner) => inner.all_times(),
        }
    }

    /// Whether others hold it too.
    pub(super) fn is_shared(&self) -> bool {
        match self {
            Self::Leaf(leaf) => Arc::strong_count(leaf) > 1,
            Self::Inner(inner) => Arc::strong_count(inner) > 1,
        }
    }

    /// Bytes of this node and those below it that others hold, as they do if they hold one above.
    pub(super) fn shared_bytes(&self, is_held: bool) -> usize {
        let is_held = is_held || self.is_shared();
        let below = match self {
            Self::Leaf(_) => 0,
            Self::Inner(inner) => inner.nodes().map(|node| node.shared_bytes(is_held)).sum(),
        };
        below + if is_held { self.bytes() } else { 0 }
    }

    /// Bytes of a node without elements and of what is below it: one node at each depth.
    pub(super) fn bytes_of_empty(&self) -> usize {
        let below = match self {
            Self::Leaf(_) => 0,
            Self::Inner(inner) => inner.nodes().map(Self::bytes_of_empty).sum(),
        };
        self.bytes() + below
    }
}

impl Inner {
    /// A node of two children.
    pub(super) fn new(left: Child, right: Child) -> Self {
        let mut inner = Self {
            heads: [u64::MAX; ROOM],
            lens: [0; ROOM],
            links: Vec::with_capacity(2),
            times: None,
        };
        inner.insert(0, left);
        inner.insert(1, right);
        inner
    }

    /// How many children there are.
    pub(super) fn count(&self) -> usize {
        self.links.len()
    }

    /// Elements below all of them.
    pub(super) fn elements(&self) -> usize {
        self.lens[..self.count()].iter().sum()
    }

    pub(super) fn nodes(&self) -> impl Iterator<Item = &Node> {
        self.links.iter().map(|link| &link.node)
    }

    pub(super) fn node(&self, at: usize) -> &Node {
        &self.links[at].node
    }

    pub(super) fn node_mut(&mut self, at: usize) -> &mut Node {
        &mut self.links[at].node
    }

    /// Elements below each child.
    pub(super) fn lens(&self) -> &[usize] {
        &self.lens[..self.count()]
    }

    pub(super) fn len_mut(&mut self, at: usize) -> &mut usize {
        &mut self.lens[at]
    }

    /// The deadlines below a child.
    pub(super) fn times(&self, at: usize) -> Times {
        self.times.as_ref().map_or(Times::NEVER, |times| times[at])
    }

    /// Notes the deadlines below a child.
    pub(super) fn set_times(&mut self, at: usize, below: Times) {
        if below != Times::NEVER || self.times.is_some() {
            self.times.get_or_insert_with(|| Box::new([Times::NEVER; ROOM]))[at] = below;
        }
    }

    /// The deadlines below all children.
    fn all_times(&self) -> Times {
        let Some(times) = &self.times else { return Times::NEVER };
        times[..self.count()].iter().copied().fold(Times::NONE, Times::with)
    }

    /// The head of a child's bound, if there is the child.
    pub(super) fn head(&self, at: usize) -> Option<u64> {
        self.heads[..self.count()].get(at).copied()
    }

    pub(super) fn low(&self, at: usize) -> Bound {
        Bound { head: self.heads[at], tail: self.links[at].tail.clone() }
    }

    /// The child with element `rank`, or the last; the element's rank within it.
    pub(super) fn child_of_rank(&self, mut rank: usize) -> (usize, usize) {
        let last = self.count() - 1;
        for (at, &len) in self.lens[..last].iter().enumerate() {
            if rank < len {
                return (at, rank);
            }
            rank -= len;
        }
        (last, rank)
    }

    /// The child where `key` belongs (T2).
    #[inline]
    pub(super) fn child_of_key(&self, key: Key<'_>) -> usize {
        const { assert!(FANOUT.is_power_of_two() && ROOM == FANOUT + 1) };
        let (mut less, mut half) = (0, FANOUT / 2);
        while half > 0 {
            less += half * usize::from(self.heads[less + half] < key.head);
            half /= 2;
        }
        less += usize::from(self.heads[less + 1] < key.head);
        let heads = &self.heads[1..self.count()];
        if heads.get(less) != Some(&key.head) {
            return less;
        }
        let equal = heads[less..].partition_point(|&head| head == key.head);
        let equal = &self.links[less + 1..=less + equal];
        let is_low = |link: &Link| link.tail.as_deref().unwrap_or_default() <= key.tail;
        // Streams add at the end, and take from the front.
        if equal.last().is_some_and(is_low) {
            return less + equal.len();
        }
        less + equal.partition_point(is_low)
    }

    pub(super) fn insert(&mut self, at: usize, child: Child) {
        let count = self.count();
        if count == self.links.capacity() {
            self.links.reserve_exact((FANOUT / 4).max(1));
        }
        let Child { node, len, low, times: below } = child;
        self.links.insert(at, Link { node, tail: low.tail });
        if let Some(times) = &mut self.times {
            times.copy_within(at..count, at + 1);
        }
        self.set_times(at, below);
        self.heads.copy_within(at..count, at + 1);
        self.lens.copy_within(at..count, at + 1);
        (self.heads[at], self.lens[at]) = (low.head, len);
    }

    pub(super) fn remove(&mut self, at: usize) -> Child {
        let (head, len, count) = (self.heads[at], self.lens[at], self.count());
        let Link { node, tail } = self.links.remove(at);
        self.heads.copy_within(at + 1..count, at);
        self.heads[count - 1] = u64::MAX;
        self.lens.copy_within(at + 1..count, at);
        let below = self.times(at);
        if let Some(times) = &mut self.times {
            times.copy_within(at + 1..count, at);
        }
        Child { node, len, low: Bound { head, tail }, times: below }
    }

    /// Splits off the upper half of the children.
    pub(super) fn split(&mut self) -> Child {
        let (at, count) = (self.count() / 2, self.count());
        let mut right =
            Self { heads: [u64::MAX; ROOM], lens: [0; ROOM], links: Vec::new(), times: None };
        let low = self.low(at);
        right.heads[..count - at].copy_from_slice(&self.heads[at..count]);
        self.heads[at..].fill(u64::MAX);
        right.lens[..count - at].copy_from_slice(&self.lens[at..count]);
        right.links = self.links.split_off(at);
        if let Some(times) = &self.times {
            let beyond = right.times.insert(Box::new([Times::NEVER; ROOM]));
            beyond[..count - at].copy_from_slice(&times[at..count]);
        }
        let times = right.all_times();
        Child { len: right.elements(), node: Node::Inner(Arc::new(right)), low, times }
    }

    /// Appends the children of the neighbour to the right, whose keys are from `low` on.
    pub(super) fn append(&mut self, right: &Self, low: Bound) {
        let (seam, count) = (self.count(), self.count() + right.count());
        self.heads[seam..count].copy_from_slice(&right.heads[..right.count()]);
        self.lens[seam..count].copy_from_slice(&right.lens[..right.count()]);
        self.links.reserve_exact(right.count());
        self.links.extend(right.links.iter().cloned());
        (0..right.count()).for_each(|at| self.set_times(seam + at, right.times(at)));
        // T2: the bound of a first child means nothing, that of a later one does.
        (self.heads[seam], self.links[seam].tail) = (low.head, low.tail);
    }
}
