//! Entries by their ids: XRANGE and XREVRANGE, XLEN, XDEL, XSETID.

use stillframe_keyspace::{Stream, StreamId};
use stillframe_resp::parse_integer;

use super::group::effect_of_group;
use super::{answer_entry, id, top_of};
use crate::context::Context;
use crate::errors::{NO_SUCH_KEY, NOT_AN_INTEGER, Refusal, SYNTAX};
use crate::table::Table;

/// Adds the commands of this module.
pub(super) fn register<S>(table: &mut Table<S>) {
    table.add("xdel", xdel);
    table.add("xlen", xlen);
    table.add("xrange", |ctx, args| range(ctx, args, [args[2], args[3]], false));
    table.add("xrevrange", |ctx, args| range(ctx, args, [args[3], args[2]], true));
    table.add("xsetid", xsetid);
}

/// `XLEN key`
fn xlen(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    let (out, stream) = ctx.stream(args[1])?;
    out.integer(stream.map_or(0, |stream| stream.len() as i64));
    Ok(())
}

/// `XRANGE key start end [COUNT count]`, `XREVRANGE key end start [COUNT count]`
fn range(
    ctx: &mut Context<'_>,
    args: &[&[u8]],
    [start, end]: [&[u8]; 2],
    reversed: bool,
) -> Result<(), Refusal> {
    let (start, end) = (id::start(start)?, id::end(end)?);
    let mut count = None;
    let mut options = &args[4..];
    while let [option, after @ ..] = options {
        let ([number, after @ ..], true) = (after, option.eq_ignore_ascii_case(b"count")) else {
            return Err(SYNTAX);
        };
        let number = parse_integer(number).ok_or(NOT_AN_INTEGER)?;
        count = Some(usize::try_from(number).unwrap_or(0));
        options = after;
    }
    let (out, stream) = ctx.stream(args[1])?;
    let Some(stream) = stream else {
        out.array(0);
        return Ok(());
    };
    if count == Some(0) {
        out.null_array();
        return Ok(());
    }
    let first = stream.below(start);
    let behind = end.next().map_or(stream.len(), |end| stream.below(end));
    let found = behind.saturating_sub(first).min(count.unwrap_or(usize::MAX));
    out.array(found);
    if found == 0 {
        return Ok(());
    }
    if reversed {
        stream.iter_back_from(behind - 1).take(found).for_each(|entry| answer_entry(out, &entry));
    } else {
        stream.iter_from(first).take(found).for_each(|entry| answer_entry(out, &entry));
    }
    Ok(())
}

/// `XDEL key id...`
fn xdel(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    let key = args[1];
    let (out, stream) = ctx.found_to_edit::<Stream<'_>>(key)?;
    if stream.is_none() {
        out.integer(0);
        return Ok(());
    }
    let ids = args[2..].iter().map(|text| id::strict(text, 0)).collect::<Result<Vec<_>, _>>()?;
    let deleted = ctx.keyspace.edit_stream(ctx.caller.db, key, |edit| {
        ids.iter().filter(|&&id| edit.delete(id)).count()
    })?;
    if deleted > 0 {
        ctx.changed_times(key, deleted, 't', "xdel");
    }
    ctx.out.integer(deleted as i64);
    Ok(())
}

/// `XSETID key last-id [ENTRIESADDED entries-added] [MAXDELETEDID max-deleted-id]`
fn xsetid(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    let (key, last) = (args[1], id::strict(args[2], 0)?);
    let (mut added, mut deleted) = (None, StreamId::MIN);
    let mut options = &args[3..];
    while let [option, rest @ ..] = options {
        let [value, after @ ..] = rest else { return Err(SYNTAX) };
        match option.to_ascii_lowercase().as_slice() {
            b"entriesadded" => {
                let number = parse_integer(value).ok_or(NOT_AN_INTEGER)?;
                let number = u64::try_from(number);
                added = Some(number.map_err(|_| "ERR entries_added must be positive")?);
            }
            b"maxdeletedid" => {
                deleted = id::strict(value, 0)?;
                if last < deleted {
                    return Err("ERR The ID specified in XSETID is smaller than the provided \
                                max_deleted_entry_id"
                        .into());
                }
            }
            _ => return Err(SYNTAX),
        }
        options = after;
    }
    let (_, stream) = ctx.found_to_edit::<Stream<'_>>(key)?;
    let stream = stream.ok_or(NO_SUCH_KEY)?;
    if let Some(top) = top_of(stream) {
        if last < top {
            return Err(
                "ERR The ID specified in XSETID is smaller than the target stream top item".into(),
            );
        }
        if added.is_some_and(|added| added < stream.len() as u64) {
            return Err("ERR The entries_added specified in XSETID is smaller than the target \
                        stream length"
                .into());
        }
    }
    let ahead = stream.groups().filter(|it| added.is_some() && it.entries_read() > added);
    let ahead: Vec<_> = ahead.map(|it| (it.name().to_vec(), it.last_id())).collect();
    ctx.keyspace.edit_stream(ctx.caller.db, key, |edit| {
        edit.set_last_id(last);
        if let Some(added) = added {
            edit.set_added(added);
        }
        if deleted != StreamId::MIN {
            edit.set_deleted_id(deleted);
        }
    })?;
    // Older servers leave groups ahead.
    ctx.effect(args);
    for (group, last) in &ahead {
        effect_of_group(ctx, key, group, *last, added);
    }
    ctx.changed_beside(key, "xsetid");
    ctx.out.ok();
    Ok(())
}
