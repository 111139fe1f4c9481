//! Prefetching for a batch of lookups in one large collection: the paths to its elements do not
//! depend on each other, so their walks overlap.

use std::hint::black_box;

use super::packed::{Key, score_head};
use super::tree::{BATCH, Tree};
use super::trunk::Trunk;

/// An element that a request names.
#[derive(Debug, Clone, Copy, Default)]
pub struct Named<'a> {
    /// The field of a hash, the member of a set.
    pub name: &'a [u8],
    /// The member of a sorted set.
    pub member: &'a [u8],
    /// Its new score, if known.
    pub score: Option<f64>,
}

impl Trunk {
    /// Brings into the caches what lookups of these elements will touch.
    pub(crate) fn warm(&self, named: &[Named<'_>]) {
        let tree = self.members.as_ref().unwrap_or(&self.main);
        let is_sorted = self.members.is_some();
        let mut names = [&[][..]; BATCH];
        let mut keys = [Key { head: 0, tail: &[] }; BATCH];
        for ((name, key), it) in names.iter_mut().zip(&mut keys).zip(named) {
            *name = if is_sorted { it.member } else { it.name };
            *key = Key::of_name(&self.hasher, name);
        }
        let leaves = tree.leaves_of(&keys[..named.len()]);
        let leaves = || leaves.iter().flatten().zip(&names[..named.len()]);
        black_box(leaves().fold(0, |sum, (leaf, _)| sum ^ leaf.count));
        black_box(leaves().fold(0, |sum, (leaf, name)| sum ^ leaf.glance(name)));
        if !is_sorted {
            return;
        }
        // The member's place in the order, before and after.
        let (mut old, mut new) = ([0; BATCH], [0; BATCH]);
        for (at, (leaf, name)) in leaves().enumerate() {
            let found = leaf.find_key(tree.shape, name).1;
            old[at] = found.map_or(0, |found| found.head);
            let score = named[at].score;
            new[at] = score.map_or(old[at], score_head);
        }
        for heads in [old, new] {
            for ((key, head), it) in keys.iter_mut().zip(heads).zip(named) {
                *key = Key { head, tail: it.member };
            }
            warm_order(&self.main, &keys[..named.len()]);
        }
    }
}

fn warm_order(tree: &Tree, keys: &[Key<'_>]) {
    let leaves = tree.leaves_of(keys);
    black_box(leaves.iter().flatten().fold(0, |sum, leaf| sum ^ leaf.count));
    black_box(leaves.iter().flatten().fold(0, |sum, leaf| sum ^ leaf.glance_all()));
}
