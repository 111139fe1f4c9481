//! Commands that read strings or change parts of them.

use stillframe_keyspace::{Entry, IntText, Type, Value, WARM_BATCH};
use stillframe_resp::parse_integer;

use crate::context::Context;
use crate::context::bulk_value;
use crate::errors::{NOT_AN_INTEGER, OFFSET_RANGE, Refusal, TOO_LONG, WRONG_TYPE, WrongType};
use crate::number::integers::clamp_range;
use crate::table::Table;

/// Adds the commands of this module.
pub(crate) fn register<S>(table: &mut Table<S>) {
    table.add("append", append);
    table.add("get", get);
    table.add("getdel", getdel);
    table.add("getrange", getrange);
    table.add("mget", mget);
    table.add("setrange", setrange);
    table.add("strlen", strlen);
    table.add("substr", getrange);
}

/// `GET key`
fn get(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    ctx.answer_value(args[1])?;
    Ok(())
}

/// `MGET key...`
fn mget(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    let keys = &args[1..];
    ctx.out.array(keys.len());
    for (index, key) in keys.iter().enumerate() {
        if index.is_multiple_of(WARM_BATCH) {
            ctx.keyspace.warm(ctx.caller.db, keys[index..].iter().copied());
        }
        ctx.read(key, |out, entry| {
            if entry.is_none_or(|entry| bulk_value(out, entry.value()).is_err()) {
                out.null();
            }
        });
    }
    Ok(())
}

/// `GETDEL key`
fn getdel(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    let key = args[1];
    if ctx.answer_value(key)? {
        ctx.keyspace.remove(ctx.caller.db, key);
        ctx.effect(&[b"DEL", key]);
        ctx.changed_as(key, 'g', "del");
    }
    Ok(())
}

/// `STRLEN key`
fn strlen(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    ctx.read(args[1], |out, entry| {
        out.integer(length_of(entry)? as i64);
        Ok(())
    })
}

/// `GETRANGE key start end`: the bytes from `start` to `end` inclusive.
fn getrange(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    let (Some(start), Some(end)) = (parse_integer(args[2]), parse_integer(args[3])) else {
        return Err(NOT_AN_INTEGER);
    };
    ctx.read(args[1], |out, entry| {
        let mut text = IntText::default();
        let value = entry.map(Entry::value);
        if value.is_some_and(|value| value.kind() != Type::String) {
            return Err(WRONG_TYPE);
        }
        let bytes = value.map_or(&[][..], |value| value.to_bytes(&mut text));
        out.bulk(bytes.get(clamp_range(start, end, bytes.len())).unwrap_or_default());
        Ok(())
    })
}

/// `SETRANGE key offset value`
fn setrange(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    let (key, patch) = (args[1], args[3]);
    let offset = parse_integer(args[2]).ok_or(NOT_AN_INTEGER)?;
    let offset = usize::try_from(offset).map_err(|_| OFFSET_RANGE)?;
    let length = length(ctx, key)?;
    if patch.is_empty() {
        ctx.out.integer(length as i64);
        return Ok(());
    }
    if too_long(ctx, offset, patch.len()) {
        return Err(TOO_LONG);
    }
    let outcome = ctx.keyspace.set_range(ctx.caller.db, key, offset, patch);
    let length = ctx.stored_as(key, "setrange", outcome)?;
    ctx.out.integer(length as i64);
    Ok(())
}

/// `APPEND key value`
fn append(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    let (key, tail) = (args[1], args[2]);
    let length = length(ctx, key)?;
    if too_long(ctx, length, tail.len()) {
        return Err(TOO_LONG);
    }
    let outcome = ctx.keyspace.append(ctx.caller.db, key, tail);
    let length = ctx.stored_as(key, "append", outcome)?;
    ctx.out.integer(length as i64);
    Ok(())
}

/// Length of a key's text, 0 if there is no such key. Deletes the key if its time has come.
fn length(ctx: &mut Context<'_>, key: &[u8]) -> Result<usize, WrongType> {
    length_of(ctx.keyspace.get(ctx.caller.db, key, ctx.now))
}

/// The bytes of a string, `None` of an absent key; an error for any other type.
pub(in crate::command) fn string_bytes<'a>(
    entry: Option<&'a Entry>,
    text: &'a mut IntText,
) -> Result<Option<&'a [u8]>, WrongType> {
    match entry.map(Entry::value) {
        None => Ok(None),
        Some(value @ (Value::Int(_) | Value::Bytes(_))) => Ok(Some(value.to_bytes(text))),
        Some(_) => Err(WrongType),
    }
}

/// Length of an entry's text, 0 if there is none.
pub(in crate::command) fn length_of(entry: Option<&Entry>) -> Result<usize, WrongType> {
    match entry.map(Entry::value) {
        None => Ok(0),
        Some(value) if value.kind() == Type::String => Ok(value.len()),
        Some(_) => Err(WrongType),
    }
}

/// Whether a string of `length` and `more` bytes would be longer than clients could send.
fn too_long(ctx: &Context<'_>, length: usize, more: usize) -> bool {
    length.checked_add(more).is_none_or(|total| total > ctx.string_bytes_max())
}
