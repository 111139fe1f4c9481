//! CLUSTER, READONLY, READWRITE, ASKING: the group to which this server belongs, as clients of a
//! Redis cluster ask for it. A server without a group refuses them, as one that is no node of a
//! cluster does.

use std::fmt::Write as _;

use stillframe_commands::errors::{NOT_AN_INTEGER, SYNTAX};
use stillframe_commands::text::c_string;
use stillframe_commands::{Refusal, Slots as SlotsOf, scan_slots_by};
use stillframe_resp::{Out, parse_integer};

use super::pubsub::wrong_subcommand;
use super::{Context, Table};
use crate::consensus::{MemberView, View};
use crate::peers::group::{Group, SLOTS, slot, tag_of};

/// Redis's error outside of a cluster: clients learn from it that there is none.
pub(super) const NO_CLUSTER: Refusal =
    Refusal::new("ERR This instance has cluster support disabled");

/// Commands that change a cluster of Redis.
const CHANGES: [&str; 16] = [
    "cluster|addslots",
    "cluster|addslotsrange",
    "cluster|bumpepoch",
    "cluster|delslots",
    "cluster|delslotsrange",
    "cluster|failover",
    "cluster|flushslots",
    "cluster|forget",
    "cluster|meet",
    "cluster|migration",
    "cluster|replicate",
    "cluster|reset",
    "cluster|saveconfig",
    "cluster|set-config-epoch",
    "cluster|setslot",
    "cluster|syncslots",
];

/// Adds the commands of this module.
pub(crate) fn register(table: &mut Table) {
    table.add_server("asking", asking);
    table.add_server("readonly", readonly);
    table.add_server("readwrite", readwrite);
    table.add_server("cluster", help);
    table.add_server("cluster|count-failure-reports", count_failure_reports);
    table.add_server("cluster|countkeysinslot", count_keys_in_slot);
    table.add_server("cluster|getkeysinslot", get_keys_in_slot);
    table.add_server("cluster|help", help);
    table.add_server("cluster|info", info);
    table.add_server("cluster|keyslot", keyslot);
    table.add_server("cluster|links", links);
    table.add_server("cluster|myid", myid);
    table.add_server("cluster|myshardid", myshardid);
    table.add_server("cluster|nodes", nodes);
    table.add_server("cluster|replicas", replicas);
    table.add_server("cluster|shards", shards);
    table.add_server("cluster|slot-stats", slot_stats);
    table.add_server("cluster|slaves", replicas);
    table.add_server("cluster|slots", slots);
    table.add_server("clusterscan", clusterscan);
    CHANGES.iter().for_each(|name| table.add_server(name, change));
}

/// What is known of the group.
///
/// # Errors
/// There is none.
fn known(group: &Group) -> Result<&View, Refusal> {
    group.view().ok_or(NO_CLUSTER)
}

/// `ASKING`: every slot is where it is, so there is nothing to allow.
fn asking(ctx: &mut Context<'_>, _args: &[&[u8]]) -> Result<(), Refusal> {
    known(&ctx.server.group)?;
    ctx.out.ok();
    Ok(())
}

/// `READONLY`
fn readonly(ctx: &mut Context<'_>, _args: &[&[u8]]) -> Result<(), Refusal> {
    read_locally(ctx, true)
}

/// `READWRITE`
fn readwrite(ctx: &mut Context<'_>, _args: &[&[u8]]) -> Result<(), Refusal> {
    read_locally(ctx, false)
}

fn read_locally(ctx: &mut Context<'_>, locally: bool) -> Result<(), Refusal> {
    known(&ctx.server.group)?;
    ctx.session.reads_locally = locally;
    ctx.out.ok();
    Ok(())
}

/// What changes a cluster of Redis: the members of a group change otherwise.
fn change(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    known(&ctx.server.group)?;
    let name = c_string(args.get(1).copied().unwrap_or_default()).to_ascii_uppercase();
    let text =
        b": STILLFRAME RAFT ADD, REMOVE and TRANSFER change a group, whose leader has all slots";
    Err([b"ERR CLUSTER ", &name[..], text].concat().into())
}

/// `CLUSTER SLOTS`
fn slots(ctx: &mut Context<'_>, _args: &[&[u8]]) -> Result<(), Refusal> {
    let Context { server, out, .. } = ctx;
    let view = known(&server.group)?;
    let Some(holder) = server.group.holder() else {
        out.array(0);
        return Ok(());
    };
    let others = view.members.iter().filter(|it| it.id() != holder.id() && view.answers(it));
    let endpoints: Vec<_> = [holder].into_iter().chain(others).collect();
    out.array(1);
    out.array(2 + endpoints.len());
    out.integer(0);
    out.integer(i64::from(SLOTS) - 1);
    for member in endpoints {
        out.array(4);
        out.bulk(member.host());
        out.integer(member.port().into());
        out.bulk(server.group.node(member.id()));
        out.map(0); // no other names of the host
    }
    Ok(())
}

/// `CLUSTER SHARDS`
fn shards(ctx: &mut Context<'_>, _args: &[&[u8]]) -> Result<(), Refusal> {
    let Context { server, out, .. } = ctx;
    let view = known(&server.group)?;
    let holder = server.group.holder().map(MemberView::id);
    let first = view.members.iter().filter(|it| Some(it.id()) == holder);
    let others = view.members.iter().filter(|it| Some(it.id()) != holder);
    out.array(1);
    out.map(2);
    out.bulk("slots");
    out.array(if holder.is_some() { 2 } else { 0 });
    if holder.is_some() {
        out.integer(0);
        out.integer(i64::from(SLOTS) - 1);
    }
    out.bulk("nodes");
    out.array(view.members.len());
    for member in first.chain(others) {
        describe(out, &server.group, view, member);
    }
    Ok(())
}

/// A member as CLUSTER SHARDS shows it.
fn describe(out: &mut Out<'_>, group: &Group, view: &View, member: &MemberView) {
    let holds = group.holder().is_some_and(|holder| holder.id() == member.id());
    out.map(7);
    out.bulk("id");
    out.bulk(group.node(member.id()));
    out.bulk("port");
    out.integer(member.port().into());
    out.bulk("ip");
    out.bulk(member.host());
    out.bulk("endpoint");
    out.bulk(member.host());
    out.bulk("role");
    out.bulk(if holds { "master" } else { "replica" });
    out.bulk("replication-offset");
    out.integer(i64::try_from(member.applied()).unwrap_or(i64::MAX));
    out.bulk("health");
    out.bulk(if view.answers(member) { "online" } else { "fail" });
}

/// `CLUSTER NODES`
fn nodes(ctx: &mut Context<'_>, _args: &[&[u8]]) -> Result<(), Refusal> {
    let group = &ctx.server.group;
    let view = known(group)?;
    let text: String = view.members.iter().map(|member| line(group, view, member) + "\n").collect();
    ctx.out.verbatim(b"txt", text);
    Ok(())
}

/// The line of a member in CLUSTER NODES. Times of pings are not told: there are none.
fn line(group: &Group, view: &View, member: &MemberView) -> String {
    let (id, host, port) = (member.id(), member.host(), member.port());
    let holder = group.holder().map(MemberView::id);
    let holds = holder == Some(id);
    let answers = view.answers(member);
    let flags = [
        (id == view.id, "myself"),
        (holds, "master"),
        (!holds, "slave"),
        (!answers, "fail"),
        (!member.votes, "nofailover"),
    ];
    let flags: Vec<&str> = flags.into_iter().filter(|(is, _)| *is).map(|(_, flag)| flag).collect();
    let primary = match holder {
        Some(holder) if !holds => group.node(holder),
        _ => "-".to_owned(),
    };
    let link = if answers { "connected" } else { "disconnected" };
    let (node, flags, term) = (group.node(id), flags.join(","), view.term);
    let raft_port = member.raft_port();
    let mut line = format!("{node} {host}:{port}@{raft_port} {flags} {primary} 0 0 {term} {link}");
    if holds {
        let _ = write!(line, " 0-{}", SLOTS - 1);
    }
    line
}

/// The member that a client names.
fn named<'a>(group: &'a Group, name: &[u8]) -> Result<&'a MemberView, Refusal> {
    let mut members = known(group)?.members.iter();
    let found = members.find(|member| group.node(member.id()).as_bytes() == name);
    found.ok_or_else(|| [b"ERR Unknown node ", c_string(name)].concat().into())
}

/// `CLUSTER REPLICAS node`, or `SLAVES`
fn replicas(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    let group = &ctx.server.group;
    let view = known(group)?;
    let primary = named(group, args[2])?.id();
    if group.holder().is_none_or(|holder| holder.id() != primary) {
        return Err("ERR The specified node is not a master".into());
    }
    let others = view.members.iter().filter(|member| member.id() != primary);
    let lines: Vec<String> = others.map(|member| line(group, view, member)).collect();
    ctx.out.array(lines.len());
    lines.iter().for_each(|line| ctx.out.bulk(line));
    Ok(())
}

/// `CLUSTER COUNT-FAILURE-REPORTS node`: there are no reports but what this server sees.
fn count_failure_reports(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    let view = known(&ctx.server.group)?;
    let member = named(&ctx.server.group, args[2])?;
    let reports = i64::from(!view.answers(member));
    ctx.out.integer(reports);
    Ok(())
}

/// `CLUSTER INFO`
fn info(ctx: &mut Context<'_>, _args: &[&[u8]]) -> Result<(), Refusal> {
    let group = &ctx.server.group;
    let view = known(group)?;
    let is_up = view.leads() || group.followed().is_some();
    let assigned = if group.holder().is_some() { SLOTS } else { 0 };
    let (good, failed) = if is_up { (assigned, 0) } else { (0, assigned) };
    let text = [
        ("state", if is_up { "ok" } else { "fail" }.to_owned()),
        ("slots_assigned", assigned.to_string()),
        ("slots_ok", good.to_string()),
        ("slots_pfail", "0".to_owned()),
        ("slots_fail", failed.to_string()),
        ("known_nodes", view.members.len().to_string()),
        ("size", usize::from(assigned > 0).to_string()),
        ("current_epoch", view.term.to_string()),
        ("my_epoch", view.term.to_string()),
        ("stats_messages_sent", "0".to_owned()),
        ("stats_messages_received", "0".to_owned()),
    ];
    let mut text: String =
        text.iter().map(|(name, value)| format!("cluster_{name}:{value}\r\n")).collect();
    text.push_str("total_cluster_links_buffer_limit_exceeded:0\r\n");
    ctx.out.verbatim(b"txt", text);
    Ok(())
}

/// `CLUSTER MYID`
fn myid(ctx: &mut Context<'_>, _args: &[&[u8]]) -> Result<(), Refusal> {
    let view = known(&ctx.server.group)?;
    let own = ctx.server.group.node(view.id);
    ctx.out.bulk(own);
    Ok(())
}

/// `CLUSTER MYSHARDID`: all members are one shard.
fn myshardid(ctx: &mut Context<'_>, _args: &[&[u8]]) -> Result<(), Refusal> {
    known(&ctx.server.group)?;
    let shard = ctx.server.group.shard();
    ctx.out.bulk(shard);
    Ok(())
}

/// `CLUSTER LINKS`: members speak to each other otherwise.
fn links(ctx: &mut Context<'_>, _args: &[&[u8]]) -> Result<(), Refusal> {
    known(&ctx.server.group)?;
    ctx.out.array(0);
    Ok(())
}

/// `CLUSTER KEYSLOT key`
fn keyslot(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    known(&ctx.server.group)?;
    ctx.out.integer(slot(args[2]).into());
    Ok(())
}

/// The slot with this number, if there is one.
fn parse_slot(number: i64) -> Option<u16> {
    u16::try_from(number).ok().filter(|&slot| slot < SLOTS)
}

/// `CLUSTER COUNTKEYSINSLOT slot`: looks at every key, as no index knows their slots.
fn count_keys_in_slot(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    known(&ctx.server.group)?;
    let number = parse_integer(args[2]).ok_or(NOT_AN_INTEGER)?;
    let wanted = parse_slot(number).ok_or("ERR Invalid slot")?;
    let mut count = 0;
    ctx.keyspace.for_each(ctx.session.caller.db, i64::MIN, |entry| {
        count += i64::from(slot(entry.key()) == wanted);
    });
    ctx.out.integer(count);
    Ok(())
}

/// `CLUSTER GETKEYSINSLOT slot count`: looks at every key, too.
fn get_keys_in_slot(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    known(&ctx.server.group)?;
    let number = |word| parse_integer(word).ok_or(NOT_AN_INTEGER);
    let (wanted, most) = (number(args[2])?, number(args[3])?);
    let Some((wanted, most)) = parse_slot(wanted).zip(usize::try_from(most).ok()) else {
        return Err("ERR Invalid slot or number of keys".into());
    };
    let mut keys = Vec::new();
    ctx.keyspace.for_each(ctx.session.caller.db, i64::MIN, |entry| {
        if keys.len() < most && slot(entry.key()) == wanted {
            keys.push(entry.key().to_vec());
        }
    });
    ctx.out.array(keys.len());
    keys.iter().for_each(|key| ctx.out.bulk(key));
    Ok(())
}

/// `CLUSTERSCAN cursor [MATCH pattern] [COUNT count] [TYPE type] [SLOT slot]`: the leader has all
/// slots, so a walk goes through all its keys by cursors of one slot.
fn clusterscan(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    /// Characters of the id of this process that set its cursors apart.
    const MARK: usize = 8;
    let Context { keyspace, server, session, out, now, .. } = ctx;
    known(&server.group)?;
    let run_id = server.process.run_id();
    let slots = SlotsOf { of_key: slot, tag: tag_of, mark: run_id.get(..MARK).unwrap_or(run_id) };
    scan_slots_by(out, &args[1..], &slots, |cursor, count, show| {
        keyspace.scan(session.caller.db, cursor, count, *now, show)
    })?;
    server.ledger.note_expired_apart(keyspace);
    Ok(())
}

/// The slots that CLUSTER SLOT-STATS asks for.
enum Slots {
    /// Those from one to another.
    Range(u16, u16),
    /// The `most` slots with most keys, or with fewest.
    ByKeys { most: usize, descending: bool },
}

/// `CLUSTER SLOT-STATS SLOTSRANGE start end`, or `ORDERBY KEY-COUNT [LIMIT count] [ASC | DESC]`:
/// looks at every key, as no index knows their slots.
fn slot_stats(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    known(&ctx.server.group)?;
    let wanted = parse_slots(args)?;
    let mut counts = vec![0_i64; usize::from(SLOTS)];
    ctx.keyspace.for_each(ctx.session.caller.db, i64::MIN, |entry| {
        counts[usize::from(slot(entry.key()))] += 1;
    });
    let count = |slot: u16| counts[usize::from(slot)];
    let mut shown: Vec<u16> = (0..SLOTS).collect();
    match wanted {
        Slots::Range(first, last) => shown.retain(|slot| (first..=last).contains(slot)),
        Slots::ByKeys { most, descending } => {
            shown.sort_by_key(|&slot| if descending { -count(slot) } else { count(slot) });
            shown.truncate(most);
        }
    }
    ctx.out.array(shown.len());
    for slot in shown {
        ctx.out.array(2);
        ctx.out.integer(slot.into());
        ctx.out.map(1);
        ctx.out.bulk("key-count");
        ctx.out.integer(count(slot));
    }
    Ok(())
}

fn parse_slots(args: &[&[u8]]) -> Result<Slots, Refusal> {
    let (how, words) = args[2..].split_first().ok_or(SYNTAX)?;
    match words {
        [first, last] if how.eq_ignore_ascii_case(b"SLOTSRANGE") => {
            let slot = |word| parse_integer(word).and_then(parse_slot);
            let out_of_range = "ERR Invalid or out of range slot";
            let (first, last) = slot(first).zip(slot(last)).ok_or(out_of_range)?;
            if first > last {
                let text =
                    format!("ERR Start slot number {first} is greater than end slot number {last}");
                return Err(text.into_bytes().into());
            }
            Ok(Slots::Range(first, last))
        }
        [metric, words @ ..] if how.eq_ignore_ascii_case(b"ORDERBY") => {
            if !metric.eq_ignore_ascii_case(b"KEY-COUNT") {
                return Err("ERR Unrecognized sort metric for ORDERBY.".into());
            }
            parse_order(words)
        }
        _ => Err(wrong_subcommand(&[args[0], args[1]])),
    }
}

/// `[LIMIT count] [ASC | DESC]`
fn parse_order(mut words: &[&[u8]]) -> Result<Slots, Refusal> {
    let (mut limit, mut order) = (None, None);
    while let [word, rest @ ..] = words {
        let is_new =
            if let ([count, after @ ..], true) = (rest, word.eq_ignore_ascii_case(b"LIMIT")) {
                words = after;
                let count = parse_integer(count).filter(|count| (1..=SLOTS.into()).contains(count));
                let text = "ERR Limit has to lie in between 1 and 16384 (maximum number of slots).";
                limit.replace(count.ok_or(text)?).is_none()
            } else if word.eq_ignore_ascii_case(b"ASC") || word.eq_ignore_ascii_case(b"DESC") {
                words = rest;
                order.replace(word.eq_ignore_ascii_case(b"DESC")).is_none()
            } else {
                return Err(SYNTAX);
            };
        if !is_new {
            return Err("ERR Multiple filters of the same type are disallowed.".into());
        }
    }
    let most = limit.unwrap_or(SLOTS.into()) as usize;
    Ok(Slots::ByKeys { most, descending: order.unwrap_or(true) })
}

/// `CLUSTER HELP`
fn help(ctx: &mut Context<'_>, _args: &[&[u8]]) -> Result<(), Refusal> {
    known(&ctx.server.group)?;
    ctx.out.lines(&[
        "CLUSTER <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
        "COUNT-FAILURE-REPORTS <node-id>",
        "    Show 1 for a member out of reach, else 0.",
        "COUNTKEYSINSLOT <slot>",
        "    Count the keys of a slot; looks at every key.",
        "GETKEYSINSLOT <slot> <count>",
        "    Show so many keys of a slot; looks at every key.",
        "INFO",
        "    Show the state of the group.",
        "KEYSLOT <key>",
        "    Show the slot of a key.",
        "LINKS",
        "    Show none: members speak to each other otherwise.",
        "MYID",
        "    Show the identifier of this server.",
        "MYSHARDID",
        "    Show the identifier of the group: its members are one shard.",
        "NODES",
        "    Show the members, a line each:",
        "    <id> <ip:port@raft-port> <flags> <leader> 0 0 <term> <link> <slots>",
        "REPLICAS <node-id>",
        "    Show those who follow the leader.",
        "SHARDS",
        "    Show the members by the slots that they serve: all are the leader's.",
        "SLOT-STATS SLOTSRANGE <start> <end> | ORDERBY KEY-COUNT [LIMIT <count>] [ASC | DESC]",
        "    Count the keys of slots; looks at every key.",
        "SLOTS",
        "    Show who serves which slots, in the older form.",
        "HELP",
        "    Print this help.",
    ]);
    Ok(())
}
