//! Doubles in arguments: scores, weights, coordinates and the ends of ranges, as C's `strtod` reads
//! them.

use super::extended::Extended;
use crate::text::c_string;

/// The number that a whole text is, hexadecimal and infinities included. Not NaN, nor what is too
/// large or too small for a double.
pub fn parse_double(text: &[u8]) -> Option<f64> {
    in_range(strtod(text))
}

/// The end of a range of scores: what is too large is infinite, blanks may come first, and the text
/// ends at a NUL; an empty one is 0.
pub fn parse_bound(text: &[u8]) -> Option<f64> {
    sloppy(text).map(|(value, _)| value)
}

/// A weight by which SORT orders: as the end of a range, but not what is too large or too small.
pub fn parse_weight(text: &[u8]) -> Option<f64> {
    in_range(sloppy(text))
}

fn in_range(read: Option<(f64, Fit)>) -> Option<f64> {
    match read? {
        (_, Fit::Exceeds) => None,
        (value, Fit::Fits) => Some(value),
    }
}

fn sloppy(text: &[u8]) -> Option<(f64, Fit)> {
    let text = c_string(text);
    if text.is_empty() {
        return Some((0.0, Fit::Fits));
    }
    let is_blank = |byte: &u8| matches!(byte, b' ' | b'\t'..=b'\r');
    let start = text.iter().position(|byte| !is_blank(byte))?;
    strtod(&text[start..])
}

/// Whether a double can hold a number.
enum Fit {
    Fits,
    Exceeds,
}

fn strtod(text: &[u8]) -> Option<(f64, Fit)> {
    let (sign, magnitude) = match text {
        [b'-', magnitude @ ..] => (-1.0, magnitude),
        [b'+', magnitude @ ..] => (1.0, magnitude),
        magnitude => (1.0, magnitude),
    };
    if let Some(value) = whole(magnitude) {
        return Some((sign * value, Fit::Fits));
    }
    if magnitude.eq_ignore_ascii_case(b"inf") || magnitude.eq_ignore_ascii_case(b"infinity") {
        return Some((sign * f64::INFINITY, Fit::Fits));
    }
    let (value, is_zero) = match magnitude {
        [b'0', b'x' | b'X', digits @ ..] => {
            let is_zero = digits.iter().take_while(|byte| !b"pP".contains(byte));
            (Extended::parse(magnitude)?.to_f64(), is_zero.copied().all(|b| b"0.".contains(&b)))
        }
        // Words and further signs, which Rust would read, are out.
        [b'0'..=b'9' | b'.', ..] => {
            let text = std::str::from_utf8(magnitude).ok()?;
            let is_zero = magnitude.iter().take_while(|byte| !b"eE".contains(byte));
            (text.parse::<f64>().ok()?, is_zero.copied().all(|b| b"0.".contains(&b)))
        }
        _ => return None,
    };
    let exceeds = value.is_infinite() || value == 0.0 && !is_zero;
    Some((sign * value, if exceeds { Fit::Exceeds } else { Fit::Fits }))
}

/// The number of so few digits that a double holds it exactly: what most scores are.
#[inline]
pub fn whole(digits: &[u8]) -> Option<f64> {
    const DIGITS_MAX: usize = 15;
    if digits.is_empty() || digits.len() > DIGITS_MAX {
        return None;
    }
    let number = digits.iter().try_fold(0_u64, |number, digit| {
        let digit = digit.wrapping_sub(b'0');
        (digit < 10).then(|| number * 10 + u64::from(digit))
    });
    number.map(|number| number as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubles_are_read_as_strtod_does() {
        for (text, value) in [
            ("1", 1.0),
            ("-1.5", -1.5),
            ("+.5", 0.5),
            ("5.", 5.0),
            ("1e3", 1000.0),
            ("1E-3", 0.001),
            ("0x10", 16.0),
            ("-0x.8p1", -1.0),
            ("0x1p-1074", 5e-324),
            ("0", 0.0),
            ("000000000000007", 7.0),
            ("999999999999999", 999_999_999_999_999.0),
            ("9007199254740993", 9_007_199_254_740_992.0),
            ("0e999", 0.0),
            ("5e-324", 5e-324),
            ("inf", f64::INFINITY),
            ("-Infinity", f64::NEG_INFINITY),
        ] {
            assert_eq!(parse_double(text.as_bytes()), Some(value), "{text}");
        }
        let wrong = [
            "",
            " 1",
            "1 ",
            "nan",
            "-nan",
            "x",
            "1e",
            "1e+",
            ".",
            "e5",
            "--1",
            "+-1",
            "0x",
            "1_0",
            "1e400",
            "-1e400",
            "1e-400",
            "0x1p-1080",
            "1\0",
            "infi",
            "1f",
        ];
        for text in wrong {
            assert_eq!(parse_double(text.as_bytes()), None, "{text:?}");
        }
    }

    #[test]
    fn ends_of_ranges_may_be_sloppy() {
        for (text, value) in [
            ("", 0.0),
            (" \t1", 1.0),
            ("1\0junk", 1.0),
            ("1e400", f64::INFINITY),
            ("-1e400", f64::NEG_INFINITY),
            ("1e-400", 0.0),
        ] {
            assert_eq!(parse_bound(text.as_bytes()), Some(value), "{text:?}");
        }
        for text in [" ", "1 ", "x", "nan", "(1"] {
            assert_eq!(parse_bound(text.as_bytes()), None, "{text:?}");
            assert_eq!(parse_weight(text.as_bytes()), None, "{text:?}");
        }
    }

    /// Each beside redis-server 7.0 but the denormal one, which 8.10 takes.
    #[test]
    fn weights_are_sloppy_numbers_of_doubles() {
        for (text, value) in [
            ("", 0.0),
            ("\0x", 0.0),
            (" \t1", 1.0),
            ("0x10", 16.0),
            ("-Infinity", f64::NEG_INFINITY),
            ("2.2250738585072014e-308", f64::MIN_POSITIVE),
            ("5e-324", 5e-324),
        ] {
            assert_eq!(parse_weight(text.as_bytes()), Some(value), "{text:?}");
        }
        for text in ["1e400", "-1e400", "1e-400", "0x1p-1080", " ", "\t", "0x", "+-5", "nan(1)"] {
            assert_eq!(parse_weight(text.as_bytes()), None, "{text:?}");
        }
    }
}
