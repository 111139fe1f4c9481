//! Elements of a range of indices: ARGETRANGE, ARSCAN.

use stillframe_keyspace::Array;
use stillframe_resp::{Out, parse_integer};

use super::{POSITIONS_MAX, Span, answer_positions, answer_unsigned, elements};
use crate::context::Context;
use crate::errors::{NOT_AN_INTEGER, Refusal, SYNTAX, wrong_arity};
use crate::table::Table;

/// Adds the commands of this module.
pub(super) fn register<S>(table: &mut Table<S>) {
    table.add("argetrange", argetrange);
    table.add("arscan", arscan);
}

/// `ARGETRANGE key start end`
fn argetrange(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    let span = Span::parse(args[2], args[3])?;
    let (out, array) = ctx.found::<Array<'_>>(args[1])?;
    let last = span.high - span.low;
    if last >= POSITIONS_MAX {
        return Err("ERR range exceeds maximum of 1000000 items".into());
    }
    out.array((last + 1) as usize);
    answer_positions(out, array, span);
    Ok(())
}

/// `ARSCAN key start end [LIMIT count]`
fn arscan(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    let span = Span::parse(args[2], args[3])?;
    let most = match &args[4..] {
        [] => usize::MAX,
        [word, count] if word.eq_ignore_ascii_case(b"limit") => limit(count)?,
        [_, _] => return Err(SYNTAX),
        _ => return Err(wrong_arity("arscan")),
    };
    let (out, array) = ctx.found::<Array<'_>>(args[1])?;
    let Some(array) = array else {
        out.array(0);
        return Ok(());
    };
    let count = span.count_in(array).min(most);
    out.array(count);
    elements(array, span).take(count).for_each(|(index, value)| answer_element(out, index, value));
    Ok(())
}

/// An element behind its index.
pub(super) fn answer_element(out: &mut Out<'_>, index: u64, value: &[u8]) {
    out.array(2);
    answer_unsigned(out, index);
    out.bulk(value);
}

/// How many elements a reply shows at most.
pub(super) fn limit(count: &[u8]) -> Result<usize, Refusal> {
    match parse_integer(count).ok_or(NOT_AN_INTEGER)? {
        count @ 1.. => Ok(usize::try_from(count).unwrap_or(usize::MAX)),
        _ => Err("ERR LIMIT must be positive".into()),
    }
}
