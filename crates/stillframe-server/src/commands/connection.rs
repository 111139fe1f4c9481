//! Commands about the connection itself: PING, ECHO, QUIT, RESET, SELECT, AUTH, HELLO.

use stillframe_resp::{Protocol, parse_integer};

use super::permissions::note_of;
use super::{Context, NO_KEYS, Table, flags::*, transactions, wrong_arity};
use crate::acl::DEFAULT;
use crate::client::Replies;
use stillframe_redis::parse_db;

/// Adds the commands of this module.
pub(crate) fn register(table: &mut Table) {
    let always = NOSCRIPT | LOADING | STALE | FAST | NO_AUTH | ALLOW_BUSY | CONNECTION;
    table.add_server("ping", -1, FAST | CONNECTION, NO_KEYS, ping);
    table.add_server("echo", 2, LOADING | STALE | FAST | CONNECTION, NO_KEYS, echo);
    table.add_server("quit", -1, always | NOT_QUEUED, NO_KEYS, quit);
    table.add_server("reset", 1, always | NOT_QUEUED, NO_KEYS, reset);
    table.add_server("select", 2, LOADING | STALE | FAST | CONNECTION, NO_KEYS, select);
    table.add_server("auth", -2, always, NO_KEYS, auth);
    table.add_server("hello", -1, always, NO_KEYS, hello);
}

/// `PING [message]`
fn ping(ctx: &mut Context<'_>, args: &[&[u8]]) {
    let listens = ctx.session.subscriptions.is_some();
    match args {
        [_, message @ ..] if args.len() <= 2 && listens && ctx.out.protocol == Protocol::Resp2 => {
            // What is sent to a listener looks like a message.
            ctx.out.array(2);
            ctx.out.bulk("pong");
            ctx.out.bulk(message.first().copied().unwrap_or_default());
        }
        [_] => ctx.out.simple("PONG"),
        [_, message] => ctx.out.bulk(message),
        _ => ctx.out.error(wrong_arity("ping")),
    }
}

/// `ECHO message`
fn echo(ctx: &mut Context<'_>, args: &[&[u8]]) {
    ctx.out.bulk(args[1]);
}

/// `QUIT`: answers, then closes.
fn quit(ctx: &mut Context<'_>, _args: &[&[u8]]) {
    ctx.session.closing = true;
    ctx.out.ok();
}

/// `RESET`: the connection is as new.
fn reset(ctx: &mut Context<'_>, _args: &[&[u8]]) {
    transactions::close(ctx);
    ctx.server.hub.pubsub.forget(ctx.session.listener());
    ctx.server.disable_tracking(ctx.session);
    ctx.server.stop_monitoring(ctx.session);
    ctx.session.replies = Replies::Sent;
    ctx.session.caller.db = 0;
    ctx.session.name.clear();
    ctx.session.user = DEFAULT;
    ctx.session.authenticated = ctx.server.users.is_open();
    ctx.session.protocol = Protocol::Resp2;
    ctx.out.protocol = Protocol::Resp2;
    ctx.out.simple("RESET");
}

/// `SELECT index`
fn select(ctx: &mut Context<'_>, args: &[&[u8]]) {
    match parse_db(args[1]) {
        Ok(db) => {
            ctx.session.caller.db = db;
            ctx.out.ok();
        }
        Err(error) => ctx.out.error(error),
    }
}

const WRONG_PASSWORD: &str = "WRONGPASS invalid username-password pair or user is disabled.";

/// `AUTH [username] password`
fn auth(ctx: &mut Context<'_>, args: &[&[u8]]) {
    let (user, password) = match args {
        [_, password] => (&b"default"[..], *password),
        [_, user, password] => (*user, *password),
        _ => return ctx.out.error("ERR syntax error"),
    };
    if args.len() == 2 && ctx.server.users.get(DEFAULT).is_some_and(|user| user.nopass) {
        return ctx.out.error(
            "ERR AUTH <password> called without any password configured for the default user. \
             Are you sure your configuration is correct?",
        );
    }
    if log_in(ctx, user, password) {
        ctx.out.ok();
    } else {
        ctx.out.error(WRONG_PASSWORD);
    }
}

/// Marks the session authenticated if the password is right.
fn log_in(ctx: &mut Context<'_>, user: &[u8], password: &[u8]) -> bool {
    let Some(number) = ctx.server.users.log_in(user, password) else {
        let command = ctx.table.get(ctx.session.caller.last_command).name;
        note_of(ctx, "auth", command.to_uppercase().into_bytes(), user.to_vec());
        return false;
    };
    ctx.session.user = number;
    ctx.session.authenticated = true;
    true
}

/// `HELLO [protover [AUTH username password] [SETNAME name]]`
fn hello(ctx: &mut Context<'_>, args: &[&[u8]]) {
    let mut protocol = ctx.session.protocol;
    if let Some(version) = args.get(1) {
        protocol = match parse_integer(version) {
            None => {
                return ctx.out.error("ERR Protocol version is not an integer or out of range");
            }
            Some(2) => Protocol::Resp2,
            Some(3) => Protocol::Resp3,
            Some(_) => return ctx.out.error("NOPROTO unsupported protocol version"),
        };
    }
    let mut name = None;
    let mut rest = args.get(2..).unwrap_or_default();
    while let Some((option, values)) = rest.split_first() {
        rest = match values {
            [user, password, rest @ ..] if option.eq_ignore_ascii_case(b"auth") => {
                if !log_in(ctx, user, password) {
                    return ctx.out.error(WRONG_PASSWORD);
                }
                rest
            }
            [given, rest @ ..] if option.eq_ignore_ascii_case(b"setname") => {
                if !valid_name(given) {
                    return ctx.out.error(INVALID_NAME);
                }
                name = Some(given.to_vec());
                rest
            }
            _ => {
                let mut error = b"ERR Syntax error in HELLO option '".to_vec();
                error.extend_from_slice(option);
                error.push(b'\'');
                return ctx.out.error(error);
            }
        };
    }
    if !ctx.session.authenticated && !ctx.server.users.is_open() {
        return ctx.out.error(
            "NOAUTH HELLO must be called with the client already authenticated, otherwise the \
             HELLO AUTH <user> <pass> option can be used to authenticate the client and \
             select the RESP protocol version at the same time",
        );
    }
    if let Some(name) = name {
        ctx.session.name = name;
    }
    ctx.session.protocol = protocol;
    ctx.out.protocol = protocol;
    introduce(ctx);
}

fn introduce(ctx: &mut Context<'_>) {
    let version = if ctx.session.protocol == Protocol::Resp3 { 3 } else { 2 };
    ctx.out.map(7);
    ctx.out.bulk("server");
    ctx.out.bulk("redis");
    ctx.out.bulk("version");
    ctx.out.bulk(crate::REDIS_VERSION);
    ctx.out.bulk("proto");
    ctx.out.integer(version);
    ctx.out.bulk("id");
    ctx.out.integer(ctx.session.caller.id as i64);
    ctx.out.bulk("mode");
    ctx.out.bulk("standalone");
    ctx.out.bulk("role");
    ctx.out.bulk("master");
    ctx.out.bulk("modules");
    ctx.out.array(0);
}

/// The error of a name that would spoil CLIENT LIST.
pub(crate) const INVALID_NAME: &str =
    "ERR Client names cannot contain spaces, newlines or special characters.";

/// Whether a client may have this name.
pub(crate) fn valid_name(name: &[u8]) -> bool {
    name.iter().all(|byte| (b'!'..=b'~').contains(byte))
}
