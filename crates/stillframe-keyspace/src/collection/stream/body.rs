//! The fields of an entry as bytes.

use std::sync::Arc;

use crate::integer::{IntText, parse_int};

/// Most lists of field names that a stream keeps apart, and most bytes of each: the rest stands in
/// the entries.
const LISTS_MAX: usize = 16;
const LIST_BYTES_MAX: usize = 1024;

/// A field's name or value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Text<'a> {
    /// An integer; its text is its canonical decimal form.
    Int(i64),
    /// Any other text.
    Bytes(&'a [u8]),
}

impl<'a> Text<'a> {
    /// The text; an integer is written into `text`.
    #[must_use]
    pub fn to_bytes(self, text: &'a mut IntText) -> &'a [u8] {
        match self {
            Self::Int(int) => text.format(int),
            Self::Bytes(bytes) => bytes,
        }
    }
}

fn write_number(into: &mut Vec<u8>, number: usize) {
    let mut rest = number;
    while rest >= 0x80 {
        into.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    into.push(rest as u8);
}

fn write_text(into: &mut Vec<u8>, text: &[u8]) {
    let Some(int) = parse_int(text) else {
        write_number(into, text.len() << 1);
        into.extend_from_slice(text);
        return;
    };
    // Bits of the number and its sign.
    let bits = 65 - if int < 0 { (!int).leading_zeros() } else { int.leading_zeros() };
    let len = bits.div_ceil(8) as usize;
    into.push((len << 1 | 1) as u8);
    into.extend_from_slice(&int.to_le_bytes()[..len]);
}

/// The number at the front of `rest`, which moves behind it.
fn read_number(rest: &mut &[u8]) -> Option<usize> {
    let (mut number, mut shift) = (0, 0);
    loop {
        let (&byte, behind) = rest.split_first()?;
        *rest = behind;
        number |= (byte as usize & 0x7f) << shift;
        shift += 7;
        if byte < 0x80 {
            return Some(number);
        }
    }
}

fn read_text<'a>(rest: &mut &'a [u8]) -> Option<Text<'a>> {
    let head = read_number(rest)?;
    let (bytes, behind) = rest.split_at_checked(head >> 1)?;
    *rest = behind;
    if head & 1 == 0 {
        return Some(Text::Bytes(bytes));
    }
    let fill = if bytes.last().is_some_and(|last| last & 0x80 != 0) { 0xff } else { 0 };
    let mut int = [fill; 8];
    int.get_mut(..bytes.len())?.copy_from_slice(bytes);
    Some(Text::Int(i64::from_le_bytes(int)))
}

/// Appends the body of an entry; a list of names that is new may join those of the stream.
pub(super) fn write<'f>(
    into: &mut Vec<u8>,
    lists: &mut Arc<Vec<Box<[u8]>>>,
    fields: impl Iterator<Item = (&'f [u8], &'f [u8])> + Clone,
) {
    let mut names = Vec::new();
    for (name, _) in fields.clone() {
        write_text(&mut names, name);
    }
    let known = lists.iter().rposition(|list| **list == *names);
    let place = known.or_else(|| {
        let has_room = lists.len() < LISTS_MAX && names.len() <= LIST_BYTES_MAX;
        has_room.then(|| {
            Arc::make_mut(lists).push(names.into());
            lists.len() - 1
        })
    });
    into.push(place.map_or(0, |place| place as u8 + 1));
    for (name, value) in fields {
        if place.is_none() {
            write_text(into, name);
        }
        write_text(into, value);
    }
}

/// The fields of an entry, with their values.
#[derive(Debug, Clone, Copy)]
pub struct Fields<'a> {
    /// The names, unless they stand before their values.
    names: Option<&'a [u8]>,
    rest: &'a [u8],
}

impl<'a> Fields<'a> {
    pub(super) fn of(body: &'a [u8], lists: &'a [Box<[u8]>]) -> Self {
        let (&place, rest) = body.split_first().unwrap_or((&0, &[]));
        let names = usize::from(place).checked_sub(1).and_then(|place| lists.get(place));
        Self { names: names.map(|names| &**names), rest }
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = (Text<'a>, Text<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        let name = read_text(self.names.as_mut().unwrap_or(&mut self.rest))?;
        Some((name, read_text(&mut self.rest)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_and_integers_of_all_lengths_come_back() {
        let mut texts: Vec<Vec<u8>> =
            [0, 1, 63, 64, 127, 128, 70_000].map(|n| vec![b'x'; n]).into();
        for bits in 0..64 {
            for int in
                [1_i64 << bits, (1_i64 << bits).wrapping_sub(1), -1_i64 << bits, !0 ^ 1 << bits]
            {
                texts.push(int.to_string().into());
            }
        }
        texts.extend(["-0", "+1", "01", " 1", "9223372036854775808"].map(|text| text.into()));
        let mut bytes = Vec::new();
        texts.iter().for_each(|text| write_text(&mut bytes, text));
        let mut rest = &bytes[..];
        for text in &texts {
            let read = read_text(&mut rest).unwrap();
            assert_eq!(read.to_bytes(&mut IntText::default()), text);
        }
        assert!(rest.is_empty() && read_text(&mut rest).is_none());
    }

    #[test]
    fn lists_of_names_beyond_the_most_stand_in_their_entries() {
        let mut lists = Arc::default();
        for number in 0..LISTS_MAX + 3 {
            let name = format!("name:{number}").into_bytes();
            let fields = [(&name[..], &b"value"[..]), (b"7", b"-8")];
            let (mut first, mut again) = (Vec::new(), Vec::new());
            write(&mut first, &mut lists, fields.iter().copied());
            write(&mut again, &mut lists, fields.iter().copied());
            assert_eq!(first, again);
            assert_eq!(first[0] == 0, number >= LISTS_MAX);
            let mut read = Fields::of(&first, &lists);
            let mut texts = [IntText::default(), IntText::default()];
            let [one, two] = &mut texts;
            let (name_read, value) = read.next().unwrap();
            assert_eq!((name_read.to_bytes(one), value.to_bytes(two)), fields[0]);
            let (name_read, value) = read.next().unwrap();
            assert_eq!((name_read.to_bytes(one), value.to_bytes(two)), fields[1]);
            assert!(read.next().is_none());
        }
        assert_eq!(lists.len(), LISTS_MAX);
        let long = vec![b'x'; LIST_BYTES_MAX];
        let mut body = Vec::new();
        write(&mut body, &mut Arc::default(), [(&long[..], &b""[..])].into_iter());
        assert_eq!(body[0], 0);
    }
}
