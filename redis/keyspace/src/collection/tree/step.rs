//! One element more or less, and nothing else: most edits of a sorted set.
//!
//! An [edit](Tree::edit) copies, splits, merges and counts bytes on its path back up. Where a leaf
//! only gains or loses an element, only the element counts on the path change, each by one. A step
//! walks the path twice: first to check this, then to change.

use super::node::{Node, own};
use super::{LEAF_BYTES_MAX, Tree};
use crate::collection::chunk::Chunk;
use crate::collection::packed::{Element, Key};

/// Deeper trees take an edit.
const DEPTH_MAX: usize = 16;

/// What happens to a leaf.
#[derive(Clone, Copy)]
enum Step {
    /// It gains an element of this many bytes.
    In(usize),
    /// It loses one.
    Out,
}

/// The child taken at each depth.
#[derive(Default)]
struct Path {
    children: [u8; DEPTH_MAX],
    depth: usize,
}

impl Tree {
    /// Adds a new element to a tree by rank, as `insert` does it to a leaf. False, without a
    /// change, if that takes an [edit](Self::edit).
    pub(crate) fn step_in(
        &mut self,
        key: Key<'_>,
        element: Element<'_>,
        insert: impl FnOnce(&mut Chunk, Element<'_>) -> usize,
    ) -> bool {
        let step = Step::In(element.packed_len(self.shape));
        self.step(key, step, |leaf| {
            insert(leaf, element);
        })
    }

    /// Removes the element with a name, which exists. Otherwise as [`step_in`](Self::step_in).
    pub(crate) fn step_out(&mut self, key: Key<'_>, name: &[u8]) -> bool {
        let shape = self.shape;
        self.step(key, Step::Out, |leaf| {
            leaf.remove_key(shape, name);
        })
    }

    /// Removes this element, which exists, where names may be the same under several heads.
    /// Otherwise as [`step_in`](Self::step_in).
    pub(crate) fn step_out_exactly(&mut self, key: Key<'_>, element: Element<'_>) -> bool {
        let shape = self.shape;
        self.step(key, Step::Out, |leaf| {
            leaf.remove_range(shape, leaf.below_at_ends(element.rank_key()), 1);
        })
    }

    #[inline]
    fn step(&mut self, key: Key<'_>, step: Step, change: impl FnOnce(&mut Chunk)) -> bool {
        let Some(path) = self.path(key, step) else { return false };
        let by = if matches!(step, Step::In(_)) { 1 } else { -1 };
        let mut node = &mut self.root;
        let mut children = path.children[..path.depth].iter();
        let leaf = loop {
            match (node, children.next()) {
                (Node::Leaf(leaf), _) => break own(leaf),
                (Node::Inner(inner), child) => {
                    let at = usize::from(*child.expect("the path ends in a leaf"));
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

    /// The path to the leaf where `key` belongs, if nobody else holds a node of it (T4), and the
    /// step neither splits the leaf nor merges it with a neighbour (T3).
    #[inline]
    fn path(&self, key: Key<'_>, step: Step) -> Option<Path> {
        let mut path = Path::default();
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
                    return stays.then_some(path);
                }
                Node::Inner(inner) => inner,
            };
            let at = inner.child_of_key(key);
            *path.children.get_mut(path.depth)? = at as u8;
            path.depth += 1;
            let len = |at: usize| inner.lens().get(at).copied().unwrap_or(usize::MAX);
            beside = len(at.wrapping_sub(1)).min(len(at + 1));
            node = inner.node(at);
        }
        None
    }
}
