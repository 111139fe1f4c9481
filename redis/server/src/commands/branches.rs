//! STILLFRAME BRANCH: writable copies of the data set, which pay for what is written to them.

use stillframe_commands::errors::SYNTAX;
use stillframe_commands::facts::BranchMode;
use stillframe_commands::{Refusal, scan_remarks_by};
use stillframe_keyspace::Change;

use super::on_branch::{leave, mode, on};
use super::views::{answer_fields, find, parse_number};
use super::{Context, run as run_command, transactions};
use crate::data::views::{NO_BRANCH, Times};

/// `STILLFRAME BRANCH OPEN [FROM id] | USE (id | OFF) | RUN id command ... | DIFF id cursor ... |
/// CLOSE id | LIST`
pub(super) fn branch(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    let word = args[2].to_ascii_lowercase();
    match (&word[..], &args[3..]) {
        (b"open", []) => open(ctx, None),
        (b"open", [from, id]) if from.eq_ignore_ascii_case(b"from") => open(ctx, Some(number(id)?)),
        (b"use", [off]) if off.eq_ignore_ascii_case(b"off") => use_branch(ctx, None),
        (b"use", [id]) => use_branch(ctx, Some(number(id)?)),
        (b"run", [id, request @ ..]) if !request.is_empty() => run(ctx, number(id)?, request),
        (b"diff", [id, rest @ ..]) if !rest.is_empty() => diff(ctx, number(id)?, rest),
        (b"close", [id]) => {
            ctx.server.views.close(ctx.keyspace, number(id)?, true)?;
            ctx.out.ok();
            Ok(())
        }
        (b"list", []) => {
            list(ctx);
            Ok(())
        }
        _ => Err(SYNTAX),
    }
}

fn number(text: &[u8]) -> Result<u64, Refusal> {
    parse_number(text, "ERR The number of a branch is what STILLFRAME BRANCH OPEN replied")
}

/// Within a transaction the data set is half changed, and the branch in use does not change.
fn check_not_within(ctx: &mut Context<'_>) -> Result<(), Refusal> {
    if ctx.session.caller.transaction.is_none() && ctx.data().may_block() {
        return Ok(());
    }
    Err("ERR STILLFRAME BRANCH OPEN and USE are not allowed in transactions and scripts".into())
}

/// `STILLFRAME BRANCH OPEN [FROM id]`
fn open(ctx: &mut Context<'_>, from: Option<u64>) -> Result<(), Refusal> {
    check_not_within(ctx)?;
    let server = &mut *ctx.server;
    let times = Times { turn: server.clock.turn(), now: ctx.now };
    let (caller, random) = (&ctx.session.caller, &mut server.ledger.random);
    let id = server.views.branch(ctx.keyspace, &server.config, caller, random, times, from)?;
    ctx.out.integer(id as i64);
    Ok(())
}

/// `STILLFRAME BRANCH USE (id | OFF)`
fn use_branch(ctx: &mut Context<'_>, id: Option<u64>) -> Result<(), Refusal> {
    check_not_within(ctx)?;
    if let Some(id) = id {
        ctx.server.views.touch_branch(id, ctx.server.clock.turn())?;
    }
    leave(ctx);
    transactions::close(ctx);
    ctx.session.branch = id;
    ctx.out.ok();
    Ok(())
}

/// `STILLFRAME BRANCH RUN id command [argument ...]`
fn run(ctx: &mut Context<'_>, id: u64, request: &[&[u8]]) -> Result<(), Refusal> {
    let index = find(ctx, request)?;
    let command = ctx.table.get(index);
    match mode(command) {
        BranchMode::Keys | BranchMode::Whole => {}
        BranchMode::Requests if !command.is_exec() => {}
        _ => {
            let error = format!(
                "ERR A branch runs commands that work on keys, and scripts, and '{}' is none; \
                 STILLFRAME BRANCH USE has all requests of a connection run on it",
                command.name
            );
            return Err(error.into());
        }
    }
    let place = ctx.session.caller.last_command;
    let outcome = on(ctx, id, |ctx| run_command(ctx, index, request));
    ctx.session.caller.last_command = place;
    outcome
}

/// `STILLFRAME BRANCH DIFF id cursor [MATCH pattern] [COUNT count]`: in the selected database.
fn diff(ctx: &mut Context<'_>, id: u64, args: &[&[u8]]) -> Result<(), Refusal> {
    let branch = ctx.server.views.touch_branch(id, ctx.server.clock.turn())?;
    let data = branch.data().ok_or(NO_BRANCH)?;
    let view = ctx.keyspace.view(branch.instant).ok_or(NO_BRANCH)?;
    let (db, now) = (ctx.session.caller.db, ctx.now);
    scan_remarks_by(&mut ctx.out, args, |cursor, count, show| {
        data.scan_changes(&view, db, cursor, count, now, |change, entry| {
            let word = match change {
                Change::Created => "created",
                Change::Changed => "changed",
                Change::Deleted => "deleted",
            };
            show(entry, word);
        })
    })
}

/// `STILLFRAME BRANCH LIST`
fn list(ctx: &mut Context<'_>) {
    let (turn, db) = (ctx.server.clock.turn(), ctx.session.caller.db);
    ctx.out.array(ctx.server.views.branches().count());
    for branch in ctx.server.views.branches() {
        let since = |time| turn.saturating_duration_since(time).as_secs() as i64;
        let view = ctx.keyspace.view(branch.instant);
        let data = branch.data();
        let changes = data.map(|data| data.changes(db)).unwrap_or_default();
        let keys = data.zip(view.as_ref()).map_or(0, |(data, view)| data.len(view, db));
        let fields = [
            ("id", branch.id as i64),
            ("client", branch.client as i64),
            ("opened-ms", view.as_ref().map_or(0, |view| view.now())),
            ("age", since(branch.opened)),
            ("idle", since(branch.used)),
            ("keys", keys as i64),
            ("created", changes.created as i64),
            ("changed", changes.changed as i64),
            ("deleted", changes.deleted as i64),
            ("emptied", changes.emptied.into()),
            ("bytes", data.map_or(0, |data| data.bytes()) as i64),
        ];
        answer_fields(&mut ctx.out, &fields);
    }
}
