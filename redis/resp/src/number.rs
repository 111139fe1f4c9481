//! Numbers as Redis reads and writes them in text.
//!
//! Integers are on the hot path of every request and reply, so they bypass the formatting
//! machinery. Doubles follow C's `%.17g`, which is what Redis 7.0 prints in both protocols.

use std::io::Write;

/// Room for the decimal form of any `i64`.
pub type IntegerBuffer = [u8; 20];

/// Two decimal digits at a time halve the divisions.
const PAIRS: &[u8; 200] = b"0001020304050607080910111213141516171819\
                            2021222324252627282930313233343536373839\
                            4041424344454647484950515253545556575859\
                            6061626364656667686970717273747576777879\
                            8081828384858687888990919293949596979899";

/// Writes `value` in decimal and returns the part of `buffer` that holds it.
pub fn format_integer(value: i64, buffer: &mut IntegerBuffer) -> &[u8] {
    let mut rest = value.unsigned_abs();
    let mut at = buffer.len();
    while rest >= 100 {
        let pair = (rest % 100) as usize * 2;
        rest /= 100;
        at -= 2;
        buffer[at..at + 2].copy_from_slice(&PAIRS[pair..pair + 2]);
    }
    if rest >= 10 {
        let pair = rest as usize * 2;
        at -= 2;
        buffer[at..at + 2].copy_from_slice(&PAIRS[pair..pair + 2]);
    } else {
        at -= 1;
        buffer[at] = b'0' + rest as u8;
    }
    if value < 0 {
        at -= 1;
        buffer[at] = b'-';
    }
    &buffer[at..]
}

/// Reads an integer in canonical form: the exact text [`format_integer`] writes, so no sign but
/// `-`, no leading zeros, no blanks, no `-0`.
pub fn parse_integer(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    match digits {
        [b'0'] if !negative => return Some(0),
        [b'1'..=b'9', ..] if digits.len() <= 19 => {}
        _ => return None,
    }
    // Nineteen digits stay below u64::MAX, so only the last conversion can overflow.
    let mut magnitude = 0u64;
    for &digit in digits {
        if !digit.is_ascii_digit() {
            return None;
        }
        magnitude = magnitude * 10 + u64::from(digit - b'0');
    }
    if negative { 0i64.checked_sub_unsigned(magnitude) } else { i64::try_from(magnitude).ok() }
}

/// Appends `value` as Redis 7.0 prints a double: C's `%.17g`, infinities as `inf` and `-inf`.
pub fn format_double(value: f64, out: &mut Vec<u8>) {
    const WHOLE_BELOW: u64 = 10_000_000_000_000_000; // 17 digits have no exponent yet
    let whole = value as i64;
    // The bits tell -0 from 0.
    if whole.unsigned_abs() < WHOLE_BELOW && (whole as f64).to_bits() == value.to_bits() {
        out.extend_from_slice(format_integer(whole, &mut [0; 20]));
        return;
    }
    if !value.is_finite() {
        out.extend_from_slice(match (value.is_nan(), value.is_sign_negative()) {
            (false, false) => b"inf",
            (false, true) => b"-inf",
            (true, false) => b"nan",
            (true, true) => b"-nan",
        });
        return;
    }
    const DIGITS: i32 = 17;
    // `d.dddddddddddddddde-xxx`: one digit, sixteen decimals, the exponent.
    let mut scientific = [0u8; 32];
    let room = scientific.len();
    let mut rest = &mut scientific[..];
    write!(rest, "{:.16e}", value.abs()).expect("17 digits and an exponent fit 32 bytes");
    let length = room - rest.len();
    let text = &scientific[..length];
    let mark = text.iter().position(|&b| b == b'e').expect("scientific form has an exponent");
    let exponent = parse_integer(&text[mark + 1..]).expect("the exponent is an integer") as i32;
    let mut digits = [b'0'; DIGITS as usize];
    digits[0] = text[0];
    digits[1..].copy_from_slice(&text[2..mark]);
    let significant = digits.iter().rposition(|&d| d != b'0').map_or(1, |last| last + 1);

    if value.is_sign_negative() {
        out.push(b'-');
    }
    if !(-4..DIGITS).contains(&exponent) {
        out.push(digits[0]);
        append_fraction(&digits[1..significant.max(1)], out);
        out.extend_from_slice(if exponent < 0 { b"e-" } else { b"e+" });
        if exponent.abs() < 10 {
            out.push(b'0');
        }
        out.extend_from_slice(format_integer(exponent.abs().into(), &mut [0; 20]));
    } else if exponent < 0 {
        out.extend_from_slice(b"0.");
        out.extend((1..-exponent).map(|_| b'0'));
        out.extend_from_slice(&digits[..significant]);
    } else {
        let whole = exponent as usize + 1;
        out.extend_from_slice(&digits[..whole]);
        append_fraction(&digits[whole..significant.max(whole)], out);
    }
}

fn append_fraction(digits: &[u8], out: &mut Vec<u8>) {
    if !digits.is_empty() {
        out.push(b'.');
        out.extend_from_slice(digits);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn double(value: f64) -> String {
        let mut out = Vec::new();
        format_double(value, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn doubles_print_like_percent_dot_17_g() {
        let cases: &[(f64, &str)] = &[
            (0.0, "0"),
            (-0.0, "-0"),
            (1.0, "1"),
            (-1.5, "-1.5"),
            (0.1, "0.10000000000000001"),
            (2.625, "2.625"),
            (100.0, "100"),
            (1e16, "10000000000000000"),
            (1e17, "1e+17"),
            (1.5e300, "1.5000000000000001e+300"),
            (12345678901234567890.0, "1.2345678901234567e+19"),
            (0.0001, "0.0001"),
            (0.00001, "1.0000000000000001e-05"),
            (5e-324, "4.9406564584124654e-324"),
            (f64::MAX, "1.7976931348623157e+308"),
            (f64::INFINITY, "inf"),
            (f64::NEG_INFINITY, "-inf"),
        ];
        for (value, text) in cases {
            assert_eq!(double(*value), *text, "{value:e}");
        }
    }

    #[test]
    fn only_canonical_integers_are_read() {
        let wrong: [&[u8]; 12] = [
            b"",
            b"-",
            b"+1",
            b"01",
            b"-0",
            b"-01",
            b" 1",
            b"1 ",
            b"1a",
            b"9223372036854775808",
            b"-9223372036854775809",
            b"99999999999999999999999",
        ];
        for text in wrong {
            assert_eq!(parse_integer(text), None, "{}", text.escape_ascii());
        }
    }

    #[test]
    fn extreme_integers_round_trip() {
        for value in [0, 9, 10, 99, 100, 101, -1, i64::MAX, i64::MIN] {
            let text = value.to_string();
            assert_eq!(format_integer(value, &mut [0; 20]), text.as_bytes());
            assert_eq!(parse_integer(text.as_bytes()), Some(value));
        }
    }

    proptest! {
        #[test]
        fn integers_round_trip(value: i64, shift in 0u32..64) {
            let value = value >> shift;
            let text = value.to_string();
            let mut buffer = [0; 20];
            prop_assert_eq!(format_integer(value, &mut buffer), text.as_bytes());
            prop_assert_eq!(parse_integer(text.as_bytes()), Some(value));
        }

        #[test]
        fn whole_doubles_print_their_digits(whole: i64, shift in 0u32..64) {
            let value = (whole >> shift) as f64;
            if value.abs() < 1e17 {
                prop_assert_eq!(double(value), format!("{value:.0}"));
            }
        }

        #[test]
        fn doubles_read_back_equal(bits: u64) {
            let value = f64::from_bits(bits);
            prop_assume!(value.is_finite());
            prop_assert_eq!(double(value).parse::<f64>().unwrap().to_bits(), value.to_bits());
        }
    }
}
