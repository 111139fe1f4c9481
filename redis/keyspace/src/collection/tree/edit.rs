//! A change of one leaf, and the splits and merges on the way back to the root.

use std::sync::Arc;

use super::node::{Bound, Child, Inner, Node, own};
use super::{FANOUT, LEAF_BYTES_MAX, Order, Seek, Side, Tree};
use crate::collection::chunk::Chunk;
use crate::collection::mistakes::Mutant;
use crate::collection::packed::{Run, Shape, Times};
use crate::hash::Hasher;

impl Tree {
    /// Changes one leaf. `change` gets the leaf with the place of a sought rank in it, and returns
    /// the place that it changed.
    pub(crate) fn edit(
        &mut self,
        seek: Seek<'_>,
        hasher: &Hasher,
        change: &mut dyn FnMut(&mut Chunk, usize) -> usize,
    ) {
        self.work(seek, hasher, Change::Within(change));
    }

    /// Puts a leaf of a list before its first one or behind its last one, which is not touched.
    pub(crate) fn add_leaf(&mut self, side: Side, leaf: Chunk, hasher: &Hasher) {
        let at = if side == Side::Front { 0 } else { self.len };
        self.work(Seek::Rank(at), hasher, Change::Beside(side, leaf));
    }

    fn work<'w>(&mut self, seek: Seek<'_>, hasher: &'w Hasher, change: Change<'w>) {
        #[cfg(test)]
        super::sharing::note_edit();
        let (shape, order, bytes) = (self.shape, self.order, self.bytes);
        let (len, parted, first, last) = (self.len, self.parted, true, true);
        let timed = self.timed;
        let mut work =
            Work { shape, order, timed, len, bytes, parted, hasher, change, first, last };
        if let Some(right) = work.edit(&mut self.root, seek) {
            let left = std::mem::replace(&mut self.root, Node::Leaf(Arc::default()));
            let times = work.times(&left);
            let (len, low) = (work.len - right.len, Bound::default());
            let left = Child { len, node: left, low, times };
            self.root = Node::Inner(Arc::new(Inner::new(left, right)));
            work.bytes += self.root.bytes();
        }
        while let Node::Inner(inner) = &self.root
            && inner.count() == 1
        {
            let only = inner.node(0).clone();
            work.bytes -= self.root.bytes();
            self.root = only;
        }
        (self.len, self.bytes, self.parted) = (work.len, work.bytes, work.parted);
        self.timed = timed && self.root.times(shape) != Times::NEVER;
    }
}

/// What becomes of a leaf.
enum Change<'w> {
    Within(&'w mut dyn FnMut(&mut Chunk, usize) -> usize),
    /// It gets a neighbour.
    Beside(Side, Chunk),
}

/// One change on its way down the tree and up again.
struct Work<'w> {
    shape: Shape,
    order: Order,
    /// Whether elements may have deadlines.
    timed: bool,
    /// Elements and bytes of the whole tree, as they become.
    len: usize,
    bytes: usize,
    parted: usize,
    hasher: &'w Hasher,
    change: Change<'w>,
    /// Whether the path has kept to the first, the last children.
    first: bool,
    last: bool,
}

impl Work<'_> {
    /// Changes the subtree of `node`; returns the node split off to its right.
    fn edit(&mut self, node: &mut Node, seek: Seek<'_>) -> Option<Child> {
        // A leaf that gets a neighbour stays as it is, and shared.
        if !matches!((&*node, &self.change), (Node::Leaf(_), Change::Beside(..))) {
            self.part(node);
        }
        self.bytes -= node.bytes();
        let split = match node {
            Node::Leaf(leaf) => self.edit_leaf(leaf, seek),
            Node::Inner(inner) => self.edit_inner(own(inner), seek),
        };
        self.bytes += node.bytes() + split.as_ref().map_or(0, |split| split.node.bytes());
        split
    }

    /// Notes that this tree is about to leave a node to its other holders, if there are any.
    fn part(&mut self, node: &Node) {
        if node.is_shared() {
            self.parted += node.bytes();
            #[cfg(test)]
            super::sharing::note_copy(node.bytes());
        }
    }

    /// The deadlines below a node.
    fn times(&self, node: &Node) -> Times {
        let knows = self.timed && !Mutant::SplitForgets.is_made();
        if knows { node.times(self.shape) } else { Times::NEVER }
    }

    fn edit_leaf(&mut self, leaf: &mut Arc<Chunk>, seek: Seek<'_>) -> Option<Child> {
        let (leaf, change) = match &mut self.change {
            Change::Within(change) => (own(leaf), change),
            Change::Beside(side, new) => {
                let new = Arc::new(std::mem::take(new));
                self.len += new.count;
                let right = if *side == Side::Front { std::mem::replace(leaf, new) } else { new };
                let (len, node) = (right.count, Node::Leaf(right));
                return Some(Child { len, node, low: Bound::default(), times: Times::NEVER });
            }
        };
        let rank = if let Seek::Rank(rank) = seek { rank } else { 0 };
        let before = leaf.count;
        let changed = change(leaf, rank);
        self.len = self.len - before + leaf.count;
        if leaf.count < 2
            || leaf.count <= self.order.leaf_max() && leaf.bytes.len() <= LEAF_BYTES_MAX
        {
            if self.order != Order::Position {
                leaf.reindex(self.shape);
            }
            return None;
        }
        let (right, low) = match self.order {
            Order::Hash => split_by_hash(leaf, self.shape, self.hasher)?,
            Order::Position | Order::Rank => {
                let cut = match changed {
                    // Nodes that are filled from one end stay full.
                    1.. if self.last && changed + 1 == leaf.count => changed,
                    0 if self.first => 1,
                    _ => middle(leaf.run(self.shape), leaf.count),
                };
                split_in_order(leaf, self.shape, self.order, cut)
            }
        };
        let (len, node) = (right.count, Node::Leaf(Arc::new(right)));
        let times = self.times(&node);
        Some(Child { len, node, low, times })
    }

    fn edit_inner(&mut self, inner: &mut Inner, seek: Seek<'_>) -> Option<Child> {
        let (at, seek) = match seek {
            Seek::Rank(rank) => {
                let (at, rank) = inner.child_of_rank(rank);
                (at, Seek::Rank(rank))
            }
            Seek::Key(key) => (inner.child_of_key(key), seek),
        };
        self.first &= at == 0;
        self.last &= at + 1 == inner.count();
        let (before, bytes_before) = (self.len, self.bytes);
        let split = self.edit(inner.node_mut(at), seek);
        let len = inner.len_mut(at);
        *len = *len + self.len - before;
        if self.timed {
            let (before, mut times) = (inner.times(at), inner.node(at).times(self.shape));
            if Mutant::KeepsWhatIsGone.is_made() {
                times.soonest = times.soonest.min(before.soonest);
            }
            if Mutant::KeepsLatest.is_made() {
                times.latest = times.latest.max(before.latest);
            }
            inner.set_times(at, times);
        }
        let len = inner.len_mut(at);
        if let Some(right) = split {
            *len -= right.len;
            inner.insert(at + 1, right);
        } else if *len == 0 && inner.count() > 1 {
            self.bytes -= inner.remove(at).node.bytes_of_empty();
        } else if self.len < before || self.bytes < bytes_before {
            self.merge(inner, at);
        }
        if inner.count() <= FANOUT { None } else { Some(inner.split()) }
    }

    /// Merges a child that has shrunk with a neighbour, if they fit (T3).
    fn merge(&mut self, inner: &mut Inner, at: usize) {
        let pairs = [at.checked_sub(1), Some(at).filter(|_| at + 1 < inner.count())];
        let fitting = pairs.into_iter().flatten().find(|&left| {
            // Element counts are known here: neighbours with too many need no visit.
            let few = inner.lens()[left] + inner.lens()[left + 1] <= self.order.leaf_max() * 3 / 4;
            match (inner.node(left), inner.node(left + 1)) {
                (Node::Leaf(a), Node::Leaf(b)) => {
                    few && a.bytes.len() + b.bytes.len() <= LEAF_BYTES_MAX * 3 / 4
                }
                (Node::Inner(a), Node::Inner(b)) => a.count() + b.count() <= FANOUT * 3 / 4,
                _ => false, // T1: not at one depth
            }
        });
        let Some(left) = fitting else { return };
        let Child { node, len, low, times } = inner.remove(left + 1);
        *inner.len_mut(left) += len;
        if !Mutant::MergeForgets.is_made() {
            inner.set_times(left, inner.times(left).with(times));
        }
        let into = inner.node_mut(left);
        self.part(into);
        self.part(&node);
        self.bytes -= into.bytes() + node.bytes();
        match (&mut *into, &node) {
            (Node::Leaf(into), Node::Leaf(from)) => {
                let into = own(into);
                into.append(from);
                if self.order != Order::Position {
                    into.reindex(self.shape);
                }
            }
            (Node::Inner(into), Node::Inner(from)) => {
                let seam = into.count();
                let into = own(into);
                into.append(from, low);
                self.merge(into, seam); // children are neighbours now that were none before
            }
            _ => {}
        }
        self.bytes += into.bytes();
    }
}

/// The element at which to cut a run so that both parts take about as many bytes.
fn middle(run: Run<'_>, count: usize) -> usize {
    let mut ahead = run.rest.len() / 2;
    let (span, _) = run.find(|element| {
        let len = element.packed_len(run.shape);
        let is_it = ahead < len;
        ahead = ahead.saturating_sub(len);
        is_it
    });
    span.index.clamp(1, count - 1)
}

/// Splits off the elements from `cut` on.
fn split_in_order(leaf: &mut Chunk, shape: Shape, order: Order, cut: usize) -> (Chunk, Bound) {
    let last = leaf.span(shape, cut - 1);
    let mut right = Chunk::from_bytes(leaf.bytes[last.bytes.end..].to_vec(), leaf.count - cut);
    if order != Order::Position {
        right.reindex(shape);
    }
    let mut low = Bound::default();
    let ends = Run::new(&leaf.bytes[last.bytes.clone()], shape).next().zip(right.run(shape).next());
    if order == Order::Rank
        && let Some((left, right)) = ends
    {
        low.head = right.head;
        if left.head == right.head {
            let same = left.key.iter().zip(right.key).take_while(|(a, b)| a == b).count();
            low.tail = Some(right.key[..same + 1].into());
        }
    }
    leaf.truncate(&last);
    (right, low)
}

/// Splits off the upper half by hash; nothing if all hashes are equal.
fn split_by_hash(leaf: &mut Chunk, shape: Shape, hasher: &Hasher) -> Option<(Chunk, Bound)> {
    let hashes: Vec<u64> = leaf.run(shape).map(|element| hasher.hash(element.key)).collect();
    let mut sorted = hashes.clone();
    sorted.sort_unstable();
    let middle = sorted[sorted.len() / 2];
    // Everything below the cut is less than the cut: where half are equal, it lies beside them.
    let cut = sorted.iter().copied().find(|&hash| hash >= middle && hash > sorted[0])?;
    let [mut left, mut right] = [Chunk::indexed(), Chunk::indexed()];
    for (element, hash) in leaf.run(shape).zip(&hashes) {
        let half = if *hash < cut { &mut left } else { &mut right };
        half.insert(half.span(shape, half.count), shape, element);
    }
    left.bytes.shrink_to_fit();
    right.bytes.shrink_to_fit();
    *leaf = left;
    Some((right, Bound { head: cut, tail: None }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collection::packed::Element;

    /// T3: of two elements, each as long as a leaf, a split leaves one on either side.
    #[test]
    fn each_long_element_has_a_leaf_of_its_own() {
        let (hasher, long) = (Hasher(std::hash::RandomState::new()), [b'x'; LEAF_BYTES_MAX]);
        let names: Vec<Vec<u8>> = (0..20_u8).map(|number| vec![number * 7 % 20; 9]).collect();
        let mut by_hash = Tree::new(Shape::Pair, Order::Hash);
        let mut by_rank = Tree::new(Shape::Ranked, Order::Rank);
        let mut list = Tree::new(Shape::Single, Order::Position);
        for name in &names {
            by_hash.put_named(&hasher, Element::new(name, &long));
            let element = Element::single(&long);
            by_rank.insert_ranked(&hasher, Element { head: name[0].into(), ..element });
            let at = list.len() / 2;
            list.edit(Seek::Rank(at), &hasher, &mut |leaf, index| {
                leaf.insert(leaf.span(Shape::Single, index), Shape::Single, element);
                index
            });
            for tree in [&by_hash, &by_rank, &list] {
                let counts = (0..tree.len()).map(|rank| tree.leaf_at(rank).0.count);
                assert_eq!(counts.max(), Some(1), "{:?}", tree.order);
                tree.check(&hasher);
            }
        }
    }
}
