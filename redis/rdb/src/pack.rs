//! Packing of small collections into listpacks and intsets, in room reserved beforehand.
//!
//! The layouts are drawn at the head of `unpack`.

use std::ops::Range;

use crate::Value;
use crate::format::canonical_int;

const HEAD_BYTES: usize = 6;
pub(crate) const MARK: u8 = 0xFF;

/// Redis's defaults: a collection with more elements, or a longer one, is not packed.
pub(crate) const HASH_PAIRS_MAX: usize = 512;
pub(crate) const SORTED_MEMBERS_MAX: usize = 128;
pub(crate) const TEXT_BYTES_MAX: usize = 64;
pub(crate) const INTSET_NUMBERS_MAX: usize = 512;
/// Most bytes of a node of a list.
pub(crate) const NODE_BYTES_MAX: usize = 8192;

/// Room for a packed collection: the largest of the above are 512 pairs of 64 bytes, each with the
/// time at which it expires, and their heads.
pub(crate) const PACK_BYTES: usize =
    HASH_PAIRS_MAX * (2 * (TEXT_BYTES_MAX + 3) + NUMBER_BYTES_MAX) + FRAME_BYTES;
/// The most bytes of a number as an element.
const NUMBER_BYTES_MAX: usize = 10;
const _: () = assert!(PACK_BYTES > NODE_BYTES_MAX && PACK_BYTES > 8 * INTSET_NUMBERS_MAX + 8);

/// A listpack under construction.
#[derive(Debug)]
pub(crate) struct Listpack {
    room: Box<[u8]>,
    filled: usize,
    count: usize,
}

impl Listpack {
    /// An empty one that may grow to `room.len()` bytes.
    pub(crate) fn within(room: Box<[u8]>) -> Self {
        Listpack { room, filled: HEAD_BYTES, count: 0 }
    }

    /// Returns the room.
    pub(crate) fn take_room(&mut self) -> Box<[u8]> {
        self.clear();
        std::mem::take(&mut self.room)
    }

    pub(crate) fn clear(&mut self) {
        (self.filled, self.count) = (HEAD_BYTES, 0);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Appends a string, as an integer if it is one in canonical form; `None` if there is no room.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> Option<()> {
        self.push_value(Value::Bytes(bytes))
    }

    /// As [`push`](Self::push).
    pub(crate) fn push_value(&mut self, value: Value<'_>) -> Option<()> {
        let packed = Packed::from_value(value)?;
        let end = self.filled + packed.bytes();
        // One byte is for the mark.
        let mut room = &mut self.room.get_mut(self.filled..end + 1)?[..end - self.filled];
        for part in packed.parts() {
            let (place, rest) = room.split_at_mut(part.len());
            place.copy_from_slice(part);
            room = rest;
        }
        (self.filled, self.count) = (end, self.count + 1);
        Some(())
    }

    /// Where the next element will begin.
    pub(crate) fn end(&self) -> usize {
        self.filled
    }

    /// Appends the `count` elements that take these bytes of `other`; `None` if there is no room.
    pub(crate) fn push_from(
        &mut self,
        other: &Listpack,
        elements: Range<usize>,
        count: usize,
    ) -> Option<()> {
        let elements = other.room.get(elements)?;
        let end = self.filled + elements.len();
        self.room.get_mut(self.filled..end + 1)?[..elements.len()].copy_from_slice(elements);
        (self.filled, self.count) = (end, self.count + count);
        Some(())
    }

    /// Its bytes. There must be room for an empty one at least.
    pub(crate) fn bytes(&mut self) -> &[u8] {
        let length = self.filled + 1;
        let count = u16::try_from(self.count).unwrap_or(u16::MAX);
        self.room[self.filled] = MARK;
        self.room[..4].copy_from_slice(&(length as u32).to_le_bytes());
        self.room[4..6].copy_from_slice(&count.to_le_bytes());
        &self.room[..length]
    }
}

/// An element of a listpack: a head, perhaps a text, and the length of both.
pub(crate) struct Packed<'a> {
    head: Head,
    text: &'a [u8],
    backward: [u8; 5],
    backward_bytes: usize,
}

impl<'a> Packed<'a> {
    /// The element of a string; `None` if it is too long for one.
    pub(crate) fn from_value(value: Value<'a>) -> Option<Self> {
        let (head, text) = match value {
            Value::Int(value) => (Head::integer(value), &[][..]),
            Value::Bytes(bytes) => match canonical_int(bytes) {
                Some(value) => (Head::integer(value), &[][..]),
                None => (Head::text(bytes.len())?, bytes),
            },
        };
        let (backward, backward_bytes) = backward_length(head.length + text.len());
        Some(Packed { head, text, backward, backward_bytes })
    }

    /// Its bytes, in pieces.
    pub(crate) fn parts(&self) -> [&[u8]; 3] {
        let Head { bytes, length } = &self.head;
        [&bytes[..*length], self.text, &self.backward[..self.backward_bytes]]
    }

    fn bytes(&self) -> usize {
        self.head.length + self.text.len() + self.backward_bytes
    }
}

/// The bytes that an element will take.
pub(crate) fn packed_bytes(value: Value<'_>) -> usize {
    Packed::from_value(value).map_or(usize::MAX / 2, |packed| packed.bytes())
}

/// An element's head.
struct Head {
    bytes: [u8; 9],
    length: usize,
}

/// The bytes around the elements.
pub(crate) const FRAME_BYTES: usize = HEAD_BYTES + 1;

impl Head {
    fn new(start: &[u8]) -> Self {
        let mut bytes = [0; 9];
        bytes[..start.len()].copy_from_slice(start);
        Head { bytes, length: start.len() }
    }

    fn text(length: usize) -> Option<Self> {
        Some(match length {
            0..0x40 => Head::new(&[0x80 | length as u8]),
            0x40..0x1000 => Head::new(&[0xE0 | (length >> 8) as u8, length as u8]),
            _ => {
                let [a, b, c, d] = u32::try_from(length).ok()?.to_le_bytes();
                Head::new(&[0xF0, a, b, c, d])
            }
        })
    }

    fn integer(value: i64) -> Self {
        let [a, b, c, d, ..] = value.to_le_bytes();
        match value {
            0..0x80 => Head::new(&[a]),
            -0x1000..0x1000 => Head::new(&[0xC0 | b & 0x1f, a]),
            -0x8000..0x8000 => Head::new(&[0xF1, a, b]),
            -0x80_0000..0x80_0000 => Head::new(&[0xF2, a, b, c]),
            -0x8000_0000..0x8000_0000 => Head::new(&[0xF3, a, b, c, d]),
            _ => {
                let mut bytes = [0xF4; 9];
                bytes[1..].copy_from_slice(&value.to_le_bytes());
                Head::new(&bytes)
            }
        }
    }
}

/// The bytes behind an element of `length` bytes, and their number: groups of seven bits, all but
/// the first marked, the lowest last.
pub(crate) fn backward_length(length: usize) -> ([u8; 5], usize) {
    // As in Redis, a length of all ones takes a group more than it needs.
    let groups = match length {
        0..=0x7F => 1,
        0x80..0x3FFF => 2,
        0x3FFF..0x1F_FFFF => 3,
        0x1F_FFFF..0xFFF_FFFF => 4,
        _ => 5,
    };
    let mut bytes = [0; 5];
    for (number, byte) in bytes[..groups].iter_mut().rev().enumerate() {
        let last = number == groups - 1;
        *byte = (length >> (7 * number)) as u8 & 0x7f | if last { 0 } else { 0x80 };
    }
    (bytes, groups)
}

/// The intset of `numbers`, which it sorts, in `room`.
pub(crate) fn intset<'a>(numbers: &mut [i64], room: &'a mut [u8]) -> Option<&'a [u8]> {
    numbers.sort_unstable();
    let (least, most) = (*numbers.first()?, *numbers.last()?);
    let width = match (least, most) {
        (-0x8000.., ..0x8000) => 2,
        (-0x8000_0000.., ..0x8000_0000) => 4,
        _ => 8,
    };
    let room = room.get_mut(..8 + width * numbers.len())?;
    room[..4].copy_from_slice(&(width as u32).to_le_bytes());
    room[4..8].copy_from_slice(&u32::try_from(numbers.len()).ok()?.to_le_bytes());
    for (place, number) in room[8..].chunks_exact_mut(width).zip(numbers) {
        place.copy_from_slice(&number.to_le_bytes()[..width]);
    }
    Some(room)
}
