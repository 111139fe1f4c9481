//! The two ends of a large list, beside its tree.
//!
//! A push or pop at an end of a list does not go down its tree: the end is a run of its own, no
//! larger than a leaf, and costs the same whatever the size of the list. A full run becomes a leaf;
//! when an element is popped from an empty run, the outermost leaf becomes a run. A change within a
//! run moves the run into the tree first.
//!
//! Invariants
//! - E1: `starts` hold where the elements of `bytes` start. The innermost element comes first, so
//!   that at both ends of the list the outermost one is at the end of both.
//! - E2: an end is no larger than a leaf, unless it is a single element.
//! - E3: as T4: a shared end is copied before it is changed.

use std::sync::Arc;

use super::node::own;
use super::{LEAF_BYTES_MAX, Order, Seek, Tree, is_vec_sparse, move_vec};
use crate::collection::chunk::Chunk;
use crate::collection::packed::{Element, Run, Shape};
use crate::hash::Hasher;

/// An end of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Front,
    Back,
}

/// Both ends of a list. Cloning them shares them.
#[derive(Clone, Default)]
pub(crate) struct Ends {
    front: Arc<End>,
    back: Arc<End>,
    /// As for a tree: bytes of ends that were left to others.
    parted: usize,
}

/// Elements at one end.
#[derive(Clone, Default)]
struct End {
    bytes: Vec<u8>,
    starts: Vec<u32>,
}

impl Ends {
    fn end(&self, side: Side) -> &End {
        match side {
            Side::Front => &self.front,
            Side::Back => &self.back,
        }
    }

    /// An end, for a change.
    fn end_mut(&mut self, side: Side) -> &mut End {
        let end = match side {
            Side::Front => &mut self.front,
            Side::Back => &mut self.back,
        };
        if Arc::strong_count(end) > 1 {
            self.parted += end.bytes();
            #[cfg(test)]
            super::sharing::note_copy(end.bytes());
        }
        own(end)
    }

    /// Moves an end that nobody else holds to other memory, if its own is sparse.
    pub(crate) fn move_end(&mut self, side: Side, is_sparse: &dyn Fn(*const u8) -> bool) -> bool {
        let shared = match side {
            Side::Front => &mut self.front,
            Side::Back => &mut self.back,
        };
        let is_end_sparse = is_sparse(Arc::as_ptr(shared).cast())
            || is_vec_sparse(&shared.bytes, is_sparse)
            || is_vec_sparse(&shared.starts, is_sparse);
        let Some(end) = Arc::get_mut(shared).filter(|_| is_end_sparse) else { return false };
        let mut moved = std::mem::take(end);
        move_vec(&mut moved.bytes);
        move_vec(&mut moved.starts);
        *shared = Arc::new(moved);
        true
    }

    /// How many elements there are at an end.
    pub(crate) fn len(&self, side: Side) -> usize {
        self.end(side).starts.len()
    }

    /// Bytes of both, shared ones counted in full.
    pub(crate) fn bytes(&self) -> usize {
        self.front.bytes() + self.back.bytes()
    }

    /// See [`Tree::take_parted`].
    pub(crate) fn take_parted(&mut self) -> usize {
        std::mem::take(&mut self.parted)
    }

    /// The element of an end before which there are `at` of it in the list.
    #[inline]
    pub(crate) fn get(&self, side: Side, at: usize) -> Option<Element<'_>> {
        let end = self.end(side);
        match side {
            Side::Front => end.get(end.starts.len().checked_sub(at + 1)?),
            Side::Back => end.get(at),
        }
    }

    /// Makes an element the outermost one.
    pub(crate) fn push(
        &mut self,
        side: Side,
        element: Element<'_>,
        tree: &mut Tree,
        hasher: &Hasher,
    ) {
        if !self.end(side).has_room(element) {
            self.stow(side, tree, hasher);
        }
        self.end_mut(side).push(element);
    }

    /// Removes at most `count` of an end's outermost elements; returns how many.
    pub(crate) fn pop(&mut self, side: Side, count: usize) -> usize {
        let count = count.min(self.len(side));
        if count > 0 {
            self.end_mut(side).pop(count);
        }
        count
    }

    /// Moves the elements of an end into the tree.
    pub(crate) fn stow(&mut self, side: Side, tree: &mut Tree, hasher: &Hasher) {
        let count = self.len(side);
        if count == 0 {
            return;
        }
        let run = self.end_mut(side).take(side);
        let at = if side == Side::Front { 0 } else { tree.len() };
        let (beside, _) = tree.leaf_at(at);
        let fits = beside.count + count <= Order::Position.leaf_max()
            && beside.bytes.len() + run.len() <= LEAF_BYTES_MAX;
        if fits || beside.count == 0 {
            tree.edit(Seek::Rank(at), hasher, &mut |leaf, index| {
                leaf.insert_run(index, &run, count);
                index
            });
        } else {
            tree.add_leaf(side, Chunk::from_bytes(run, count), hasher);
        }
    }

    /// Fills an end, which is usually empty, with the outermost leaf of the tree, or without one
    /// with half of the other end.
    pub(crate) fn draw(&mut self, side: Side, tree: &mut Tree, hasher: &Hasher) {
        if self.len(side) > 0 {
            return;
        }
        let drawn = if let Some(last) = tree.len().checked_sub(1) {
            let at = if side == Side::Front { 0 } else { last };
            let (leaf, _) = tree.leaf_at(at);
            if leaf.count > 1 && leaf.bytes.len() > LEAF_BYTES_MAX {
                return; // E2; the tree alone knows how to take such a leaf apart
            }
            let mut run = Vec::new();
            tree.edit(Seek::Rank(at), hasher, &mut |leaf, _| {
                run = leaf.take();
                0
            });
            let drawn = End::from_bytes(run);
            let turn = side == Side::Front && drawn.starts.len() > 1;
            if turn { drawn.turned() } else { drawn }
        } else {
            let other = if side == Side::Front { Side::Back } else { Side::Front };
            let half = self.len(other).div_ceil(2);
            self.end_mut(other).take_inner(half).turned()
        };
        *self.end_mut(side) = drawn;
    }

    /// Asserts the invariants.
    #[cfg(test)]
    pub(crate) fn check(&self) {
        for end in [&self.front, &self.back] {
            assert_eq!(End::from_bytes(end.bytes.clone()).starts, end.starts, "E1");
            let fits = end.bytes.len() <= LEAF_BYTES_MAX;
            assert!(end.starts.len() <= Order::Position.leaf_max(), "E2");
            assert!(fits || end.starts.len() == 1, "E2");
        }
    }
}

impl End {
    /// The elements of a run, the first one innermost.
    fn from_bytes(bytes: Vec<u8>) -> Self {
        let mut end = Self { bytes, starts: Vec::new() };
        let mut start = 0;
        for element in Run::new(&end.bytes, Shape::Single) {
            end.starts.push(start as u32);
            start += element.packed_len(Shape::Single);
        }
        end
    }

    /// The same elements, the last one innermost.
    fn turned(&self) -> Self {
        let mut turned = Self {
            bytes: Vec::with_capacity(self.bytes.len()),
            starts: Vec::with_capacity(self.starts.len()),
        };
        let mut end = self.bytes.len();
        for &start in self.starts.iter().rev() {
            turned.starts.push(turned.bytes.len() as u32);
            turned.bytes.extend_from_slice(&self.bytes[start as usize..end]);
            end = start as usize;
        }
        turned
    }

    /// Bytes that it takes.
    fn bytes(&self) -> usize {
        16 + size_of::<Self>() + self.bytes.capacity() + size_of::<u32>() * self.starts.capacity()
    }

    /// The element so many places from the innermost one.
    #[inline]
    fn get(&self, at: usize) -> Option<Element<'_>> {
        let start = *self.starts.get(at)? as usize;
        Run::new(&self.bytes[start..], Shape::Single).next()
    }

    /// Whether it is no larger than a leaf with one more element, or has no other.
    fn has_room(&self, element: Element<'_>) -> bool {
        self.starts.is_empty()
            || self.starts.len() < Order::Position.leaf_max()
                && self.bytes.len() + element.packed_len(Shape::Single) <= LEAF_BYTES_MAX
    }

    fn push(&mut self, element: Element<'_>) {
        let start = self.bytes.len();
        let end = start + element.packed_len(Shape::Single);
        if end > self.bytes.capacity() {
            // Less reserve than doubling leaves, but no more than a leaf needs.
            let room = (end + end / 2).min(LEAF_BYTES_MAX).max(end);
            self.bytes.reserve_exact(room - start);
        }
        self.bytes.resize(end, 0);
        element.write(Shape::Single, &mut self.bytes[start..]);
        self.starts.push(start as u32);
    }

    /// Removes the `count` outermost elements, which exist.
    fn pop(&mut self, count: usize) {
        let left = self.starts.len() - count;
        if let Some(&start) = self.starts.get(left) {
            self.bytes.truncate(start as usize);
        }
        self.starts.truncate(left);
        self.give_back();
    }

    /// Takes the `count` innermost elements out, which exist.
    fn take_inner(&mut self, count: usize) -> Self {
        let end = self.starts.get(count).map_or(self.bytes.len(), |&start| start as usize);
        let bytes = self.bytes.drain(..end).collect();
        let starts = self.starts.drain(..count).collect();
        self.starts.iter_mut().for_each(|start| *start -= end as u32);
        self.give_back();
        Self { bytes, starts }
    }

    /// Removes all elements, and returns their run in the order of the list.
    fn take(&mut self, side: Side) -> Vec<u8> {
        let run = if self.starts.len() == 1 && self.bytes.len() > LEAF_BYTES_MAX {
            std::mem::take(&mut self.bytes) // a long element needs no copy
        } else if side == Side::Front {
            self.turned().bytes
        } else {
            self.bytes.clone() // of its length: the end keeps its reserve
        };
        self.bytes.clear();
        self.starts.clear();
        run
    }

    /// Gives memory back that only elements longer than a leaf take.
    fn give_back(&mut self) {
        if self.bytes.capacity() > LEAF_BYTES_MAX && self.bytes.len() <= LEAF_BYTES_MAX {
            self.bytes.shrink_to(LEAF_BYTES_MAX);
        }
    }
}
