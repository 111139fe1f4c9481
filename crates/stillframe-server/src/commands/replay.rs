//! Requests that were answered once and are run again: those of a log, of an append-only file, of a
//! primary.
//!
//! - Only commands that write, or may reach replicas for another reason (PFCOUNT, PUBLISH), and
//!   SELECT, MULTI and EXEC, are among them; anything else is refused, as is a command that this
//!   server does not have.
//! - A refusal, of a request within EXEC, too, means that the data is not what it was when the
//!   request was first answered.

use stillframe_keyspace::Keyspace;
use stillframe_resp::{Out, Protocol};

use super::{Context, Lookup, Table, dispatch, flags};
use crate::client::Session;
use crate::state::ServerState;

/// Runs a request again at `now`, where the clock stands still; its reply is left in `replies`.
///
/// # Errors
/// Why it could not be done: the end of a sentence that [`named`] begins.
pub(crate) fn replay(
    (keyspace, server, table): (&mut Keyspace, &mut ServerState, &Table),
    (session, replies): (&mut Session, &mut Vec<u8>),
    now: i64,
    args: &[&[u8]],
) -> Result<(), String> {
    (server.hub.clients.own_place, server.hub.clients.own_id) = (usize::MAX, session.caller.id);
    replies.clear();
    let out = Out::new(replies, Protocol::Resp2);
    let failed_within = None;
    apply(&mut Context { keyspace, server, session, out, now, table, failed_within }, args)
}

/// Runs a request of a log again; the clock stands still.
///
/// # Errors
/// Which request does not succeed as it once did, and why.
pub(crate) fn replay_logged(
    parts: (&mut Keyspace, &mut ServerState, &Table),
    client: (&mut Session, &mut Vec<u8>),
    args: &[&[u8]],
) -> Result<(), String> {
    replay(parts, client, 0, args).map_err(|why| format!("{} {why}", named(args)))
}

/// Runs a request again. The session ought to be [internal](crate::client::Session::internal) and
/// the clock to stand still; the reply is left in the context's output.
///
/// # Errors
/// Why it could not be done: the end of a sentence that [`named`] begins.
fn apply(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), String> {
    let found = match ctx.table.lookup(args) {
        Lookup::Found(index) => Some(ctx.table.get(index)),
        Lookup::Unknown | Lookup::UnknownSubcommand => None,
    };
    let Some(command) = found.filter(|command| !command.has(flags::ABSENT)) else {
        return Err("cannot be replayed: this server does not have the command".to_owned());
    };
    if !command.has(flags::WRITE | flags::MAY_REPLICATE)
        && !matches!(command.name, "select" | "multi" | "exec")
    {
        return Err("cannot be replayed: it is no command that changes data".to_owned());
    }
    let outcome = dispatch(ctx, args);
    let _ = ctx.keyspace.tend(); // nobody waits for its housekeeping
    let outcome = outcome.and(ctx.failed_within.take().map_or(Ok(()), Err));
    outcome.map_err(|refusal| format!("does not succeed as it once did: {refusal}"))
}

/// A request for an error's text: its name, and its first argument, which is the key of most.
pub(crate) fn named(args: &[&[u8]]) -> String {
    const SHOWN_BYTES_MAX: usize = 100;
    let shown = |bytes: &[u8]| match bytes.get(..SHOWN_BYTES_MAX) {
        Some(start) if bytes.len() > SHOWN_BYTES_MAX => format!("{}...", start.escape_ascii()),
        _ => bytes.escape_ascii().to_string(),
    };
    let name = shown(args.first().copied().unwrap_or_default()).to_uppercase();
    match args.get(1) {
        Some(key) => format!("{name} of key \"{}\"", shown(key)),
        None => name,
    }
}
