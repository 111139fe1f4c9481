//! Counters: INCR, DECR and their kin.

use stillframe_keyspace::{Entry, Expire, Value};
use stillframe_resp::parse_integer;

use crate::context::Context;
use crate::errors::{
    DECREMENT_OVERFLOW, NOT_A_FLOAT, NOT_AN_INTEGER, NOT_FINITE, OVERFLOW, WRONG_TYPE,
};
use crate::number::extended::Extended;
use crate::table::flags::{DENYOOM, FAST, WRITE};
use crate::table::{ONE_KEY, Table};

/// Adds the commands of this module.
pub(crate) fn register<S>(table: &mut Table<S>) {
    const COUNTER: u32 = WRITE | DENYOOM | FAST;
    table.add("decr", 2, COUNTER, ONE_KEY, |ctx, args| add(ctx, args[1], -1));
    table.add("decrby", 3, COUNTER, ONE_KEY, decrby);
    table.add("incr", 2, COUNTER, ONE_KEY, |ctx, args| add(ctx, args[1], 1));
    table.add("incrby", 3, COUNTER, ONE_KEY, incrby);
    table.add("incrbyfloat", 3, COUNTER, ONE_KEY, incrbyfloat);
}

/// `INCRBY key increment`
fn incrby(ctx: &mut Context<'_>, args: &[&[u8]]) {
    match parse_integer(args[2]) {
        Some(increment) => add(ctx, args[1], increment),
        None => ctx.out.error(NOT_AN_INTEGER),
    }
}

/// `DECRBY key decrement`
fn decrby(ctx: &mut Context<'_>, args: &[&[u8]]) {
    match parse_integer(args[2]).map(i64::checked_neg) {
        Some(Some(increment)) => add(ctx, args[1], increment),
        Some(None) => ctx.out.error(DECREMENT_OVERFLOW),
        None => ctx.out.error(NOT_AN_INTEGER),
    }
}

/// `INCR key` and all other integer counters.
fn add(ctx: &mut Context<'_>, key: &[u8], increment: i64) {
    let db = ctx.caller.db;
    let current = match ctx.keyspace.get(db, key, ctx.now).map(Entry::value) {
        None => Some(0),
        Some(Value::Int(int)) => Some(int),
        // Text that APPEND or SETRANGE made may read as an integer.
        Some(Value::Bytes(bytes)) => parse_integer(bytes),
        Some(_) => return ctx.out.error(WRONG_TYPE),
    };
    let Some(current) = current else {
        return ctx.out.error(NOT_AN_INTEGER);
    };
    let Some(sum) = current.checked_add(increment) else {
        return ctx.out.error(OVERFLOW);
    };
    let start = ctx.out.position();
    let outcome = ctx.keyspace.set_int(db, key, sum, Expire::Keep);
    if ctx.stored_as(key, "incrby", start, outcome).is_some() {
        ctx.out.integer(sum);
    }
}

/// `INCRBYFLOAT key increment`
fn incrbyfloat(ctx: &mut Context<'_>, args: &[&[u8]]) {
    let (key, db) = (args[1], ctx.caller.db);
    let current = match ctx.keyspace.get(db, key, ctx.now).map(Entry::value) {
        None => Some(Extended::ZERO),
        Some(Value::Int(int)) => Some(int.into()),
        Some(Value::Bytes(bytes)) => Extended::parse(bytes),
        Some(_) => return ctx.out.error(WRONG_TYPE),
    };
    let (Some(current), Some(increment)) = (current, Extended::parse(args[2])) else {
        return ctx.out.error(NOT_A_FLOAT);
    };
    let Some(sum) = current.checked_add(increment) else {
        return ctx.out.error(NOT_FINITE);
    };
    let mut text = Vec::new();
    sum.print(&mut text);
    let start = ctx.out.position();
    let outcome = ctx.keyspace.set(db, key, &text, Expire::Keep);
    if ctx.stored_as(key, "incrbyfloat", start, outcome).is_some() {
        ctx.effect(&[b"SET", key, &text, b"KEEPTTL"]);
        ctx.out.bulk(text);
    }
}
