//! Commands about the connection itself: PING, ECHO, QUIT, RESET, AUTH, HELLO.

use stillframe_resp::{Protocol, parse_integer};

use super::permissions::note_of;
use super::{Context, Table, on_branch, transactions, wrong_arity};
use crate::connections::client::Replies;
use crate::node::acl::DEFAULT;
use stillframe_commands::Refusal;
use stillframe_commands::errors::SYNTAX;
use stillframe_commands::text::c_string;

/// Adds the commands of this module.
pub(crate) fn register(table: &mut Table) {
    table.add_server("ping", ping);
    table.add_server("echo", echo);
    table.add_server("quit", quit);
    table.add_server("reset", reset);
    table.add_server("auth", auth);
    table.add_server("hello", hello);
}

/// `PING [message]`
fn ping(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    let listens = ctx.session.subscriptions.is_some();
    match args {
        [_, message @ ..] if args.len() <= 2 && listens && ctx.out.protocol == Protocol::Resp2 => {
            // The reply to a subscriber looks like a message.
            ctx.out.array(2);
            ctx.out.bulk("pong");
            ctx.out.bulk(message.first().copied().unwrap_or_default());
        }
        [_] => ctx.out.simple("PONG"),
        [_, message] => ctx.out.bulk(message),
        _ => return Err(wrong_arity("ping")),
    }
    Ok(())
}

/// `ECHO message`
fn echo(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    ctx.out.bulk(args[1]);
    Ok(())
}

/// `QUIT`: replies, then closes.
fn quit(ctx: &mut Context<'_>, _args: &[&[u8]]) -> Result<(), Refusal> {
    ctx.session.closing = true;
    ctx.out.ok();
    Ok(())
}

/// `RESET`: makes the connection as new.
fn reset(ctx: &mut Context<'_>, _args: &[&[u8]]) -> Result<(), Refusal> {
    transactions::close(ctx);
    on_branch::leave(ctx);
    ctx.server.hub.forget(ctx.session, &mut ctx.server.ledger.events);
    if ctx.session.replies == Replies::Dropped {
        ctx.session.replies = Replies::Sent; // a reply to be skipped is that of RESET
    }
    ctx.session.reads_locally = false;
    ctx.session.touches_nothing = false;
    ctx.session.caller.db = 0;
    ctx.session.caller.fieldsets = None;
    ctx.session.name.clear();
    ctx.session.user = DEFAULT;
    ctx.session.credentials = None;
    ctx.session.authenticated = ctx.server.users.is_open();
    ctx.session.protocol = Protocol::Resp2;
    ctx.out.protocol = Protocol::Resp2;
    ctx.out.simple("RESET");
    Ok(())
}

const WRONG_PASSWORD: Refusal =
    Refusal::new("WRONGPASS invalid username-password pair or user is disabled.");

/// `AUTH [username] password`
fn auth(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    let (user, password) = match args {
        [_, password] => (&b"default"[..], *password),
        [_, user, password] => (*user, *password),
        _ => return Err(SYNTAX),
    };
    if args.len() == 2 && ctx.server.users.get(DEFAULT).is_some_and(|user| user.nopass) {
        return Err(
            "ERR AUTH <password> called without any password configured for the default user. \
             Are you sure your configuration is correct?"
                .into(),
        );
    }
    log_in(ctx, user, password)?;
    ctx.out.ok();
    Ok(())
}

/// Marks the session authenticated if the password is right.
fn log_in(ctx: &mut Context<'_>, user: &[u8], password: &[u8]) -> Result<(), Refusal> {
    let Some(number) = ctx.server.users.log_in(user, password) else {
        let command = ctx.table.get(ctx.session.caller.last_command).name;
        note_of(ctx, "auth", command.to_uppercase().into_bytes(), user.to_vec());
        return Err(WRONG_PASSWORD);
    };
    ctx.session.user = number;
    ctx.session.authenticated = true;
    if ctx.server.config.raft.forward {
        ctx.session.credentials = Some(Box::new([user.to_vec(), password.to_vec()]));
    }
    Ok(())
}

/// `HELLO [protover [AUTH username password] [SETNAME name]]`
fn hello(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    let mut protocol = ctx.session.protocol;
    if let Some(version) = args.get(1) {
        protocol = match parse_integer(version) {
            None => {
                return Err("ERR Protocol version is not an integer or out of range".into());
            }
            Some(2) => Protocol::Resp2,
            Some(3) => Protocol::Resp3,
            Some(_) => return Err("NOPROTO unsupported protocol version".into()),
        };
    }
    let mut name = None;
    let mut rest = args.get(2..).unwrap_or_default();
    while let Some((option, values)) = rest.split_first() {
        rest = match values {
            [user, password, rest @ ..] if option.eq_ignore_ascii_case(b"auth") => {
                log_in(ctx, user, password)?;
                rest
            }
            [given, rest @ ..] if option.eq_ignore_ascii_case(b"setname") => {
                if !valid_name(given) {
                    return Err(INVALID_NAME);
                }
                name = Some(given.to_vec());
                rest
            }
            _ => {
                return Err([b"ERR Syntax error in HELLO option '", c_string(option), b"'"]
                    .concat()
                    .into());
            }
        };
    }
    if !ctx.session.authenticated && !ctx.server.users.is_open() {
        return Err(
            "NOAUTH HELLO must be called with the client already authenticated, otherwise the \
             HELLO AUTH <user> <pass> option can be used to authenticate the client and \
             select the RESP protocol version at the same time"
                .into(),
        );
    }
    if let Some(name) = name {
        ctx.session.name = name;
    }
    ctx.session.protocol = protocol;
    ctx.out.protocol = protocol;
    introduce(ctx);
    Ok(())
}

fn introduce(ctx: &mut Context<'_>) {
    let version = if ctx.session.protocol == Protocol::Resp3 { 3 } else { 2 };
    ctx.out.map(7);
    ctx.out.bulk("server");
    ctx.out.bulk("redis");
    ctx.out.bulk("version");
    ctx.out.bulk(ctx.server.config.redis_version.to_string());
    ctx.out.bulk("proto");
    ctx.out.integer(version);
    ctx.out.bulk("id");
    ctx.out.integer(ctx.session.caller.id as i64);
    ctx.out.bulk("mode");
    ctx.out.bulk(ctx.server.mode());
    ctx.out.bulk("role");
    ctx.out.bulk(if ctx.server.follows() { "replica" } else { "master" });
    ctx.out.bulk("modules");
    ctx.out.array(0);
}

/// The error for a name that would spoil CLIENT LIST.
pub(crate) const INVALID_NAME: Refusal =
    Refusal::new("ERR Client names cannot contain spaces, newlines or special characters.");

/// Whether a client may have this name.
pub(crate) fn valid_name(name: &[u8]) -> bool {
    name.iter().all(|byte| (b'!'..=b'~').contains(byte))
}
