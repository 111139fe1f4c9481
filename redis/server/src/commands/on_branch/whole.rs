//! Commands on all keys of a branch, which the list of commands marks with `branch whole`.

use stillframe_commands::{Refusal, check_flush_option, keys_by, parse_swap, scan_by};
use stillframe_keyspace::{Branch, DATABASES, View};
use stillframe_resp::Out;

use super::mutants::{Mutant, is_made};
use super::{Command, Context, not_on_a_branch};
use crate::data::views::NO_BRANCH;

/// Runs the form of a command on all keys of the branch.
pub(super) fn run(ctx: &mut Context<'_>, command: &Command, args: &[&[u8]]) -> Result<(), Refusal> {
    match command.name {
        "dbsize" => dbsize(ctx),
        "flushall" => flush(ctx, 0..DATABASES, args),
        "flushdb" => {
            let db = ctx.session.caller.db;
            flush(ctx, db..db + 1, args)
        }
        "keys" => keys(ctx, args),
        "randomkey" => randomkey(ctx),
        "scan" => scan(ctx, args),
        "swapdb" => swapdb(ctx, args),
        _ => Err(not_on_a_branch(command)),
    }
}

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
fn dbsize(ctx: &mut Context<'_>) -> Result<(), Refusal> {
    read(ctx, |out, (branch, view, db), _| out.integer(branch.len(view, db) as i64))
}

/// `KEYS pattern`
fn keys(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    read(ctx, |out, (branch, view, db), now| {
        keys_by(out, args[1], |show| branch.for_each(view, db, now, show));
    })
}

/// `SCAN cursor [MATCH pattern] [COUNT count] [TYPE type]`
fn scan(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    read(ctx, |out, (branch, view, db), now| {
        scan_by(out, &args[1..], |cursor, count, show| {
            branch.scan(view, db, cursor, count, now, show)
        })
    })?
}

/// `RANDOMKEY`
fn randomkey(ctx: &mut Context<'_>) -> Result<(), Refusal> {
    let on = ctx.branch.as_ref().ok_or(NO_BRANCH)?;
    let view = on.live.view(on.instant).ok_or(NO_BRANCH)?;
    let (db, random) = (ctx.session.caller.db, &mut ctx.server.ledger.random);
    let value = on.data.random(&view, db, ctx.now, &mut || random.bits()).map(|entry| entry.key());
    ctx.out.bulk_or_null(value);
    Ok(())
}

/// `FLUSHDB [ASYNC | SYNC]`, `FLUSHALL [ASYNC | SYNC]`. A client that watches a key there finds it
/// gone, or written if it is there again.
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

/// `SWAPDB index index`
fn swapdb(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
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
