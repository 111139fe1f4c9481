//! Elements one behind the other: ARINSERT, ARNEXT, ARSEEK, ARLASTITEMS, and ARRING, which comes
//! back to the first index behind the last one of a ring.

use stillframe_keyspace::{Array, ArrayEdit, INDEX_MAX};
use stillframe_resp::parse_integer;

use super::{Span, answer_positions, answer_unsigned, any_index, elements};
use crate::context::Context;
use crate::errors::{Refusal, SYNTAX, wrong_arity};
use crate::table::Table;

/// Adds the commands of this module.
pub(super) fn register<S>(table: &mut Table<S>) {
    table.add("arinsert", arinsert);
    table.add("arlastitems", arlastitems);
    table.add("arnext", arnext);
    table.add("arring", arring);
    table.add("arseek", arseek);
}

/// `ARINSERT key value...`
fn arinsert(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    let (key, values) = (args[1], &args[2..]);
    let (_, array) = ctx.found_to_edit::<Array<'_>>(key)?;
    let first = array.and_then(Array::inserted).map_or(0, |index| index + 1);
    let last = first.checked_add(values.len() as u64 - 1).filter(|&last| last <= INDEX_MAX);
    let last = last.ok_or("ERR insert index overflow")?;
    ctx.keyspace.edit_array(ctx.caller.db, key, |array| {
        for (index, value) in (first..=last).zip(values) {
            array.set(index, value);
        }
        array.set_inserted(Some(last));
    })?;
    ctx.changed_times(key, values.len(), 'a', "arinsert");
    answer_unsigned(&mut ctx.out, last);
    Ok(())
}

/// `ARRING key size value...`
fn arring(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    let (key, values) = (args[1], &args[3..]);
    let size = parse_integer(args[2]).ok_or("ERR invalid size")?;
    let size = u64::try_from(size).ok().filter(|&size| size > 0);
    let size = size.ok_or("ERR size must be positive")?;
    ctx.found_to_edit::<Array<'_>>(key)?;
    let last = ctx.keyspace.edit_array(ctx.caller.db, key, |array| {
        resize(array, size);
        let mut last = array.view().inserted();
        for value in values {
            let next = last.map_or(0, |last| last + 1) % size;
            array.set(next, value);
            last = Some(next);
        }
        array.set_inserted(last);
        last.unwrap_or(0)
    })?;
    ctx.changed_times(key, values.len(), 'a', "arring");
    answer_unsigned(&mut ctx.out, last);
    Ok(())
}

/// Makes an array a ring of another size, if what is in it says that it was one: the last elements
/// that were inserted without a gap come to its begin, the oldest first.
fn resize(array: &mut ArrayEdit<'_>, size: u64) {
    let (span, inserted) = (array.view().span(), array.view().inserted());
    let has_wrapped = inserted.is_some_and(|last| last + 1 < span);
    if span == 0 || size == span || size > span && !has_wrapped {
        return;
    }
    let last = inserted.map_or(span - 1, |last| last % span);
    let kept = kept_of_ring(array.view(), last, size.min(span));
    array.remove(0, INDEX_MAX);
    for (index, value) in (0..).zip(kept.iter().rev()) {
        array.set(index, value);
    }
    array.set_inserted((kept.len() as u64).checked_sub(1));
}

/// The elements from `last` downwards, and from the end of the ring on, until one is missing; at
/// most so many.
fn kept_of_ring(array: Array<'_>, last: u64, most: u64) -> Vec<Vec<u8>> {
    let from_end = array.span() - 1;
    let down = (0..=last).rev().zip(elements(array, Span::between(last, 0)));
    let mut kept = Vec::new();
    for (at, (index, value)) in down {
        if at != index || kept.len() as u64 == most {
            return kept;
        }
        kept.push(value.to_vec());
    }
    if kept.len() as u64 <= last {
        return kept; // a gap at the begin
    }
    for (at, (index, value)) in
        (last + 1..=from_end).rev().zip(elements(array, Span::between(from_end, last + 1)))
    {
        if at != index || kept.len() as u64 == most {
            return kept;
        }
        kept.push(value.to_vec());
    }
    kept
}

/// `ARNEXT key`
fn arnext(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    let (out, array) = ctx.found::<Array<'_>>(args[1])?;
    match array.and_then(Array::inserted) {
        None => out.integer(0),
        Some(INDEX_MAX) => out.null(),
        Some(last) => answer_unsigned(out, last + 1),
    }
    Ok(())
}

/// `ARSEEK key index`
fn arseek(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    let (key, next) = (args[1], any_index(args[2])?);
    let (out, array) = ctx.found_to_edit::<Array<'_>>(key)?;
    if array.is_none() {
        out.integer(0);
        return Ok(());
    }
    let last = next.map_or(Some(INDEX_MAX), |next| next.checked_sub(1));
    ctx.keyspace.edit_array(ctx.caller.db, key, |array| array.set_inserted(last))?;
    ctx.changed_as(key, 'a', "arseek");
    ctx.out.integer(1);
    Ok(())
}

/// `ARLASTITEMS key count [REV]`
fn arlastitems(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    let count = parse_integer(args[2]).ok_or("ERR invalid COUNT")?;
    let Some(count) = u64::try_from(count).ok().filter(|&count| count > 0) else {
        ctx.out.array(0);
        return Ok(());
    };
    let is_reverse = match &args[3..] {
        [] => false,
        [word] if word.eq_ignore_ascii_case(b"rev") => true,
        [_] => return Err(SYNTAX),
        _ => return Err(wrong_arity("arlastitems")),
    };
    let (out, array) = ctx.found::<Array<'_>>(args[1])?;
    let Some(array) = array else {
        out.array(0);
        return Ok(());
    };
    let span = array.span();
    let count = count.min(array.len() as u64);
    let last = array.inserted().unwrap_or(span - 1);
    // Those up to the last insertion, and before them those at the end.
    let newer = count.min(last + 1);
    let older = count - newer;
    let newer = Span { low: last + 1 - newer, high: last, is_reverse };
    let older = (older > 0).then(|| Span { low: span - older, high: span - 1, is_reverse });
    let spans = if is_reverse { [Some(newer), older] } else { [older, Some(newer)] };
    out.array(count as usize);
    for span in spans.into_iter().flatten() {
        answer_positions(out, Some(array), span);
    }
    Ok(())
}
