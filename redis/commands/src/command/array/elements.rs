//! Elements by their indices: ARGET, ARMGET, ARSET, ARMSET, ARDEL, ARDELRANGE, and how many there
//! are: ARCOUNT, ARLEN, ARINFO.

use stillframe_keyspace::{Array, INDEX_MAX};

use super::{Span, answer_unsigned, index};
use crate::context::Context;
use crate::errors::{NO_SUCH_KEY, Refusal, SYNTAX, wrong_arity};
use crate::table::Table;

/// Adds the commands of this module.
pub(super) fn register<S>(table: &mut Table<S>) {
    table.add("arcount", arcount);
    table.add("ardel", ardel);
    table.add("ardelrange", ardelrange);
    table.add("arget", arget);
    table.add("arinfo", arinfo);
    table.add("arlen", arlen);
    table.add("armget", armget);
    table.add("armset", armset);
    table.add("arset", arset);
}

/// `ARGET key index`
fn arget(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    let (out, array) = ctx.found::<Array<'_>>(args[1])?;
    let index = index(args[2])?;
    out.bulk_or_null(array.and_then(|array| array.get(index)));
    Ok(())
}

/// `ARMGET key index...`
fn armget(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    let (out, array) = ctx.found::<Array<'_>>(args[1])?;
    let indices = args[2..].iter().map(|text| index(text)).collect::<Result<Vec<_>, _>>()?;
    out.array(indices.len());
    for index in indices {
        out.bulk_or_null(array.and_then(|array| array.get(index)));
    }
    Ok(())
}

/// `ARSET key index value...`
fn arset(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    let (key, first, values) = (args[1], index(args[2])?, &args[3..]);
    let last = first.checked_add(values.len() as u64 - 1).filter(|&last| last <= INDEX_MAX);
    let last = last.ok_or("ERR array index overflow")?;
    set(ctx, "arset", key, (first..=last).zip(values.iter().copied()))
}

/// `ARMSET key (index value)...`
fn armset(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    let (pairs, odd) = args[2..].as_chunks::<2>();
    if !odd.is_empty() {
        return Err(wrong_arity("armset"));
    }
    let indices = pairs.iter().map(|[at, _]| index(at)).collect::<Result<Vec<_>, _>>()?;
    let values = pairs.iter().map(|[_, value]| *value);
    set(ctx, "armset", args[1], indices.into_iter().zip(values))
}

/// Sets elements, and answers how many are new.
fn set<'v>(
    ctx: &mut Context<'_>,
    event: &'static str,
    key: &[u8],
    elements: impl Iterator<Item = (u64, &'v [u8])>,
) -> Result<(), Refusal> {
    ctx.found_to_edit::<Array<'_>>(key)?;
    let (new, all) = ctx.keyspace.edit_array(ctx.caller.db, key, |array| {
        let set = elements.map(|(index, value)| array.set(index, value));
        set.fold((0, 0), |(new, all), is_new| (new + i64::from(is_new), all + 1))
    })?;
    ctx.changed_times(key, all, 'a', event);
    ctx.out.integer(new);
    Ok(())
}

/// `ARDEL key index...`
fn ardel(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    let indices = args[2..].iter().map(|text| index(text)).collect::<Result<Vec<_>, _>>()?;
    delete(ctx, "ardel", args[1], indices.into_iter().map(|index| (index, index)))
}

/// `ARDELRANGE key (start end)...`
fn ardelrange(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    let (pairs, odd) = args[2..].as_chunks::<2>();
    if !odd.is_empty() {
        return Err(wrong_arity("ardelrange"));
    }
    let ranges = pairs.iter().map(|[start, end]| Span::parse(start, end));
    let ranges = ranges.collect::<Result<Vec<_>, _>>()?;
    delete(ctx, "ardelrange", args[1], ranges.into_iter().map(|span| (span.low, span.high)))
}

/// Deletes the elements of ranges, and answers how many there were.
fn delete(
    ctx: &mut Context<'_>,
    event: &'static str,
    key: &[u8],
    ranges: impl Iterator<Item = (u64, u64)>,
) -> Result<(), Refusal> {
    let (out, array) = ctx.found_to_edit::<Array<'_>>(key)?;
    if array.is_none() {
        out.integer(0);
        return Ok(());
    }
    let (deleted, left) = ctx.keyspace.edit_array(ctx.caller.db, key, |array| {
        let deleted = ranges.map(|(low, high)| array.remove(low, high)).sum::<usize>();
        (deleted, array.view().len())
    })?;
    if deleted > 0 {
        ctx.changed_times(key, deleted, 'a', event);
        ctx.emptied(key, left);
    }
    ctx.out.integer(deleted as i64);
    Ok(())
}

/// `ARCOUNT key`
fn arcount(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    let (out, array) = ctx.found::<Array<'_>>(args[1])?;
    out.integer(array.map_or(0, |array| array.len() as i64));
    Ok(())
}

/// `ARLEN key`
fn arlen(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    let (out, array) = ctx.found::<Array<'_>>(args[1])?;
    answer_unsigned(out, array.map_or(0, Array::span));
    Ok(())
}

/// `ARINFO key [FULL]`: an array here has none of the slices that Redis's consist of.
fn arinfo(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    let is_full = match &args[2..] {
        [] => false,
        [word] if word.eq_ignore_ascii_case(b"full") => true,
        _ => return Err(SYNTAX),
    };
    let (out, array) = ctx.found::<Array<'_>>(args[1])?;
    let array = array.ok_or(NO_SUCH_KEY)?;
    out.map(if is_full { 12 } else { 7 });
    let next = array.inserted().filter(|&index| index < INDEX_MAX).map_or(0, |index| index + 1);
    for (name, number) in
        [("count", array.len() as u64), ("len", array.span()), ("next-insert-index", next)]
    {
        out.bulk(name);
        answer_unsigned(out, number);
    }
    for name in ["slices", "directory-size", "super-dir-entries", "slice-size"] {
        out.bulk(name);
        out.integer(0);
    }
    if is_full {
        for name in ["dense-slices", "sparse-slices"] {
            out.bulk(name);
            out.integer(0);
        }
        for name in ["avg-dense-size", "avg-dense-fill", "avg-sparse-size"] {
            out.bulk(name);
            out.double(0.0);
        }
    }
    Ok(())
}
