//! Which requests a member of a group does not serve because the leader does, as in a Redis cluster
//! whose replica it is.
//!
//! - A request with keys is redirected by the slot of the first one, and CLUSTERSCAN by that of its
//!   cursor: `MOVED`. So is an EXEC of such requests, which drops its transaction.
//! - A request without keys that reads or changes all data has no slot to redirect by: its refusal
//!   names the leader.
//! - All else is served by every member: it concerns the connection, or this server. Messages are
//!   published at any member, and come to the subscribers of all.
//! - With `raft-forward` the client's connection is passed on to the leader instead, from the first
//!   such request on, and from the first that begins something which only the leader can keep:
//!   transactions, watches, scripts, settings of replies. A connection with such settings that was
//!   at the leader ends after the refusal: its client would be refused for good.
//! - A client that said READONLY reads where it is if the group lets members read
//!   ([`Reads::Local`](crate::node::config::Reads)).

use stillframe_commands::Refusal;
use stillframe_commands::facts::categories;
use stillframe_resp::Protocol;

use super::{Command, Context, flags, on_branch};
use crate::connections::client::Needs;
use crate::peers::group::{Member, is_of_leader, is_redirect, slot};

/// Why a member of a group that follows does not serve a request that needs this.
#[cold]
pub(super) fn elsewhere(
    ctx: &Context<'_>,
    command: &Command,
    args: &[&[u8]],
    needs: Needs,
) -> Option<Refusal> {
    if on_branch::branch_for(ctx, command).is_some() {
        return Some(ctx.server.group.not_here()); // the data of another member is no answer
    }
    let Some(open) = ctx.session.caller.transaction.as_deref().filter(|_| command.is_exec()) else {
        return one(ctx, command, args, needs);
    };
    let mut first = None;
    open.requests.for_each(|index, args| {
        let command = ctx.table.get(index);
        let needs = ctx.session.needs(command.flags, false);
        first = first.take().or_else(|| one(ctx, command, args, needs));
    });
    first
}

/// As [`elsewhere`], for a request that stands alone.
fn one(ctx: &Context<'_>, command: &Command, args: &[&[u8]], needs: Needs) -> Option<Refusal> {
    let group = &ctx.server.group;
    if command.has(flags::PUBSUB) {
        return None;
    }
    let cursor = || args.get(1).filter(|_| command.name == "clusterscan");
    let Some(key) = command.keys.in_request(args).first().or_else(cursor).copied() else {
        return (needs.has(flags::WRITE) || reads_all(command)).then(|| group.not_here());
    };
    // What may replicate changes something (PFCOUNT); of a script, its requests are checked.
    let script = needs.has(flags::SCRIPT);
    let changes = needs.has(flags::WRITE) || needs.has(flags::MAY_REPLICATE) && !script;
    let here = ctx.session.reads_locally && group.reads_locally() && !changes;
    // One that has led, and may have lost what it ran last, shows that to nobody.
    let here = here && !group.member().is_some_and(Member::is_ahead);
    (!here).then(|| group.moved(slot(key)))
}

/// Whether a request, of which this is known, is passed on to the leader.
#[cold]
pub(super) fn forwards(
    ctx: &mut Context<'_>,
    command: &Command,
    outcome: Result<Needs, &Refusal>,
) -> bool {
    if ctx.session.forwarded {
        return false;
    }
    if !ctx.session.is_portable() {
        ctx.session.closing |= ctx.session.is_stuck() && outcome.is_err_and(is_of_leader);
        return false;
    }
    match outcome {
        Err(refusal) => is_of_leader(refusal),
        Ok(needs) => needs.has(flags::SCRIPT) || begins(ctx, command),
    }
}

/// Whether a command begins what the leader has to keep for a client.
fn begins(ctx: &Context<'_>, command: &Command) -> bool {
    let name = command.name;
    let settings = ["client|caching", "client|reply", "client|tracking"];
    // A RESP2 client that listens does nothing else.
    let listens = ["subscribe", "psubscribe", "ssubscribe"].contains(&name);
    matches!(name, "multi" | "watch" | "wait" | "waitaof")
        || name.starts_with("script|")
        || settings.contains(&name)
        || listens && ctx.session.protocol == Protocol::Resp3
}

/// Whether a command without keys reads all of them: DBSIZE, KEYS, RANDOMKEY, SCAN.
fn reads_all(command: &Command) -> bool {
    let keyspace = categories::bit(b"keyspace").unwrap_or(0);
    command.has(flags::READONLY) && command.facts.categories & keyspace != 0
}

/// Why a script at a member that follows may not run one of its requests.
pub(super) fn elsewhere_for_script(
    ctx: &Context<'_>,
    command: &Command,
    args: &[&[u8]],
) -> Option<Refusal> {
    let needs = ctx.session.needs(command.flags, false);
    let refusal = elsewhere(ctx, command, args, needs)?;
    if !is_redirect(&refusal) {
        return Some(refusal);
    }
    Some(match ctx.server.group.followed() {
        Some(_) => "ERR Script attempted to access a non local key in a cluster node".into(),
        None => "ERR Script attempted to execute a command while the cluster is down".into(),
    })
}
