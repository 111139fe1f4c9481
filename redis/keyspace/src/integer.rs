//! Integers and their canonical decimal text.

/// Room for the decimal text of an integer.
#[derive(Debug, Clone, Copy, Default)]
pub struct IntText([u8; Self::BYTES_MAX]);

impl IntText {
    const BYTES_MAX: usize = 20; // "-9223372036854775808"

    /// The canonical decimal text of `int`.
    pub fn format(&mut self, int: i64) -> &[u8] {
        let mut rest = int.unsigned_abs();
        let mut at = Self::BYTES_MAX;
        loop {
            at -= 1;
            self.0[at] = b'0' + (rest % 10) as u8;
            rest /= 10;
            if rest == 0 {
                break;
            }
        }
        if int < 0 {
            at -= 1;
            self.0[at] = b'-';
        }
        &self.0[at..]
    }
}

/// The integer whose canonical decimal text is `text`: no sign but a leading minus, no leading
/// zeros, no spaces, within 64 bits.
#[must_use]
pub fn parse_int(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    if digits.len() > 19 {
        return None;
    }
    match digits {
        [] => return None,
        [b'0'] => return if negative { None } else { Some(0) },
        [b'0', ..] => return None,
        _ => {}
    }
    let mut magnitude = 0_u64; // 19 digits fit
    for &digit in digits {
        let digit = digit.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        magnitude = magnitude * 10 + u64::from(digit);
    }
    if negative { 0_i64.checked_sub_unsigned(magnitude) } else { i64::try_from(magnitude).ok() }
}

/// Bytes of the canonical decimal text.
pub(crate) fn decimal_len(int: i64) -> usize {
    let digits = int.unsigned_abs().checked_ilog10().map_or(1, |log| log as usize + 1);
    digits + usize::from(int < 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_integer_are_each_others_inverse() {
        let mut samples = vec![0, 1, -1, 9, 10, -10, 99, 100, i64::MAX, i64::MIN, i64::MIN + 1];
        samples.extend((0..63).flat_map(|shift| [1 << shift, -(1 << shift), (1 << shift) - 1]));
        for int in samples {
            let text = int.to_string();
            assert_eq!(IntText::default().format(int), text.as_bytes());
            assert_eq!(decimal_len(int), text.len());
            assert_eq!(parse_int(text.as_bytes()), Some(int));
        }
    }

    #[test]
    fn only_canonical_text_is_an_integer() {
        let not_canonical = [
            "",
            "-",
            "+1",
            "01",
            "-0",
            "-01",
            "00",
            " 1",
            "1 ",
            "1a",
            "a",
            "1.0",
            "0x1",
            "9223372036854775808",
            "-9223372036854775809",
            "99999999999999999999",
        ];
        for text in not_canonical {
            assert_eq!(parse_int(text.as_bytes()), None, "{text:?}");
        }
    }
}
