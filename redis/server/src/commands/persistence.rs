//! Commands that save the data or stop the server: BGSAVE, SAVE, LASTSAVE, SHUTDOWN.

use stillframe_commands::Refusal;
use stillframe_commands::errors::SYNTAX;
use stillframe_storage::dump::{Purpose, Save};

use super::{Context, Table};
use crate::node::process::{LastSave, Wish};
use crate::state::shutdown::{self, Answer};
use crate::state::{ServerState, persistence};

/// Adds the commands of this module.
pub(crate) fn register(table: &mut Table) {
    table.add_server("bgrewriteaof", bgrewriteaof);
    table.add_server("bgsave", bgsave);
    table.add_server("save", save);
    table.add_server("lastsave", lastsave);
    table.add_server("shutdown", shutdown);
}

const SAVING: Refusal = Refusal::new("ERR Background save already in progress");
const NOT_SAVING: Refusal =
    Refusal::new("ERR Background saving is currently not in progress or scheduled");

/// Whether a save is under way.
fn is_saving(ctx: &Context<'_>) -> bool {
    ctx.server.storage.saves.running().is_some()
}

/// Whether an image that nobody needs any more is about to end.
fn waits_for_dropped(ctx: &Context<'_>) -> bool {
    ctx.server.storage.saves.running().is_some_and(Save::is_dropped)
}

/// `BGSAVE [SCHEDULE | CANCEL]`. Inside a transaction, which is half done, the save is scheduled.
fn bgsave(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    let mut later = ctx.server.ledger.in_exec;
    match args {
        [_] => {}
        [_, option] if option.eq_ignore_ascii_case(b"schedule") => {
            let running = ctx.server.storage.saves.running();
            later |= running.is_some_and(|save| save.purpose == Purpose::Log);
        }
        [_, option] if option.eq_ignore_ascii_case(b"cancel") => {
            if !ctx.server.storage.cancel(ctx.keyspace) {
                return Err(NOT_SAVING);
            }
            ctx.out.simple("Background saving cancelled");
            return Ok(());
        }
        _ => return Err(SYNTAX),
    }
    let is_dropped = waits_for_dropped(ctx);
    let running = ctx.server.storage.saves.running();
    if running.is_some_and(|save| save.purpose == Purpose::Dump || !later && !is_dropped) {
        return Err(SAVING);
    }
    if later || is_dropped {
        ctx.server.storage.saves.scheduled = Some(Purpose::Dump);
    } else {
        begin(ctx, Purpose::Dump)?;
    }
    ctx.out
        .simple(["Background saving started", "Background saving scheduled"][usize::from(later)]);
    Ok(())
}

/// Begins an image, or has the group begin one.
fn begin(ctx: &mut Context<'_>, purpose: Purpose) -> Result<(), Refusal> {
    if let Some(member) = ctx.server.group.member_mut() {
        member.want_image();
        return Ok(());
    }
    let begun = persistence::begin(ctx.keyspace, ctx.server, purpose);
    begun.map_err(|problem| format!("ERR {problem}").into())
}

/// `BGREWRITEAOF`: an image replaces the log so far.
fn bgrewriteaof(ctx: &mut Context<'_>, _args: &[&[u8]]) -> Result<(), Refusal> {
    if ctx.server.ledger.in_exec || is_saving(ctx) {
        ctx.server.storage.saves.scheduled = Some(Purpose::Log);
        ctx.out.simple("Background append only file rewriting scheduled");
        return Ok(());
    }
    begin(ctx, Purpose::Log)?;
    ctx.out.simple("Background append only file rewriting started");
    Ok(())
}

/// `SAVE`: replies when the data set is on the disk.
fn save(ctx: &mut Context<'_>, _args: &[&[u8]]) -> Result<(), Refusal> {
    if is_saving(ctx) {
        if !waits_for_dropped(ctx) {
            return Err(SAVING);
        }
        let ServerState { storage, ledger, .. } = ctx.server;
        storage.wait(ctx.keyspace, ledger);
    }
    persistence::save_and_wait(ctx.keyspace, ctx.server)
        .map_err(|problem| format!("ERR {problem}"))?;
    ctx.out.ok();
    Ok(())
}

/// `LASTSAVE`
fn lastsave(ctx: &mut Context<'_>, _args: &[&[u8]]) -> Result<(), Refusal> {
    ctx.out.integer(ctx.server.storage.saves.last_success_s);
    Ok(())
}

/// `SHUTDOWN [SAVE | NOSAVE] [NOW] [FORCE] [ABORT]`: no reply if the server stops.
fn shutdown(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    let mut wish = Wish { last_save: LastSave::IfScheduled, force: false, now: false };
    let mut abort = false;
    for option in &args[1..] {
        match option.to_ascii_lowercase().as_slice() {
            b"save" if wish.last_save != LastSave::Never => wish.last_save = LastSave::Always,
            b"nosave" if wish.last_save != LastSave::Always => wish.last_save = LastSave::Never,
            b"now" => wish.now = true,
            b"force" => wish.force = true,
            b"abort" => abort = true,
            _ => return Err(SYNTAX),
        }
    }
    if abort {
        if args.len() != 2 {
            return Err(SYNTAX);
        }
        if !shutdown::abort(ctx.server) {
            return Err("ERR No shutdown in progress.".into());
        }
        tracing::warn!("Shutdown manually aborted by client {}", ctx.session.caller.peer);
        ctx.out.ok();
        return Ok(());
    }
    if let Some(run) = ctx.server.scripts.running() {
        if wish.last_save != LastSave::Never {
            return Err(run.kind.busy().into()); // half a script is nothing to save
        }
        wish.now = true; // replicas would wait for the script
    }
    tracing::warn!("client {} asks the server to stop", ctx.session.caller.peer);
    match shutdown::ask(ctx.keyspace, ctx.server, wish) {
        Answer::Ends => {}
        Answer::Waits => shutdown::await_end(ctx.server, ctx.session),
        Answer::Refused => return Err(shutdown::FAILED),
    }
    Ok(())
}
