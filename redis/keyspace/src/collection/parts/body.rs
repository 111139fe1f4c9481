//! The fields of an entry as bytes.

use std::sync::Arc;

use crate::integer::{IntText, parse_int};

/// Most lists of field names that entries are compared with, and most bytes of each.
const LISTS_MAX: usize = 16;
const LIST_BYTES_MAX: usize = 1024;

/// The lists of field names that a stream keeps apart from its entries.
///
/// Adding an entry looks for its names among a few short lists; other names stand in the entry. A
/// file gives names once for many entries, however long they are, and so these are kept: copied for
/// each entry they would take far more memory and time than the file has bytes.
#[derive(Clone, Default)]
pub(in crate::collection) struct Lists {
    short: Arc<Vec<Box<[u8]>>>,
    /// Those that a file gave and that are not among the others. They come with a load alone, so
    /// their bytes are at most the file's.
    loaded: Arc<Vec<Box<[u8]>>>,
    /// Bytes of all.
    bytes: usize,
}

/// The list of names of entries that are added: one that the stream keeps, or that of each entry.
#[derive(Debug, Clone, Copy)]
pub struct Names {
    /// 0: the names stand in the entry; then short lists, then loaded ones.
    number: usize,
}

impl Lists {
    pub(in crate::collection) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The list of an entry's names. A short list that is new is kept if there is room.
    pub(in crate::collection) fn names_of<'f>(
        &mut self,
        names: impl Iterator<Item = &'f [u8]> + Clone,
    ) -> Names {
        if let Some(at) = self.short.iter().rposition(|list| is_list(list, names.clone())) {
            return Names { number: at + 1 };
        }
        if self.short.len() == LISTS_MAX {
            return Names { number: 0 };
        }
        let mut list = Vec::new();
        for name in names {
            if list.len() + name.len() > LIST_BYTES_MAX {
                return Names { number: 0 };
            }
            write_text(&mut list, name);
        }
        if list.len() > LIST_BYTES_MAX {
            return Names { number: 0 };
        }
        self.keep(list, false)
    }

    /// As [`names_of`](Self::names_of), for names that a file gives once for many entries.
    pub(in crate::collection) fn of_many<'f>(
        &mut self,
        names: impl Iterator<Item = &'f [u8]> + Clone,
    ) -> Names {
        let found = self.names_of(names.clone());
        if found.number > 0 {
            return found;
        }
        if self.loaded.last().is_some_and(|list| is_list(list, names.clone())) {
            return Names { number: LISTS_MAX + self.loaded.len() };
        }
        let mut list = Vec::new();
        names.for_each(|name| write_text(&mut list, name));
        self.keep(list, true)
    }

    fn keep(&mut self, list: Vec<u8>, is_loaded: bool) -> Names {
        self.bytes += list.len() + size_of::<Box<[u8]>>();
        let (lists, before) =
            if is_loaded { (&mut self.loaded, LISTS_MAX) } else { (&mut self.short, 0) };
        Arc::make_mut(lists).push(list.into());
        Names { number: before + lists.len() }
    }

    fn get(&self, number: usize) -> Option<&[u8]> {
        let at = number.checked_sub(1)?;
        let loaded = || self.loaded.get(at.checked_sub(LISTS_MAX)?);
        self.short.get(at).or_else(loaded).map(|list| &**list)
    }
}

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
    #[cfg(test)]
    work::note(text.len());
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

impl Text<'_> {
    fn is(self, text: &[u8]) -> bool {
        match self {
            // Nothing else is written as an integer: see `write_text`.
            Self::Int(int) => parse_int(text) == Some(int),
            Self::Bytes(bytes) => bytes == text,
        }
    }
}

/// Whether a list is that of these names.
fn is_list<'f>(mut list: &[u8], mut names: impl Iterator<Item = &'f [u8]>) -> bool {
    #[cfg(test)]
    work::note(list.len());
    names.all(|name| read_text(&mut list).is_some_and(|text| text.is(name))) && list.is_empty()
}

/// Appends the body of an entry, whose names are those of that list.
pub(in crate::collection) fn write<'f>(
    into: &mut Vec<u8>,
    names: Names,
    fields: impl Iterator<Item = (&'f [u8], &'f [u8])>,
) {
    write_number(into, names.number);
    for (name, value) in fields {
        if names.number == 0 {
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
    pub(in crate::collection) fn from_body(body: &'a [u8], lists: Option<&'a Lists>) -> Self {
        let mut rest = body;
        let number = read_number(&mut rest).unwrap_or(0);
        Self { names: lists.and_then(|lists| lists.get(number)), rest }
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = (Text<'a>, Text<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        let name = read_text(self.names.as_mut().unwrap_or(&mut self.rest))?;
        Some((name, read_text(&mut self.rest)?))
    }
}

/// How many bytes of names and values this thread has written or compared.
#[cfg(test)]
pub(in crate::collection) mod work {
    use std::cell::Cell;

    thread_local! {
        static BYTES: Cell<usize> = const { Cell::new(0) };
    }

    pub(in crate::collection) fn note(bytes: usize) {
        BYTES.set(BYTES.get() + bytes);
    }

    pub(in crate::collection) fn bytes() -> usize {
        BYTES.get()
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

    /// Adds an entry, and returns its body.
    fn body(lists: &mut Lists, fields: &[(&[u8], &[u8])]) -> Vec<u8> {
        let mut body = Vec::new();
        let names = lists.names_of(fields.iter().map(|(name, _)| *name));
        write(&mut body, names, fields.iter().copied());
        body
    }

    #[test]
    fn lists_of_names_beyond_the_most_stand_in_their_entries() {
        let mut lists = Lists::default();
        for number in 0..LISTS_MAX + 3 {
            let name = format!("name:{number}").into_bytes();
            let fields = [(&name[..], &b"value"[..]), (b"7", b"-8")];
            let (first, again) = (body(&mut lists, &fields), body(&mut lists, &fields));
            assert_eq!(first, again);
            assert_eq!(first[0] == 0, number >= LISTS_MAX);
            let mut read = Fields::from_body(&first, Some(&lists));
            let mut texts = [IntText::default(), IntText::default()];
            let [one, two] = &mut texts;
            let (name_read, value) = read.next().unwrap();
            assert_eq!((name_read.to_bytes(one), value.to_bytes(two)), fields[0]);
            let (name_read, value) = read.next().unwrap();
            assert_eq!((name_read.to_bytes(one), value.to_bytes(two)), fields[1]);
            assert!(read.next().is_none());
        }
        assert_eq!(lists.short.len(), LISTS_MAX);
        let long = vec![b'x'; LIST_BYTES_MAX];
        assert_eq!(body(&mut Lists::default(), &[(&long, b"")])[0], 0);
        let mut lists = Lists::default();
        for names in [[&b"a"[..], b"b"], [b"a", b"bc"], [b"ab", b"c"], [b"1", b"-1"]] {
            let fields = names.map(|name| (name, &b"v"[..]));
            assert_eq!(usize::from(body(&mut lists, &fields)[0]), lists.short.len());
        }
        assert_eq!(lists.short.len(), 4, "no list is taken for another, or for its beginning");
        assert_eq!(body(&mut lists, &[(b"a", b"v")])[0], 5);
    }

    #[test]
    fn names_of_many_entries_are_kept_whatever_their_number_and_length() {
        let mut lists = Lists::default();
        for number in 0..300 {
            let name = format!("{number}").repeat(1 + number % 3 * LIST_BYTES_MAX).into_bytes();
            let names = lists.of_many([&name[..]].into_iter());
            let again = lists.of_many([&name[..]].into_iter());
            assert!(names.number > 0 && names.number == again.number);
            let mut written = Vec::new();
            write(&mut written, names, [(&name[..], &b"value"[..])].into_iter());
            assert!(written.len() < 10);
            let mut read = Fields::from_body(&written, Some(&lists));
            let (read_name, value) = read.next().unwrap();
            assert_eq!(read_name.to_bytes(&mut IntText::default()), name);
            assert_eq!(value, Text::Bytes(b"value"));
        }
        assert!(lists.short.len() + lists.loaded.len() == 300);
    }
}
