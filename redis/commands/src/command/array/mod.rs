//! Arrays: values by numbers, of which most may have none, as in Redis 8.8.
//!
//! Log and replicas get the requests as they are: they do the same again.

mod elements;
mod expression;
mod grep;
mod insert;
mod range;
mod sums;

use stillframe_keyspace::{Array, INDEX_MAX};
use stillframe_resp::{Out, Protocol};

use crate::errors::Refusal;
use crate::number::integers::parse_unsigned;
use crate::table::Table;
use crate::text::c_string;

/// Adds the commands of this module.
pub(crate) fn register<S>(table: &mut Table<S>) {
    elements::register(table);
    grep::register(table);
    insert::register(table);
    range::register(table);
    sums::register(table);
}

/// Positions that a reply shows at most, if most of them have no element.
const POSITIONS_MAX: u64 = 1_000_000;

const INVALID_INDEX: Refusal = Refusal::new("ERR invalid array index");

/// An index; the greatest number is none.
fn index(text: &[u8]) -> Result<u64, Refusal> {
    any_index(text)?.filter(|&index| index <= INDEX_MAX).ok_or(INVALID_INDEX)
}

/// As [`index`], or the number behind the last index as none.
fn any_index(text: &[u8]) -> Result<Option<u64>, Refusal> {
    let number = parse_unsigned(c_string(text)).ok_or(INVALID_INDEX)?;
    Ok(Some(number).filter(|&number| number <= INDEX_MAX))
}

/// Indices from `low` to `high`, upwards or downwards.
#[derive(Clone, Copy)]
struct Span {
    low: u64,
    high: u64,
    is_reverse: bool,
}

impl Span {
    fn parse(start: &[u8], end: &[u8]) -> Result<Self, Refusal> {
        Ok(Self::between(index(start)?, index(end)?))
    }

    fn between(start: u64, end: u64) -> Self {
        Self { low: start.min(end), high: start.max(end), is_reverse: start > end }
    }

    /// How many elements it has in an array.
    fn count_in(self, array: Array<'_>) -> usize {
        array.through(self.high).saturating_sub(array.below(self.low))
    }
}

/// A number that may be greater than an integer of the protocol.
fn answer_unsigned(out: &mut Out<'_>, number: u64) {
    match i64::try_from(number) {
        Ok(number) => out.integer(number),
        Err(_) if out.protocol == Protocol::Resp3 => out.big_number(&number.to_string()),
        Err(_) => out.bulk(number.to_string()),
    }
}

/// The elements of a span with their indices, in its order.
fn elements(array: Array<'_>, span: Span) -> impl Iterator<Item = (u64, &[u8])> {
    let Span { low, high, is_reverse } = span;
    let (first, behind) = (array.below(low), array.through(high));
    let count = behind.saturating_sub(first);
    let up = (!is_reverse).then(|| array.iter_from(first).take(count));
    let down = is_reverse.then(|| array.iter_back_from(behind.saturating_sub(1)).take(count));
    up.into_iter().flatten().chain(down.into_iter().flatten())
}

/// Answers what each position of a span has.
fn answer_positions(out: &mut Out<'_>, array: Option<Array<'_>>, span: Span) {
    let Span { low, high, is_reverse } = span;
    let mut elements = array.into_iter().flat_map(|it| elements(it, span)).peekable();
    let (mut at, end) = if is_reverse { (high, low) } else { (low, high) };
    loop {
        out.bulk_or_null(elements.next_if(|(index, _)| *index == at).map(|(_, value)| value));
        if at == end {
            return;
        }
        at = if is_reverse { at - 1 } else { at + 1 };
    }
}
