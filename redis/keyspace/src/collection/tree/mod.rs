//! The counted B+tree that every large collection is made of.
//!
//! R. Bayer, E. McCreight, "Organization and maintenance of large ordered indexes", Acta
//! Informatica 1, 1972 (B-trees); J. R. Driscoll, N. Sarnak, D. D. Sleator, R. E. Tarjan, "Making
//! data structures persistent", JCSS 1989 (path copying).
//!
//! Elements lie in leaves, packed ([`Chunk`]); an inner node knows of each child how many elements
//! are below it and the least key that belongs there. Nodes are reference-counted: a collection
//! that an image sees, or a copy of it, shares all its nodes, and an edit first copies the shared
//! nodes on its path. So an image costs nothing to begin, and a write during it copies one path,
//! whatever the size of the collection.
//!
//! | order | elements are found by | inside a leaf |
//! |---|---|---|
//! | `Position` (lists) | their position | in order |
//! | `Rank` (sorted sets) | score, then member | in order |
//! | `Hash` (hashes, sets) | a keyed hash of 48 bits | in no order |
//!
//! In the order by hash a cursor of SCAN is a hash: everything below it was shown, however the tree
//! changes in between. A leaf is not sorted by hash, since computing hashes takes longer than
//! reading some dozen elements; only splitting a leaf computes them.
//!
//! Invariants
//! - T1: a child's `len` is the number of elements below it; all leaves are at one depth.
//! - T2: `low` of a child is at most every key below it, and more than every key below the child
//!   before it. `low` of the first child means nothing: lesser keys belong there, too.
//! - T3: no node is empty (except a tree's only leaf), or overfull unless it cannot be split. A
//!   node that shrinks is merged with a neighbour if both fit into three quarters of a node; so two
//!   neighbours take more than half a node together (leaves where elements are of like length).
//! - T4: a node is changed only through [`node::own`] or [`node::alone`], which never give a shared
//!   one.
//! - T5: `times` of a child are the least and the greatest deadline below it.
//!
//! Costs, n elements: find, insert, remove, rank: O(log n) nodes of at most 4 KiB (or one element).

#[cfg(test)]
mod check;
mod due;
mod edit;
mod ends;
mod named;
mod node;
#[cfg(test)]
mod sharing;
mod step;

use std::sync::Arc;

use crate::collection::chunk::{self, Chunk};
use crate::collection::packed::{Element, Key, Shape};
use crate::hash::Hasher;
pub(crate) use ends::{Ends, Side};
use node::{Node, alone};

/// Most bytes in a leaf of more than one element.
const LEAF_BYTES_MAX: usize = if cfg!(miri) { 256 } else { 4096 };
/// Longest text that moves to other memory: above, the allocator gives each its own.
pub(crate) const MOVED_BYTES_MAX: usize = 128 << 10;
/// Most children of an inner node.
const FANOUT: usize = if cfg!(any(test, miri)) { 4 } else { 32 };

/// Keys whose walks overlap.
pub(crate) const BATCH: usize = 16;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    Position,
    Hash,
    Rank,
}

impl Order {
    /// Most elements in a leaf: few where lookups compare them; where lookups count them, so many
    /// that a node's own bytes are a small share.
    fn leaf_max(self) -> usize {
        match self {
            _ if cfg!(any(test, miri)) => 8,
            Self::Position => 128,
            Self::Hash | Self::Rank => chunk::ROOM - 1,
        }
    }
}

impl Key<'static> {
    /// Where a field or member belongs in a tree by hash.
    #[inline]
    pub(crate) fn of_name(hasher: &Hasher, name: &[u8]) -> Self {
        Self { head: hasher.hash(name), tail: &[] }
    }
}

/// Where to change a tree.
#[derive(Clone, Copy)]
pub(crate) enum Seek<'a> {
    Rank(usize),
    Key(Key<'a>),
}

#[derive(Clone)]
pub(crate) struct Tree {
    root: Node,
    len: usize,
    bytes: usize,
    /// See [`take_parted`](Self::take_parted).
    parted: usize,
    /// Whether elements may have deadlines.
    timed: bool,
    pub(crate) shape: Shape,
    pub(crate) order: Order,
}

impl Tree {
    pub(crate) fn new(shape: Shape, order: Order) -> Self {
        let root = if order == Order::Position { Chunk::default() } else { Chunk::indexed() };
        let root = Node::Leaf(Arc::new(root));
        Self { bytes: root.bytes(), root, len: 0, parted: 0, timed: false, shape, order }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Bytes of all its nodes, shared ones counted in full.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Removes all elements, and leaves shared nodes to their other holders.
    pub(crate) fn clear(&mut self) {
        let parted = self.parted + self.root.shared_bytes(false);
        *self = Self { parted, ..Self::new(self.shape, self.order) };
    }

    /// Bytes of shared nodes that it has left to their other holders since the last call, because
    /// it has copies of its own or needs them no more.
    pub(crate) fn take_parted(&mut self) -> usize {
        std::mem::take(&mut self.parted)
    }

    /// The leaf with element `rank`, and how many elements come before it there; the last leaf, if
    /// there is no such element.
    pub(crate) fn leaf_at(&self, rank: usize) -> (&Chunk, usize) {
        let (mut node, mut rank) = (&self.root, rank);
        loop {
            match node {
                Node::Leaf(leaf) => return (leaf, rank),
                Node::Inner(inner) => {
                    let (at, within) = inner.child_of_rank(rank);
                    (node, rank) = (inner.node(at), within);
                }
            }
        }
    }

    /// The leaf where `key` belongs, and the head of the least key beyond it, if there is more.
    #[inline]
    pub(crate) fn leaf_of(&self, key: Key<'_>) -> (&Chunk, Option<u64>) {
        let (mut node, mut beyond) = (&self.root, None);
        loop {
            match node {
                Node::Leaf(leaf) => return (leaf, beyond),
                Node::Inner(inner) => {
                    let at = inner.child_of_key(key);
                    beyond = inner.head(at + 1).or(beyond);
                    node = inner.node(at);
                }
            }
        }
    }

    /// The leaves where keys belong. The walks go level by level together, so that their waits for
    /// memory overlap.
    pub(crate) fn leaves_of(&self, keys: &[Key<'_>]) -> [Option<&Chunk>; BATCH] {
        let mut nodes = [&self.root; BATCH];
        while !keys.is_empty() && matches!(nodes[0], Node::Inner(_)) {
            for (node, key) in nodes.iter_mut().zip(keys) {
                if let Node::Inner(inner) = node {
                    *node = inner.node(inner.child_of_key(*key));
                }
            }
        }
        nodes.map(|node| match node {
            Node::Leaf(leaf) => Some(&**leaf),
            Node::Inner(_) => None,
        })
    }

    /// How many elements of a tree by rank are less than `key`.
    pub(crate) fn below(&self, key: Key<'_>) -> usize {
        let (mut node, mut before) = (&self.root, 0);
        loop {
            match node {
                Node::Leaf(leaf) => return before + leaf.below(key),
                Node::Inner(inner) => {
                    let at = inner.child_of_key(key);
                    before += inner.lens()[..at].iter().sum::<usize>();
                    node = inner.node(at);
                }
            }
        }
    }

    /// The value under a name that belongs at `key`, for overwriting: if it exists, and nobody else
    /// holds a node on the path to it (T4). Unlike an [`edit`](Self::edit) this needs no way back.
    #[inline]
    pub(crate) fn value_mut(&mut self, key: Key<'_>, name: &[u8]) -> Option<&mut [u8]> {
        let shape = self.shape;
        self.leaf_mut(key)?.value_mut(shape, name)
    }

    /// As [`value_mut`](Self::value_mut), sets the head of a name that belongs at `key`, if the new
    /// one takes the same room; returns the old one.
    #[inline]
    pub(crate) fn set_head(&mut self, key: Key<'_>, element: Element<'_>) -> Option<u64> {
        self.leaf_mut(key)?.set_head(element)
    }

    /// Moves the leaf with element `rank`, which exists, to other memory if its own is sparse, and
    /// nobody else holds it. Returns the rank behind it, and whether it was moved. Elements below a
    /// shared node are passed together.
    pub(crate) fn move_leaf(
        &mut self,
        rank: usize,
        is_sparse: &dyn Fn(*const u8) -> bool,
    ) -> (usize, bool) {
        let (mut node, mut len, mut within) = (&mut self.root, self.len, rank);
        loop {
            let next = rank + len - within;
            match node {
                Node::Leaf(leaf) => return (next, move_chunk(leaf, is_sparse)),
                Node::Inner(inner) => {
                    let Some(inner) = Arc::get_mut(inner) else { return (next, false) };
                    let at;
                    (at, within) = inner.child_of_rank(within);
                    len = inner.lens()[at];
                    node = inner.node_mut(at);
                }
            }
        }
    }

    #[inline]
    fn leaf_mut(&mut self, key: Key<'_>) -> Option<&mut Chunk> {
        let mut node = &mut self.root;
        loop {
            match node {
                Node::Leaf(leaf) => return alone(leaf),
                Node::Inner(inner) => {
                    let inner = alone(inner)?;
                    node = inner.node_mut(inner.child_of_key(key));
                }
            }
        }
    }
}

/// Moves a leaf that nobody else holds to other memory, if its own is sparse.
fn move_chunk(leaf: &mut Arc<Chunk>, is_sparse: &dyn Fn(*const u8) -> bool) -> bool {
    let bytes_are_sparse = is_vec_sparse(&leaf.bytes, is_sparse);
    if !bytes_are_sparse && !is_sparse(Arc::as_ptr(leaf).cast()) {
        return false;
    }
    let Some(chunk) = Arc::get_mut(leaf) else { return false };
    let mut moved = std::mem::take(chunk);
    move_vec(&mut moved.bytes);
    *leaf = Arc::new(moved);
    true
}

/// Whether the memory of a vector is sparse, and the vector is short enough to move.
fn is_vec_sparse<T>(vec: &Vec<T>, is_sparse: &dyn Fn(*const u8) -> bool) -> bool {
    let bytes = vec.capacity() * size_of::<T>();
    bytes > 0 && bytes <= MOVED_BYTES_MAX && is_sparse(vec.as_ptr().cast())
}

/// Moves a vector to other memory, unless it is long.
fn move_vec<T: Copy>(vec: &mut Vec<T>) {
    if vec.capacity() * size_of::<T>() <= MOVED_BYTES_MAX {
        let mut moved = Vec::with_capacity(vec.capacity());
        moved.extend_from_slice(vec);
        *vec = moved;
    }
}
