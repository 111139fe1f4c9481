//! BITOP.

use stillframe_keyspace::{Expire, IntText};

use crate::command::string::string_bytes;
use crate::context::Context;
use crate::errors::{Refusal, SYNTAX, WrongType};
use crate::table::Table;

/// Adds the command of this module.
pub(super) fn register<S>(table: &mut Table<S>) {
    table.add("bitop", bitop);
}

/// How BITOP combines strings.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Combine {
    And,
    Or,
    Xor,
    Not,
    /// Set in the first one and in no other.
    Diff,
    /// Set in another and not in the first one.
    Diff1,
    /// Set in the first one and in another.
    AndOr,
    /// Set in exactly one.
    One,
}

impl Combine {
    /// The operation of a name, and whether replicas before 8.2 know it.
    fn from_name(name: &[u8]) -> Option<(Self, bool)> {
        Some(match name.to_ascii_lowercase().as_slice() {
            b"and" => (Self::And, true),
            b"or" => (Self::Or, true),
            b"xor" => (Self::Xor, true),
            b"not" => (Self::Not, true),
            b"diff" => (Self::Diff, false),
            b"diff1" => (Self::Diff1, false),
            b"andor" => (Self::AndOr, false),
            b"one" => (Self::One, false),
            _ => return None,
        })
    }

    /// Whether the first string is set against all others.
    fn sets_first_apart(self) -> bool {
        matches!(self, Self::Diff | Self::Diff1 | Self::AndOr)
    }
}

/// `BITOP AND|OR|XOR|NOT|DIFF|DIFF1|ANDOR|ONE destination key...`
fn bitop(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    let destination = args[2];
    let (how, is_old) = Combine::from_name(args[1]).ok_or(SYNTAX)?;
    if how == Combine::Not && args.len() != 4 {
        return Err("ERR BITOP NOT must be called with a single source key.".into());
    }
    if how.sets_first_apart() && args.len() < 5 {
        let name = String::from_utf8_lossy(args[1]).to_uppercase();
        let why = "must be called with at least two source keys.";
        return Err(format!("ERR BITOP {name} {why}").into());
    }
    let mut folded = Folded { how, first: None, rest: None, twice: Vec::new() };
    for key in &args[3..] {
        ctx.read(key, |_, entry| {
            let mut text = IntText::default();
            folded.add(string_bytes(entry, &mut text)?.unwrap_or_default());
            Ok::<_, WrongType>(())
        })?;
    }
    let result = folded.finish();
    if !result.is_empty() {
        ctx.store_string(destination, &result, Expire::Never)?;
    } else {
        ctx.store_nothing(destination);
    }
    if !is_old {
        match result.is_empty() {
            true => ctx.effect(&[b"DEL", destination]),
            false => ctx.effect(&[b"SET", destination, &result]),
        }
    }
    ctx.out.integer(result.len() as i64);
    Ok(())
}

/// The strings so far.
struct Folded {
    how: Combine,
    /// The first string, if it is set apart.
    first: Option<Vec<u8>>,
    /// The others.
    rest: Option<Combined>,
    /// For ONE: bits that are set in several.
    twice: Vec<u8>,
}

impl Folded {
    fn add(&mut self, bytes: &[u8]) {
        if self.how.sets_first_apart() && self.first.is_none() {
            self.first = Some(bytes.to_vec());
            return;
        }
        if self.how == Combine::One {
            let before = self.rest.as_ref().map_or(&[][..], |it| &it.bytes);
            self.twice.resize(self.twice.len().max(before.len().min(bytes.len())), 0);
            let both = before.iter().zip(bytes);
            self.twice.iter_mut().zip(both).for_each(|(twice, (a, b))| *twice |= a & b);
        }
        self.rest = Some(combine(self.rest.take(), bytes, self.how));
    }

    fn finish(self) -> Vec<u8> {
        let mut result = self.rest.unwrap_or_default().bytes;
        if self.how == Combine::One {
            result.iter_mut().zip(self.twice).for_each(|(once, twice)| *once &= !twice);
        }
        let Some(mut first) = self.first else { return result };
        let len = first.len().max(result.len());
        first.resize(len, 0);
        result.resize(len, 0);
        for (into, first) in result.iter_mut().zip(first) {
            *into = match self.how {
                Combine::Diff => first & !*into,
                Combine::Diff1 => !first & *into,
                _ => first & *into,
            };
        }
        result
    }
}

/// Strings that were combined.
#[derive(Default)]
struct Combined {
    bytes: Vec<u8>,
    /// All bytes from here on are zero.
    zeros_from: usize,
}

/// What was combined so far, and one string more; the shorter of the two goes on as zeros. What is
/// zero of a long one is not walked for each short one again.
fn combine(result: Option<Combined>, bytes: &[u8], how: Combine) -> Combined {
    let Some(Combined { bytes: mut result, zeros_from }) = result else {
        let zeros_from = bytes.len();
        let bytes = match how {
            Combine::Not => bytes.iter().map(|byte| !byte).collect(),
            _ => bytes.to_vec(),
        };
        return Combined { bytes, zeros_from };
    };
    result.resize(result.len().max(bytes.len()), 0);
    let common = zeros_from.min(bytes.len());
    let zeros_from = match how {
        Combine::And => {
            result[common..zeros_from].fill(0);
            common
        }
        _ => zeros_from.max(bytes.len()),
    };
    let pairs = result.iter_mut().zip(bytes);
    match how {
        Combine::And => pairs.take(common).for_each(|(into, byte)| *into &= byte),
        Combine::Xor => pairs.for_each(|(into, byte)| *into ^= byte),
        // Bits that are set in several strings leave ONE at the end.
        _ => pairs.for_each(|(into, byte)| *into |= byte),
    }
    Combined { bytes: result, zeros_from }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bit_of_many_strings_is_combined_as_its_name_says() {
        let strings: [&[u8]; 4] = [b"\x0f\xff", b"\x33", b"\x55\x01\x80", b""];
        let byte = |string: &[u8], at: usize| string.get(at).copied().unwrap_or(0);
        for (name, expected) in [
            ("diff", [(|b: [bool; 4]| b[0] && !(b[1] || b[2] || b[3])) as fn([bool; 4]) -> bool]),
            ("diff1", [|b| !b[0] && (b[1] || b[2] || b[3])]),
            ("andor", [|b| b[0] && (b[1] || b[2] || b[3])]),
            ("one", [|b| b.iter().filter(|is| **is).count() == 1]),
            ("or", [|b| b.contains(&true)]),
            ("and", [|b| !b.contains(&false)]),
        ] {
            let (how, _) = Combine::from_name(name.as_bytes()).expect("an operation");
            let mut folded = Folded { how, first: None, rest: None, twice: Vec::new() };
            strings.iter().for_each(|string| folded.add(string));
            let result = folded.finish();
            assert_eq!(result.len(), 3, "{name}");
            for (at, bit) in (0..3).flat_map(|at| (0..8).map(move |bit| (at, bit))) {
                let bits = strings.map(|string| byte(string, at) >> bit & 1 == 1);
                assert_eq!(result[at] >> bit & 1 == 1, expected[0](bits), "{name} {at} {bit}");
            }
        }
    }
}
