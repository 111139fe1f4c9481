//! The invariants of a tree, asserted.

use super::node::{Bound, Node};
use super::{FANOUT, Order, Tree};
use crate::collection::packed::{Key, Times};
use crate::hash::Hasher;

impl Bound {
    fn key(&self) -> Key<'_> {
        Key { head: self.head, tail: self.tail.as_deref().unwrap_or_default() }
    }
}

impl Tree {
    /// Asserts the invariants.
    pub(crate) fn check(&self, hasher: &Hasher) {
        let mut bytes = 0;
        let least = Bound::default();
        let len = self.check_node(&self.root, &least, None, hasher, &mut bytes).0;
        assert_eq!((len, bytes), (self.len, self.bytes), "T1, and the books");
        assert_eq!(self.is_timed(), self.root.times(self.shape) != Times::NEVER, "T5");
    }

    /// Checks the subtree of a node whose keys lie from `low` up to `beyond`; returns elements and
    /// depth.
    fn check_node(
        &self,
        node: &Node,
        low: &Bound,
        beyond: Option<&Bound>,
        hasher: &Hasher,
        bytes: &mut usize,
    ) -> (usize, usize) {
        *bytes += node.bytes();
        let inner = match node {
            Node::Leaf(leaf) => {
                leaf.check(self.shape);
                assert!(self.len == 0 || leaf.count > 0, "T3");
                for element in leaf.run(self.shape) {
                    let key = match self.order {
                        Order::Position => continue,
                        Order::Hash => Key { head: hasher.hash(element.key), tail: &[] },
                        Order::Rank => element.rank_key(),
                    };
                    assert!(low.key() <= key, "T2");
                    assert!(beyond.is_none_or(|beyond| key < beyond.key()), "T2");
                }
                return (leaf.count, 0);
            }
            Node::Inner(inner) => inner,
        };
        assert!(inner.count() <= FANOUT, "T3");
        let mut depths = Vec::new();
        for (at, child) in inner.nodes().enumerate() {
            let own_low = inner.low(at);
            let low = if at == 0 { low } else { &own_low };
            let next = (at + 1 < inner.count()).then(|| inner.low(at + 1));
            let beyond = next.as_ref().or(beyond);
            let (len, depth) = self.check_node(child, low, beyond, hasher, bytes);
            assert_eq!(len, inner.lens()[at], "T1");
            assert_eq!(child.times(self.shape), inner.times(at), "T5");
            depths.push(depth);
        }
        assert!(depths.iter().all(|&depth| depth == depths[0]), "T1");
        let nodes: Vec<&Node> = inner.nodes().collect();
        for pair in nodes.windows(2) {
            if let (Node::Inner(a), Node::Inner(b)) = (pair[0], pair[1]) {
                assert!(a.count() + b.count() > FANOUT / 2, "T3");
            }
        }
        (inner.elements(), depths[0] + 1)
    }
}
