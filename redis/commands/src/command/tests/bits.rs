//! Bits and fields of bits beside vectors of bits.

use stillframe_peers::reply::Reply;
use stillframe_peers::{Random, rounds};

use super::{ask, call, edge};
use crate::harness::Harness;

fn bits(bytes: &[u8]) -> Vec<bool> {
    bytes.iter().flat_map(|byte| (0..8).map(move |bit| byte & (0x80 >> bit) != 0)).collect()
}

/// The places that an inclusive range selects of `length`, negative ones counted from the end.
fn chosen(start: i64, end: i64, length: usize) -> Vec<usize> {
    let length = length as i128;
    let from_end = |at: i64| if at < 0 { (i128::from(at) + length).max(0) } else { at.into() };
    let all = (0..length).filter(|&at| from_end(start) <= at && at <= from_end(end));
    all.map(|at| at as usize).collect()
}

#[test]
fn bits_are_counted_and_found_as_in_a_vector() {
    let mut random = Random::new("bits_are_counted_and_found_as_in_a_vector");
    let mut harness = Harness::new();
    for _ in 0..rounds(400, 20_000) {
        let length = 1 + random.below(12);
        let mut text = random.bytes(length);
        if random.below(3) == 0 {
            text.fill(random.pick(&[0, 0xff]));
        }
        call(&mut harness, &[b"SET", b"k", &text]);
        let all = bits(&text);
        for _ in 0..20 {
            let (start, end) = (edge(&mut random), edge(&mut random));
            let in_bits = random.below(2) == 0;
            let unit = if in_bits { "BIT" } else { "BYTE" };
            let places = match in_bits {
                true => chosen(start, end, all.len()),
                false => chosen(start, end, length)
                    .into_iter()
                    .flat_map(|at| at * 8..at * 8 + 8)
                    .collect(),
            };
            // Both before the start: BITCOUNT looks at nothing, BITPOS at the first.
            let is_empty = start < 0 && end < 0 && start > end;
            let count = places.iter().filter(|&&at| all[at] && !is_empty).count() as i64;
            let line = format!("BITCOUNT k {start} {end} {unit}");
            assert_eq!(ask(&mut harness, &line).int(), count, "{line} of {text:?}");
            let wanted = random.below(2) == 0;
            let first = places.iter().find(|&&at| all[at] == wanted).map_or(-1, |&at| at as i64);
            let line = format!("BITPOS k {} {start} {end} {unit}", i32::from(wanted));
            assert_eq!(ask(&mut harness, &line).int(), first, "{line} of {text:?}");
        }
    }
}

#[test]
fn bit_operations_are_those_of_padded_bytes() {
    let mut random = Random::new("bit_operations_are_those_of_padded_bytes");
    let mut harness = Harness::new();
    for _ in 0..rounds(2_000, 100_000) {
        let texts: Vec<Vec<u8>> = (0..1 + random.below(4))
            .map(|_| {
                let length = random.below(40);
                random.bytes(length)
            })
            .collect();
        let names: Vec<String> = (0..texts.len()).map(|number| format!("k{number}")).collect();
        for (name, text) in names.iter().zip(&texts) {
            call(&mut harness, &[b"SET", name.as_bytes(), text]);
        }
        let (name, fold): (&str, fn(u8, u8) -> u8) = match random.below(3) {
            0 => ("AND", |a, b| a & b),
            1 => ("OR", |a, b| a | b),
            _ => ("XOR", |a, b| a ^ b),
        };
        let length = texts.iter().map(Vec::len).max().unwrap_or(0);
        let at = |text: &Vec<u8>, at: usize| text.get(at).copied().unwrap_or(0);
        let expected: Vec<u8> = (0..length)
            .filter_map(|place| texts.iter().map(|text| at(text, place)).reduce(fold))
            .collect();
        let line = format!("BITOP {name} k0 {}", names.join(" "));
        assert_eq!(ask(&mut harness, &line).int(), length as i64);
        let found = ask(&mut harness, "GET k0");
        let expected = if length == 0 { Reply::Null } else { Reply::Text(expected) };
        assert_eq!(found, expected, "{line} of {texts:?}");
    }
}

/// A field of bits, as a number that no field overflows.
struct Field {
    signed: bool,
    bits: usize,
    at: usize,
}

impl Field {
    fn range(&self) -> (i128, i128) {
        match self.signed {
            true => (-(1 << (self.bits - 1)), (1 << (self.bits - 1)) - 1),
            false => (0, (1 << self.bits) - 1),
        }
    }

    fn get(&self, all: &[bool]) -> i128 {
        let read = (self.at..self.at + self.bits).map(|at| all.get(at).copied().unwrap_or(false));
        let number = read.fold(0, |number, bit| number << 1 | i128::from(bit));
        if number > self.range().1 { number - (1 << self.bits) } else { number }
    }

    fn set(&self, all: &mut Vec<bool>, number: i128) {
        let end = (self.at + self.bits).next_multiple_of(8);
        all.resize(all.len().max(end), false);
        for bit in 0..self.bits {
            all[self.at + bit] = number >> (self.bits - 1 - bit) & 1 == 1;
        }
    }

    /// What becomes of a number that may not fit.
    fn fit(&self, number: i128, how: &str) -> Option<i128> {
        let (least, most) = self.range();
        match how {
            _ if (least..=most).contains(&number) => Some(number),
            "WRAP" => Some((number - least).rem_euclid(1 << self.bits) + least),
            "SAT" => Some(number.clamp(least, most)),
            _ => None,
        }
    }
}

#[test]
fn fields_of_bits_hold_what_fits() {
    let mut random = Random::new("fields_of_bits_hold_what_fits");
    let mut harness = Harness::new();
    let mut model = Vec::new();
    for _ in 0..rounds(10_000, 500_000) {
        let signed = random.below(2) == 0;
        let bits = 1 + random.below(if signed { 64 } else { 63 });
        let field = Field { signed, bits, at: random.below(80) };
        let how = random.pick(&["WRAP", "SAT", "FAIL"]);
        let value = edge(&mut random);
        let old = field.get(&model);
        let kind = format!("{}{bits} {}", if signed { 'i' } else { 'u' }, field.at);
        let (line, expected, stored) = match random.below(3) {
            0 => (format!("GET {kind}"), Some(old), None),
            1 => {
                // Redis takes half of what is below a signed field for what is above: not here.
                let value = if signed { value >> 1 } else { value };
                // An unsigned field takes the bits of a negative number.
                let number = if signed { value.into() } else { i128::from(value as u64) };
                let new = field.fit(number, how);
                let line = format!("OVERFLOW {how} SET {kind} {value}");
                (line, new.map(|_| old), Some(new))
            }
            _ => {
                let new = field.fit(old + i128::from(value), how);
                (format!("OVERFLOW {how} INCRBY {kind} {value}"), new, Some(new))
            }
        };
        if let Some(stored) = stored {
            field.set(&mut model, stored.unwrap_or(old));
        }
        let reply = ask(&mut harness, &format!("BITFIELD k {line}"));
        let expected = expected.map_or(Reply::Null, |number| Reply::Int(number as i64));
        assert_eq!(reply, Reply::List(vec![expected]), "{line}, of {old}");
        let text = ask(&mut harness, "GET k");
        assert_eq!(super::bits::bits(text.bytes().unwrap_or_default()), model, "{line}");
    }
}
