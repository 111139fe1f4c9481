//! Elements whose deadline has come, in a tree by hash.
//!
//! Each inner node knows the least and the greatest deadline below each of its children (T5). So an
//! element that is due, or one that is not, is found on one path, and what lies below a node of one
//! kind alone is counted, or passed, without a look at it.

use super::Tree;
use super::node::{Inner, Node};
use crate::collection::chunk::Chunk;
use crate::collection::mistakes::Mutant;
use crate::collection::packed::{Element, NEVER, Shape};

impl Tree {
    /// The least deadline of its elements, or [`NEVER`].
    pub(crate) fn soonest(&self) -> i64 {
        if self.timed { self.root.times(self.shape).soonest } else { NEVER }
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
                    let at = (0..inner.count()).find(|&at| inner.times(at).soonest <= now)?;
                    node = inner.node(at);
                }
            }
        }
    }

    /// How many elements are due. It visits the nodes that have elements of both kinds, at most
    /// `nodes` of them; of others it counts none.
    pub(crate) fn count_due(&self, now: i64, nodes: usize) -> usize {
        if self.timed { count_due(&self.root, self.shape, now, &mut { nodes }) } else { 0 }
    }

    /// The first leaf that ends behind element `rank` and in which not all elements are due, and
    /// the rank where it begins.
    pub(crate) fn leaf_after(&self, now: i64, rank: usize) -> Option<(usize, &Chunk)> {
        leaf_after(&self.root, now, rank)
    }

    /// An element that is not due, by `below(n)`, which gives a number less than n: any child with
    /// such elements is as likely as the others. O(log n).
    pub(crate) fn random_after(
        &self,
        now: i64,
        below: &mut dyn FnMut(usize) -> usize,
    ) -> Option<Element<'_>> {
        let mut node = &self.root;
        loop {
            match node {
                Node::Leaf(leaf) => return leaf.run(self.shape).random_after(now, below),
                Node::Inner(inner) => {
                    let mut children = (0..inner.count()).filter(|&at| shows(inner, at, now));
                    let count = children.clone().count();
                    let at = if count == 0 { None } else { children.nth(below(count)) };
                    node = inner.node(at?);
                }
            }
        }
    }
}

/// Whether not all elements below a child are due.
fn shows(inner: &Inner, at: usize, now: i64) -> bool {
    let times = inner.times(at);
    times.latest > now && !(Mutant::SkipsMixed.is_made() && times.soonest <= now)
}

fn count_due(node: &Node, shape: Shape, now: i64, nodes: &mut usize) -> usize {
    let Some(left) = nodes.checked_sub(1) else { return 0 };
    *nodes = left;
    let inner = match node {
        Node::Leaf(leaf) => return leaf.run(shape).count_due(now),
        Node::Inner(inner) => inner,
    };
    let below = |at: usize| {
        let times = inner.times(at);
        let is_one_kind = times.latest <= now || Mutant::CountsWhole.is_made();
        match times.soonest <= now {
            true if is_one_kind => inner.lens()[at],
            true => count_due(inner.node(at), shape, now, nodes),
            false => 0,
        }
    };
    (0..inner.count()).map(below).sum()
}

fn leaf_after(node: &Node, now: i64, rank: usize) -> Option<(usize, &Chunk)> {
    let inner = match node {
        Node::Leaf(leaf) => return Some((0, leaf)),
        Node::Inner(inner) => inner,
    };
    let mut start = 0;
    for (at, &len) in inner.lens().iter().enumerate() {
        if start + len > rank
            && shows(inner, at, now)
            && let Some((within, leaf)) =
                leaf_after(inner.node(at), now, rank.saturating_sub(start))
        {
            return Some((start + within, leaf));
        }
        start += len;
    }
    None
}
