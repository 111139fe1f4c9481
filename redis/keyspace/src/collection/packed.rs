//! Elements one after the other in one run of bytes: a whole small collection (inline in its entry)
//! or one leaf of a large one.
//!
//! ```text
//! single   len | key                       lists, sets
//! pair     len | key | len | value         hashes
//!          len | key | mark | deadline | len | value    (a field that expires)
//! ranked   len | key | head                sorted sets, streams
//! ```
//! A length is an LEB128 number: one byte up to 127. The mark is a zero of two bytes, which no
//! length is written as; a deadline takes 8 bytes.
//!
//! A head is a number of 64 bits, for a score one of the same order ([`score_head`]). It begins
//! with a byte of two halves:
//!
//! ```text
//! 0 to 7  | 0 to 8   zero bytes at the end of the head, and the bytes before them, which follow
//! 8 to 15 | any      the head of the score 0 to 127, its low seven bits
//! 0 to 7  | 9 to 15  the head of a score from 128 on, with a byte that follows
//! ```
//! Ids of streams have few bytes that are not zero, and most scores are small integers.
//!
//! Invariant: a run is always a whole number of well-formed elements; only this module and
//! [`crate::collection::chunk`] write them.

use std::ops::Range;

/// The deadline of a key or field that lives for ever.
pub(crate) const NEVER: i64 = i64::MAX;

/// Most bytes of a small collection, which is one run: a larger one becomes a tree.
pub(crate) const RUN_BYTES_MAX: usize = 4096;

/// The least and the greatest deadline of some elements; [`NEVER`] is one of those without one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Times {
    pub(crate) soonest: i64,
    pub(crate) latest: i64,
}

impl Times {
    /// Of elements without deadlines.
    pub(crate) const NEVER: Self = Self::at(NEVER);
    /// Of no elements.
    pub(crate) const NONE: Self = Self { soonest: NEVER, latest: i64::MIN };

    pub(crate) const fn at(deadline: i64) -> Self {
        Self { soonest: deadline, latest: deadline }
    }

    /// Those of these elements and others.
    pub(crate) fn with(self, other: Self) -> Self {
        let (soonest, latest) = (self.soonest.min(other.soonest), self.latest.max(other.latest));
        Self { soonest, latest }
    }
}

/// What one element of a run consists of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    Single,
    Pair,
    Ranked,
}

/// The order of elements, except in lists: hash and nothing, or head and key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key<'a> {
    pub(crate) head: u64,
    pub(crate) tail: &'a [u8],
}

/// One element.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Element<'a> {
    pub(crate) key: &'a [u8],
    /// Of a field of a hash.
    pub(crate) value: &'a [u8],
    /// When a field of a hash expires, in unix milliseconds; otherwise [`NEVER`].
    pub(crate) deadline: i64,
    /// What ranked elements are ordered by; otherwise 0.
    pub(crate) head: u64,
}

impl<'a> Element<'a> {
    /// An element that stays.
    pub(crate) fn new(key: &'a [u8], value: &'a [u8]) -> Self {
        Self { key, value, deadline: NEVER, head: 0 }
    }

    /// An element of a tree by rank.
    pub(crate) fn ranked(key: &'a [u8], head: u64) -> Self {
        Self { head, ..Self::single(key) }
    }

    /// An element that is only a key.
    pub(crate) fn single(key: &'a [u8]) -> Self {
        Self::new(key, &[])
    }

    /// Whether it has a deadline.
    pub(crate) fn is_timed(self) -> bool {
        self.deadline != NEVER
    }

    pub(crate) fn score(self) -> f64 {
        score_of(self.head)
    }

    /// The order of sorted sets.
    pub(crate) fn rank_key(self) -> Key<'a> {
        Key { head: self.head, tail: self.key }
    }

    /// Bytes it takes in a run.
    pub(crate) fn packed_len(self, shape: Shape) -> usize {
        let key = len_bytes(self.key.len()) + self.key.len();
        match shape {
            Shape::Single => key,
            Shape::Pair => {
                let deadline = if self.is_timed() { MARK.len() + DEADLINE_BYTES } else { 0 };
                key + deadline + len_bytes(self.value.len()) + self.value.len()
            }
            Shape::Ranked => key + head_bytes(self.head),
        }
    }

    /// Writes it over `room`, which has its length.
    pub(crate) fn write(self, shape: Shape, room: &mut [u8]) {
        let room = write_text(room, self.key);
        match shape {
            Shape::Single => {}
            Shape::Pair => drop(write_text(write_deadline(room, self.deadline), self.value)),
            Shape::Ranked => write_head(room, self.head),
        }
    }
}

const DEADLINE_BYTES: usize = 8;
/// Precedes a deadline.
const MARK: [u8; 2] = [0x80, 0];

/// A number that is ordered as scores are; -0 is 0. A score is not NaN.
#[inline]
pub(crate) fn score_head(score: f64) -> u64 {
    let bits = (score + 0.0).to_bits(); // -0 + 0 is 0
    if bits >> 63 == 0 { bits | 1 << 63 } else { !bits }
}

/// The score of [`score_head`].
#[inline]
pub(crate) fn score_of(head: u64) -> f64 {
    f64::from_bits(if head >> 63 == 0 { !head } else { head & !(1 << 63) })
}

/// Bytes at the end of a head that are zero, and those before them from the first that is not.
#[inline]
fn head_parts(head: u64) -> (usize, usize) {
    if head == 0 {
        return (0, 0);
    }
    let zeros = head.trailing_zeros() as usize / 8;
    (zeros, 8 - zeros - head.leading_zeros() as usize / 8)
}

/// Scores that take a byte, and those that take two.
const SHORT: u16 = 0x80;
const SHORTS: u16 = SHORT + (LONG_MARKS << 8);
/// Marks of those of two: in each row of 16, those from 9 on.
const LONG_MARKS: u16 = 8 * LONG_ROW;
const LONG_ROW: u16 = 7;

/// The score of a head, if it is a small integer.
#[inline]
fn short_score(head: u64) -> Option<u16> {
    let score = score_of(head);
    let short = score as u16; // saturates
    (short < SHORTS && score_head(f64::from(short)) == head).then_some(short)
}

/// Bytes that a head takes in a run.
#[inline]
pub(crate) fn head_bytes(head: u64) -> usize {
    match short_score(head) {
        Some(short) => 1 + usize::from(short >= SHORT),
        None => 1 + head_parts(head).1,
    }
}

/// Writes a head over `room`, which has its length.
pub(crate) fn write_head(room: &mut [u8], head: u64) {
    if let Some(short) = short_score(head) {
        match short.checked_sub(SHORT) {
            None => room[0] = (SHORT | short) as u8,
            Some(long) => {
                let mark = long >> 8;
                room[0] = ((mark / LONG_ROW) << 4 | (mark % LONG_ROW + 9)) as u8;
                room[1] = long as u8;
            }
        }
        return;
    }
    let (zeros, count) = head_parts(head);
    let (mark, room) = room.split_at_mut(1);
    mark[0] = (zeros << 4 | count) as u8;
    let bytes = (head >> (8 * zeros)).to_be_bytes();
    room.copy_from_slice(&bytes[8 - count..]);
}

/// The head at the start of a run, and what follows it.
#[inline]
fn read_head(run: &[u8]) -> (u64, &[u8]) {
    let (zeros, count) = (run[0] >> 4, run[0] & 0xf);
    if zeros > 7 {
        return (score_head(f64::from(run[0] & 0x7f)), &run[1..]);
    }
    if count > 8 {
        let mark = u16::from(zeros) * LONG_ROW + u16::from(count) - 9;
        let short = SHORT + (mark << 8 | u16::from(run[1]));
        return (score_head(f64::from(short)), &run[2..]);
    }
    let (bytes, rest) = run[1..].split_at(usize::from(count));
    // Mostly there are 8 bytes to read at once.
    let number = match run[1..].first_chunk() {
        Some(chunk) => {
            u64::from_be_bytes(*chunk).checked_shr(64 - 8 * u32::from(count)).unwrap_or(0)
        }
        None => bytes.iter().fold(0, |number, &byte| number << 8 | u64::from(byte)),
    };
    (number << (8 * zeros), rest)
}

fn len_bytes(len: usize) -> usize {
    (len | 1).ilog2() as usize / 7 + 1
}

fn write_text<'r>(room: &'r mut [u8], text: &[u8]) -> &'r mut [u8] {
    let (mut rest, mut at) = (text.len(), 0);
    while rest >= 0x80 {
        room[at] = rest as u8 | 0x80;
        rest >>= 7;
        at += 1;
    }
    room[at] = rest as u8;
    let (packed, room) = room[at + 1..].split_at_mut(text.len());
    packed.copy_from_slice(text);
    room
}

fn write_deadline(room: &mut [u8], deadline: i64) -> &mut [u8] {
    if deadline == NEVER {
        return room;
    }
    let (mark, room) = room.split_at_mut(MARK.len());
    mark.copy_from_slice(&MARK);
    let (bytes, room) = room.split_at_mut(DEADLINE_BYTES);
    bytes.copy_from_slice(&deadline.to_le_bytes());
    room
}

/// The deadline before a value, and what follows it.
#[inline]
fn read_deadline(run: &[u8]) -> (i64, &[u8]) {
    if run[0] != MARK[0] || run[1] != MARK[1] {
        return (NEVER, run);
    }
    let (bytes, rest) = run[MARK.len()..].split_at(DEADLINE_BYTES);
    (i64::from_le_bytes(bytes.try_into().expect("a deadline takes 8 bytes")), rest)
}

/// The first text of a run, and what follows it.
#[inline]
fn read_text(run: &[u8]) -> (&[u8], &[u8]) {
    if run[0] < 0x80 {
        return run[1..].split_at(run[0] as usize);
    }
    let (mut len, mut at) = (0, 0);
    loop {
        len |= (run[at] as usize & 0x7f) << (7 * at);
        at += 1;
        if run[at - 1] < 0x80 {
            return run[at..].split_at(len);
        }
    }
}

/// Elements read from a run, in order.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Run<'a> {
    pub(crate) rest: &'a [u8],
    pub(crate) shape: Shape,
}

impl<'a> Iterator for Run<'a> {
    type Item = Element<'a>;

    #[inline]
    fn next(&mut self) -> Option<Element<'a>> {
        if self.rest.is_empty() {
            return None;
        }
        let (key, rest) = read_text(self.rest);
        let (mut deadline, mut head) = (NEVER, 0);
        let (value, rest) = match self.shape {
            Shape::Single => (&[][..], rest),
            Shape::Pair if rest[0] < MARK[0] => rest[1..].split_at(rest[0] as usize),
            Shape::Pair => {
                let (read, rest) = read_deadline(rest);
                deadline = read;
                read_text(rest)
            }
            Shape::Ranked => {
                let (read, rest) = read_head(rest);
                head = read;
                (&[][..], rest)
            }
        };
        self.rest = rest;
        Some(Element { key, value, deadline, head })
    }
}

/// Where an element lies in a run.
#[derive(Debug, Clone)]
pub(crate) struct Span {
    pub(crate) index: usize,
    pub(crate) bytes: Range<usize>,
}

impl<'a> Run<'a> {
    pub(crate) fn new(bytes: &'a [u8], shape: Shape) -> Self {
        Self { rest: bytes, shape }
    }

    /// The first element that `is_it` accepts; without one, the end of the run.
    #[inline]
    pub(crate) fn find(
        mut self,
        mut is_it: impl FnMut(Element<'a>) -> bool,
    ) -> (Span, Option<Element<'a>>) {
        let total = self.rest.len();
        let mut index = 0;
        loop {
            let start = total - self.rest.len();
            match self.next() {
                Some(element) if is_it(element) => {
                    let bytes = start..total - self.rest.len();
                    return (Span { index, bytes }, Some(element));
                }
                Some(_) => index += 1,
                None => return (Span { index, bytes: start..start }, None),
            }
        }
    }

    /// The least and the greatest deadline of its elements.
    pub(crate) fn times(self) -> Times {
        if self.shape != Shape::Pair || self.rest.is_empty() {
            return Times::NEVER;
        }
        self.map(|element| Times::at(element.deadline)).fold(Times::NONE, Times::with)
    }

    /// How many elements are due at an instant.
    pub(crate) fn count_due(self, now: i64) -> usize {
        self.filter(|element| element.deadline <= now).count()
    }

    /// One of the elements that are not due, by `below(n)`, which gives a number less than n.
    pub(crate) fn random_after(
        self,
        now: i64,
        below: &mut dyn FnMut(usize) -> usize,
    ) -> Option<Element<'a>> {
        let mut shown = self.filter(move |element| element.deadline > now);
        let count = shown.clone().count();
        if count == 0 { None } else { shown.nth(below(count)) }
    }

    /// The element with this key.
    #[inline]
    pub(crate) fn find_key(self, key: &[u8]) -> (Span, Option<Element<'a>>) {
        // Keys of one collection often differ only in their last bytes: looking there first saves
        // most comparisons.
        let last = key.last();
        self.find(|element| {
            element.key.len() == key.len() && element.key.last() == last && element.key == key
        })
    }

    /// Where element `index` lies, or the end of the run.
    pub(crate) fn span(self, index: usize) -> (Span, Option<Element<'a>>) {
        let mut ahead = index;
        self.find(|_| {
            let is_it = ahead == 0;
            ahead = ahead.wrapping_sub(1);
            is_it
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collection::chunk::Chunk;

    #[test]
    fn elements_of_all_lengths_come_back() {
        for shape in [Shape::Single, Shape::Pair, Shape::Ranked] {
            let mut chunk = Chunk::default();
            let lens = [0, 1, 127, 128, 300, 16_383, 16_384, 40_000];
            let texts: Vec<Vec<u8>> = lens.iter().map(|&len| vec![len as u8; len]).collect();
            let value = |at: usize| match shape {
                Shape::Single | Shape::Ranked => Vec::new(),
                Shape::Pair => texts[texts.len() - 1 - at].clone(),
            };
            let head = |at: usize| if shape == Shape::Ranked { score_head(at as f64) } else { 0 };
            for (at, text) in texts.iter().enumerate() {
                let span = chunk.span(shape, at);
                let value = value(at);
                chunk.insert(span, shape, Element { head: head(at), ..Element::new(text, &value) });
            }
            assert_eq!((chunk.count, chunk.run(shape).count()), (texts.len(), texts.len()));
            for (at, element) in chunk.run(shape).enumerate() {
                assert_eq!((element.key, element.value), (&texts[at][..], &value(at)[..]));
                assert_eq!(element.head, head(at));
            }
            let (span, found) = chunk.run(shape).span(4);
            assert_eq!((span.index, found.map(|found| found.key.len())), (4, Some(300)));
            chunk.remove(span, 1);
            assert!(chunk.run(shape).find(|element| element.key.len() == 300).1.is_none());
            assert_eq!(chunk.run(shape).count(), texts.len() - 1);
        }
    }

    #[test]
    fn heads_of_all_lengths_come_back() {
        let mut heads = vec![0, 1, 255, 256, u64::MAX, 1 << 63, 0x0100_0000_0000_0001];
        heads.extend((0..64).flat_map(|bit| [1 << bit, !0 << bit, !0 >> bit, 0xabcd << bit]));
        heads.extend([1.0, -1.0, 0.1, 1e300, 12345.0, 1.7e12].map(score_head));
        heads.extend((0..=u16::from(u8::MAX)).map(|low| score_head(f64::from(low))));
        heads.extend((0..64).flat_map(|high| {
            [0, 0x7f, 0x80, 0xff].map(|low| score_head(f64::from(high << 8 | low)))
        }));
        for &head in &heads {
            let mut run = vec![0; head_bytes(head)];
            write_head(&mut run, head);
            assert!(run.len() <= 9, "{head:x}");
            for behind in [0, 1, 7, 8, 30] {
                run.resize(head_bytes(head) + behind, 0xff);
                let (read, rest) = read_head(&run);
                assert_eq!((read, rest.len()), (head, behind), "{head:x}");
            }
        }
        let scores = [0.0, 1.0, 127.0, 128.0, 14_463.0, 14_464.0, 0.5, -1.0, 1.7e9];
        let sizes = scores.map(|score| head_bytes(score_head(score)));
        assert_eq!(sizes, [1, 1, 1, 2, 2, 4, 3, 9, 6]);
    }

    #[test]
    fn heads_of_scores_are_ordered_as_numbers() {
        let (least, most) = (f64::NEG_INFINITY, f64::INFINITY);
        let scores = [least, f64::MIN, -1.5, -1e-300, -5e-324, 0.0, 5e-324, 1.0, f64::MAX, most];
        assert!(scores.windows(2).all(|pair| score_head(pair[0]) < score_head(pair[1])));
        assert!(scores.iter().all(|&score| score_of(score_head(score)) == score));
        assert_eq!(score_head(-0.0), score_head(0.0));
    }
}
