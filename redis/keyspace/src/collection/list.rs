//! Large lists: a tree by position, between two ends (see [`crate::collection::tree::Ends`]).

use crate::collection::chunk::Chunk;
use crate::collection::packed::Element;
use crate::collection::tree::{Ends, Seek, Side, Tree};
use crate::collection::trunk::Trunk;
use crate::hash::Hasher;

/// Where an element of a large collection lies.
pub(crate) enum Spot<'a> {
    /// In a leaf, behind this many others.
    Leaf(&'a Chunk, usize),
    End(Element<'a>),
}

impl Trunk {
    /// The place of the element at a rank or position, which exists.
    #[inline]
    pub(crate) fn spot(&self, rank: usize) -> Spot<'_> {
        let mut rank = rank;
        if let Some(ends) = &self.ends {
            if let Some(element) = ends.get(Side::Front, rank) {
                return Spot::End(element);
            }
            rank -= ends.len(Side::Front);
            if let Some(behind) = rank.checked_sub(self.main.len())
                && let Some(element) = ends.get(Side::Back, behind)
            {
                return Spot::End(element);
            }
        }
        let (leaf, within) = self.main.leaf_at(rank);
        Spot::Leaf(leaf, within)
    }

    fn ends(&mut self) -> (&mut Ends, &mut Tree, &Hasher) {
        let ends = self.ends.as_mut().expect("a list has ends");
        (ends, &mut self.main, &self.hasher)
    }

    /// Puts an element of a list before position `at`.
    pub(crate) fn insert_at(&mut self, at: usize, element: Element<'_>) {
        let side = match at {
            0 => Side::Front,
            at if at == self.len() => Side::Back,
            _ => return self.insert_within(at, element),
        };
        let (ends, tree, hasher) = self.ends();
        ends.push(side, element, tree, hasher);
    }

    fn insert_within(&mut self, at: usize, element: Element<'_>) {
        let (at, shape) = (self.position_in_tree(at, at), self.main.shape);
        self.main.edit(Seek::Rank(at), &self.hasher, &mut |leaf, index| {
            leaf.insert(leaf.span(shape, index), shape, element);
            index
        });
    }

    /// Replaces the element at a position of a list, which exists.
    pub(crate) fn replace_at(&mut self, at: usize, element: Element<'_>) {
        let (at, shape) = (self.position_in_tree(at, at + 1), self.main.shape);
        self.main.edit(Seek::Rank(at), &self.hasher, &mut |leaf, index| {
            leaf.replace(leaf.span(shape, index), shape, element);
            index
        });
    }

    /// The position in the tree of position `start` in a list, after moving the elements from there
    /// to `end` into the tree.
    fn position_in_tree(&mut self, start: usize, end: usize) -> usize {
        let (ends, tree, hasher) = self.ends();
        if start < ends.len(Side::Front) {
            ends.stow(Side::Front, tree, hasher);
        }
        let before = ends.len(Side::Front);
        if end > before + tree.len() {
            ends.stow(Side::Back, tree, hasher);
        }
        start - before
    }

    /// Of the `count` elements from `start` on, which exist, removes those at the ends of a list;
    /// returns the others as positions in the tree.
    pub(crate) fn remove_at_ends(&mut self, start: usize, count: usize) -> (usize, usize) {
        if self.ends.is_none() || count == 0 {
            return (start, count);
        }
        let (mut left, is_last) = (count, start + count == self.len());
        let (ends, tree, hasher) = self.ends();
        for (side, is_there) in [(Side::Front, start == 0), (Side::Back, is_last)] {
            if is_there && left > 0 {
                if count == 1 {
                    ends.draw(side, tree, hasher);
                }
                left -= ends.pop(side, left);
            }
        }
        if left == 0 {
            return (0, 0);
        }
        (self.position_in_tree(start, start + left), left)
    }
}
