//! One element more or less, and nothing else: what most edits of a sorted set are in the end.
//!
//! An [edit](Tree::edit) puts things right on its way back up: it copies, splits, merges and counts
//! bytes. Where a leaf takes an element in, or lets one go, and that is all, only the numbers of
//! elements on the way there change, each by one. The way is gone twice: first to see whether that
//! is so, then to do it.

use super::node::{Node, own};
use super::{Key, LEAF_BYTES_MAX, Tree};
use crate::collection::chunk::Chunk;
use crate::collection::packed::Element;

/// Trees that are deeper go the other way.
const DEPTH_MAX: usize = 16;

/// What happens to a leaf.
#[derive(Clone, Copy)]
enum Step {
    /// It takes an element of so many bytes in.
    In(usize),
    /// It lets one go.
    Out,
}

/// Which child is taken at each depth.
#[derive(Default)]
struct Way {
    children: [u8; DEPTH_MAX],
    depth: usize,
}

impl Tree {
    /// Puts an element, which is not there, where it belongs in a tree by rank. False, and nothing
    /// has changed, if that takes an [edit](Self::edit).
    pub(crate) fn step_in(&mut self, key: Key<'_>, element: Element<'_>) -> bool {
        let step = Step::In(element.packed_len(self.shape));
        self.step(key, step, |leaf| {
            leaf.insert_ranked(element);
        })
    }

    /// Takes the element with a name out, which is there. Otherwise as [`step_in`](Self::step_in).
    pub(crate) fn step_out(&mut self, key: Key<'_>, name: &[u8]) -> bool {
        let shape = self.shape;
        self.step(key, Step::Out, |leaf| {
            leaf.remove_key(shape, name);
        })
    }

    #[inline]
    fn step(&mut self, key: Key<'_>, step: Step, change: impl FnOnce(&mut Chunk)) -> bool {
        let Some(way) = self.way(key, step) else { return false };
        let by = if matches!(step, Step::In(_)) { 1 } else { -1 };
        let mut node = &mut self.root;
        let mut children = way.children[..way.depth].iter();
        let leaf = loop {
            match (node, children.next()) {
                (Node::Leaf(leaf), _) => break own(leaf),
                (Node::Inner(inner), child) => {
                    let at = usize::from(*child.expect("the way ends in a leaf"));
                    let inner = own(inner);
                    let len = inner.len_mut(at);
                    *len = len.wrapping_add_signed(by);
                    node = inner.node_mut(at);
                }
            }
        };
        let (count, capacity) = (leaf.count, leaf.bytes.capacity());
        change(leaf);
        debug_assert_eq!(leaf.count, count.wrapping_add_signed(by), "T1");
        leaf.reindex(self.shape);
        self.bytes = self.bytes - capacity + leaf.bytes.capacity();
        self.len = self.len.wrapping_add_signed(by);
        true
    }

    /// The way to the leaf where `key` belongs, if nobody else holds a node of it (T4), and the
    /// leaf is neither to be split after the step nor to be merged with a neighbour (T3).
    #[inline]
    fn way(&self, key: Key<'_>, step: Step) -> Option<Way> {
        let mut way = Way::default();
        let (mut node, mut beside) = (&self.root, usize::MAX);
        let max = self.order.leaf_max();
        while !node.is_shared() {
            let inner = match node {
                Node::Leaf(leaf) => {
                    let stays = match step {
                        Step::In(bytes) => {
                            leaf.count < max && leaf.bytes.len() + bytes <= LEAF_BYTES_MAX
                        }
                        Step::Out => {
                            leaf.count > 1 && beside.saturating_add(leaf.count - 1) > max * 3 / 4
                        }
                    };
                    return stays.then_some(way);
                }
                Node::Inner(inner) => inner,
            };
            let at = inner.child_of_key(key);
            *way.children.get_mut(way.depth)? = at as u8;
            way.depth += 1;
            let len = |at: usize| inner.lens().get(at).copied().unwrap_or(usize::MAX);
            beside = len(at.wrapping_sub(1)).min(len(at + 1));
            node = inner.node(at);
        }
        None
    }
}
