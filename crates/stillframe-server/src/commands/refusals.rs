//! Why a request does not reach its handler, and what it is answered.

use std::borrow::Cow;

use stillframe_redis::text::c_string;
use stillframe_resp::Protocol;

use super::{Context, absent, flags, permissions, pubsub, transactions};
use crate::replication::Replica;

/// Why the command may not run now.
pub(super) fn refusal(
    ctx: &mut Context<'_>,
    index: usize,
    args: &[&[u8]],
) -> Option<Cow<'static, str>> {
    let command = ctx.table.get(index);
    if ctx.session.caller.internal {
        return None;
    }
    let known = ctx.session.authenticated || ctx.server.users.is_open();
    if !known && !command.has(flags::NO_AUTH) {
        return Some("NOAUTH Authentication required.".into());
    }
    if command.has(flags::NO_MULTI) && ctx.session.transaction.is_some() {
        return Some("ERR Command not allowed inside a transaction".into());
    }
    let unlimited = ctx.server.users.get(ctx.session.user).is_some_and(|user| user.unlimited);
    ctx.session.caller.reads_all_keys = unlimited;
    if !unlimited && let Some(error) = permissions::denied(ctx, index, args) {
        return Some(error);
    }
    if command.has(flags::ABSENT) {
        return absent::error(command.container().as_bytes()).map(Into::into);
    }
    let follows = ctx.session.replica.as_deref().is_some_and(Replica::is_real);
    if (ctx.session.monitors || follows)
        && command.has(flags::READONLY | flags::WRITE | flags::MAY_REPLICATE)
    {
        return Some("ERR Replica can't interact with the keyspace".into());
    }
    let writes = ctx.session.has(command, flags::WRITE);
    if let Some(refusal) = ctx.server.storage.writes_refused(&ctx.server.config)
        && (writes || command.name == "ping")
    {
        return Some(refusal);
    }
    if writes && let Some(refusal) = ctx.server.replication_refuses_write() {
        return Some(refusal.into());
    }
    if ctx.session.subscriptions.is_some()
        && ctx.out.protocol == Protocol::Resp2
        && !pubsub::allowed_while_listening(command.name)
    {
        return Some(
            format!(
                "ERR Can't execute '{}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / \
                 RESET are allowed in this context",
                command.name
            )
            .into(),
        );
    }
    let refusal = ctx.server.replication_refuses(command, ctx.session);
    refusal.or_else(|| ctx.server.loading_refuses(command, ctx.session)).map(Into::into)
}

/// Answers an error to a known command that may not run. A refused EXEC ends its transaction.
pub(super) fn refuse(ctx: &mut Context<'_>, index: usize, error: &str) {
    ctx.server.meter.stats.commands[index].rejected += 1;
    if ctx.table.get(index).name == "exec" {
        transactions::close(ctx);
        let reason = error.strip_prefix("ERR ").unwrap_or(error);
        let error = format!("EXECABORT Transaction discarded because of: {reason}");
        return reject(ctx, error.as_bytes());
    }
    reject(ctx, error.as_bytes());
}

/// Answers an error to a request that never reached its handler.
pub(super) fn reject(ctx: &mut Context<'_>, error: &[u8]) {
    if let Some(transaction) = &mut ctx.session.transaction {
        transaction.failed = true;
    }
    ctx.server.meter.stats.count_error(error);
    ctx.out.error(error);
}

/// Whether it is a line of HTTP. A page may have a browser send such lines to a server that listens
/// on this machine only, with requests of the page's choice behind them.
pub(super) fn is_http(args: &[&[u8]]) -> bool {
    let name = args.first().copied().unwrap_or_default();
    name.eq_ignore_ascii_case(b"post") || name.eq_ignore_ascii_case(b"host:")
}

pub(super) fn unknown_command(args: &[&[u8]]) -> Vec<u8> {
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
    without_newlines(error)
}

pub(super) fn unknown_subcommand(args: &[&[u8]]) -> Vec<u8> {
    if let Some(error) = args.first().and_then(|name| absent::error(name)) {
        return error.into_bytes();
    }
    let container = c_string(args.first().copied().unwrap_or_default()).to_ascii_uppercase();
    let name = c_string(args.get(1).copied().unwrap_or_default());
    let mut error = b"ERR unknown subcommand '".to_vec();
    error.extend_from_slice(&name[..name.len().min(128)]);
    error.extend_from_slice(&[b"'. Try ", &container[..], b" HELP."].concat());
    without_newlines(error)
}

/// An error reply is one line.
fn without_newlines(mut error: Vec<u8>) -> Vec<u8> {
    for byte in &mut error {
        if matches!(*byte, b'\r' | b'\n') {
            *byte = b' ';
        }
    }
    error
}
