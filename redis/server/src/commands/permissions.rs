//! Whether the client's user may run a request: checked before it runs or is queued, and again by
//! EXEC.

use stillframe_commands::Refusal;
use stillframe_commands::facts::{READ, WRITE};

use super::client_line::describe_own;
use super::{Command, Context, Lookup, flags};
use crate::node::acl::{Denied, Entry, Touched};

const NO_KEY: Refusal =
    Refusal::new("NOPERM this user has no permissions to access one of the keys used as arguments");
const NO_CHANNEL: Refusal = Refusal::new(
    "NOPERM this user has no permissions to access one of the channels used as arguments",
);

/// The command, keys and channels of a request.
pub(super) fn touched<'a>(command: &Command, index: usize, args: &[&'a [u8]]) -> Touched<'a> {
    let channels = match command.name {
        "subscribe" | "psubscribe" | "ssubscribe" => args.get(1..).unwrap_or_default().to_vec(),
        "publish" | "spublish" => args.get(1).into_iter().copied().collect(),
        _ => Vec::new(),
    };
    let [first, others] = access(command, args);
    let keys = if command.has(flags::PUBSUB) { Vec::new() } else { command.keys.in_request(args) };
    let keys = keys.into_iter().enumerate();
    let keys = keys.map(|(place, key)| (key, if place == 0 { first } else { others })).collect();
    Touched {
        command: index,
        open: command.has(flags::NO_AUTH),
        first: args.get(1).copied(),
        keys,
        channels,
        patterns: command.name == "psubscribe",
    }
}

/// How a request accesses its first key and the others; for some, the arguments decide.
pub(super) fn access(command: &Command, args: &[&[u8]]) -> [u8; 2] {
    let rest = args.get(2..).unwrap_or_default();
    match command.name {
        // The value of SET may be any word.
        "set" if !rest.iter().skip(1).any(|word| word.eq_ignore_ascii_case(b"get")) => {
            [WRITE, WRITE]
        }
        "bitfield" if only_reads(rest) => [READ; 2],
        "bitfield" => [READ | WRITE; 2],
        _ => command.facts.access(),
    }
}

/// Whether all operations of BITFIELD read; a malformed one counts as a write.
fn only_reads(mut operations: &[&[u8]]) -> bool {
    loop {
        operations = match operations {
            [] => return true,
            [get, _, _, rest @ ..] if get.eq_ignore_ascii_case(b"get") => rest,
            [overflow, _, rest @ ..] if overflow.eq_ignore_ascii_case(b"overflow") => rest,
            _ => return false,
        }
    }
}

/// Why the client's user may not run a request; ACL LOG keeps such refusals.
pub(super) fn denied(ctx: &mut Context<'_>, index: usize, args: &[&[u8]]) -> Option<Refusal> {
    let denied = find_denied(ctx, index, args)?;
    Some(match denied {
        Denied::Command => no_command(ctx.table.get(index).name),
        Denied::Key(_) => NO_KEY,
        Denied::Channel(_) => NO_CHANNEL,
    })
}

/// Why the client may not go on to use a branch: its user may have lost the right to.
pub(super) fn denied_branches(ctx: &mut Context<'_>) -> Option<Refusal> {
    if ctx.server.users.get(ctx.session.user).is_some_and(|user| user.unlimited) {
        return None;
    }
    let own: [&[u8]; 3] = [b"stillframe", b"branch", b"run"];
    let Lookup::Found(index) = ctx.table.lookup(&own) else { return None };
    let reads_all_keys = ctx.session.caller.reads_all_keys; // that of the request itself
    let denied = denied(ctx, index, &own);
    ctx.session.caller.reads_all_keys = reads_all_keys;
    denied
}

/// As [`denied`], for a queued request, which was allowed when it was queued.
#[cold]
pub(super) fn denied_at_exec(
    ctx: &mut Context<'_>,
    index: usize,
    args: &[&[u8]],
) -> Option<Refusal> {
    let reason = match find_denied(ctx, index, args)? {
        Denied::Command => "no permission to execute the command or subcommand",
        Denied::Key(_) => "no permission to touch the specified keys",
        Denied::Channel(_) => "no permission to access one of the channels used as arguments",
    };
    let error = format!(
        "NOPERM ACLs rules changed between the moment the transaction was accumulated and the \
         EXEC call. This command is no longer allowed for the following reason: {reason}"
    );
    Some(error.into())
}

fn no_command(name: &str) -> Refusal {
    format!("NOPERM this user has no permissions to run the '{name}' command").into()
}

#[cold]
pub(super) fn find_denied(ctx: &mut Context<'_>, index: usize, args: &[&[u8]]) -> Option<Denied> {
    let command = ctx.table.get(index);
    let touched = touched(command, index, args);
    let users = &ctx.server.users;
    let user = users.get(ctx.session.user);
    // Only commands with keys outside of fixed places read keys by a pattern.
    ctx.session.caller.reads_all_keys =
        command.has(flags::MOVABLE_KEYS) && user.is_some_and(|user| user.reads_all_keys(&touched));
    // A deleted user has no rights.
    let denied = user.map_or(Err(Denied::Command), |user| user.check(&touched));
    let denied = denied.err()?;
    let (reason, object) = object(&denied, &touched, command.name);
    note(ctx, reason, object);
    Some(denied)
}

/// The word for a reason, and the refused name.
pub(super) fn object(
    denied: &Denied,
    touched: &Touched<'_>,
    command: &str,
) -> (&'static str, Vec<u8>) {
    match denied {
        Denied::Command => ("command", command.as_bytes().to_vec()),
        Denied::Key(place) => {
            ("key", touched.keys.get(*place).map(|(key, _)| key.to_vec()).unwrap_or_default())
        }
        Denied::Channel(place) => {
            ("channel", touched.channels.get(*place).map(|name| name.to_vec()).unwrap_or_default())
        }
    }
}

fn note(ctx: &mut Context<'_>, reason: &'static str, object: Vec<u8>) {
    let user = ctx.server.users.name(ctx.session.user).to_vec();
    note_of(ctx, reason, object, user);
}

/// Adds a refusal to ACL LOG.
pub(super) fn note_of(ctx: &mut Context<'_>, reason: &'static str, object: Vec<u8>, user: Vec<u8>) {
    let within = ctx.session.caller.transaction.is_some() || ctx.server.ledger.in_exec;
    let entry = Entry {
        count: 0,
        reason,
        context: match within {
            _ if ctx.server.scripts.is_asking() => "lua",
            true => "multi",
            false => "toplevel",
        },
        object,
        user,
        client: describe_own(ctx),
        at: ctx.server.clock.turn(),
    };
    let len_max = ctx.server.config.acllog_len_max;
    ctx.server.users.refused(entry, len_max);
}
