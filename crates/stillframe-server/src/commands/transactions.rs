//! Transactions: MULTI, EXEC, DISCARD, WATCH, UNWATCH.
//!
//! A transaction is one point of consistency: EXEC runs all its requests within one turn of the
//! command thread, so no image and no other client can see half of it.

use stillframe::Algorithm;

pub(crate) use super::watch::Watches;

use super::flags::{
    ALLOW_BUSY, DENYOOM, FAST, LOADING, NOSCRIPT, NOT_QUEUED, SKIP_SLOWLOG, STALE, WRITE,
};
use super::permissions::denied_at_exec;
use super::{ALL_KEYS, Context, NO_KEYS, Table, run};
use crate::session::Session;

/// Adds the commands of this module.
pub(crate) fn register<A: Algorithm>(table: &mut Table<A>) {
    const CONTROL: u32 = NOSCRIPT | LOADING | STALE | NOT_QUEUED;
    table.add("discard", 1, CONTROL | FAST | ALLOW_BUSY, NO_KEYS, discard);
    table.add("exec", 1, CONTROL | SKIP_SLOWLOG, NO_KEYS, exec);
    table.add("multi", 1, CONTROL | FAST | ALLOW_BUSY, NO_KEYS, multi);
    table.add("unwatch", 1, NOSCRIPT | LOADING | STALE | FAST | ALLOW_BUSY, NO_KEYS, unwatch);
    table.add("watch", -2, CONTROL | FAST | ALLOW_BUSY, ALL_KEYS, watch);
}

/// An open transaction.
#[derive(Default)]
pub(crate) struct Transaction {
    /// Arguments of all queued requests, names included, end to end.
    bytes: Vec<u8>,
    /// Where each argument ends in `bytes`.
    ends: Vec<usize>,
    queued: Vec<Queued>,
    /// A queued request is of a command that writes.
    writes: bool,
    /// A queued request is of a command that may take memory.
    takes_memory: bool,
    /// A queued request is of a command that may not run while data is loaded.
    waits_for_data: bool,
    /// A request was refused: EXEC will refuse them all.
    pub(crate) failed: bool,
}

/// A request that waits for EXEC.
struct Queued {
    /// Index of the command in the table.
    command: usize,
    /// How many of the arguments are its own.
    args: usize,
}

impl Transaction {
    /// Bytes of memory the queue holds.
    pub(crate) fn memory(&self) -> usize {
        self.bytes.capacity()
            + self.ends.capacity() * size_of::<usize>()
            + self.queued.capacity() * size_of::<Queued>()
    }

    /// Requests in the queue.
    pub(crate) fn len(&self) -> usize {
        self.queued.len()
    }

    pub(crate) fn push(&mut self, command: usize, args: &[&[u8]]) {
        for arg in args {
            self.bytes.extend_from_slice(arg);
            self.ends.push(self.bytes.len());
        }
        self.queued.push(Queued { command, args: args.len() });
    }

    /// Calls `f` with each request, in order.
    pub(crate) fn for_each(&self, mut f: impl FnMut(usize, &[&[u8]])) {
        let (mut start, mut ends) = (0, self.ends.iter());
        let mut args = Vec::new();
        for queued in &self.queued {
            args.clear();
            for &end in ends.by_ref().take(queued.args) {
                args.push(&self.bytes[start..end]);
                start = end;
            }
            f(queued.command, &args);
        }
    }
}

/// Queues a request for EXEC and answers `QUEUED`.
pub(crate) fn queue<A: Algorithm>(ctx: &mut Context<'_, A>, command: usize, args: &[&[u8]]) {
    let Some(transaction) = &mut ctx.session.transaction else { return };
    transaction.push(command, args);
    transaction.writes |= ctx.table.get(command).has(WRITE);
    transaction.takes_memory |= ctx.table.get(command).has(DENYOOM);
    transaction.waits_for_data |= !ctx.table.get(command).has(LOADING);
    ctx.out.simple("QUEUED");
}

/// Whether the session's open transaction would write.
pub(crate) fn writes(session: &Session) -> bool {
    session.transaction.as_ref().is_some_and(|transaction| transaction.writes)
}

/// Whether the session's open transaction may take memory.
pub(crate) fn takes_memory(session: &Session) -> bool {
    session.transaction.as_ref().is_some_and(|transaction| transaction.takes_memory)
}

/// Whether the session's open transaction may not run while data is loaded.
pub(crate) fn waits_for_data(session: &Session) -> bool {
    session.transaction.as_ref().is_some_and(|transaction| transaction.waits_for_data)
}

/// Drops the open transaction, if any, and forgets what the client watched.
pub(crate) fn close<A: Algorithm>(ctx: &mut Context<'_, A>) {
    ctx.session.transaction = None;
    ctx.server.watches.forget(ctx.session.id);
}

/// `MULTI`
fn multi<A: Algorithm>(ctx: &mut Context<'_, A>, _args: &[&[u8]]) {
    if ctx.session.transaction.is_some() {
        return ctx.out.error("ERR MULTI calls can not be nested");
    }
    ctx.session.transaction = Some(Box::default());
    ctx.out.ok();
}

/// `DISCARD`
fn discard<A: Algorithm>(ctx: &mut Context<'_, A>, _args: &[&[u8]]) {
    if ctx.session.transaction.is_none() {
        return ctx.out.error("ERR DISCARD without MULTI");
    }
    close(ctx);
    ctx.out.ok();
}

/// `EXEC`
fn exec<A: Algorithm>(ctx: &mut Context<'_, A>, _args: &[&[u8]]) {
    let Some(transaction) = ctx.session.transaction.take() else {
        return ctx.out.error("ERR EXEC without MULTI");
    };
    let Context { keyspace, server, session, now, .. } = ctx;
    let exists = |db: usize, key: &[u8]| keyspace.peek(db, key, *now).is_some();
    let changed = server.watches.changed(session.id, exists);
    close(ctx);
    if transaction.failed {
        return ctx.out.error("EXECABORT Transaction discarded because of previous errors.");
    }
    if changed {
        return ctx.out.null_array();
    }
    ctx.out.array(transaction.len());
    ctx.server.in_exec = true;
    transaction.for_each(|command, args| {
        // The user may have changed since the request was queued, by AUTH among them, too.
        let user = ctx.server.users.get(ctx.session.user);
        let checked = !ctx.session.internal && !user.is_some_and(|user| user.unlimited);
        let denied = if checked { denied_at_exec(ctx, command, args) } else { None };
        match denied {
            Some(error) => {
                ctx.server.stats.count_error(error.as_bytes());
                ctx.out.error(error);
            }
            None => run(ctx, command, args),
        }
    });
    ctx.server.in_exec = false;
    ctx.no_effect(); // its requests told theirs
}

/// `WATCH key...`
fn watch<A: Algorithm>(ctx: &mut Context<'_, A>, args: &[&[u8]]) {
    if ctx.session.transaction.is_some() {
        return ctx.out.error("ERR WATCH inside MULTI is not allowed");
    }
    for key in &args[1..] {
        let exists = ctx.keyspace.peek(ctx.session.db, key, ctx.now).is_some();
        ctx.server.watches.watch(ctx.session.id, ctx.session.db, key, exists);
    }
    ctx.out.ok();
}

/// `UNWATCH`
fn unwatch<A: Algorithm>(ctx: &mut Context<'_, A>, _args: &[&[u8]]) {
    ctx.server.watches.forget(ctx.session.id);
    ctx.out.ok();
}
