//! Collections as readers see them: lists, hashes, sets and sorted sets.
//!
//! A view borrows its entry and costs nothing to make or copy. Reading allocates nothing, so that a
//! forked child may read. One element, by key, rank or position, costs O(log n), as in the
//! collection's [tree](crate::tree).

use std::fmt;

use crate::collection::form::{Collection, Form};
use crate::collection::packed::Key;
use crate::collection::packed::{Element, NEVER, score_head};

macro_rules! views {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy)]
        pub struct $name<'a>(pub(crate) Collection<'a>);

        impl $name<'_> {
            /// Elements in it.
            #[must_use]
            #[allow(clippy::len_without_is_empty, reason = "a key's collection is never empty")]
            pub fn len(self) -> usize {
                self.0.len()
            }
        }
    )*};
}

views! {
    /// A list.
    List;
    /// A set.
    Set;
    /// A sorted set: members with scores, ordered by score, then member.
    Sorted;
}

impl<'a> List<'a> {
    /// Whether it lies in one piece with its key.
    #[must_use]
    pub fn is_packed(self) -> bool {
        matches!(self.0.form, Form::Packed { .. })
    }

    /// The element at a position.
    #[must_use]
    pub fn get(self, at: usize) -> Option<&'a [u8]> {
        self.0.at(at).map(|element| element.key)
    }

    /// The elements from position `at` on.
    pub fn iter_from(self, at: usize) -> impl Iterator<Item = &'a [u8]> + 'a {
        self.0.walk(at).map(|element| element.key)
    }

    /// The elements from position `at` (or the last one) downwards.
    pub fn iter_back_from(self, at: usize) -> impl Iterator<Item = &'a [u8]> + 'a {
        self.0.walk_back(at).map(|element| element.key)
    }
}

/// A hash: fields with their values, and deadlines of those that expire.
#[derive(Clone, Copy)]
pub struct Hash<'a> {
    pub(crate) collection: Collection<'a>,
    /// Fields whose deadline has come by then are hidden. The least number if there are none.
    now: i64,
}

/// A field of a hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HashField<'a> {
    /// Its name.
    pub field: &'a [u8],
    /// Its value.
    pub value: &'a [u8],
    /// When it expires, in unix milliseconds.
    pub deadline: Option<i64>,
}

impl<'a> Hash<'a> {
    /// With all its fields.
    pub(crate) fn whole(collection: Collection<'a>) -> Self {
        Self { collection, now: i64::MIN }
    }

    /// As it is at an instant: without the fields whose deadline has come.
    #[inline]
    #[must_use]
    pub fn as_of(self, now: i64) -> Self {
        let now = if self.collection.soonest() <= now { now } else { i64::MIN };
        Self { now, ..self }
    }

    /// Whether fields are in memory whose deadline has come, and which are not shown.
    #[must_use]
    pub fn hides_fields(self) -> bool {
        self.now != i64::MIN
    }

    /// Fields in it.
    #[must_use]
    #[allow(clippy::len_without_is_empty, reason = "a key's collection is never empty")]
    pub fn len(self) -> usize {
        let hidden =
            if self.hides_fields() { self.collection.count_due(self.now, usize::MAX) } else { 0 };
        self.collection.len() - hidden
    }

    /// As [`len`](Self::len), in bounded time: of a large hash in which fields that are hidden lie
    /// among others, it may count some that are hidden.
    #[must_use]
    pub fn quick_len(self) -> usize {
        /// Nodes with fields of both kinds that are looked at: some thousand fields.
        const NODES: usize = if cfg!(any(test, miri)) { 16 } else { 64 };
        let hidden =
            if self.hides_fields() { self.collection.count_due(self.now, NODES) } else { 0 };
        self.collection.len() - hidden
    }

    /// Fields in memory, hidden ones too.
    #[must_use]
    pub fn len_with_hidden(self) -> usize {
        self.collection.len()
    }

    /// Whether Redis would keep it in its compact encoding; see [`crate::Limits`].
    #[must_use]
    pub fn is_packed(self) -> bool {
        !self.collection.loose
    }

    /// Whether a field has a deadline.
    #[must_use]
    pub fn has_deadlines(self) -> bool {
        self.soonest().is_some()
    }

    /// The least deadline of all its fields, in unix milliseconds.
    #[must_use]
    pub fn soonest(self) -> Option<i64> {
        Some(self.collection.soonest()).filter(|&deadline| deadline != NEVER)
    }

    fn find(self, field: &[u8]) -> Option<Element<'a>> {
        self.collection.find(field).filter(|element| element.deadline > self.now)
    }

    /// The value of a field.
    #[must_use]
    pub fn get(self, field: &[u8]) -> Option<&'a [u8]> {
        self.find(field).map(|element| element.value)
    }

    /// When a field expires, in unix milliseconds: never, too, if there is no such field.
    #[must_use]
    pub fn deadline(self, field: &[u8]) -> Option<i64> {
        self.find(field).map(|element| element.deadline).filter(|&deadline| deadline != NEVER)
    }

    /// Whether there is such a field.
    #[must_use]
    pub fn contains(self, field: &[u8]) -> bool {
        self.find(field).is_some()
    }

    /// All fields, in no order.
    pub fn fields(self) -> impl Iterator<Item = HashField<'a>> + Clone + 'a {
        self.fields_from(0)
    }

    /// Those of [`fields`](Self::fields) that lie from a rank of all in memory on.
    pub fn fields_from(self, rank: usize) -> impl Iterator<Item = HashField<'a>> + Clone + 'a {
        let walk = self.collection.walk_after(self.now, rank);
        let shown = walk.filter(move |element| element.deadline > self.now);
        shown.map(|element| HashField {
            field: element.key,
            value: element.value,
            deadline: Some(element.deadline).filter(|&deadline| deadline != NEVER),
        })
    }

    /// All fields with their values, in no order.
    pub fn iter(self) -> impl Iterator<Item = (&'a [u8], &'a [u8])> + 'a {
        self.fields().map(|it| (it.field, it.value))
    }

    /// The field at a rank below [`len_with_hidden`](Self::len_with_hidden), unless it is hidden:
    /// for random draws. O(log n).
    #[must_use]
    pub fn at(self, rank: usize) -> Option<(&'a [u8], &'a [u8])> {
        let element = self.collection.at(rank).filter(|element| element.deadline > self.now);
        element.map(|element| (element.key, element.value))
    }

    /// One of the fields, by `below(n)`, which gives a number less than n. O(log n), whatever is
    /// hidden; not each field is as likely as the others.
    pub fn random(self, mut below: impl FnMut(usize) -> usize) -> Option<(&'a [u8], &'a [u8])> {
        let element = self.collection.random_after(self.now, &mut below);
        element.map(|element| (element.key, element.value))
    }

    /// Shows about `count` fields from `cursor` (0 to begin) on, and returns the next cursor, 0 at
    /// the end. Every field that exists from the first call to the last is shown, perhaps more than
    /// once, however the hash changes in between.
    pub fn scan(self, cursor: u64, count: usize, mut f: impl FnMut(&[u8], &[u8])) -> u64 {
        self.collection.scan(cursor, count, |element| {
            if element.deadline > self.now {
                f(element.key, element.value);
            }
        })
    }
}

impl<'a> Set<'a> {
    /// Whether Redis would keep it in its compact encoding, that of
    /// [integers](Self::is_all_integers) alone.
    #[must_use]
    pub fn is_packed(self) -> bool {
        !self.0.loose
    }

    /// Whether it has always had only integers, and few enough; see [`crate::Limits`].
    #[must_use]
    pub fn is_all_integers(self) -> bool {
        !self.0.loose
    }

    /// Whether there is such a member.
    #[must_use]
    pub fn contains(self, member: &[u8]) -> bool {
        self.0.find(member).is_some()
    }

    /// All members, in no order.
    pub fn iter(self) -> impl Iterator<Item = &'a [u8]> + 'a {
        self.0.walk(0).map(|element| element.key)
    }

    /// The member at a rank below [`len`](Self::len), in the order of [`iter`](Self::iter): for
    /// random ones.
    #[must_use]
    pub fn at(self, rank: usize) -> Option<&'a [u8]> {
        self.0.at(rank).map(|element| element.key)
    }

    /// Shows about `count` members; as [`Hash::scan`].
    pub fn scan(self, cursor: u64, count: usize, mut f: impl FnMut(&[u8])) -> u64 {
        self.0.scan(cursor, count, |element| f(element.key))
    }
}

impl<'a> Sorted<'a> {
    /// Whether Redis would keep it in its compact encoding; see [`crate::Limits`].
    #[must_use]
    pub fn is_packed(self) -> bool {
        !self.0.loose
    }

    /// The score of a member.
    #[must_use]
    pub fn score(self, member: &[u8]) -> Option<f64> {
        self.0.find(member).map(|element| element.score())
    }

    /// How many members come before this one.
    #[must_use]
    pub fn rank(self, member: &[u8]) -> Option<usize> {
        let score = self.score(member)?;
        Some(self.0.below(Key { head: score_head(score), tail: member }))
    }

    /// The member at a rank, with its score.
    #[must_use]
    pub fn at(self, rank: usize) -> Option<(&'a [u8], f64)> {
        self.0.at(rank).map(|element| (element.key, element.score()))
    }

    /// How many members have a score less than `score`, or equal to it if `inclusive`. It is not
    /// NaN.
    #[must_use]
    pub fn below_score(self, score: f64, inclusive: bool) -> usize {
        let head = score_head(score) + u64::from(inclusive); // the next number's
        self.0.below(Key { head, tail: &[] })
    }

    /// Where all scores are equal: how many members are less than `member`, or equal to it if
    /// `inclusive`.
    #[must_use]
    pub fn below_member(self, member: &[u8], inclusive: bool) -> usize {
        let Some((_, score)) = self.at(0) else { return 0 };
        let below = self.0.below(Key { head: score_head(score), tail: member });
        below + usize::from(inclusive && self.at(below).is_some_and(|(other, _)| other == member))
    }

    /// The members from a rank on, with their scores.
    pub fn iter_from(self, rank: usize) -> impl Iterator<Item = (&'a [u8], f64)> + 'a {
        self.0.walk(rank).map(|element| (element.key, element.score()))
    }

    /// The members from a rank (or the last one) downwards, with their scores.
    pub fn iter_back_from(self, rank: usize) -> impl Iterator<Item = (&'a [u8], f64)> + 'a {
        self.0.walk_back(rank).map(|element| (element.key, element.score()))
    }

    /// Shows about `count` members with their scores, in no order; as [`Hash::scan`].
    pub fn scan(self, cursor: u64, count: usize, mut f: impl FnMut(&[u8], f64)) -> u64 {
        self.0.scan(cursor, count, |element| f(element.key, element.score()))
    }
}

impl PartialEq for List<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.iter_from(0).eq(other.iter_from(0))
    }
}

impl PartialEq for Hash<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len()
            && self.fields().all(|it| {
                (other.get(it.field), other.deadline(it.field)) == (Some(it.value), it.deadline)
            })
    }
}

impl PartialEq for Set<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len() && self.iter().all(|member| other.contains(member))
    }
}

impl PartialEq for Sorted<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.iter_from(0).eq(other.iter_from(0))
    }
}

impl Eq for List<'_> {}
impl Eq for Hash<'_> {}
impl Eq for Set<'_> {}
impl Eq for Sorted<'_> {} // no score is NaN

impl fmt::Debug for List<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter_from(0)).finish()
    }
}

impl fmt::Debug for Hash<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fields = self.fields().map(|it| (it.field, (it.value, it.deadline)));
        f.debug_map().entries(fields).finish()
    }
}

impl fmt::Debug for Set<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

impl fmt::Debug for Sorted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter_from(0)).finish()
    }
}
