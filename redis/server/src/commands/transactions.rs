//! How the server queues the requests of a transaction, and runs EXEC: each request with its
//! permissions, counters and messages, as outside of a transaction.

use stillframe_commands::{Refusal, transactions};

use super::permissions::denied_at_exec;
use super::units::outgrows_unit;
use super::{Context, flags, on_branch, run};

/// Queues a request for EXEC and replies `QUEUED`.
pub(super) fn queue(ctx: &mut Context<'_>, command: usize, args: &[&[u8]]) {
    let flags = on_branch::flags_of(ctx, ctx.table.get(command), args);
    let Some(transaction) = &mut ctx.session.caller.transaction else { return };
    transaction.requests.push(command, flags, args);
    ctx.out.simple("QUEUED");
}

/// Drops the open transaction, if any, and the client's watches.
pub(super) fn close(ctx: &mut Context<'_>) {
    transactions::close(&mut ctx.server.ledger, &mut ctx.session.caller);
}

/// `EXEC`
pub(super) fn exec(ctx: &mut Context<'_>) -> Result<(), Refusal> {
    let begun = on_branch::on_watched(ctx, |ctx| transactions::begin(&mut ctx.data()))??;
    let Some(requests) = begun else { return Ok(()) };
    let own = ctx.session.caller.last_command;
    requests.for_each(|command, args| {
        // The user may have changed since the request was queued, also by a queued AUTH.
        let user = ctx.server.users.get(ctx.session.user);
        let checked = !ctx.session.caller.internal && !user.is_some_and(|user| user.unlimited);
        ctx.session.caller.reads_all_keys = !checked;
        let denied = if checked { denied_at_exec(ctx, command, args) } else { None };
        let writes = ctx.table.get(command).has(flags::WRITE) && ctx.branch.is_none();
        let outgrows = || outgrows_unit(ctx.server, args).filter(|_| writes);
        let denied = denied.or_else(outgrows);
        match denied {
            Some(refusal) => ctx.answer_refusal(refusal),
            None => run(ctx, command, args),
        }
    });
    if !ctx.session.caller.internal {
        ctx.refused = None; // EXEC has not failed if one of its requests has
    }
    ctx.session.caller.last_command = own;
    transactions::end(&mut ctx.data());
    Ok(())
}
