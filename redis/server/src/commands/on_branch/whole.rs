//! Commands on all keys of a branch.

use stillframe_commands::{Refusal, check_flush_option, keys_by, parse_swap, scan_by};
use stillframe_keyspace::{Branch, DATABASES, View};
use stillframe_resp::Out;

use super::Context;
use super::mutants::{Mutant, is_made};
use crate::views::NO_BRANCH;

/// Reads from the branch of the request under way, in the selected database.
fn read<R>(
    ctx: &mut Context<'_>,
    answer: impl FnOnce(&mut Out<'_>, (&Branch, &View<'_>, usize), i64) -> R,
) -> Result<R, Refusal> {
    let on = ctx.branch.as_ref().ok_or(NO_BRANCH)?;
    let view = on.live.view(on.instant).ok_or(NO_BRANCH)?;
    Ok(answer(&mut ctx.out, (on.data, &view, ctx.session.caller.db), ctx.now))
}

/// `DBSIZE`
pub(super) fn dbsize(ctx: &mut Context<'_>, _args: &[&[u8]]) -> Result<(), Refusal> {
    read(ctx, |out, (branch, view, db), _| out.integer(branch.len(view, db) as i64))
}

/// `KEYS pattern`
pub(super) fn keys(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    read(ctx, |out, (branch, view, db), now| {
        keys_by(out, args[1], |show| branch.for_each(view, db, now, show));
    })
}

/// `SCAN cursor [MATCH pattern] [COUNT count] [TYPE type]`
pub(super) fn scan(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    read(ctx, |out, (branch, view, db), now| {
        scan_by(out, &args[1..], |cursor, count, show| {
            branch.scan(view, db, cursor, count, now, show)
        })
    })?
}

/// `RANDOMKEY`
pub(super) fn randomkey(ctx: &mut Context<'_>, _args: &[&[u8]]) -> Result<(), Refusal> {
    let on = ctx.branch.as_ref().ok_or(NO_BRANCH)?;
    let view = on.live.view(on.instant).ok_or(NO_BRANCH)?;
    let (db, random) = (ctx.session.caller.db, &mut ctx.server.ledger.random);
    match on.data.random(&view, db, ctx.now, &mut || random.bits()) {
        Some(entry) => ctx.out.bulk(entry.key()),
        None => ctx.out.null(),
    }
    Ok(())
}

/// Empties databases. Who watches a key there finds it gone, or written if it is there again.
fn flush(
    ctx: &mut Context<'_>,
    dbs: std::ops::Range<usize>,
    args: &[&[u8]],
) -> Result<(), Refusal> {
    check_flush_option(&args[1..])?;
    for db in dbs {
        if let Some(on) = &mut ctx.branch {
            on.data.clear(db, ctx.keyspace);
        }
    }
    ctx.out.ok();
    Ok(())
}

/// `FLUSHDB [ASYNC | SYNC]`
pub(super) fn flushdb(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    let db = ctx.session.caller.db;
    flush(ctx, db..db + 1, args)
}

/// `FLUSHALL [ASYNC | SYNC]`
pub(super) fn flushall(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    flush(ctx, 0..DATABASES, args)
}

/// `SWAPDB index index`
pub(super) fn swapdb(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    let [a, b] = parse_swap(args)?;
    let on = ctx.branch.as_mut().ok_or(NO_BRANCH)?;
    if a != b {
        let view = on.live.view(on.instant).ok_or(NO_BRANCH)?;
        let has = |db, key: &[u8]| on.data.get(&view, db, key, ctx.now).is_some();
        for db in [a, b].into_iter().filter(|_| !is_made(Mutant::SwapsUnseen)) {
            ctx.server.ledger.watches.touch_all(db, |key| has(a, key) || has(b, key));
        }
        on.data.swap(a, b);
    }
    ctx.out.ok();
    Ok(())
}
