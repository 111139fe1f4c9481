//! Numbers of INCRBYFLOAT: the 80-bit extended precision of x86-64's `long double`, in software.
//!
//! Redis adds `long double`s and prints the sum by `%.17Lf` without trailing zeros; the digits
//! clients see (`0.1 + 0.2 = 0.3`, not `0.30000000000000004`) depend on the 64-bit mantissa, which
//! f64 lacks. Here every step is exact or rounded once to nearest even, as the hardware and libc
//! do, so that results agree to the last digit on every platform.
//!
//! Invariants of `Extended::Finite`: value = mantissa x 2^exponent; the exponent is in
//! `EXPONENT_MIN..=EXPONENT_MAX`; the mantissa's top bit is set unless the exponent is
//! `EXPONENT_MIN` (subnormal numbers and zero).

use std::cmp::Ordering;

use super::natural::Natural;

const EXPONENT_MIN: i32 = -16_445;
const EXPONENT_MAX: i32 = 16_320;
/// Longer texts are no numbers, to Redis.
const TEXT_BYTES_MAX: usize = 5 * 1024 - 1;
/// Decimal positions beyond which every number overflows or vanishes.
const DECIMAL_POSITION_MAX: i64 = 5_000;
/// Digits printed after the point.
const FRACTION_DIGITS: usize = 17;

/// An extended-precision number that is not NaN.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Extended {
    /// mantissa x 2^exponent.
    Finite { negative: bool, mantissa: u64, exponent: i32 },
    /// Only ever typed in ("inf"): sums that overflow are errors.
    Infinite,
}

impl Extended {
    pub(crate) const ZERO: Self =
        Self::Finite { negative: false, mantissa: 0, exponent: EXPONENT_MIN };

    /// The greatest that is finite.
    pub(crate) const MAX: Self =
        Self::Finite { negative: false, mantissa: u64::MAX, exponent: EXPONENT_MAX };

    /// The number with the other sign.
    pub(crate) fn negated(self) -> Self {
        match self {
            Self::Finite { negative, mantissa, exponent } => {
                Self::Finite { negative: !negative && mantissa != 0, mantissa, exponent }
            }
            Self::Infinite => self,
        }
    }

    /// Whether it is below zero, or zero with a sign.
    pub(crate) fn is_negative(self) -> bool {
        matches!(self, Self::Finite { negative: true, .. })
    }

    /// What is before the point, if that is a 64-bit integer.
    pub(crate) fn whole(self) -> Option<i64> {
        let Self::Finite { negative, mantissa, exponent } = self else { return None };
        let magnitude = match exponent {
            0 => mantissa,
            1.. if mantissa == 0 => 0,
            1.. => return None, // the top bit is set
            _ => mantissa.checked_shr(exponent.unsigned_abs()).unwrap_or(0),
        };
        let signed = i128::from(magnitude);
        i64::try_from(if negative { -signed } else { signed }).ok()
    }

    /// Whether it is the greater of two finite numbers.
    pub(crate) fn exceeds(self, other: Self) -> bool {
        // Numbers whose difference is not finite have different signs.
        let sign = self.checked_add(other.negated()).unwrap_or(self);
        matches!(sign, Self::Finite { negative: false, mantissa: 1.., .. })
    }

    /// Reads what C's `strtold` reads, as long as it is the whole text, has no blank before it, is
    /// not NaN and neither overflows nor vanishes.
    pub(crate) fn parse(text: &[u8]) -> Option<Self> {
        if text.len() > TEXT_BYTES_MAX {
            return None;
        }
        let (negative, text) = match text {
            [b'-', rest @ ..] => (true, rest),
            [b'+', rest @ ..] => (false, rest),
            rest => (false, rest),
        };
        if text.eq_ignore_ascii_case(b"inf") || text.eq_ignore_ascii_case(b"infinity") {
            return Some(Self::Infinite);
        }
        match text {
            [b'0', b'x' | b'X', rest @ ..] => parse_hexadecimal(negative, rest),
            _ => parse_decimal(negative, text),
        }
    }

    /// The sum, or `None` if it is not finite.
    pub(crate) fn checked_add(self, other: Self) -> Option<Self> {
        let (
            Self::Finite { negative: a_negative, mantissa: a, exponent: a_exponent },
            Self::Finite { negative: b_negative, mantissa: b, exponent: b_exponent },
        ) = (self, other)
        else {
            return None;
        };
        if a_exponent < b_exponent {
            return other.checked_add(self);
        }
        // Bits of `b` are lost only if it is shifted by more than GUARD; then `a` is normal and the
        // sum keeps at least GUARD - 1 bits below its mantissa, where a sticky bit rounds right.
        const GUARD: i32 = 62;
        let a = u128::from(a) << GUARD;
        let wide_b = u128::from(b) << GUARD;
        let distance = (a_exponent - b_exponent).unsigned_abs();
        let shifted = wide_b.checked_shr(distance).unwrap_or(0);
        let lost = shifted.checked_shl(distance) != Some(wide_b) && wide_b != 0;
        let b = shifted | u128::from(lost);
        let (negative, sum) = match (a_negative == b_negative, a.cmp(&b)) {
            (true, _) => (a_negative, a + b),
            (false, Ordering::Less) => (b_negative, b - a),
            (false, Ordering::Greater) => (a_negative, a - b),
            (false, Ordering::Equal) => return Some(Self::ZERO),
        };
        round(negative, sum, a_exponent - GUARD)
    }

    /// The number times `factor`, rounded to 64 bits as the hardware does and then up to an
    /// integer; `None` if that is beyond 64 bits.
    pub(crate) fn times_rounded_up(self, factor: u32) -> Option<i64> {
        let Self::Finite { negative, mantissa, exponent } = self else { return None };
        let product = round(negative, u128::from(mantissa) * u128::from(factor), exponent)?;
        let Self::Finite { mantissa, exponent, .. } = product else { return None };
        let wide = u128::from(mantissa);
        let shift = exponent.unsigned_abs();
        let magnitude = if exponent >= 0 {
            if mantissa != 0 && shift >= 64 { return None } else { wide << shift.min(64) }
        } else {
            let whole = wide.checked_shr(shift).unwrap_or(0);
            let fraction = whole.checked_shl(shift).unwrap_or(0) != wide;
            whole + u128::from(fraction && !negative)
        };
        let signed = i64::try_from(magnitude).ok()?;
        Some(if negative { -signed } else { signed })
    }

    /// The nearest double; infinite if the number is too large for one.
    pub(crate) fn to_f64(self) -> f64 {
        let Self::Finite { negative, mantissa, exponent } = self else { return f64::INFINITY };
        // Two steps, since the power of two alone may be too small for a double.
        let power = |exponent: i32| f64::from(exponent).exp2();
        let first = exponent.clamp(-1000, 1000);
        let magnitude = mantissa as f64 * power(first) * power(exponent - first);
        if negative { -magnitude } else { magnitude }
    }

    /// The number in decimal, as C's `%.17Lg` prints it.
    pub(crate) fn significant(self) -> String {
        /// Digits, none of which is lost.
        const DIGITS: usize = 17;
        let Self::Finite { negative, mantissa, exponent } = self else { return "inf".to_owned() };
        let sign = if negative { "-" } else { "" };
        if mantissa == 0 {
            return format!("{sign}0");
        }
        // A half is 5 tenths: the digits are those of an integer, some of them behind the point.
        let mut exact = Natural::from(mantissa);
        let behind = exponent.min(0).unsigned_abs();
        exact.shift_left(exponent.max(0).unsigned_abs());
        for _ in 0..behind {
            exact.multiply_add(5, 0);
        }
        let mut digits = Vec::new();
        exact.print(&mut digits);
        let mut power = digits.len() as i64 - 1 - i64::from(behind);
        if digits.len() > DIGITS {
            let rest = digits.split_off(DIGITS);
            let half =
                rest[0].cmp(&b'5').then_with(|| match rest[1..].iter().any(|it| *it != b'0') {
                    true => Ordering::Greater,
                    false => Ordering::Equal,
                });
            let is_odd = digits[DIGITS - 1] % 2 == 1;
            if half == Ordering::Greater || half == Ordering::Equal && is_odd {
                let nines = digits.iter().rev().take_while(|digit| **digit == b'9').count();
                digits[DIGITS - nines..].fill(b'0');
                match digits[..DIGITS - nines].last_mut() {
                    Some(digit) => *digit += 1,
                    None => {
                        digits.insert(0, b'1');
                        power += 1;
                    }
                }
            }
        }
        let text = String::from_utf8_lossy(&digits);
        let digits = text.trim_end_matches('0');
        let (first, rest) = digits.split_at(1);
        let point = |rest: &str| if rest.is_empty() { String::new() } else { format!(".{rest}") };
        match power {
            0..17 if digits.len() as i64 > power => {
                let (whole, rest) = digits.split_at(power as usize + 1);
                format!("{sign}{whole}{}", point(rest))
            }
            0..17 => format!("{sign}{digits:0<width$}", width = power as usize + 1),
            -4..0 => {
                let width = digits.len() + power.unsigned_abs() as usize - 1;
                format!("{sign}0.{digits:0>width$}")
            }
            _ => {
                let mark = if power < 0 { '-' } else { '+' };
                format!("{sign}{first}{}e{mark}{:02}", point(rest), power.abs())
            }
        }
    }

    /// Appends the number in decimal, 17 digits after the point at most and no trailing zeros.
    pub(crate) fn print(self, out: &mut Vec<u8>) {
        let Self::Finite { negative, mantissa, exponent } = self else {
            unreachable!("sums that are not finite are refused before they are printed")
        };
        if exponent >= 0 {
            if negative {
                out.push(b'-');
            }
            let mut value = Natural::from(mantissa);
            value.shift_left(exponent.unsigned_abs());
            value.print(out);
            return;
        }
        const SCALE: u128 = 10u128.pow(FRACTION_DIGITS as u32);
        let scaled = shift_right_rounded(u128::from(mantissa) * SCALE, exponent.unsigned_abs());
        if negative && scaled != 0 {
            out.push(b'-');
        }
        out.extend_from_slice((scaled / SCALE).to_string().as_bytes());
        let fraction = format!(".{:0width$}", scaled % SCALE, width = FRACTION_DIGITS);
        out.extend_from_slice(fraction.trim_end_matches('0').trim_end_matches('.').as_bytes());
    }
}

impl From<i64> for Extended {
    fn from(value: i64) -> Self {
        round(value < 0, u128::from(value.unsigned_abs()), 0)
            .expect("every i64 fits a 64-bit mantissa")
    }
}

/// Digits, point and exponent of a text; `None` if it is anything else.
struct Parts {
    /// Digit values, leading zeros removed.
    digits: Vec<u8>,
    /// How many of all the digits stood after the point.
    after_point: i64,
    /// The written exponent, within +-1e9.
    exponent: i64,
}

fn split(text: &[u8], radix: u32, exponent_mark: u8) -> Option<Parts> {
    let mut parts = Parts { digits: Vec::new(), after_point: 0, exponent: 0 };
    let (mut any_digit, mut point) = (false, false);
    let mut rest = text;
    while let [byte, after @ ..] = rest {
        if let Some(digit) = char::from(*byte).to_digit(radix) {
            any_digit = true;
            parts.after_point += i64::from(point);
            if digit != 0 || !parts.digits.is_empty() {
                parts.digits.push(digit as u8);
            }
        } else if *byte == b'.' && !point {
            point = true;
        } else if any_digit && byte.eq_ignore_ascii_case(&exponent_mark) {
            parts.exponent = parse_exponent(after)?;
            break;
        } else {
            return None;
        }
        rest = after;
    }
    any_digit.then_some(parts)
}

fn parse_exponent(text: &[u8]) -> Option<i64> {
    let (sign, digits) = match text {
        [b'-', digits @ ..] => (-1, digits),
        [b'+', digits @ ..] => (1, digits),
        digits => (1, digits),
    };
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let magnitude = digits
        .iter()
        .fold(0i64, |value, &byte| (value * 10 + i64::from(byte - b'0')).min(1_000_000_000));
    Some(sign * magnitude)
}

fn parse_decimal(negative: bool, text: &[u8]) -> Option<Extended> {
    let Parts { digits, after_point, exponent } = split(text, 10, b'e')?;
    if digits.is_empty() {
        return Some(Extended::Finite { negative, mantissa: 0, exponent: EXPONENT_MIN });
    }
    let power = exponent - after_point;
    // The number is in 10^(position-1) .. 10^position.
    let position = power + i64::try_from(digits.len()).ok()?;
    if position.abs() > DECIMAL_POSITION_MAX {
        return None;
    }
    of_few_digits(negative, &digits, power).or_else(|| of_digits(negative, &digits, power))
}

/// digits x 10^power, if both fit in 64 bits, as in most texts: one product or quotient is rounded
/// once.
fn of_few_digits(negative: bool, digits: &[u8], power: i64) -> Option<Extended> {
    const DIGITS_MAX: usize = 19;
    const POWER_MAX: u32 = 27; // of 5, in 63 bits
    let magnitude = u32::try_from(power.unsigned_abs()).ok().filter(|it| *it <= POWER_MAX)?;
    if digits.len() > DIGITS_MAX {
        return None;
    }
    let whole = digits.iter().fold(0_u64, |whole, digit| whole * 10 + u64::from(*digit));
    let (whole, fives) = (u128::from(whole), 5_u128.pow(magnitude));
    if power >= 0 {
        return round(negative, whole * fives, magnitude.cast_signed());
    }
    let shift = whole.leading_zeros();
    let numerator = whole << shift;
    // The quotient has 65 bits or more; one behind them stands for the remainder.
    let quotient = (numerator / fives) << 1 | u128::from(!numerator.is_multiple_of(fives));
    round(negative, quotient, -(magnitude + shift + 1).cast_signed())
}

/// digits x 10^power; `None` if it overflows or vanishes.
fn of_digits(negative: bool, digits: &[u8], power: i64) -> Option<Extended> {
    let mut numerator = Natural::from_digits(digits, 10);
    let mut denominator = Natural::from(1);
    let scaled = if power < 0 { &mut denominator } else { &mut numerator };
    for _ in 0..power.abs() {
        scaled.multiply_add(10, 0);
    }
    divide(negative, numerator, denominator)
}

fn parse_hexadecimal(negative: bool, text: &[u8]) -> Option<Extended> {
    let Parts { digits, after_point, exponent } = split(text, 16, b'p')?;
    if digits.is_empty() {
        return Some(Extended::Finite { negative, mantissa: 0, exponent: EXPONENT_MIN });
    }
    let power = i32::try_from(exponent - 4 * after_point).ok()?;
    // 5119 hexadecimal digits are 20,476 bits: beyond this, nothing is left or all overflows.
    if power.abs() > 40_000 {
        return None;
    }
    let mut numerator = Natural::from_digits(&digits, 16);
    let mut denominator = Natural::from(1);
    let scaled = if power < 0 { &mut denominator } else { &mut numerator };
    scaled.shift_left(power.unsigned_abs());
    divide(negative, numerator, denominator)
}

/// numerator / denominator (neither zero), rounded; `None` if it overflows or vanishes.
fn divide(negative: bool, mut numerator: Natural, mut denominator: Natural) -> Option<Extended> {
    // Scaled so that the quotient has 66 or 67 bits (fewer if subnormal): at least two are rounded
    // away, and the lowest of them can stand for the remainder.
    const QUOTIENT_BITS: u32 = 67;
    let exponent = (numerator.bits() - denominator.bits() - 66).max(EXPONENT_MIN - 2);
    if exponent < 0 { &mut numerator } else { &mut denominator }
        .shift_left(exponent.unsigned_abs());
    denominator.shift_left(QUOTIENT_BITS - 1);
    let mut quotient = 0u128;
    for _ in 0..QUOTIENT_BITS {
        quotient <<= 1;
        if numerator.compare(&denominator) != Ordering::Less {
            numerator.subtract(&denominator);
            quotient |= 1;
        }
        numerator.shift_left(1);
    }
    let rounded = round(negative, quotient | u128::from(numerator.bits() > 0), exponent)?;
    let vanished = matches!(rounded, Extended::Finite { mantissa: 0, .. });
    (!vanished).then_some(rounded)
}

/// significand x 2^exponent, rounded to 64 bits; `None` if it overflows.
fn round(negative: bool, significand: u128, exponent: i32) -> Option<Extended> {
    let bits = 128 - significand.leading_zeros() as i32;
    let drop = (bits - 64).max(EXPONENT_MIN - exponent);
    let mut exponent = exponent + drop;
    let mut mantissa = if drop > 0 {
        shift_right_rounded(significand, drop.unsigned_abs())
    } else {
        significand << drop.unsigned_abs()
    };
    if mantissa >> 64 != 0 {
        mantissa >>= 1;
        exponent += 1;
    }
    if mantissa == 0 {
        exponent = EXPONENT_MIN;
    }
    let mantissa = u64::try_from(mantissa).expect("at most 64 bits are left");
    (exponent <= EXPONENT_MAX).then_some(Extended::Finite { negative, mantissa, exponent })
}

/// value / 2^shift, shift > 0, to the nearest integer, ties to even.
fn shift_right_rounded(value: u128, shift: u32) -> u128 {
    if shift > 128 {
        return 0;
    }
    let kept = value.checked_shr(shift).unwrap_or(0);
    let half = 1u128 << (shift - 1);
    let lost = value & (half | (half - 1));
    kept + u128::from(lost > half || lost == half && kept & 1 == 1)
}

impl From<f64> for Extended {
    /// The same number, which is finite.
    fn from(double: f64) -> Self {
        const EXPLICIT: u32 = f64::MANTISSA_DIGITS - 1;
        let bits = double.to_bits();
        let negative = bits >> 63 != 0;
        let (low, power) = (bits & ((1 << EXPLICIT) - 1), (bits >> EXPLICIT & 0x7ff) as i32);
        let significand = if power == 0 { low } else { low | 1 << EXPLICIT };
        if significand == 0 {
            return Self::Finite { negative, mantissa: 0, exponent: EXPONENT_MIN };
        }
        let shift = significand.leading_zeros();
        let exponent = power.max(1) - 1075 - shift as i32;
        Self::Finite { negative, mantissa: significand << shift, exponent }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum(a: &str, b: &str) -> String {
        let (Some(a), Some(b)) = (Extended::parse(a.as_bytes()), Extended::parse(b.as_bytes()))
        else {
            return "not a float".to_owned();
        };
        a.checked_add(b).map_or("not finite".to_owned(), |sum| {
            let mut text = Vec::new();
            sum.print(&mut text);
            String::from_utf8(text).unwrap()
        })
    }

    /// Expectations were recorded from redis-server 7.0.15 on x86-64.
    #[test]
    fn sums_print_as_redis_prints_them() {
        for (a, b, expected) in [
            ("0.1", "0.2", "0.3"),
            ("10.50", "0.1", "10.6"),
            ("5.0e3", "2.0e2", "5200"),
            ("3", "-3", "0"),
            ("-1.5", "1.5", "0"),
            ("0", "-0", "0"),
            ("-0", "-0", "0"),
            ("1e17", "0.1", "100000000000000000.1015625"),
            ("1e18", "0.25", "1000000000000000000.25"),
            ("9223372036854775807", "1", "9223372036854775808"),
            ("18446744073709551615", "2", "18446744073709551616"),
            ("1e-17", "0", "0.00000000000000001"),
            ("5e-18", "0", "0"),
            ("4.9e-18", "0", "0"),
            ("-1e-18", "0", "0"),
            ("1.5e-17", "0", "0.00000000000000002"),
            ("2.5e-17", "0", "0.00000000000000002"),
            ("0x1p3", "0X.8", "8.5"),
            ("0x1.8p-3", "0", "0.1875"),
            ("3.0000000000000000", "0", "3"),
            ("1e20", "-1", "100000000000000000000"),
            ("1e30", "1", "1000000000000000000024696061952"),
            ("0.3333333333333333333333", "0", "0.33333333333333333"),
            ("inf", "1", "not finite"),
            ("-inf", "inf", "not finite"),
            ("1.18973149535723176e4932", "1.18973149535723176e4932", "not finite"),
            ("1e-4950", "1e-4950", "0"),
            ("123456789.123456789", "987654321.987654321", "1111111111.11111110995989293"),
            ("1e22", "1e-3", "10000000000000000000000"),
            ("99999999999999999999", "0.5", "100000000000000000000"),
        ] {
            assert_eq!(sum(a, b), expected, "{a} + {b}");
        }
    }

    #[test]
    fn few_digits_are_read_as_many_are() {
        let mut random = crate::Random::with_seed(5);
        for digits in 1..=19 {
            for power in -27..=27 {
                for round in 0..20 {
                    let mut digit = || match round {
                        0 => 9,
                        1 => 5,
                        _ => (random.bits() % 10) as u8,
                    };
                    let mut digits: Vec<u8> = (0..digits).map(|_| digit()).collect();
                    digits[0] = digits[0].max(1);
                    let few = of_few_digits(true, &digits, power);
                    assert!(few.is_some(), "{digits:?} {power}");
                    assert_eq!(few, of_digits(true, &digits, power), "{digits:?} {power}");
                }
            }
        }
        assert_eq!(of_few_digits(true, &[1; 20], 0), None);
        assert_eq!(of_few_digits(true, &[1], 28), None);
    }

    #[test]
    fn what_strtold_does_not_take_whole_is_no_float() {
        let wrong = [
            "",
            " 1",
            "1 ",
            "+",
            ".",
            "e5",
            "1e",
            "1e+",
            "1.2.3",
            "1e5.5",
            "1_0",
            "0x",
            "0xp1",
            "nan",
            "infi",
            "--1",
            "+-1",
            "1e5000",
            "-1e5000",
            "1e-5000",
            "1e4932.",
            "1.19e4932",
            "1\0",
            "0x1p16384",
            "0x1p-16447",
        ];
        for text in wrong {
            assert_eq!(Extended::parse(text.as_bytes()), None, "{text:?}");
        }
        let too_long = "0".repeat(TEXT_BYTES_MAX + 1);
        assert_eq!(Extended::parse(too_long.as_bytes()), None);
        assert_eq!(Extended::parse(&too_long.as_bytes()[1..]), Some(Extended::ZERO));
    }

    #[test]
    fn integers_of_64_bits_are_exact() {
        for value in [0, 1, -1, 10, i64::MAX, i64::MIN, i64::MAX - 1] {
            let mut text = Vec::new();
            Extended::from(value).print(&mut text);
            assert_eq!(text, value.to_string().into_bytes());
            assert_eq!(Extended::parse(&text), Some(value.into()));
        }
    }
}
