//! Why a request does not reach its handler, and its reply.

use std::time::Duration;

use stillframe_redis::Refusal;
use stillframe_redis::text::c_string;
use stillframe_resp::Protocol;

use super::{Command, Context, absent, flags, permissions, pubsub, transactions};
use crate::client::Session;
use crate::replication::Replica;
use crate::state::ServerState;

/// Checks that the command may run now.
///
/// # Errors
/// Why it may not.
pub(super) fn may_run(ctx: &mut Context<'_>, index: usize, args: &[&[u8]]) -> Result<(), Refusal> {
    let command = ctx.table.get(index);
    if ctx.session.caller.internal {
        return Ok(());
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
    if command.has(flags::ABSENT) {
        return absent::error(command.container().as_bytes()).map_or(Ok(()), Err);
    }
    let follows = ctx.session.replica.as_deref().is_some_and(Replica::is_real);
    if (ctx.session.monitors || follows)
        && command.has(flags::READONLY | flags::WRITE | flags::MAY_REPLICATE)
    {
        return Err("ERR Replica can't interact with the keyspace".into());
    }
    let writes = ctx.session.has(command, flags::WRITE);
    if let Some(refusal) = ctx.server.storage.writes_refused()
        && (writes || command.name == "ping")
    {
        return Err(refusal.into());
    }
    if writes && let Some(refusal) = read_only(ctx.server).or_else(|| few_replicas(ctx.server)) {
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
    unready(ctx.server, command, ctx.session).map_or(Ok(()), |refusal| Err(refusal.into()))
}

/// Why a script that says it writes may not start.
pub(super) fn may_not_write(server: &ServerState) -> Option<Refusal> {
    let disk = server.storage.writes_refused().map(Refusal::from);
    disk.or_else(|| few_replicas(server)).or_else(|| {
        let refusal = "READONLY You can not run script with write flag on readonly replica.";
        read_only(server).map(|_| refusal.into())
    })
}

/// Why a script that has not written yet may not write, in the order of Redis's scripts, which is
/// not that of requests.
pub(super) fn may_not_begin_to_write(server: &ServerState) -> Option<Refusal> {
    let disk = || server.storage.writes_refused().map(Refusal::from);
    read_only(server).or_else(disk).or_else(|| few_replicas(server))
}

fn read_only(server: &ServerState) -> Option<Refusal> {
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

/// Why no command, nor an EXEC of one, may run now: the data is stale, or half loaded.
fn unready(server: &ServerState, command: &Command, session: &Session) -> Option<&'static str> {
    let following = server.replication.following();
    let is_stale = following.is_some_and(|it| !it.is_connected());
    if is_stale && !server.config.replication.serve_stale && session.lacks(command, flags::STALE) {
        return Some(
            "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
        );
    }
    if server.is_loading() && session.lacks(command, flags::LOADING) {
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
