//! Transactions: MULTI, EXEC, DISCARD, WATCH, UNWATCH.
//!
//! A transaction is one point of consistency: EXEC runs all its requests within one turn of the
//! command thread, so no image and no other client can see half of it.

use super::permissions::denied_at_exec;
use super::{ALL_KEYS, Context, NO_KEYS, Table, run};
use stillframe_redis::Refusal;
use stillframe_redis::flags::{
    ALLOW_BUSY, FAST, LOADING, NOSCRIPT, NOT_QUEUED, SKIP_SLOWLOG, STALE,
};

/// Adds the commands of this module.
pub(crate) fn register(table: &mut Table) {
    const CONTROL: u32 = NOSCRIPT | LOADING | STALE | NOT_QUEUED;
    table.add_server("discard", 1, CONTROL | FAST | ALLOW_BUSY, NO_KEYS, discard);
    table.add_server("exec", 1, CONTROL | SKIP_SLOWLOG, NO_KEYS, exec);
    table.add_server("multi", 1, CONTROL | FAST | ALLOW_BUSY, NO_KEYS, multi);
    table.add_server(
        "unwatch",
        1,
        NOSCRIPT | LOADING | STALE | FAST | ALLOW_BUSY,
        NO_KEYS,
        unwatch,
    );
    table.add_server("watch", -2, CONTROL | FAST | ALLOW_BUSY, ALL_KEYS, watch);
}

/// Queues a request for EXEC and replies `QUEUED`.
pub(crate) fn queue(ctx: &mut Context<'_>, command: usize, args: &[&[u8]]) {
    let Some(transaction) = &mut ctx.session.transaction else { return };
    transaction.push(command, args);
    let flags = ctx.table.get(command).flags;
    transaction.some |= flags;
    transaction.lacked |= !flags;
    ctx.out.simple("QUEUED");
}

/// Drops the open transaction, if any, and the client's watches.
pub(crate) fn close(ctx: &mut Context<'_>) {
    ctx.session.transaction = None;
    forget(ctx);
}

/// Drops the client's watches.
pub(crate) fn forget(ctx: &mut Context<'_>) {
    ctx.server.ledger.watches.forget(ctx.session.caller.id);
    ctx.session.watched_bytes = 0;
}

/// `MULTI`
fn multi(ctx: &mut Context<'_>, _args: &[&[u8]]) -> Result<(), Refusal> {
    if ctx.session.transaction.is_some() {
        return Err("ERR MULTI calls can not be nested".into());
    }
    ctx.session.transaction = Some(Box::default());
    ctx.out.ok();
    Ok(())
}

/// `DISCARD`
fn discard(ctx: &mut Context<'_>, _args: &[&[u8]]) -> Result<(), Refusal> {
    if ctx.session.transaction.is_none() {
        return Err("ERR DISCARD without MULTI".into());
    }
    close(ctx);
    ctx.out.ok();
    Ok(())
}

/// `EXEC`
fn exec(ctx: &mut Context<'_>, _args: &[&[u8]]) -> Result<(), Refusal> {
    let Some(transaction) = ctx.session.transaction.take() else {
        return Err("ERR EXEC without MULTI".into());
    };
    let Context { keyspace, server, session, now, .. } = ctx;
    let exists = |db: usize, key: &[u8]| keyspace.peek(db, key, *now).is_some();
    let changed = server.ledger.watches.changed(session.caller.id, exists);
    close(ctx);
    if transaction.failed {
        return Err("EXECABORT Transaction discarded because of previous errors.".into());
    }
    if changed {
        ctx.out.null_array();
        return Ok(());
    }
    ctx.out.array(transaction.len());
    ctx.server.ledger.in_exec = true;
    transaction.for_each(|command, args| {
        // The user may have changed since the request was queued, also by a queued AUTH.
        let user = ctx.server.users.get(ctx.session.user);
        let checked = !ctx.session.caller.internal && !user.is_some_and(|user| user.unlimited);
        ctx.session.caller.reads_all_keys = !checked;
        let denied = if checked { denied_at_exec(ctx, command, args) } else { None };
        match denied {
            Some(refusal) => ctx.answer_refusal(refusal),
            None => run(ctx, command, args),
        }
    });
    if !ctx.session.caller.internal {
        ctx.refused = None; // EXEC has not failed if one of its requests has
    }
    ctx.server.ledger.in_exec = false;
    ctx.data().no_effect(); // its requests had their own
    Ok(())
}

/// `WATCH key...`
fn watch(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    if ctx.session.transaction.is_some() {
        return Err("ERR WATCH inside MULTI is not allowed".into());
    }
    for key in &args[1..] {
        let exists = ctx.keyspace.peek(ctx.session.caller.db, key, ctx.now).is_some();
        let (client, db) = (ctx.session.caller.id, ctx.session.caller.db);
        ctx.session.watched_bytes += ctx.server.ledger.watches.watch(client, db, key, exists);
    }
    ctx.out.ok();
    Ok(())
}

/// `UNWATCH`
fn unwatch(ctx: &mut Context<'_>, _args: &[&[u8]]) -> Result<(), Refusal> {
    forget(ctx);
    ctx.out.ok();
    Ok(())
}
