//! The invariants of a tree, asserted.

use super::{Bound, FANOUT, Key, Node, Order, Tree};
use crate::trunk::Hasher;

impl Tree {
    /// Asserts the invariants.
    pub(crate) fn check(&self, hasher: &Hasher) {
        let mut bytes = 0;
        let least = Bound::default();
        let len = self.check_node(&self.root, (&least, None), hasher, &mut bytes).0;
        assert_eq!((len, bytes), (self.len, self.bytes), "T1, and the books");
    }

    /// Checks what is below a node whose keys are from `low` up to `beyond`; returns elements and
    /// depth.
    fn check_node(
        &self,
        node: &Node,
        (low, beyond): (&Bound, Option<&Bound>),
        hasher: &Hasher,
        bytes: &mut usize,
    ) -> (usize, usize) {
        *bytes += node.bytes();
        let children = match node {
            Node::Leaf(leaf) => {
                assert_eq!(leaf.run(self.shape).count(), leaf.count);
                assert!(self.len == 0 || leaf.count > 0, "T3");
                for element in leaf.run(self.shape) {
                    let key = match self.order {
                        Order::Place => continue,
                        Order::Hash => Key { head: hasher.hash(element.key), tail: &[] },
                        Order::Rank => Key {
                            head: u64::from_be_bytes(element.value.try_into().unwrap()),
                            tail: element.key,
                        },
                    };
                    assert!(low.key() <= key, "T2");
                    assert!(beyond.is_none_or(|beyond| key < beyond.key()), "T2");
                }
                return (leaf.count, 0);
            }
            Node::Inner(children) => children,
        };
        assert!(children.len() <= FANOUT, "T3");
        let mut depths = Vec::new();
        for (at, child) in children.iter().enumerate() {
            let low = if at == 0 { low } else { &child.low };
            let beyond = children.get(at + 1).map(|next| &next.low).or(beyond);
            let (len, depth) = self.check_node(&child.node, (low, beyond), hasher, bytes);
            assert_eq!(len, child.len, "T1");
            depths.push(depth);
        }
        assert!(depths.iter().all(|&depth| depth == depths[0]), "T1");
        for pair in children.windows(2) {
            if let (Node::Inner(a), Node::Inner(b)) = (&pair[0].node, &pair[1].node) {
                assert!(a.len() + b.len() > FANOUT / 2, "T3");
            }
        }
        (node.len(), depths[0] + 1)
    }
}
