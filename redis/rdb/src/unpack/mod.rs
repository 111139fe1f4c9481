//! The elements inside packed encodings: a whole small collection, or a node of a list, in one
//! string.
//!
//! - A walk trusts nothing: lengths stay within the bytes that are there, whatever is stated twice
//!   (sizes, counts, backward lengths) must agree, and the end must be where it was announced.
//! - A walk holds positions only. Its caller passes the bytes each time, and it copies none.
//!
//! ```text
//! ziplist   4 B bytes, 4 B place of the last entry, 2 B entries, entries, 0xFF          all LE
//!   entry   length of the entry before: 1 B, or 0xFE 4 B; then
//!           00nnnnnn | 01nnnnnn 1 B | 0x80 4 B BE      text of n bytes
//!           0xC0 2 B | 0xD0 4 B | 0xE0 8 B | 0xF0 3 B | 0xFE 1 B      a signed integer, LE
//!           0xF1..0xFD                                 an integer of 0..12
//! listpack  4 B bytes, 2 B elements, elements, 0xFF                                     all LE
//!   element 0nnnnnnn | 110nnnnn 1 B                    an integer of 7 bits, signed of 13
//!           10nnnnnn | 1110nnnn 1 B | 0xF0 4 B LE      text of n bytes
//!           0xF1 2 B | 0xF2 3 B | 0xF3 4 B | 0xF4 8 B  a signed integer, LE
//!           then the length of all that, in groups of 7 bits, to be read backwards
//! intset    4 B width (2, 4 or 8), 4 B integers, integers in rising order               all LE
//! zipmap    1 B pairs (254: unknown), (length field, length 1 B gap, value, gap), 0xFF
//!   length  1 B, or 0xFE 4 B LE
//! ```
//!
//! A count of 65,535 in a ziplist or listpack means that there are that many or more.

mod intset;
mod listpack;
mod ziplist;
mod zipmap;

use std::ops::Range;

/// How a string is packed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    Ziplist,
    Listpack,
    Intset,
    Zipmap,
}

impl Form {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Form::Ziplist => "ziplist",
            Form::Listpack => "listpack",
            Form::Intset => "intset",
            Form::Zipmap => "zipmap",
        }
    }
}

/// An element: where its text is, or the integer that stands for its decimal text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Item {
    Text(Range<usize>),
    Int(i64),
}

/// What is wrong with packed bytes, and at which of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Flaw {
    pub(crate) at: usize,
    pub(crate) what: &'static str,
}

fn flaw<T>(at: usize, what: &'static str) -> Result<T, Flaw> {
    Err(Flaw { at, what })
}

const MARK: u8 = 0xFF;
/// The count that says nothing.
const MANY: u16 = u16::MAX;

/// A walk over packed bytes.
#[derive(Debug)]
pub(crate) struct Walk {
    form: Form,
    /// Where the next element starts.
    at: usize,
    /// Elements so far.
    seen: u64,
    /// How many there will be, if the bytes say.
    announced: Option<u64>,
    /// Length and place of the entry before (ziplist).
    before: Range<usize>,
    /// The integer before (intset).
    least: Option<i64>,
}

impl Walk {
    /// Looks at the frame of `bytes`.
    pub(crate) fn new(form: Form, bytes: &[u8]) -> Result<Self, Flaw> {
        let (at, announced) = match form {
            Form::Ziplist => ziplist::frame(bytes)?,
            Form::Listpack => listpack::frame(bytes)?,
            Form::Intset => intset::frame(bytes)?,
            Form::Zipmap => zipmap::frame(bytes)?,
        };
        Ok(Walk { form, at, seen: 0, announced, before: at..at, least: None })
    }

    pub(crate) fn form(&self) -> Form {
        self.form
    }

    /// How many elements the bytes say they hold.
    pub(crate) fn announced(&self) -> Option<u64> {
        self.announced
    }

    /// The next element of the same `bytes`; `None` at their end, if all that they stated was true.
    pub(crate) fn next(&mut self, bytes: &[u8]) -> Result<Option<Item>, Flaw> {
        let body = match self.form {
            Form::Intset => bytes,
            _ => bytes.split_last().map_or(bytes, |(_, body)| body),
        };
        if self.at >= body.len() {
            return self.end(bytes).map(|()| None);
        }
        let (item, next) = match self.form {
            Form::Ziplist => ziplist::entry(body, self.at, self.before.len())?,
            Form::Listpack => listpack::element(body, self.at)?,
            Form::Intset => intset::integer(body, self.at, self.least)?,
            Form::Zipmap => zipmap::part(body, self.at, !self.seen.is_multiple_of(2))?,
        };
        if let (Form::Intset, Item::Int(value)) = (self.form, &item) {
            self.least = Some(*value);
        }
        self.before = self.at..next;
        self.at = next;
        self.seen += 1;
        Ok(Some(item))
    }

    fn end(&self, bytes: &[u8]) -> Result<(), Flaw> {
        if self.announced.is_some_and(|count| count != self.seen) {
            return flaw(self.at, "the number of elements is not the one announced");
        }
        if self.form == Form::Ziplist && !ziplist::ends_with(bytes, self.before.start) {
            return flaw(4, "the last entry is not where the head says");
        }
        if self.form == Form::Zipmap && !self.seen.is_multiple_of(2) {
            return flaw(self.at, "a field has no value");
        }
        Ok(())
    }
}

/// `N` bytes of `bytes` at `at`.
fn field<const N: usize>(bytes: &[u8], at: usize) -> Result<[u8; N], Flaw> {
    match bytes.get(at..).and_then(|rest| rest.first_chunk()) {
        Some(field) => Ok(*field),
        None => flaw(at, "an element runs past the end"),
    }
}

/// Where `length` bytes from `at` on are.
fn text(bytes: &[u8], at: usize, length: usize) -> Result<Range<usize>, Flaw> {
    match at.checked_add(length) {
        Some(end) if end <= bytes.len() => Ok(at..end),
        _ => flaw(at, "a text runs past the end"),
    }
}

/// The signed integer of `N` bytes, the lowest first, at `at`.
fn integer<const N: usize>(bytes: &[u8], at: usize) -> Result<i64, Flaw> {
    let field: [u8; N] = field(bytes, at)?;
    let fill = if field.last().is_some_and(|byte| byte & 0x80 != 0) { 0xFF } else { 0 };
    let mut wide = [fill; 8];
    wide.iter_mut().zip(field).for_each(|(wide, byte)| *wide = byte);
    Ok(i64::from_le_bytes(wide))
}

/// Whether a frame's first four bytes are its length, and the mark ends it.
fn framed(bytes: &[u8], least: usize) -> Result<(), Flaw> {
    let stated = u32::from_le_bytes(field(bytes, 0)?);
    if bytes.len() < least || usize::try_from(stated) != Ok(bytes.len()) {
        return flaw(0, "its length differs from the one in its head");
    }
    if bytes.last() != Some(&MARK) {
        return flaw(bytes.len() - 1, "there is no end mark");
    }
    Ok(())
}

/// The count in a frame.
fn count(bytes: &[u8], at: usize) -> Result<Option<u64>, Flaw> {
    let count = u16::from_le_bytes(field(bytes, at)?);
    Ok((count != MANY).then_some(count.into()))
}

#[cfg(test)]
mod tests;
