//! AROP: one number for a range of elements.

use stillframe_keyspace::Array;
use stillframe_rdb::ArrayNumber;
use stillframe_resp::{Out, parse_integer};

use super::{Span, elements};
use crate::context::Context;
use crate::errors::{Refusal, wrong_arity};
use crate::number::extended::Extended;
use crate::table::Table;

/// Adds the command.
pub(super) fn register<S>(table: &mut Table<S>) {
    table.add("arop", arop);
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operation<'a> {
    Sum,
    Least,
    Greatest,
    And,
    Or,
    Xor,
    /// How many are this text.
    Match(&'a [u8]),
    /// How many there are.
    Used,
}

/// A number of any size.
#[derive(Debug, Clone, Copy)]
enum Number {
    Finite(Extended),
    Infinite {
        negative: bool,
    },
    /// The sum of both infinities.
    None,
}

impl Number {
    /// What the text of an element is, as Redis keeps and reads it.
    fn parse(text: &[u8]) -> Option<Self> {
        if let Some(int) = parse_integer(text) {
            return Some(Self::Finite(Extended::from(int)));
        }
        let unsigned = text.strip_prefix(b"-").or_else(|| text.strip_prefix(b"+"));
        let read = || match Extended::parse(text)? {
            Extended::Infinite => {
                Some(Self::Infinite { negative: unsigned.is_some() && text[0] == b'-' })
            }
            finite => Some(Self::Finite(finite)),
        };
        match ArrayNumber::parse(text) {
            Some(ArrayNumber::Double(double)) => Some(Self::Finite(Extended::from(double))),
            _ => read(),
        }
    }

    fn plus(self, other: Self) -> Self {
        match (self, other) {
            (Self::Finite(one), Self::Finite(two)) => match one.checked_add(two) {
                Some(sum) => Self::Finite(sum),
                None => Self::Infinite { negative: one.is_negative() },
            },
            (Self::Infinite { negative }, Self::Infinite { negative: other })
                if negative != other =>
            {
                Self::None
            }
            (Self::Finite(_), other) => other,
            (this, Self::None) | (this, _) => {
                if matches!(other, Self::None) {
                    other
                } else {
                    this
                }
            }
        }
    }

    fn exceeds(self, other: Self) -> bool {
        match (self, other) {
            (Self::Finite(one), Self::Finite(two)) => one.exceeds(two),
            (Self::Infinite { negative }, Self::Infinite { negative: other }) => !negative && other,
            (Self::Infinite { negative }, _) => !negative,
            (_, Self::Infinite { negative }) => negative,
            _ => false,
        }
    }

    fn answer(self, out: &mut Out<'_>) {
        match self {
            Self::Finite(number) => out.bulk(number.significant()),
            Self::Infinite { negative } => out.bulk(if negative { "-inf" } else { "inf" }),
            Self::None => out.bulk("nan"),
        }
    }
}

/// `AROP key start end (SUM | MIN | MAX | AND | OR | XOR | USED | MATCH value)`
fn arop(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    let span = Span::parse(args[2], args[3])?;
    let operation = match (args[4].to_ascii_lowercase().as_slice(), &args[5..]) {
        (b"match", [value]) => Operation::Match(value),
        (b"match", _) => return Err("ERR MATCH requires a value argument".into()),
        (name, rest) => {
            let operation = match name {
                b"sum" => Operation::Sum,
                b"min" => Operation::Least,
                b"max" => Operation::Greatest,
                b"and" => Operation::And,
                b"or" => Operation::Or,
                b"xor" => Operation::Xor,
                b"used" => Operation::Used,
                _ => return Err("ERR unknown operation".into()),
            };
            if !rest.is_empty() {
                return Err(wrong_arity("arop"));
            }
            operation
        }
    };
    let (out, array) = ctx.found::<Array<'_>>(args[1])?;
    let values = array.into_iter().flat_map(|array| elements(array, span)).map(|it| it.1);
    match operation {
        Operation::Used => {
            out.integer(array.map_or(0, |array| span.count_in(array)) as i64);
        }
        Operation::Match(text) => out.integer(values.filter(|value| *value == text).count() as i64),
        Operation::Sum => match sum(values) {
            Some(sum) => sum.answer(out),
            None => out.null(),
        },
        Operation::Least | Operation::Greatest => {
            let numbers = values.filter_map(Number::parse);
            let one_of = |one: Number, two: Number| match operation {
                Operation::Least if one.exceeds(two) => two,
                Operation::Greatest if two.exceeds(one) => two,
                _ => one,
            };
            match numbers.reduce(one_of) {
                Some(number) => number.answer(out),
                None => out.null(),
            }
        }
        Operation::And | Operation::Or | Operation::Xor => {
            let bits = values.filter_map(integer).reduce(|one, two| match operation {
                Operation::And => one & two,
                Operation::Or => one | two,
                _ => one ^ two,
            });
            match bits {
                Some(bits) => out.integer(bits),
                None => out.null(),
            }
        }
    }
    Ok(())
}

/// The sum of the elements that are numbers. Integers come first in a sum of their own for as long
/// as there are no others, which is exact and quick.
fn sum<'v>(mut values: impl Iterator<Item = &'v [u8]>) -> Option<Number> {
    let whole = |sum: i64| Number::Finite(Extended::from(sum));
    let mut ints = None::<i64>;
    let other = loop {
        let Some(value) = values.next() else { return ints.map(whole) };
        if let Some(int) = parse_integer(value) {
            match ints.unwrap_or(0).checked_add(int) {
                Some(sum) => ints = Some(sum),
                None => break whole(int),
            }
        } else if let Some(number) = Number::parse(value) {
            break number;
        }
    };
    let begun = ints.map_or(other, |ints| whole(ints).plus(other));
    Some(values.filter_map(Number::parse).fold(begun, Number::plus))
}

/// What is before the point of an element that is a number, if that is a 64-bit integer.
fn integer(text: &[u8]) -> Option<i64> {
    parse_integer(text).or_else(|| match Number::parse(text)? {
        Number::Finite(number) => number.whole(),
        _ => None,
    })
}
