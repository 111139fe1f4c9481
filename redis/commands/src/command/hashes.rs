//! Hashes.

use std::collections::BTreeMap;

use stillframe_keyspace::{Entry, Hash, Value};
use stillframe_resp::{Out, Protocol, format_integer, parse_integer};

use super::sample::{Count, Draws, distinct_shown};
use crate::context::Context;
use crate::effects::HPEXPIREAT;
use crate::errors::{
    NOT_A_FLOAT, NOT_AN_INTEGER, NOT_FINITE, OUT_OF_RANGE, OVERFLOW, Refusal, SYNTAX, wrong_arity,
};
use crate::number::extended::Extended;
use crate::table::Table;

/// Adds the commands of this module.
pub(crate) fn register<S>(table: &mut Table<S>) {
    table.add("hdel", hdel);
    table.add("hexists", hexists);
    table.add("hget", hget);
    table.add("hgetall", hgetall);
    table.add("hgetdel", hgetdel);
    table.add("hincrby", hincrby);
    table.add("hincrbyfloat", hincrbyfloat);
    table.add("hkeys", hkeys);
    table.add("hlen", hlen);
    table.add("hmget", hmget);
    table.add("hmset", |ctx, args| hset(ctx, args, "hmset"));
    table.add("hrandfield", hrandfield);
    table.add("hset", |ctx, args| hset(ctx, args, "hset"));
    table.add("hsetnx", hsetnx);
    table.add("hstrlen", hstrlen);
    table.add("hvals", hvals);
}

/// `HSET key field value [field value]...` and `HMSET`, which answers OK.
fn hset(ctx: &mut Context<'_>, args: &[&[u8]], command: &'static str) -> Result<(), Refusal> {
    let (key, rest) = (args[1], &args[2..]);
    let (pairs, odd) = rest.as_chunks::<2>();
    if !odd.is_empty() {
        return Err(wrong_arity(command));
    }
    ctx.found_to_edit::<Hash<'_>>(key)?;
    ctx.delete_due(key, pairs.iter().map(|pair| pair[0]));
    let new = ctx.keyspace.edit_hash(ctx.caller.db, key, |hash| {
        pairs.iter().map(|[field, value]| i64::from(hash.set(field, value))).sum::<i64>()
    })?;
    ctx.changed_fields(key, "hset", pairs.iter().map(|pair| pair[0]));
    if command == "hset" {
        ctx.out.integer(new);
    } else {
        ctx.out.ok();
    }
    Ok(())
}

/// Sets one field of a hash that was looked up, which keeps its deadline.
fn keep_field(
    ctx: &mut Context<'_>,
    key: &[u8],
    field: &[u8],
    value: &[u8],
    event: &'static str,
) -> Result<(), Refusal> {
    ctx.delete_due(key, [field]);
    let now = ctx.now;
    ctx.keyspace.edit_hash(ctx.caller.db, key, |hash| hash.set_keeping(field, value, now))?;
    ctx.changed_fields(key, event, [field].into_iter());
    Ok(())
}

/// States the effect that fields expire at an instant.
pub(super) fn expires_at(ctx: &mut Context<'_>, key: &[u8], deadline: i64, fields: &[&[u8]]) {
    let [deadline, count] = [deadline.to_string(), fields.len().to_string()];
    let head: [&[u8]; 5] = [HPEXPIREAT, key, deadline.as_bytes(), b"FIELDS", count.as_bytes()];
    ctx.effect(&[&head[..], fields].concat());
}

/// States the effect that fields have the deadlines that they have: an HSET has taken them away.
pub(super) fn expire_as_before(ctx: &mut Context<'_>, key: &[u8], fields: &[&[u8]]) {
    let mut by_deadline = BTreeMap::<i64, Vec<&[u8]>>::new();
    // A lookup would delete more fields whose time has come, with an event of its own.
    let entry = ctx.keyspace.peek(ctx.caller.db, key, i64::MIN);
    if let Some(Value::Hash(hash)) = entry.map(Entry::value) {
        for &field in fields {
            if let Some(deadline) = hash.deadline(field) {
                by_deadline.entry(deadline).or_default().push(field);
            }
        }
    }
    for (deadline, fields) in by_deadline {
        expires_at(ctx, key, deadline, &fields);
    }
}

/// `HSETNX key field value`
fn hsetnx(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    let (key, field, value) = (args[1], args[2], args[3]);
    let (out, hash) = ctx.found_to_edit::<Hash<'_>>(key)?;
    if hash.is_some_and(|hash| hash.contains(field)) {
        out.integer(0);
        return Ok(());
    }
    ctx.delete_due(key, [field]);
    ctx.keyspace.edit_hash(ctx.caller.db, key, |hash| hash.set(field, value))?;
    ctx.changed_fields(key, "hset", [field].into_iter());
    ctx.out.integer(1);
    Ok(())
}

/// `HGET key field`
fn hget(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    let (out, hash) = ctx.found::<Hash<'_>>(args[1])?;
    answer_field(out, hash, args[2]);
    Ok(())
}

pub(super) fn answer_field(out: &mut Out<'_>, hash: Option<Hash<'_>>, field: &[u8]) {
    out.bulk_or_null(hash.and_then(|hash| hash.get(field)));
}

/// `HMGET key field...`
fn hmget(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    let (out, hash) = ctx.found::<Hash<'_>>(args[1])?;
    out.array(args.len() - 2);
    args[2..].iter().for_each(|field| answer_field(out, hash, field));
    Ok(())
}

/// `HGETALL key`
fn hgetall(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    let (out, hash) = ctx.found::<Hash<'_>>(args[1])?;
    out.map(hash.map_or(0, |hash| hash.len()));
    for (field, value) in hash.iter().flat_map(|hash| hash.iter()) {
        out.bulk(field);
        out.bulk(value);
    }
    Ok(())
}

/// `HKEYS key`
fn hkeys(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    let (out, hash) = ctx.found::<Hash<'_>>(args[1])?;
    out.array(hash.map_or(0, |hash| hash.len()));
    hash.iter().flat_map(|hash| hash.iter()).for_each(|(field, _)| out.bulk(field));
    Ok(())
}

/// `HVALS key`
fn hvals(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    let (out, hash) = ctx.found::<Hash<'_>>(args[1])?;
    out.array(hash.map_or(0, |hash| hash.len()));
    hash.iter().flat_map(|hash| hash.iter()).for_each(|(_, value)| out.bulk(value));
    Ok(())
}

/// `HLEN key`
fn hlen(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    let (out, hash) = ctx.found::<Hash<'_>>(args[1])?;
    out.integer(hash.map_or(0, |hash| hash.quick_len() as i64));
    Ok(())
}

/// `HEXISTS key field`
fn hexists(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    let (out, hash) = ctx.found::<Hash<'_>>(args[1])?;
    out.integer(hash.is_some_and(|hash| hash.contains(args[2])).into());
    Ok(())
}

/// `HSTRLEN key field`
fn hstrlen(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    let (out, hash) = ctx.found::<Hash<'_>>(args[1])?;
    let value = hash.and_then(|hash| hash.get(args[2]));
    out.integer(value.map_or(0, |value| value.len() as i64));
    Ok(())
}

/// `HDEL key field...`
fn hdel(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    let (key, fields) = (args[1], &args[2..]);
    let (out, hash) = ctx.found_to_edit::<Hash<'_>>(key)?;
    if hash.is_none() {
        out.integer(0);
        return Ok(());
    }
    ctx.delete_due(key, fields.iter().copied());
    let (removed, left) = ctx.keyspace.edit_hash(ctx.caller.db, key, |hash| {
        let removed = fields.iter().copied().filter(|field| hash.remove(field)).collect::<Vec<_>>();
        (removed, hash.view().len())
    })?;
    if !removed.is_empty() {
        ctx.changed_fields(key, "hdel", removed.iter().copied());
        ctx.emptied(key, left);
    }
    ctx.out.integer(removed.len() as i64);
    Ok(())
}

/// `HGETDEL key FIELDS numfields field...`
fn hgetdel(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    let key = args[1];
    let (_, hash) = ctx.found_to_edit::<Hash<'_>>(key)?;
    let exists = hash.is_some();
    let fields = counted_fields(&args[2..], NO_FIELDS)?;
    ctx.out.array(fields.len());
    if !exists {
        fields.iter().for_each(|_| ctx.out.null());
        return Ok(());
    }
    ctx.delete_due(key, fields.iter().copied());
    let Context { keyspace, out, caller, .. } = ctx;
    let (removed, left) = keyspace.edit_hash(caller.db, key, |hash| {
        let mut removed = Vec::new();
        for &field in fields {
            answer_field(out, Some(hash.view()), field);
            if hash.remove(field) {
                removed.push(field);
            }
        }
        (removed, hash.view().len())
    })?;
    if !removed.is_empty() {
        ctx.changed_fields(key, "hdel", removed.iter().copied());
        ctx.emptied(key, left);
        ctx.effect(&[&[&b"HDEL"[..], key], fields].concat());
    }
    Ok(())
}

/// FIELDS does not stand where it must.
const NO_WORD: &str = "ERR Mandatory argument FIELDS is missing or not at the right position";
/// No number of fields.
pub(super) const NO_FIELDS: &str = "ERR Number of fields must be a positive integer";

/// What stands behind `FIELDS numfields`, which must count it; `none` refuses any other number.
pub(super) fn counted_fields<'r, 'a>(
    rest: &'r [&'a [u8]],
    none: &'static str,
) -> Result<&'r [&'a [u8]], Refusal> {
    let [word, count, fields @ ..] = rest else { return Err(SYNTAX) };
    if !word.eq_ignore_ascii_case(b"FIELDS") {
        return Err(NO_WORD.into());
    }
    match parse_integer(count) {
        Some(count @ 1..) if count as usize == fields.len() => Ok(fields),
        Some(1..) => Err("ERR The `numfields` parameter must match the number of arguments".into()),
        _ => Err(none.into()),
    }
}

/// `HINCRBY key field increment`
fn hincrby(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    let (key, field) = (args[1], args[2]);
    let increment = parse_integer(args[3]).ok_or(NOT_AN_INTEGER)?;
    let (_, hash) = ctx.found_to_edit::<Hash<'_>>(key)?;
    let current = match hash.and_then(|hash| hash.get(field)).map(parse_integer) {
        None => 0,
        Some(Some(current)) => current,
        Some(None) => return Err("ERR hash value is not an integer".into()),
    };
    let sum = current.checked_add(increment).ok_or(OVERFLOW)?;
    keep_field(ctx, key, field, format_integer(sum, &mut [0; 20]), "hincrby")?;
    ctx.out.integer(sum);
    Ok(())
}

/// `HINCRBYFLOAT key field increment`
fn hincrbyfloat(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    let (key, field) = (args[1], args[2]);
    let increment = match Extended::parse(args[3]) {
        None => return Err(NOT_A_FLOAT),
        Some(Extended::Infinite) => return Err("ERR value is NaN or Infinity".into()),
        Some(increment) => increment,
    };
    let (_, hash) = ctx.found_to_edit::<Hash<'_>>(key)?;
    let current = match hash.and_then(|hash| hash.get(field)).map(Extended::parse) {
        None => Extended::ZERO,
        Some(Some(current)) => current,
        Some(None) => return Err("ERR hash value is not a float".into()),
    };
    let sum = current.checked_add(increment).ok_or(NOT_FINITE)?;
    let mut text = Vec::new();
    sum.print(&mut text);
    keep_field(ctx, key, field, &text, "hincrbyfloat")?;
    if ctx.ledger.effects.wanted() {
        ctx.effect(&[b"hset", key, field, &text]);
        expire_as_before(ctx, key, &[field]);
    }
    ctx.out.bulk(text);
    Ok(())
}

/// `HRANDFIELD key [count [WITHVALUES]]`
fn hrandfield(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    let Some(text) = args.get(2) else {
        let mut random = ctx.ledger.random.split();
        let (out, hash) = ctx.found::<Hash<'_>>(args[1])?;
        out.bulk_or_null(
            hash.and_then(|hash| Draws::new(hash, &mut random).next()).map(|(field, _)| field),
        );
        return Ok(());
    };
    let (count, with_values) = parse_random(text, &args[3..], ctx.out.room())?;
    let mut random = ctx.ledger.random.split();
    let (out, hash) = ctx.found::<Hash<'_>>(args[1])?;
    let Some(hash) = hash else {
        out.array(0);
        return Ok(());
    };
    if !hash.hides_fields() {
        let ranks = count.ranks(&mut random, hash.len());
        let fields = ranks.iter().filter_map(|&rank| hash.at(rank));
        answer_fields(out, ranks.len(), fields, with_values);
        return Ok(());
    }
    let fields: Vec<_> = match count {
        Count::Repeated(count) => Draws::new(hash, &mut random).take(count).collect(),
        Count::Distinct(count) => distinct_shown(hash, &mut random, count),
    };
    answer_fields(out, fields.len(), fields.into_iter(), with_values);
    Ok(())
}

/// The count of HRANDFIELD, and whether values are wanted.
fn parse_random(count: &[u8], rest: &[&[u8]], room: usize) -> Result<(Count, bool), Refusal> {
    let number = Count::parse(count, room)?;
    match rest {
        [] => Ok((number, false)),
        [option] if option.eq_ignore_ascii_case(b"WITHVALUES") => match number {
            Count::Distinct(count) if count > (i64::MAX / 2) as usize => Err(OUT_OF_RANGE),
            _ => Ok((number, true)),
        },
        _ => Err(SYNTAX),
    }
}

fn answer_fields<'h>(
    out: &mut Out<'_>,
    count: usize,
    fields: impl Iterator<Item = (&'h [u8], &'h [u8])>,
    with_values: bool,
) {
    let pairs = with_values && out.protocol == Protocol::Resp3;
    out.array(count * if with_values && !pairs { 2 } else { 1 });
    for (field, value) in fields {
        if pairs {
            out.array(2);
        }
        out.bulk(field);
        if with_values {
            out.bulk(value);
        }
    }
}
