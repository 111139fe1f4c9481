//! Counters: INCR, DECR and their kin.

use stillframe_keyspace::{Entry, Expire, Value};
use stillframe_resp::parse_integer;

use crate::context::Context;
use crate::errors::{
    DECREMENT_OVERFLOW, NOT_A_FLOAT, NOT_AN_INTEGER, NOT_FINITE, OVERFLOW, Refusal, WRONG_TYPE,
};
use crate::number::extended::Extended;
use crate::table::Table;

/// Adds the commands of this module.
pub(crate) fn register<S>(table: &mut Table<S>) {
    table.add("decr", |ctx, args| add(ctx, args[1], -1));
    table.add("decrby", decrby);
    table.add("incr", |ctx, args| add(ctx, args[1], 1));
    table.add("incrby", incrby);
    table.add("incrbyfloat", incrbyfloat);
}

/// `INCRBY key increment`
fn incrby(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    add(ctx, args[1], parse_integer(args[2]).ok_or(NOT_AN_INTEGER)?)
}

/// `DECRBY key decrement`
fn decrby(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    let decrement = parse_integer(args[2]).ok_or(NOT_AN_INTEGER)?;
    add(ctx, args[1], decrement.checked_neg().ok_or(DECREMENT_OVERFLOW)?)
}

/// `INCR key` and all other integer counters.
fn add(ctx: &mut Context<'_>, key: &[u8], increment: i64) -> Result<(), Refusal> {
    let db = ctx.caller.db;
    let current = match ctx.keyspace.get(db, key, ctx.now).map(Entry::value) {
        None => Some(0),
        Some(Value::Int(int)) => Some(int),
        // Text that APPEND or SETRANGE made may read as an integer.
        Some(Value::Bytes(bytes)) => parse_integer(bytes),
        Some(_) => return Err(WRONG_TYPE),
    };
    let current = current.ok_or(NOT_AN_INTEGER)?;
    let sum = current.checked_add(increment).ok_or(OVERFLOW)?;
    let outcome = ctx.keyspace.set_int(db, key, sum, Expire::Keep);
    ctx.stored_as(key, "incrby", outcome)?;
    ctx.out.integer(sum);
    Ok(())
}

/// `INCRBYFLOAT key increment`
fn incrbyfloat(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    let (key, db) = (args[1], ctx.caller.db);
    let current = match ctx.keyspace.get(db, key, ctx.now).map(Entry::value) {
        None => Some(Extended::ZERO),
        Some(Value::Int(int)) => Some(int.into()),
        Some(Value::Bytes(bytes)) => Extended::parse(bytes),
        Some(_) => return Err(WRONG_TYPE),
    };
    let (Some(current), Some(increment)) = (current, Extended::parse(args[2])) else {
        return Err(NOT_A_FLOAT);
    };
    let sum = current.checked_add(increment).ok_or(NOT_FINITE)?;
    let mut text = Vec::new();
    sum.print(&mut text);
    let outcome = ctx.keyspace.set(db, key, &text, Expire::Keep);
    ctx.stored_as(key, "incrbyfloat", outcome)?;
    ctx.effect(&[b"SET", key, &text, b"KEEPTTL"]);
    ctx.out.bulk(text);
    Ok(())
}
