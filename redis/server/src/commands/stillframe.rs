//! STILLFRAME: commands that Redis lacks. RAFT: who belongs to the group of this server.

use std::fmt::Write as _;

use stillframe_commands::errors::SYNTAX;
use stillframe_commands::{Refusal, Waiter};
use stillframe_resp::parse_integer;

use super::branches::branch;
use super::views::view;
use super::{Context, Table};
use crate::consensus::Change;
use crate::node::config::peer;

const NO_MEMBER: Refusal = Refusal::new("ERR This server belongs to no group; see raft-id");

/// Adds the commands of this module.
pub(crate) fn register(table: &mut Table) {
    table.add_server("stillframe|branch", branch);
    table.add_server("stillframe|forwarded", forwarded);
    table.add_server("stillframe|help", help);
    table.add_server("stillframe|raft", raft);
    table.add_server("stillframe|view", view);
    table.add_numbered("stillframe|branch", "stillframe|branchdb");
}

/// `STILLFRAME HELP`
fn help(ctx: &mut Context<'_>, _: &[&[u8]]) -> Result<(), Refusal> {
    ctx.out.lines(&[
        "STILLFRAME <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
        "BRANCH <db> <newdb> [REPLACE]",
        "    Make a database a copy of another, which shares with it what neither of them changes.",
        "BRANCH OPEN [FROM <id>]",
        "    Open a writable copy of the data set as it is now, or as a view or another branch has it.",
        "BRANCH USE (<id> | OFF)",
        "    Have the requests of this connection run on a branch, or again on the data set.",
        "BRANCH RUN <id> <command> [<arg> ...]",
        "    Run a command on a branch.",
        "BRANCH DIFF <id> <cursor> [MATCH <pattern>] [COUNT <count>]",
        "    Walk over the keys that a branch has changed.",
        "BRANCH CLOSE <id>",
        "    Let a branch go.",
        "BRANCH LIST",
        "    Show the open branches.",
        "FORWARDED",
        "    Mark this connection as that of a member which passes on requests of a client.",
        "RAFT STATUS",
        "    Show the group of this server, a line for each member.",
        "RAFT ADD <id> <raft host:port>/<client host:port>",
        "    Take a member into the group: a server that was started with raft-join yes.",
        "RAFT REMOVE <id>",
        "    Let a member go.",
        "RAFT TRANSFER <id>",
        "    Have another member lead.",
        "VIEW OPEN",
        "    Keep the data set as it is now, to be read by the number in the reply.",
        "VIEW SCAN <id> <cursor> [MATCH <pattern>] [COUNT <count>] [TYPE <type>]",
        "    Walk over the keys of a view, each of which is met exactly once.",
        "VIEW RUN <id> <command> [<arg> ...]",
        "    Run a command that reads keys on those of a view.",
        "VIEW CLOSE <id>",
        "    Let a view go.",
        "VIEW LIST",
        "    Show the open views.",
        "HELP",
        "    Print this help.",
    ]);
    Ok(())
}

/// `STILLFRAME FORWARDED`: this connection is not passed on again, so that no request goes in
/// circles.
fn forwarded(ctx: &mut Context<'_>, _: &[&[u8]]) -> Result<(), Refusal> {
    ctx.session.forwarded = true;
    ctx.out.ok();
    Ok(())
}

/// `STILLFRAME RAFT STATUS | ADD id addresses | REMOVE id | TRANSFER id`
fn raft(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    let word = args[2].to_ascii_lowercase();
    let number = |text: &[u8]| {
        let id = parse_integer(text).and_then(|id| u64::try_from(id).ok()).filter(|&id| id > 0);
        id.ok_or(Refusal::new("ERR The number of a member is a whole number above 0"))
    };
    let change = match (&word[..], &args[3..]) {
        (b"status", []) => return status(ctx),
        (b"add", [id, addresses]) => {
            let text = format!("{}={}", number(id)?, String::from_utf8_lossy(addresses));
            let wrong = Refusal::new("ERR Addresses are RAFT-HOST:PORT/CLIENT-HOST:PORT");
            Change::Add(peer(&text).ok_or(wrong)?)
        }
        (b"remove", [id]) => Change::Remove(number(id)?),
        (b"transfer", [id]) => Change::Transfer(number(id)?),
        _ => return Err(SYNTAX),
    };
    if !ctx.data().may_block() {
        return Err("ERR STILLFRAME RAFT is not allowed in transactions and scripts".into());
    }
    let Some(member) = ctx.server.group.member_mut() else { return Err(NO_MEMBER) };
    if !member.serves() {
        return Err(ctx.server.group.not_here());
    }
    let client = ctx.session.caller.id;
    member.change(change, client);
    ctx.keyspace.spare_expired(ctx.server.spares_expired());
    let waiter = Waiter::without_keys(&ctx.session.caller);
    ctx.server.ledger.waiters.park(client, waiter);
    ctx.session.caller.waits = true;
    Ok(())
}

fn status(ctx: &mut Context<'_>) -> Result<(), Refusal> {
    let Some(member) = ctx.server.group.member() else { return Err(NO_MEMBER) };
    let view = member.view();
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = write!(
        text,
        "id:{}\r\nrole:{}\r\nterm:{}\r\nleader:{}\r\nlast_index:{}\r\napplied_index:{}\r\n",
        view.id,
        view.role,
        view.term,
        view.leader.unwrap_or(0),
        view.last,
        view.applied
    );
    if view.changes {
        text.push_str("change:under way\r\n");
    }
    for member in &view.members {
        let role = match (view.leader == Some(member.peer.id), member.votes) {
            (true, _) => "leader",
            (false, true) => "voter",
            (false, false) => "learner",
        };
        let _ = write!(
            text,
            "member:{} raft={} client={} role={role}",
            member.peer.id, member.peer.raft, member.peer.client
        );
        if let Some(matched) = member.matched {
            let _ = write!(text, " matched={matched} lag={}", view.last.saturating_sub(matched));
        }
        if !member.reachable {
            text.push_str(" lost");
        }
        text.push_str("\r\n");
    }
    ctx.out.verbatim(b"txt", text);
    Ok(())
}
