//! A run that can be changed: a leaf of a tree, or a small collection while it is edited.
//!
//! A leaf of hashes, sets and sorted sets has an index: where its elements start, and a byte made
//! of each key. A lookup compares those bytes, eight at once, and reads only elements that have the
//! byte of the key: mostly one. In a sorted leaf it searches by halves. Leaves of lists have no
//! index: they have four times the elements, and a push at the front would move all of them.
//!
//! Invariants
//! - C1: `count` elements lie in `bytes`, and nothing else.
//! - C2: an index that is `used` has the start and the byte of each element; it is not used where
//!   they do not fit ([`ROOM`], 64 KiB).
//!
//! The byte is no secret, unlike the keys of the keyspace's hashes: a client that makes all bytes
//! of a leaf equal makes a lookup compare the leaf's 31 elements, each by its length first.

use std::ops::Range;

use crate::collection::mistakes::Mutant;
use crate::collection::packed::{Element, Key, Run, Shape, Span, head_bytes, write_head};

/// Elements that an index has room for.
pub(crate) const ROOM: usize = 32;
/// Bytes that come into the caches together.
const LINE: usize = 64;
/// Most bytes that a run keeps in reserve.
const SLACK_MAX: usize = 512;

/// A run that can be changed.
#[derive(Debug, Clone, Default)]
pub(crate) struct Chunk {
    pub(crate) bytes: Vec<u8>,
    pub(crate) count: usize,
    index: Index,
}

/// Facts of each element that need no look at it.
#[derive(Debug, Clone, Default)]
struct Index {
    used: bool,
    tags: [u8; ROOM],
    starts: [u16; ROOM],
}

/// A byte of a key by which most keys of a leaf differ: names differ in their last bytes.
#[inline]
fn tag(key: &[u8]) -> u8 {
    let word = match key.last_chunk() {
        Some(last) => u64::from_le_bytes(*last),
        None => key.iter().fold(1, |word, &byte| word << 8 | u64::from(byte)),
    };
    (word.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8
}

impl Index {
    /// The elements below `count` with this tag.
    #[inline]
    fn with_tag(&self, tag: u8, count: usize) -> impl Iterator<Item = usize> {
        // Bytes that are equal are 0 in the difference. (One above such a byte may be taken for
        // equal too: the key decides.)
        const LOW: u64 = 0x0101_0101_0101_0101;
        let (words, _) = self.tags.as_chunks::<8>();
        let mut found = 0;
        for (at, word) in words.iter().enumerate() {
            let difference = u64::from_le_bytes(*word) ^ (LOW * u64::from(tag));
            let zeros = difference.wrapping_sub(LOW) & !difference & (LOW << 7);
            let bits = (zeros >> 7).wrapping_mul(0x0102_0408_1020_4080) >> 56;
            found |= bits << (8 * at);
        }
        found &= (1 << count) - 1;
        std::iter::from_fn(move || {
            let at = found.trailing_zeros() as usize;
            found &= found.wrapping_sub(1);
            (at < ROOM).then_some(at)
        })
    }

    /// Follows a change: at `at`, `old` elements became `new` ones, and the rest moved by `shift`
    /// bytes. `count`: elements before the change.
    fn follow(&mut self, at: usize, [old, new]: [usize; 2], count: usize, shift: isize) {
        for start in &mut self.starts[at + old..count] {
            *start = start.wrapping_add_signed(shift as i16);
        }
        if old != new {
            self.tags.copy_within(at + old..count, at + new);
            self.starts.copy_within(at + old..count, at + new);
        }
    }
}

impl Chunk {
    /// An empty run with an index.
    pub(crate) fn indexed() -> Self {
        Self { index: Index { used: true, ..Index::default() }, ..Self::default() }
    }

    /// `count` elements in a run.
    pub(crate) fn from_bytes(bytes: Vec<u8>, count: usize) -> Self {
        Self { bytes, count, index: Index::default() }
    }

    pub(crate) fn run(&self, shape: Shape) -> Run<'_> {
        Run::new(&self.bytes, shape)
    }

    /// Indexes the elements, if they fit and have no index.
    pub(crate) fn reindex(&mut self, shape: Shape) {
        if self.index.used || self.count > ROOM || self.bytes.len() > usize::from(u16::MAX) {
            return;
        }
        let mut start = 0;
        for (at, element) in Run::new(&self.bytes, shape).enumerate() {
            (self.index.tags[at], self.index.starts[at]) = (tag(element.key), start as u16);
            start += element.packed_len(shape);
        }
        self.index.used = true;
    }

    /// Asserts the invariants.
    #[cfg(test)]
    pub(crate) fn check(&self, shape: Shape) {
        assert_eq!(self.run(shape).count(), self.count, "C1");
        let mut start = 0;
        for (at, element) in self.run(shape).enumerate().filter(|_| self.index.used) {
            assert_eq!(usize::from(self.index.starts[at]), start, "C2");
            assert_eq!(self.index.tags[at], tag(element.key), "C2");
            start += element.packed_len(shape);
        }
    }

    /// The element that starts at an offset, and the bytes it takes.
    #[inline]
    fn element(&self, start: u16, shape: Shape) -> Option<(Element<'_>, Range<usize>)> {
        let start = usize::from(start);
        let mut run = Run::new(&self.bytes[start..], shape);
        let element = run.next()?;
        Some((element, start..self.bytes.len() - run.rest.len()))
    }

    /// Where element `index` lies, or the end.
    pub(crate) fn span(&self, shape: Shape, index: usize) -> Span {
        if self.index.used && index < self.count {
            let element = self.element(self.index.starts[index], shape);
            if let Some((_, bytes)) = element {
                return Span { index, bytes };
            }
        }
        if index >= self.count { self.end() } else { self.run(shape).span(index).0 }
    }

    /// Reads what a lookup of this key reads, to bring it into the caches.
    #[inline]
    pub(crate) fn glance(&self, key: &[u8]) -> u8 {
        let at = self.index.with_tag(tag(key), self.count).next().unwrap_or(0);
        let start = usize::from(self.index.starts[at]);
        let byte = |at: usize| self.bytes.get(at).copied().unwrap_or(0);
        byte(start) ^ byte(start + LINE) ^ byte(start + 2 * LINE)
    }

    /// Reads every line of it.
    #[inline]
    pub(crate) fn glance_all(&self) -> u8 {
        let bytes = self.bytes.iter().step_by(LINE).fold(0, |sum, byte| sum ^ byte);
        bytes ^ self.index.tags[0]
    }

    fn end(&self) -> Span {
        Span { index: self.count, bytes: self.bytes.len()..self.bytes.len() }
    }

    /// The element with this key, or the end.
    #[inline]
    pub(crate) fn find_key(&self, shape: Shape, key: &[u8]) -> (Span, Option<Element<'_>>) {
        if !self.index.used {
            return self.run(shape).find_key(key);
        }
        for index in self.index.with_tag(tag(key), self.count) {
            if let Some((element, bytes)) = self.element(self.index.starts[index], shape)
                && element.key == key
            {
                return (Span { index, bytes }, Some(element));
            }
        }
        (self.end(), None)
    }

    /// The value under a key, if it exists and stays, for overwriting.
    #[inline]
    pub(crate) fn value_mut(&mut self, shape: Shape, key: &[u8]) -> Option<&mut [u8]> {
        let (span, found) = self.find_key(shape, key);
        let end = span.bytes.end;
        let stays = |found: &Element<'_>| !found.is_timed() || Mutant::SetKeepsDeadline.is_made();
        let value = found.filter(stays)?.value;
        let start = end - value.len(); // it comes last
        Some(&mut self.bytes[start..end])
    }

    /// Sets the head under a key in place, if it exists and the new one takes the same room;
    /// returns the old one.
    pub(crate) fn set_head(&mut self, element: Element<'_>) -> Option<u64> {
        let (span, found) = self.find_key(Shape::Ranked, element.key);
        let old = found?.head;
        let len = head_bytes(element.head);
        if head_bytes(old) != len {
            return None;
        }
        let end = span.bytes.end;
        write_head(&mut self.bytes[end - len..end], element.head); // it comes last
        Some(old)
    }

    /// How many elements of a run by rank are less than a key.
    pub(crate) fn below(&self, key: Key<'_>) -> usize {
        let shape = Shape::Ranked;
        if !self.index.used {
            return self.run(shape).find(|element| element.rank_key() >= key).0.index;
        }
        let is_less = |&start: &u16| {
            self.element(start, shape).is_some_and(|(element, _)| element.rank_key() < key)
        };
        self.index.starts[..self.count].partition_point(is_less)
    }

    /// As [`below`](Self::below), where most keys belong before all elements or behind them.
    pub(crate) fn below_at_ends(&self, key: Key<'_>) -> usize {
        let is_less = |at: usize| {
            let start = self.index.starts.get(at).filter(|_| self.index.used)?;
            let (element, _) = self.element(*start, Shape::Ranked)?;
            Some(element.rank_key() < key)
        };
        match self.count.checked_sub(1).and_then(is_less) {
            Some(true) => self.count,
            Some(false) if is_less(0) == Some(false) => 0,
            _ => self.below(key),
        }
    }

    /// Sets the value under a key; true if the key is new. The order is free.
    pub(crate) fn put(&mut self, shape: Shape, element: Element<'_>) -> bool {
        let (span, found) = self.find_key(shape, element.key);
        let (is_new, is_same) = (found.is_none(), found == Some(element));
        if is_new {
            self.insert(span, shape, element);
        } else if !is_same {
            self.replace(span, shape, element);
        }
        is_new
    }

    /// Puts a scored element where it belongs; returns its index.
    pub(crate) fn insert_ranked(&mut self, element: Element<'_>) -> usize {
        self.insert_scored(self.below(element.rank_key()), element)
    }

    /// Puts a scored element, which mostly belongs behind all, where it belongs; returns its index.
    pub(crate) fn append_ranked(&mut self, element: Element<'_>) -> usize {
        self.insert_scored(self.below_at_ends(element.rank_key()), element)
    }

    fn insert_scored(&mut self, index: usize, element: Element<'_>) -> usize {
        self.insert(self.span(Shape::Ranked, index), Shape::Ranked, element);
        index
    }

    /// Removes a key; false if it was not there.
    pub(crate) fn remove_key(&mut self, shape: Shape, key: &[u8]) -> bool {
        let (span, found) = self.find_key(shape, key);
        let was_there = found.is_some();
        if was_there {
            self.remove(span, 1);
        }
        was_there
    }

    /// Removes at most `count` elements from `index` on; returns how many.
    pub(crate) fn remove_range(&mut self, shape: Shape, index: usize, count: usize) -> usize {
        let count = count.min(self.count - index);
        let mut span = self.span(shape, index);
        if count != 1 {
            span.bytes.end = self.span(shape, index + count).bytes.start;
        }
        self.remove(span, count);
        count
    }

    /// Keeps the elements that `stays` accepts, in their order.
    pub(crate) fn retain(&mut self, shape: Shape, mut stays: impl FnMut(Element<'_>) -> bool) {
        let (mut kept, mut count, mut start) = (Vec::new(), 0, 0);
        for element in self.run(shape) {
            let end = start + element.packed_len(shape);
            if stays(element) {
                kept.extend_from_slice(&self.bytes[start..end]);
                count += 1;
            }
            start = end;
        }
        if count < self.count {
            kept.shrink_to_fit();
            *self = Self::from_bytes(kept, count);
        }
    }

    /// Puts an element before the one at `span`.
    pub(crate) fn insert(&mut self, span: Span, shape: Shape, element: Element<'_>) {
        let at = span.bytes.start;
        self.splice(Span { bytes: at..at, ..span }, 0, shape, Some(element));
    }

    /// Replaces the element at `span`.
    pub(crate) fn replace(&mut self, span: Span, shape: Shape, element: Element<'_>) {
        self.splice(span, 1, shape, Some(element));
    }

    /// Removes the `count` elements at `span`.
    pub(crate) fn remove(&mut self, span: Span, count: usize) {
        self.splice(span, count, Shape::Single, None);
    }

    /// Puts the `count` elements of a run before element `index` of a list.
    pub(crate) fn insert_run(&mut self, index: usize, run: &[u8], count: usize) {
        let at = self.span(Shape::Single, index).bytes.start;
        let old_len = self.bytes.len();
        self.bytes.reserve_exact(run.len());
        self.bytes.resize(old_len + run.len(), 0);
        self.bytes.copy_within(at..old_len, at + run.len());
        self.bytes[at..at + run.len()].copy_from_slice(run);
        self.count += count;
        self.index.used = false;
    }

    /// Removes all elements, and returns their run.
    pub(crate) fn take(&mut self) -> Vec<u8> {
        self.count = 0;
        self.index.used = false;
        std::mem::take(&mut self.bytes)
    }

    /// Appends the elements of another run.
    pub(crate) fn append(&mut self, other: &Self) {
        self.bytes.reserve_exact(other.bytes.len());
        self.bytes.extend_from_slice(&other.bytes);
        self.count += other.count;
        self.index.used = false;
    }

    /// Cuts off the elements behind one.
    pub(crate) fn truncate(&mut self, last: &Span) {
        self.count = last.index + 1;
        self.bytes.truncate(last.bytes.end);
        self.bytes.shrink_to_fit();
    }

    /// Replaces `old` elements by one or none.
    fn splice(&mut self, span: Span, old: usize, shape: Shape, new: Option<Element<'_>>) {
        let Span { index, bytes: span } = span;
        let old_len = self.bytes.len();
        let end = span.start + new.map_or(0, |new| new.packed_len(shape));
        let new_len = old_len - span.end + end;
        // Less slack than doubling leaves: short runs exist to save memory.
        let slack = (new_len / 8).min(SLACK_MAX);
        if new_len > self.bytes.capacity() {
            self.bytes.reserve_exact(new_len + slack - old_len);
        }
        if new_len > old_len {
            self.bytes.resize(new_len, 0);
        }
        if end != span.end {
            self.bytes.copy_within(span.end..old_len, end);
            self.bytes.truncate(new_len);
            if self.bytes.capacity() / 2 > new_len + SLACK_MAX {
                self.bytes.shrink_to(new_len + slack);
            }
        }
        if let Some(new) = new {
            new.write(shape, &mut self.bytes[span.start..end]);
        }
        let count = self.count - old + usize::from(new.is_some());
        self.index.used &= count <= ROOM && new_len <= usize::from(u16::MAX);
        if self.index.used {
            let (shift, came) = (end as isize - span.end as isize, usize::from(new.is_some()));
            if shift != 0 || old != came {
                self.index.follow(index, [old, came], self.count, shift);
            }
            if let Some(new) = new {
                (self.index.tags[index], self.index.starts[index]) =
                    (tag(new.key), span.start as u16);
            }
        }
        self.count = count;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Random, sized};

    #[test]
    fn an_index_follows_every_change_and_finds_what_a_scan_finds() {
        let mut random = Random::seeded("an index");
        let mut next = |below: usize| random.below(below);
        for shape in [Shape::Single, Shape::Pair, Shape::Ranked] {
            let mut chunk = Chunk::indexed();
            for _ in 0..sized(4000, 40) {
                let key = next(40).to_string().repeat(1 + next(3));
                let value = match shape {
                    Shape::Single | Shape::Ranked => vec![],
                    Shape::Pair => vec![b'v'; next(300)],
                };
                let head = if shape == Shape::Ranked { (next(9) as u64) << next(60) } else { 0 };
                let element = Element { head, ..Element::new(key.as_bytes(), &value) };
                match next(5) {
                    0 if chunk.count > 0 => {
                        chunk.remove_range(shape, next(chunk.count), 1 + next(3));
                    }
                    1 => drop(chunk.remove_key(shape, key.as_bytes())),
                    2 if shape == Shape::Ranked => drop(chunk.set_head(element)),
                    _ => drop(chunk.put(shape, element)),
                }
                chunk.check(shape);
                let (span, found) = chunk.find_key(shape, key.as_bytes());
                let (scanned, element) = chunk.run(shape).find_key(key.as_bytes());
                assert_eq!((span.bytes, found), (scanned.bytes, element));
                chunk.reindex(shape);
            }
        }
    }

    #[test]
    fn ends_are_found_as_the_middle_is() {
        for len in [0, 1, 2, 20, 40] {
            let mut chunk = Chunk::indexed();
            let keys: Vec<[u8; 2]> = (0..len).map(|number| [1 + number * 2, 7]).collect();
            for [head, tail] in &keys {
                let key = [*tail];
                let element = Element::ranked(&key, u64::from(*head) << 40);
                assert_eq!(chunk.append_ranked(element), usize::from(*head / 2));
                chunk.check(Shape::Ranked);
            }
            for head in 0..len * 2 + 2 {
                for tail in [6, 7, 8] {
                    let key = Key { head: u64::from(head) << 40, tail: &[tail] };
                    assert_eq!(chunk.below_at_ends(key), chunk.below(key));
                }
            }
        }
    }

    #[test]
    fn what_does_not_fit_an_index_is_found_without() {
        let (shape, long) = (Shape::Single, vec![b'x'; 70_000]);
        let mut chunk = Chunk::indexed();
        chunk.put(shape, Element::single(&long));
        chunk.put(shape, Element::single(b"short"));
        assert!(!chunk.index.used);
        assert!(chunk.find_key(shape, b"short").1.is_some());
        assert!(chunk.remove_key(shape, &long));
        chunk.reindex(shape);
        assert!(chunk.index.used && chunk.find_key(shape, b"short").1.is_some());
        for number in 0..=ROOM as u8 {
            chunk.put(shape, Element::single(&[number]));
        }
        assert!(!chunk.index.used && chunk.find_key(shape, &[ROOM as u8]).1.is_some());
    }
}
