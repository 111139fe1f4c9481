//! Natural numbers of any size, for the exact steps of [`super::extended`]: schoolbook arithmetic
//! on at most a few hundred limbs.

use std::cmp::Ordering;

/// A natural number of any size: 32-bit limbs, least first, the last one not zero.
#[derive(Default)]
pub(super) struct Natural(Vec<u32>);

impl From<u64> for Natural {
    fn from(value: u64) -> Self {
        let mut natural = Self(vec![value as u32, (value >> 32) as u32]);
        natural.trim();
        natural
    }
}

impl Natural {
    /// Digit values, the highest first; the radix is 16 at most.
    pub(super) fn from_digits(digits: &[u8], radix: u32) -> Self {
        let mut natural = Self::default();
        for chunk in digits.chunks(7) {
            let (mut factor, mut addend) = (1, 0);
            for &digit in chunk {
                factor *= radix;
                addend = addend * radix + u32::from(digit);
            }
            natural.multiply_add(factor, addend);
        }
        natural
    }

    fn trim(&mut self) {
        while self.0.last() == Some(&0) {
            self.0.pop();
        }
    }

    pub(super) fn bits(&self) -> i32 {
        self.0.last().map_or(0, |last| 32 * self.0.len() as i32 - last.leading_zeros() as i32)
    }

    pub(super) fn multiply_add(&mut self, factor: u32, addend: u32) {
        let mut carry = u64::from(addend);
        for limb in &mut self.0 {
            carry += u64::from(*limb) * u64::from(factor);
            *limb = carry as u32;
            carry >>= 32;
        }
        if carry != 0 {
            self.0.push(carry as u32);
        }
    }

    pub(super) fn shift_left(&mut self, bits: u32) {
        if !bits.is_multiple_of(32) {
            self.multiply_add(1 << (bits % 32), 0);
        }
        if !self.0.is_empty() {
            self.0.splice(0..0, std::iter::repeat_n(0, (bits / 32) as usize));
        }
    }

    pub(super) fn compare(&self, other: &Self) -> Ordering {
        let by_length = self.0.len().cmp(&other.0.len());
        by_length.then_with(|| self.0.iter().rev().cmp(other.0.iter().rev()))
    }

    /// Subtracts a number that is not larger.
    pub(super) fn subtract(&mut self, other: &Self) {
        let mut borrow = false;
        for (position, limb) in self.0.iter_mut().enumerate() {
            let (difference, under) =
                limb.overflowing_sub(other.0.get(position).copied().unwrap_or(0));
            let (difference, under_again) = difference.overflowing_sub(u32::from(borrow));
            *limb = difference;
            borrow = under || under_again;
        }
        debug_assert!(!borrow, "the subtrahend was larger");
        self.trim();
    }

    pub(super) fn print(mut self, out: &mut Vec<u8>) {
        const CHUNK: u64 = 1_000_000_000;
        let mut chunks = Vec::new();
        while !self.0.is_empty() {
            let mut rest = 0;
            for limb in self.0.iter_mut().rev() {
                rest = rest << 32 | u64::from(*limb);
                *limb = (rest / CHUNK) as u32;
                rest %= CHUNK;
            }
            self.trim();
            chunks.push(rest);
        }
        let mut text = chunks.pop().unwrap_or(0).to_string();
        for chunk in chunks.iter().rev() {
            text.push_str(&format!("{chunk:09}"));
        }
        out.extend_from_slice(text.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(natural: Natural) -> String {
        let mut text = Vec::new();
        natural.print(&mut text);
        String::from_utf8(text).unwrap()
    }

    fn power_of_ten(power: usize) -> Natural {
        Natural::from_digits(&[&[1][..], &vec![0; power]].concat(), 10)
    }

    #[test]
    fn digits_print_as_they_were_read() {
        for digits in ["0", "7", "1000000000", "18446744073709551616", "98765432109876543210987"] {
            let values: Vec<u8> = digits.bytes().map(|byte| byte - b'0').collect();
            assert_eq!(text(Natural::from_digits(&values, 10)), digits);
        }
        assert_eq!(text(Natural::from_digits(&[15, 0, 1], 16)), "3841");
    }

    #[test]
    fn subtraction_borrows_across_limbs() {
        let mut number = power_of_ten(40);
        number.subtract(&Natural::from(1));
        assert_eq!(text(number), "9".repeat(40));
        let mut number = power_of_ten(40);
        number.subtract(&power_of_ten(40));
        assert_eq!((number.bits(), text(number)), (0, "0".to_owned()));
    }

    #[test]
    fn shifts_are_products_with_powers_of_two() {
        for bits in [0, 1, 31, 32, 33, 64, 100] {
            let mut number = Natural::from(3);
            number.shift_left(bits);
            assert_eq!(number.bits(), 2 + bits as i32);
            assert_eq!(text(number), (3u128 << bits).to_string());
        }
        let mut zero = Natural::default();
        zero.shift_left(64);
        assert_eq!(zero.bits(), 0);
    }

    #[test]
    fn order_is_by_length_then_by_the_highest_limb() {
        assert_eq!(power_of_ten(20).compare(&power_of_ten(19)), Ordering::Greater);
        assert_eq!(power_of_ten(20).compare(&power_of_ten(20)), Ordering::Equal);
        let mut less = power_of_ten(20);
        less.subtract(&Natural::from(1));
        assert_eq!(less.compare(&power_of_ten(20)), Ordering::Less);
    }
}
