//! Reading a collection, small or large. The types in [`super::views`] wrap it for each kind of
//! value.

use crate::collection::list::Spot;
use crate::collection::packed::{Element, Key, NEVER, Run, Shape};
use crate::collection::trunk::Trunk;

/// A collection as it lies in an entry.
#[derive(Clone, Copy)]
pub(crate) struct Collection<'a> {
    pub(crate) form: Form<'a>,
    /// Whether it was ever beyond the limits of Redis's compact encodings (see [`crate::Limits`]).
    pub(crate) loose: bool,
    /// Whether some element has a deadline.
    pub(crate) timed: bool,
}

#[derive(Clone, Copy)]
pub(crate) enum Form<'a> {
    Packed { run: Run<'a>, count: usize },
    Tree(&'a Trunk),
}

impl<'a> Collection<'a> {
    pub(crate) fn len(self) -> usize {
        match self.form {
            Form::Packed { count, .. } => count,
            Form::Tree(trunk) => trunk.len(),
        }
    }

    /// The element at a rank or position; by hash, in any order that stays while nothing changes.
    pub(crate) fn at(self, rank: usize) -> Option<Element<'a>> {
        self.walk(rank).next()
    }

    /// The element with this key; not for lists.
    pub(crate) fn find(self, key: &[u8]) -> Option<Element<'a>> {
        match self.form {
            Form::Packed { run, .. } => run.find_key(key).1,
            Form::Tree(trunk) => trunk.find(key),
        }
    }

    /// The least deadline of its elements, or [`NEVER`].
    #[inline]
    pub(crate) fn soonest(self) -> i64 {
        match self.form {
            _ if !self.timed => NEVER,
            Form::Packed { run, .. } => run.times().soonest,
            Form::Tree(trunk) => trunk.main.soonest(),
        }
    }

    /// An element whose deadline has come.
    pub(crate) fn due(self, now: i64) -> Option<Element<'a>> {
        match self.form {
            _ if !self.timed => None,
            Form::Packed { run, .. } => run.find(|element| element.deadline <= now).1,
            Form::Tree(trunk) => trunk.main.due(now),
        }
    }

    /// How many elements are due; as [`Tree::count_due`](super::tree::Tree::count_due).
    pub(crate) fn count_due(self, now: i64, nodes: usize) -> usize {
        match self.form {
            _ if !self.timed => 0,
            Form::Packed { run, .. } => run.count_due(now),
            Form::Tree(trunk) => trunk.main.count_due(now, nodes),
        }
    }

    /// One of the elements that are not due; as
    /// [`Tree::random_after`](super::tree::Tree::random_after).
    pub(crate) fn random_after(
        self,
        now: i64,
        below: &mut dyn FnMut(usize) -> usize,
    ) -> Option<Element<'a>> {
        match self.form {
            Form::Packed { run, .. } => run.random_after(now, below),
            Form::Tree(trunk) => trunk.main.random_after(now, below),
        }
    }

    /// How many elements of a sorted set are less than `key`.
    pub(crate) fn below(self, key: Key<'_>) -> usize {
        match self.form {
            Form::Packed { run, .. } => run.find(|element| element.rank_key() >= key).0.index,
            Form::Tree(trunk) => trunk.main.below(key),
        }
    }

    /// The elements from a rank on.
    pub(crate) fn walk(self, rank: usize) -> Walk<'a> {
        match self.form {
            Form::Packed { run, .. } => {
                let start = run.span(rank).0.bytes.start;
                let run = Run::new(&run.rest[start..], run.shape);
                Walk { run, trunk: None, after: i64::MIN }
            }
            Form::Tree(trunk) => {
                let run = Run::new(&[], trunk.main.shape);
                Walk { run, trunk: Some((trunk, rank)), after: i64::MIN }
            }
        }
    }

    /// The elements from a rank on, without most of those that are due.
    pub(crate) fn walk_after(self, now: i64, rank: usize) -> Walk<'a> {
        Walk { after: if self.timed { now } else { i64::MIN }, ..self.walk(rank) }
    }

    /// The elements from a rank (or the last one) downwards.
    pub(crate) fn walk_back(self, rank: usize) -> WalkBack<'a> {
        let ahead = self.len().min(rank.saturating_add(1));
        WalkBack { collection: self, ahead, run: &[], starts: [0; STARTS], buffered: 0 }
    }

    /// Shows the elements from `cursor` on, at least `count` of them if there are as many; returns
    /// the next cursor, 0 at the end. An element that exists from the first call to the last is
    /// shown at least once. Not for lists.
    pub(crate) fn scan(self, cursor: u64, count: usize, mut show: impl FnMut(Element<'a>)) -> u64 {
        let trunk = match self.form {
            Form::Packed { run, .. } => {
                run.for_each(show);
                return 0;
            }
            Form::Tree(trunk) => trunk,
        };
        let tree = trunk.members.as_ref().unwrap_or(&trunk.main);
        let (mut cursor, mut shown) = (cursor, 0);
        loop {
            // A leaf that was merged since may begin below the cursor: shown twice, never missed.
            let (leaf, beyond) = tree.leaf_of(Key { head: cursor, tail: &[] });
            leaf.run(tree.shape).for_each(&mut show);
            shown += leaf.count;
            match beyond {
                None => return 0,
                Some(next) if shown >= count => return next,
                Some(next) => cursor = next,
            }
        }
    }

    fn shape(self) -> Shape {
        match self.form {
            Form::Packed { run, .. } => run.shape,
            Form::Tree(trunk) => trunk.main.shape,
        }
    }
}

/// Elements upwards. It allocates nothing: a forked child uses it.
#[derive(Clone, Copy)]
pub(crate) struct Walk<'a> {
    run: Run<'a>,
    /// Where to find more than the run: the rank behind it.
    trunk: Option<(&'a Trunk, usize)>,
    /// Leaves of which all elements are due by then are left out.
    after: i64,
}

impl<'a> Iterator for Walk<'a> {
    type Item = Element<'a>;

    #[inline]
    fn next(&mut self) -> Option<Element<'a>> {
        if let Some(element) = self.run.next() {
            return Some(element);
        }
        let (trunk, rank) = self.trunk.as_mut()?;
        if *rank >= trunk.len() {
            return None;
        }
        if self.after != i64::MIN {
            let (start, leaf) = trunk.main.leaf_after(self.after, *rank)?;
            let before = rank.saturating_sub(start);
            *rank = start + leaf.count;
            let start = leaf.span(trunk.main.shape, before).bytes.start;
            self.run = Run::new(&leaf.bytes[start..], trunk.main.shape);
            return self.run.next();
        }
        match trunk.spot(*rank) {
            Spot::End(element) => {
                *rank += 1;
                Some(element)
            }
            Spot::Leaf(leaf, within) => {
                *rank += leaf.count - within;
                let start = leaf.span(trunk.main.shape, within).bytes.start;
                self.run = Run::new(&leaf.bytes[start..], trunk.main.shape);
                self.run.next()
            }
        }
    }
}

/// How many places of elements a walk downwards buffers.
const STARTS: usize = if cfg!(any(test, miri)) { 4 } else { 64 };

/// Elements downwards. It allocates nothing.
#[derive(Clone, Copy)]
pub(crate) struct WalkBack<'a> {
    collection: Collection<'a>,
    /// Elements below those buffered.
    ahead: usize,
    run: &'a [u8],
    /// Where the buffered elements start in the run; the last one is next.
    starts: [u32; STARTS],
    buffered: usize,
}

impl<'a> WalkBack<'a> {
    /// Buffers the elements of one run before `ahead`, or shows the one at an end of a list.
    fn refill(&mut self) -> Option<Element<'a>> {
        let (run, last) = match self.collection.form {
            Form::Packed { run, .. } => (run.rest, self.ahead - 1),
            Form::Tree(trunk) => match trunk.spot(self.ahead - 1) {
                Spot::Leaf(leaf, within) => (&leaf.bytes[..], within),
                Spot::End(element) => {
                    self.ahead -= 1;
                    return Some(element);
                }
            },
        };
        let first = (last + 1).saturating_sub(STARTS);
        let shape = self.collection.shape();
        let mut start = Run::new(run, shape).span(first).0.bytes.start;
        for element in Run::new(&run[start..], shape).take(last + 1 - first) {
            self.starts[self.buffered] = start as u32;
            self.buffered += 1;
            start += element.packed_len(shape);
        }
        self.run = run;
        self.ahead -= self.buffered;
        None
    }
}

impl<'a> Iterator for WalkBack<'a> {
    type Item = Element<'a>;

    fn next(&mut self) -> Option<Element<'a>> {
        if self.buffered == 0 {
            if self.ahead == 0 {
                return None;
            }
            if let Some(element) = self.refill() {
                return Some(element);
            }
        }
        self.buffered -= 1;
        let start = self.starts[self.buffered] as usize;
        Run::new(&self.run[start..], self.collection.shape()).next()
    }
}
