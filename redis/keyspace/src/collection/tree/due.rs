//! Elements whose deadline has come, in a tree by hash.
//!
//! Each inner node knows the least deadline below each of its children (T5), so the next element
//! that is due is found on one path, and those that are due are counted without a look at others.

use super::Tree;
use super::node::Node;
use crate::collection::packed::{Element, NEVER, Shape};

impl Tree {
    /// The least deadline of its elements, or [`NEVER`].
    pub(crate) fn soonest(&self) -> i64 {
        if self.timed { self.root.soonest(self.shape) } else { NEVER }
    }

    /// Whether some element has a deadline.
    pub(crate) fn is_timed(&self) -> bool {
        self.timed
    }

    /// An element with a deadline is about to come in.
    pub(crate) fn expect_deadline(&mut self) {
        self.timed = true;
    }

    /// An element whose deadline has come.
    pub(crate) fn due(&self, now: i64) -> Option<Element<'_>> {
        if !self.timed {
            return None;
        }
        let mut node = &self.root;
        loop {
            match node {
                Node::Leaf(leaf) => {
                    return leaf.run(self.shape).find(|element| element.deadline <= now).1;
                }
                Node::Inner(inner) => {
                    let at = (0..inner.count()).find(|&at| inner.soonest(at) <= now)?;
                    node = inner.node(at);
                }
            }
        }
    }

    /// How many elements are due: O(these, log n).
    pub(crate) fn count_due(&self, now: i64) -> usize {
        if self.timed { count_due(&self.root, self.shape, now) } else { 0 }
    }
}

fn count_due(node: &Node, shape: Shape, now: i64) -> usize {
    match node {
        Node::Leaf(leaf) => leaf.run(shape).count_due(now),
        Node::Inner(inner) => {
            let due = (0..inner.count()).filter(|&at| inner.soonest(at) <= now);
            due.map(|at| count_due(inner.node(at), shape, now)).sum()
        }
    }
}
