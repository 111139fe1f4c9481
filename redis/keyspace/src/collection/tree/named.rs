//! Elements of a tree by hash under their names, and of a tree by rank.

use super::{Seek, Tree};
use crate::collection::chunk::Chunk;
use crate::collection::packed::{Element, Key, Run};
use crate::hash::Hasher;

impl Tree {
    /// The value under a name in a tree by hash.
    pub(crate) fn find_named(&self, hasher: &Hasher, name: &[u8]) -> Option<&[u8]> {
        let (leaf, _) = self.leaf_of(Key::of_name(hasher, name));
        leaf.find_key(self.shape, name).1.map(|element| element.value)
    }

    /// The value under a name in a tree by hash, for overwriting: if it exists, and nobody else
    /// holds a node on the path to it.
    pub(crate) fn named_mut(&mut self, hasher: &Hasher, name: &[u8]) -> Option<&mut [u8]> {
        self.value_mut(Key::of_name(hasher, name), name)
    }

    /// Sets the value under a name in a tree by hash; true if the name is new.
    pub(crate) fn put_named(&mut self, hasher: &Hasher, element: Element<'_>) -> bool {
        let (mut is_new, shape) = (false, self.shape);
        self.edit(Seek::Key(Key::of_name(hasher, element.key)), hasher, &mut |leaf, _| {
            is_new = leaf.put(shape, element);
            0
        });
        is_new
    }

    /// Removes a name from a tree by hash; false if it was not there.
    pub(crate) fn remove_named(&mut self, hasher: &Hasher, name: &[u8]) -> bool {
        let (mut was_there, shape) = (false, self.shape);
        self.edit(Seek::Key(Key::of_name(hasher, name)), hasher, &mut |leaf, _| {
            was_there = leaf.remove_key(shape, name);
            0
        });
        was_there
    }

    /// Puts an element, which is not there, into a tree by rank.
    pub(crate) fn insert_ranked(&mut self, hasher: &Hasher, element: Element<'_>) {
        self.enter(hasher, element, Chunk::insert_ranked);
    }

    /// As [`insert_ranked`](Self::insert_ranked), for an element that mostly comes last.
    pub(crate) fn append_ranked(&mut self, hasher: &Hasher, element: Element<'_>) {
        self.enter(hasher, element, Chunk::append_ranked);
    }

    #[inline]
    fn enter(
        &mut self,
        hasher: &Hasher,
        element: Element<'_>,
        insert: impl Fn(&mut Chunk, Element<'_>) -> usize,
    ) {
        let key = element.rank_key();
        if !self.step_in(key, element, &insert) {
            self.edit(Seek::Key(key), hasher, &mut |leaf, _| insert(leaf, element));
        }
    }

    /// The first element of a leaf's from a key on, in a tree by rank: the element that begins with
    /// the key, if there is one and no other.
    pub(crate) fn at_key(&self, key: Key<'_>) -> Option<Element<'_>> {
        let (leaf, _) = self.leaf_of(key);
        let index = leaf.below_at_ends(key);
        let start = leaf.span(self.shape, index).bytes.start;
        Run::new(leaf.bytes.get(start..)?, self.shape).next()
    }

    /// Removes the elements under a head from a tree by rank, leaf by leaf.
    pub(crate) fn remove_under(&mut self, hasher: &Hasher, head: u64) {
        let (start, shape) = (self.below(Key { head, tail: &[] }), self.shape);
        let mut left = self.below(Key { head: head + 1, tail: &[] }) - start;
        while left > 0 {
            self.edit(Seek::Rank(start), hasher, &mut |leaf, index| {
                left -= leaf.remove_range(shape, index, left);
                index
            });
        }
    }

    /// Removes from a tree by rank the elements under a head that begin with these keys, leaf by
    /// leaf, and hands each to `removed`. The keys come in order, and at most one element begins
    /// with each.
    pub(crate) fn remove_each<'k>(
        &mut self,
        hasher: &Hasher,
        head: u64,
        keys: impl Iterator<Item = &'k [u8]>,
        mut removed: impl FnMut(Element<'_>),
    ) {
        let (mut keys, shape) = (keys.peekable(), self.shape);
        while let Some(&first) = keys.peek() {
            let before = self.len;
            self.edit(Seek::Key(Key { head, tail: first }), hasher, &mut |leaf, _| {
                leaf.retain(shape, |element| {
                    if element.head != head {
                        return true;
                    }
                    let begins = |key: &&[u8]| element.key.starts_with(key);
                    while keys.next_if(|key| *key < element.key && !begins(key)).is_some() {}
                    let goes = keys.next_if(begins).is_some();
                    if goes {
                        removed(element);
                    }
                    !goes
                });
                0
            });
            if self.len == before {
                keys.next(); // there is no such element
            }
        }
    }

    /// Removes an element, which is there, from a tree by rank.
    pub(crate) fn remove_ranked(&mut self, hasher: &Hasher, element: Element<'_>) {
        let (key, shape) = (element.rank_key(), self.shape);
        if self.step_out_exactly(key, element) {
            return;
        }
        self.edit(Seek::Key(key), hasher, &mut |leaf, _| {
            let index = leaf.below(element.rank_key());
            leaf.remove_range(shape, index, 1);
            0
        });
    }
}
