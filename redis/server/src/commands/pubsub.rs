//! Publish and subscribe: SUBSCRIBE, PSUBSCRIBE, SSUBSCRIBE and their ends, PUBLISH, PUBSUB.

use stillframe_resp::Out;

use super::{Context, Table};
use crate::connections::client::{Kind, Replies};
use crate::connections::hub::Delivery;
use crate::consensus::Message;
use stillframe_commands::Refusal;
use stillframe_commands::text::{c_string, glob};

/// Adds the commands of this module.
pub(crate) fn register(table: &mut Table) {
    table.add_server("psubscribe", |c, a| subscribe(c, a, Kind::Pattern));
    table.add_server("publish", |c, a| publish(c, a, Kind::Channel));
    table.add_server("pubsub", help);
    table.add_server("pubsub|channels", |c, a| channels(c, a, Kind::Channel));
    table.add_server("pubsub|help", help);
    table.add_server("pubsub|numpat", numpat);
    table.add_server("pubsub|numsub", |c, a| numsub(c, a, Kind::Channel));
    table.add_server("pubsub|shardchannels", |c, a| channels(c, a, Kind::Shard));
    table.add_server("pubsub|shardnumsub", |c, a| numsub(c, a, Kind::Shard));
    table.add_server("punsubscribe", |c, a| unsubscribe(c, a, Kind::Pattern));
    table.add_server("spublish", |c, a| publish(c, a, Kind::Shard));
    table.add_server("ssubscribe", |c, a| subscribe(c, a, Kind::Shard));
    table.add_server("subscribe", |c, a| subscribe(c, a, Kind::Channel));
    table.add_server("sunsubscribe", |c, a| unsubscribe(c, a, Kind::Shard));
    table.add_server("unsubscribe", |c, a| unsubscribe(c, a, Kind::Channel));
}

/// Commands that a RESP2 client with subscriptions may run.
pub(super) fn allowed_while_listening(command: &str) -> bool {
    command.ends_with("subscribe") || matches!(command, "ping" | "quit" | "reset")
}

/// `SUBSCRIBE channel...`, `PSUBSCRIBE pattern...`, `SSUBSCRIBE channel...`: one reply for each.
fn subscribe(ctx: &mut Context<'_>, args: &[&[u8]], kind: Kind) -> Result<(), Refusal> {
    let word = ["subscribe", "psubscribe", "ssubscribe"][kind as usize];
    if word == "ssubscribe" && ctx.server.ledger.in_exec {
        return Err("ERR SSUBSCRIBE isn't allowed for a DENY BLOCKING client".into());
    }
    for name in &args[1..] {
        ctx.server.hub.subscribe(ctx.session, kind, name);
        confirm(ctx, word, Some(name), kind);
    }
    Ok(())
}

/// `UNSUBSCRIBE [channel...]` and its kin: without names, all of them, and at least one reply.
fn unsubscribe(ctx: &mut Context<'_>, args: &[&[u8]], kind: Kind) -> Result<(), Refusal> {
    let word = ["unsubscribe", "punsubscribe", "sunsubscribe"][kind as usize];
    let own = ctx.session.subscriptions.as_ref().filter(|_| args.len() == 1);
    let own: Vec<_> = own.into_iter().flat_map(|own| own.names(kind)).cloned().collect();
    if args.len() == 1 && own.is_empty() {
        confirm(ctx, word, None, kind);
        return Ok(());
    }
    for name in args[1..].iter().copied().chain(own.iter().map(|name| &**name)) {
        ctx.server.hub.unsubscribe(ctx.session, kind, name);
        confirm(ctx, word, Some(name), kind);
    }
    Ok(())
}

/// Reports the begin or end of a subscription, and their number.
fn confirm(ctx: &mut Context<'_>, word: &str, name: Option<&[u8]>, kind: Kind) {
    let count = ctx.session.subscriptions.as_ref().map_or(0, |own| match kind {
        Kind::Shard => own.count(Kind::Shard),
        Kind::Channel | Kind::Pattern => own.count(Kind::Channel) + own.count(Kind::Pattern),
    });
    // The confirmation arrives like a message, even at a client that wants no replies.
    let silent = ctx.session.replies != Replies::Sent;
    let buffer = if silent { ctx.server.clients.waiting_mail() } else { &mut *ctx.out.buffer };
    let mut out = Out::new(buffer, ctx.out.protocol);
    out.push(3);
    out.bulk(word);
    out.bulk_or_null(name);
    out.integer(count as i64);
}

/// `PUBLISH channel message` and `SPUBLISH channel message`: replies how many clients receive it.
fn publish(ctx: &mut Context<'_>, args: &[&[u8]], kind: Kind) -> Result<(), Refusal> {
    let to = &mut Delivery::new(&mut ctx.server.clients, &ctx.server.config, &ctx.server.clock);
    let count = ctx.server.hub.publish(to, kind, args[1], args[2]);
    match ctx.server.group.member_mut() {
        Some(member) => {
            let [channel, payload] = [args[1], args[2]].map(<[u8]>::to_vec);
            member.publish(Message { is_sharded: kind == Kind::Shard, channel, payload });
        }
        None => ctx.server.replication.propagate(Some(ctx.session.caller.db), args),
    }
    ctx.out.integer(count as i64);
    Ok(())
}

/// `PUBSUB CHANNELS [pattern]` and `PUBSUB SHARDCHANNELS [pattern]`
fn channels(ctx: &mut Context<'_>, args: &[&[u8]], kind: Kind) -> Result<(), Refusal> {
    let pattern = match args {
        [_, _] => None,
        [_, _, pattern] => Some(*pattern),
        _ => return Err(wrong_subcommand(args)),
    };
    let fits = |name: &[u8]| pattern.is_none_or(|pattern| glob::matches(pattern, name));
    let start = ctx.out.position();
    let mut count = 0;
    for name in ctx.server.hub.pubsub().names(kind).filter(|name| fits(name)) {
        ctx.out.bulk(name);
        count += 1;
    }
    ctx.out.array_at(start, count);
    Ok(())
}

/// `PUBSUB NUMSUB [channel...]` and `PUBSUB SHARDNUMSUB [channel...]`
fn numsub(ctx: &mut Context<'_>, args: &[&[u8]], kind: Kind) -> Result<(), Refusal> {
    let names = args.get(2..).unwrap_or_default();
    ctx.out.array(names.len() * 2);
    for name in names {
        ctx.out.bulk(name);
        ctx.out.integer(ctx.server.hub.pubsub().listeners(kind, name) as i64);
    }
    Ok(())
}

/// `PUBSUB NUMPAT`: how many different patterns are subscribed to.
fn numpat(ctx: &mut Context<'_>, _args: &[&[u8]]) -> Result<(), Refusal> {
    ctx.out.integer(ctx.server.hub.pubsub().count(Kind::Pattern) as i64);
    Ok(())
}

/// The error of a sub-command that takes other arguments.
pub(super) fn wrong_subcommand(args: &[&[u8]]) -> Refusal {
    let name = c_string(args.get(1).copied().unwrap_or_default());
    let container = args.first().copied().unwrap_or_default().to_ascii_uppercase();
    let name = &name[..name.len().min(128)];
    let start = b"ERR unknown subcommand or wrong number of arguments for '";
    [start, name, b"'. Try ", &container, b" HELP."].concat().into()
}

/// `PUBSUB HELP`
fn help(ctx: &mut Context<'_>, _args: &[&[u8]]) -> Result<(), Refusal> {
    ctx.out.lines(&[
        "PUBSUB <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
        "CHANNELS [<pattern>]",
        "    List the channels that clients have subscribed to.",
        "NUMPAT",
        "    Count the patterns that clients have subscribed to.",
        "NUMSUB [<channel> ...]",
        "    Count the subscribers of each channel.",
        "SHARDCHANNELS [<pattern>]",
        "    List the shard channels that clients have subscribed to.",
        "SHARDNUMSUB [<channel> ...]",
        "    Count the subscribers of each shard channel.",
        "HELP",
        "    Print this help.",
    ]);
    Ok(())
}
