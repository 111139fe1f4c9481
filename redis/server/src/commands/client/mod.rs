//! CLIENT: facts of the clients, their names, and ways to close them.

mod filter;
mod kill;
mod list;

use std::time::Duration;

use stillframe_resp::parse_integer;

use super::connection::{INVALID_NAME, valid_name};
use super::pubsub::wrong_subcommand;
use super::{Context, Table};
use crate::connections::client::Replies;
use kill::kill;
use list::{info, list};
use stillframe_commands::Refusal;
use stillframe_commands::errors::{NOT_AN_INTEGER, SYNTAX};
use stillframe_commands::text::c_string;

/// Adds the commands of this module.
pub(crate) fn register(table: &mut Table) {
    table.add_server("client", id);
    table.add_server("client|help", help);
    table.add_server("client|id", id);
    table.add_server("client|getname", getname);
    table.add_server("client|setname", setname);
    table.add_server("client|info", info);
    table.add_server("client|list", list);
    table.add_server("client|kill", kill);
    table.add_server("client|unblock", unblock);
    table.add_server("client|import-source", import_source);
    table.add_server("client|maint_notifications", maint_notifications);
    table.add_server("client|no-evict", no_evict);
    table.add_server("client|no-touch", no_touch);
    table.add_server("client|setinfo", setinfo);
    table.add_server("client|pause", pause);
    table.add_server("client|reply", reply);
    table.add_server("client|unpause", unpause);
}

/// `CLIENT HELP`
fn help(ctx: &mut Context<'_>, _args: &[&[u8]]) -> Result<(), Refusal> {
    ctx.out.lines(&[
        "CLIENT <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
        "CACHING (YES|NO)",
        "    Say whether the keys of the next request are tracked (OPTIN, OPTOUT).",
        "GETNAME",
        "    Show the name of this connection.",
        "GETREDIR",
        "    Show which client receives the invalidations of this one.",
        "ID",
        "    Show the number of this connection.",
        "INFO",
        "    Show what is known of this connection.",
        "KILL <ip:port>",
        "KILL <option> <value> [<option> <value> [...]]",
        "    Close connections: by ADDR, LADDR, IP, ID, TYPE, USER, NAME, LIB-NAME, LIB-VER, DB,",
        "    FLAGS, CAPA, each of them with NOT- before it, and by seconds, MAXAGE and IDLE;",
        "    SKIPME yes spares this one.",
        "LIST [<option> <value> [<option> <value> [...]]]",
        "    Show what is known of connections; all, or those that the options of KILL choose.",
        "MAINT_NOTIFICATIONS (ON|OFF) [<option> <value> [...]]",
        "    Taken from clients that ask to hear of maintenance; none is ever announced.",
        "NO-EVICT (ON|OFF)",
        "    Mark this connection as one to be spared.",
        "NO-TOUCH (ON|OFF)",
        "    Say whether requests of this connection are no uses of keys.",
        "PAUSE <milliseconds> [WRITE|ALL]",
        "    Hold all requests, or those that write.",
        "REPLY (ON|OFF|SKIP)",
        "    Say whether requests are answered.",
        "SETINFO (LIB-NAME|LIB-VER) <text>",
        "    Name the library of this client, and its version.",
        "SETNAME <name>",
        "    Name this connection.",
        "TRACKING (ON|OFF) [REDIRECT <id>] [BCAST] [PREFIX <prefix> [...]]",
        "         [OPTIN] [OPTOUT] [NOLOOP]",
        "    Receive a message when keys change that this connection has read.",
        "TRACKINGINFO",
        "    Show how this connection tracks keys.",
        "UNBLOCK <id> [TIMEOUT|ERROR]",
        "    End the waiting of another client.",
        "UNPAUSE",
        "    Let held requests run.",
        "HELP",
        "    Print this help.",
    ]);
    Ok(())
}

/// `CLIENT ID`
fn id(ctx: &mut Context<'_>, _args: &[&[u8]]) -> Result<(), Refusal> {
    ctx.out.integer(ctx.session.caller.id as i64);
    Ok(())
}

/// `CLIENT GETNAME`
fn getname(ctx: &mut Context<'_>, _args: &[&[u8]]) -> Result<(), Refusal> {
    if ctx.session.name.is_empty() {
        ctx.out.null();
    } else {
        ctx.out.bulk(&ctx.session.name);
    }
    Ok(())
}

/// `CLIENT SETNAME name`: an empty name removes it.
fn setname(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    if !valid_name(args[2]) {
        return Err(INVALID_NAME);
    }
    ctx.session.name = args[2].to_vec();
    ctx.out.ok();
    Ok(())
}

/// `CLIENT PAUSE milliseconds [WRITE | ALL]`
fn pause(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    let writes_only = match args.get(3..).unwrap_or_default() {
        [] => false,
        [word] if word.eq_ignore_ascii_case(b"all") => false,
        [word] if word.eq_ignore_ascii_case(b"write") => true,
        [_] => return Err("ERR CLIENT PAUSE mode must be WRITE or ALL".into()),
        _ => return Err(wrong_subcommand(args)),
    };
    match parse_integer(args[2]).map(u64::try_from) {
        None => return Err("ERR timeout is not an integer or out of range".into()),
        Some(Err(_)) => return Err("ERR timeout is negative".into()),
        Some(Ok(milliseconds)) => {
            ctx.server.hub.pause(Duration::from_millis(milliseconds), writes_only);
            ctx.keyspace.spare_expired(true);
            ctx.out.ok();
        }
    }
    Ok(())
}

/// `CLIENT UNPAUSE`
fn unpause(ctx: &mut Context<'_>, _args: &[&[u8]]) -> Result<(), Refusal> {
    ctx.server.unpause(ctx.keyspace);
    ctx.out.ok();
    Ok(())
}

fn on_or_off(word: &[u8]) -> Result<bool, Refusal> {
    match word.to_ascii_lowercase().as_slice() {
        b"on" => Ok(true),
        b"off" => Ok(false),
        _ => Err(SYNTAX),
    }
}

/// `CLIENT NO-EVICT ON | OFF`: whether `maxmemory-clients` spares this connection.
fn no_evict(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    ctx.session.spared = on_or_off(args[2])?;
    ctx.out.ok();
    Ok(())
}

/// `CLIENT NO-TOUCH ON | OFF`: whether the requests of this connection leave the last use of keys
/// as it is.
fn no_touch(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    ctx.session.touches_nothing = on_or_off(args[2])?;
    ctx.out.ok();
    Ok(())
}

/// `CLIENT SETINFO LIB-NAME name | LIB-VER version`: RESET keeps both.
fn setinfo(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    let library = &mut ctx.session.library;
    let field = match args[2].to_ascii_lowercase().as_slice() {
        b"lib-name" => &mut library.name,
        b"lib-ver" => &mut library.version,
        _ => return Err([b"ERR Unrecognized option '", c_string(args[2]), b"'"].concat().into()),
    };
    if !valid_name(args[3]) {
        const WHY: &[u8] = b" cannot contain spaces, newlines or special characters.";
        return Err([b"ERR ", args[2], WHY].concat().into());
    }
    *field = args[3].to_vec();
    ctx.out.ok();
    Ok(())
}

/// `CLIENT MAINT_NOTIFICATIONS ON | OFF [option value]...`: clients ask for it when they connect,
/// and log an error where it is refused. This server announces no maintenance, so that nothing
/// follows from it.
fn maint_notifications(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    on_or_off(args[2])?;
    if args.len().is_multiple_of(2) {
        return Err(SYNTAX);
    }
    ctx.out.ok();
    Ok(())
}

/// `CLIENT IMPORT-SOURCE ON | OFF`
fn import_source(_ctx: &mut Context<'_>, _args: &[&[u8]]) -> Result<(), Refusal> {
    Err("ERR CLIENT IMPORT-SOURCE is not supported: this server has no import mode; `stillframe \
         import` takes files of other servers, and REPLICAOF their data"
        .into())
}

/// `CLIENT REPLY ON | OFF | SKIP`: only ON gets a reply, but for EXEC, which has announced one for
/// each of its requests.
fn reply(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    let silenced = ctx.session.replies == Replies::Dropped;
    match args[2].to_ascii_lowercase().as_slice() {
        b"on" => {
            ctx.session.replies = Replies::Sent;
            ctx.out.ok();
        }
        b"off" => ctx.session.replies = Replies::Dropped,
        b"skip" if silenced => {}
        b"skip" => ctx.session.replies = Replies::SkipNext,
        _ => return Err(SYNTAX),
    }
    if ctx.server.ledger.in_exec && ctx.session.replies != Replies::Sent {
        ctx.out.ok();
    }
    Ok(())
}

const UNBLOCKED: Refusal = Refusal::new("UNBLOCKED client unblocked via CLIENT UNBLOCK");

/// `CLIENT UNBLOCK id [TIMEOUT | ERROR]`
fn unblock(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    let error = match args.get(3).map(|reason| reason.to_ascii_uppercase()).as_deref() {
        _ if args.len() > 4 => return Err(wrong_subcommand(args)),
        None | Some(b"TIMEOUT") => false,
        Some(b"ERROR") => true,
        Some(_) => {
            return Err("ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR".into());
        }
    };
    let id = parse_integer(args[2]).ok_or(NOT_AN_INTEGER)?;
    let id = id.cast_unsigned();
    let unblocked = match error {
        true => ctx.server.unblock(id, |_| Err(UNBLOCKED)),
        false => ctx.server.give_up(id),
    };
    ctx.out.integer(unblocked.into());
    Ok(())
}
