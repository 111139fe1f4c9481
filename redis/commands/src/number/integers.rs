//! Positions and cursors in arguments, read as Redis reads them.

use stillframe_resp::parse_integer;

use crate::errors::Refusal;

/// A SCAN cursor, as C's `strtoul` reads it: a sign is allowed, `-n` wraps around, nothing is 0.
pub fn parse_cursor(text: &[u8]) -> Option<u64> {
    let (negative, digits) = match text {
        [] => return Some(0),
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        digits => (false, digits),
    };
    if digits.is_empty() {
        return None;
    }
    let mut cursor = 0u64;
    for &byte in digits {
        if !byte.is_ascii_digit() {
            return None;
        }
        cursor = cursor.checked_mul(10)?.checked_add(u64::from(byte - b'0'))?;
    }
    Some(if negative { cursor.wrapping_neg() } else { cursor })
}

/// A number of 64 bits as Redis reads it: canonical, or what C's `strtoull` takes whole, where a
/// minus wraps around.
pub(crate) fn parse_unsigned(text: &[u8]) -> Option<u64> {
    if let Some(number) = parse_integer(text) {
        return u64::try_from(number).ok();
    }
    let blank = |byte: &u8| matches!(byte, b' ' | b'\t'..=b'\r');
    let start = text.iter().position(|byte| !blank(byte))?;
    let (negative, digits) = match &text[start..] {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        digits => (false, digits),
    };
    if digits.is_empty() {
        return None;
    }
    let mut number = 0u64;
    for byte in digits {
        let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'))?;
        number = number.checked_mul(10)?.checked_add(digit)?;
    }
    Some(if negative { number.wrapping_neg() } else { number })
}

/// The bytes that GETRANGE's inclusive `start` and `end` select of `length`; negative positions
/// count from the end.
pub fn clamp_range(start: i64, end: i64, length: usize) -> std::ops::Range<usize> {
    const EMPTY: std::ops::Range<usize> = 0..0;
    // No value is longer than 512 MB by default and none can be longer than i64::MAX.
    let Ok(signed_length) = i64::try_from(length) else { return EMPTY };
    if start < 0 && end < 0 && start > end {
        return EMPTY;
    }
    let from_end = |position: i64| match position {
        0.. => position,
        _ => position.saturating_add(signed_length).max(0),
    };
    let (start, end) = (from_end(start), from_end(end).min(signed_length - 1));
    if start > end {
        return EMPTY;
    }
    match (usize::try_from(start), usize::try_from(end)) {
        (Ok(start), Ok(end)) if end < length => start..end + 1,
        _ => EMPTY,
    }
}

/// An integer of at least `min`; anything else is `error`.
pub fn at_least(text: &[u8], min: usize, error: impl Into<Refusal>) -> Result<usize, Refusal> {
    let number = parse_integer(text).and_then(|number| usize::try_from(number).ok());
    number.filter(|&number| number >= min).ok_or_else(|| error.into())
}

/// The elements of `length` that an inclusive range selects; negative positions count from the
/// end.
pub fn clamp_elements(start: i64, stop: i64, length: usize) -> std::ops::Range<usize> {
    let from_end = |position: i64| match usize::try_from(position) {
        Ok(position) => Some(position),
        Err(_) => length.checked_sub(usize::try_from(position.unsigned_abs()).ok()?),
    };
    let start = from_end(start).unwrap_or(0);
    match from_end(stop) {
        Some(stop) if start <= stop && start < length => start..stop.min(length - 1) + 1,
        _ => 0..0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_of_elements_are_clamped_to_the_list() {
        for (start, stop, range) in [
            (0, -1, 0..5),
            (-3, -2, 2..4),
            (-100, 2, 0..3),
            (3, i64::MAX, 3..5),
            (i64::MIN, i64::MAX, 0..5),
            (-100, -50, 0..0),
            (5, 9, 0..0),
            (3, 2, 0..0),
            (0, i64::MIN, 0..0),
        ] {
            assert_eq!(clamp_elements(start, stop, 5), range, "{start} {stop}");
        }
        assert_eq!(clamp_elements(0, -1, 0), 0..0);
    }

    #[test]
    fn cursors_parse_as_strtoul_does() {
        assert_eq!(parse_cursor(b""), Some(0));
        assert_eq!(parse_cursor(b"007"), Some(7));
        assert_eq!(parse_cursor(b"+7"), Some(7));
        assert_eq!(parse_cursor(b"-1"), Some(u64::MAX));
        assert_eq!(parse_cursor(b"18446744073709551615"), Some(u64::MAX));
        for text in ["x", "1x", " 1", "+", "-", "18446744073709551616"] {
            assert_eq!(parse_cursor(text.as_bytes()), None, "{text:?}");
        }
    }

    #[test]
    fn ranges_are_clamped_to_the_value() {
        assert_eq!(clamp_range(0, -1, 5), 0..5);
        assert_eq!(clamp_range(0, 0, 5), 0..1);
        assert_eq!(clamp_range(-3, -2, 5), 2..4);
        assert_eq!(clamp_range(-100, 2, 5), 0..3);
        assert_eq!(clamp_range(3, 100, 5), 3..5);
        assert_eq!(clamp_range(-100, -50, 5), 0..1, "both before the start select the first byte");
        for (start, end, length) in
            [(0, -1, 0), (5, 9, 5), (3, 2, 5), (-1, -3, 5), (-50, -100, 5), (i64::MAX, i64::MAX, 5)]
        {
            assert!(clamp_range(start, end, length).is_empty(), "{start} {end} {length}");
        }
        assert_eq!(clamp_range(i64::MIN, i64::MAX, 5), 0..5);
    }
}
