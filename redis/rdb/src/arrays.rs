//! Arrays of Redis 8.8, read.
//!
//! ```text
//! array     length, 0 | 1 length (the index last inserted at), then (index kind value) by index
//! kind      0 string | 1 8 B LE (an integer) | 2 8 B LE (f64) | 3 string (of at most 7 bytes)
//! ```
//!
//! Redis keeps an integer of at most 62 bits as such, and as a double a text that a double without
//! its last two bits gives back. All else is text: the kinds change no text, but AROP adds up the
//! doubles themselves.

use std::io::{Read, Write};

use crate::error::Problem;
use crate::format::{NumberText, canonical_int, number_text};
use crate::source::{Source, trim};
use crate::{DecodeError, Element};

/// The kinds of elements.
pub(crate) const TEXT: u64 = 0;
pub(crate) const INT: u64 = 1;
pub(crate) const DOUBLE: u64 = 2;
pub(crate) const SHORT: u64 = 3;
/// Bytes of the longest short text.
pub(crate) const SHORT_BYTES_MAX: usize = 7;

/// What an element of an array is to Redis.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ArrayNumber {
    /// An integer.
    Int(i64),
    /// A double.
    Double(f64),
}

impl ArrayNumber {
    /// What a text is; `None` if it is kept as text.
    #[must_use]
    pub fn parse(text: &[u8]) -> Option<Self> {
        const INTS: std::ops::Range<i64> = -(1 << 61)..1 << 61;
        match canonical_int(text) {
            Some(int) => INTS.contains(&int).then_some(Self::Int(int)),
            None => double(text).map(Self::Double),
        }
    }
}

/// The double of which Redis makes this text, if there is one.
fn double(text: &[u8]) -> Option<f64> {
    const BYTES_MAX: usize = 26;
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    let is_plain = digits.iter().all(|byte| byte.is_ascii_digit() || *byte == b'.');
    if !is_plain || !digits.contains(&b'.') || text.len() > BYTES_MAX {
        return None;
    }
    let number: f64 = std::str::from_utf8(text).ok()?.parse().ok()?;
    if number.to_bits() & 3 != 0 {
        return None; // the text of another double is another one
    }
    (is_shortest(digits) || shown(&mut [0; 32], number)? == text).then_some(number)
}

/// Whether digits are surely those that are shown of the double that they give: no two texts of so
/// few digits give the same one. True for most such texts, and quicker than to show it.
fn is_shortest(digits: &[u8]) -> bool {
    const DIGITS_MAX: usize = 15;
    const FRACTION_MAX: usize = 6; // a longer one may be shown with an exponent
    let Some(point) = digits.iter().position(|byte| *byte == b'.') else { return false };
    let (whole, fraction) = (&digits[..point], &digits[point + 1..]);
    let begins = whole == b"0" || whole.first().is_some_and(|byte| *byte != b'0');
    let ends = fraction == b"0" || fraction.last().is_some_and(|byte| *byte != b'0');
    begins && ends && digits.len() <= DIGITS_MAX + 1 && fraction.len() <= FRACTION_MAX
}

/// The text of a double, if Redis shows it without an exponent.
fn shown(room: &mut NumberText, number: f64) -> Option<&[u8]> {
    const WHOLE_MAX: f64 = (1_u64 << 62) as f64;
    let is_whole = number.fract() == 0.0;
    if is_whole && number.abs() <= WHOLE_MAX {
        let sign = if number == 0.0 && number.is_sign_negative() { "-" } else { "" };
        return Some(number_text(room, format_args!("{sign}{}.0", number as i64)));
    }
    let mut scientific = [0; 32];
    let scientific = number_text(&mut scientific, format_args!("{number:e}"));
    let (mantissa, exponent) = std::str::from_utf8(scientific).ok()?.split_once('e')?;
    let exponent: i32 = exponent.parse().ok()?;
    let digits = mantissa.bytes().filter(u8::is_ascii_digit).count() as i32;
    let last = exponent - digits + 1; // the place of the last digit
    let is_plain =
        if last < 0 { last > -7 || exponent.abs() < 4 } else { exponent.abs() < digits + 7 };
    let point = if is_whole { ".0" } else { "" };
    is_plain.then(|| number_text(room, format_args!("{number}{point}")))
}

/// An array being read.
#[derive(Debug)]
pub(crate) struct Arrays {
    most: u64,
    left: u64,
    inserted: Option<u64>,
    text: Vec<u8>,
}

impl Arrays {
    /// Texts of more than `most` bytes are stepped over.
    pub(crate) fn up_to(most: u64) -> Self {
        Self { most, left: 0, inserted: None, text: Vec::new() }
    }

    /// Starts on an array; how many elements it seems to have.
    pub(crate) fn begin<R: Read>(&mut self, source: &mut Source<R>) -> Result<u64, Problem> {
        self.left = source.length("the number of elements")?;
        let offset = source.offset();
        self.inserted = match source.length("whether an array was inserted into")? {
            0 => None,
            1 => Some(index(source)?),
            other => {
                let what = format!("{other} stands where an array has 0 or 1");
                return Err(Problem::Value { offset, what });
            }
        };
        Ok(self.left)
    }

    /// The next element.
    pub(crate) fn next<R: Read>(
        &mut self,
        source: &mut Source<R>,
    ) -> Result<Option<Element<'_>>, Problem> {
        let Some(left) = self.left.checked_sub(1) else {
            trim(&mut self.text);
            return Ok(self.inserted.take().map(Element::Inserted));
        };
        self.left = left;
        let index = index(source)?;
        let offset = source.offset();
        match source.length("the kind of an element")? {
            TEXT | SHORT => drop(source.text_up_to(self.most, &mut self.text)?),
            INT => self.number(format_args!("{}", i64::from_le_bytes(eight(source)?))),
            DOUBLE => {
                let number = f64::from_le_bytes(eight(source)?);
                match shown(&mut [0; 32], number) {
                    Some(text) => text.clone_into(&mut self.text),
                    None => self.number(format_args!("{number}")),
                }
            }
            other => {
                let what = format!("{other} is no kind of an element");
                return Err(Problem::Value { offset, what });
            }
        }
        Ok(Some(Element::At(index, &self.text)))
    }

    fn number(&mut self, number: std::fmt::Arguments<'_>) {
        self.text.clear();
        self.text.write_fmt(number).expect("a vector takes all");
    }
}

fn eight<R: Read>(source: &mut Source<R>) -> Result<[u8; 8], DecodeError> {
    source.array("a number of an array")
}

/// An index, which is not the largest number.
fn index<R: Read>(source: &mut Source<R>) -> Result<u64, Problem> {
    let offset = source.offset();
    match source.length("an index of an array")? {
        u64::MAX => Err(Problem::Value { offset, what: "an index that no array has".to_owned() }),
        index => Ok(index),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As DUMP of redis-server 8.10.2 tells them apart.
    #[test]
    fn texts_are_numbers_if_numbers_give_them_back() {
        for (text, number) in [
            ("0", Some(ArrayNumber::Int(0))),
            ("-300", Some(ArrayNumber::Int(-300))),
            ("2305843009213693951", Some(ArrayNumber::Int((1 << 61) - 1))),
            ("2305843009213693952", None),
            ("9223372036854775807", None),
            ("007", None),
            ("1.5", Some(ArrayNumber::Double(1.5))),
            ("1.0", Some(ArrayNumber::Double(1.0))),
            ("-0.0", Some(ArrayNumber::Double(-0.0))),
            ("0.1", None), // the last two bits of its double are not zero
            ("0.3", None),
            ("0.0001220703125", None),
            ("0.00390625", Some(ArrayNumber::Double(0.003_906_25))),
            ("4611686018427387904.0", Some(ArrayNumber::Double(4_611_686_018_427_387_904.0))),
            ("4611686018427387903.0", None),
            ("1000000000000000000.0", Some(ArrayNumber::Double(1e18))),
            ("5000000000000000000.0", None),
            ("18446744073709551616.0", None),
            ("0.000001", None),
            ("1e5", None),
            (".5", None),
            ("5.", None),
            ("1.50", None),
            ("1.2.3", None),
            ("-", None),
            ("", None),
        ] {
            assert_eq!(ArrayNumber::parse(text.as_bytes()), number, "{text}");
        }
    }

    #[test]
    fn the_shortest_texts_are_those_that_are_shown() {
        let (mut sure, mut state) = (0, 7_u64);
        for _ in 0..100_000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let (whole, places) =
                ((state >> 40) % 10_u64.pow((state >> 33) as u32 % 10), 1 + state % 7);
            let fraction = (state >> 20) % 10_u64.pow(places as u32);
            let text = format!("{whole}.{fraction:0width$}", width = places as usize);
            let number: f64 = text.parse().expect("a number");
            if is_shortest(text.as_bytes()) {
                assert_eq!(shown(&mut [0; 32], number), Some(text.as_bytes()));
                sure += 1;
            }
        }
        assert!(sure > 50_000, "{sure}");
        for text in ["0.0", "5.0", "0.000001", "99999999.999999"] {
            assert!(is_shortest(text.as_bytes()), "{text}");
        }
    }
}
