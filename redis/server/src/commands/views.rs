//! STILLFRAME VIEW: the data set as it was at an instant, read while it changes.

use stillframe_commands::errors::{SYNTAX, wrong_arity};
use stillframe_commands::{Handler, Refusal, read_by_sort, scan_by};
use stillframe_resp::{Out, parse_integer};

use super::refusals::{unknown_command, unknown_subcommand};
use super::{Context, Lookup, flags, permissions};
use crate::data::views::{NO_VIEW, Read, Times};

/// `STILLFRAME VIEW OPEN | SCAN id cursor ... | RUN id command ... | CLOSE id | LIST`
pub(super) fn view(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    let word = args[2].to_ascii_lowercase();
    match (&word[..], &args[3..]) {
        (b"open", []) => open(ctx),
        (b"scan", [id, rest @ ..]) if !rest.is_empty() => scan(ctx, number(id)?, rest),
        (b"run", [id, request @ ..]) if !request.is_empty() => run(ctx, number(id)?, request),
        (b"close", [id]) => {
            ctx.server.views.close(ctx.keyspace, number(id)?, false)?;
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
    parse_number(text, "ERR The number of a view is what STILLFRAME VIEW OPEN replied")
}

/// The number of a view or branch; `otherwise` is said of what is none.
pub(super) fn parse_number(text: &[u8], otherwise: &'static str) -> Result<u64, Refusal> {
    let id = parse_integer(text).and_then(|id| u64::try_from(id).ok());
    id.ok_or(Refusal::new(otherwise))
}

/// `STILLFRAME VIEW OPEN`: within a transaction, the data set is half changed.
fn open(ctx: &mut Context<'_>) -> Result<(), Refusal> {
    if !ctx.data().may_block() {
        return Err("ERR STILLFRAME VIEW OPEN is not allowed in transactions and scripts".into());
    }
    let server = &mut *ctx.server;
    let times = Times { turn: server.clock.turn(), now: ctx.now };
    let (caller, random) = (&ctx.session.caller, &mut server.ledger.random);
    let id = server.views.open(ctx.keyspace, &server.config, caller, random, times)?;
    ctx.out.integer(id as i64);
    Ok(())
}

/// `STILLFRAME VIEW SCAN id cursor [MATCH pattern] [COUNT count] [TYPE type]`: in the selected
/// database.
fn scan(ctx: &mut Context<'_>, id: u64, args: &[&[u8]]) -> Result<(), Refusal> {
    let instant = ctx.server.views.touch(id, ctx.server.clock.turn())?;
    let (view, db) = (ctx.keyspace.view(instant).ok_or(NO_VIEW)?, ctx.session.caller.db);
    scan_by(&mut ctx.out, args, |cursor, count, show| view.scan(db, cursor, count, show))
}

/// `STILLFRAME VIEW RUN id command [argument ...]`: a command that reads keys reads those of the
/// view.
fn run(ctx: &mut Context<'_>, id: u64, request: &[&[u8]]) -> Result<(), Refusal> {
    let command = ctx.table.get(find(ctx, request)?);
    let Handler::Data(handler) = command.handler else { return Err(does_not_read(command.name)) };
    let mut keys = command.keys.in_request(request);
    if !command.has(flags::READONLY) || keys.is_empty() {
        return Err(does_not_read(command.name));
    }
    let id = ctx.server.views.touch(id, ctx.server.clock.turn())?;
    let caller = &mut ctx.session.caller;
    let read = match ctx.keyspace.view(id) {
        Some(view) if command.name == "sort_ro" => {
            read_by_sort(request, view.get(caller.db, request[1]))
        }
        _ => Vec::new(),
    };
    keys.extend(read.iter().map(Vec::as_slice));
    let server = &mut *ctx.server;
    let read = Read { handler, keys: &keys, args: request };
    server.views.run(ctx.keyspace, &server.ledger, id, caller, read, ctx.out.reborrow())
}

/// The command of a request within another one, which the client's user may run.
pub(super) fn find(ctx: &mut Context<'_>, request: &[&[u8]]) -> Result<usize, Refusal> {
    let index = match ctx.table.lookup_for_client(request) {
        Lookup::Found(index) => index,
        Lookup::Unknown => return Err(unknown_command(request)),
        Lookup::UnknownSubcommand => return Err(unknown_subcommand(request)),
    };
    let command = ctx.table.get(index);
    if !command.accepts(request.len()) {
        return Err(wrong_arity(command.name));
    }
    let unlimited = ctx.server.users.get(ctx.session.user).is_some_and(|user| user.unlimited);
    ctx.session.caller.reads_all_keys = unlimited;
    if !unlimited
        && !ctx.session.caller.internal
        && let Some(denied) = permissions::denied(ctx, index, request)
    {
        return Err(denied);
    }
    Ok(index)
}

fn does_not_read(name: &str) -> Refusal {
    format!(
        "ERR A view runs commands that read the keys they name, and '{name}' is none; \
         STILLFRAME VIEW SCAN finds keys"
    )
    .into()
}

/// `STILLFRAME VIEW LIST`
fn list(ctx: &mut Context<'_>) {
    let turn = ctx.server.clock.turn();
    ctx.out.array(ctx.server.views.all().count());
    for view in ctx.server.views.all() {
        let since = |time| turn.saturating_duration_since(time).as_secs() as i64;
        let seen = ctx.keyspace.view(view.instant);
        let keys = seen.as_ref().map_or(0, |seen| seen.len(ctx.session.caller.db));
        let bytes = seen.as_ref().map_or(0, |seen| seen.bytes());
        let fields = [
            ("id", view.id as i64),
            ("client", view.client as i64),
            ("opened-ms", seen.as_ref().map_or(0, |seen| seen.now())),
            ("age", since(view.opened)),
            ("idle", since(view.used)),
            ("keys", keys as i64),
            ("bytes", bytes as i64),
        ];
        answer_fields(&mut ctx.out, &fields);
    }
}

/// A map of names and numbers.
pub(super) fn answer_fields(out: &mut Out<'_>, fields: &[(&str, i64)]) {
    out.map(fields.len());
    for (name, value) in fields {
        out.bulk(name);
        out.integer(*value);
    }
}
