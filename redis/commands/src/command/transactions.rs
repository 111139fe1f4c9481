//! Transactions: MULTI, EXEC, DISCARD, WATCH, UNWATCH; and SELECT, the other state of a caller.
//!
//! - A transaction is one point of consistency: EXEC runs all its requests within one turn of the
//!   command thread, so no image and no other client can see half of it.
//! - EXEC is marked in the table and has no handler, as it runs commands of every kind: a server
//!   runs the queued requests as it runs others, between [`begin`] and [`end`].

use crate::caller::Caller;
use crate::command::parse_db;
use crate::context::Context;
use crate::errors::Refusal;
use crate::ledger::Ledger;
use crate::table::Table;
use crate::transaction::Requests;

/// Adds the commands of this module.
pub(crate) fn register<S>(table: &mut Table<S>) {
    table.add("discard", discard);
    table.add_exec();
    table.add("multi", multi);
    table.add("select", select);
    table.add("unwatch", unwatch);
    table.add("watch", watch);
}

/// EXEC up to its first request: closes the caller's transaction and writes the head of the reply.
/// The caller of this function then runs the requests, one after the other, and calls [`end`].
/// `None`: a watched key has changed, which is answered.
///
/// # Errors
/// There is no transaction, or a request of it was refused.
pub fn begin(ctx: &mut Context<'_>) -> Result<Option<Requests>, Refusal> {
    let Some(transaction) = ctx.caller.transaction.take() else {
        return Err("ERR EXEC without MULTI".into());
    };
    let Context { keyspace, ledger, caller, now, .. } = ctx;
    let exists = |db: usize, key: &[u8]| keyspace.peek(db, key, *now).is_some();
    let changed = ledger.watches.changed(caller.id, exists);
    forget_watches(ledger, caller);
    if transaction.failed {
        return Err("EXECABORT Transaction discarded because of previous errors.".into());
    }
    if changed {
        ctx.out.null_array();
        return Ok(None);
    }
    ctx.out.array(transaction.requests.len());
    ctx.ledger.in_exec = true;
    Ok(Some(transaction.requests))
}

/// EXEC after its last request.
pub fn end(ctx: &mut Context<'_>) {
    ctx.ledger.in_exec = false;
    ctx.no_effect(); // its requests had their own
}

/// Drops the caller's open transaction, if any, and its watches.
pub fn close(ledger: &mut Ledger, caller: &mut Caller) {
    caller.transaction = None;
    forget_watches(ledger, caller);
}

/// Drops the caller's watches.
fn forget_watches(ledger: &mut Ledger, caller: &mut Caller) {
    ledger.watches.forget(caller.id);
    caller.watched_bytes = 0;
}

/// `MULTI`
fn multi(ctx: &mut Context<'_>, _args: &[&[u8]]) -> Result<(), Refusal> {
    if ctx.caller.transaction.is_some() {
        return Err("ERR MULTI calls can not be nested".into());
    }
    ctx.caller.transaction = Some(Box::default());
    ctx.out.ok();
    Ok(())
}

/// `DISCARD`
fn discard(ctx: &mut Context<'_>, _args: &[&[u8]]) -> Result<(), Refusal> {
    if ctx.caller.transaction.is_none() {
        return Err("ERR DISCARD without MULTI".into());
    }
    close(ctx.ledger, ctx.caller);
    ctx.out.ok();
    Ok(())
}

/// `WATCH key...`
fn watch(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    if ctx.caller.transaction.is_some() {
        return Err("ERR WATCH inside MULTI is not allowed".into());
    }
    for key in &args[1..] {
        let (client, db) = (ctx.caller.id, ctx.caller.db);
        let exists = ctx.keyspace.peek(db, key, ctx.now).is_some();
        ctx.caller.watched_bytes += ctx.ledger.watches.watch(client, db, key, exists);
    }
    ctx.out.ok();
    Ok(())
}

/// `UNWATCH`
fn unwatch(ctx: &mut Context<'_>, _args: &[&[u8]]) -> Result<(), Refusal> {
    forget_watches(ctx.ledger, ctx.caller);
    ctx.out.ok();
    Ok(())
}

/// `SELECT index`
fn select(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    ctx.caller.db = parse_db(args[1])?;
    ctx.out.ok();
    Ok(())
}
