//! Why a request does not reach its handler, and its reply.

use std::time::Duration;

use stillframe_commands::Refusal;
use stillframe_commands::facts::later;
use stillframe_commands::text::c_string;
use stillframe_resp::Protocol;

use super::{
    Command, Context, absent, flags, on_branch, permissions, pubsub, redirects, transactions, units,
};
use crate::connections::client::Needs;
use crate::connections::client::Replica;
use crate::peers::group::is_redirect;
use crate::state::ServerState;
use crate::state::eviction::{Room, make_room};

/// Checks that a request may run now, in Redis's order. Returns what it needs.
///
/// # Errors
/// Why it may not.
pub(super) fn may_run(
    ctx: &mut Context<'_>,
    index: usize,
    args: &[&[u8]],
) -> Result<Needs, Refusal> {
    let command = ctx.table.get(index);
    if ctx.session.caller.internal {
        return Ok(ctx.session.needs(command.flags, command.is_exec()));
    }
    let known = ctx.session.authenticated || ctx.server.users.is_open();
    if !known && !command.has(flags::NO_AUTH) {
        return Err("NOAUTH Authentication required.".into());
    }
    if command.has(flags::NO_MULTI) && ctx.session.caller.transaction.is_some() {
        return Err("ERR Command not allowed inside a transaction".into());
    }
    let unlimited = ctx.server.users.get(ctx.session.user).is_some_and(|user| user.unlimited);
    ctx.session.caller.reads_all_keys = unlimited;
    if !unlimited && let Some(error) = permissions::denied(ctx, index, args) {
        return Err(error);
    }
    if command.has(flags::ABSENT)
        && let Some(error) = absent::error(command.container().as_bytes())
    {
        return Err(error);
    }
    let flags = on_branch::flags_of(ctx, command, args);
    let needs = ctx.session.needs(flags, command.is_exec());
    if ctx.server.group.follows()
        && let Some(refusal) = redirects::elsewhere(ctx, command, args, needs)
    {
        return Err(refusal);
    }
    let follows = ctx.session.replica.as_deref().is_some_and(Replica::is_real);
    if (ctx.session.monitors || follows)
        && needs.has(flags::READONLY | flags::WRITE | flags::MAY_REPLICATE)
    {
        return Err("ERR Replica can't interact with the keyspace".into());
    }
    let within_script = ctx.server.scripts.is_running(); // in the middle of its unit
    if ctx.server.config.maxmemory_bytes > 0 && !within_script && lacks_memory(ctx, command, needs)
    {
        return Err(OUT_OF_MEMORY);
    }
    let writes = needs.has(flags::WRITE);
    if let Some(refusal) = ctx.server.storage.writes_refused()
        && (writes || command.name == "ping")
    {
        return Err(refusal.into());
    }
    if writes && let Some(refusal) = few_replicas(ctx.server).or_else(|| read_only(ctx.server)) {
        return Err(refusal);
    }
    if writes && let Some(refusal) = units::too_large(ctx, command, args) {
        return Err(refusal);
    }
    if ctx.session.subscriptions.is_some()
        && ctx.out.protocol == Protocol::Resp2
        && !pubsub::allowed_while_listening(command.name)
    {
        let error = format!(
            "ERR Can't execute '{}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / \
             RESET are allowed in this context",
            command.name
        );
        return Err(error.into());
    }
    unready(ctx.server, command, needs).map_or(Ok(needs), |refusal| Err(refusal.into()))
}

/// Whether the server refuses all writes for now.
pub(crate) fn refuses_writes(server: &ServerState) -> bool {
    server.storage.writes_refused().is_some()
        || few_replicas(server).is_some()
        || read_only(server).is_some()
}

pub(super) const OUT_OF_MEMORY: Refusal =
    Refusal::new("OOM command not allowed when used memory > 'maxmemory'.");

/// Makes room, and returns whether the request is refused for lack of memory.
#[cold]
fn lacks_memory(ctx: &mut Context<'_>, command: &Command, needs: Needs) -> bool {
    let is_short = make_room(ctx.keyspace, ctx.server) == Room::None;
    ctx.server.memory.note_short(is_short);
    // A queued request takes memory, too.
    let queues = ctx.session.caller.transaction.is_some() && !command.has(flags::NOT_QUEUED);
    is_short && (queues || needs.has(flags::DENYOOM))
}

/// Why a script that says it writes may not start.
pub(super) fn may_not_write(server: &ServerState) -> Option<Refusal> {
    let read_only = || {
        let refusal = "READONLY You can not run script with write flag on readonly replica.";
        read_only(server).map(|_| refusal.into())
    };
    let disk = || server.storage.writes_refused().map(Refusal::from);
    few_replicas(server).or_else(read_only).or_else(disk)
}

/// Why a script that has not written yet may not write, in the order of Redis's scripts, which is
/// not that of requests.
pub(super) fn may_not_begin_to_write(server: &ServerState) -> Option<Refusal> {
    let disk = || server.storage.writes_refused().map(Refusal::from);
    read_only(server).or_else(disk).or_else(|| few_replicas(server))
}

fn read_only(server: &ServerState) -> Option<Refusal> {
    if server.group.follows() {
        return Some(server.group.not_here());
    }
    let refuses = server.replication.is_replica() && server.config.replication.read_only;
    refuses.then(|| "READONLY You can't write against a read only replica.".into())
}

fn few_replicas(server: &ServerState) -> Option<Refusal> {
    let settings = &server.config.replication;
    let wanted = settings.min_replicas;
    if wanted == 0 || settings.max_lag_s == 0 || server.replication.is_replica() {
        return None;
    }
    let lag_max = Duration::from_secs(settings.max_lag_s.into());
    let good = server.replication.good(&server.clients, lag_max, server.clock.turn());
    (good < wanted as usize).then(|| "NOREPLICAS Not enough good replicas to write.".into())
}

pub(super) const STALE: &str =
    "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.";

/// Whether the data is that of a primary out of reach, and clients do not get it.
pub(super) fn is_stale(server: &ServerState) -> bool {
    let following = server.replication.following();
    !server.config.replication.serve_stale && following.is_some_and(|it| !it.is_connected())
}

/// Why no command, nor an EXEC of one, may run now: the data is stale, or half loaded.
fn unready(server: &ServerState, command: &Command, needs: Needs) -> Option<&'static str> {
    if is_stale(server) && needs.lacks(flags::STALE) {
        return Some(STALE);
    }
    if server.is_loading() && needs.lacks(flags::LOADING) {
        return Some("LOADING Redis is loading the dataset in memory");
    }
    let run = server.scripts.running()?;
    (!command.has(flags::ALLOW_BUSY)).then(|| run.kind.busy())
}

/// Replies to a known command that may not run with the reason. A refused EXEC ends its
/// transaction.
pub(super) fn refuse(ctx: &mut Context<'_>, index: usize, refusal: Refusal) {
    ctx.server.meter.rejected(index);
    if ctx.table.get(index).is_exec() {
        transactions::close(ctx);
        if is_redirect(&refusal) {
            return reject(ctx, refusal); // for clients that follow it
        }
        let reason = refusal.text().strip_prefix(b"ERR ").unwrap_or(refusal.text());
        let error = [b"EXECABORT Transaction discarded because of: ", reason].concat();
        return reject(ctx, error.into());
    }
    reject(ctx, refusal);
}

/// Answers a request that never reached its handler with the reason.
pub(super) fn reject(ctx: &mut Context<'_>, refusal: Refusal) {
    if let Some(transaction) = &mut ctx.session.caller.transaction {
        transaction.failed = true;
    }
    ctx.answer_refusal(refusal);
}

/// Whether a request is a line of HTTP. A web page can make a browser send such lines to a server
/// that listens on this machine only, with requests of the page's choice behind them.
pub(super) fn is_http(args: &[&[u8]]) -> bool {
    let name = args.first().copied().unwrap_or_default();
    name.eq_ignore_ascii_case(b"post") || name.eq_ignore_ascii_case(b"host:")
}

pub(super) fn unknown_command(args: &[&[u8]]) -> Refusal {
    let name = c_string(args.first().copied().unwrap_or_default());
    if let Some(why) = later::why_absent(name) {
        return format!("ERR unknown command '{}': {why}", name.escape_ascii()).into();
    }
    let mut shown = Vec::new();
    for argument in args.iter().skip(1) {
        if shown.len() >= 128 {
            break;
        }
        let room = 128 - shown.len();
        let argument = c_string(argument);
        shown.push(b'\'');
        shown.extend_from_slice(&argument[..argument.len().min(room)]);
        shown.extend_from_slice(b"' ");
    }
    let mut error = b"ERR unknown command '".to_vec();
    error.extend_from_slice(&name[..name.len().min(128)]);
    error.extend_from_slice(b"', with args beginning with: ");
    error.extend_from_slice(&shown);
    error.into()
}

pub(super) fn unknown_subcommand(args: &[&[u8]]) -> Refusal {
    if let Some(error) = args.first().and_then(|name| absent::error(name)) {
        return error;
    }
    let container = c_string(args.first().copied().unwrap_or_default()).to_ascii_uppercase();
    let name = c_string(args.get(1).copied().unwrap_or_default());
    let mut error = b"ERR unknown subcommand '".to_vec();
    error.extend_from_slice(&name[..name.len().min(128)]);
    error.extend_from_slice(&[b"'. Try ", &container[..], b" HELP."].concat());
    error.into()
}
